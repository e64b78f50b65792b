"""What grading takes and gives, as plain data: a task goes in, a verdict comes out. Needs no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from autograder.assignment import Assignment, Test
from autograder.restore import Restored, restore
from autograder.sandbox import LIMITS, Limits

# What each state means: to the learner, and to the instructor.
STATES = {
    "graded": ("Your notebook was graded.", "Nothing unusual."),
    "tampered": (
        "Some test cells were not as handed out. They were put back and your answers were graded as usual.",
        "Locked cells were changed; they were restored before grading, so the score is right.",
    ),
    "incomplete": (
        "The cell of one of the pieces is missing, so its tests could not pass. Was it deleted? The original has it.",
        "A solution cell is missing and nothing else defines its piece.",
    ),
    "timed out": (
        "Some of your code did not finish in time and was stopped. The rest was graded.",
        "A cell or a call ran into its time limit.",
    ),
    "out of memory": (
        "Some of your code asked for more memory than there is. The rest was graded.",
        "A cell or a call ran into the memory limit.",
    ),
    "crashed": (
        "Your code ended the process it ran in. What could be graded was graded.",
        "The sandboxed process ended by itself: an exit, a crash in native code, or too much memory at once.",
    ),
    "unreadable": ("The file you handed in could not be read as a notebook.", "Ask for the file again."),
    "grader failed": (
        "The grader itself failed. This is not your fault; your instructor has been told.",
        "A fault of the grader or of its tests, not of the learner. Grade again after mending it.",
    ),
}
SEVERITY = list(STATES)  # when several apply, the last one names the verdict


@dataclass(frozen=True)
class TestResult:
    """The verdict on one test."""

    __test__ = False  # for pytest, which would take it for a class of tests

    name: str
    points: float
    score: float
    passed: bool
    hidden: bool
    message: str
    diagnosis: str
    sentence: str
    hash: str  # of what decided it, so that an unchanged one need not run again


@dataclass(frozen=True)
class Verdict:
    """Everything that grading one submission has found."""

    student: str
    assignment: str
    state: str
    tests: tuple[TestResult, ...]
    seconds: float = 0.0
    notes: tuple[str, ...] = ()  # what was found beside the state
    notebook: str = ""  # the graded notebook
    sandboxed: bool = True

    @property
    def score(self) -> float:
        return sum(test.score for test in self.tests)

    @property
    def max_score(self) -> float:
        return sum(test.points for test in self.tests)

    @property
    def for_learner(self) -> str:
        return STATES[self.state][0]

    @property
    def for_instructor(self) -> str:
        return " ".join([STATES[self.state][1], *self.notes])

    def as_json(self) -> dict[str, Any]:
        tests = [{k: v for k, v in asdict(test).items() if k != "hash"} for test in self.tests]
        head = {key: getattr(self, key) for key in ("student", "assignment", "state", "score", "max_score", "seconds")}
        extra = {"for_learner": self.for_learner, "for_instructor": self.for_instructor, "sandboxed": self.sandboxed}
        return head | {"tests": tests} | extra


@dataclass(frozen=True)
class Task:
    """One submission to grade, with everything that it takes: can be sent to another process or machine."""

    student: str
    assignment: Assignment
    notebook: bytes | None  # None when there is no file
    secret: bytes  # HMAC(course key, submission): seeds of the tests come from it
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: Limits = LIMITS
    sandboxed: bool = True
    known: tuple[TestResult, ...] = ()  # verdicts of an earlier run that still hold


def grader_failed(task: Task, note: str) -> Verdict:
    return zero(task, "grader failed", note)


def zero(task: Task, state: str, note: str) -> Verdict:
    """No points, and nothing of an earlier grading kept."""
    message = note if state == "unreadable" else STATES[state][0]
    tests = tuple(on_test(test, False, message) for test in task.assignment.tests)
    notebook = graded_notebook(restore(task.assignment, []), [], tests)
    return Verdict(task.student, task.assignment.name, state, tests, notes=(note,), notebook=notebook)


def on_test(test: Test, passed: bool, message: str = "", diagnosis: str = "") -> TestResult:
    score = test.points if passed else 0.0
    return TestResult(test.name, test.points, score, passed, test.hidden, message, diagnosis, test.sentence, test.hash)


def graded_notebook(restored: Restored, outcomes: list[dict], results: Sequence[TestResult]) -> str:
    """The notebook for instructor and feedback: the learner's outputs, and our verdict under each test."""
    outputs = dict(zip(restored.code, (outcome["outputs"] for outcome in outcomes), strict=True))
    verdicts = {result.name: _verdict_outputs(result) for result in results}
    tests = {i: verdicts[cell["test"]] for i, cell in enumerate(restored.cells) if "test" in cell}
    return restored.as_notebook(outputs | tests)


def _verdict_outputs(result: TestResult) -> list[dict]:
    """What nbgrader reads the score from: an error means no points, anything else all of them."""
    if result.passed:
        return [{"output_type": "stream", "name": "stdout", "text": "✓ passed\n"}]
    lines = [line for line in (result.message, result.diagnosis) if line]
    return [{"output_type": "error", "ename": "Failed", "evalue": lines[0] if lines else "", "traceback": lines}]
