"""The autograder beside stock nbgrader: the same 48 notebooks of assignment 01, in one run.

    python -m benchmarks.bench_grading            everything; writes benchmarks/RESULTS.md
    python -m benchmarks.bench_grading --quick    4 notebooks, writes nothing: does it still run?

Stock nbgrader runs at its best setting, one thread a kernel. Ours runs with sandbox, trusted scoring and diagnosis, as
a class is graded: from the command to the last line in the gradebook. Ours runs before and after nbgrader and the mean
counts, so that a machine that gets slower meanwhile favours neither.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import psutil

from autograder.build import solution_notebook
from autograder.misconceptions import answered, read_versions
from benchmarks.results import machine, table, write_section

ROOT = Path(__file__).parents[1]
NAME = "01_attention"
TARGET = 12.0
STOCK_CONFIG = """c = get_config()
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError()"}
"""


def hand_in(folder: Path, count: int) -> None:
    """`count` notebooks in turn: the solution, every known mistake, every other style."""
    assignment = ROOT / "assignments" / f"{NAME}.md"
    solution = solution_notebook(assignment)
    texts = [nbformat.writes(answered(solution, {v.piece: v.source})) for v in read_versions(assignment)]
    texts.insert(0, nbformat.writes(answered(solution)))
    for number in range(count):
        path = folder / f"student{number:03}" / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(texts[number % len(texts)])


@dataclass
class Measured:
    """One run of a command."""

    seconds: float = 0.0
    first: float = 0.0  # seconds until the first grade was there
    memory: dict[str, int] = field(default_factory=dict)  # peak resident bytes by kind of process


def measure(command: list[str], cwd: Path, sign: str, text: str = "") -> Measured:
    """Run a command; a file of the pattern `sign` that holds `text` is the first grade."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    result, start = Measured(), time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watcher = threading.Thread(target=watch, args=(process, cwd, sign, text, start, result))
    watcher.start()
    code = process.wait()
    result.seconds = time.perf_counter() - start
    watcher.join()
    assert code == 0, f"{command} ended with {code}"
    return result


def watch(process: subprocess.Popen, cwd: Path, sign: str, text: str, start: float, result: Measured) -> None:
    while process.poll() is None:
        if not result.first and any(text in path.read_text() for path in cwd.glob(sign)):
            result.first = time.perf_counter() - start
        try:
            for child in psutil.Process(process.pid).children(recursive=True):
                line = " ".join(child.cmdline())
                kind = "fork server" if "zygote.py" in line else "worker" if "forkserver" in line else ""
                if kind:
                    memory = child.memory_info()
                    result.memory[kind] = max(result.memory.get(kind, 0), memory.rss - memory.shared)
        except psutil.Error:
            pass
        time.sleep(0.1)


def ours(folder: Path, workers: int) -> Measured:
    for stale in ("autograded", "receipts"):
        shutil.rmtree(folder / stale, ignore_errors=True)
    (folder / "gradebook.db").unlink(missing_ok=True)
    command = [sys.executable, "-m", "autograder", "grade", NAME, "--submissions", str(folder / "submitted")]
    return measure([*command, "--workers", str(workers)], folder, "receipts/*/*.json")


def stock(folder: Path) -> Measured:
    """nbgrader as it comes, on a copy of the same submissions."""
    shutil.copytree(folder / "submitted", (folder := folder.with_name("stock")) / "submitted")
    shutil.copytree(ROOT / "solutions" / NAME, folder / "solutions" / NAME)
    (folder / "nbgrader_config.py").write_text(STOCK_CONFIG)
    measure(["nbgrader", "generate_assignment", NAME, "--force"], folder, "-")
    # the notebook is there before it has been run: it is graded when its first cell has a number
    return measure(
        ["nbgrader", "autograde", NAME, "--force"], folder, "autograded/*/*/*.ipynb", '"execution_count": 1,'
    )


FLOOR = """
import contextlib, io, json, sys, time
import numpy, torch, matplotlib
torch.set_num_threads(1)
total, paths = 0.0, sys.argv[1:]
for path in paths:
    sources = ["".join(c["source"]) for c in json.load(open(path))["cells"] if c["cell_type"] == "code"]
    namespace, start = {}, time.perf_counter()
    for source in sources:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(BaseException):
            exec(source, namespace)
    total += time.perf_counter() - start
print(total / len(paths))
"""


def floor(folder: Path, count: int) -> float:
    """Seconds that the cells of one notebook take by themselves, in a warm Python: no grader can be faster per core."""
    paths = [str(p) for p in sorted((folder / "submitted").glob("*/*/*.ipynb"))[:count]]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", FLOOR, *paths], env=env, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="4 notebooks, writes nothing")
    options = parser.parse_args()
    count, sizes = (4, [8]) if options.quick else (48, [100, 250, 500])
    workers = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "class")
        hand_in(folder / "submitted", count)
        before = ours(folder, workers)
        theirs = stock(folder)
        after = ours(folder, workers)
        least = floor(folder, count)
        seconds = (before.seconds + after.seconds) / 2
        ratio = theirs.seconds / seconds
        rows = [
            ["stock nbgrader", f"{theirs.seconds:.1f}", f"{theirs.seconds / count:.3f}", f"{theirs.first:.1f}", "1.0"],
            ["autograder", f"{seconds:.1f}", f"{seconds / count:.3f}", f"{before.first:.1f}", f"{ratio:.1f}"],
            ["the cells alone", f"{least * count / workers:.1f}", f"{least / workers:.3f}", "", ""],
        ]
        head = [f"{count} submissions, {workers} workers", "seconds", "each", "first result", "times as fast"]
        speed = (
            table(head, rows) + f"\n\nTarget: {TARGET:g} times as fast; {'reached' if ratio >= TARGET else 'missed'}."
        )
        growth = []
        for size in sizes:
            more = Path(temporary, f"class{size}")
            hand_in(more / "submitted", size)
            run = ours(more, workers)
            memory = [f"{run.memory.get(kind, 0) >> 20}" for kind in ("worker", "fork server")]
            growth.append([str(size), f"{run.seconds:.1f}", f"{run.seconds / size:.3f}", f"{run.first:.1f}", *memory])
        head = ["submissions", "seconds", "each", "first result", "MB a worker", "MB of the fork server"]
        cost = table(head, growth)
    print(machine(), speed, cost, sep="\n\n")
    if not options.quick:
        write_section("Grading: beside stock nbgrader", f"{machine()}. {ABOUT}\n\n{speed}")
        write_section("Grading: as the class grows", f"{machine()}. Memory is what a process holds alone.\n\n{cost}")


ABOUT = (
    f"Assignment {NAME}: the solution, every known mistake and every right answer in another style, in turn. Stock "
    "nbgrader with one thread a kernel. Ours with sandbox, trusted scoring and diagnosis, from the command to the last "
    "line in the gradebook. *The cells alone*: what all cells, tests included, take in a warm Python, divided over the "
    "cores."
)

if __name__ == "__main__":
    main()
