"""The site around the pages: repository buttons, scripts where they are needed, reading times, an offline copy."""

import re
import zipfile
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment

STATIC = Path(__file__).parents[2] / "_static"
OFFLINE_COPY = "the-encoder-built.zip"
WORDS_A_MINUTE, CODE_LINES_A_MINUTE = 200, 15


def set_repository_buttons(app: Sphinx, config: Config) -> None:
    """Edit, issue and Colab buttons need an address. The theme fails, or links nowhere, when there is none."""
    theme = config.html_theme_options
    if theme.get("repository_url"):
        theme.update(use_repository_button=True, use_edit_page_button=True, use_issues_button=True)
        if theme["repository_url"].startswith("https://github.com/"):
            theme["launch_buttons"] = {"colab_url": "https://colab.research.google.com"}


def find_outdated(app: Sphinx, env: BuildEnvironment, added: set, changed: set, removed: set) -> list[str]:
    """All pages, when the list of pages (which each of them shows), a style, a script or this extension has changed.

    Sphinx alone would keep the old list on the other pages, and would not even copy a changed style.
    """
    own = sorted(path for folder in (STATIC, STATIC.with_name("_ext")) for path in folder.rglob("*.*"))
    state = [(str(path), path.stat().st_mtime_ns) for path in own if path.suffix in (".css", ".js", ".py", ".svg")]
    same = getattr(env, "course_state", None) == state
    env.course_state = state
    return [] if same and not added and not removed else sorted(env.found_docs)


def remove_thebe(app: Sphinx, config: Config) -> None:
    """Jupyter Book always loads it; it adds scripts, two of them from a CDN, and an error to every page."""
    for listeners in app.events.listeners.values():
        for listener in [one for one in listeners if one.handler.__module__ == "sphinx_thebe"]:
            app.disconnect(listener.id)


def choose_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None
) -> None:
    """Keep each script once and MathJax to pages with formulas; add each explorer where its tag occurs."""
    body = context.get("body", "")
    seen = set()
    for script in list(context["script_files"]):
        text = getattr(script, "attributes", {}).get("body") or str(getattr(script, "filename", script))
        if text in seen or ("mathjax" in text.lower() and 'class="math' not in body):
            context["script_files"].remove(script)
        seen.add(text)
    # thebe's listeners are gone (remove_thebe), and with them the file of this style
    context["css_files"][:] = [sheet for sheet in context["css_files"] if "thebe" not in str(sheet.filename)]
    explorers = STATIC / "explorers"
    used = [path.stem for path in sorted(explorers.glob("*-explorer.js")) if f"<{path.stem}" in body]
    names = ["explorer"] + [name for tag in used for name in (f"{tag}.data", tag)] if used else []
    for name in names:
        if (explorers / f"{name}.js").exists():
            app.add_js_file(f"explorers/{name}.js", loading_method="defer", priority=900)


def add_reading_time(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None
) -> None:
    if doctree is None or not re.match(r"\d\d_", Path(pagename).name):
        return
    code = [block.astext() for block in doctree.findall(nodes.literal_block)]
    words = len(doctree.astext().split()) - sum(len(text.split()) for text in code)
    lines = sum(text.count("\n") + 1 for text in code)
    minutes = round(words / WORDS_A_MINUTE + lines / CODE_LINES_A_MINUTE)
    fact = f'</h1>\n<p class="reading-time">About {f"{minutes} minutes" if minutes > 1 else "a minute"} to read</p>'
    context["body"] = context["body"].replace("</h1>", fact, 1)


def mend_bibliography(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None
) -> None:
    """docutils calls the entries doc-biblioentry, a role that is gone from ARIA; a list of them then has no items."""
    if doctree is not None:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


def pack(app: Sphinx, exception: Exception | None) -> None:
    """Zip the finished site: the same bytes for the same pages. Source maps are for the theme's authors."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for leftover in out.glob("_static/**/*.map"):
        leftover.unlink()
    with zipfile.ZipFile(out / OFFLINE_COPY, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(out.rglob("*")):
            inside = path.relative_to(out)
            if path.is_file() and not inside.name.startswith(".") and inside.name != OFFLINE_COPY:
                entry = zipfile.ZipInfo(f"the-encoder-built/{inside}", date_time=(2026, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())


def setup(app: Sphinx) -> None:
    app.connect("config-inited", remove_thebe)
    app.connect("config-inited", set_repository_buttons)
    app.connect("env-get-outdated", find_outdated)
    app.connect("html-page-context", add_reading_time, priority=600)
    app.connect("html-page-context", mend_bibliography, priority=600)
    app.connect("html-page-context", choose_scripts, priority=900)
    app.connect("build-finished", pack)
