"""Answers that are built alike, side by side: a question to the instructor, never a verdict, and no part of any grade.

An answer becomes the sequence of its syntax: names by order of first use, no comments, docstrings or annotations. Runs
of that sequence which the reference, a known wrong version or much of the class shares say nothing; what is left, rare
and in common, is what is shown.
"""

import ast
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from autograder.assignment import Assignment, Unreadable, grade_id, read_cells
from autograder.feedback import pages
from autograder.grade import find_submissions, write_atomically

RUN = 12  # syntax nodes that must agree in a row: about one statement
COMMON = 0.1  # a run that this share of the class has is an idiom
LIKENESS = 0.5  # of what is rare in either answer, how much must be in both
ENOUGH = 8  # rare runs in common, below which anything is chance
MOST = 40  # pairs on the page

Runs = dict[tuple[str, ...], set[int]]  # run of syntax → lines it stands on


@dataclass(frozen=True)
class Side:
    """One of the two answers: its lines, and which of them stand in the other, too."""

    student: str
    lines: list[tuple[str, bool]]


@dataclass(frozen=True)
class Pair:
    piece: str
    likeness: float
    left: Side
    right: Side


def runs(source: str) -> Runs:
    """The runs of an answer; none when it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    nodes = list(_syntax(tree, {}))
    found: Runs = defaultdict(set)
    for i in range(len(nodes) - RUN + 1):
        window = nodes[i : i + RUN]
        found[tuple(kind for kind, _ in window)].update(line for _, line in window if line)
    return found


def _syntax(node: ast.AST, names: dict[str, str]) -> Iterator[tuple[str, int]]:
    """The tree in order of writing, as (kind, line)."""
    kind = type(node).__name__
    match node:
        case ast.Expr(value=ast.Constant(value=str())):  # a docstring
            return
        case ast.Name(id=name) | ast.arg(arg=name):
            kind = names.setdefault(name, f"name{len(names)}")
        case ast.Attribute(attr=name) | ast.keyword(arg=name):
            kind += f".{name}"
        case ast.Constant(value=value):
            kind = repr(value)
    yield kind, getattr(node, "lineno", 0)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "ctx", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _syntax(child, names)


def similar(answers: dict[str, str], expected: list[str], piece: str) -> list[Pair]:
    """Pairs of students whose answers to a piece have much in common that few others have."""
    usual = set().union(*(runs(source) for source in expected))
    by_student = {student: runs(source) for student, source in answers.items()}
    frequency = Counter(run for found in by_student.values() for run in found)
    limit = max(2, COMMON * len(answers))
    weight = {run: math.log((len(answers) + 2) / n) for run, n in frequency.items() if run not in usual and n <= limit}
    rare = {student: {run for run in found if run in weight} for student, found in by_student.items()}
    students = defaultdict(list)
    for student, found in rare.items():
        for run in found:
            students[run].append(student)
    shared = Counter(pair for who in students.values() for pair in combinations(who, 2))
    pairs = []
    for (a, b), count in shared.items():
        both, either = (sum(map(weight.get, runs)) for runs in (rare[a] & rare[b], rare[a] | rare[b]))
        if count >= ENOUGH and both / either >= LIKENESS:
            same = by_student[a].keys() & by_student[b].keys() - usual
            sides = (_side(student, answers[student], by_student[student], same) for student in (a, b))
            pairs.append(Pair(piece, both / either, *sides))
    return sorted(pairs, key=lambda pair: -pair.likeness)


def _side(student: str, source: str, found: Runs, same: set) -> Side:
    marked = set().union(*(found[run] for run in same))
    return Side(student, [(line, i in marked) for i, line in enumerate(source.splitlines(), 1)])


def find_pairs(root: Path, submitted: Path, name: str) -> list[Pair]:
    """The pairs of one assignment, most alike first."""
    assignment = Assignment.load(root, name)
    answers: dict[str, dict[str, str]] = {piece: {} for piece in assignment.solutions}
    for submission in find_submissions(submitted, [name]):
        try:
            cells = read_cells(submission.notebook or b"")
        except Unreadable:
            continue
        for cell in cells:
            if grade_id(cell) in answers:
                answers[grade_id(cell)][submission.student] = cell["source"]
    known: dict[str, list[str]] = defaultdict(list)
    for node in ast.parse(assignment.misconceptions).body:
        known[getattr(node, "name", "").partition("__")[0]].append(ast.unparse(node))
    pairs = [
        pair
        for piece, found in answers.items()
        for pair in similar(found, [assignment.solutions[piece], *known[piece]], piece)
    ]
    return sorted(pairs, key=lambda pair: -pair.likeness)


def write_page(root: Path, submitted: Path, output: Path, name: str) -> Path:
    pairs = find_pairs(root, submitted, name)
    path = output / "reports" / f"{name}_similar.html"
    text = pages.get_template("similar.html").render(assignment=name, pairs=pairs[:MOST], left_out=len(pairs[MOST:]))
    write_atomically(path, text)
    return path
