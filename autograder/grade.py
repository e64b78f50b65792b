"""Grade a class: many sandboxes, one writer, and a receipt for every grade.

For each submission the order is: graded notebook, gradebook, receipt. A receipt is written last and atomically, so
whatever has no valid receipt is graded again: the grader may be killed at any moment and started anew.
"""

import contextlib
import hmac
import json
import multiprocessing
import os
import platform
import re
import resource
import secrets
import signal
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain, islice
from multiprocessing import forkserver
from pathlib import Path

from autograder import Problem
from autograder.assignment import MAX_NOTEBOOK, Assignment, digest
from autograder.sandbox import LIMITS, MALLOC, Limits, start_zygote
from autograder.verdict import Task, TestResult, Verdict, grader_failed

ENGINE = ("assignment", "diagnose", "guest", "restore", "sandbox", "score", "session", "verdict", "wire", "zygote")
NO_NAME = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # a new line, or bytes that are no text
MAX_FILES = 1000
MAX_FILES_BYTES = 64 << 20
WORKER_MEMORY = 16 << 30
ATTEMPTS = 2  # a submission during which the grading process itself died is tried once more, then named


@dataclass(frozen=True)
class Submission:
    """What one student has handed in for one assignment, as found on disk."""

    student: str
    assignment: str
    folder: Path

    @cached_property
    def notebook(self) -> bytes | None:
        return read_regular(self.folder / f"{self.assignment}.ipynb", MAX_NOTEBOOK)

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The other files, without notebooks; links are not followed."""
        files, room = {}, MAX_FILES_BYTES
        for directory, _, names in os.walk(self.folder):
            for name in sorted(names):
                path = Path(directory, name)
                if path.suffix != ".ipynb" and name != "timestamp.txt" and room > 0 and len(files) < MAX_FILES:
                    data = read_regular(path, room)
                    if data is not None and len(data) <= room:
                        files[str(path.relative_to(self.folder))] = data
                        room -= len(data)
        return files

    @cached_property
    def hash(self) -> str:
        parts = [part for name, data in sorted(self.files.items()) for part in (name, data)]
        return digest(b"" if self.notebook is None else self.notebook, str(self.notebook is None), *parts)

    @property
    def timestamp(self) -> str | None:
        data = read_regular(self.folder / "timestamp.txt", 100)
        return data.decode(errors="replace").strip() if data else None


def read_regular(path: Path, limit: int) -> bytes | None:
    """The bytes of a regular file, at most one more than `limit`; None for anything else, links included."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        with open(fd, "rb", closefd=False) as file:
            return file.read(limit + 1)
    finally:
        os.close(fd)


def find_submissions(directory: Path, assignments: Iterable[str]) -> list[Submission]:
    """All of `directory/STUDENT/ASSIGNMENT/`, in order; folders that are links are left out."""
    found = []
    for assignment in assignments:
        for student in sorted(p for p in directory.iterdir() if p.is_dir() and not p.is_symlink()):
            folder = student / assignment
            if folder.is_dir() and not folder.is_symlink():
                if NO_NAME.search(student.name):
                    raise Problem(f"the folder {student.name!r} in {directory} cannot be a student's name: rename it")
                found.append(Submission(student.name, assignment, folder))
    return found


def course_key(root: Path) -> bytes:
    """The secret that hidden inputs are drawn from: AUTOGRADER_KEY, or a file made on first use."""
    if key := os.environ.get("AUTOGRADER_KEY"):
        return key.encode()
    path = root / ".course-key"
    with contextlib.suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(32))
    return path.read_bytes()


def environment(root: Path, assignment: Assignment) -> str:
    """Hash of all that could change a verdict, apart from submission and tests."""
    here = Path(__file__).parent
    parts = [(here / f"{name}.py").read_bytes() for name in ENGINE]
    constraints = root / "constraints.txt"
    parts.append(constraints.read_bytes() if constraints.exists() else b"")
    parts += [part for pair in sorted({**assignment.package, **assignment.files}.items()) for part in pair]
    return digest(*parts, platform.python_version(), version("torch"), version("numpy"))


# -- receipts ------------------------------------------------------------------------------------------------------


class NotAReceipt(Problem):
    """It is broken, or of another version."""


