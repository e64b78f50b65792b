"""500 submissions reported and exported; a class graded on one and on two workers of a cluster.

python -m benchmarks.bench_desk            writes benchmarks/RESULTS.md
python -m benchmarks.bench_desk --quick    20 students, one round, writes nothing: does it still run?
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from distributed import Client

from autograder.assignment import Assignment
from autograder.cluster import on_cluster
from autograder.demo import demo_class
from autograder.rehearsal import write_class
from autograder.verdict import Task
from benchmarks.results import machine, table, write_section

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

from machines import ENV, scheduler, worker  # noqa: E402

NAME = "01_attention"
HEALTHY = {"ada", "grace", "bea", "chen", "dario", "emeka", "fatima", "noah"}  # nobody who waits for a time limit


def measured(*words: str) -> tuple[float, float]:
    """Seconds and peak megabytes of one command of the autograder, the start of Python included."""
    start = time.perf_counter()
    code = (  # not getrusage, which also knows the peak of the parent
        "import sys; from autograder.__main__ import main; status = main(sys.argv[1:]); "
        "print(open('/proc/self/status').read(), file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], env=ENV, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, int(re.findall(r"VmHWM:\s+(\d+)", done.stderr)[-1]) / 1024


def desk(students: int, rounds: int, folder: Path) -> list[list[str]]:
    write_class(ROOT, NAME, students, folder)
    rows = []
    jobs = {
        "report": ["report", NAME, "--output", str(folder)],
        "export --to csv": ["export", NAME, "--output", str(folder), "--file", str(folder / "grades.csv")],
        "feedback": ["feedback", "--output", str(folder)],
    }
    for name, words in jobs.items():
        found = [measured(*words) for _ in range(rounds)]
        seconds, peak = (statistics.median(values) for values in zip(*found, strict=True))
        rows.append([name, str(students), f"{seconds:.1f}", f"{peak:.0f}"])
    return rows


def throughput(copies: int, folder: Path) -> list[list[str]]:
    """The same class, on one worker and on two; every worker has graded before it is timed."""
    assignment = Assignment.load(ROOT, NAME)
    texts = [text for student, text in demo_class(ROOT).items() if student in HEALTHY]

    def tasks(count: int) -> list[Task]:
        notebooks = [text.encode() for _ in range(count) for text in texts]
        return [Task(str(i), assignment, data, i.to_bytes(32, "big")) for i, data in enumerate(notebooks)]

    rates = {}
    for workers in (1, 2):
        with ExitStack() as stack:
            address = stack.enter_context(scheduler(folder))
            for _ in range(workers):
                stack.enter_context(worker(address, folder))
            with Client(address) as client:
                client.wait_for_workers(workers, timeout=120)
            list(on_cluster(address)(tasks(1), 0))
            start = time.perf_counter()
            verdicts = list(on_cluster(address)(tasks(copies), 0))
            rates[workers] = len(verdicts) / (time.perf_counter() - start)
    return [[str(n), f"{rate:.2f}", f"{rate / rates[1]:.2f} ×"] for n, rate in rates.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small, one round, nothing written")
    options = parser.parse_args()
    students, rounds, copies = (20, 1, 1) if options.quick else (500, 3, 6)
    with tempfile.TemporaryDirectory() as folder:
        at_desk = table(["command", "students", "seconds", "peak MB"], desk(students, rounds, Path(folder, "class")))
        on_cluster = table(["workers", "submissions a second", "against one"], throughput(copies, Path(folder)))
    print(machine(), at_desk, on_cluster, sep="\n\n")
    if not options.quick:
        write_section("Desk", f"{machine()}. {ABOUT}\n\n{at_desk}\n\n{on_cluster}")


ABOUT = (
    "A class with invented results; seconds and memory are those of the whole command, the start of Python "
    "included, median of three. Below: a demo class sent to Dask workers of one process each, which "
    "share this machine with the scheduler and the sender."
)

if __name__ == "__main__":
    main()
