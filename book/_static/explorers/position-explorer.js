/* Chapter 02. <position-explorer d="32" t="10">: the table of sinusoids, and the dot product of row t with every row. */
(() => {
  "use strict";
  const { Explorer, chart } = window.explorers;
  const LENGTH = 48;

  const position = (t, d) =>
    Array.from({ length: d }, (_, j) => {
      const angle = t * 10000 ** (-2 * Math.floor(j / 2) / d);
      return j % 2 ? Math.cos(angle) : Math.sin(angle);
    });

  class PositionExplorer extends Explorer {
    name = "sinusoidal positions";
    controls = [
      { name: "d", label: "model width <i>D</i>", steps: [4, 8, 16, 32, 64], value: 32 },
      { name: "t", label: "position <i>t</i>", min: 0, max: LENGTH - 1, value: 10 },
    ];

    draw({ d, t }) {
      const table = Array.from({ length: LENGTH }, (_, u) => position(u, d));
      const dots = table.map((row) => row.reduce((sum, v, j) => sum + v * table[t][j], 0));
      const width = 440, left = 52, right = 10, cell = (width - left - right) / (LENGTH - 1), tall = 150 / d;
      let svg = `<text transform="translate(12 87) rotate(-90)" text-anchor="middle">dimension</text>
        <text x="${left - 18}" y="20" text-anchor="end">0</text><text x="${left - 18}" y="162" text-anchor="end">${d - 1}</text>`;
      table.forEach((row, u) => row.forEach((v, j) => {
        svg += `<rect class="${v < 0 ? "below" : "above"}" x="${(left + (u - 0.5) * cell).toFixed(2)}" y="${(12 + j * tall).toFixed(2)}" width="${(cell + 0.3).toFixed(2)}" height="${(tall + 0.3).toFixed(2)}" fill-opacity="${Math.abs(v).toFixed(3)}"/>`;
      }));
      svg += `<rect class="frame" x="${left + (t - 0.5) * cell}" y="11" width="${cell}" height="152"/>`;
      const low = Math.min(0, ...dots), curve = chart({
        x: table.map((_, u) => u), series: [{ values: dots }], xlabel: "position u", ylabel: "p(t) · p(u)",
        range: [low, d / 2 + 0.4], ticks: [[0, "0"], [d / 2, d / 2]], width, height: 200, mark: t,
      });
      svg += `<g transform="translate(0 165)">${curve.svg}</g>`;
      const far = t >= LENGTH / 2 ? t - 8 : t + 8, near = t >= LENGTH / 2 ? t - 1 : t + 1;
      return {
        svg, width, height: 368,
        label: `Sinusoids of ${LENGTH} positions in ${d} dimensions, and a curve of dot products with position ${t}: highest there, falling to both sides.`,
        text: `With itself: <b>${dots[t].toFixed(2)}</b> = D/2. One step away: <b>${dots[near].toFixed(2)}</b>. Eight steps away:
          <b>${dots[far].toFixed(2)}</b>. Move <i>t</i>: the curve moves along and keeps its shape, because only <i>t</i> − <i>u</i> counts.`,
        result: { table, dots },
      };
    }
  }
  customElements.define("position-explorer", PositionExplorer);
})();
