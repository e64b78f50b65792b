"""One sandbox per submission: bubblewrap makes it, a warm fork joins it, the grader ends it.

Covered
- Files: the system and the Python environment, read-only; a small tmpfs to write to. Nothing of the course is mounted:
  no solution, hidden test, gradebook or other submission can be named. No path of the host is writable.
- Network: none. Other processes: none to be seen or signalled (own pid, ipc, uts and cgroup namespaces).
- Privileges: another uid when the grader is root, no capability, no new privileges; a clean environment. On x86-64 and
  ARM64 a seccomp filter refuses new namespaces, mounts, tracing, keys, io_uring and loading code into the kernel.
- Memory, CPU time, processes, file size and open files by rlimits; wall time and output from outside.
  Killing the first process of the pid namespace ends everything in it, daemons too.
- Forgery: whatever runs inside can only send plain values. Tests, references and scores never enter.

Not covered
- Bugs of the Linux kernel in what the filter leaves: there is no virtual machine.
- Total memory over several processes: each is limited, and the kernel is told to end guests first.
- Timing channels, and what one CPU cache tells another process.
- A learner who calls the library's own function where the task is to write it.

Without bubblewrap nothing is run: SandboxUnavailable. `sandboxed=False` forks without any of the above.
"""

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MIB = 1 << 20
# Memory of large tensors in large pages, and kept for the next one: page faults were a third of a guest's time.
MALLOC = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=268435456:glibc.malloc.trim_threshold=268435456"
ADDRESS = "AUTOGRADER_ZYGOTE"  # workers of one grader share its fork server through this variable


class SandboxUnavailable(Exception):
    """Grading must stop: there is no safe place to run a submission."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use."""

    memory: int = 3072 * MIB  # of which a warm guest takes 750 before it starts
    processes: int = 48
    file_size: int = 64 * MIB
    open_files: int = 256
    disk: int = 256 * MIB
    cell_seconds: float = 60
    test_seconds: float = 20
    total_seconds: float = 180

    def rlimits(self) -> dict[str, int]:
        return {
            "RLIMIT_AS": self.memory,
            "RLIMIT_CPU": int(self.total_seconds) + 1,
            "RLIMIT_FSIZE": self.file_size,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_CORE": 0,
        }


LIMITS = Limits()


