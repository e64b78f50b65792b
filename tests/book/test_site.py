"""The site as a whole: search, files without a server, the dark, paper, no scripts, weight, links."""

import html.parser
import re
import urllib.parse
import zipfile
from functools import cache
from pathlib import Path

from website import documents

PAGES = [f"{document}.html" for document in documents()]
CHAPTER = "book/01_attention.html"


def test_the_book_can_be_read_from_files(page, site):
    page.goto((site / CHAPTER).as_uri())
    page.wait_for_selector("article mjx-container")
    page.goto((site / "search.html").as_uri() + "?q=softmax")
    page.wait_for_selector("#search-results li a[href*='01_attention']")
    page.goto((site / "book/explorers.html").as_uri())
    page.locator("mask-explorer").get_by_label("layers").press("Home")
    assert page.evaluate("document.querySelector('mask-explorer').values.layers") == 1
    page.goto((site / "book/index.html").as_uri())
    assert page.locator(".offline-copy").count() == 0, "the offline copy does not hold itself"


def test_search_finds_a_word_and_search_as_you_type_too(page, address):
    page.goto(f"{address}/search.html?q=softmax")
    page.wait_for_selector("#search-results li a[href*='01_attention']")
    page.goto(f"{address}/book/index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("softmax")
    page.wait_for_selector("a[href*='01_attention']:visible")


def test_a_reader_can_choose_the_dark_and_figures_follow(new_page, address):
    page = new_page(color_scheme="light")
    page.goto(f"{address}/{CHAPTER}")
    switch = page.get_by_role("button", name="Color mode").first
    for _ in range(3):
        if page.evaluate("document.documentElement.dataset.theme") == "dark":
            break
        switch.click()
    figure = page.locator("figure img").first
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert figure.evaluate("e => getComputedStyle(e).filter").startswith("invert(1)")
    assert figure.evaluate("e => getComputedStyle(e).mixBlendMode") == "screen"


def test_a_printed_chapter_is_dark_ink_on_white_without_the_furniture(new_page, address):
    page = new_page(color_scheme="dark")
    page.goto(f"{address}/{CHAPTER}")
    page.emulate_media(media="print", color_scheme="dark")
    for text in ("article p", "article h2", "article pre span"):
        colour = page.locator(text).first.evaluate("e => getComputedStyle(e).color")
        assert max(int(part) for part in re.findall(r"\d+", colour)[:3]) < 100, f"{text} is printed in {colour}"
    assert page.locator("article figure img").first.evaluate("e => getComputedStyle(e).filter") == "none"
    for furniture in (".bd-sidebar-primary", ".bd-header-article", ".chapter-done", ".assignment .actions"):
        assert not page.locator(furniture).first.is_visible(), furniture


def test_without_scripts_explorers_are_text_and_quizzes_still_answer(new_page, address):
    page = new_page(java_script_enabled=False)
    page.goto(f"{address}/book/explorers.html")
    assert page.get_by_text("With a window of 2 tokens").is_visible()
    page.goto(f"{address}/{CHAPTER}")
    option = page.locator(".quiz-option.right").first
    option.locator("summary").click()
    assert option.get_by_text("Right.").is_visible()


def test_the_keyboard_reaches_the_parts_of_the_encoder(page, address):
    page.goto(f"{address}/book/index.html")
    part = page.locator(".encoder-map a[href='01_attention.html']")
    part.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/book/01_attention.html")


def test_the_first_page_is_light_and_the_site_fits_a_stick(page, address, site):
    sizes = []
    page.on("response", lambda response: sizes.append(int(response.headers["content-length"])))
    page.goto(f"{address}/index.html")
    page.wait_for_url("**/book/index.html")
    page.wait_for_load_state("networkidle")
    assert 0.5e6 < sum(sizes) <= 2.5e6
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file() and path.suffix != ".zip") <= 40e6


def test_the_offline_copy_holds_the_whole_site(site):
    with zipfile.ZipFile(site / "the-encoder-built.zip") as archive:
        packed = {name.partition("/")[2] for name in archive.namelist()}
        assert archive.read("the-encoder-built/book/index.html") == (site / "book/index.html").read_bytes()
    wanted = {
        str(path.relative_to(site)) for path in site.rglob("*") if path.is_file() and not path.name.startswith(".")
    }
    assert packed == wanted - {"the-encoder-built.zip"}


class Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors, self.targets = set(), []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.anchors.update(found[key] for key in ("id", "name") if found.get(key))
        self.targets.extend(found[key] for key in ("href", "src") if found.get(key))


@cache
def links(path: Path) -> Links:
    parser = Links()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def test_every_link_inside_the_book_leads_somewhere(site):
    broken = []
    for name in PAGES:
        for target in links(site / name).targets:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                continue
            path = (site / name).parent / urllib.parse.unquote(url.path) if url.path else site / name
            anchor = urllib.parse.unquote(url.fragment)
            if not path.exists() or (anchor and path.suffix == ".html" and anchor not in links(path.resolve()).anchors):
                broken.append(f"{name} → {target}")
    assert broken == []


def test_no_page_asks_another_site_for_anything(site):
    """Links may lead away; scripts, styles, images and fonts may not come from elsewhere."""
    for name in PAGES:
        text = (site / name).read_text(encoding="utf-8")
        for element in ('src="http', "src='http", 'src="//', "@import", "unpkg.com", "cdn."):
            assert element not in text, f"{name} has {element}"