@dataclass(frozen=True)
class Receipt:
    """Why a grade is what it is, and what it takes to find it again."""

    submission: str
    environment: str
    misconceptions: str
    secret: str
    limits: dict
    path: str
    verdict: Verdict

    def write(self, path: Path) -> None:
        data = asdict(self) | {"verdict": asdict(replace(self.verdict, notebook=""))}
        write_atomically(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Receipt":
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            verdict = data["verdict"]
            tests = tuple(TestResult(**test) for test in verdict.pop("tests"))
            notes = tuple(verdict.pop("notes"))
            return cls(**(data | {"verdict": Verdict(**verdict, tests=tests, notes=notes)}))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NotAReceipt(f"{path} is not a receipt of this grader: grade again to write it anew") from None

    def still_holds(self, submission: str, environment: str, assignment: Assignment) -> tuple[TestResult, ...]:
        """The results that need not be found again."""
        if (submission, environment) != (self.submission, self.environment) or self.verdict.state == "grader failed":
            return ()
        hashes = {test.name: test.hash for test in assignment.tests}
        same_tutor = self.misconceptions == digest(assignment.misconceptions)
        valid = [t for t in self.verdict.tests if hashes.get(t.name) == t.hash and (t.passed or same_tutor)]
        complete = len(valid) == len(hashes)
        return tuple(valid) if complete or self.verdict.state in ("graded", "tampered") else ()


def write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    os.replace(temporary, path)


# -- executors -----------------------------------------------------------------------------------------------------


def grade_one(task: Task) -> Verdict:
    from autograder.score import grade_submission  # here, so that the process which only writes never imports torch

    return grade_submission(task)


def start_workers() -> None:
    """Start what grading processes are forked from: it imports torch once, in the background."""
    os.environ.setdefault("GLIBC_TUNABLES", MALLOC)
    multiprocessing.get_context("forkserver").set_forkserver_preload(["autograder.score"])
    forkserver.ensure_running()


def in_processes(tasks: Iterable[Task], workers: int) -> Iterator[tuple[Task, Verdict]]:
    """Grade in `workers` processes. A process that dies costs no other submission."""
    start_workers()
    context = multiprocessing.get_context("forkserver")
    queue, attempts = iter(tasks), {}
    retry: list[Task] = []
    exhausted = False
    while retry or not exhausted:
        # After a death nobody knows whose fault it was: the candidates are tried again one at a time.
        alone = bool(retry)
        with ProcessPoolExecutor(1 if alone else workers, context, initializer=prepare_worker) as pool:
            running: dict[Future, Task] = {}
            try:
                while True:
                    while len(running) < (1 if alone else 2 * workers):
                        task = retry.pop() if retry else None if alone else next(queue, None)
                        if task is None:
                            exhausted = exhausted or not alone
                            break
                        running[pool.submit(grade_one, task)] = task
                    if not running:
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        verdict = future.result()
                        yield running.pop(future), verdict
            except BrokenProcessPool:
                for task in running.values():
                    key = (task.student, task.assignment.name)
                    attempts[key] = attempts.get(key, 0) + 1
                    if alone and attempts[key] >= ATTEMPTS:
                        yield task, grader_failed(task, "The grading process died while it graded this submission.")
                    else:
                        retry.append(task)


def prepare_worker() -> None:
    """Die with the grader, and bound what a test may compute with what comes from a sandbox."""
    threading.Thread(target=_die_with_grader, daemon=True).start()
    resource.setrlimit(resource.RLIMIT_AS, (WORKER_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _die_with_grader() -> None:
    """The kernel's own signal would come from the fork server, which lives as long as one of its processes does."""
    multiprocessing.parent_process().join()
    os.kill(os.getpid(), signal.SIGKILL)


# -- the run -------------------------------------------------------------------------------------------------------


class Grading:
    """What it takes to grade submissions of a course and to write the results under one folder."""

    def __init__(self, root: Path, output: Path, limits: Limits = LIMITS, sandboxed: bool = True):
        self.root, self.output, self.limits, self.sandboxed = root, output, limits, sandboxed
        self.key = course_key(root)
        self.assignments: dict[str, Assignment] = {}
        self.environments: dict[str, str] = {}

    def assignment(self, name: str) -> Assignment:
        if name not in self.assignments:
            self.assignments[name] = Assignment.load(self.root, name)
            self.environments[name] = environment(self.root, self.assignments[name])
        return self.assignments[name]

    def task(self, submission: Submission, known: tuple[TestResult, ...] = ()) -> Task:
        secret = hmac.digest(self.key, submission.hash.encode(), "sha256")
        what = (submission.student, self.assignment(submission.assignment), submission.notebook, secret)
        return Task(*what, submission.files, self.limits, self.sandboxed, known)

    def receipt(self, submission: Submission, task: Task, verdict: Verdict) -> Receipt:
        return Receipt(
            submission.hash,
            self.environments[submission.assignment],
            digest(task.assignment.misconceptions),
            task.secret.hex(),
            asdict(task.limits),
            str(submission.folder.absolute()),
            verdict,
        )

    def notebook_path(self, submission: Submission) -> Path:
        name = submission.assignment
        return self.output / "autograded" / submission.student / name / f"{name}.ipynb"

    def receipt_path(self, submission: Submission) -> Path:
        return self.output / "receipts" / submission.student / f"{submission.assignment}.json"

    def known(self, submission: Submission) -> tuple[Receipt | None, tuple[TestResult, ...]]:
        """The last receipt, and the results in it that still hold."""
        assignment = self.assignment(submission.assignment)
        try:
            receipt = Receipt.read(self.receipt_path(submission))
        except (FileNotFoundError, NotAReceipt):
            return None, ()
        same = receipt.verdict.sandboxed == self.sandboxed and receipt.limits == asdict(self.limits)
        same = same and self.notebook_path(submission).exists()
        environment = self.environments[assignment.name]
        return receipt, receipt.still_holds(submission.hash, environment, assignment) if same else ()


def grade_class(
    grading: Grading,
    submissions: list[Submission],
    url: str,
    workers: int,
    show: Callable[[Verdict], object] = lambda verdict: None,
    executor: Callable[[Iterable[Task], int], Iterator[tuple[Task, Verdict]]] = in_processes,
) -> list[Verdict]:
    """Grade what has changed, write it down, and return the verdicts of all submissions in order."""
    by_key = {(s.student, s.assignment): s for s in submissions}
    verdicts: dict[tuple[str, str], Verdict] = {}
    unchanged: list[Submission] = []

    def tasks() -> Iterator[Task]:
        for submission in submissions:
            receipt, known = grading.known(submission)
            if receipt and len(known) == len(grading.assignment(submission.assignment).tests):
                verdicts[submission.student, submission.assignment] = receipt.verdict
                unchanged.append(submission)
                show(receipt.verdict)
            else:
                yield grading.task(submission, known)

    start_zygote()
    with ThreadPoolExecutor(1) as thread:
        making = thread.submit(_make_gradebook, url)  # the first submissions are graded meanwhile
        results = executor(tasks(), workers)
        first = list(islice(results, 1))
        making.result()
    from autograder.gradebook import Book

    with Book(url) as book:
        names = dict.fromkeys(submission.assignment for submission in submissions)
        for name in names:
            book.add_assignment(grading.assignment(name))
        for task, verdict in chain(first, results):
            submission = by_key[task.student, task.assignment.name]
            write_atomically(grading.notebook_path(submission), verdict.notebook)
            book.save(verdict, submission.timestamp)
            grading.receipt(submission, task, verdict).write(grading.receipt_path(submission))
            verdicts[verdict.student, verdict.assignment] = verdict
            show(verdict)
        held = {name: book.scores(name) for name in names}
        for submission in unchanged:  # the gradebook may be another than the one they were written to
            verdict = verdicts[submission.student, submission.assignment]
            if held[submission.assignment].get(submission.student) != {t.name: t.score for t in verdict.tests}:
                book.save(verdict, submission.timestamp)
    return [verdicts[key] for key in by_key]


def _make_gradebook(url: str) -> None:
    from autograder.gradebook import Book

    with Book(url):
        pass


def verify(root: Path, path: Path) -> list[str]:
    """Grade once more what a receipt stands for; what differs, in sentences. Empty: the grade is confirmed."""
    receipt = Receipt.read(path)
    old = receipt.verdict
    submission = Submission(old.student, old.assignment, Path(receipt.path))
    grading = Grading(root, path.parent, Limits(**receipt.limits), old.sandboxed)
    task = replace(grading.task(submission), secret=bytes.fromhex(receipt.secret))
    differences = []
    if submission.hash != receipt.submission:
        differences.append("The submission is no longer the file that was graded.")
    if grading.environments[old.assignment] != receipt.environment:
        differences.append("The grader or the packages have changed since.")
    if {test.name: test.hash for test in task.assignment.tests} != {test.name: test.hash for test in old.tests}:
        differences.append("The tests have changed since.")
    new = grade_one(task)
    if new.state != old.state:
        differences.append(f"The state was {old.state} and is now {new.state}.")
    passed = {test.name: test.passed for test in new.tests}
    for test in old.tests:
        if passed.get(test.name) != test.passed:
            differences.append(f"'{test.sentence}' {'passed' if test.passed else 'failed'} then and not now.")
    return differences
