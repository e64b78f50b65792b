/* Chapters 10 and 12. <parameter-explorer model="bert-base">: where the parameters of BERT and its variants are. */
(() => {
  "use strict";
  const { Explorer } = window.explorers;

  /* V vocabulary, D width, L layers, F feed-forward width, P positions, S segments, E embedding width, R relative rows */
  const MODELS = {
    "bert-base": { family: "bert", text: "BERT-Base", V: 30522, D: 768, L: 12, F: 3072, P: 512, S: 2 },
    "bert-large": { family: "bert", text: "BERT-Large", V: 30522, D: 1024, L: 24, F: 4096, P: 512, S: 2 },
    "roberta-base": { family: "roberta", text: "RoBERTa-base", V: 50265, D: 768, L: 12, F: 3072, P: 514, S: 1 },
    "albert-base": { family: "albert", text: "ALBERT-base", V: 30000, D: 768, L: 12, F: 3072, P: 512, S: 2, E: 128 },
    "deberta-base": { family: "deberta", text: "DeBERTa-base", V: 50265, D: 768, L: 12, F: 3072, R: 1024 },
    "deberta-v3-base": { family: "deberta-v3", text: "DeBERTa-v3-base", V: 128100, D: 768, L: 12, F: 3072, R: 512 },
  };

  const linear = (into, out, bias = true) => into * out + (bias ? out : 0);

  const count = ({ family, V, D, L, F, P, S, E, R }, heads) => {
    const albert = family === "albert", deberta = family.startsWith("deberta");
    const width = albert ? E : D, copies = albert ? 1 : L;
    const positions = family === "deberta" ? linear(D, D) + linear(D, D, false) : 0; /* projections of relative positions */
    const parts = {
      "token embeddings": V * width,
      "positions and segments": deberta ? R * D + (family === "deberta-v3" ? 2 * D : 0) + copies * positions : (P + S) * width,
      "attention": copies * (3 * linear(D, D) + linear(D, D, family !== "deberta")),
      "feed-forward": copies * (linear(D, F) + linear(F, D)),
      "LayerNorms": 2 * width + copies * 4 * D,
    };
    if (albert) parts["widening E to D"] = linear(E, D);
    if (!deberta) parts["pooler"] = linear(D, D);
    if (heads) parts["pretraining heads"] = linear(D, width) + 2 * width + V + (family === "bert" ? linear(D, 2) : 0);
    return parts;
  };

  class ParameterExplorer extends Explorer {
    name = "parameters of BERT and its variants";
    controls = [
      { name: "model", kind: "choice", label: "start from", value: "bert-base", options: Object.entries(MODELS).map(([key, { text }]) => [key, text]) },
      { name: "d", label: "width <i>D</i>", min: 64, max: 2048, step: 64, value: 768 },
      { name: "layers", label: "layers <i>L</i>", min: 1, max: 48, value: 12 },
      { name: "ff", label: "feed-forward <i>F</i>", min: 128, max: 8192, step: 128, value: 3072 },
      { name: "heads", kind: "switch", label: "with pretraining heads", value: false },
    ];

    /* the tag's own d, layers, ff win over the model's */
    prepare() {
      this.changed("model", (name) => !this.hasAttribute(name));
    }

    changed(name, mayChange = () => true) {
      if (name !== "model") return;
      const { D, L, F } = MODELS[this.values.model];
      for (const [key, value] of Object.entries({ d: D, layers: L, ff: F })) if (mayChange(key)) this.values[key] = value;
    }

    draw({ model, d, layers, ff, heads }) {
      const parts = count({ ...MODELS[model], D: d, L: layers, F: ff }, heads);
      const total = Object.values(parts).reduce((a, b) => a + b);
      const width = 440, row = 26, most = Math.max(...Object.values(parts));
      let svg = "";
      Object.entries(parts).forEach(([name, value], i) => {
        const long = Math.max(1, (value / most) * 190), y = 4 + i * row;
        svg += `<text x="152" y="${y + 10}" dy=".35em" text-anchor="end">${name}</text><rect class="bar" x="160" y="${y}" width="${long}" height="19"/>
          <text x="${165 + long}" y="${y + 10}" dy=".35em">${value.toLocaleString("en")}</text>`;
      });
      const shared = model.startsWith("albert") ? " All layers share one set of weights: more layers cost nothing." : "";
      return {
        svg, width, height: 8 + Object.keys(parts).length * row,
        label: "Bars: parameters of each part of the model.",
        text: `<b>${total.toLocaleString("en")}</b> parameters, about ${(total / 1e6).toFixed(1)} million; the feed-forward layers hold
          ${((100 * parts["feed-forward"]) / total).toFixed(0)}%.${shared} The number of heads changes nothing.`,
        result: { parts, total },
      };
    }
  }
  customElements.define("parameter-explorer", ParameterExplorer);
})();
