"""Your own encoder: a package with the reference's interface, made of the pieces that a learner has finished.

The package is a copy of `encoder/`. A piece that passes all of its tests is replaced by the learner's source, with the
imports and helpers that it needs; every other piece stays the reference's, and is listed with the reason. The learner's
code only ever runs in the sandbox: when its notebook is graded, and when the package runs the real model.
"""

import ast
import builtins
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch

from autograder.assignment import (
    IMPORTS,
    MAX_NOTEBOOK,
    Assignment,
    Unreadable,
    bound_names,
    digest,
    names_read,
    read_cells,
    without_magics,
)
from autograder.grade import course_key, in_processes, read_regular
from autograder.sandbox import LIMITS
from autograder.session import Session, Stopped
from autograder.verdict import Task, Verdict

CERTIFICATE = "certificate.html"
LIVES_IN = re.compile(r"# This piece lives in encoder/(\w+)\.py")
DEFINITION = ast.FunctionDef | ast.ClassDef
SENTENCES = [
    "A man plays the guitar on a small stage.",
    "Somebody strums a guitar.",
    "The price of wheat fell sharply today, for the third day in a row.",
]
RUN_MINILM = """
import torch
from {package}.bert import encode_pairs
from {package}.pretrained import embed, load_minilm, record

model, tokenizer = load_minilm()
vectors = embed(model, tokenizer, {sentences})
outputs = record(model, *encode_pairs(tokenizer, [(text, None) for text in {sentences}]))
"""


class Rescue(Exception):
    """Why a piece is taken from the reference, in half a sentence."""


@dataclass(frozen=True)
class Piece:
    """One piece of the encoder and whose it is. `reason` says why it is not the learner's; empty if it is."""

    assignment: str
    module: str
    name: str
    reason: str = ""


@dataclass(frozen=True)
class Agreement:
    """How the package runs MiniLM beside the reference. `diverges`: the first tensor that differs, and how far."""

    tensors: int = 0
    largest: float = 0.0
    diverges: tuple[str, float] | None = None
    similarity: tuple[tuple[float, ...], ...] = ()
    problem: str = ""  # why it could not be run


def assemble(
    course: Path, exercises: Path, output: Path, workers: int = 1, sandboxed: bool = True
) -> tuple[list[Piece], Agreement]:
    """Write the package and its certificate to `output`; return the pieces and the agreement."""
    if not exercises.is_dir():
        raise FileNotFoundError(f"there is no folder {exercises} with notebooks")
    if not output.name.isidentifier():
        raise FileNotFoundError(f"{output.name} is no name for a Python package; try -o my_encoder")
    if output.exists() and any(output.iterdir()) and not (output / CERTIFICATE).exists():
        raise FileNotFoundError(f"{output} exists and was not made by assemble; give another name with -o")
    modules = {p.stem: p.read_text(encoding="utf-8") for p in sorted((course / "encoder").glob("*.py"))}
    pieces = []
    for assignment, cells, verdict in graded(course, exercises, workers, sandboxed):
        pieces += insert_pieces(modules, assignment, cells, verdict)
    files = {f"{name}.py": renamed(text, output.name) for name, text in modules.items()}
    agreement = run_minilm(output.name, files, sandboxed)
    output.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (output / name).write_text(text, encoding="utf-8")
    (output / CERTIFICATE).write_text(certificate(pieces, agreement), encoding="utf-8")
    return pieces, agreement


# -- reading the notebooks -----------------------------------------------------------------------------------------


def graded(
    course: Path, exercises: Path, workers: int, sandboxed: bool
) -> list[tuple[Assignment, list[str], Verdict | None]]:
    """Each assignment with the learner's code cells and the verdict on them; None where there is no notebook."""
    tasks, cells = [], {}
    names = sorted(p.stem for p in (course / "solutions").glob("*/*.ipynb"))
    loaded = {name: Assignment.load(course, name) for name in names}
    for name, assignment in loaded.items():
        places = (exercises / name / f"{name}.ipynb", exercises / f"{name}.ipynb")
        data = next((d for place in places if (d := read_regular(place, MAX_NOTEBOOK)) is not None), None)
        if data is None:
            continue
        try:
            cells[name] = learner_code(data)
        except Unreadable:
            continue
        secret = hmac.digest(course_key(course), digest(data).encode(), "sha256")
        tasks.append(Task(name, assignment, data, secret, sandboxed=sandboxed))
    verdicts = {task.student: verdict for task, verdict in in_processes(tasks, workers)}
    return [(loaded[name], cells.get(name, []), verdicts.get(name)) for name in names]


def learner_code(data: bytes) -> list[str]:
    """The code cells of a notebook that are not tests."""
    code = [cell for cell in read_cells(data) if cell["cell_type"] == "code"]
    return [without_magics(c["source"]) for c in code if not c["metadata"].get("nbgrader", {}).get("grade")]


def homes(assignment: Assignment) -> dict[str, str]:
    """The pieces of an assignment that live in the encoder, each with its module."""
    found = {name: LIVES_IN.match(source) for name, source in assignment.solutions.items()}
    return {name: match[1] for name, match in found.items() if match}


