"""The formula appendix names real code and real tests, and leaves no numbered formula out."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "book" / "formulas.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^\((formula-[a-z]+)\)=\n(.*?)(?=^\(formula-|^## |\Z)", TEXT, flags=re.M | re.S))
TESTS = {
    node.name
    for path in (ROOT / "tests" / "encoder").glob("test_*.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.FunctionDef)
}


@pytest.mark.parametrize("label", ENTRIES)
def test_an_entry_is_whole_and_names_code_and_tests_that_exist(label):
    entry = ENTRIES[label]
    for part in ("Meaning", "Variables", "Intuition", "Derivation"):
        assert f"**{part}.** " in entry, f"{label} has no {part}"
    coded, pinned = re.search(r"\*\*Coded in\*\* (.*?)\*\*Pinned by\*\* (.*)", entry, flags=re.S).groups()
    names = re.findall(r"`(encoder\.[\w.]+)`", coded)
    assert names
    for name in names:
        module, piece = name.rsplit(".", 1)
        assert hasattr(importlib.import_module(module), piece), f"{label}: there is no {name}"
    tests = re.findall(r"`(test_\w+)`", pinned)
    assert tests
    assert not set(tests) - TESTS, f"{label}: no such test"


def test_all_twelve_numbered_formulas_have_a_place():
    numbers = [int(n) for found in re.findall(r"depth (\d+)(?: and (\d+))?", TEXT) for n in found if n]
    assert sorted(set(numbers) - {4}) == [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12]
    assert "depth 4 (GELU)" in TEXT
