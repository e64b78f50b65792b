"""nbgrader with the course's own nbgrader_config.py gives the scores that `autograder grade` gives."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attacks import ATTACKS
from nbgrader.api import Gradebook
from tiny import NAME, answer, to_bytes, write_course

from autograder import gradebook

ROOT = Path(__file__).parents[2]
SUBMISSIONS = {
    "ada": lambda: to_bytes(answer()),
    "wrong": lambda: to_bytes(answer("def double(x): return x * x")),
    **{
        attack.name.replace(" ", "_"): attack.notebook
        for attack in ATTACKS
        if attack.name in ("patched allclose", "duplicated tests", "removed tests", "broken JSON", "odd schema")
    },
}


@pytest.fixture(scope="module")
def class_graded_twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, dict, Path]:
    """Scores by student from `nbgrader autograde` and from `autograder grade`, each with its own gradebook."""
    course = write_course(tmp_path_factory.mktemp("class"))
    shutil.copy(ROOT / "nbgrader_config.py", course)
    for student, make in SUBMISSIONS.items():
        path = course / "class" / "submitted" / student / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(make())
    env = os.environ | {"PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(*command: str) -> None:
        done = subprocess.run(command, cwd=course, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    run("nbgrader", "generate_assignment", NAME, "--force")
    run("nbgrader", "autograde", NAME)
    theirs = scores(course / "class" / "gradebook.db")
    shutil.rmtree(course / "class" / "receipts")
    run(sys.executable, "-m", "autograder", "--course", str(course), "grade", "--db", f"sqlite:///{course}/own.db")
    run("nbgrader", "generate_feedback", NAME)
    return theirs, scores(course / "own.db"), course


def scores(path: Path) -> dict[str, dict[str, float]]:
    with Gradebook(f"sqlite:///{path}") as book:
        notebook = book.find_notebook(NAME, NAME)
        return {s.student.id: {g.name: g.auto_score for g in s.grades} for s in notebook.submissions}


def test_both_ways_give_the_same_scores(class_graded_twice):
    theirs, ours, _ = class_graded_twice
    assert theirs == ours
    assert sum(ours["ada"].values()) == 6
    assert sum(ours["patched_allclose"].values()) == 3
    assert sum(ours["broken_JSON"].values()) == 0
    assert set(ours) == set(SUBMISSIONS), "no submission is dropped"


def test_feedback_of_nbgrader_shows_no_hidden_test(class_graded_twice):
    _, _, course = class_graded_twice
    pages = list((course / "class" / "feedback").rglob("*.html"))
    assert len(pages) == len(SUBMISSIONS)
    assert not any("secret message" in page.read_text() for page in pages)
    assert "You square instead of doubling" in (course / "class/feedback/wrong" / NAME / f"{NAME}.html").read_text()


def test_a_new_gradebook_has_the_schema_version_that_nbgrader_would_give_it():
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-c", "from nbgrader.api import get_alembic_version as v; print(v())"]
    theirs = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()
    assert gradebook._schema_version() == theirs
