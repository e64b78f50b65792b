"""The same test cell runs in a learner's notebook and here, through proxies: each case is a piece and a test of it."""

# ruff: noqa: E501 (a cell on one line is still a cell)

import contextlib
from dataclasses import replace

import pytest
from tiny import one_piece

from autograder import score
from autograder.assignment import needed
from autograder.sandbox import LIMITS
from autograder.score import Task, grade_submission

NET = """class Net(nn.Module):
    def __init__(self, width=4, p=0.0):
        super().__init__()
        self.key = nn.Linear(width, width)  # names that a careless proxy would use for itself
        self.path = nn.Linear(width, width, bias=False)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(p)
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)
        self.layers[1].weight = self.layers[0].weight
        self.width = width

    def forward(self, x, mask=None):
        x = self.dropout(self.path(self.key(x))) * self.scale
        for layer in self.layers:
            x = x + layer(x)
        return x if mask is None else x.masked_fill(~mask, 0.0)

    def parts(self, x):
        return {"key": self.key(x), "sums": [float(v) for v in x.sum(0)], "shape": tuple(x.shape)}
"""
TRAIN = """def train(model, x, y, steps):
    losses = []
    for _ in range(steps):
        loss = (model(x) - y).pow(2).mean()
        grads = torch.autograd.grad(loss, [p for p in model.parameters()], allow_unused=True)
        for p, g in zip(model.parameters(), grads):
            if g is not None:
                p.data -= 0.05 * g
        losses.append(loss.item())
    return losses
"""

