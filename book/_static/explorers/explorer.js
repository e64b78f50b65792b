/* What the explorers share: controls made from a list, a drawing, a sentence that says what is seen.

   <score-explorer dk="64">fallback text</score-explorer>

   An explorer says `controls` (each one an attribute of its tag too) and `draw(values)`, which returns
   {svg or html, label, text, result}. With a wrong attribute, or without scripts, the fallback text stays. */
(() => {
  "use strict";

  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

  /* the value that an attribute gives a control, or undefined when it makes no sense */
  const read = (control, given) => {
    if (given === null) return control.value;
    if (control.kind === "switch") return ["", "true", control.name].includes(given) ? true : given === "false" ? false : undefined;
    if (control.kind === "choice") return control.options.some(([value]) => value === given) ? given : undefined;
    const number = given.trim() === "" ? NaN : Number(given);
    if (control.steps) return control.steps.includes(number) ? number : undefined;
    const whole = Number.isInteger((number - control.min) / (control.step || 1));
    return whole && number >= control.min && number <= control.max ? number : undefined;
  };

  let made = 0;

  class Explorer extends HTMLElement {
    connectedCallback() {
      if (this.values) return; /* moved within the page */
      const controls = this.controls.filter((control) => control.kind !== "button");
      const known = new Set([...controls.map((control) => control.name), "class", "id"]);
      const values = {};
      for (const { name } of this.attributes)
        if (!known.has(name) && !name.startsWith("data-")) return this.keepFallback(`unknown attribute ${name}`);
      for (const control of controls) {
        values[control.name] = read(control, this.getAttribute(control.name));
        if (values[control.name] === undefined)
          return this.keepFallback(`${control.name}="${this.getAttribute(control.name)}"`);
      }
      this.values = values;
      this.prepare?.();
      this.build();
      this.update();
    }

    keepFallback(problem) {
      this.dataset.problem = problem;
    }

    build() {
      const id = `explorer-${++made}`;
      this.classList.add("explorer", "box");
      this.setAttribute("role", "group");
      this.setAttribute("aria-label", `Explorer: ${this.name}`);
      this.innerHTML = `<p class="box-kind">Explorer · ${escape(this.name)}</p><div class="controls"></div>
        <div class="drawing"></div><p class="said" role="status" aria-live="polite"></p>`;
      this.inputs = {};
      for (const control of this.controls) {
        const label = document.createElement("label");
        const name = `${id}-${control.name}`;
        label.htmlFor = name;
        if (control.kind === "button") {
          const button = document.createElement("button");
          button.type = "button";
          button.name = control.name;
          button.textContent = control.label;
          button.addEventListener("click", () => { control.press.call(this); this.update(); });
          this.querySelector(".controls").append(button);
          continue;
        }
        if (control.kind === "choice") {
          const options = control.options.map(([value, text]) => `<option value="${value}">${escape(text)}</option>`).join("");
          label.innerHTML = `<span>${control.label}</span> <select id="${name}" name="${control.name}">${options}</select>`;
        } else if (control.kind === "switch") {
          label.innerHTML = `<input type="checkbox" id="${name}" name="${control.name}"> <span>${control.label}</span>`;
        } else {
          const [min, max, step] = control.steps ? [0, control.steps.length - 1, 1] : [control.min, control.max, control.step || 1];
          label.innerHTML = `<span>${control.label} = <output for="${name}"></output></span>
            <input type="range" id="${name}" name="${control.name}" min="${min}" max="${max}" step="${step}">`;
        }
        const input = label.querySelector("input, select");
        input.addEventListener("input", () => {
          this.values[control.name] =
            control.kind === "switch" ? input.checked
            : control.kind === "choice" ? input.value
            : control.steps ? control.steps[+input.value] : +input.value;
          this.changed?.(control.name);
          this.update();
        });
        this.inputs[control.name] = input;
        this.querySelector(".controls").append(label);
      }
    }

    update() {
      for (const control of this.controls) {
        const input = this.inputs[control.name], value = this.values[control.name];
        if (!input) continue;
        if (control.kind === "switch") input.checked = value;
        else if (control.kind === "choice") input.value = value;
        else {
          const shown = control.show ? control.show.call(this, value) : value.toLocaleString("en");
          input.value = control.steps ? control.steps.indexOf(value) : value;
          input.setAttribute("aria-valuetext", shown);
          this.querySelector(`output[for="${input.id}"]`).textContent = shown;
        }
      }
      const drawn = this.draw(this.values);
      this.result = drawn.result;
      this.querySelector(".drawing").innerHTML = drawn.html ??
        `<svg viewBox="0 0 ${drawn.width} ${drawn.height}" role="img" aria-label="${escape(drawn.label)}">${drawn.svg}</svg>`;
      this.querySelector(".said").innerHTML = drawn.text;
    }
  }

  /* uniform numbers in [0, 1) that are the same in every browser (mulberry32) */
  const uniforms = (seed) => () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normals = (seed) => {
    const uniform = uniforms(seed);
    return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  };

  /* curves in a frame with labelled axes. series: [{name, values, kind: 1 or 2}]; y runs over `range`, log10 if asked */
  const chart = ({ x, series, xlabel, ylabel, range, log = false, width = 440, height = 220, ticks, mark }) => {
    const left = 52, right = 10, top = 12, bottom = 40;
    const X = (v) => left + ((v - x[0]) / (x.at(-1) - x[0])) * (width - left - right);
    const f = log ? Math.log10 : (v) => v;
    const Y = (v) => height - bottom - ((f(v) - f(range[0])) / (f(range[1]) - f(range[0]))) * (height - top - bottom);
    const path = (values) => values.map((v, i) => `${i ? "L" : "M"}${X(x[i]).toFixed(1)} ${Y(v).toFixed(1)}`).join("");
    let svg = "";
    for (const [value, text] of ticks)
      svg += `<path class="rule" d="M${left} ${Y(value).toFixed(1)}H${width - right}"/><text x="${left - 6}" y="${Y(value).toFixed(1)}" dy=".35em" text-anchor="end">${text}</text>`;
    for (const v of [x[0], x[Math.floor(x.length / 2)], x.at(-1)])
      svg += `<text x="${X(v).toFixed(1)}" y="${height - bottom + 16}" text-anchor="middle">${v}</text>`;
    svg += `<text x="${(left + width - right) / 2}" y="${height - 4}" text-anchor="middle">${xlabel}</text>`;
    svg += `<text transform="translate(12 ${(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">${ylabel}</text>`;
    if (mark !== undefined) svg += `<path class="mark" d="M${X(mark).toFixed(1)} ${top}V${height - bottom}"/>`;
    series.forEach((one, i) => {
      svg += `<path class="curve kind-${i + 1}" d="${path(one.values)}"/>`;
      if (one.name) svg += `<path class="curve kind-${i + 1}" d="M${width - 120} ${top + 8 + 18 * i}h24"/><text x="${width - 90}" y="${top + 8 + 18 * i}" dy=".35em">${one.name}</text>`;
    });
    return { svg, width, height };
  };

  window.explorers = { Explorer, uniforms, normals, chart, data: {} };
})();
