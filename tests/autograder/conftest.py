"""Fixtures for the grader's own tests."""

import hmac
from pathlib import Path

import nbformat
import pytest
from tiny import LIMITS, NAME, answer, to_bytes, write_course

from autograder.assignment import Assignment
from autograder.sandbox import Limits, start_zygote
from autograder.score import Task, Verdict, grade_submission


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    start_zygote()
    return write_course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="session")
def assignment(course: Path) -> Assignment:
    return Assignment.load(course, NAME)


@pytest.fixture(scope="session")
def grade(assignment: Assignment):
    """Grade a notebook (or raw bytes) in the sandbox."""

    def run(notebook: nbformat.NotebookNode | bytes | None, **options) -> Verdict:
        data = to_bytes(notebook) if isinstance(notebook, nbformat.NotebookNode) else notebook
        secret = hmac.digest(b"key of the tests", data or b"", "sha256")
        options = {"limits": LIMITS, **options}
        return grade_submission(Task("ada", assignment, data, secret, **options))

    run(answer(), limits=Limits())  # the first one pays for what is imported only once
    return run