CASES = {
    "plain values cross unchanged": (
        {"echo": "def echo(*args, **kwargs):\n    return args, kwargs"},
        "values = (1, 2.5, 'é', None, True, [1, (2, {3})], {'a': 1, 2: [float('inf')]}, torch.float16, slice(1, 2))\n"
        "assert echo(*values, k=-1) == (values, {'k': -1})",
    ),
    "arrays and tensors keep dtype and shape": (
        {"echo": "def echo(x):\n    return x"},
        "import numpy as np\n"
        "for t in (torch.arange(3), torch.rand(2, 0, 3), torch.tensor(True), torch.rand(2).bfloat16(), torch.rand(3, 2).mT):\n"
        "    assert echo(t).dtype == t.dtype and torch.equal(echo(t), t) and type(echo(t)) is torch.Tensor\n"
        "a = np.arange(6.0).reshape(2, 3)[:, ::2]\nassert (echo(a) == a).all() and echo(a).dtype == a.dtype",
    ),
    "shared tensors are fine": (
        {"pair": "def pair(x, y):\n    return x, x[0], y"},
        "x = torch.randn(2, 3)\na, b, c = pair(x, x)\nassert torch.equal(a[0], b) and torch.equal(a, c)",
    ),
    "gradients flow to inputs": (
        {"f": "def f(x, y):\n    return (x * y).sin(), x.detach(), y.sum()"},
        "x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)\n"
        "a, b, c = f(x, y)\nassert a.requires_grad and not b.requires_grad\n(a.sum() + 3 * c).backward()\n"
        "assert torch.allclose(x.grad, (x * y).cos().detach() * y.detach())\n"
        "assert torch.allclose(y.grad, (x * y).cos().detach() * x.detach() + 3)\n"
        "j = torch.autograd.functional.jacobian(lambda x: f(x, y.detach())[0], x)\n"
        "assert torch.allclose(j, torch.diag((x * y).cos() * y).detach())",
    ),
    "no gradients under no_grad": (
        {"f": "def f(x):\n    return x * 2"},
        "x = torch.randn(3, requires_grad=True)\nwith torch.no_grad():\n    assert not f(x).requires_grad",
    ),
    "functions may use autograd inside": (
        {
            "slope": "def slope(x):\n    x = x.clone().requires_grad_()\n    return torch.autograd.grad(x.sin().sum(), x)[0]"
        },
        "x = torch.randn(3)\nassert torch.allclose(slope(x), x.cos())",
    ),
    "a module has its parameters here": (
        {"Net": NET},
        "m = Net(4)\nassert [n for n, _ in m.named_parameters()][:3] == ['key.weight', 'key.bias', 'path.weight']\n"
        "assert m.layers[1].weight is m.layers[0].weight and len(m.layers) == 2\n"
        "assert 'scale' not in m.state_dict() and 'norm.running_mean' in m.state_dict()\n"
        "assert m.width == 4 and m.scale == 2\nx = torch.randn(3, 4)\n"
        "y = 2 * (x @ m.key.weight.T + m.key.bias) @ m.path.weight.T\n"
        "for l in m.layers:\n    y = y + y @ l.weight.T + l.bias\n"
        "assert torch.allclose(m(x), y, atol=1e-5)\nassert torch.allclose(m.key(x), x @ m.key.weight.T + m.key.bias, atol=1e-6)",
    ),
    "weights can be loaded, changed and shared": (
        {"Net": NET},
        "a, b = Net(4), Net(4)\nb.load_state_dict(a.state_dict())\nx = torch.randn(3, 4)\nassert torch.equal(a(x), b(x))\n"
        "b.path.weight.data.zero_()\nfor l in b.layers:\n    nn.init.zeros_(l.bias)\nassert (b(x) == 0).all()\n"
        "a.double()\nassert a(x.double()).dtype == torch.float64",
    ),
    "gradients reach parameters and optimisers work": (
        {"Net": NET},
        "m = Net(4)\nx, y = torch.randn(16, 4), torch.randn(16, 4)\nopt = torch.optim.SGD(m.parameters(), 0.05)\n"
        "first = (m(x) - y).pow(2).mean().item()\n"
        "for _ in range(20):\n    opt.zero_grad()\n    loss = (m(x) - y).pow(2).mean()\n    loss.backward()\n    opt.step()\n"
        "assert loss.item() < 0.9 * first\n"
        "m.key.weight.requires_grad_(False)\nm.zero_grad()\nm(x).sum().backward()\nassert m.key.weight.grad is None\n"
        "assert m.path.weight.grad.abs().sum() > 0",
    ),
    "modes and attributes are followed": (
        {"Net": NET},
        "m = Net(4, p=0.5)\nx = torch.randn(3, 4)\nassert not torch.equal(m(x), m(x))\nm.eval()\nassert torch.equal(m(x), m(x))\n"
        "m.train()\nm.dropout.p = 0.0\nassert torch.equal(m(x), m(x))\nassert m.dropout.p == 0.0",
    ),
    "running statistics come back": (
        {"Net": NET},
        "m = Net(4)\nx = torch.randn(64, 4) + 3\nm.norm(x)\nassert torch.allclose(m.norm.running_mean, 0.1 * x.mean(0), atol=1e-5)",
    ),
    "methods and copies": (
        {"Net": NET},
        "import copy\nm = Net(4)\nx = torch.randn(3, 4)\nparts = m.parts(x)\nassert torch.equal(parts['key'], m.key(x))\n"
        "assert parts['shape'] == (3, 4)\nc = copy.deepcopy(m)\nm.key.weight.data.zero_()\nassert c.key.weight.abs().sum() > 0\n"
        "assert not torch.equal(c(x), m(x))",
    ),
    "a function may train a module": (
        {"Net": NET, "train": TRAIN},
        "m = Net(4)\nbefore = m.key.weight.detach().clone()\nx, y = torch.randn(16, 4), torch.randn(16, 4)\n"
        "losses = train(m, x, y, steps=5)\nassert losses[-1] < losses[0]\nassert not torch.equal(before, m.key.weight)\n"
        "assert (m(x) - y).pow(2).mean().item() < losses[-1]",
    ),
    "a value may be a module or a number": (
        {"model": "model = nn.Linear(2, 1)", "guess": "guess: float = 16.0"},
        "assert guess == 16.0\nx = torch.randn(5, 2)\nassert torch.allclose(model(x), x @ model.weight.T + model.bias)",
    ),
    "functions of the test run here": (
        {"apply": "def apply(f, x, n):\n    for _ in range(n):\n        x = f(x)\n    return x"},
        "seen = []\ndef f(x):\n    seen.append(x)\n    return x + 1\nassert apply(f, torch.zeros(2), 3).tolist() == [3, 3]\n"
        "assert len(seen) == 3 and apply(torch.tanh, torch.zeros(2), 1).tolist() == [0, 0]\n"
        "def bad(x):\n    raise KeyError('no')\ntry:\n    apply(bad, 1, 1)\nexcept KeyError:\n    pass\nelse:\n    assert False",
    ),
    "errors keep their builtin type": (
        {
            "fail": "class Own(ValueError): pass\ndef fail(kind):\n    raise {'own': Own, 'type': TypeError, 'exit': SystemExit}[kind]('why')"
        },
        "import pytest\nwith pytest.raises(ValueError, match='why'):\n    fail('own')\nwith pytest.raises(TypeError):\n    fail('type')\n"
        "with pytest.raises(RuntimeError):\n    fail('exit')\nwith pytest.raises(KeyError):\n    fail('else')",
    ),
    "objects and classes of the learner's own": (
        {
            "Box": "class Box:\n    size = 3\n    def __init__(self, x): self.x = x\n    def double(self): return Box(2 * self.x)"
        },
        "b = Box(torch.ones(2))\nassert Box.size == 3 and b.double().double().x.tolist() == [4, 4]",
    ),
    "earlier pieces can be passed": (
        {"f": "def f(x): return x + 1", "twice": "def twice(f, x): return f(f(x))"},
        "assert twice(f, 1) == 3",
    ),
    "setup cells may use pieces": (
        {"f": "def f(x): return x + 1"},
        "assert start == 1 and helper(start) == 2",
    ),
}


