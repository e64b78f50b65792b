/* Chapter 03. <heads-explorer layer="1" head="1">: who reads whom in a real model. Data: book/explorer_data.py. */
(() => {
  "use strict";
  const { Explorer, data } = window.explorers;
  const sentences = data.heads; /* [{tokens, weights: [layer][head][query][key] in thousandths}] */

  class HeadsExplorer extends Explorer {
    name = "attention heads of a real model (MiniLM, 6 layers of 12 heads)";
    controls = [
      { name: "sentence", kind: "choice", label: "sentence", value: "1",
        options: sentences.map((one, i) => [String(i + 1), one.text]) },
      { name: "layer", label: "layer", min: 1, max: 6, value: 3 },
      { name: "head", label: "head", min: 1, max: 12, value: 1 },
      { name: "token", label: "reading token", min: 1, max: Math.max(...sentences.map((one) => one.tokens.length)), value: 4,
        show(value) { return this.sentence().tokens[Math.min(value, this.sentence().tokens.length) - 1]; } },
    ];

    sentence() {
      return sentences[+this.values.sentence - 1];
    }

    draw({ layer, head, token }) {
      const { tokens, weights } = this.sentence();
      const rows = weights[layer - 1][head - 1].map((row) => row.map((w) => w / 1000));
      const chosen = Math.min(token, tokens.length) - 1;
      const gap = 22, height = tokens.length * gap + 34, width = 400, left = 120, right = 270;
      const Y = (i) => 36 + i * gap;
      let svg = `<text class="small" x="${left - 8}" y="14" text-anchor="end">reads</text><text class="small" x="${right + 8}" y="14">is read</text>`;
      rows.forEach((row, q) => row.forEach((w, k) => {
        if (w >= 0.02 || q === chosen)
          svg += `<path class="${q === chosen ? "read chosen" : "read"}" stroke-opacity="${(q === chosen ? w : w * 0.35).toFixed(3)}" stroke-width="${(q === chosen ? 1.5 + 4 * w : 1 + 2 * w).toFixed(2)}" d="M${left} ${Y(q)}C${left + 60} ${Y(q)} ${right - 60} ${Y(k)} ${right} ${Y(k)}"/>`;
      }));
      tokens.forEach((text, i) => {
        const share = rows[chosen][i];
        svg += `<text class="${i === chosen ? "chosen" : ""}" x="${left - 8}" y="${Y(i)}" dy=".35em" text-anchor="end">${text}</text>
          <text x="${right + 8}" y="${Y(i)}" dy=".35em">${text}${share >= 0.05 ? ` <tspan class="small">${share.toFixed(2)}</tspan>` : ""}</text>`;
      });
      const best = rows[chosen].map((w, i) => [w, tokens[i]]).sort((a, b) => b[0] - a[0]).slice(0, 3);
      const said = best.map(([w, text]) => `“${text}” ${w.toFixed(2)}`).join(", ");
      return {
        svg, width, height,
        label: `Lines from each token to the tokens it reads, in layer ${layer}, head ${head}.`,
        text: `Layer ${layer}, head ${head}: “<b>${tokens[chosen]}</b>” reads most from ${said}.`,
        result: { tokens, weights: rows, chosen },
      };
    }
  }
  customElements.define("heads-explorer", HeadsExplorer);
})();
