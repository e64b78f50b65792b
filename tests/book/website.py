"""Where the site is, which pages it has, how it is built and opened."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"


def documents() -> list[str]:
    """Every page of the book, in reading order, from _toc.yml."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    return [toc["root"]] + [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """What `make book` runs."""
    options = ["--path-output", ".", "-W", "-n", "--keep-going", "-q"]
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", ".", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@contextmanager
def quiet_pages(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages, each with a storage of its own. In the end: no console error, no failed or outside request."""
    contexts, problems = [], []

    def open_page(**options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: m.type in ("error", "warning") and problems.append(f"console {m.type}: {m.text}"))
        page.on("pageerror", lambda error: problems.append(f"script: {error}"))
        page.on("response", lambda r: r.status >= 400 and problems.append(f"{r.status} {r.url}"))
        if options.get("java_script_enabled", True):  # without scripts, preloading them "fails"
            # a page that is left while the search still reads others aborts those requests: that is no fault
            page.on("requestfailed", lambda r: "ABORTED" in (r.failure or "") or problems.append(f"failed: {r.url}"))
        local = ("http://127.0.0.1", "file:", "data:", "blob:")
        page.on("request", lambda r: r.url.startswith(local) or problems.append(f"leaves the site: {r.url}"))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not problems, "\n".join(problems)
