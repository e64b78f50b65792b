"""Gates on the package as a whole."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

import encoder

FOLDER = Path(encoder.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
NAME = re.compile(r"    (\w+)\((.*?)\)(?:\((.*?)\))?(?:  |$)")


def documented() -> list[tuple[str, int, str, str, str | None]]:
    """(module, chapter, name, arguments, arguments of forward) of every line in the docstring of `encoder`."""
    found, module, chapter = [], "", 0
    for line in encoder.__doc__.splitlines():
        if heading := re.fullmatch(r"(\d\d) (\w+)", line):
            chapter, module = int(heading[1]), heading[2]
        elif name := NAME.match(line):
            found.append((module, chapter, *name.groups()))
    return found


def imports(module: str) -> set[str]:
    """The modules of the package that this one imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "encoder":
            found |= {alias.name for alias in node.names} & set(MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("encoder."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("encoder.")}
    return found


def test_every_module_has_its_chapter_in_order():
    assert set(encoder.CHAPTERS) == set(MODULES)
    assert list(encoder.CHAPTERS.values()) == sorted(encoder.CHAPTERS.values())


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_its_own_and_earlier_chapters(module):
    later = {name for name in imports(module) if encoder.CHAPTERS[name] > encoder.CHAPTERS[module]}
    assert not later, f"{module} (chapter {encoder.CHAPTERS[module]}) imports {sorted(later)}"


def test_importing_the_package_loads_nothing_else():
    loaded = (
        "import sys, encoder; print(*(m for m in sys.modules if m.split('.')[0] in ('torch', 'numpy', 'tokenizers')))"
    )
    run = subprocess.run([sys.executable, "-c", loaded], cwd=FOLDER.parent, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_the_docstring_names_every_module_under_its_chapter():
    chapters = {module: chapter for module, chapter, *_ in documented()}
    assert chapters == {module: n for module, n in encoder.CHAPTERS.items() if n > 0}


def arguments(function) -> list[str]:
    names = inspect.signature(function).parameters.values()
    return [f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in names if p.name != "self"]


def assert_told(told: str, actual: list[str]) -> None:
    names = [name for name in told.split(", ") if name]
    if names and names[-1] == "…":
        assert names[:-1] == actual[: len(names) - 1]
    else:
        assert names == actual


@pytest.mark.parametrize(("module", "chapter", "name", "told", "told_forward"), documented(), ids=lambda x: str(x))
def test_the_docstring_tells_arguments_in_their_order(module, chapter, name, told, told_forward):
    piece = getattr(importlib.import_module(f"encoder.{module}"), name)
    assert_told(told, arguments(piece))
    is_module = inspect.isclass(piece) and issubclass(piece, nn.Module)
    assert (told_forward is not None) == is_module, "a second pair of brackets is for modules, and for every module"
    if is_module:
        assert_told(told_forward, arguments(piece.forward))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_opens_with_what_it_is_about_and_for_which_chapter(module):
    text = importlib.import_module(f"encoder.{module}").__doc__
    chapter = encoder.CHAPTERS[module]
    assert text and (f"hapter {chapter:02}" in text or chapter < 2)


def graded() -> list[str]:
    """module.piece of every piece that an assignment asks for."""
    texts = [path.read_text(encoding="utf-8") for path in (FOLDER.parent / "assignments").glob("*.md")]
    return sorted({piece for text in texts for piece in re.findall(r"^:solution: encoder\.(\S+)", text, re.M)})


def test_the_docstring_names_every_graded_piece():
    told = {f"{module}.{name}" for module, _, name, *_ in documented()}
    assert graded() and not set(graded()) - told
