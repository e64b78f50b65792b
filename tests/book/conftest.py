"""The built site, a server for it, and one browser a worker that reports everything which goes wrong on a page."""

import fcntl
import functools
import http.server
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from website import ROOT, SITE, build, quiet_pages


@pytest.fixture(scope="session")
def site() -> Path:
    """The site, built anew (in seconds when little has changed) by whichever worker comes first."""
    this_run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    done = ROOT / "_build" / ".tested"
    done.parent.mkdir(exist_ok=True)
    with done.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if file.read() != this_run:
            finished = build(ROOT)
            assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
            file.truncate(0)
            file.write(this_run)
    return SITE


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        installed = shutil.which("chromium") or shutil.which("google-chrome")  # else the one Playwright brings
        chromium = playwright.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    with quiet_pages(browser) as open_page:
        yield open_page


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    return new_page()
