"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const BINS = 10;
  const share = (student) => student.score / (data.max || 1);
  const bin = (student) => Math.min(BINS - 1, Math.floor(share(student) * BINS));
  const label = (student) => student.name || student.id;
  const points = (value) => String(Math.round(value * 100) / 100);
  const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const handedIn = data.students.filter((s) => s.state !== "nothing handed in");

  // Everything that comes from a submission is put in as text, never as HTML.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "style") element.style.cssText = value;
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }
  // `names` in a sentence look like code
  const prose = (text) => text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? make("code", {}, part) : part));
  const badge = (state) => make("span", { class: state === "graded" ? "state calm" : "state" }, state);

  // ---- one filter at a time from the charts, beside search and state
  let chosen = null; // {text, test: student → boolean, button}
  function choose(text, test, button) {
    const same = chosen && chosen.text === text;
    if (chosen && chosen.button) chosen.button.setAttribute("aria-pressed", "false");
    chosen = same ? null : { text, test, button };
    if (!same && button) button.setAttribute("aria-pressed", "true");
    at("clear").hidden = !chosen;
    at("clear").textContent = chosen ? `${chosen.text} ✕` : "";
    at("clear").setAttribute("aria-label", chosen ? `Remove the filter: ${chosen.text}` : "");
    refresh();
  }

  // ---- dialogs
  function open(title, ...body) {
    at("dialog-title").textContent = title;
    at("dialog-body").replaceChildren(...body);
    if (!at("dialog").open) at("dialog").showModal();
  }
  const studentButton = (s) => make("button", { type: "button", class: "plain", onclick: () => openStudent(s) }, label(s));

  function openStudent(s) {
    const late = s.late ? ` Handed in ${s.late} days late, ${points(s.penalty)} points taken off.` : "";
    const body = [make("p", {}, badge(s.state), ` ${points(s.score)} of ${points(data.max)} points.${late}`)];
    if (s.name) body.push(make("p", { class: "soft" }, s.id));
    if (s.eye) body.push(make("p", { class: "details" }, s.eye));
    if (s.change) body.push(make("p", {}, `Since the last grading: ${s.change}`));
    const failed = s.failed.map(([test, text, misconception]) => {
      const item = make("li", {}, `${test + 1}. ${data.tests[test].sentence}`);
      if (data.texts[text]) item.append(make("span", { class: "details" }, data.texts[text]));
      if (misconception >= 0) item.append(make("blockquote", {}, ...prose(data.misconceptions[misconception].sentence)));
      return item;
    });
    if (failed.length) body.push(make("h3", {}, "Not passed"), make("ul", {}, ...failed));
    open(label(s), ...body);
  }

  function openMisconception(number, test) {
    const { sentence, piece } = data.misconceptions[number];
    const holds = (s) => s.failed.some(([t, , m]) => m === number && (test === null || t === test));
    const who = data.students.filter(holds);
    const where = test === null ? "" : ` Shown by test ${test + 1}: ${data.tests[test].sentence}.`;
    const list = () => { at("dialog").close(); choose(`${piece}: misconception ${number + 1}`, holds, null); at("h-students").scrollIntoView(); };
    open(
      `${count(who.length, "student")}: ${piece}`,
      make("blockquote", {}, ...prose(sentence)),
      make("p", { class: "soft" }, where),
      make("ul", { class: "people" }, ...who.map((s) => make("li", {}, studentButton(s)))),
      make("p", {}, make("button", { type: "button", onclick: list }, "List them in the table")),
    );
  }

  // ---- numbers on top
  function drawNumbers() {
    const sorted = handedIn.map(share).sort((a, b) => a - b);
    const n = sorted.length;
    const percent = (x) => (n ? `${Math.round(100 * x)}%` : "–");
    const median = n ? (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2 : 0;
    const numbers = {
      students: data.students.length,
      "handed in": n,
      mean: percent(sorted.reduce((a, b) => a + b, 0) / n),
      median: percent(median),
      "full marks": sorted.filter((x) => x >= 1).length,
      late: data.students.filter((s) => s.late > 0).length,
      "to look at": data.students.filter((s) => s.eye).length,
    };
    at("made").textContent = `${points(data.max)} points · made on ${data.made}`;
    at("numbers").append(...Object.entries(numbers).map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, String(v)))));
  }

  function drawDistribution() {
    const bins = Array.from({ length: BINS }, (_, i) => handedIn.filter((s) => bin(s) === i).length);
    const most = Math.max(1, ...bins);
    bins.forEach((n, i) => {
      const range = `${i * 10}–${i * 10 + 10}%`;
      const button = make("button", { type: "button", "aria-pressed": "false", "aria-label": `${range}: ${count(n, "student")}` },
        make("span", {}, n ? String(n) : ""),
        make("i", { style: `height: ${(78 * n) / most}%` }),
        make("span", { class: "from" }, String(i * 10)));
      button.addEventListener("click", () => choose(`${range} of the points`, (s) => s.state !== "nothing handed in" && bin(s) === i, button));
      at("distribution").append(button);
    });
  }

  function drawEye() {
    const wanted = data.students.filter((s) => s.eye);
    const missing = data.students.length - handedIn.length;
    const items = wanted.map((s) => make("li", {}, studentButton(s), " ", badge(s.state), make("span", { class: "details" }, s.eye.length > 240 ? `${s.eye.slice(0, 240)}…` : s.eye)));
    at("eye").append(
      wanted.length ? make("ul", { tabindex: "0", "aria-label": "Submissions to look at" }, ...items) : make("p", {}, "Nothing: every submission was graded without incident."),
      make("p", { class: "soft" }, missing ? `${count(missing, "student")} handed in nothing.` : ""));
  }

  function drawTests() {
    data.tests.forEach((test, i) => {
      const passed = handedIn.filter((s) => s.passed.includes(i)).length;
      const rate = handedIn.length ? Math.round((100 * passed) / handedIn.length) : 0;
      const name = make("span", {}, test.sentence, test.hidden ? " " : "");
      if (test.hidden) name.append(make("span", { class: "tag" }, "hidden"));
      const button = make("button", { type: "button", "aria-pressed": "false" }, name,
        make("span", { class: "bar", "aria-hidden": "true" }, make("i", { style: `width: ${rate}%` })),
        make("span", { class: "rate" }, `${rate}%`));
      button.addEventListener("click", () => choose(`not passed: test ${i + 1}`, (s) => s.failed.some(([t]) => t === i), button));
      at("tests").append(make("li", {}, button));
    });
  }

  function drawHeat() {
    const cells = data.misconceptions.map(() => data.tests.map(() => 0));
    const holders = data.misconceptions.map(() => new Set());
    for (const s of data.students) for (const [test, , m] of s.failed) if (m >= 0) { cells[m][test] += 1; holders[m].add(s.id); }
    const order = holders.map((set, m) => [set.size, m]).sort((a, b) => b[0] - a[0]);
    const columns = data.tests.map((_, t) => t).filter((t) => cells.some((row) => row[t]));
    const most = Math.max(1, ...cells.flat());
    if (!order.length) return at("heat").replaceWith(make("p", {}, "No known misconception was found."));
    const head = make("tr", {}, make("th", { scope: "col" }, "what the tutor says"), make("th", { scope: "col" }, "students"),
      ...columns.map((t) => make("th", { scope: "col", title: data.tests[t].sentence }, String(t + 1))));
    const body = order.map(([n, m]) => make("tr", {},
      make("th", { scope: "row" }, make("button", { type: "button", class: "plain", onclick: () => openMisconception(m, null) },
        make("span", { class: "clipped" }, ...prose(data.misconceptions[m].sentence)))),
      make("td", {}, String(n)),
      ...columns.map((t) => {
        const value = cells[m][t];
        if (!value) return make("td");
        const strength = 0.12 + (0.88 * value) / most;
        const ink = strength > 0.55 ? "var(--paper)" : "var(--ink)";
        return make("td", {}, make("button", {
          type: "button", style: `background: rgb(var(--heat) / ${strength > 0.55 ? Math.max(strength, 0.85) : strength}); color: ${ink}`,
          "aria-label": `${count(value, "student")}, test ${t + 1}`, onclick: () => openMisconception(m, t),
        }, String(value)));
      })));
    at("heat").append(make("thead", {}, head), make("tbody", {}, ...body));
  }

  function drawChanges() {
    const changed = data.students.filter((s) => s.change);
    const text = data.before === null ? "This is the first grading." : `Compared with ${data.before}: ${count(changed.length, "change")}.`;
    at("changes").append(make("p", { class: "soft" }, text));
    if (changed.length) at("changes").append(make("ul", { tabindex: "0", "aria-label": "Changes" }, ...changed.map((s) => make("li", {}, studentButton(s), ` ${s.change}`))));
  }

  // ---- the table
  const columns = [
    ["student", (s) => label(s), (s) => make("span", {}, studentButton(s), s.name ? make("span", { class: "soft" }, ` ${s.id}`) : "")],
    ["points", (s) => s.score, (s) => points(s.score)],
    ["tests", (s) => s.passed.length, strip],
    ["state", (s) => s.state, (s) => badge(s.state)],
    ["days late", (s) => s.late, (s) => (s.late ? points(s.late) : "")],
    ["change", (s) => s.change, (s) => s.change],
  ];
  function strip(s) {
    const total = s.passed.length + s.failed.length;
    if (!total) return "";
    const passed = new Set(s.passed);
    return make("span", { class: "strip", role: "img", "aria-label": `${s.passed.length} of ${total} tests passed` },
      ...data.tests.map((_, i) => make("i", passed.has(i) ? {} : { class: "no" })));
  }

  const rows = data.students.map((student) => ({
    student,
    text: `${student.id} ${student.name}`.toLowerCase().normalize("NFC"),
    element: make("tr", {}, ...columns.map(([, , draw]) => make("td", {}, draw(student)))),
  }));
  let sortedBy = 0, direction = 1;
  const compare = new Intl.Collator(undefined, { numeric: true }).compare;

  function visible() {
    const wanted = at("search").value.trim().toLowerCase().normalize("NFC");
    const state = at("state").value;
    return rows.filter(({ student, text }) => text.includes(wanted) && (!state || student.state === state) && (!chosen || chosen.test(student)));
  }
  function refresh() {
    const shown = visible();
    at("students").tBodies[0].replaceChildren(...shown.map((row) => row.element));
    at("shown").textContent = `${shown.length} of ${count(rows.length, "student")}`;
  }
  function sortBy(number) {
    direction = number === sortedBy ? -direction : 1;
    sortedBy = number;
    const key = columns[number][1];
    rows.sort((a, b) => {
      const [x, y] = [key(a.student), key(b.student)];
      return direction * (typeof x === "number" ? x - y : compare(x, y)) || compare(a.student.id, b.student.id);
    });
    [...at("students").tHead.rows[0].cells].forEach((cell, i) => {
      if (i === number) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    });
    refresh();
  }
  function drawTable() {
    const head = columns.map(([name], i) => make("th", { scope: "col" }, make("button", { type: "button", onclick: () => sortBy(i) }, name)));
    at("students").append(make("thead", {}, make("tr", {}, ...head)), make("tbody"));
    const states = [...new Set(data.students.map((s) => s.state))].sort();
    at("state").append(make("option", { value: "" }, "all"), ...states.map((s) => make("option", { value: s }, s)));
    direction = -1;
    sortBy(0);
  }

  function exportTable() {
    // A spreadsheet takes a cell that begins like this for a formula.
    const cell = (value) => `"${String(value).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
    const lines = visible().map(({ student: s }) => [s.id, s.name, s.score, data.max, s.state, s.late, s.penalty, s.passed.length, s.change].map(cell).join(","));
    const head = "student,name,points,max_points,state,days_late,late_penalty,tests_passed,change";
    const url = URL.createObjectURL(new Blob([`\ufeff${[head, ...lines].join("\r\n")}\r\n`], { type: "text/csv" }));
    make("a", { href: url, download: `${data.assignment}.csv` }).click();
    URL.revokeObjectURL(url);
  }

  drawNumbers(); drawDistribution(); drawEye(); drawTests(); drawHeat(); drawChanges(); drawTable();
  at("search").addEventListener("input", refresh);
  at("state").addEventListener("change", refresh);
  at("clear").addEventListener("click", () => choose(chosen.text));
  at("export").addEventListener("click", exportTable);
})();
