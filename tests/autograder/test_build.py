"""The builder and its gates: what a learner gets is exactly what the sources say, and gives nothing away."""

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder.build import (
    BEGIN,
    BEGIN_HIDDEN,
    BuildError,
    assignments,
    build,
    exercise_notebook,
    grade_id,
    solution_notebook,
    withheld_lines,
)
from autograder.misconceptions import read_versions

ROOT = Path(__file__).resolve().parents[2]
ASSIGNMENTS = assignments(ROOT)
every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=lambda p: p.stem)

GOOD = """
# A title

```{code-cell}
import torch
```

```{code-cell}
:solution: double
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
```

```{code-cell}
:test: It doubles
:points: 1

assert double(3) == 6, "3 doubled is 6"
```

```{code-cell}
:test: It doubles what nobody expects
:points: 2
:hidden:

assert double(-7) == -14
```
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "assignments" / "99_sample.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def lines_of(nb: nbformat.NotebookNode) -> list[str]:
    return [line.strip() for cell in nb.cells for line in cell.source.splitlines() if line.strip()]


def test_rebuilding_changes_nothing():
    stale = build(ROOT)
    assert not stale, f"run `make notebooks` and commit: {[str(p.relative_to(ROOT)) for p in stale]}"


@every_assignment
def test_nbgrader_itself_makes_the_same_exercise(assignment, tmp_path):
    shutil.copytree(ROOT / "solutions" / assignment.stem, tmp_path / "source" / assignment.stem)
    command = ["nbgrader", "generate_assignment", assignment.stem, "--no-db", "--log-level=ERROR"]
    subprocess.run([*command, f"--CourseDirectory.root={tmp_path}"], check=True, cwd=tmp_path)
    theirs = nbformat.read(tmp_path / "release" / assignment.stem / f"{assignment.stem}.ipynb", as_version=4)
    ours = nbformat.read(ROOT / "exercises" / assignment.stem / f"{assignment.stem}.ipynb", as_version=4)
    assert theirs == ours


@every_assignment
def test_an_exercise_holds_only_what_was_given(assignment):
    """Every line of the exercise stands in a part of the solution notebook that is not withheld."""
    given = {"# YOUR CODE HERE", "raise NotImplementedError()"}
    for cell in solution_notebook(assignment).cells:
        withheld = False
        for line in cell.source.splitlines():
            if line.strip().startswith(("### BEGIN", "### END")):
                withheld = line.strip() in (BEGIN, BEGIN_HIDDEN)
            elif not withheld:
                given.add(line.strip())
    exercise = nbformat.read(ROOT / "exercises" / assignment.stem / f"{assignment.stem}.ipynb", as_version=4)
    assert set(lines_of(exercise)) <= given
    assert not [c for c in exercise.cells if c.get("outputs")], "an exercise carries no outputs"


@every_assignment
def test_nothing_given_gives_a_solution_away(assignment):
    """Two solution lines in a row, or one long line of a solution or a misconception, never stand in the exercise."""
    shown = lines_of(nbformat.read(ROOT / "exercises" / assignment.stem / f"{assignment.stem}.ipynb", as_version=4))
    pairs = set(itertools.pairwise(shown))
    solution = solution_notebook(assignment)
    bodies = [c for c in solution.cells if c.metadata.get("nbgrader", {}).get("solution")]
    for cell in bodies:
        secret = withheld_lines(nbformat.v4.new_notebook(cells=[cell]))
        leaked = [pair for pair in itertools.pairwise(secret) if pair in pairs]
        leaked += [line for line in secret if len(line) > 50 and line in shown]
        assert not leaked, f"{cell.metadata.nbgrader.grade_id}: the exercise shows {leaked}"
    sentences = [v.sentence for v in read_versions(assignment) if not v.right]
    text = " ".join(" ".join(shown).split())
    assert not [s for s in sentences if s in text], "a misconception's sentence stands in the exercise"


def test_a_leaked_solution_is_noticed(tmp_path):
    """The gate above can fail: a solution repeated in a given cell is found."""
    leaky = GOOD.replace("import torch", "def same(x):\n    return 2 * x")
    solution = solution_notebook(write(tmp_path, leaky))
    assert "return 2 * x" in lines_of(exercise_notebook(solution))
    assert "return 2 * x" in withheld_lines(solution)


def test_stems_line_up():
    stems = [path.stem for path in ASSIGNMENTS]
    for stem in stems:
        for path in (
            f"book/{stem}.ipynb",
            f"assignments/{stem}_misconceptions.py",
            f"solutions/{stem}/{stem}.ipynb",
            f"exercises/{stem}/{stem}.ipynb",
        ):
            assert (ROOT / path).is_file(), f"{path} is missing"
        if stem != "13_capstone":  # the last assignment assembles the pieces of the others
            assert (ROOT / f"encoder/{stem[3:]}.py").is_file() and (
                ROOT / f"tests/encoder/test_{stem[3:]}.py"
            ).is_file()
    chapters = sorted(p.stem for p in (ROOT / "book").glob("[0-9][0-9]_*.ipynb"))
    assert [c for c in chapters if c[:2] != "00"] == stems, "every chapter has its assignment"
    assert sorted(p.name for p in (ROOT / "exercises").iterdir()) == stems


@every_assignment
def test_every_piece_has_its_misconceptions(assignment):
    versions = read_versions(assignment)
    pieces = {
        c.metadata.nbgrader.grade_id
        for c in solution_notebook(assignment).cells
        if c.metadata.get("nbgrader", {}).get("solution")
    }
    assert {v.piece for v in versions} <= pieces, "a misconception names a piece that no solution cell defines"
    for piece in pieces:
        wrong = [v for v in versions if v.piece == piece and not v.right]
        right = [v for v in versions if v.piece == piece and v.right]
        assert len(wrong) >= 8 and len(right) >= 3, f"{piece}: {len(wrong)} misconceptions, {len(right)} right variants"
        assert all(len(v.sentence.split()) >= 8 for v in wrong), f"{piece}: a tutor says a whole sentence"


def published_copy(tmp_path: Path, url: str) -> Path:
    """A course of one assignment and one chapter whose _config.yml names a repository."""
    path = write(tmp_path, GOOD)
    (tmp_path / "book").mkdir(exist_ok=True)
    shutil.copy(ROOT / "book" / "01_attention.ipynb", tmp_path / "book")
    (tmp_path / "_config.yml").write_text(f"repository: {{url: '{url}', branch: main}}")
    return path


def test_the_cell_that_fetches_the_course_comes_and_goes_with_the_repository(tmp_path):
    path = published_copy(tmp_path, "https://github.com/someone/course")
    chapter = tmp_path / "book" / "01_attention.ipynb"
    before = chapter.read_bytes()
    assert chapter in build(tmp_path) and build(tmp_path) == []
    exercise = nbformat.read(tmp_path / "exercises" / path.stem / f"{path.stem}.ipynb", as_version=4)
    assert "someone/course" in exercise.cells[0].source, "first of all"
    assert "someone/course" in nbformat.read(chapter, as_version=4).cells[1].source, "after the title"
    published_copy(tmp_path, "")
    assert len(build(tmp_path)) == 2 and chapter.read_bytes() == before, "without a repository there is no such cell"


def test_a_notebook_opened_elsewhere_fetches_the_course(tmp_path):
    """What Colab does: the exercise's first cell, in an empty folder, with no course installed."""
    there = tmp_path / "published"
    subprocess.run(["git", "clone", "-q", ROOT, there], check=True)
    subprocess.run(["git", "branch", "-f", "main"], cwd=there, capture_output=True)
    cell = solution_notebook(published_copy(tmp_path, there.as_uri())).cells[0].source
    script = tmp_path / "elsewhere" / "notebook.py"
    script.parent.mkdir()
    forget = "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if '__editable__' not in f.__module__]\n"
    script.write_text(f"{forget}{cell}\nimport encoder.heads, plots\nprint(encoder.__file__)\n")
    done = subprocess.run([sys.executable, script], cwd=script.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(script.parent / "course" / "encoder" / "__init__.py")


def test_options_become_nbgrader_cells(tmp_path):
    nb = solution_notebook(write(tmp_path, GOOD))
    meta = [c.metadata.get("nbgrader", {}) for c in nb.cells]
    assert [m.get("grade_id") for m in meta] == [None, None, "double", "it_doubles", "it_doubles_what_nobody_expects"]
    assert [m.get("points") for m in meta] == [None, None, None, 1, 2]
    assert nb.cells[-1].source.splitlines()[0] == "# It doubles what nobody expects"
    exercise = exercise_notebook(nb)
    assert exercise.cells[-1].source.strip() == "# It doubles what nobody expects"
    assert "return 2 * x" not in exercise.cells[2].source and "NotImplementedError" in exercise.cells[2].source


def test_a_sentence_becomes_an_id():
    assert grade_id("Padding never changes √d_k, or 2 tokens!") == "padding_never_changes_d_k_or_2_tokens"


def test_a_class_keeps_its_constructor(tmp_path):
    text = GOOD + "\n```{code-cell}\n:solution: encoder.heads.MultiHeadAttention\n```\n"
    source = exercise_notebook(solution_notebook(write(tmp_path, text))).cells[-1].source
    assert "self.q_proj = nn.Linear" in source, "parameter names are given"
    assert "def forward(" in source and "self.out_proj(" not in source, "the forward pass is the learner's"


SOLUTION = GOOD[GOOD.index(":solution:") : GOOD.index("    ### END SOLUTION") + len("    ### END SOLUTION")]
BAD = {  # what: (replace this, by that, the text on the line that is named, what is said)
    "an unknown option": (":points: 1", ":point: 1", ":point: 1", "unknown option :point:"),
    "an option given twice": (":points: 1", ":points: 1\n:points: 2", ":points: 2", "given twice"),
    "a missing function": (SOLUTION, ":solution: encoder.attention.no", ":solution:", "encoder.attention has no no"),
    "a missing module": (SOLUTION, ":solution: encoder.nowhere.no", ":solution:", "there is no module encoder.nowhere"),
    "a duplicate name": (
        "It doubles what nobody expects",
        "It doubles!",
        ":test: It doubles!",
        "it_doubles is used twice",
    ),
    "zero points": (":points: 1", ":points: 0", ":points: 0", "a positive whole number"),
    "no points": (":points: 1\n", "", ":test: It doubles", "a positive whole number"),
    "points on a solution": (":solution: double", ":solution: double\n:points: 1", ":points: 1", "belongs to a test"),
    "a test that checks nothing": ('assert double(3) == 6, "3 doubled is 6"', "# later", ":test:", "checks nothing"),
    "a seed in a test": ("assert double(3)", "torch.manual_seed(0)\nassert double(3)", ":test:", "seeds a generator"),
    "code that does not parse": ("double(-7) == -14", "double(-7 == -14", "double(-7 ==", "does not parse"),
    "a solution without markers": ("    ### BEGIN SOLUTION\n", "", ":solution:", "needs ### BEGIN SOLUTION"),
    "a solution that defines another name": ("def double", "def triple", ":solution:", "never defines double"),
    "a cell never closed": ("== -14\n```", "== -14", "```{code-cell}\n:test: It doubles what", "never closed"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence_with_file_and_line(what, tmp_path):
    old, new, named, sentence = BAD[what]
    assert old in GOOD
    text = GOOD.replace(old, new)
    path = write(tmp_path, text)
    with pytest.raises(BuildError) as caught:
        solution_notebook(path)
    message = str(caught.value)
    assert sentence in message and "\n" not in message
    line = text[: text.index(named)].count("\n") + 1
    assert message.startswith(f"{path}:{line}:"), f"expected line {line}: {message}"
