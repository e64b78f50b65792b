"""Quick questions, boxes, previews, progress and the repository's buttons, on a small book made for the test."""

import io
from pathlib import Path

import pytest
import yaml
from sphinx.application import Sphinx
from website import ROOT, build

CHAPTER = r"""# A chapter

Words, and $x$ too. See {eq}`eq-far`, {term}`token` and {cite:t}`vaswani2017attention`.

```{quiz} How does $\mathrm{Var}(q \cdot k)$ grow with $K$?
- [ ] It **stays**.

  Only when divided by $\sqrt K$.

- [x] Like $K$.

  Each product adds its own variance.
```

```{lives-in} encoder.attention.attention_weights encoder.layer.EncoderLayer encoder.masks
```

```{assignment}
:minutes: 45
Build attention.
```
"""

GLOSSARY = r"""# Words

$$
a = b + c
$$ (eq-far)

```{glossary}
token
  A piece of text with a number.
```

```{bibliography}
```
"""

TOC = """
format: jb-book
root: book/index
parts:
  - numbered: 1
    chapters:
      - file: book/01_attention
  - chapters:
      - file: book/glossary
"""


def small_book(folder: Path, repository: str) -> Path:
    (folder / "book").mkdir()
    for name in ("_static", "_ext", "references.bib"):
        (folder / "book" / name).symlink_to(ROOT / "book" / name)
    (folder / "exercises").symlink_to(ROOT / "exercises")
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    config["repository"]["url"] = repository
    (folder / "_config.yml").write_text(yaml.safe_dump(config))
    (folder / "_toc.yml").write_text(TOC)
    (folder / "book/index.md").write_text("# Home\n\n```{encoder-map}\n```\n")
    (folder / "book/01_attention.md").write_text(CHAPTER)
    (folder / "book/glossary.md").write_text(GLOSSARY)
    finished = build(folder)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder / "_build" / "html" / "book"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return small_book(tmp_path_factory.mktemp("published"), "https://github.com/someone/course")


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    return small_book(tmp_path_factory.mktemp("private"), "")


@pytest.fixture
def chapter(new_page, private):
    page = new_page()
    page.goto((private / "01_attention.html").as_uri())
    page.wait_for_selector("article mjx-container")
    return page


def test_with_a_repository_buttons_and_boxes_lead_to_it(published):
    text = (published / "01_attention.html").read_text()
    repository = "github.com/someone/course"
    assert f"https://{repository}/edit/main/book/01_attention.md" in text
    assert (
        "https://colab.research.google.com/github/someone/course/blob/main/exercises/01_attention/01_attention.ipynb"
        in text
    )
    source = (ROOT / "encoder/attention.py").read_text().splitlines()
    line = next(i for i, code in enumerate(source, 1) if code.startswith("def attention_weights"))
    assert f"https://{repository}/blob/main/encoder/attention.py#L{line}-L" in text


def test_without_a_repository_nothing_leads_to_one(private):
    text = (private / "01_attention.html").read_text()
    assert "github.com" not in text and "colab" not in text
    assert "Download the notebook" in text


def test_the_exercise_can_be_downloaded(private):
    notebooks = list((private.parent / "_downloads").rglob("01_attention.ipynb"))
    original = ROOT / "exercises/01_attention/01_attention.ipynb"
    assert [path.read_bytes() for path in notebooks] == [original.read_bytes()]


def test_the_boxes_name_the_piece_and_keep_its_body_to_themselves(private):
    text = (private / "01_attention.html").read_text()
    box = text.partition('class="lives-in box"')[2].partition("</aside>")[0]
    assert "encoder/attention.py" in box and "How much each query reads from each key" in box
    assert "encoder/layer.py" in box and "encoder/masks.py" in box
    assert "softmax(-1)" not in box and "masked_fill" not in box


