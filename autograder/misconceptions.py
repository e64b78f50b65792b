"""Read assignments/NN_stem_misconceptions.py, and make notebooks that answer the way those learners would.

A definition named `piece__what_is_wrong` is a wrong version of `piece`, its docstring what a tutor says;
`piece__right__style` is a right one.
"""

import ast
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from autograder.build import exercise_notebook


@dataclass(frozen=True)
class Version:
    """One way of writing a piece, right or wrong."""

    piece: str
    name: str
    right: bool
    sentence: str
    implementation: Callable[..., Any]
    source: str  # a cell that defines the piece this way


def read_versions(assignment: Path) -> list[Version]:
    """All versions of the pieces of `assignments/NN_stem.md`, in the order of the file."""
    path = assignment.with_name(f"{assignment.stem}_misconceptions.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # inspect finds a class by its module
    spec.loader.exec_module(module)
    versions = []
    for definition in ast.parse(path.read_text(encoding="utf-8")).body:
        name = getattr(definition, "name", "")
        if "__" not in name:
            continue
        piece, rest = name.split("__", 1)
        implementation = getattr(module, name)
        right = rest.startswith("right__")
        sentence = "" if right else " ".join((implementation.__doc__ or "").split())
        source = _as_answer(implementation, piece, name, module)
        versions.append(Version(piece, rest.removeprefix("right__"), right, sentence, implementation, source))
    return versions


def _as_answer(implementation: Any, piece: str, name: str, module: Any) -> str:
    """The definition under the piece's own name; a subclass brings the reference it changes along."""
    source = re.sub(rf"\b{re.escape(name)}\b", piece, inspect.getsource(implementation))
    if inspect.isclass(implementation) and (reference := getattr(module, piece, None)) in implementation.__mro__:
        source = f"{inspect.getsource(reference)}\n\n{source}"  # `class X(X)` is fine: the base is looked up first
    return source


def answered(solution: nbformat.NotebookNode, answers: Mapping[str, str] | None = None) -> nbformat.NotebookNode:
    """A learner's notebook: every piece as in the solution, except for those given as `answers`."""
    nb = exercise_notebook(solution)
    truth = {c.metadata.nbgrader.grade_id: c.source for c in solution.cells if "nbgrader" in c.metadata}
    for cell in nb.cells:
        meta = cell.metadata.get("nbgrader", {})
        if meta.get("solution"):
            cell.source = (answers or {}).get(meta["grade_id"], truth[meta["grade_id"]])
    return nb
