"""A tiny course for the grader's own tests: two pieces, four tests, six points."""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.assignment import Assignment
from autograder.build import exercise_notebook
from autograder.sandbox import Limits

NAME = "01_tiny"
LIMITS = Limits(cell_seconds=4, test_seconds=6, total_seconds=24, disk=32 << 20, file_size=8 << 20, memory=2 << 30)

GIVEN = "import torch\nfrom torch import nn"
DOUBLE = """def double(x):
    ### BEGIN SOLUTION
    return 2 * x  # SECRET-1b7e: nobody may read this
    ### END SOLUTION"""
AFFINE = """class Affine(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        ### BEGIN SOLUTION
        return x * self.weight + self.bias
        ### END SOLUTION"""
TESTS = {
    "double": [
        ("Doubling doubles", 1, "x = torch.randn(3)\nassert torch.allclose(double(x), 2 * x), 'twice as much'"),
        (
            "Doubling works for any shape",
            2,
            "### BEGIN HIDDEN TESTS\nx = torch.randn(2, 5)\nassert torch.allclose(double(x), x + x), 'secret message'\n"
            "### END HIDDEN TESTS",
        ),
    ],
    "Affine": [
        ("The weight scales", 1, "m = Affine(4)\nx = torch.randn(3, 4)\nassert torch.allclose(m(x), x)"),
        (
            "Gradients reach weight bias and input",
            2,
            "### BEGIN HIDDEN TESTS\nm = Affine(4)\nwith torch.no_grad():\n    m.weight.normal_()\n"
            "    m.bias.normal_()\n"
            "x = torch.randn(3, 4, requires_grad=True)\nm(x).pow(2).sum().backward()\n"
            "y = x.detach() * m.weight.detach() + m.bias.detach()\n"
            "assert torch.allclose(m.bias.grad, (2 * y).sum(0), atol=1e-5)\n"
            "assert torch.allclose(m.weight.grad, (2 * y * x.detach()).sum(0), atol=1e-5)\n"
            "assert torch.allclose(x.grad, 2 * y * m.weight.detach(), atol=1e-5)\n### END HIDDEN TESTS",
        ),
    ],
}
MISCONCEPTIONS = '''
def double__squares(x):
    """You square instead of doubling."""
    return x * x

def double__right__sum(x):
    return x + x
'''


def solution_cell(name: str, source: str) -> nbformat.NotebookNode:
    meta = {"grade": False, "grade_id": name, "locked": False, "solution": True, "task": False, "schema_version": 3}
    return new_code_cell(source, id=name, metadata={"nbgrader": meta})


def graded_cell(sentence: str, points: int, source: str) -> nbformat.NotebookNode:
    name = sentence.lower().replace(" ", "_")
    meta = {"grade": True, "grade_id": name, "locked": True, "points": points, "solution": False, "task": False}
    return new_code_cell(f"# {sentence}\n{source}", id=name, metadata={"nbgrader": {**meta, "schema_version": 3}})


def tiny_solution() -> nbformat.NotebookNode:
    cells = [new_markdown_cell("# Tiny", id="title"), new_code_cell(GIVEN, id="given")]
    for piece, source in (("double", DOUBLE), ("Affine", AFFINE)):
        cells += [solution_cell(piece, source), *(graded_cell(*test) for test in TESTS[piece])]
    return new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})


def write_course(root: Path, solution: nbformat.NotebookNode | None = None) -> Path:
    """A course root with one assignment."""
    solution = solution or tiny_solution()
    for folder, notebook in (("solutions", solution), ("exercises", exercise_notebook(solution))):
        path = root / folder / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
    (root / "assignments").mkdir(exist_ok=True)
    (root / "assignments" / f"{NAME}_misconceptions.py").write_text(MISCONCEPTIONS)
    (root / "encoder").mkdir(exist_ok=True)
    (root / "encoder" / "__init__.py").write_text("CHAPTERS = {'checks': 0, 'tiny': 1}\n")
    (root / "encoder" / "checks.py").write_text("EARLIER = True\n")
    (root / "encoder" / "tiny.py").write_text("def double(x):\n    return 2 * x\n")
    return root


def answer(double: str = "def double(x):\n    return x + x", affine: str = AFFINE) -> nbformat.NotebookNode:
    """A submission with these answers."""
    notebook = exercise_notebook(tiny_solution())
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = double if cell.metadata.nbgrader.grade_id == "double" else affine
    return notebook


def one_piece(solutions: dict[str, str], test: str, given: str = GIVEN) -> Assignment:
    """An assignment with these pieces and one test; its own notebook is the right answer to it."""
    cells = [new_code_cell(given), *(solution_cell(*piece) for piece in solutions.items())]
    cells.append(graded_cell("It holds", 1, test))
    return Assignment(NAME, to_bytes(new_notebook(cells=cells)))


def to_bytes(notebook: nbformat.NotebookNode) -> bytes:
    return nbformat.writes(notebook).encode()
