"""Every page of the book, in a real browser: whole, quiet, accessible, in light and dark, wide and narrow."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page
from website import documents

PAGES = [f"{document}.html" for document in documents()]
WHEN_TYPESET = "() => document.querySelectorAll('.math').length <= document.querySelectorAll('mjx-container').length"
CHAPTER = "book/01_attention.html"


def wait_for_maths(page: Page) -> None:
    page.wait_for_function(WHEN_TYPESET)
    assert page.locator("mjx-merror").count() == 0, "a formula with an unknown macro or a missing brace"


def axe_problems(page: Page, skip: list[str], rules: list[str] | None = None) -> list[str]:
    """What axe calls serious or critical. Typeset formulas are skipped: thousands of nodes, all MathJax's own."""
    options = {"resultTypes": ["violations"], "preload": False}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    context = {"exclude": [[selector] for selector in ("mjx-container", *skip)]}
    found = Axe().run(page, context=context, options=options).response["violations"]
    return [
        f"{problem['id']}: {node['html'][:150]} {node['failureSummary']}"
        for problem in found
        if problem["impact"] in ("serious", "critical")
        for node in problem["nodes"]
    ]


@pytest.mark.parametrize("name", [*PAGES, "search.html"])
def test_every_page_is_whole_and_accessible_in_light_and_dark_and_on_a_phone(new_page, address, name):
    page = new_page(color_scheme="light")
    page.goto(f"{address}/{name}", wait_until="load")
    page.add_style_tag(content="* { transition: none !important }")
    wait_for_maths(page)
    assert axe_problems(page, skip=[]) == []
    assert page.locator("article p", has_text=re.compile(r"\|\s*:?[-–—]")).count() == 0, "a table shown as its source"

    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-theme=dark]")
    code = [] if name == CHAPTER else ["pre"]  # its colours are the same on every page, and slow to check
    assert axe_problems(page, skip=code, rules=["color-contrast"]) == []

    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390, "the page scrolls sideways"
    spoken = page.evaluate("[...document.querySelectorAll('article img')].map(image => image.alt)")
    assert [text for text in spoken if len(text.split()) < 5] == [], "a figure's alt text says what is seen"
