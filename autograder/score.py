"""Grade one submission: bytes in, verdict out. Knows no gradebook, no other submission, no path."""

import contextlib
import io
import signal
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from time import monotonic
from types import CodeType
from typing import Any

import torch

from autograder.assignment import Assignment, Test, Unreadable, read_cells
from autograder.diagnose import Diagnosis
from autograder.restore import Restored, restore
from autograder.sandbox import SandboxUnavailable
from autograder.session import Call, Session, Stopped, clean, seed_everything
from autograder.verdict import SEVERITY, Task, TestResult, Verdict, graded_notebook, grader_failed, on_test, zero

MARGIN = 5.0  # seconds that a test may take beyond the limit of the learner's code


def grade_submission(task: Task) -> Verdict:
    """Grade one submission. Never raises on account of it; raises SandboxUnavailable when nothing could be graded."""
    start = monotonic()
    try:
        verdict = _grade(task)
    except Unreadable as problem:
        verdict = zero(task, "unreadable", str(problem))
    except SandboxUnavailable:
        raise
    except (Exception, Stopped):
        verdict = grader_failed(task, traceback.format_exc(limit=-3))
    return replace(verdict, seconds=round(monotonic() - start, 3), sandboxed=task.sandboxed)


def _grade(task: Task) -> Verdict:
    if task.notebook is None:
        raise Unreadable("No notebook was handed in under the name of the assignment.")
    torch.set_num_threads(1)
    assignment = task.assignment
    restored = restore(assignment, read_cells(task.notebook))
    code = [restored.cells[i]["source"] for i in restored.code]
    files = {f"work/{name}": data for name, data in {**task.files, **assignment.files}.items()}
    files |= {f"package/{name}": data for name, data in assignment.package.items()}
    files["work/.keep"] = b""
    known = {result.name: result for result in task.known}
    results: dict[str, TestResult] = {}
    calls: dict[str, list[Call]] = {}
    lost: set[str] = set()
    with Session(code, files, task.secret, task.limits, task.sandboxed, assignment.libraries) as session:
        session.run_cells()
        # Hidden tests run last: what the learner's code has seen in them can never stand in the message of another.
        for test in sorted(assignment.tests, key=lambda test: test.hidden):
            if test.name in known:
                results[test.name] = known[test.name]
                continue
            problem = _run_test(session, assignment, restored, test, lost)
            calls[test.name] = session.calls
            results[test.name] = on_test(test, problem is None, problem or "")
    states, notes = ["graded"], []
    tests = [results[test.name] for test in assignment.tests]
    try:
        diagnosis = Diagnosis(assignment, calls)
        new = [not t.passed and t.name in calls for t in tests]
        tests = [
            replace(t, diagnosis=diagnosis.of(t.name, t.hidden)) if n else t for t, n in zip(tests, new, strict=True)
        ]
    except Exception as error:  # no diagnosis is a pity; it must not cost the grade
        notes.append(f"The diagnosis failed: {error!r}")
    if restored.changes:
        states.append("tampered")
        notes.append(f"Restored: {'; '.join(restored.changes)}.")
    if missing := [name for name in restored.missing if name in lost or not session.cells]:
        states.append("incomplete")
        notes.append(f"Missing: {', '.join(missing)}.")
    states += session.stops
    states += ["out of memory"] * session.out_of_memory
    state = max(states, key=SEVERITY.index)
    notebook = graded_notebook(restored, session.outcomes, tests)
    return Verdict(task.student, assignment.name, state, tuple(tests), notes=tuple(notes), notebook=notebook)


def _run_test(session: Session, assignment: Assignment, restored: Restored, test: Test, lost: set[str]) -> str | None:
    """Run one test here, with proxies for the learner's names; None when it holds, else what to tell the learner."""
    session.calls = []
    names = test.pieces
    try:
        defined = session.begin(test.name, names)
        if undefined := [name for name in names if name not in defined]:
            lost.update(assignment.pieces[name] for name in undefined)
            return _why_undefined(undefined[0], assignment, restored, session)
        namespace: dict[str, Any] = {"__name__": "__main__"}
        with _time_limit(session), contextlib.redirect_stdout(io.StringIO()):
            for name in names:
                namespace[name] = session.value(name) if name in assignment.values else session.piece(name)
            seed_everything(session.seed(test.name, "setup"))
            exec(_compiled(test.setup, "<setup>"), namespace)
            seed_everything(session.seed(test.name))
            exec(_compiled(test.source, f"<{test.name}>"), namespace)
    except Stopped as stop:
        return stop.sentence if test.hidden else str(stop)
    except Exception as error:
        session.note_memory(getattr(error, "learner", None))
        reason = _hidden_reason(error) if test.hidden else _reason(error, test)
        changed = f"Your `{session.changer}` changes a tensor that it is given: work on a copy.\n"
        return changed + reason if session.changer else reason
    except BaseException as error:  # a test that exits is no pass
        return f"The test ended with {type(error).__name__}."
    return None


@cache
def _compiled(source: str, name: str) -> CodeType:
    return compile(source, name, "exec")


class _TooLong(BaseException):
    """Raised wherever the test happens to be; no test may catch it by accident."""


@contextlib.contextmanager
def _time_limit(session: Session) -> Iterator[None]:
    """Stop this process's own part of a test, too, where signals can be used."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(*_: object) -> None:
        raise _TooLong

    old = signal.signal(signal.SIGALRM, expire)
    # Again and again: Python drops what is raised while an object is being deleted.
    signal.setitimer(signal.ITIMER_REAL, session.limits.test_seconds + MARGIN, MARGIN)
    try:
        yield
    except _TooLong:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # Perhaps in the middle of a request: nobody knows what the sandbox would answer next.
        session.stop("timed out", "The test did not finish in time with what your code gave it.")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _why_undefined(name: str, assignment: Assignment, restored: Restored, session: Session) -> str:
    cell = assignment.pieces[name]
    for position, outcome in zip(restored.code, session.outcomes, strict=True):
        meta = restored.cells[position]["metadata"].get("nbgrader", {})
        if meta.get("grade_id") == cell and (error := outcome["error"]):
            where = f" (line {error['lineno']}: {error['line']})" if error.get("line") else ""
            return f"`{name}` is not defined, because its cell stopped with {error['ename']}: {error['evalue']}{where}"
    return f"`{name}` is not defined anywhere in your notebook."


def _reason(error: Exception, test: Test) -> str:
    """What went wrong in a test that the learner can read."""
    if learner := getattr(error, "learner", None):
        if learner["ename"] == "NotImplementedError" and not learner["evalue"]:
            return "Not written yet: your code still raises NotImplementedError."
        where = f"\nAt your line: {learner['line']}" if learner["line"] else ""
        return f"Your code raised {learner['ename']}: {learner['evalue']}{where}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == f"<{test.name}>"]
    line = test.source.split("\n")[lines[0] - 1].strip() if lines else ""
    said = clean(str(error))  # it may show what the learner's code gave
    if isinstance(error, AssertionError):
        return said or f"This does not hold: {line.removeprefix('assert ')}"
    return f"The test could not use what your code gave it. {type(error).__name__}: {said}\nAt its line: {line}"


def _hidden_reason(error: Exception) -> str:
    """The same for a hidden test: nothing that could carry its inputs."""
    learner = getattr(error, "learner", None)
    if not learner:
        return "Your answer is not right on a hidden input."
    if "NotImplementedError" in learner["types"]:
        return "Not written yet: your code still raises NotImplementedError."
    return f"Your code raised {type(error).__name__} on a hidden input."
