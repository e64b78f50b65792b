/* Chapter 05. <gradient-explorer depth="12">: gradient norm in each layer at the start. Data: book/explorer_data.py. */
(() => {
  "use strict";
  const { Explorer, chart, data } = window.explorers;
  const measured = data.gradient; /* {depths, pre: {depth: [norm a layer]}, post: …} */
  const all = Object.values(measured.pre).concat(Object.values(measured.post)).flat();
  const low = 10 ** Math.floor(Math.log10(Math.min(...all))), high = 10 ** Math.ceil(Math.log10(Math.max(...all)));

  class GradientExplorer extends Explorer {
    name = "gradients by depth, LayerNorm before or after";
    controls = [{ name: "depth", label: "layers", steps: measured.depths, value: 12 }];

    draw({ depth }) {
      const pre = measured.pre[depth], post = measured.post[depth];
      const ticks = [];
      for (let v = low; v <= high * 1.001; v *= 10) ticks.push([v, v >= 1 ? v.toFixed(0) : String(+v.toPrecision(1))]);
      const drawn = chart({
        x: pre.map((_, i) => i + 1), series: [{ name: "post-LN", values: post }, { name: "pre-LN", values: pre }],
        xlabel: "layer, from the input to the output", ylabel: "gradient norm", range: [low, high], log: true, ticks, height: 260,
      });
      const ratio = (values) => (values[0] / values.at(-1)).toFixed(1);
      return {
        ...drawn,
        label: `Gradient norm of each of ${depth} layers: pre-LN falls towards the output, post-LN stays about level.`,
        text: `${depth} layers at initialisation, mean of ${measured.seeds} seeds. The first layer's gradient is <b>${ratio(pre)}</b>
          times the last one's with pre-LN, <b>${ratio(post)}</b> times with post-LN. The last layer's own: <b>${pre.at(-1).toFixed(3)}</b>
          with pre-LN, <b>${post.at(-1).toFixed(3)}</b> with post-LN.`,
        result: { pre, post },
      };
    }
  }
  customElements.define("gradient-explorer", GradientExplorer);
})();
