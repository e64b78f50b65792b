"""The instructor's page for one assignment of a class: self-contained, asks no network, works for 500 students.

Points come from the gradebook (hand-given ones and late penalties included), everything else from the receipts.
"""

import ast
import json
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup
from nbgrader.api import Gradebook

from autograder.assignment import Assignment
from autograder.feedback import SAID_ELSEWHERE, pages
from autograder.grade import Receipt, write_atomically
from autograder.lateness import DAY
from autograder.lms import Grade, grades
from autograder.verdict import Verdict

MAX_MESSAGE = 400
NOTHING = "nothing handed in"


def sentences(assignment: Assignment) -> dict[str, str]:
    """What the tutor says about each known mistake, with the piece it is about."""
    found = {}
    for node in ast.parse(assignment.misconceptions).body:
        piece, _, what = getattr(node, "name", "").partition("__")
        if what and not what.startswith("right__"):
            found[" ".join((ast.get_docstring(node) or "").split())] = piece
    return found


def report_data(assignment: Assignment, found: list[Grade], verdicts: dict[str, Verdict], before: dict | None) -> dict:
    """All that the page shows, as plain data; texts that repeat are kept once and referred to by number."""
    known = sentences(assignment)
    texts: dict[str, int] = {}
    said: dict[str, int] = {}
    students = []
    for grade in found:
        verdict = verdicts.get(grade.student)
        row = {
            "id": grade.student,
            "name": grade.name,
            "score": round(grade.score, 2),
            "penalty": grade.late_penalty,
            "late": round(grade.seconds_late / DAY, 1),
            "state": verdict.state if verdict else NOTHING,
            "eye": _human_eye(verdict),
            "passed": [],
            "failed": [],
            "change": _change(verdict, before, grade.student),
        }
        results = {test.name: test for test in verdict.tests} if verdict else {}
        for number, test in enumerate(assignment.tests):
            result = results.get(test.name)
            if result is None:
                continue
            if result.passed:
                row["passed"].append(number)
                continue
            sentence = SAID_ELSEWHERE.sub("", result.diagnosis)
            misconception = said.setdefault(sentence, len(said)) if sentence in known else -1
            message = "\n".join(filter(None, (result.message, "" if misconception >= 0 else result.diagnosis)))
            text = texts.setdefault(message[:MAX_MESSAGE], len(texts))
            row["failed"].append([number, text, misconception])
        students.append(row)
    return {
        "assignment": assignment.name,
        "made": f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC",
        "max": assignment.max_score,
        "tests": [{"sentence": t.sentence, "points": t.points, "hidden": t.hidden} for t in assignment.tests],
        "texts": list(texts),
        "misconceptions": [{"sentence": sentence, "piece": known[sentence]} for sentence in said],
        "students": students,
        "before": before["time"] if before else None,
    }


def _human_eye(verdict: Verdict | None) -> str:
    """Why somebody should look, or nothing."""
    if verdict is None or (verdict.state == "graded" and verdict.sandboxed and not verdict.notes):
        return ""
    return verdict.for_instructor + ("" if verdict.sandboxed else " Graded without a sandbox.")


def _change(verdict: Verdict | None, before: dict | None, student: str) -> str:
    if before is None or verdict is None:
        return ""
    old = before["students"].get(student)
    new = _summary(verdict)
    if old is None:
        return f"new: {new['score']:g} points"
    parts = []
    if old["score"] != new["score"]:
        parts.append(f"{old['score']:g} → {new['score']:g} points")
    if old["state"] != new["state"]:
        parts.append(f"{old['state']} → {new['state']}")
    return ", ".join(parts)


# -- what the last grading said ------------------------------------------------------------------------------------


def _summary(verdict: Verdict) -> dict:
    return {"score": verdict.score, "state": verdict.state}


def record(output: Path, verdicts: list[Verdict]) -> None:
    """Remember how each assignment stood at the end of a grading; one that changed nothing is not remembered."""
    by_assignment: dict[str, dict] = {}
    for verdict in verdicts:
        by_assignment.setdefault(verdict.assignment, {})[verdict.student] = _summary(verdict)
    for name, students in by_assignment.items():
        path = output / "gradings" / f"{name}.json"
        past = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        if not past or past[-1]["students"] != students:
            now = {"time": f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC", "students": students}
            write_atomically(path, json.dumps([*past[-1:], now], ensure_ascii=False))


def last_grading(output: Path, name: str, verdicts: dict[str, Verdict]) -> dict | None:
    """How it stood before the results that are there now."""
    path = output / "gradings" / f"{name}.json"
    now = {student: _summary(verdict) for student, verdict in verdicts.items()}
    past = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return next((grading for grading in reversed(past) if grading["students"] != now), None)


# -- the page ------------------------------------------------------------------------------------------------------


def write_report(root: Path, output: Path, api: Gradebook, name: str) -> Path:
    assignment = Assignment.load(root, name)
    verdicts = {v.student: v for p in output.glob(f"receipts/*/{name}.json") for v in [Receipt.read(p).verdict]}
    data = report_data(assignment, grades(api, [name]), verdicts, last_grading(output, name, verdicts))
    path = output / "reports" / f"{name}.html"
    write_atomically(path, as_page(data))
    return path


def as_page(data: dict) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return pages.get_template("report.html").render(data=Markup(text), assignment=data["assignment"])
