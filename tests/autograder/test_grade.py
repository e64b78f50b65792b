"""Grading a class: nothing lost, nothing stale, nothing twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import NAME, answer, tiny_solution, to_bytes, write_course

from autograder import Problem
from autograder import grade as module
from autograder.__main__ import main
from autograder.feedback import as_text, write_feedback
from autograder.grade import Grading, Receipt, Submission, find_submissions, grade_class, in_processes, verify
from autograder.gradebook import Book
from autograder.score import grade_submission

ROOT = Path(__file__).parents[2]
SQUARES = "def double(x): return x * x"


@pytest.fixture
def class_root(tmp_path: Path, course: Path) -> Path:
    write_course(tmp_path)
    for student, notebook in {"ada": answer(), "bob": answer(SQUARES), "eve": answer("def double(")}.items():
        hand_in(tmp_path, student, to_bytes(notebook))
    return tmp_path


def hand_in(root: Path, student: str, data: bytes) -> Path:
    path = root / "submitted" / student / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


class Run:
    """One grading run in this process, and which tests it had to run."""

    def __init__(self, root: Path):
        self.graded: dict[str, int] = {}
        self.url = f"sqlite:///{root}/gradebook.db"
        submissions = find_submissions(root / "submitted", [NAME])
        verdicts = grade_class(Grading(root, root), submissions, self.url, 1, executor=self.execute)
        self.verdicts = {verdict.student: verdict for verdict in verdicts}

    def execute(self, tasks, workers):
        for task in tasks:
            self.graded[task.student] = len(task.assignment.tests) - len(task.known)
            yield task, grade_submission(task)

    def book(self) -> dict[str, float]:
        with Book(self.url) as book:
            return {student: sum(scores.values()) for student, scores in book.scores(NAME).items()}


def test_scores_reach_the_gradebook_and_the_learner(class_root: Path):
    run = Run(class_root)
    assert run.book() == {"ada": 6, "bob": 3, "eve": 3}
    assert "You square instead of doubling." in as_text(run.verdicts["bob"])
    assert "SyntaxError" in as_text(run.verdicts["eve"])
    pages = write_feedback(class_root, class_root)
    assert len(pages) == 3 and not any("secret message" in page.read_text() for page in pages)


def test_json_has_the_promised_form(class_root: Path):
    verdict = json.loads(json.dumps(Run(class_root).verdicts["bob"].as_json()))
    assert {"student", "assignment", "state", "score", "max_score", "seconds", "tests"} <= set(verdict)
    assert {"name", "points", "score", "passed", "hidden", "message", "diagnosis"} <= set(verdict["tests"][0])
    assert [test["hidden"] for test in verdict["tests"]] == [False, True, False, True]


def test_only_what_has_changed_is_graded_again(class_root: Path):
    first = Run(class_root)
    assert set(first.graded) == {"ada", "bob", "eve"}
    again = Run(class_root)
    assert again.graded == {} and again.book() == first.book()
    assert {s: v.score for s, v in again.verdicts.items()} == {s: v.score for s, v in first.verdicts.items()}
    hand_in(class_root, "bob", to_bytes(answer()))
    changed = Run(class_root)
    assert set(changed.graded) == {"bob"} and changed.book()["bob"] == 6


def test_a_changed_test_runs_alone(class_root: Path):
    Run(class_root)
    solution = tiny_solution()
    cell = next(c for c in solution.cells if c.id == "doubling_doubles")
    cell.source = cell.source.replace("torch.randn(3)", "torch.ones(3)").replace("2 * x", "x * x")
    write_course(class_root, solution)
    run = Run(class_root)
    assert run.graded == {"ada": 1, "bob": 1, "eve": 1}
    assert run.book() == {"ada": 5, "bob": 4, "eve": 3}


def test_a_renamed_test_replaces_the_old_one_in_the_gradebook(class_root: Path):
    Run(class_root)
    solution = tiny_solution()
    cell = next(c for c in solution.cells if c.id == "doubling_doubles")
    cell.metadata.nbgrader.grade_id = "a_new_name"
    write_course(class_root, solution)
    assert Run(class_root).book() == {"ada": 6, "bob": 3, "eve": 3}


def test_a_lost_gradebook_is_written_again_without_grading(class_root: Path):
    first = Run(class_root).book()
    (class_root / "gradebook.db").unlink()
    run = Run(class_root)
    assert run.graded == {} and run.book() == first


@pytest.mark.parametrize("data", [b"{", b"", to_bytes(answer("import os; os._exit(0)"))])
def test_a_failed_resubmission_keeps_no_old_points(class_root: Path, data: bytes):
    assert Run(class_root).book()["ada"] == 6
    hand_in(class_root, "ada", data)
    run = Run(class_root)
    assert run.book()["ada"] == run.verdicts["ada"].score < 6


def test_a_removed_notebook_scores_nothing(class_root: Path):
    Run(class_root)
    (class_root / "submitted" / "ada" / NAME / f"{NAME}.ipynb").unlink()
    run = Run(class_root)
    assert (run.book()["ada"], run.verdicts["ada"].state) == (0, "unreadable")


def test_links_are_not_followed(class_root: Path, tmp_path: Path):
    target = tmp_path / "elsewhere.ipynb"
    target.write_bytes(to_bytes(answer()))
    path = hand_in(class_root, "mallory", b"")
    path.unlink()
    path.symlink_to(target)
    (path.parent / "data.txt").symlink_to("/etc/passwd")
    os.mkfifo(path.parent / "pipe")
    (class_root / "submitted" / "linked").symlink_to(class_root / "submitted" / "ada")
    run = Run(class_root)
    assert run.verdicts["mallory"].state == "unreadable" and "linked" not in run.verdicts
    assert Submission("mallory", NAME, path.parent).files == {}


def test_odd_names_of_students_are_only_names(class_root: Path):
    for student in ("Zoë Ünal", "a'b\"; drop table", "..dots..", "-rf"):
        hand_in(class_root, student, to_bytes(answer()))
    run = Run(class_root)
    assert all(run.book()[student] == 6 for student in run.verdicts if student not in ("bob", "eve"))
    assert len(run.verdicts) == 7


def test_a_name_that_is_no_text_is_said_before_anything_is_graded(class_root: Path):
    hand_in(class_root, os.fsdecode(b"Zo\xeb"), to_bytes(answer()))
    with pytest.raises(Problem, match="rename"):
        Run(class_root)


def test_odd_files_stop_nobody(class_root: Path):
    hand_in(class_root, "a-folder", b"").unlink()
    (class_root / "submitted" / "a-folder" / NAME / f"{NAME}.ipynb").mkdir()
    (hand_in(class_root, "a-time", to_bytes(answer())).parent / "timestamp.txt").write_text("yesterday, 99 o'clock")
    beside = hand_in(class_root, "a-name", to_bytes(answer())).parent
    for name in (b"\xff\xfe", b"new\nline", b"data.csv"):
        (beside / os.fsdecode(name)).touch()
    run = Run(class_root)
    assert {s: run.book()[s] for s in ("a-folder", "a-time", "a-name", "ada")} == {
        "a-folder": 0,
        "a-time": 6,
        "a-name": 6,
        "ada": 6,
    }


@pytest.mark.parametrize(
    "command",
    [
        "check nowhere/01_tiny.ipynb",
        "check 99_unknown.ipynb",
        "grade 99_unknown --submissions submitted",
        "grade --submissions nowhere",
        "grade --submissions submitted --db nonsense",
        "grade --submissions submitted --output broken.json",
        "verify broken.json",
        "verify nowhere.json",
        "verify .",
        "feedback --output .",
        "report --output .",
        "export --output .",
        "export --output broken",
        "export --output . --db sqlite:///broken.json",
        "collect broken.json 01_tiny --roster roster.csv --output new",
        "collect broken.json 01_tiny --roster broken.json --output new",
        "collect broken.json 01_tiny --roster roster.csv --timezone Mars/Olympus --output new",
        "assemble nowhere",
    ],
)
def test_a_mistake_at_the_command_line_gets_one_sentence(command: str, class_root: Path, monkeypatch, capsys):
    monkeypatch.chdir(class_root)
    Path("broken.json").write_bytes(b'{"verdict": "\xff')
    Path("roster.csv").write_text("Student,ID\nAda,1\n")
    assert main(["--course", str(class_root), *command.split()]) == 2
    said = capsys.readouterr().err
    assert said.startswith("autograder: ") and said.count("\n") == 1, said


def test_files_beside_the_notebook_are_there(class_root: Path):
    path = hand_in(
        class_root,
        "fay",
        to_bytes(answer("factor = float(open('factor.txt').read())\ndef double(x): return factor * x")),
    )
    (path.parent / "factor.txt").write_text("2")
    assert Run(class_root).book()["fay"] == 6


def test_a_receipt_is_confirmed_or_says_what_differs(class_root: Path):
    Run(class_root)
    path = class_root / "receipts" / "bob" / f"{NAME}.json"
    assert verify(class_root, path) == []
    receipt = Receipt.read(path)
    forged = replace(receipt.verdict.tests[0], passed=True)
    replace(receipt, verdict=replace(receipt.verdict, tests=(forged, *receipt.verdict.tests[1:]))).write(path)
    assert verify(class_root, path) == ["'Doubling doubles' passed then and not now."]
    receipt.write(path)
    hand_in(class_root, "bob", to_bytes(answer()))
    assert "no longer the file" in verify(class_root, path)[0]


def test_hidden_inputs_differ_between_submissions_and_repeat_for_one(class_root: Path, monkeypatch):
    monkeypatch.delenv("AUTOGRADER_KEY", raising=False)
    grading = Grading(class_root, class_root)
    ada, bob, _ = find_submissions(class_root / "submitted", [NAME])
    assert grading.task(ada).secret == Grading(class_root, class_root).task(ada).secret != grading.task(bob).secret
    assert oct((class_root / ".course-key").stat().st_mode & 0o777) == "0o600"


def die(task):
    if task.student == "bob":
        os.kill(os.getpid(), signal.SIGKILL)
    return grade_submission(task)


def test_a_grader_that_dies_costs_only_the_submission_that_killed_it(class_root: Path, monkeypatch):
    monkeypatch.setattr(module, "grade_one", die)
    grading = Grading(class_root, class_root)
    tasks = [grading.task(s) for s in find_submissions(class_root / "submitted", [NAME])]
    states = {task.student: verdict.state for task, verdict in in_processes(tasks, 2)}
    assert states == {"ada": "graded", "bob": "grader failed", "eve": "graded"}


def test_without_bubblewrap_nothing_is_graded(class_root: Path):
    env = os.environ | {"PYTHONPATH": str(ROOT), "PATH": "/nowhere"}
    env.pop("AUTOGRADER_ZYGOTE", None)
    notebook = class_root / "submitted" / "ada" / NAME / f"{NAME}.ipynb"
    command = [sys.executable, "-m", "autograder", "--course", str(class_root), "check", str(notebook)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and "bubblewrap is not installed" in done.stderr and not done.stdout
    unsafe = subprocess.run([*command, "--unsafe-no-sandbox", "--json"], env=env, capture_output=True, text=True)
    verdict = json.loads(unsafe.stdout)
    assert unsafe.returncode == 0 and verdict["score"] == 6 and verdict["sandboxed"] is False


@pytest.mark.timeout(1800)
def test_killing_the_grader_at_any_moment_changes_nothing(class_root: Path):
    for number in range(3):
        hand_in(
            class_root,
            f"s{number}",
            to_bytes(answer(SQUARES if number % 2 else f"def double(x): return x + x  # {number}")),
        )
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    env.pop("AUTOGRADER_ZYGOTE", None)
    command = [sys.executable, "-m", "autograder", "--course", str(class_root), "grade", "--submissions"]
    command += [str(class_root / "submitted")]
    started = time.monotonic()
    subprocess.run([*command, "--output", str(class_root / "calm")], env=env, check=True, capture_output=True)
    whole = time.monotonic() - started

    torn = class_root / "torn"
    rng = random.Random(0)
    for _ in range(20):
        process = subprocess.Popen([*command, "--output", str(torn)], env=env, stdout=-3, stderr=-3)
        try:
            process.wait(rng.uniform(0, whole))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    subprocess.run([*command, "--output", str(torn)], env=env, check=True, capture_output=True)

    assert _book(torn) == _book(class_root / "calm")
    assert len(_book(torn)) == 6


def _book(output: Path) -> dict:
    with Book(f"sqlite:///{output}/gradebook.db") as book:
        return book.scores(NAME)