def why_not(name: str, assignment: Assignment, verdict: Verdict | None) -> str:
    """The first reason against a piece that its tests give; empty when it passes all of them."""
    if verdict is None:
        return "there is no notebook that can be read"
    if verdict.state == "grader failed":
        return "the grader itself failed on its notebook; run assemble again"
    results = {result.name: result for result in verdict.tests}
    uses = [t for t in assignment.tests if name in words(f"{t.setup}\n{t.source}")]
    failed = [results[test.name] for test in uses if not results[test.name].passed]
    if any("NotImplementedError" in result.message for result in failed):
        return "it is not written yet"
    return f"a test does not pass: {failed[0].sentence}" if failed else "" if uses else "no test uses it"


def words(source: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


# -- putting pieces into modules -----------------------------------------------------------------------------------


def insert_pieces(
    modules: dict[str, str], assignment: Assignment, cells: list[str], verdict: Verdict | None
) -> list[Piece]:
    """Put every finished piece of an assignment into its module; say for each whose it is now."""
    pieces = []
    where = homes(assignment)
    given = {ast.unparse(statement) for statement, _ in parsed(map(without_magics, assignment.given))}
    for name, module in where.items():
        reason = why_not(name, assignment, verdict)
        if not reason:
            try:
                modules[module] = replaced(modules[module], module, name, cells, where, given)
            except Rescue as problem:
                reason = str(problem)
        pieces.append(Piece(assignment.name, module, name, reason))
    return pieces


def replaced(text: str, module: str, name: str, cells: list[str], where: dict[str, str], given: set[str]) -> str:
    """The text of a module with the learner's `name` in the place of the reference's.

    where: the modules of the assignment's pieces   given: statements of the cells that were handed out
    """
    statements = list(parsed(cells))
    definition, source = own_definition(statements, name)
    tree = ast.parse(text)
    have = {n: origin(s, n) for s in tree.body for n in bound_names(s)}
    imports, helpers = [], []
    wanted, seen = sorted(names_read(definition)), {name}
    while wanted:
        used = wanted.pop()
        if used in seen:
            continue
        seen.add(used)
        if used in where:  # a piece of the same assignment, whoever wrote it
            if used not in have:
                imports.append(f"from encoder.{where[used]} import {used}")
            continue
        statement, helper = next(((s, t) for s, t in reversed(statements) if used in bound_names(s)), (None, ""))
        if statement is None:
            if not hasattr(builtins, used) and used != "__name__":
                raise Rescue(f"it uses {used}, which no cell of the notebook defines")
            continue
        come_from = origin(statement, used)
        if come_from in (have.get(used), ("import", f"encoder.{module}.{used}")):
            continue
        if used in have and come_from[1] in given:
            continue  # a stand-in, handed out for what the module really has
        if used in have:
            raise Rescue(f"it uses a {used} of its own, and encoder/{module}.py has another one")
        if isinstance(statement, IMPORTS):
            imports.append(as_import(come_from[1], used))
        else:
            helpers.insert(0, helper)
            wanted += sorted(names_read(statement))
    old = next(s for s in tree.body if isinstance(s, DEFINITION) and s.name == name)
    lines = text.splitlines()
    lines[first_line(old) - 1 : old.end_lineno] = ["\n\n\n".join([*helpers, source])]
    last_import = max((s.end_lineno or 0 for s in tree.body if isinstance(s, IMPORTS)), default=0)
    lines[last_import:last_import] = imports
    return "\n".join(lines) + "\n"


def parsed(cells: Iterable[str]) -> Iterator[tuple[ast.stmt, str]]:
    """Every top-level statement with its text; cells that do not parse did not run, either."""
    for cell in cells:
        try:
            body = ast.parse(cell).body
        except SyntaxError:
            continue
        for statement in body:
            yield statement, "\n".join(cell.splitlines()[first_line(statement) - 1 : statement.end_lineno])


def first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])


def own_definition(statements: list[tuple[ast.stmt, str]], name: str) -> tuple[ast.stmt, str]:
    """The last definition counts; a class that extends itself brings the one before along."""
    found = [(s, text) for s, text in statements if name in bound_names(s)]
    if not found or not isinstance(found[-1][0], DEFINITION):
        raise Rescue("it is not written as a function or a class of this name")
    definition, source = found.pop()
    bases = getattr(definition, "bases", [])
    while found and any(isinstance(base, ast.Name) and base.id == name for base in bases):
        earlier, text = found.pop()
        bases, source = getattr(earlier, "bases", []), f"{text}\n\n\n{source}"
    return definition, source


def origin(statement: ast.stmt, name: str) -> tuple[str, str]:
    """What a statement binds `name` to: ("import", its full name), or ("here", the text that defines it)."""
    if not isinstance(statement, IMPORTS):
        return "here", ast.unparse(statement)
    alias = next(a for a in statement.names if (a.asname or a.name).split(".")[0] == name)
    if isinstance(statement, ast.ImportFrom):
        return "import", f"{statement.module}.{alias.name}"
    return "import", alias.name if alias.asname else name


