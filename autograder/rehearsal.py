"""A class of any size with invented results, to try the desk before the first deadline, and to test and measure it.

python -m autograder.rehearsal 01_attention 500 /tmp/rehearsal && autograder report --output /tmp/rehearsal
"""

import random
import sys
from pathlib import Path

from autograder.assignment import Assignment
from autograder.grade import Receipt
from autograder.report import sentences
from autograder.verdict import TestResult, Verdict

ROOT = Path(__file__).parents[1]
GIVEN = ("Zoë", "Bjørn", "Nguyễn", "李", "Ada", "Kwame", "Siobhán", "José", "Olga", "Fatima")
FAMILY = ("O'Neil", "Müller", "van der Berg, Jr.", 'Smith "Smitty"', "王", "Ivanova", "Garcia", "Ångström", "Okafor")
STATES = ("graded",) * 40 + ("tampered", "timed out", "crashed", "unreadable", "grader failed", "out of memory")


def invented(assignment: Assignment, student: str, chance: random.Random) -> Verdict:
    """A verdict as grading might give: a state, and a misconception for some of those who failed a test."""
    state = chance.choice(STATES)
    skill = 0.0 if state in ("unreadable", "grader failed") else chance.betavariate(4, 1.5)
    known = list(sentences(assignment))
    mistake = chance.choice(known) if known and chance.random() < 0.5 else ""
    tests = []
    for test in assignment.tests:
        passed = chance.random() < skill
        message = (
            "" if passed else "Your answer is not right on a hidden input." if test.hidden else "It does not hold."
        )
        said = "" if passed or chance.random() < 0.3 else mistake
        points = test.points if passed else 0.0
        tests.append(
            TestResult(test.name, test.points, points, passed, test.hidden, message, said, test.sentence, test.hash)
        )
    notes = ("Restored: a test was edited.",) if state == "tampered" else ()
    return Verdict(student, assignment.name, state, tuple(tests), notes=notes)


def people(count: int) -> dict[str, tuple[str, str]]:
    """Student → family name, given name; some need quoting, some are not ASCII, some occur twice."""
    return {f"s{i:03}": (FAMILY[i % len(FAMILY)], GIVEN[i % len(GIVEN)]) for i in range(count)}


def write_class(root: Path, name: str, count: int, output: Path) -> None:
    """Receipts and a gradebook, as `autograder grade` would leave them. The last student hands in nothing."""
    from autograder.gradebook import Book

    assignment, chance = Assignment.load(root, name), random.Random(0)
    with Book(f"sqlite:///{output.absolute()}/gradebook.db") as book:
        book.add_assignment(assignment)
        for student, (family, given) in people(count).items():
            book.api.update_or_create_student(student, last_name=family, first_name=given)
            if student != f"s{count - 1:03}":
                verdict = invented(assignment, student, chance)
                book.save(verdict)
                Receipt("", "", "", "", {}, "", verdict).write(output / "receipts" / student / f"{name}.json")


if __name__ == "__main__":
    write_class(ROOT, sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