def grade_own(assignment, notebook: bytes | None = None):
    return grade_submission(Task("ada", assignment, notebook or assignment.notebook, b"secret"))


@pytest.mark.parametrize("case", CASES)
def test_through_the_proxies(case: str, course):
    pieces, test = CASES[case]
    given = "import torch\nfrom torch import nn\n"
    if case == "setup cells may use pieces":
        given += "def helper(x): return f(x)\nstart = f(0)"
    verdict = grade_own(one_piece(pieces, test, given))
    assert verdict.tests[0].passed, verdict.tests[0].message


@pytest.mark.parametrize("case", CASES)
def test_in_a_notebook(case: str):
    """The proof that the case is fair: without any proxy it holds, too."""
    pieces, test = CASES[case]
    namespace: dict = {}
    exec("import torch\nfrom torch import nn\n" + "\n".join(pieces.values()), namespace)
    if case == "setup cells may use pieces":
        exec("def helper(x): return f(x)\nstart = f(0)", namespace)
    with contextlib.suppress(SystemExit) if "type" in case else contextlib.nullcontext():
        exec(test, namespace)


@pytest.mark.parametrize(
    ("piece", "test", "message"),
    [
        (
            "def f(x): return x.detach() * 2",
            "x = torch.ones(2, requires_grad=True)\nf(x).sum().backward()",
            "does not require grad",
        ),
        ("def f(x): return x", "assert f(1) == 2, 'one more'", "one more"),
        ("def f(x): return x", "assert f(1) == 2", "f(1) == 2"),
        (
            "def f(x):\n    return x[5]",
            "f([1])",
            "Your code raised IndexError: list index out of range\nAt your line: return x[5]",
        ),
        ("def f(x): pass", "f(1).shape", "could not use what your code gave it. AttributeError"),
        ("def f(x): raise NotImplementedError()", "f(1)", "Not written yet"),
        (
            "def f(x):\n    x += 1\n    return x",
            "x = torch.zeros(2)\nf(x)\nassert torch.equal(x, torch.zeros(2)), 'it belongs to the caller'",
            "Your `f` changes a tensor that it is given: work on a copy.\nit belongs to the caller",
        ),
        ("def f(x): return x.zero_()", "x = torch.arange(4)\nassert torch.equal(f(x), 2 * x)", "f(x), 2 * x"),
        ("def f(x): return x.zero_()", "x = torch.rand(4)\nassert torch.equal(f(x), 2 * x)", "f(x), 2 * x"),
        ("def f(x): return x.fill_(True)", "x = torch.rand(64) < 0.5\nassert (f(x) == x).all()", "f(x) == x"),
        ("f = None", "f(1)", "Your code raised TypeError"),
        ("def f(x): raise StopIteration", "assert all(map(f, [1, 2]))", "Your code raised StopIteration"),
        ("def f(x): return '\\u202e\\x1b[31m' + 'x' * 5000", "assert f(1) == 2, f(1)", "xxx…"),
    ],
)
def test_a_failure_says_what_is_wrong(piece: str, test: str, message: str, course):
    right = one_piece({"f": "def f(x): return x + 1"}, test)
    verdict = grade_own(right, one_piece({"f": piece}, test).notebook)
    said = verdict.tests[0].message
    assert not verdict.tests[0].passed and message in said, said
    assert len(said) < 2100 and not {"\u202e", "\x1b"} & set(said), "safe to show"


