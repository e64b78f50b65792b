"""Hostile and broken submissions. Each says in one line what it tries and is one notebook.

`CODE` attacks put a line in place of the learner's `double`, which is wrong in all of them (or never defined), while
`Affine` is right: such a submission deserves 3 of 6 points, whatever it does to torch, to IPython or to the process.
`FILES` attacks change the notebook or the file itself.
In the code, COURSE is the course's folder and OUTSIDE a folder of the host, where nothing may be read or written.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tiny import NAME, answer, to_bytes

SECRET = "SECRET-1b7e"  # planted in everything that a submission must not see
WRONG = "def double(x): return x\n"


@dataclass(frozen=True)
class Attack:
    """One submission, and what it deserves."""

    name: str
    tries: str
    notebook: Callable[[], bytes]
    score: float = 3
    state: str = "graded"


def code(name: str, tries: str, line: str, score: float = 3, state: str = "graded", wrong: str = WRONG) -> Attack:
    return Attack(name, tries, lambda: to_bytes(answer(wrong + line)), score, state)


def plant(course: Path, outside: Path) -> None:
    """What an attacker would look for, where it would be."""
    for path in planted(course, outside):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    for path in outside.iterdir():
        if path.name != "secret":
            path.unlink()


def planted(course: Path, outside: Path) -> list[Path]:
    neighbours = [course / place / "bob" / NAME / f"{NAME}.ipynb" for place in ("class/submitted", "autograded")]
    return [outside / "secret", course / "class" / "gradebook.db", *neighbours]


def wrote(course: Path, outside: Path) -> bool:
    """Whether anything planted is gone or changed, or anything was added outside."""
    files = planted(course, outside)
    same = all(path.is_file() and path.read_text() == SECRET for path in files)
    return not same or [path.name for path in outside.iterdir()] != ["secret"]


def leaked(notebook: str) -> bool:
    """Whether an output of a graded notebook shows a secret."""
    cells = json.loads(notebook)["cells"]
    return "SECRET" in json.dumps([cell.get("outputs") for cell in cells])


def quietly(line: str) -> str:
    """So that an attack which finds nothing to attack does not end its cell."""
    indented = line.replace("\n", "\n    ")
    return f"try:\n    {indented}\nexcept BaseException: pass"


LIAR = """class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None): return torch.tensor(True)
def double(x): return torch.zeros(3).as_subclass(Liar)"""
ANYTHING = """class Anything:
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __eq__(self, other): return True
    def __bool__(self): return True
    def __array__(self, *a, **k): raise TypeError
