"""The fork server: imports torch, NumPy, matplotlib and IPython once, then forks one guest per request.

It is started with a clean environment and reads nothing of the course, so a guest inherits no secret. It stays at one
thread up to the fork (one BLAS thread, no parallel operation), which is what makes forking safe.

Usage: python -I zygote.py LISTENING_FD, with a pipe on stdin whose end means that the grader is gone.
"""

import contextlib
import ctypes
import errno
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import guest

del sys.path[0]

CLONE_NEWUSER = 0x10000000
CLONE_NEW_OTHERS = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x20000000 | 0x40000000  # mnt cgroup uts ipc pid net
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 22, 24, 36, 38
libc = ctypes.CDLL(None, use_errno=True)
tried: set[str] = set()


def check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def drop_privileges(uid: int | None) -> None:
    """Leave no capability; `uid` is given when the grader is root, whom no process limit would bind."""
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    check(libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()))
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


# System calls that no notebook needs and that lead towards the kernel: new namespaces, mounts, tracing other processes,
# loading code into the kernel. By machine: the number of the architecture, of clone, and of what is refused.
# fmt: off
SYSCALLS = {
    "x86_64": (0xC000003E, 56, (101, 155, 165, 166, 175, 246, 248, 249, 250, 272, 298, 304, 308, 310, 311, 313, 321,
                                323, 425, 426, 427, 428, 429, 430, 431, 432, 433)),
    "aarch64": (0xC00000B7, 220, (117, 39, 40, 41, 97, 104, 105, 217, 218, 219, 241, 265, 268, 270, 271, 273, 280, 282,
                                  425, 426, 427, 428, 429, 430, 431, 432, 433)),
}
# fmt: on
CLONE3 = 435  # its flags lie in memory where a filter cannot look; without it, libc uses clone


def forbid_syscalls() -> None:
    """Install a seccomp filter; on a machine that is not listed there is none."""
    if os.uname().machine not in SYSCALLS:
        return
    architecture, clone, refused = SYSCALLS[os.uname().machine]
    load, equal, at_least, has_bits, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, refuse | errno.EPERM), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, 0x40000000), (give, 0, 0, refuse | errno.EPERM)]
    for number in refused:
        program += [(equal, 0, 1, number), (give, 0, 0, refuse | errno.EPERM)]
    program += [(equal, 0, 1, CLONE3), (give, 0, 0, refuse | errno.ENOSYS)]
    program += [(equal, 1, 0, clone), (give, 0, 0, allow)]
    program += [(load, 0, 0, 16), (has_bits, 0, 1, CLONE_NEW_OTHERS | CLONE_NEWUSER)]
    program += [(give, 0, 0, refuse | errno.EPERM), (give, 0, 0, allow)]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer)))
    check(libc.prctl(PR_SET_SECCOMP, 2, header, 0, 0))


def become_guest(request: dict, sock: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a loop that is stopped can say where it was
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    fd = os.dup2(sock.fileno(), 3)
    sock.detach()
    os.closerange(4, 1 << 16)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out, the guest is the one to go
    if request["sandboxed"]:
        drop_privileges(request["uid"])
    for name, value in request["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    if request["sandboxed"]:
        forbid_syscalls()
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["home"])
    guest.serve(socket.socket(fileno=fd))


def import_once(names: list[str]) -> None:
    """Import what the assignment's own cells import, so that no guest has to."""
    for name in names:
        if name not in tried:
            tried.add(name)
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"the fork server has {threads} threads: forking would be unsafe"


def fork_guest(conn: socket.socket) -> None:
    """Answer one request with the pid and a pidfd of a new guest."""
    data, fds, _, _ = socket.recv_fds(conn, 1 << 16, 2)
    request = json.loads(data)
    sandboxed = request["sandboxed"]
    import_once(request["libraries"])
    if os.fork() == 0:
        try:
            os.setsid()
            if sandboxed:
                check(libc.setns(fds[1], CLONE_NEW_OTHERS | (0 if request["uid"] else CLONE_NEWUSER)))
            child = os.fork()  # the process that setns was called in stays outside the new pid namespace
            if child:
                socket.send_fds(conn, [b"%d" % child], [os.pidfd_open(child)])
            else:
                become_guest(request, socket.socket(fileno=fds[0]))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    for fd in fds:
        os.close(fd)


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    guest.warm_up()
    # A pid namespace cannot end while a zombie of it waits: guests come to us and are reaped at once.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.collect()
    gc.freeze()
    while 0 not in (ready := select.select([0, listener], [], [])[0]):
        conn, _ = ready[0].accept()
        with conn:
            try:
                fork_guest(conn)
            except (OSError, ValueError, KeyError):
                traceback.print_exc()


if __name__ == "__main__":
    main()
