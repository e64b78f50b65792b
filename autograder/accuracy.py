"""How good the grader is: grade every known wrong answer and every right one in another style."""

import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat

from autograder.assignment import Assignment
from autograder.build import defined_names, solution_notebook
from autograder.feedback import pages
from autograder.grade import in_processes
from autograder.misconceptions import Version, answered, read_versions
from autograder.score import grade_submission
from autograder.verdict import Task, Verdict


@dataclass(frozen=True)
class Row:
    """One version of a piece and what the grader made of it."""

    assignment: str
    version: Version
    verdict: Verdict

    @property
    def caught(self) -> bool:
        return self.verdict.score < self.verdict.max_score

    @property
    def named(self) -> bool:
        return any(self.version.sentence in test.diagnosis for test in self.verdict.tests)

    @property
    def good(self) -> bool:
        if self.verdict.state != "graded":
            return False
        return not self.caught if self.version.right else self.caught and self.named

    @property
    def problem(self) -> str:
        what = f"{self.assignment} {self.version.piece}__{self.version.name}"
        failed = [test for test in self.verdict.tests if not test.passed]
        if self.verdict.state != "graded":
            return f"{what}: {self.verdict.state}: {self.verdict.for_instructor}"
        if self.version.right:
            return f"{what}: right, but rejected: {'; '.join(f'{t.sentence}: {t.message}' for t in failed)}"
        said = "; ".join(dict.fromkeys([t.diagnosis for t in failed if t.diagnosis] or self.verdict.notes)) or "nothing"
        return f"{what}: caught, but the tutor said: {said}" if self.caught else f"{what}: wrong, but got full marks"


def measure(root: Path, name: str, workers: int) -> list[Row]:
    """Grade a notebook for each version of each piece of an assignment.

    What a version cannot change is not run again and again: tests that do not use its piece keep the solution's
    verdict, and the experiments between the tests are left out.
    """
    path = root / "assignments" / f"{name}.md"
    solution, assignment = solution_notebook(path), Assignment.load(root, name)
    solution = _without_experiments(solution, assignment.pieces)
    solved = grade_submission(Task("", assignment, nbformat.writes(solution).encode(), b"accuracy"))
    if solved.score < solved.max_score:
        raise AssertionError(f"{name}: the solution does not get full marks: {solved.as_json()}")
    versions = {f"{i}": version for i, version in enumerate(read_versions(path))}

    def tasks() -> Iterator[Task]:
        for key, version in versions.items():
            notebook = answered(solution, {version.piece: version.source})
            secret = hmac.digest(b"accuracy", key.encode(), "sha256")
            piece = re.compile(rf"\b{version.piece}\b")
            users = {test.name for test in assignment.tests if piece.search(test.setup + test.source)}
            known = tuple(result for result in solved.tests if result.name not in users)
            yield Task(key, assignment, nbformat.writes(notebook).encode(), secret, known=known)

    verdicts = {task.student: verdict for task, verdict in in_processes(tasks(), workers)}
    return [Row(name, version, verdicts[key]) for key, version in versions.items()]


def _without_experiments(notebook: nbformat.NotebookNode, pieces: Mapping[str, str]) -> nbformat.NotebookNode:
    """Leaves out given cells that only try the pieces out: they use a piece, and nothing uses what they define."""

    def uses(source: str, names: Iterable[str]) -> bool:
        return any(re.search(rf"\b{name}\b", source) for name in names)

    def is_experiment(cell: nbformat.NotebookNode) -> bool:
        if cell.cell_type != "code" or "nbgrader" in cell.metadata or not uses(cell.source, pieces):
            return False
        names = defined_names(cell.source)
        return not any(uses(other.source, names) for other in notebook.cells if other is not cell)

    notebook.cells = [cell for cell in notebook.cells if not is_experiment(cell)]
    return notebook


def as_page(rows: list[Row]) -> str:
    """The matrix as a page: a table for each assignment, a row for each version."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.assignment, []).append(row)
    return pages.get_template("matrix.html").render(groups=groups, rows=rows)
