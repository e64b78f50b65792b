/* Chapter 10. <mlm-explorer rate="15" seed="1">: which tokens BERT has to guess, and what it is shown instead. */
(() => {
  "use strict";
  const { Explorer, uniforms } = window.explorers;
  const TOKENS = "[CLS] the river was frozen so the children walked across it to school [SEP]".split(" ");
  const OTHERS = ["bread", "green", "seven", "under", "music", "stone", "early", "told"];
  const DRAWS = 2000;

  /* choose ordinary tokens at `rate`; of the chosen 80% become [MASK], 10% another token, 10% stay */
  const hide = (tokens, rate, uniform) =>
    tokens.map((token) => {
      const [chance, fate, other] = [uniform(), uniform(), uniform()];
      if (token.startsWith("[") || chance >= rate) return { token, shown: token, fate: "untouched" };
      if (fate < 0.8) return { token, shown: "[MASK]", fate: "masked" };
      if (fate >= 0.9) return { token, shown: OTHERS[Math.floor(other * OTHERS.length)], fate: "replaced" };
      return { token, shown: token, fate: "kept" };
    });

  class MlmExplorer extends Explorer {
    name = "masking for pretraining";
    controls = [
      { name: "rate", label: "chosen", min: 5, max: 50, step: 5, value: 15, show: (value) => `${value}%` },
      { name: "seed", label: "draw", min: 1, max: 99, value: 1 },
    ];

    draw({ rate, seed }) {
      const tokens = hide(TOKENS, rate / 100, uniforms(seed));
      const count = { masked: 0, replaced: 0, kept: 0, untouched: 0 };
      const uniform = uniforms(12345);
      for (let i = 0; i < DRAWS; i++) for (const { fate } of hide(TOKENS, rate / 100, uniform)) count[fate]++;
      const chosen = count.masked + count.replaced + count.kept, ordinary = DRAWS * TOKENS.filter((t) => !t.startsWith("[")).length;
      const share = (part, whole) => `${((100 * part) / whole).toFixed(1)}%`;
      const label = { masked: "hidden", replaced: "replaced", kept: "left as it was" };
      const html = `<ol class="tokens">${tokens.map(({ token, shown, fate }) =>
        `<li class="${fate}"><span>${shown}</span>${label[fate] ? `<small>${label[fate]}: guess “${token}”</small>` : ""}</li>`).join("")}</ol>`;
      const now = tokens.filter(({ fate }) => fate !== "untouched").length;
      return {
        html,
        text: `The loss counts <b>${now}</b> of ${tokens.length} tokens here. Over ${DRAWS.toLocaleString("en")} draws <b>${share(chosen, ordinary)}</b> of the
          words were chosen; of these <b>${share(count.masked, chosen)}</b> became [MASK], <b>${share(count.replaced, chosen)}</b> another
          word, <b>${share(count.kept, chosen)}</b> stayed.`,
        result: { tokens, share: { chosen: chosen / ordinary, masked: count.masked / chosen, replaced: count.replaced / chosen, kept: count.kept / chosen } },
      };
    }
  }
  customElements.define("mlm-explorer", MlmExplorer);
})();