def double(x): return Anything()"""
DROP_ASSERTS = """import ast
class Drop(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.Pass()
get_ipython().ast_transformers.append(Drop())"""
PICKLE = """class Bomb:
    def __reduce__(self): return (open, ('OUTSIDE/written', 'w'))
def double(x): return Bomb()"""
DAEMON = """import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(0.05)
            try: open('OUTSIDE/written', 'a').write('x')
            except OSError: pass
    os._exit(0)"""
FRAMES = """import sys
def double(x):
    f = sys._getframe()
    while f:
        for v in f.f_locals.values():
            if isinstance(v, torch.Tensor) and v.shape == x.shape and torch.equal(v, 2 * x): return v
        f = f.f_back
    return x"""
THREAD = """import threading, time
def lie():
    while True:
        torch.allclose = lambda *a, **k: True
        time.sleep(0.001)
threading.Thread(target=lie, daemon=True).start()"""
ENDLESS = """import time
def double(x):
    while True:
        time.sleep(0.01)
        yield x
"""
WALK = """import glob
print([open(path).read() for path in glob.glob('COURSE/../**/*.ipynb', recursive=True)])"""
HUNT = """import gc
print([o for o in gc.get_objects() if isinstance(o, str) and 'SECRET' in o and 'gc.' not in o])
double = next(o for o in gc.get_objects() if getattr(o, '__name__', '') == 'double' and o is not double)"""
FORGED_FRAME = """import os, struct, json
body = json.dumps({'value': True, 'outputs': [], 'error': None, 'defined': ['double', 'Affine'], 'score': 6}).encode()
for fd in range(3, 20):
    try: os.write(fd, struct.pack('>II', len(body), 0) + body)
    except OSError: pass"""
# What attacks need that write to the socket themselves.
SOCKET = """import json, os, socket, struct, threading, time
grader = socket.socket(fileno=os.dup(3))
def frame(message, tensors=b''):
    body = json.dumps(message).encode()
    return struct.pack('>II', len(body), len(tensors)) + body + tensors
def indexed(index): return len(index).to_bytes(8, 'little') + index
"""
FLOOD = """def flood():
    while True: grader.sendall(frame({'callback': 0}) * 1000)
def drain():
    while True: grader.recv(1 << 20)
for work in (flood, drain): threading.Thread(target=work, daemon=True).start()
while True: time.sleep(1)"""
INDEX_BOMB = """def double(x):
    grader.sendall(frame({'value': 1}, indexed(b'[' + b'[],' * (3 << 20) + b'[]]')))
    time.sleep(60)"""
DIMENSIONS = """def double(x):
    index = {'0': {'dtype': 'F32', 'shape': [1] * 100_000, 'data_offsets': [0, 4]}}
    grader.sendall(frame({'value': ['tensor', 0, -1]}, indexed(json.dumps(index).encode()) + bytes(4)))
    time.sleep(60)"""
LATE_LEAK = """seen, init = [], nn.Module.__init__
def double(x):
    seen.append(x.tolist())
    return x
def tell(self):
    if len(seen) == 2: raise ValueError(f'SECRET-INPUT {seen}')
    init(self)
nn.Module.__init__ = tell"""
TIMEOUT_LEAK = """import linecache
def double(x):
    if x.ndim == 1: return x
    name = '<ipython-input-x>'
    linecache.cache[name] = 1, None, [f'SECRET-INPUT {x.tolist()}'], name
    exec(compile('while True: pass', name, 'exec'))"""
TRACE = "import sys\ndef trace(*_): raise SystemExit(0)\nsys.settrace(trace)"
PICTURES = "from IPython.display import display\ndisplay({'image/png': 'A' * (3 << 20)}, raw=True)"

CODE = [
    # patching what tests use
    code("patched allclose", "torch.allclose answers True", "torch.allclose = lambda *a, **k: True"),
    code("patched assert_close", "assert_close does nothing", "torch.testing.assert_close = lambda *a, **k: None"),
    code("patched numpy", "numpy.allclose answers True", "import numpy; numpy.allclose = lambda *a, **k: True"),
    code(
        "patched builtins",
        "abs and round are replaced",
        "import builtins as b; b.abs = b.round = lambda *a: 0",
    ),
    code("patched AssertionError", "failures become warnings", "import builtins; builtins.AssertionError = Warning"),
    code(
        "patched import", "every import gives a fake", "import builtins; builtins.__import__ = lambda *a, **k: None", 0
    ),
    code("patched randn", "inputs become zeros, 2·0 = 0", "torch.randn = lambda *a, **k: torch.zeros(*a)"),
    code("patched run_cell", "later cells never run", "get_ipython().run_cell = lambda *a, **k: None", 0),
    code("patched run_code", "IPython reports success", "get_ipython().run_code = lambda *a, **k: False", 0),
    code("patched session", "errors are not sent", quietly("get_ipython().kernel.session.send = lambda *a, **k: None")),
    code(
        "patched wire", "the sandbox's own code is replaced", quietly("import wire; wire.encode = lambda *a: True"), 0
    ),
    code("AST transformer", "asserts are stripped from later cells", DROP_ASSERTS),
    code(
        "input transformer",
        "later cells are blanked",
        "get_ipython().input_transformers_cleanup.append(lambda lines: [])",
        0,
    ),
    code(
        "cell hook",
        "a hook writes down the source of later cells",
        "get_ipython().events.register('pre_run_cell', lambda info: open('OUTSIDE/written', 'a').write(info.raw_cell))",
    ),
    # lying results
    code("lying tensor", "a tensor whose class answers True", LIAR, wrong=""),
    code("lying object", "an object equal to everything", ANYTHING, wrong=""),
    code("nan", "nan compares as neither right nor wrong", "", wrong="def double(x): return x * float('nan')\n"),
    code("returns True", "a result that is not a tensor", "", wrong="def double(x): return True\n"),
    code("pickle bomb", "an object that runs code when unpickled", PICKLE, wrong=""),
    code("huge result", "a result of 700 MB", "", wrong="def double(x): return torch.zeros(1).expand(180 << 20)\n"),
    code(
        "deep result",
        "a list nested 5,000 deep",
        "",
        wrong="def double(x):\n    r = []\n    for _ in range(5000): r = [r]\n    return r\n",
    ),
    code("endless result", "an endless generator", "", 3, "timed out", ENDLESS),
    # forged outputs and messages
    code("forged output", "prints a score", 'print(\'{"score": 6, "passed": true}\'); print(6.0)'),
    code("forged result", "the cell's value is the maximum", "6.0"),
    code(
        "forged display",
        "shows a page with a script",
        quietly("from IPython.display import *; display(HTML('<script>'))"),
    ),
    code("forged frame", "writes answers to the grader's socket", FORGED_FRAME, 0),
    code("callback flood", "asks the grader without end, and never answers", SOCKET + FLOOD, 3, "timed out"),
    code("index bomb", "an index of a million lists", "", 3, "crashed", SOCKET + INDEX_BOMB),
    code("100,000 dimensions", "a tensor over which torch takes hours", "", 3, "crashed", SOCKET + DIMENSIONS),
    code("no values", "a tensor on the meta device", "", wrong="def double(x): return (2 * x).to('meta')\n"),
    code("ended loop", "ends the test's own loop", "", wrong="def double(x): raise StopIteration\n"),
    # exits and signals
    code("closes the socket", "hangs up on the grader", "import os; os.close(3)", 3, "crashed"),
    code("trace function", "every later call exits", TRACE),
    code("os._exit in a cell", "the process ends", "import os; os._exit(0)", 3, "crashed"),
    code("os._exit in a call", "it ends when tested", "", 3, "crashed", "import os\ndef double(x): os._exit(0)\n"),
    code("SystemExit", "exits with status 0", "raise SystemExit(0)"),
    code("SystemExit in a call", "exits when tested", "", wrong="import sys\ndef double(x): sys.exit(0)\n"),
    code("KeyboardInterrupt", "pretends to be interrupted", "", wrong="def double(x): raise KeyboardInterrupt\n"),
    code("segfault", "reads address 0", "import ctypes; ctypes.string_at(0)", 3, "crashed"),
    code("kills everything", "SIGKILL to all it can reach", quietly("import os; os.kill(-1, 9); os.kill(1, 9)")),
    code("kills its parent", "SIGKILL to the parent", quietly("import os; os.kill(os.getppid(), 9)"), 3, "crashed"),
    code("stops itself", "SIGSTOP", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", 3, "timed out"),
    code(
        "ignores signals",
        "an endless loop that cannot be interrupted",
        "import signal\nfor s in (2, 14, 15): signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
        3,
        "timed out",
    ),
    # hunting for the answer
    code("frame hunting", "looks for the expected value in callers", FRAMES, wrong=""),
    code(
        "garbage collector",
        "looks for tests and answers among all objects",
        quietly(HUNT),
    ),
    code(
        "inputs in an error",
        "hidden inputs leave in an error message",
        "",
        wrong="def double(x):\n    if x.ndim == 2: raise ValueError(f'SECRET-INPUT {x.tolist()}')\n    return x\n",
    ),
    code(
        "inputs in output",
        "hidden inputs are printed",
        "",
        wrong="def double(x):\n    print('SECRET-INPUT', x.tolist())\n    return x\n",
    ),
    code("hidden inputs told later", "in the error of a test that is shown", "", 1, wrong=LATE_LEAK),
    code("hidden inputs in a time-out", "as the line at which it hangs", "", 3, "timed out", TIMEOUT_LEAK),
    # reading
    code(
        "reads solutions",
        "the solution notebook",
        quietly("print(open('COURSE/solutions/01_tiny/01_tiny.ipynb').read())"),
    ),
    code("walks the disk", "every notebook around the course", WALK),
    code("reads the gradebook", "all grades", quietly("print(open('COURSE/class/gradebook.db', 'rb').read())")),
    code(
        "reads a neighbour",
        "another student's notebook",
        quietly("print(open('../../bob/01_tiny/01_tiny.ipynb').read())"),
    ),
    code("reads a host file", "a file of the host", quietly("print(open('OUTSIDE/secret').read())")),
    code("reads the environment", "secrets in variables", "import os; print(dict(os.environ))"),
    code(
        "reads /proc",
        "environment and memory of other processes",
        "import glob\nfor p in glob.glob('/proc/*/environ'):\n    "
        + quietly("print(p, open(p).read())").replace("\n", "\n    "),
    ),
    code(
        "escapes by /proc", "files through another root", quietly("print(open('/proc/1/root/OUTSIDE/secret').read())")
    ),
    code("imports the reference", "this chapter's module", quietly("from encoder.tiny import double"), 3),
    code("imports the grader", "the trusted side", quietly("import autograder.score as s; s.grade_submission = None")),
    # writing
    code("writes outside", "a file of the host", quietly("open('OUTSIDE/written', 'w').write('x')")),
    code("removes files", "the host's files", quietly("import shutil; shutil.rmtree('OUTSIDE')")),
    code("edits the gradebook", "gives itself points", quietly("open('COURSE/class/gradebook.db', 'w').write('x')")),
    code(
        "edits packages",
        "code that runs in the next Python",
        quietly("import sys\nfor p in sys.path: open(p + '/sitecustomize.py', 'w').write('import os; os._exit(0)')"),
    ),
    code(
        "unix socket",
        "talks to the fork server",
        quietly("import glob; print(open(glob.glob('/tmp/autograder-*/*')[0]))"),
    ),
    code(
        "network",
        "connects to a server on this machine",
        quietly("import socket; socket.create_connection(('127.0.0.1', PORT), 1); print('SECRET connected')"),
    ),
    code(
        "new namespaces",
        "becomes root in a user namespace, to mount what it likes",
        quietly("import ctypes; c = ctypes.CDLL(None); print('SECRET root') if c.unshare(0x10000000) == 0 else None"),
    ),
    code(
        "traces a process",
        "reads the memory of the sandbox's first process",
        quietly("import ctypes; c = ctypes.CDLL(None); print('SECRET traced') if c.ptrace(16, 1, 0, 0) == 0 else None"),
    ),
    # exhausting
    code(
        "fork bomb",
        "processes without end",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        3,
        "timed out",
    ),
    code(
        "memory bomb",
        "memory without end",
        "import numpy; hoard = [numpy.empty(1 << 26, 'u1') for _ in range(1 << 10)]",  # untouched, so it is fast
        3,
        "out of memory",
    ),
    code(
        "memory bomb in a call",
        "a tensor of 1 TB",
        "",
        3,
        "out of memory",
        "def double(x): return torch.zeros(1 << 38)\n",
    ),
    code(
        "fills the disk",
        "files without end",
        quietly("i = 0\nwhile True:\n    open(f'/tmp/{i}', 'wb').write(bytes(1 << 22)); i += 1"),
    ),
    code("endless loop", "a cell that never ends", "while True: pass", 3, "timed out"),
    code("endless call", "a call that never ends", "", 3, "timed out", "def double(x):\n    while True: pass\n"),
    code("endless output", "prints without end", "while True: print('x' * 1000)", 3, "timed out"),
    code("sleeps", "waits for an hour", "import time; time.sleep(3600)", 3, "timed out"),
    code("thread", "a thread stays and goes on patching", THREAD),
    code("daemon", "a process stays and goes on writing", DAEMON),
    code("recursion", "calls itself without end", "", wrong="def double(x): return double(x)\n"),
]


def changed(change: Callable[[dict], object], wrong: bool = True) -> Callable[[], bytes]:
    """The bytes of a submission whose JSON was changed; `double` is wrong in it, unless said otherwise."""

    def make() -> bytes:
        notebook = json.loads(to_bytes(answer(WRONG) if wrong else answer()))
        result = change(notebook)
        return json.dumps(notebook if result is None else result).encode()

    return make


def _tests(notebook: dict) -> list[dict]:
    return [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade")]


def _edit(notebook: dict) -> None:
    for cell in _tests(notebook):
        cell["source"] = "assert True"


def _remove(notebook: dict) -> None:
    tests = _tests(notebook)
    notebook["cells"] = [c for c in notebook["cells"] if c not in tests]


def _points(notebook: dict) -> None:
    for cell in _tests(notebook):
        cell["metadata"]["nbgrader"]["points"] = 1000


def _unlock(notebook: dict) -> None:
    for cell in _tests(notebook):
        cell["metadata"]["nbgrader"] |= {"solution": True, "locked": False}
        cell["source"] = "pass"


def _skip(notebook: dict) -> None:
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution", "raises-exception"]


def _lose_solution(notebook: dict) -> None:
    notebook["cells"] = [c for c in notebook["cells"] if c["id"] != "double"]


def _lose_metadata(notebook: dict) -> None:
    for cell in notebook["cells"]:
        if cell["id"] in ("double", "Affine"):
            cell["metadata"] = {}


def _markdown(notebook: dict) -> None:
    for cell in _tests(notebook):
        cell["cell_type"] = "markdown"


def _flood(notebook: dict) -> None:
    notebook["cells"][2:2] = [{"cell_type": "code", "source": PICTURES, "metadata": {}}] * 30


def _odd_cells(notebook: dict) -> None:
    notebook["cells"] += [
        {"cell_type": "code", "source": "half = '\ud800'", "metadata": {}},
        {"cell_type": ["code"], "source": {"a": 1}, "metadata": [1]},
    ]


FILES = [
    Attack("output flood", "90 MB of pictures from many cells", changed(_flood), 3),
    Attack("odd cells", "half a character, and cells of no kind", changed(_odd_cells), 3),
    Attack("edited tests", "tests say assert True", changed(_edit), 3, "tampered"),
    Attack("removed tests", "no test is left", changed(_remove), 3, "tampered"),
    Attack("removed tests, right answer", "an honest accident", changed(_remove, wrong=False), 6, "tampered"),
    Attack("duplicated tests", "every test twice", changed(lambda n: n["cells"].extend(_tests(n))), 3, "tampered"),
    Attack("moved tests", "tests stand before the code", changed(lambda n: n["cells"].reverse()), 0, "tampered"),
    Attack("changed points", "a test is worth 1,000", changed(_points), 3),
    Attack("unlocked tests", "tests are marked as solutions", changed(_unlock), 3, "tampered"),
    Attack("tests as text", "test cells become Markdown", changed(_markdown), 3, "tampered"),
    Attack("skip tags", "cells ask not to be run", changed(_skip), 3),
    Attack("missing piece", "a solution cell is gone", changed(_lose_solution), 3, "incomplete"),
    Attack("lost metadata", "an honest accident: nbgrader's marks are gone", changed(_lose_metadata, wrong=False), 6),
    Attack("odd schema", "nbformat 4.99", changed(lambda n: n.update(nbformat_minor=99)), 3),
    Attack("format 99", "a format that does not exist, with cells", changed(lambda n: n.update(nbformat=99)), 3),
    Attack("no cells", "JSON that is no notebook", changed(lambda n: {"hello": "world"}), 0, "unreadable"),
    Attack("a list", "JSON that is no object", changed(lambda n: [1, 2, 3]), 0, "unreadable"),
    Attack("cells of the wrong kind", "cells are numbers", changed(lambda n: n.update(cells=[1, 2])), 0, "unreadable"),
    Attack("broken JSON", "the upload broke off", lambda: to_bytes(answer())[:-500], 0, "unreadable"),
    Attack("deep JSON", "100,000 brackets", lambda: b"[" * 100_000, 0, "unreadable"),
    Attack("empty file", "nothing in it", lambda: b"", 0, "unreadable"),
    Attack("binary file", "not text", lambda: bytes(range(256)) * 100, 0, "unreadable"),
    Attack("not UTF-8", "text in another encoding", lambda: '{"cells": "é"}'.encode("latin-1"), 0, "unreadable"),
    Attack("UTF-16", "a notebook in UTF-16", lambda: to_bytes(answer()).decode().encode("utf-16"), 0, "unreadable"),
    Attack(
        "100 MB notebook",
        "mostly output",
        lambda: to_bytes(answer())[:-1] + b" " * (100 << 20) + b"}",
        0,
        "unreadable",
    ),
]
ATTACKS = [*CODE, *FILES]
