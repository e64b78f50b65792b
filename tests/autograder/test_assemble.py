"""Your own encoder: whose pieces it holds, that it works, and that it says what was rescued and why."""

import ast
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder.__main__ import main
from autograder.assemble import (
    CERTIFICATE,
    Agreement,
    Piece,
    Rescue,
    assemble,
    certificate,
    renamed,
    replaced,
    run_minilm,
)
from autograder.build import solution_notebook
from autograder.misconceptions import answered, read_versions

ROOT = Path(__file__).resolve().parents[2]
WRONG = "no_offset"

MODULE = '''"""A module."""

import math

from torch import Tensor

LIMIT = 3


def area(x: Tensor) -> Tensor:
    """The reference's."""
    return math.pi * x * x


def ring(x, y):
    return area(x) - area(y)
'''


def put(*cells: str, given: tuple[str, ...] = ()) -> str:
    return replaced(MODULE, "shapes", "area", list(cells), {"area": "shapes", "ring": "shapes"}, set(given))


def run(text: str) -> dict:
    namespace: dict = {}
    exec(compile(text, "<module>", "exec"), namespace)
    return namespace


def test_the_learners_source_takes_the_place_of_the_reference():
    text = put("import math\n", "def area(x):\n    # mine\n    return math.pi * x**2\n")
    assert "# mine" in text and "The reference's." not in text
    assert run(text)["ring"](2, 1) == pytest.approx(9.42477796)
    assert text.count("import math") == 1, "what the module has already is not imported again"


def test_helpers_and_imports_come_along():
    text = put(
        "import numpy as np\nfrom functools import reduce as fold\n",
        "FACTOR = np.pi\n\n\ndef times(a, b):\n    return fold(lambda u, v: u * v, [FACTOR, a, b])\n",
        "unused = 1\nprint('not this')\n",
        "def area(x):\n    return times(x, x)\n",
    )
    assert run(text)["area"](2.0) == pytest.approx(12.5663706)
    assert "unused" not in text and "print" not in text


def test_the_same_import_written_otherwise_is_no_conflict():
    text = put("import torch\n", "import torch.nn.functional as F\n", "def area(x):\n    return F.relu(x) * torch.pi\n")
    assert "from torch.nn import functional as F" in text
    assert "from torch import Tensor" in text


def test_a_stand_in_that_was_handed_out_gives_way_to_the_real_thing():
    text = put("LIMIT = 4", "def area(x):\n    return LIMIT * x\n", given=("LIMIT = 4",))
    assert run(text)["area"](1) == 3


def test_the_last_definition_counts():
    text = put("def area(x):\n    return 1\n", "def area(x):\n    return 2\n")
    assert run(text)["area"](0) == 2 and "return 1" not in text


def test_a_class_that_extends_itself_keeps_its_beginning():
    module = "class Shape:\n    pass\n"
    cells = ["class Shape:\n    a = 1\n", "class Shape(Shape):\n    b = 2\n"]
    made = run(replaced(module, "shapes", "Shape", cells, {"Shape": "shapes"}, set()))["Shape"]
    assert (made.a, made.b) == (1, 2)


def test_decorators_belong_to_the_piece():
    text = put("import functools\n", "@functools.cache\ndef area(x):\n    return x\n")
    assert hasattr(run(text)["area"], "cache_clear")


@pytest.mark.parametrize(
    "cells, reason",
    [
        (["def area(x):\n    return nowhere(x)\n"], "it uses nowhere, which no cell"),
        (["LIMIT = 4\n", "def area(x):\n    return LIMIT * x\n"], "it uses a LIMIT of its own"),
        (["area = lambda x: x\n"], "not written as a function"),
        (["def other(x):\n    return x\n"], "not written as a function"),
        (["import encoder\n", "def area(x):\n    return encoder.x\n"], "imports the package encoder as a whole"),
    ],
)
def test_a_piece_that_cannot_be_moved_is_rescued_with_a_reason(cells, reason):
    with pytest.raises(Rescue, match=reason):
        put(*cells)


def test_the_package_speaks_of_itself():
    text = "from encoder.heads import x\nfrom encoder import heads\nfrom encoders import y\nencoder = 1\n"
    assert (
        renamed(text, "mine")
        == "from mine.heads import x\nfrom mine import heads\nfrom encoders import y\nencoder = 1\n"
    )