def test_a_syntax_error_is_shown_with_its_line(course):
    right = one_piece({"f": "def f(x): return x + 1"}, "assert f(1) == 2")
    broken = right.notebook.replace(b"return x + 1", b"return x +")
    message = grade_own(right, broken).tests[0].message
    assert "`f` is not defined, because its cell stopped with SyntaxError" in message and "return x +" in message


def test_a_loop_that_is_stopped_is_shown_with_its_line(course):
    right = one_piece({"f": "def f(x): return x + 1"}, "assert f(1) == 2")
    endless = one_piece({"f": "def f(x):\n    while True: x += 1"}, "assert f(1) == 2").notebook
    task = Task("", right, endless, b"key", limits=replace(LIMITS, test_seconds=1))
    verdict = grade_submission(task)
    assert verdict.state == "timed out" and "It was at this line: while True: x += 1" in verdict.tests[0].message


def test_only_what_a_test_depends_on_is_run():
    cells = [
        "import math\nimport torch",
        "x = torch.randn(3)\nplt.plot(x)\nmodel = torch.nn.Linear(1, 1)\nmodel.eval()",
        "%matplotlib inline\nfor step in range(10):\n    loss = train(model)\nprint(loss)",
        "def helper(y):\n    loss = y + offset\n    return loss\noffset = 1",
    ]
    assert (
        needed(cells, "assert helper(2) == 3", set())
        == "def helper(y):\n    loss = y + offset\n    return loss\noffset = 1"
    )
    kept = needed(cells, "loss = model(x)\nassert loss", set())
    assert "model.eval()" in kept and "plot" not in kept and "train" not in kept and "import math" not in kept
    assert needed(["f = 1"], "f(2)", {"f"}) == "", "the learner's piece is never taken from a given cell"


def test_a_test_that_hangs_over_an_answer_is_stopped(course, monkeypatch):
    """The learner's function asks the test's function, which never comes back."""
    monkeypatch.setattr(score, "MARGIN", 0.1)
    hang = "def ask(x):\n    while True: pass\nf(ask)"
    right = one_piece({"f": "def f(ask): return ask"}, hang)
    asks = one_piece({"f": "def f(ask): return ask(1)"}, hang).notebook
    verdict = grade_submission(Task("", right, asks, b"key", limits=replace(LIMITS, test_seconds=1)))
    assert (verdict.score, verdict.state) == (0, "timed out"), verdict.as_json()
    assert "with what your code gave it" in verdict.tests[0].message
