"""The only writer of the gradebook: verdicts go into nbgrader's database through nbgrader's own API."""

import logging
import os
import warnings
from pathlib import Path

import nbformat
import nbgrader.api
from alembic.config import Config
from alembic.script import ScriptDirectory
from nbgrader.api import Comment, Grade, Gradebook, MissingEntry, Student, SubmittedAssignment, SubmittedNotebook
from nbgrader.preprocessors import ClearSolutions, ComputeChecksums, LockCells, SaveCells
from nbgrader.utils import parse_utc
from sqlalchemy.exc import SAWarning, SQLAlchemyError

from autograder import Problem
from autograder.assignment import Assignment
from autograder.verdict import Verdict

COURSE = "encoder"  # as in nbgrader_config.py
log = logging.getLogger("autograder")


def _schema_version() -> str:
    config = Config()
    config.set_main_option("script_location", str(Path(nbgrader.__file__).with_name("alembic")))
    return ScriptDirectory.from_config(config).get_current_head() or ""


# nbgrader starts the program `alembic` to ask for this: 1.4 s for a new gradebook, and it must be on the PATH.
nbgrader.api.get_alembic_version = _schema_version


class Book:
    """nbgrader's gradebook, open for one grading run."""

    def __init__(self, url: str):
        # SQLAlchemy 2.1 would take `postgresql://` for a driver that is not installed
        self.url = url = url.replace("postgresql://", "postgresql+psycopg2://", 1)
        warnings.filterwarnings("ignore", category=SAWarning)  # nbgrader adds objects in a way SQLAlchemy 2.1 frowns at
        path = Path(url.removeprefix("sqlite:///"))
        try:
            if url.startswith("sqlite:///") and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                new = path.with_name(f".{path.name}.{os.getpid()}")
                Gradebook(f"sqlite:///{new}", COURSE).close()
                os.replace(new, path)  # a half-made gradebook would never be completed
            self.api = Gradebook(url, COURSE)
        except SQLAlchemyError as problem:
            reason = str(getattr(problem, "orig", None) or problem).partition("\n")[0]
            raise Problem(f"the gradebook {url.rpartition('@')[2]} cannot be used: {reason}") from None
        self.known: dict[str, tuple] = {}

    def __enter__(self) -> "Book":
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()

    def add_assignment(self, assignment: Assignment) -> None:
        """Make the gradebook's cells those of the assignment, as `nbgrader generate_assignment` does."""
        self.api.update_or_create_assignment(assignment.name)
        if self._has_cells(assignment):
            return
        try:
            known = self.api.find_notebook(assignment.name, assignment.name)
        except MissingEntry:
            known = None
        if known and known.submissions:
            # nbgrader refuses to change the tests of an assignment that has submissions; every score is written again.
            log.warning("The tests of %s have changed: its scores are written anew.", assignment.name)
            self.api.remove_assignment(assignment.name)
            self.api.update_or_create_assignment(assignment.name)
        notebook = nbformat.reads(assignment.notebook.decode(), as_version=4)
        resources = {"nbgrader": {"notebook": assignment.name, "assignment": assignment.name, "db_url": self.url}}
        for step in (LockCells, ClearSolutions, ComputeChecksums, SaveCells):
            notebook, resources = step().preprocess(notebook, resources)
        self.api.db.expire_all()
        self.known.pop(assignment.name, None)

    def _has_cells(self, assignment: Assignment) -> bool:
        try:
            notebook = self.api.find_notebook(assignment.name, assignment.name)
        except MissingEntry:
            return False
        points = {cell.name: cell.max_score for cell in notebook.grade_cells}
        solutions = {cell.name for cell in notebook.solution_cells}
        wanted = {test.name: test.points for test in assignment.tests}
        sources = {cell.name: cell.source for cell in notebook.source_cells}
        same_text = all(sources.get(test.name) == test.source for test in assignment.tests)
        return points == wanted and solutions == set(assignment.solutions) and same_text

    def scores(self, assignment: str) -> dict[str, dict[str, float | None]]:
        """What the gradebook holds: student → test → score."""
        try:
            notebook = self.api.find_notebook(assignment, assignment)
        except MissingEntry:
            return {}
        return {
            submitted.student.id: {grade.name: grade.auto_score for grade in submitted.grades}
            for submitted in notebook.submissions
        }

    def save(self, verdict: Verdict, timestamp: str | None = None) -> None:
        """Write one verdict in one transaction: every test gets its score, so no old one can stay."""
        notebook_id, assignment_id, tests, solutions = self._ids(verdict.assignment)
        db, scores = self.api.db, {test.name: test.score for test in verdict.tests}
        if db.get(Student, verdict.student) is None:
            db.add(Student(id=verdict.student))
        whose = {"assignment_id": assignment_id, "student_id": verdict.student}
        submission = db.query(SubmittedAssignment).filter_by(**whose).one_or_none()
        if submission is None:
            grades = [Grade(cell_id=cell) for cell in tests]
            comments = [Comment(cell_id=cell) for cell in solutions]
            notebook = SubmittedNotebook(notebook_id=notebook_id, grades=grades, comments=comments)
            submission = SubmittedAssignment(**whose, notebooks=[notebook])
            db.add(submission)
        else:
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
        if timestamp:
            try:
                submission.timestamp = parse_utc(timestamp)
            except (ValueError, OverflowError):
                log.warning("%s, %s: timestamp.txt holds no time.", verdict.student, verdict.assignment)
        for grade in grades:
            grade.auto_score = scores[tests[grade.cell_id]]
            grade.needs_manual_grade = grade.manual_score is not None
        db.commit()

    def _ids(self, assignment: str) -> tuple[str, str, dict[str, str], list[str]]:
        """Of the notebook, the assignment, the tests (with names) and the solution cells."""
        if assignment not in self.known:
            notebook = self.api.find_notebook(assignment, assignment)
            tests = {cell.id: cell.name for cell in notebook.grade_cells}
            solutions = [cell.id for cell in notebook.solution_cells]
            self.known[assignment] = (notebook.id, notebook.assignment_id, tests, solutions)
        return self.known[assignment]