def as_import(full_name: str, name: str) -> str:
    if full_name == "encoder":
        raise Rescue("it imports the package encoder as a whole; import names from its modules")
    module, _, part = full_name.rpartition(".")
    what = f"from {module} import {part}" if module else f"import {part}"
    return what if part == name else f"{what} as {name}"


def renamed(text: str, package: str) -> str:
    return re.sub(r"^(\s*from )encoder(?=[. ])", rf"\g<1>{package}", text, flags=re.MULTILINE)


# -- running it ----------------------------------------------------------------------------------------------------


def run_minilm(package: str, files: dict[str, str], sandboxed: bool) -> Agreement:
    """MiniLM in the new package, run in the sandbox, compared with the reference tensor by tensor."""
    from encoder.bert import encode_pairs
    from encoder.pretrained import embed, first_divergence, load_minilm, record

    torch.set_num_threads(1)
    cell = RUN_MINILM.format(package=package, sentences=SENTENCES)
    inside = {f"package/{package}/{name}": text.encode() for name, text in files.items()} | {"work/.keep": b""}
    with Session([cell], inside, b"assemble", LIMITS, sandboxed) as session:
        try:
            session.run_cells()
            if error := session.outcomes[0]["error"]:
                return Agreement(problem=f"{error['ename']}: {error['evalue']}")
            session.begin("assemble", ["outputs", "vectors"])
            outputs, vectors = session.value("outputs"), session.value("vectors")
        except Stopped as stop:
            return Agreement(problem=str(stop))
    model, tokenizer = load_minilm()
    expected = embed(model, tokenizer, SENTENCES)
    ids, mask, segments = encode_pairs(tokenizer, [(text, None) for text in SENTENCES])
    reference = record(model, ids, mask, segments)
    # a part that is called row by row returns other shapes, and may be right: the sentence vectors judge it
    outputs = {name: t for name, t in outputs.items() if name in reference and t.shape == reference[name].shape}
    diverges = first_divergence(outputs, reference, mask=mask) if outputs else None
    largest = (vectors - expected).abs().max().item()
    similarity = tuple(tuple(round(x, 3) for x in row) for row in (vectors @ vectors.T).tolist())
    return Agreement(len(outputs), largest, diverges, similarity)


# -- the certificate -----------------------------------------------------------------------------------------------

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>My encoder</title>
<style>
:root {{ color-scheme: light dark; --line: light-dark(#ccd, #445); --own: light-dark(#176f3d, #6fd39a); }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ border-bottom: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }}
.own {{ color: var(--own); font-weight: 600; }} .number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.frame {{ border: 2px solid var(--line); border-radius: .5rem; padding: 1rem 2rem 2rem; }}
</style>
<main class="frame">
<h1>My encoder</h1>
<p><strong>{own} of {total} pieces are the learner's own.</strong> {agreement}</p>
<h2>A real model, run by this package</h2>
{model}
<h2>The pieces</h2>
<table><tr><th scope="col">assignment</th><th scope="col">piece</th><th scope="col">whose</th></tr>
{rows}
</table>
</main>
</html>
"""


def said(agreement: Agreement) -> str:
    """What there is to say of the agreement with the reference, in a sentence or two."""
    if agreement.problem:
        return f"MiniLM could not be run: {agreement.problem}"
    vectors = f"Sentence vectors differ by at most {agreement.largest:.1e}."
    if agreement.largest == 0:
        vectors = "Sentence vectors are equal to the last bit."
    if agreement.diverges:
        name, error = agreement.diverges
        return f"The first tensor that differs from the reference is {name}, by {error:.1e}. {vectors}"
    return f"All {agreement.tensors} recorded tensors of MiniLM agree with the reference to 1e-5. {vectors}"


def certificate(pieces: list[Piece], agreement: Agreement) -> str:
    rows = [
        f"<tr><td>{escape(p.assignment)}</td><td><code>{escape(p.name)}</code></td>"
        + (f"<td>reference: {escape(p.reason)}</td>" if p.reason else '<td class="own">my own</td>')
        + "</tr>"
        for p in pieces
    ]
    model = "<p>It could not be run.</p>"
    if agreement.similarity:
        cells = "".join(
            f'<tr><th scope="row">{escape(text)}</th>{"".join(f"<td class=number>{x:.2f}</td>" for x in row)}</tr>\n'
            for text, row in zip(SENTENCES, agreement.similarity, strict=True)
        )
        heads = "".join(f'<th scope="col" class="number">{i + 1}</th>' for i in range(len(SENTENCES)))
        model = f"<p>Cosines of three sentences:</p>\n<table><tr><td></td>{heads}</tr>\n{cells}</table>"
    own = sum(not piece.reason for piece in pieces)
    return PAGE.format(own=own, total=len(pieces), agreement=escape(said(agreement)), model=model, rows="\n".join(rows))
