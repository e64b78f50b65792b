/* Progress kept in the browser, and hover previews. The pages read well without it. */
(() => {
  "use strict";

  /* progress: {"chapter 01_attention": true, "assignment 01_attention": true} */
  const KEY = "the-encoder-built";
  const load = () => {
    try {
      return JSON.parse(localStorage.getItem(KEY)) || {};
    } catch {
      return {}; /* storage forbidden, or not ours */
    }
  };
  const save = (done) => {
    try {
      localStorage.setItem(KEY, JSON.stringify(done));
    } catch {
      /* storage forbidden: the tick lasts as long as the page */
    }
  };
  const stemOf = (href) => (href.match(/(\d\d_\w+)\.html/) || [])[1];

  const showProgress = () => {
    const done = load();
    for (const link of document.querySelectorAll(".bd-sidebar-primary a.reference, .encoder-map a")) {
      const stem = stemOf(link.href.baseVal ?? link.href) || (link.getAttribute("href") === "#" && stemOf(location.pathname));
      if (!stem) continue;
      const said = [done["chapter " + stem] && "read", done["assignment " + stem] && "built"].filter(Boolean).join(", ");
      if (said) link.dataset.done = said;
      else delete link.dataset.done;
    }
  };

  const doneSwitch = (what, text) => {
    const label = document.createElement("label");
    label.className = "done-switch";
    label.innerHTML = `<input type="checkbox"> ${text}`;
    const box = label.querySelector("input");
    box.checked = Boolean(load()[what]);
    box.addEventListener("change", () => {
      const done = load();
      done[what] = box.checked;
      save(done);
      showProgress();
    });
    return label;
  };

  const addProgress = () => {
    const stem = stemOf(location.pathname);
    for (const box of document.querySelectorAll("[data-assignment]"))
      box.querySelector(".actions").append(doneSwitch("assignment " + box.dataset.assignment, "I have built it"));
    const article = document.querySelector(".bd-article");
    if (stem && article) {
      const end = document.createElement("p");
      end.className = "chapter-done";
      end.append(doneSwitch("chapter " + stem, "I have read this chapter"));
      article.append(end);
    }
    showProgress();
  };

  /* previews: every link with a <template data-preview="its href"> */
  const addPreviews = () => {
    const contents = new Map();
    for (const template of document.querySelectorAll("template[data-preview]"))
      contents.set(template.dataset.preview, template.content);
    let tip, timer;
    const hide = () => {
      clearTimeout(timer);
      tip?.remove();
      tip = null;
    };
    const show = (link, content) => {
      hide();
      tip = document.createElement("div");
      tip.className = "preview";
      tip.id = "preview";
      tip.setAttribute("role", "tooltip");
      tip.append(content.cloneNode(true));
      tip.addEventListener("mouseleave", hide);
      document.body.append(tip);
      link.setAttribute("aria-describedby", "preview");
      const place = () => {
        if (!tip) return;
        const at = link.getBoundingClientRect(), width = document.documentElement.clientWidth;
        const below = at.bottom + 6 + tip.offsetHeight < innerHeight || at.top < tip.offsetHeight + 6;
        tip.style.left = scrollX + Math.max(8, Math.min(at.left, width - tip.offsetWidth - 8)) + "px";
        tip.style.top = scrollY + (below ? at.bottom + 6 : at.top - tip.offsetHeight - 6) + "px";
      };
      place();
      if (tip.querySelector(".math")) window.MathJax?.typesetPromise?.([tip]).then(place);
    };
    for (const link of document.querySelectorAll(".bd-article a[href]:not(.headerlink)")) {
      const content = contents.get(link.getAttribute("href"));
      if (!content) continue;
      link.removeAttribute("title"); /* the preview says it */
      link.dataset.previewed = "";
      link.addEventListener("mouseenter", () => { timer = setTimeout(() => show(link, content), 150); });
      link.addEventListener("mouseleave", () => setTimeout(() => tip?.matches(":hover") || hide(), 100));
      link.addEventListener("focus", () => show(link, content));
      link.addEventListener("blur", hide);
    }
    document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  };

  /* excerpts in search results are fetched from the pages, which a browser forbids to files */
  if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  const start = () => {
    addProgress();
    addPreviews();
    /* a copy that is being read offline does not hold itself */
    if (location.protocol === "file:") document.querySelector(".offline-copy")?.closest("li").remove();
  };
  document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", start) : start();
})();