def test_every_option_of_a_question_answers_by_keyboard(chapter):
    quiz = chapter.get_by_role("group", name="Quick question")
    for kind, verdict in (("wrong", "Not quite."), ("right", "Right.")):
        option = quiz.locator(f".quiz-option.{kind}")
        assert not option.get_by_text(verdict).is_visible()
        option.locator("summary").focus()
        chapter.keyboard.press("Enter")
        assert option.get_by_text(verdict).is_visible()
    assert not quiz.get_by_text("Not quite.").is_visible(), "one answer at a time"


PREVIEWS = {
    "glossary.html#equation-eq-far": "a=b+c",
    "glossary.html#term-token": "A piece of text",
    "glossary.html#id": "Attention is all you need",
}


@pytest.mark.parametrize("link", PREVIEWS)
def test_links_to_equations_terms_and_references_are_previewed(chapter, link):
    anchor = chapter.locator(f"article a[data-previewed][href*='{link}']").first
    anchor.hover()
    tip = chapter.get_by_role("tooltip")
    tip.wait_for()
    if "equation" in link:
        tip.locator("mjx-container").wait_for()
        said = tip.locator("mjx-assistive-mml").text_content()  # what a screen reader gets of the typeset formula
    else:
        said = tip.inner_text()
    assert PREVIEWS[link] in said
    chapter.keyboard.press("Escape")
    assert tip.count() == 0
    anchor.focus()
    tip.wait_for()
    anchor.blur()
    assert tip.count() == 0


def test_progress_is_kept_in_the_browser_and_shown_in_the_map_and_the_contents(new_page, private):
    page = new_page()
    page.goto((private / "01_attention.html").as_uri())
    page.get_by_label("I have read this chapter").check()
    page.get_by_label("I have built it").check()
    page.goto((private / "index.html").as_uri())
    for place in (".encoder-map", ".bd-sidebar-primary"):
        assert page.locator(f"{place} a[href='01_attention.html']").get_attribute("data-done") == "read, built"
    page.goto((private / "01_attention.html").as_uri())
    assert page.get_by_label("I have read this chapter").is_checked()
    page.get_by_label("I have read this chapter").uncheck()
    page.get_by_label("I have built it").uncheck()
    page.goto((private / "index.html").as_uri())
    assert page.locator("[data-done]").count() == 0


def test_a_browser_that_forbids_storage_still_shows_the_page(browser, private):
    page = browser.new_page()  # the theme itself complains in the console
    page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('forbidden') }})")
    page.goto((private / "01_attention.html").as_uri())
    page.get_by_label("I have read this chapter").check()
    assert page.get_by_role("group", name="Quick question").is_visible()
    page.close()


def test_chapters_say_how_long_they_take(private):
    assert "About a minute to read" in (private / "01_attention.html").read_text()
    assert "to read" not in (private / "glossary.html").read_text()


def test_the_map_links_only_to_chapters_that_exist(private):
    text = (private / "index.html").read_text()
    assert 'href="01_attention.html"' in text and "02_positions.html" not in text and "data-chapter" not in text


BAD = {
    "```{quiz} Which?\n- [ ] One.\n\n  No.\n```": "mark the right option",
    "```{quiz} Which?\n- [x] One.\n- [ ] Two.\n```": "a blank line, and why",
    "```{quiz} Which?\n- One.\n\n  Yes.\n```": "a blank line, and why",
    "```{lives-in} encoder.attention.softmax\n```": "defines no softmax",
    "```{lives-in} encoder.nowhere\n```": "there is no encoder/nowhere.py",
    "```{assignment}\nBuild.\n```": "there is no exercises/index/index.ipynb",
}


@pytest.mark.parametrize("text", BAD)
def test_a_box_written_wrongly_says_so_in_one_sentence(tmp_path, monkeypatch, text):
    monkeypatch.syspath_prepend(str(ROOT / "book/_ext"))
    (tmp_path / "index.md").write_text(f"# Page\n\n{text}\n")
    said = io.StringIO()
    options = {"extensions": ["myst_parser", "course"], "html_theme": "basic"}
    out = str(tmp_path / "out")
    app = Sphinx(str(tmp_path), None, out, out, "html", confoverrides=options, status=None, warning=said)
    app.build()
    assert BAD[text] in said.getvalue() and "index.md:3" in said.getvalue()
