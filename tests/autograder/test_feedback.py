"""The page a learner gets: what holds, what does not, why, what to read; nothing of a hidden test."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from attacks import ATTACKS
from tiny import NAME, answer, write_course

from autograder.assignment import Assignment
from autograder.feedback import Chapter, as_page, as_text
from autograder.verdict import TestResult, Verdict, grader_failed

ROOT = Path(__file__).parents[2]


def failed(sentence: str, diagnosis: str = "") -> TestResult:
    return TestResult("t", 1, 0, False, False, "", diagnosis, sentence, "")


def test_a_wrong_answer_gets_the_reason_the_tutor_and_the_section(grade, tmp_path):
    root = write_course(tmp_path)
    (root / "book").mkdir()
    text = "# Tiny\nWelcome.\n\n## Doubling\nTwice as much, doubled.\n\n## Affine maps\nWeight scales, bias.\n"
    cells = [{"cell_type": "markdown", "source": [text], "metadata": {}}]
    (root / "book" / f"{NAME}.ipynb").write_text(json.dumps({"cells": cells}))
    page = as_page(grade(answer("def double(x): return x * x")), Chapter(root, NAME), "https://example.org/book")
    assert "3 of 6 points" in page and "twice as much" in page and "You square instead of doubling." in page
    assert f'href="https://example.org/book/{NAME}.html#doubling"' in page and "#affine-maps" not in page


def test_no_page_shows_anything_of_a_hidden_test(grade, assignment):
    hidden = [test for test in assignment.tests if test.hidden]
    lines = {line.strip() for test in hidden for line in test.source.splitlines()[1:] if len(line.strip()) > 12}
    assert len(lines) > 8
    curious = "import inspect\ndef double(x):\n    raise ValueError(f'input {x.shape} {x.sum().item()}')"
    for notebook in (answer("def double(x): return x * x"), answer(curious), answer("def double(x): return None")):
        page = as_page(grade(notebook), Chapter(ROOT, NAME), "")
        assert "secret message" not in page and not any(line in page for line in lines)
        assert "(2, 5)" not in page and "[2, 5]" not in page, "the shape of a hidden input is part of it"


def test_one_mistake_is_explained_once_and_code_looks_like_code():
    said = "This comes from `double`: You square <b>."
    tests = [failed("First", "You square <b>."), failed("Second", said), failed("Third", "Another.")]
    tests = tuple(replace(test, name=test.sentence) for test in tests)
    verdict = Verdict("ada", NAME, "graded", tests)
    page, text = as_page(verdict, Chapter(ROOT, NAME), ""), as_text(verdict)
    assert page.count("You square &lt;b&gt;.") == 1 and text.count("You square <b>.") == 1
    assert page.count("The same mistake as in: First.") == text.count("The same mistake as in: First.") == 1
    assert "Another." in page
    alone = as_page(replace(verdict, tests=tests[1:2]), Chapter(ROOT, NAME), "")
    assert "This comes from <code>double</code>: You square &lt;b&gt;." in alone


def test_the_graders_own_fault_is_not_explained_with_its_traceback(grade, assignment):
    task = type("Task", (), {"student": "ada", "assignment": assignment})
    page = as_page(grader_failed(task, "Traceback: assert secret(hidden) == 42"), Chapter(ROOT, NAME), "")
    assert "not your fault" in page and "secret(hidden)" not in page


def test_an_unreadable_file_gets_one_reason_once(grade):
    broken = next(attack for attack in ATTACKS if attack.name == "broken JSON")
    page = as_page(grade(broken.notebook()), Chapter(ROOT, NAME), "")
    assert page.count("not valid JSON") == 1


def test_a_learners_text_is_not_html(grade):
    page = as_page(
        grade(answer("def double(x): raise ValueError('<script>alert(1)</script>')")), Chapter(ROOT, NAME), ""
    )
    assert "&lt;script&gt;alert(1)" in page and "<script" not in page


@pytest.mark.parametrize(
    ("sentence", "section"),
    [
        ("A masked key is as good as absent", "Masks, in one line"),
        ("The measured variance grows with the width until it is scaled", "What the root is for"),
        ("The weights agree with the formula written out by hand", "The formula, with shapes"),
    ],
)
def test_the_section_named_is_about_what_went_wrong(sentence, section):
    assert Chapter(ROOT, "01_attention").read_next(failed(sentence)).title == section


def test_what_the_tutor_says_outweighs_the_test(tmp_path):
    chapter = Chapter(ROOT, "01_attention")
    said = "You zero the masked weights after the softmax. Mask the scores before it: a mask forbids a key."
    assert chapter.read_next(failed("The output agrees with PyTorch", said)).title == "Masks, in one line"


def test_every_chapter_with_an_assignment_has_sections_to_name():
    names = {path.stem for path in (ROOT / "book").glob("[0-9][0-9]_*.ipynb")}
    for name in names & {path.parent.name for path in (ROOT / "solutions").glob("*/*.ipynb")}:
        titles = [section.title for section in Chapter(ROOT, name).sections]
        assert len(titles) > 3 and "Summary" not in titles
        assert Chapter(ROOT, name).tasks.keys() >= {test.name for test in Assignment.load(ROOT, name).tests}


def test_full_marks_need_no_reading(assignment):
    tests = tuple(TestResult(t.name, 1, 1, True, t.hidden, "", "", t.sentence, "") for t in assignment.tests)
    page = as_page(Verdict("ada", "01_attention", "graded", tests), Chapter(ROOT, "01_attention"), "https://e.org")
    assert "Well done" in page and "Read again" not in page
