/* Chapter 01. <score-explorer dk="64" scaled>: scores of one query against 16 random keys, and their softmax. */
(() => {
  "use strict";
  const { Explorer, normals } = window.explorers;
  const WIDTHS = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], KEYS = 16, PAIRS = 1000;

  const softmax = (scores) => {
    const top = Math.max(...scores), e = scores.map((s) => Math.exp(s - top)), sum = e.reduce((a, b) => a + b);
    return e.map((v) => v / sum);
  };

  class ScoreExplorer extends Explorer {
    name = "scores and softmax against the head width";
    controls = [
      { name: "dk", label: "head width <i>d<sub>k</sub></i>", steps: WIDTHS, value: 64 },
      { name: "scaled", kind: "switch", label: "divide by √<i>d<sub>k</sub></i>", value: false },
      { name: "again", kind: "button", label: "Draw again", press() { this.prepare(this.seed + 1); } },
    ];

    /* one query and its keys at the largest width; a smaller width takes the first coordinates */
    prepare(seed = 1) {
      this.seed = seed;
      const draw = normals(seed);
      const vector = () => Array.from({ length: WIDTHS.at(-1) }, draw);
      this.query = vector();
      this.keys = Array.from({ length: KEYS }, vector);
      this.variances = {};
    }

    /* variance of q·k over many fresh pairs; kept, since it takes a while at the largest width */
    variance(dk) {
      return (this.variances[dk] ??= this.measureVariance(dk));
    }

    measureVariance(dk) {
      const draw = normals(1000 * this.seed + dk);
      const scores = Array.from({ length: PAIRS }, () => {
        let sum = 0;
        for (let i = 0; i < dk; i++) sum += draw() * draw();
        return sum;
      });
      const mean = scores.reduce((a, b) => a + b) / PAIRS;
      return scores.reduce((sum, s) => sum + (s - mean) ** 2, 0) / (PAIRS - 1);
    }

    draw({ dk, scaled }) {
      const scale = scaled ? Math.sqrt(dk) : 1;
      const scores = this.keys.map((key) => {
        let sum = 0;
        for (let i = 0; i < dk; i++) sum += this.query[i] * key[i];
        return sum / scale;
      });
      const weights = softmax(scores);
      const top = Math.max(...weights);
      const entropy = -weights.reduce((sum, w) => sum + (w > 0 ? w * Math.log(w) : 0), 0);
      const variance = this.variance(dk) / scale ** 2;
      const width = 440, height = 230, base = 190, step = 404 / KEYS;
      let svg = `<path class="rule" d="M28 ${base}H434"/><path class="rule" d="M28 30H434"/>
        <text x="24" y="34" text-anchor="end">1</text><text x="24" y="${base + 4}" text-anchor="end">0</text>
        <text x="231" y="222" text-anchor="middle">weight of each of ${KEYS} keys, and its score below</text>`;
      weights.forEach((w, i) => {
        const x = 30 + i * step, tall = Math.max(0.5, w * 160);
        svg += `<rect class="bar" x="${x}" y="${base - tall}" width="${step - 4}" height="${tall}"/>
          <text class="small" x="${x + step / 2 - 2}" y="${base + 14}" text-anchor="middle">${scores[i].toFixed(Math.abs(scores[i]) < 10 ? 1 : 0)}</text>`;
      });
      const evenly = Math.log(KEYS);
      return {
        svg, width, height,
        label: `Bars of ${KEYS} softmax weights; the largest is ${top.toFixed(2)}.`,
        text: `Variance of the scores: <b>${variance.toFixed(variance < 10 ? 2 : 0)}</b> (theory: ${scaled ? 1 : dk}). Largest weight:
          <b>${top.toFixed(2)}</b>. Entropy: <b>${entropy.toFixed(2)}</b> of at most ${evenly.toFixed(2)}.
          ${top > 0.9 ? "The softmax is saturated: one key takes all." : entropy > 0.6 * evenly ? "Many keys still share." : "A few keys share."}`,
        result: { dk, scaled, query: this.query.slice(0, dk), keys: this.keys.map((k) => k.slice(0, dk)), weights, entropy, variance },
      };
    }
  }
  customElements.define("score-explorer", ScoreExplorer);
})();
