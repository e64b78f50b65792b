/* Chapter 07. <mask-explorer n="9" window="2" layers="2" padding="0" causal>: who may read whom, and what the centre
   hears of after L layers. */
(() => {
  "use strict";
  const { Explorer } = window.explorers;

  /* query t may read key s */
  const mask = ({ n, window: w, padding, causal }) =>
    Array.from({ length: n + padding }, (_, t) =>
      Array.from({ length: n + padding }, (_, s) => s < n && Math.abs(t - s) <= w && (!causal || s <= t)));

  /* the tokens that position c hears of after L layers; the residual connection keeps what it had */
  const heard = (allowed, c, layers) => {
    let from = new Set([c]);
    for (let l = 0; l < layers; l++) from = new Set([...from, ...[...from].flatMap((t) => allowed[t].flatMap((ok, s) => (ok ? [s] : [])))]);
    return allowed.map((_, s) => from.has(s));
  };

  class MaskExplorer extends Explorer {
    name = "masks, and how far news travels";
    controls = [
      { name: "n", label: "tokens", min: 3, max: 15, step: 2, value: 9 },
      { name: "window", label: "window <i>w</i>", min: 0, max: 14, value: 2 },
      { name: "layers", label: "layers <i>L</i>", min: 1, max: 8, value: 2 },
      { name: "padding", label: "padding", min: 0, max: 5, value: 0 },
      { name: "causal", kind: "switch", label: "causal", value: false },
    ];

    draw(values) {
      const { n, window: w, layers, padding, causal } = values;
      const allowed = mask(values), c = (n - 1) / 2, reached = heard(allowed, c, layers);
      const size = n + padding, cell = Math.min(24, 260 / size), left = 48, top = 34;
      const name = (i) => (i >= n ? "pad" : i === c ? "Q" : String.fromCharCode(97 + Math.min(i, n - 1 - i)));
      let svg = `<text x="${left + (size * cell) / 2}" y="12" text-anchor="middle">key</text>
        <text transform="translate(12 ${top + (size * cell) / 2}) rotate(-90)" text-anchor="middle">query</text>`;
      allowed.forEach((row, t) => {
        svg += `<text class="small" x="${left - 6}" y="${top + (t + 0.5) * cell}" dy=".35em" text-anchor="end">${name(t)}</text>
          <text class="small" x="${left + (t + 0.5) * cell}" y="${top - 6}" text-anchor="middle">${name(t)}</text>`;
        row.forEach((ok, s) => {
          svg += `<rect class="${ok ? "allowed" : "forbidden"}${t === c ? " centre" : ""}" x="${left + s * cell + 1}" y="${top + t * cell + 1}" width="${cell - 2}" height="${cell - 2}"/>`;
        });
      });
      const x = left + size * cell + 24;
      svg += `<text x="${x}" y="12">heard at Q after ${layers} ${layers === 1 ? "layer" : "layers"}</text>`;
      reached.forEach((ok, i) => {
        const y = top + (i + 0.5) * cell;
        svg += `<circle class="${ok ? "heard" : "deaf"}" cx="${x + 8}" cy="${y}" r="${cell * 0.3}"/><text class="small" x="${x + 22}" y="${y}" dy=".35em">${name(i)}${ok ? "" : " not heard"}</text>`;
      });
      const count = reached.filter(Boolean).length, decides = count === n;
      const why = decides ? "" : causal
        ? " A causal mask hides the right half for ever, at any depth."
        : ` L·w = ${layers * w}, and the ends are ${c} away.`;
      return {
        svg, width: 440, height: top + size * cell + 10,
        label: `A grid of ${size} queries by ${size} keys; filled cells may be read. ${count} of ${n} tokens reach the centre.`,
        text: `<b>${count} of ${n}</b> tokens reach the centre. ${decides
          ? "<b>A palindrome can be decided</b>: the centre hears of both ends."
          : `<b>A palindrome cannot be decided</b> at the centre.${why}`}`,
        result: { allowed, reached, decides },
      };
    }
  }
  customElements.define("mask-explorer", MaskExplorer);
})();
