"""Grade on many machines: the same task, bytes in and verdict out, sent to the workers of a Dask scheduler.

On one machine:         dask scheduler
On each machine:        autograder worker tcp://HEAD:8786
Where the gradebook is: autograder grade --scheduler tcp://HEAD:8786 --db postgresql://USER@HEAD/gradebook

Only the machine that runs `grade` writes: gradebook, graded notebooks and receipts. A worker needs this repository,
the same packages and bubblewrap, but no course key and no database. Tasks carry hidden tests, and a Dask scheduler runs
code for whoever can reach it: use a network of your own, or tls:// addresses with Dask's certificates.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from importlib.metadata import version
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from distributed import Client, as_completed
from distributed.scheduler import KilledWorker

from autograder.assignment import digest
from autograder.grade import ATTEMPTS, ENGINE, grade_one, prepare_worker, start_workers
from autograder.sandbox import start_zygote
from autograder.verdict import Task, Verdict, grader_failed

PATIENCE = 60  # seconds to wait for the first worker


class ClusterUnavailable(ConnectionError):
    """Nothing was graded; the sentence says why."""


def on_cluster(address: str) -> Callable[[Iterable[Task], int], Iterator[tuple[Task, Verdict]]]:
    """An executor for `grade_class`. Its number of workers is that of the cluster, which may change meanwhile."""

    def run(tasks: Iterable[Task], _: int) -> Iterator[tuple[Task, Verdict]]:
        with _connect(address) as client:
            queue, sent, done = iter(tasks), {}, as_completed()

            def send() -> None:
                width = 2 * max(1, sum(client.nthreads().values()))
                for task in islice(queue, max(0, width - len(sent))):
                    # The scheduler sends a task again when its worker dies, and gives up after a few deaths.
                    future = client.submit(grade_here, task, pure=False)
                    sent[future] = task
                    done.add(future)

            send()
            for future in done:
                task = sent.pop(future)
                try:
                    verdict = future.result()
                except KilledWorker:
                    verdict = grader_failed(task, "Every worker that graded this submission died.")
                yield task, verdict
                send()

    return run


def _connect(address: str) -> Client:
    client = None
    try:
        client = Client(address, timeout=PATIENCE)
        client.wait_for_workers(1, timeout=PATIENCE)
        if other := [worker for worker, theirs in client.run(fingerprint).items() if theirs != fingerprint()]:
            raise ClusterUnavailable(
                f"these workers have another version of the grader or packages: {', '.join(other)}"
            )
        return client
    except (OSError, TimeoutError, ValueError) as problem:  # ValueError: not an address
        if client:
            client.close()
        if isinstance(problem, ClusterUnavailable):
            raise
        raise ClusterUnavailable(f"no scheduler with a worker at {address}: {problem}") from None


def fingerprint() -> str:
    """Of all on a machine that could change a verdict."""
    code = [(Path(__file__).parent / f"{name}.py").read_bytes() for name in ENGINE]
    return digest(*code, platform.python_version(), version("torch"), version("numpy"))


# -- on a worker ---------------------------------------------------------------------------------------------------


@cache
def _pool(deaths: int) -> ProcessPoolExecutor:
    """A process for the grader's own part, so that neither a long test nor its end harms the worker."""
    start_zygote()
    start_workers()
    return ProcessPoolExecutor(1, get_context("forkserver"), initializer=prepare_worker)


deaths = 0


def grade_here(task: Task) -> Verdict:
    global deaths
    for _ in range(ATTEMPTS):
        try:
            return _pool(deaths).submit(grade_one, task).result()
        except BrokenProcessPool:
            deaths += 1  # the next pool is a new one
    return grader_failed(task, "The grading process died while it graded this submission.")


def become_worker(address: str, count: int) -> None:
    """Become `dask worker`: processes of one thread each, which may have children of their own."""
    os.environ["DASK_DISTRIBUTED__WORKER__DAEMON"] = "False"
    options = ["--nworkers", str(count), "--nthreads", "1", "--memory-limit", "0", "--no-dashboard"]
    os.execv(sys.executable, [sys.executable, "-m", "distributed.cli.dask_worker", address, *options])