def bwrap_argv(limits: Limits) -> list[str]:
    """The policy for files and namespaces, in one place."""
    argv = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"]
    argv += ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL", "--hostname", "sandbox"]
    if os.geteuid():
        argv += ["--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
    for name in ("bin", "lib", "lib64", "sbin"):
        if os.path.islink(f"/{name}"):
            argv += ["--symlink", f"usr/{name}", f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            argv += ["--ro-bind", f"/{name}", f"/{name}"]
    argv += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/dev/shm", "/tmp", "/home"):
        argv += ["--perms", "1777", "--size", str(limits.disk), "--tmpfs", path]
    for path in dict.fromkeys(["/usr", sys.base_prefix, sys.prefix]):
        for parent in reversed(Path(path).parents[:-1]):  # bwrap would make them 0700, closed to another uid
            argv += ["--perms", "0755", "--dir", str(parent)]
        argv += ["--ro-bind", path, path]
    return [*argv, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/home"]


def guest_env(home: str) -> dict[str, str]:
    env = {"HOME": home, "USER": "learner", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
    env |= {"IPYTHONDIR": f"{home}/.ipython", "MPLCONFIGDIR": f"{home}/.matplotlib", "PYTHONDONTWRITEBYTECODE": "1"}
    return env | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Zygote:
    """The fork server of this process and of the workers it starts."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="autograder-")
        self.address = f"{self.directory}/zygote"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.address)
            listener.listen(64)
            self.process = subprocess.Popen(
                [sys.executable, "-I", str(Path(__file__).with_name("zygote.py")), str(listener.fileno())],
                pass_fds=[listener.fileno()],
                env=guest_env("/nonexistent")
                | {"MPLCONFIGDIR": self.directory, "IPYTHONDIR": self.directory}
                | {"GLIBC_TUNABLES": MALLOC},
                cwd="/",
                stdin=subprocess.PIPE,  # closes with this process, and the fork server ends
                stdout=subprocess.DEVNULL,
            )
        os.environ[ADDRESS] = self.address
        atexit.register(self.stop, os.getpid())

    def stop(self, owner: int) -> None:
        if os.getpid() == owner:
            self.process.stdin.close()
            shutil.rmtree(self.directory, ignore_errors=True)


@cache
def start_zygote() -> None:
    """Start the fork server unless a parent process has; it warms up in the background."""
    if ADDRESS not in os.environ:
        Zygote()


def _fork(request: dict, fds: list[int]) -> int:
    """Ask the fork server for a guest; return its pidfd."""
    start_zygote()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as conn:
        conn.settimeout(60)
        try:
            conn.connect(os.environ[ADDRESS])
            socket.send_fds(conn, [json.dumps(request).encode()], fds)
            _, received, _, _ = socket.recv_fds(conn, 64, 1)
            return received[0]
        except (OSError, IndexError) as error:
            raise SandboxUnavailable(f"the fork server did not answer: {error!r}") from None


class Sandbox:
    """A running guest and the socket to it."""

    def __init__(self, limits: Limits, sandboxed: bool = True, libraries: Sequence[str] = ()):
        self.holder = self.first = self.directory = None
        self.home = "/home"
        if not sandboxed:
            self.directory = self.home = tempfile.mkdtemp(prefix="unsafe-sandbox-")
        self.socket, theirs = socket.socketpair()
        with theirs:
            fds = [theirs.fileno()]
            if sandboxed:
                self._hold_namespaces(limits)
                fds.append(self.first)
            # Process limits count by uid, so workers that grade at the same time take different ones.
            uid = 2_000_000 + os.getpid() if sandboxed and os.geteuid() == 0 else None
            request = {"sandboxed": sandboxed, "uid": uid, "limits": limits.rlimits() if sandboxed else {}}
            request["libraries"] = list(libraries)
            try:
                self.pidfd = _fork(request | {"env": guest_env(self.home), "home": self.home}, fds)
            except SandboxUnavailable:
                self.pidfd = None
                self.kill()
                raise

    def _hold_namespaces(self, limits: Limits) -> None:
        """Start bubblewrap around a process that only waits; keep a pidfd of the namespace's first process."""
        if not shutil.which("bwrap"):
            raise SandboxUnavailable("bubblewrap is not installed, so there is no safe place to run submissions")
        read, write = os.pipe()
        with os.fdopen(read) as info:
            self.holder = subprocess.Popen(
                [*bwrap_argv(limits), "--info-fd", str(write), "/bin/sh", "-c", "echo ready; exec sleep infinity"],
                pass_fds=[write],
                env={"PATH": "/usr/bin:/bin"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            os.close(write)
            if self.holder.stdout.readline() != b"ready\n":
                reason = self.holder.stderr.read().decode(errors="replace").strip()
                self.kill()
                raise SandboxUnavailable(f"bubblewrap cannot make a sandbox here: {reason}")
            self.first = os.pidfd_open(json.load(info)["child-pid"])

    def interrupt(self) -> None:
        """What Ctrl-C does: an honest endless loop ends with KeyboardInterrupt."""
        _signal(self.pidfd, signal.SIGINT)

    def kill(self) -> None:
        """End every process of the sandbox; safe to call twice."""
        for fd in (self.pidfd, self.first):
            if fd is not None:
                _signal(fd, signal.SIGKILL)
                os.close(fd)
        self.pidfd = self.first = None
        self.socket.close()
        if self.holder:
            self.holder.kill()
            self.holder.wait()
            self.holder.stdout.close()
            self.holder.stderr.close()
            self.holder = None
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _signal(pidfd: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)
