"""Answers built alike are shown; answers that merely are right are not."""

import nbformat
import pytest
from tiny import NAME, answer

from autograder.similar import find_pairs, runs, similar, write_page

ODD = """def double(x):
    pieces = []
    for row in x.reshape(-1):
        if row > 0:
            pieces.append(row + abs(row))
        else:
            pieces.append(row * 3 - row)
    return torch.stack(pieces).reshape(x.shape)"""
RENAMED = '''def double(values: Tensor) -> Tensor:
    """Twice as much."""
    out = []
    for v in values.reshape(-1):  # one by one
        if v > 0:
            out.append(v + abs(v))
        else:
            out.append(v * 3 - v)

    return torch.stack(out).reshape(values.shape)'''
OTHER = """def double(x):
    total = torch.zeros_like(x)
    for _ in range(2):
        total = total + x
    if total.dtype != x.dtype:
        raise TypeError("dtype changed")
    return total"""


def test_names_comments_and_annotations_do_not_matter():
    assert runs(ODD).keys() == runs(RENAMED).keys() and len(runs(ODD)) > 20
    assert runs(ODD).keys() != runs(ODD.replace("* 3", "* 4")).keys()
    assert not runs(ODD).keys() & runs(OTHER).keys()


def test_an_unusual_answer_that_two_share_is_shown_side_by_side():
    answers = {"ada": ODD, "bob": OTHER, "eve": RENAMED}
    (pair,) = similar(answers, [], "double")
    assert {pair.left.student, pair.right.student} == {"ada", "eve"} and pair.likeness == 1
    assert [line for line, _ in pair.left.lines] == ODD.splitlines()
    marked = [line.strip() for line, same in pair.right.lines if same]
    assert "out.append(v * 3 - v)" in marked and '"""Twice as much."""' not in marked


@pytest.mark.parametrize("why", ["reference", "class"])
def test_what_everybody_would_write_is_no_evidence(why):
    answers = {"ada": ODD, "eve": RENAMED, "bob": OTHER}
    if why == "class":
        answers |= {f"s{i}": ODD for i in range(10)}
    assert similar(answers, [ODD] if why == "reference" else [], "double") == []


def test_broken_code_is_passed_over():
    assert similar({"ada": ODD, "bob": "def double(x:", "eve": "\x00"}, [], "double") == []


def test_the_page_asks_and_does_not_judge(course, tmp_path):
    for student, code in {"ada": ODD, "bob": OTHER, "eve": RENAMED, "<b>": OTHER.replace("total", "t")}.items():
        path = tmp_path / "submitted" / student / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(answer(code), path)
    (tmp_path / "submitted" / "paul" / NAME).mkdir(parents=True)
    pairs = find_pairs(course, tmp_path / "submitted", NAME)
    assert {frozenset((p.left.student, p.right.student)) for p in pairs} == {
        frozenset(["<b>", "bob"]),
        frozenset(("ada", "eve")),
    }
    page = write_page(course, tmp_path / "submitted", tmp_path, NAME).read_text()
    assert "Did ada and eve work together on" in page and "talk before you conclude" in page
    assert "<b>" not in page and "plagiar" not in page.lower() and "cheat" not in page.lower()
