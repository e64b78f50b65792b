"""Put a submission's locked cells back as they were handed out, and say what had been changed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from autograder.assignment import Assignment, Test, grade_id

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


@dataclass(frozen=True)
class Restored:
    """A submission as it is graded: every test cell once, as handed out, and the learner's cells around them."""

    cells: list[dict]
    changes: list[str]  # sentences about locked cells that were not as handed out
    missing: list[str]  # solution cells that are not there

    @property
    def code(self) -> list[int]:
        """Positions of the cells to run: all code that is not a test."""
        return [i for i, cell in enumerate(self.cells) if cell["cell_type"] == "code" and "test" not in cell]

    def as_notebook(self, outputs: Mapping[int, list[dict]]) -> str:
        """The text of the notebook, with outputs by position. No page that shows it runs a script."""
        cells = []
        for position, cell in enumerate(self.cells):
            kept = {key: cell[key] for key in ("cell_type", "metadata", "source")} | {"id": f"cell-{position}"}
            if cell["cell_type"] == "code":
                kept |= {"execution_count": None, "outputs": [_shown(o) for o in outputs.get(position, [])]}
            elif "given" not in cell:
                kept["source"] = without_html(cell["source"])
            cells.append(kept)
        notebook = {"cells": cells, "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def restore(assignment: Assignment, submitted: list[dict]) -> Restored:
    tests = {test.name: test for test in assignment.tests}
    given = {cell["source"] for cell in assignment.cells if cell["cell_type"] == "markdown"}
    truth = {grade_id(cell): cell for cell in assignment.cells if grade_id(cell)}
    cells: list[dict] = []
    changes: list[str] = []
    order: list[str] = []
    for cell in submitted:
        name = grade_id(cell)
        if name in tests:
            if name in order:
                changes.append(f"the test '{tests[name].sentence}' was there twice")
                continue
            as_made = (tests[name].shown, tests[name].source.strip())  # the solution itself shows what is hidden
            if cell["source"].strip() not in as_made or cell["cell_type"] != "code":
                changes.append(f"the test '{tests[name].sentence}' was edited")
            order.append(name)
            cells.append(_test_cell(tests[name]))
        elif name in truth:
            cells.append({**cell, "metadata": {"nbgrader": dict(truth[name]["metadata"]["nbgrader"])}})
        else:
            as_given = cell["cell_type"] == "markdown" and cell["source"] in given
            cells.append({**cell, "metadata": {}} | ({"given": True} if as_given else {}))
    if order != [name for name in tests if name in order]:
        changes.append("tests were moved")
    for name in tests:
        if name not in order:
            changes.append(f"the test '{tests[name].sentence}' was missing")
            cells.insert(_place(name, list(truth), cells), _test_cell(tests[name]))
    present = {grade_id(cell) for cell in cells}
    return Restored(cells, changes, [name for name in assignment.solutions if name not in present])


def without_html(text: str) -> str:
    """Markdown whose tags are only text: nbgrader's pages, formgrader's too, show HTML in it as it is.

    A space of no width keeps a tag from being one, and the text looks the same, in code and formulas too.
    """
    return re.sub(r"<(?=[A-Za-z/!?])", "<\u200b", text)


def _shown(output: dict) -> dict:
    data = output.get("data", {})
    if "text/markdown" not in data:
        return output
    return output | {"data": data | {"text/markdown": without_html(data["text/markdown"])}}


def _test_cell(test: Test) -> dict:
    return {"cell_type": "code", "source": test.shown, "metadata": {"nbgrader": dict(test.metadata)}, "test": test.name}


def _place(name: str, order: list[str], cells: list[dict]) -> int:
    """After the last graded cell that comes before `name` in the assignment."""
    before = set(order[: order.index(name)])
    return max((i + 1 for i, cell in enumerate(cells) if grade_id(cell) in before), default=len(cells))
