"""Every known mistake of every assignment is caught and named; every right answer in another style is accepted."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder.accuracy import measure

ROOT = Path(__file__).parents[2]
ASSIGNMENTS = sorted(path.stem for path in (ROOT / "assignments").glob("[0-9][0-9]_*.md"))


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_the_grader_is_right_about_every_version(name: str):
    rows = measure(ROOT, name, workers=1)
    assert [row.problem for row in rows if not row.good] == []
    pieces = {row.version.piece for row in rows}
    for piece in pieces:
        mine = [row for row in rows if row.version.piece == piece]
        assert sum(not row.version.right for row in mine) >= 8, f"{piece} has too few misconceptions"
        assert sum(row.version.right for row in mine) >= 3, f"{piece} has too few right answers in other styles"


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_the_solution_gets_everything_and_the_exercise_nothing(name: str, course):
    from autograder.assignment import Assignment
    from autograder.score import Task, grade_submission

    assignment = Assignment.load(ROOT, name)
    exercise = (ROOT / "exercises" / name / f"{name}.ipynb").read_bytes()
    solved, empty = (grade_submission(Task("", assignment, data, b"key")) for data in (assignment.notebook, exercise))
    assert (solved.state, solved.score) == ("graded", solved.max_score), solved.as_json()
    assert (empty.state, empty.score) == ("graded", 0), empty.as_json()


def test_mistakes_are_named_beside_an_accelerator(course: Path):
    """In a process of its own: a backend that is registered stays."""
    script = f"""
import torch
from pathlib import Path
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
_setup_privateuseone_for_python_backend("gpu")
from autograder.assignment import Assignment
from autograder.diagnose import Diagnosis
from autograder.session import Call
x = torch.randn(3)
call = Call("double", None, "", "", (x,), {{}}, 0, True, False, result=x * x, complete=True)
print(Diagnosis(Assignment.load(Path({str(course)!r}), "01_tiny"), {{"test": [call]}}).of("test", False))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout == "You square instead of doubling.\n", run.stderr


def test_the_matrix_page_shows_what_is_not_as_it_should_be():
    from autograder.accuracy import Row, as_page
    from autograder.misconceptions import Version
    from autograder.verdict import TestResult, Verdict

    def row(right: bool, passed: bool) -> Row:
        version = Version("f", f"{right}_{passed}", right, "You f wrongly.", print, "")
        test = TestResult("t", 1.0, float(passed), passed, False, "", "You f wrongly.", "It holds", "")
        return Row("01_x", version, Verdict("", "01_x", "graded", (test,)))

    page = as_page([row(False, False), row(False, True), row(True, True), row(True, False)])
    assert page.count("caught and named<") == 1 and page.count("accepted<") == 1
    assert "f__False_True: wrong, but got full marks" in page and "f__True_False: right, but rejected" in page
    assert "<strong>1 of 2</strong> mistakes" in page


def test_one_mistake_is_named_once_and_not_taken_for_another_in_what_builds_on_it():
    from autograder.assignment import Assignment
    from autograder.build import solution_notebook
    from autograder.misconceptions import answered, read_versions
    from autograder.score import Task, grade_submission

    path = ROOT / "assignments" / "01_attention.md"
    version = next(v for v in read_versions(path) if v.name == "divided_by_k")
    notebook = answered(solution_notebook(path), {version.piece: version.source})
    task = Task("", Assignment.load(ROOT, path.stem), nbformat.writes(notebook).encode(), b"key")
    failed = [test for test in grade_submission(task).tests if not test.passed]
    assert len({test.sentence for test in failed}) > 3, "attention builds on the weights, so its tests fail too"
    assert all(version.sentence in test.diagnosis for test in failed)


def test_a_piece_that_is_right_by_itself_is_not_blamed():
    from autograder.assignment import Assignment
    from autograder.build import solution_notebook
    from autograder.misconceptions import answered
    from autograder.score import grade_submission
    from autograder.verdict import Task

    path = ROOT / "assignments" / "02_positions.md"
    solution = solution_notebook(path)
    right = next(c.source for c in solution.cells if "class RelativeBias" in c.source)
    wrong = right.replace("self.weight.size(0), self.max_distance)", "self.weight.size(0), length)")
    assert wrong != right
    notebook = nbformat.writes(answered(solution, {"RelativeBias": wrong})).encode()
    failed = [
        t for t in grade_submission(Task("", Assignment.load(ROOT, path.stem), notebook, b"key")).tests if not t.passed
    ]
    assert failed and not any("relative_buckets" in test.diagnosis for test in failed), "its own tests pass"
