"""A small cluster on this machine: a Dask scheduler, workers, a PostgreSQL server."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
ENV["PATH"] = f"{Path(sys.executable).parent}:{ENV['PATH']}"


def wait_until(condition: Callable[[], object], what: str, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def process(*command: str, log: Path, root: Path = ROOT) -> Iterator[subprocess.Popen]:
    """Runs beside us, with the code of `root`; it ends with the block."""
    with log.open("ab") as file:
        env = ENV | {"PYTHONPATH": str(root)}
        running = subprocess.Popen(command, env=env, cwd=root, stdout=file, stderr=file)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


@contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    port = free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    with process(sys.executable, "-m", "distributed.cli.dask_scheduler", *options, log=folder / "scheduler.log"):
        yield f"tcp://127.0.0.1:{port}"


def worker(address: str, folder: Path, root: Path = ROOT):
    command = (sys.executable, "-m", "autograder", "worker", address, "--workers", "1")
    return process(*command, log=folder / "worker.log", root=root)


@contextmanager
def postgresql() -> Iterator[str]:
    """A server of our own with one empty database; root may not run it, so then the user `postgres` does."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    programs = found[-1] if found else Path(shutil.which("initdb") or "").parent
    port, other_user = free_port(), []
    with tempfile.TemporaryDirectory() as data:  # not under pytest's folder, which is closed to other users
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(data, user.pw_uid, user.pw_gid)
            other_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

        def run(program: str, *options: str) -> None:
            command = [*other_user, str(programs / program), *options]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/")
            assert done.returncode == 0, done.stderr

        run("initdb", "-D", data, "-U", "grader", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories='' -c fsync=off"
        run("pg_ctl", "-D", data, "-w", "-l", f"{data}/log", "-o", options, "start")
        try:
            run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "grader", "gradebook")
            yield f"postgresql://grader@127.0.0.1:{port}/gradebook"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
