"""What learners read: the text of `check`, and a page each: what holds, what does not, why, and what to read again.

Of a hidden test nothing is shown but its sentence and what the engine has already made harmless. Notes that the engine
keeps for the instructor never reach these pages.
"""

import json
import math
import os
import re
import textwrap
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from docutils.nodes import make_id
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.grade import Receipt, write_atomically
from autograder.verdict import TestResult, Verdict

SAID_ELSEWHERE = re.compile(r"^This comes from `\w+`: ")
NOT_TAUGHT_HERE = {"summary", "further reading", "exercise", "the exercise", "your turn"}
pages = Environment(
    loader=PackageLoader("autograder"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
pages.filters["with_code"] = lambda text: Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))


def as_text(verdict: Verdict) -> str:
    """A verdict for the terminal: what holds, what does not, and what a tutor would say."""
    lines = [f"{verdict.assignment}: {verdict.score:g} of {verdict.max_score:g} points", ""]
    shown_before = said_before(verdict)
    for test in verdict.tests:
        hidden = " (hidden)" if test.hidden else ""
        lines.append(f"  {'✓' if test.passed else '✗'} {test.score:g}/{test.points:g}  {test.sentence}{hidden}")
        if not test.passed:
            earlier = shown_before.get(test.name)
            tutor = f"The same mistake as in: {earlier.sentence}." if earlier else test.diagnosis
            for text, mark in ((test.message, ""), (tutor, "→ ")):
                for line in text.splitlines():
                    lines += textwrap.wrap(mark + line, 100, initial_indent=" " * 9, subsequent_indent=" " * 9)
    lines.append("")
    if verdict.state != "graded":
        lines += textwrap.wrap(f"{verdict.for_learner} {' '.join(verdict.notes)}", 108)
    lines.append(next_step(verdict))
    return "\n".join(lines)


def said_before(verdict: Verdict) -> dict[str, TestResult]:
    """For each failed test whose mistake an earlier one has shown: that earlier test. Nobody reads a sentence twice."""
    first: dict[str, TestResult] = {}
    before = {}
    for test in verdict.tests:
        if mistake := SAID_ELSEWHERE.sub("", test.diagnosis):
            if mistake in first:
                before[test.name] = first[mistake]
            first.setdefault(mistake, test)
    return before


def next_step(verdict: Verdict) -> str:
    failed = [test for test in verdict.tests if not test.passed]
    if not failed:
        return "Every test passes. Well done."
    first = next((test for test in failed if not test.hidden), failed[0])
    return f"Next: {first.sentence[0].lower() + first.sentence[1:]}. Mend this one first; others may follow from it."


# -- what to read --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """A section of a chapter, as words and as a place to link to."""

    title: str
    anchor: str
    words: Counter[str]


class Chapter:
    """The chapter that an assignment belongs to, and which of its sections is nearest to what went wrong."""

    def __init__(self, root: Path, name: str):
        self.root, self.name = root, name

    def _cells(self, folder: str) -> list[dict]:
        path = self.root / folder / f"{self.name}.ipynb"
        return json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []

    @cached_property
    def sections(self) -> list[Section]:
        text = "\n\n".join("".join(c["source"]) for c in self._cells("book") if c["cell_type"] == "markdown")
        if not text:
            return []
        title, _, text = text.partition("\n")
        first, *rest = re.split(r"^## (?=\S)", text, flags=re.MULTILINE)
        top = Section(title.lstrip("# "), "", _words(title + " " + first))
        parts = [part.partition("\n") for part in rest]
        # A heading says more about its section than any sentence in it.
        found = [Section(h.strip(), make_id(h), _words(f"{f'{h} ' * 3}{body}")) for h, _, body in parts]
        return [top, *(s for s in found if s.title.lower() not in NOT_TAUGHT_HERE)]

    @cached_property
    def tasks(self) -> dict[str, str]:
        """What the exercise, which every learner has, says about the task that each test belongs to."""
        tasks, task = {}, ""
        for cell in self._cells(f"exercises/{self.name}"):
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                if text.startswith("## "):  # heading and first paragraph: later ones and hints wander off
                    task = " ".join(text.split("\n\n")[:2])
            elif test := cell["metadata"].get("nbgrader", {}).get("grade_id"):
                tasks[test] = task
        return tasks

    def read_next(self, test: TestResult) -> Section | None:
        """The section that shares most with the test, by words that few sections have."""
        if not self.sections:
            return None
        said, task = _words(f"{test.sentence} {test.message} {test.diagnosis}"), _words(self.tasks.get(test.name, ""))
        query = {word: 3 * math.log1p(said[word]) + math.log1p(task[word]) for word in said | task}
        count = len(self.sections)
        rarity = {word: math.log((1 + count) / (1 + sum(word in s.words for s in self.sections))) for word in query}

        def likeness(section: Section) -> float:
            size = math.sqrt(sum(math.log1p(n) ** 2 for n in section.words.values()))
            return sum(query[w] * math.log1p(section.words[w]) * rarity[w] ** 2 for w in query) / size

        return max(self.sections, key=likeness)


def _words(text: str) -> Counter[str]:
    """Words by their first letters: mask, masks, masked and masking are one."""
    return Counter(word[:4] for word in re.findall(r"[a-z]{4,}", text.lower()))


# -- pages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """One test on the page."""

    test: TestResult
    earlier: TestResult | None  # the test that has already shown the same mistake
    section: Section | None


def as_page(verdict: Verdict, chapter: Chapter, book: str) -> str:
    """`book` is the address of the book's pages; empty when there is none to link to."""
    before = said_before(verdict)
    shown = [Item(t, before.get(t.name), None if t.passed else chapter.read_next(t)) for t in verdict.tests]
    why = verdict.tests[0].message if verdict.state == "unreadable" and verdict.tests else ""
    url = f"{book}/{chapter.name}.html" if book and chapter.sections else ""
    return pages.get_template("feedback.html").render(
        verdict=verdict, items=shown, why=why, url=url, next_step=next_step(verdict)
    )


def write_feedback(output: Path, root: Path, book: str = "") -> list[Path]:
    """A page for each receipt, from what the receipt holds. `book`: where the book is published, else the one built."""
    written = []
    for path in sorted((output / "receipts").glob("*/*.json")):
        verdict = Receipt.read(path).verdict
        page = output / "feedback" / verdict.student / verdict.assignment / f"{verdict.assignment}.html"
        built = root / "_build" / "html" / "book"
        where = book.rstrip("/") or (os.path.relpath(built, page.parent) if built.is_dir() else "")
        write_atomically(page, as_page(verdict, Chapter(root, verdict.assignment), where))
        written.append(page)
    return written