def test_the_certificate_names_pieces_reasons_and_agreement():
    pieces = [Piece("01_a", "a", "one"), Piece("02_b", "b", "two", "a test does not pass: x < y")]
    page = certificate(pieces, Agreement(77, 2e-7, None, ((1.0, 0.5, 0.1),) * 3))
    assert "1 of 2 pieces" in page and "x &lt; y" in page and "All 77 recorded tensors" in page
    assert "http" not in page, "self-contained"
    assert "layers.2.norm1, by 3.0e-01" in certificate(pieces, Agreement(77, 0.1, ("layers.2.norm1", 0.3)))
    assert "could not be run: KeyError" in certificate(pieces, Agreement(problem="KeyError: no"))


def test_a_part_called_row_by_row_is_judged_by_the_sentence_vectors():
    files = {p.name: renamed(p.read_text(), "rowwise") for p in (ROOT / "encoder").glob("*.py")}
    forward = "return self.down(ACTIVATIONS[self.activation](self.up(x)))"
    rows = "torch.stack([self.down(ACTIVATIONS[self.activation](self.up(row))) for row in x.flatten(0, -2)])"
    assert forward in files["feedforward.py"]
    files["feedforward.py"] = files["feedforward.py"].replace(forward, f"return {rows}.view_as(x)")
    agreement = run_minilm("rowwise", files, sandboxed=True)
    assert not agreement.problem and agreement.tensors > 50 and agreement.largest < 1e-5
    assert agreement.diverges is None or agreement.diverges[1] < 1e-3  # another order of summing, not another answer


def test_a_folder_of_somebody_else_is_never_written_to(tmp_path, capsys):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    assert main(["assemble", str(ROOT / "exercises"), "-o", str(tmp_path / "thesis")]) == 2
    assert "was not made by assemble" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "thesis").iterdir()] == ["chapter.txt"]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """The package of a learner who has done 01, has one mistake in 12, has not begun 04, and has nothing else."""
    folder = tmp_path_factory.mktemp("assembled")
    exercises = folder / "exercises"
    paths = {stem: ROOT / "assignments" / f"{stem}.md" for stem in ("01_attention", "04_feedforward", "12_variants")}
    wrong = next(v for v in read_versions(paths["12_variants"]) if v.name == WRONG)
    notebooks = {
        "01_attention": solution_notebook(paths["01_attention"]),
        "04_feedforward": nbformat.read(ROOT / "exercises/04_feedforward/04_feedforward.ipynb", as_version=4),
        "12_variants": answered(solution_notebook(paths["12_variants"]), {wrong.piece: wrong.source}),
    }
    for stem, notebook in notebooks.items():
        (exercises / stem).mkdir(parents=True)
        nbformat.write(notebook, exercises / stem / f"{stem}.ipynb")
    pieces, agreement = assemble(ROOT, exercises, folder / "encoder")
    return folder, {piece.name: piece for piece in pieces}, agreement


def test_finished_pieces_are_the_learners_and_the_others_are_named(mixed):
    folder, pieces, _ = mixed
    own = {"attention_weights", "scaled_dot_product_attention", "SharedEncoder", "disentangled_scores"}
    assert {name for name, piece in pieces.items() if not piece.reason} == own
    assert pieces["roberta_positions"].reason.startswith("a test does not pass: ")
    assert pieces["FeedForward"].reason == "it is not written yet"
    assert pieces["MultiHeadAttention"].reason == "there is no notebook that can be read"
    page = (folder / "encoder" / CERTIFICATE).read_text()
    assert f"4 of {len(pieces)} pieces" in page and pieces["roberta_positions"].reason in page


def test_the_rescued_piece_is_the_references(mixed):
    folder, *_ = mixed
    reference, made = ((root / "encoder" / "variants.py").read_text() for root in (ROOT, folder))
    both = [{s.name: ast.dump(s) for s in ast.parse(t).body if hasattr(s, "name")} for t in (reference, made)]
    assert both[0]["roberta_positions"] == both[1]["roberta_positions"]
    assert "### BEGIN SOLUTION" in made, "and the others came from the notebook"


def test_the_package_runs_the_real_model_as_the_reference_does(mixed):
    *_, agreement = mixed
    assert not agreement.problem and agreement.diverges is None
    assert agreement.tensors > 60 and agreement.largest <= 1e-6
    assert agreement.similarity[0][1] > 0.5 > agreement.similarity[0][2]


def test_the_package_passes_the_encoders_own_tests(mixed):
    folder, *_ = mixed
    files = [str(ROOT / "tests" / "encoder" / name) for name in ("test_attention.py", "test_variants.py")]
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(ROOT), "-x"]
    where = "import encoder.attention as a; print(a.__file__)"
    found = subprocess.run([sys.executable, "-c", where], cwd=folder, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).parent == folder / "encoder", "the package under test is the assembled one"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]
