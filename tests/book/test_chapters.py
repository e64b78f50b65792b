"""What every chapter has: code that fits the page, figures that say what they show, a summary and an exercise."""

from pathlib import Path

import nbformat
import pytest

BOOK = Path(__file__).resolve().parents[2] / "book"
CHAPTERS = sorted(BOOK.glob("[0-9][0-9]_*.ipynb"))
every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
COLUMNS = 84  # what is longer is cut on the page


@every_chapter
def test_code_fits_the_page(path):
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    long = [line for c in cells for line in c.source.splitlines() if len(line) > COLUMNS]
    assert not long


@every_chapter
def test_every_figure_has_a_caption_and_says_what_it_shows(path):
    for cell in nbformat.read(path, as_version=4).cells:
        images = [o for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
        if images:
            meta = cell.metadata.get("mystnb", {})
            assert len(images) == 1, "one message a figure, one figure a cell"
            assert len(meta.get("figure", {}).get("caption", "").split()) >= 5, cell.source
            assert len(meta.get("image", {}).get("alt", "").split()) >= 8, cell.source


@every_chapter
def test_outputs_are_stored_and_none_is_an_error(path):
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert all(c.execution_count for c in cells), "run `make outputs`"
    assert not [o for c in cells for o in c.outputs if o.output_type == "error"]


@every_chapter
def test_a_chapter_ends_with_a_summary_and_its_exercise(path):
    text = "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown")
    assert "## Summary" in text and "## Further reading" in text
    assert "{quiz}" in text, "at least one quick question"
    assert "{assignment}" in text or path.stem == "00_introduction"


@every_chapter
def test_a_chapter_links_to_its_formulas_and_they_link_back(path):
    formulas = (BOOK / "formulas.md").read_text(encoding="utf-8")
    text = "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown")
    assert (path.name in formulas) == ("formula-" in text)


@every_chapter
def test_no_box_is_left_open(path):
    """A backtick in the title of a box breaks its fence: everything below would become part of it, silently."""
    for cell in nbformat.read(path, as_version=4).cells:
        for line in cell.source.splitlines() if cell.cell_type == "markdown" else []:
            if line.startswith("```"):
                assert "`" not in line.lstrip("`"), line
