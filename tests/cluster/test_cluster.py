"""`make cluster-test`: many machines give the gradebook that one machine gives, also when one of them dies."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg2
import pytest
from distributed import Client
from machines import ENV, ROOT, postgresql, scheduler, wait_until, worker
from nbgrader.api import BaseCell, Grade, Student, SubmittedAssignment, SubmittedNotebook

from autograder.cluster import ClusterUnavailable, on_cluster
from autograder.demo import STEM, demo_class
from autograder.grade import Receipt
from autograder.gradebook import Book

SLOW = {"oscar", "victor"}  # they run into every limit; a minute each tells us nothing about a cluster
COPIES = 2


@pytest.fixture(scope="module")
def submitted(tmp_path_factory) -> Path:
    """The demo class, more than once: right, mistaken, broken and hostile."""
    folder = tmp_path_factory.mktemp("class") / "submitted"
    for student, text in demo_class(ROOT).items():
        for copy in range(COPIES if student not in SLOW else 0):
            path = folder / f"{student}{copy}" / STEM / f"{STEM}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
            path.with_name("timestamp.txt").write_text("2026-11-20 12:00:00 UTC\n")
    return folder


def grade(submitted: Path, output: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "autograder", "grade", STEM, "--submissions", str(submitted)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*command, "--output", str(output), *options], env=ENV, **pipes)


def content(url: str) -> set[tuple]:
    """All that a gradebook says about submissions, without the random ids of its rows."""
    with Book(url) as opened:
        book = opened.api
        query = (
            book.db.query(Student.id, SubmittedAssignment.timestamp, SubmittedNotebook.late_submission_penalty)
            .add_columns(BaseCell.name, Grade.auto_score, Grade.manual_score, Grade.needs_manual_grade, Grade.max_score)
            .select_from(Grade)
            .join(SubmittedNotebook, Grade.notebook_id == SubmittedNotebook.id)
            .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            .join(Student, SubmittedAssignment.student_id == Student.id)
            .join(BaseCell, Grade.cell_id == BaseCell.id)
        )
        rows = [tuple(row) for row in query]
        assert len(rows) == len(set(rows))
        return set(rows)


def receipts(output: Path) -> dict[str, tuple]:
    found = (Receipt.read(path) for path in output.glob(f"receipts/*/{STEM}.json"))
    return {r.verdict.student: (r.submission, r.secret, r.verdict.state, r.verdict.tests) for r in found}


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    with scheduler(tmp_path_factory.mktemp("scheduler")) as found:
        yield found


def test_a_cluster_without_workers_is_said_and_grades_nothing(monkeypatch, address):
    monkeypatch.setattr("autograder.cluster.PATIENCE", 2)
    with pytest.raises(ClusterUnavailable, match="no scheduler with a worker"):
        next(on_cluster(address)(iter(()), 1))
    with pytest.raises(ClusterUnavailable, match="no scheduler with a worker"):
        next(on_cluster("tcp://127.0.0.1:9")(iter(()), 1))


def test_the_gradebook_is_the_same_though_a_worker_dies(tmp_path, submitted, address):
    students = {path.name for path in submitted.iterdir()}
    with (
        worker(address, tmp_path),
        worker(address, tmp_path),
        postgresql() as database,
        Client(address) as client,
    ):
        client.wait_for_workers(2, timeout=120)
        cluster = tmp_path / "cluster"
        run = grade(submitted, cluster, "--scheduler", address, "--db", database)
        graded = lambda: len(list(cluster.glob("receipts/*/*.json")))  # noqa: E731
        wait_until(lambda: graded() >= 3 or run.poll() is not None, "the first grades")
        assert run.poll() is None, run.communicate()[0]
        busy = {name: tasks for name, tasks in client.processing().items() if tasks}
        victim = next(iter(busy))
        pid = client.run(os.getpid, workers=[victim])[victim]
        done = graded()
        descendants = psutil.Process(pid).children(recursive=True)
        os.kill(pid, signal.SIGKILL)
        print(f"\n{done} of {len(students)} graded; killed worker {victim} with {len(busy[victim])} tasks on it")
        assert done < len(students) - 2, "killed too late to be in the middle of the run"
        assert descendants and not psutil.wait_procs(descendants, timeout=60)[1], "nothing of a dead worker stays"
        output, _ = run.communicate(timeout=600)
        assert run.returncode == 0, output
        print(output)
        local = tmp_path / "local"
        alone = grade(submitted, local)
        output, _ = alone.communicate(timeout=600)
        assert alone.returncode == 0, output
        theirs, ours = content(database), content(f"sqlite:///{local}/gradebook.db")
        with psycopg2.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("select count(*) from submitted_assignment")
            assert cursor.fetchone() == (len(students),), "it really is in PostgreSQL"
    assert theirs == ours
    assert {row[0] for row in ours} == students
    assert receipts(cluster) == receipts(local), "every message and diagnosis, too"
    total = sum(row[4] for row in ours)
    assert total > 0
    print(f"{len(ours)} scores of {len(students)} students, {total!r} points: equal in PostgreSQL and SQLite")


def test_a_worker_with_another_grader_is_refused(tmp_path, address):
    copy = tmp_path / "other"
    shutil.copytree(ROOT / "autograder", copy / "autograder")
    with (copy / "autograder" / "score.py").open("a") as file:
        file.write("# changed\n")
    with worker(address, tmp_path, root=copy), pytest.raises(ClusterUnavailable, match="another version"):
        next(on_cluster(address)(iter(()), 1))
