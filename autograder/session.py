"""The trusted side of a sandbox: runs a submission's cells there, and gives tests proxies for what they define.

A proxy looks like the learner's function, class or module. A call sends plain data in and brings plain data out;
tensors that require gradients are joined to the local graph, so `.backward()` in a test goes through the sandbox.
What the learner's code writes into its arguments stays there; a tensor that it changes becomes noise here, so that a
test which looks again notices, and no code can rewrite a test.
"""

import builtins
import contextlib
import dataclasses
import hmac
import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from autograder import wire
from autograder.sandbox import Limits, Sandbox

METHOD = object()  # what an attribute is that can be called
GRACE = 1.0  # seconds between asking the learner's code to stop and ending it
MAX_RECORDED = 64  # calls of one test kept for the diagnosis
MAX_RECORDED_BYTES = 256 << 20  # and of all tests
MAX_OUTPUTS = 16 << 20  # characters of output kept of all cells
LIBRARIES = (builtins, math, torch, nn.functional, nn, np)
ITERATION = (StopIteration, StopAsyncIteration)


class Stopped(BaseException):
    """The sandbox is gone or had to be interrupted. Not an Exception: no test may catch it by accident."""

    def __init__(self, state: str, sentence: str, detail: str = ""):
        """`detail` may come from the learner's code, so it may carry the inputs of a test."""
        super().__init__(f"{sentence} {detail}".strip())
        self.state, self.sentence = state, sentence


@dataclasses.dataclass(frozen=True)
class Held:
    """A learner's module at the time of a call: how it was made, its tensors, its modes."""

    piece: str
    args: tuple
    kwargs: dict
    state: dict[str, Tensor]
    training: dict[str, bool]


@dataclasses.dataclass(eq=False)
class Call:
    """One call that a test made, kept so that it can be repeated on wrong versions."""

    piece: str
    held: Held | None
    path: str
    method: str
    args: tuple
    kwargs: dict
    seed: int
    grad: bool  # whether gradients were enabled
    tracked: bool  # whether the results were joined to a graph
    result: Any = None
    error: str | None = None
    complete: bool = False  # it came back, with a result or an error
    backwards: list = dataclasses.field(default_factory=list)  # pairs: gradients given, gradients got
    asked: list = dataclasses.field(default_factory=list)  # arguments with which it called functions of the test


def seed_everything(value: int) -> None:
    random.seed(value)
    np.random.seed(value % 2**32)
    torch.default_generator.manual_seed(value)  # torch.manual_seed would also queue a call for a GPU, with a traceback


def clean(text: Any, limit: int = 2000) -> str:
    """Text from the sandbox, made safe to show: valid, printable, short."""
    text = text if isinstance(text, str) else ""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]", "", text)
    text = re.sub(r"[\u202a-\u202e\u2066-\u2069]", "", text)  # these would turn the direction of what follows
    return text if len(text) <= limit else text[: limit - 1] + "…"


class Session:
    """One submission's sandbox, started again when it dies, within the limits for the whole submission."""

    def __init__(
        self, cells: Sequence[str], files: dict[str, bytes], secret: bytes, limits: Limits, sandboxed: bool,
        libraries: Sequence[str] = (),
    ):  # fmt: skip
        self.cells, self.files, self.secret, self.libraries = cells, files, secret, libraries
        self.limits, self.sandboxed = limits, sandboxed
        self.end = monotonic() + limits.total_seconds
        self.sandbox: Sandbox | None = None
        self.outcomes: list[dict] = [{"outputs": [], "error": None} for _ in cells]
        self.skipped: set[int] = set()
        self.stops: list[str] = []  # states of everything that had to be stopped
        self.calls: list[Call] = []
        self.dropped: list[int] = []
        self.last_id = 0  # of a call, never used again: a graph may be dropped when its test is long over
        self.recorded = 0  # bytes of all calls kept
        self.out_of_memory = False
        self.changer = ""  # the piece that has changed a tensor of the running test
        self.test, self.count, self.deadline = "", 0, self.end

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        if self.sandbox:
            self.sandbox.kill()

    def seed(self, *labels: object) -> int:
        digest = hmac.digest(self.secret, "/".join(map(str, labels)).encode(), "sha256")
        return int.from_bytes(digest[:7], "big")

    # -- running ---------------------------------------------------------------------------------------------------

    def run_cells(self) -> None:
        """Run every cell. One that hangs or kills the process is left out, and the others run again without it."""
        while self.sandbox is None and len(self.skipped) <= 3 and monotonic() < self.end:
            self.sandbox = Sandbox(self.limits, self.sandboxed, self.libraries)
            try:
                self._send_files()
            except Stopped:
                return
            first, room = True, MAX_OUTPUTS
            for number, source in enumerate(self.cells):
                if number in self.skipped:
                    continue
                self.deadline = min(monotonic() + self.limits.cell_seconds, self.end)
                try:
                    reply, _ = self.request(
                        {"op": "cell", "source": source, "seed": self.seed("cells") if first else None}, []
                    )
                    outputs = _outputs(reply, room)
                    room -= len(repr(outputs))
                    self.outcomes[number] = {"outputs": outputs, "error": _error(reply.get("error"))}
                    self.note_memory(self.outcomes[number]["error"])
                    first = False
                except Stopped as stop:
                    self.outcomes[number] = {"outputs": [], "error": {"ename": stop.state, "evalue": str(stop)}}
                    if self.sandbox is None:
                        self.skipped.add(number)
                        break

    def _send_files(self) -> None:
        self.deadline = self.end
        blobs = [torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)
                 for data in self.files.values()]  # fmt: skip
        self.request({"op": "files", "files": {name: i for i, name in enumerate(self.files)}}, blobs)

    def note_memory(self, error: dict | None) -> None:
        if error and ("MemoryError" in error["types"] or "t allocate memory" in error["evalue"]):
            self.out_of_memory = True

    def begin(self, test: str, names: Sequence[str]) -> list[str]:
        """Start a test: make sure that there is a sandbox, draw its seed; return the names that exist."""
        self.run_cells()
        if self.sandbox is None:
            raise Stopped(self.stops[-1] if self.stops else "crashed", "Your notebook could not be run to its end.")
        # Whoever has timed out once will most likely do so again: do not wait as long for it.
        patience = self.limits.test_seconds / (4 if "timed out" in self.stops else 1)
        self.deadline = min(monotonic() + patience, self.end)
        self.test, self.count, self.calls, self.dropped, self.changer = test, 0, [], [], ""
        reply, _ = self.request({"op": "begin", "names": list(names)}, [])
        defined = reply.get("defined")
        return [name for name in names if isinstance(defined, list) and name in defined]

    def request(
        self, message: dict, tensors: list[Tensor], callbacks: Sequence[Callable] = (), record: Call | None = None
    ) -> tuple[dict, list]:
        """Ask the sandbox, serving callbacks meanwhile. Raises Stopped when no answer comes, or none in time."""
        if self.sandbox is None:
            raise Stopped("crashed", "Your code ended the process it ran in.")
        sock = self.sandbox.socket
        try:
            while True:
                sock.settimeout(max(self.deadline - monotonic(), 0.01))
                wire.send(sock, message, tensors)
                reply, received = wire.receive(sock, self.deadline)
                if "callback" not in reply:
                    return reply, received
                message, tensors = self._call_back(reply, received, callbacks, record)
        except TimeoutError:
            self._interrupt()
        except (EOFError, OSError):
            self.stop("crashed", "Your code ended the process it ran in.")
        except wire.WireError as error:
            self.stop("crashed", "Your code broke the connection to the grader.", f"The reason: {error}.")
        raise AssertionError("unreachable")

    def _interrupt(self) -> None:
        sentence = "Your code did not finish in time. Is there a loop that never ends?"
        if monotonic() < self.end:  # after it there is no grace: a notebook may have very many cells
            try:
                self.sandbox.interrupt()
                reply, _ = wire.receive(self.sandbox.socket, monotonic() + GRACE)
                error = _error(reply.get("error"))
                if error and error["ename"] == "KeyboardInterrupt":
                    self.stops.append("timed out")
                    where = f"It was at this line: {error['line']}" if error["line"] else ""
                    raise Stopped("timed out", sentence, where)
            except (OSError, EOFError, wire.WireError):
                pass
        self.stop("timed out", sentence)

    def stop(self, state: str, sentence: str, detail: str = "") -> NoReturn:
        if self.sandbox:
            self.sandbox.kill()
            self.sandbox = None
        self.stops.append(state)
        raise Stopped(state, sentence, detail)

    def _call_back(
        self, reply: dict, received: list, callbacks: Sequence[Callable], record: Call | None
    ) -> tuple[dict, list]:
        """Run a function of the test for the learner's code. The arguments are plain data from the sandbox."""
        try:
            function = callbacks[wire.index(reply["callback"])]
            args, kwargs = (self.decode(reply.get(key), received) for key in ("args", "kwargs"))
            if record and len(record.asked) < MAX_RECORDED and self.recorded < MAX_RECORDED_BYTES:
                record.asked.append(self._keep(args))
            with torch.no_grad():
                value = function(*args, **kwargs)
            out: list[Tensor] = []
            return {"value": self.encode(value, out, [], [], [])}, out
        except Exception as error:
            known = type(error) if _raisable(type(error).__name__) else RuntimeError
            return {"error": [known.__name__, str(error)[:500]]}, []

    # -- values ----------------------------------------------------------------------------------------------------

    def piece(self, name: str) -> "RemotePiece":
        return RemotePiece(self, name)

    def value(self, name: str) -> Any:
        return self.ask({"op": "value", "name": name}, (name, (), {}))

    def ask(self, message: dict, origin: tuple = ("", (), {})) -> Any:
        """The value that answers a simple request. `origin` says how a module in it can be made again."""
        reply, tensors = self.request(message, [])
        self.raise_error(reply)
        return self.decode(reply.get("value"), tensors, origin=origin)

    def encode(self, value: Any, tensors: list, leaves: list, modules: list, callbacks: list) -> Any:
        """The wire form of an argument. Collects what needs gradients, the modules involved and functions to serve."""

        def other(value: Any) -> list:
            if isinstance(value, Tensor):
                needs_grad = value.requires_grad and torch.is_grad_enabled()
                if needs_grad:
                    leaves.append(value)
                tensors.append(value)
                return ["tensor", len(tensors) - 1, needs_grad]
            if isinstance(value, RemotePiece | RemoteObject):
                return value._target
            if isinstance(value, RemoteModule):
                _involve(value._mirror, modules)
                return value._mirror.target(value._path)
            if dataclasses.is_dataclass(value) and type(value).__module__.startswith("encoder."):
                fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
                return ["config", type(value).__module__, type(value).__name__, wire.encode(fields, tensors, other)]
            if name := _library_name(value):
                return ["library", *name]
            if callable(value):
                callbacks.append(value)
                return ["callback", len(callbacks) - 1]
            raise TypeError(f"a test cannot pass a {type(value).__name__} to the learner's code")

        return wire.encode(value, tensors, other)

    def decode(
        self, node: Any, tensors: list[Tensor], outputs: Sequence[Tensor] = (), origin: tuple = ("", (), {})
    ) -> Any:
        def other(node: list) -> Any:
            try:
                match node:
                    case ["tensor", int(index), int(place)]:
                        return outputs[place] if place >= 0 and outputs else tensors[wire.index(index)]
                    case ["module", int(key), dict(description)]:
                        return Mirror(self, key, description, tensors, origin).module
                    case ["object", int(key), str(name)]:
                        return RemoteObject(self, key, clean(name, 80))
                    case ["method"]:
                        return METHOD
            except (IndexError, KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
                raise wire.WireError(f"a malformed {node[0]} came: {type(error).__name__}") from None
            raise wire.WireError("a value of an unknown kind came")

        try:
            return wire.decode(node, tensors, other)
        except wire.WireError as error:
            self.stop("crashed", "Your code sent the grader something that is not a value.", f"It was {error}.")

    def call(
        self, target: list, method: str, args: tuple, kwargs: dict, piece: str = "", mirror: "Mirror | None" = None
    ) -> Any:
        """Call something of the learner's: a piece, or (part of) the module behind `mirror`."""
        tensors: list[Tensor] = []
        leaves: list[Tensor] = []
        mirrors: list[Mirror] = []
        callbacks: list[Callable] = []
        message = {"op": "call", "target": target, "method": method, "drop": self.dropped, "state": {}}
        message["args"] = self.encode(args, tensors, leaves, mirrors, callbacks)
        message["kwargs"] = self.encode(kwargs, tensors, leaves, mirrors, callbacks)
        if mirror:
            _involve(mirror, mirrors)
        given = list(tensors)
        self.dropped = []
        for involved in mirrors:
            message["state"][str(involved.key)] = involved.unsent(tensors)
            if torch.is_grad_enabled():
                leaves += [p for p in involved.parameters if p.requires_grad]
        self.count, self.last_id = self.count + 1, self.last_id + 1
        message |= {"id": self.last_id, "seed": self.seed(self.test, self.count)}
        message |= {"grad": torch.is_grad_enabled(), "tracked": bool(leaves)}
        record = self._record(piece, mirror, args, kwargs, message)

        def ask() -> tuple[dict, list[Tensor]]:
            reply, received = self.request(message, tensors, callbacks, record)
            if record and "error" in reply:
                record.error, record.complete = _error(reply["error"])["ename"], True
            self.raise_error(reply)
            for i in _list(reply.get("changed")):
                if isinstance(i, int) and 0 <= i < len(given):
                    self.changer = piece or "code"
                    _spoil(given[i], self.seed(self.test, self.count, "noise"))
            for involved, state in zip(mirrors, _list(reply.get("state")), strict=False):
                involved.update(state, received)
            return reply, received

        made_by = ("", (), {}) if mirror else (piece, args, kwargs)
        if leaves:
            graph = _Graph(self, message["id"], ask, record)
            outputs = _Remote.apply(graph, *leaves)
            result = self.decode(graph.reply.get("value"), graph.received, outputs, made_by)
        else:
            reply, received = ask()
            result = self.decode(reply.get("value"), received, (), made_by)
        if record:
            record.result, record.complete = self._keep(result), True
        return result

    def _record(self, piece: str, mirror: "Mirror | None", args: tuple, kwargs: dict, message: dict) -> Call | None:
        if not piece or len(self.calls) >= MAX_RECORDED or self.recorded >= MAX_RECORDED_BYTES:
            return None
        how = {key: message[key] for key in ("method", "seed", "grad", "tracked")}
        held, path = (mirror.held(), message["target"][2]) if mirror else (None, "")
        self.calls.append(Call(piece, held, path, args=self._keep(args), kwargs=self._keep(kwargs), **how))
        return self.calls[-1]

    def _keep(self, value: Any) -> Any:
        """A copy for the diagnosis, counted."""
        copy = _frozen(value)
        self.recorded += _size(copy)
        return copy

    def raise_error(self, reply: dict) -> None:
        """Raise here what the learner's code raised there: the same builtin type where there is one."""
        if "error" not in reply:
            return
        error = _error(reply["error"])
        kind = next((name for name in error["types"] if _raisable(name)), "RuntimeError")
        try:
            raised = getattr(builtins, kind)(error["evalue"])
        except TypeError:
            raised = RuntimeError(error["evalue"])
        raised.learner = error
        raise raised


class RemotePiece:
    """A function or class of the learner's, by its name."""

    def __init__(self, session: Session, name: str):
        self._session, self._target, self.__name__ = session, ["piece", name], name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.call(self._target, "", args, kwargs, self.__name__)

    def __getattr__(self, name: str) -> Any:
        return _attribute(self._session, self._target, name, self.__name__)


class RemoteObject:
    """Something of the learner's that is neither plain nor a module: it can be called and asked for attributes."""

    def __init__(self, session: Session, key: int, kind: str):
        self._session, self._target, self._kind = session, ["handle", key, ""], kind

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.call(self._target, "", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return _attribute(self._session, self._target, name)

    def __repr__(self) -> str:
        return f"<a {self._kind} of the learner's>"


def _attribute(session: Session, target: list, name: str, piece: str = "") -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    value = session.ask({"op": "attribute", "target": target, "name": name})
    return (lambda *args, **kwargs: session.call(target, name, args, kwargs, piece)) if value is METHOD else value


class RemoteModule(nn.Module):
    """A learner's nn.Module, or a part of one (`m.attention.q_proj`): real parameters here, calls in the sandbox."""

    _mirror: "Mirror"
    _path: str

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._mirror.call(self._path, "", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_"):
                raise
        value = self._mirror.ask({"op": "attribute", "name": name}, self._path)
        return partial(self._mirror.call_method, self._path, name) if value is METHOD else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" or name.startswith("_") or isinstance(value, Tensor | nn.Module):
            super().__setattr__(name, value)
        else:
            self._mirror.assign(self._path, name, value)

    def __deepcopy__(self, memo: dict) -> "RemoteModule":
        return self._mirror.ask({"op": "copy"}, self._path)


class RemoteList(RemoteModule):
    """A ModuleList or Sequential of the learner's."""

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int) -> nn.Module:
        return list(self._modules.values())[index]

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self._modules.values())


class Mirror:
    """Keeps a module here and its original in the sandbox alike.

    What the test changes here is sent with the next call; what a call changes there comes back with its result.
    """

    def __init__(self, session: Session, key: int, description: dict, received: list[Tensor], origin: tuple):
        self.session, self.key, self.origin = session, key, origin
        parts: dict[str, RemoteModule] = {}
        # Names are entered directly: nn.Module's own methods would ask the sandbox whether the name is taken.
        for name, training, is_list in description["parts"]:
            part = (RemoteList if is_list is True else RemoteModule)()
            part.__dict__.update(_mirror=self, _path=str(name), training=training is True)
            parts[name] = part
            if name:
                parent, _, last = name.rpartition(".")
                parts[parent]._modules[last] = part
        shared: dict[int, nn.Parameter] = {}
        for name, index, requires_grad in description["parameters"]:
            parent, _, last = name.rpartition(".")
            if index not in shared:
                shared[index] = nn.Parameter(received[wire.index(index)], requires_grad is True)
            parts[parent]._parameters[last] = shared[index]
        for name, index, persistent in description["buffers"]:
            parent, _, last = name.rpartition(".")
            parts[parent]._buffers[last] = received[wire.index(index)]
            if persistent is not True:
                parts[parent]._non_persistent_buffers_set.add(last)
        self.module, self.parameters = parts[""], list(shared.values())
        self.mark_alike()

    def target(self, path: str) -> list:
        return ["handle", self.key, path]

    def call(self, path: str, method: str, args: tuple, kwargs: dict) -> Any:
        return self.session.call(self.target(path), method, args, kwargs, self.origin[0], self)

    def call_method(self, path: str, method: str, *args: Any, **kwargs: Any) -> Any:
        return self.call(path, method, args, kwargs)

    def ask(self, message: dict, path: str) -> Any:
        return self.session.ask(message | {"target": self.target(path)}, self.origin)

    def assign(self, path: str, name: str, value: Any) -> None:
        out: list[Tensor] = []
        node = self.session.encode(value, out, [], [], [])
        reply, _ = self.session.request({"op": "assign", "target": self.target(path), "name": name, "value": node}, out)
        self.session.raise_error(reply)

    def tensors(self) -> dict[str, Tensor]:
        parameters = self.module.named_parameters(remove_duplicate=False)
        return dict([*parameters, *self.module.named_buffers(remove_duplicate=False)])

    def modes(self) -> dict[str, bool]:
        return {name: part.training for name, part in self.module.named_modules(remove_duplicate=False)}

    def mark_alike(self) -> None:
        # Values are compared, not version counters: `p.data` changes without counting.
        self.there = {name: (t.detach().clone(), t.requires_grad) for name, t in self.tensors().items()}
        self.modes_there = self.modes()

    def unsent(self, out: list[Tensor]) -> dict:
        """What has changed here since the last call."""
        changed = {}
        for name, tensor in self.tensors().items():
            old, required_grad = self.there.get(name, (None, None))
            if old is None or required_grad != tensor.requires_grad or not _same(old, tensor):
                out.append(tensor)
                changed[name] = [len(out) - 1, tensor.requires_grad]
        modes = {name: mode for name, mode in self.modes().items() if self.modes_there.get(name) != mode}
        if changed or modes:
            self.mark_alike()
        return {"tensors": changed, "training": modes}

    def update(self, state: Any, received: list[Tensor]) -> None:
        """Take over what a call has changed there."""
        try:
            held = self.tensors()
            with torch.no_grad():
                for name, index in state["tensors"].items():
                    held[name].copy_(received[wire.index(index)])
            for name, mode in state["training"].items():
                self.module.get_submodule(name).training = mode is True
            if state["tensors"] or state["training"] != self.modes_there:
                self.mark_alike()
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            sentence = "Your module changed in a way that cannot be followed."
            self.session.stop("crashed", sentence, clean(f"The reason: {error!r}.", 300))

    def held(self) -> Held:
        piece, args, kwargs = self.origin
        return Held(piece, _frozen(args), _frozen(kwargs), _frozen(self.tensors()), self.modes())


class _Graph:
    """A call whose graph the sandbox keeps, as long as this object lives."""

    def __init__(self, session: Session, key: int, ask: Callable, record: Call | None):
        self.session, self.key, self.ask, self.record = session, key, ask, record

    def run(self) -> tuple[Tensor, ...]:
        self.reply, self.received = self.ask()
        places: dict[int, Tensor] = {}
        _find_outputs(self.reply.get("value"), self.received, places)
        return tuple(places[place] for place in sorted(places))

    def backward(self, grads: Sequence[Tensor | None], count: int) -> list[Tensor | None]:
        out = [g for g in grads if g is not None]
        places = iter(range(len(out)))
        message = {"op": "backward", "id": self.key, "grads": [None if g is None else next(places) for g in grads]}
        reply, received = self.session.request(message, out)
        self.session.raise_error(reply)
        indices = _list(reply.get("grads"))
        if len(indices) != count:
            self.session.stop("crashed", "Your code sent the grader gradients that do not fit.")
        result = [None if i is None else received[wire.index(i)] for i in indices]
        if self.record:
            self.record.backwards.append((self.session._keep(tuple(grads)), self.session._keep(tuple(result))))
            self.record.complete = self.session.recorded < MAX_RECORDED_BYTES
        return result

    def __del__(self) -> None:
        self.session.dropped.append(self.key)


def _find_outputs(node: Any, tensors: list[Tensor], places: dict[int, Tensor]) -> None:
    if isinstance(node, list):
        match node:
            case ["tensor", int(index), int(place)] if place >= 0 and 0 <= index < len(tensors):
                places[place] = tensors[index]
            case _:
                for part in node:
                    _find_outputs(part, tensors, places)


class _Remote(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: _Graph, *leaves: Tensor) -> tuple[Tensor, ...]:
        ctx.graph, ctx.count = graph, len(leaves)
        ctx.set_materialize_grads(False)
        return graph.run()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple:
        return (None, *ctx.graph.backward(grads, ctx.count))


def _spoil(tensor: Tensor, seed: int) -> None:
    """The learner's code has changed a tensor of the test. What it wrote there must not come here, or it could rewrite
    the test; but a test that looks at the tensor again must notice. So it becomes noise that no code could foresee."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        noise = torch.full(tensor.shape, torch.nan, dtype=tensor.dtype)
    else:
        largest = 2 if tensor.dtype is torch.bool else torch.iinfo(tensor.dtype).max
        noise = torch.as_tensor(np.random.default_rng(seed).integers(0, largest, tuple(tensor.shape)))
    with torch.no_grad(), contextlib.suppress(RuntimeError):  # an expanded one cannot be written to, there as here
        tensor.copy_(noise)


def _involve(mirror: Mirror, mirrors: list[Mirror]) -> None:
    if mirror not in mirrors:
        mirrors.append(mirror)


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def _frozen(value: Any) -> Any:
    """A copy that later changes cannot reach; modules become what they were."""
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, RemoteModule):
        return value._mirror.held()
    if type(value) in (list, tuple):
        return type(value)([_frozen(item) for item in value])
    if type(value) is set:  # item by item, as in wire.decode
        return {_frozen(item) for item in value}
    if type(value) is dict:
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.copy()
    return value


def _size(value: Any) -> int:
    """The bytes of a frozen value."""
    if isinstance(value, Tensor | np.ndarray):
        return value.nbytes
    if isinstance(value, Held):
        return _size(value.state)
    if isinstance(value, list | tuple | set):
        return sys.getsizeof(value) + sum(map(_size, value))
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(map(_size, value)) + sum(map(_size, value.values()))
    return sys.getsizeof(value)


def _library_name(value: Any) -> tuple[str, str] | None:
    """Where a function of torch, NumPy or Python lives: such a one is named, not called back."""
    name = getattr(value, "__name__", None)
    for library in LIBRARIES:
        if name and callable(value) and getattr(library, name, None) is value:
            return library.__name__, name
    module = getattr(value, "__module__", None) or ""
    if name and module.startswith("encoder.") and getattr(sys.modules.get(module), name, None) is value:
        return module, name
    return None


def _raisable(name: Any) -> bool:
    """Whether it names an error to raise; the end of an iteration would silently end a test's own loop."""
    kind = getattr(builtins, name, None) if isinstance(name, str) else None
    return isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, ITERATION)


def _list(value: Any) -> list:
    return value if isinstance(value, list) else []


def _error(error: Any) -> dict | None:
    """An error as the sandbox describes it, checked."""
    if error is None:
        return None
    error = error if isinstance(error, dict) else {}
    lineno = error.get("lineno")
    return {
        "ename": clean(error.get("ename"), 80) or "Error",
        "types": [t for t in _list(error.get("types")) if isinstance(t, str)],
        "evalue": clean(error.get("evalue")),
        "line": clean(error.get("line"), 300),
        "lineno": lineno if isinstance(lineno, int) else None,
    }


def _outputs(reply: dict, room: int) -> list[dict]:
    """What a cell has shown, as notebook outputs: text and pictures only, and at most `room` characters."""
    outputs: list[dict] = []
    for item in _list(reply.get("outputs"))[:200]:
        match item:
            case {"output_type": "stream", "name": ("stdout" | "stderr") as name, "text": str(text)}:
                outputs.append({"output_type": "stream", "name": name, "text": clean(text, 100_000)})
            case {"output_type": ("display_data" | "execute_result") as kind, "data": dict(data)}:
                shown = {m: clean(data[m], 100_000) for m in ("text/plain", "text/markdown") if m in data}
                png = data.get("image/png")
                if isinstance(png, str) and re.fullmatch(r"[A-Za-z0-9+/=\n]*", png):
                    shown["image/png"] = png
                output = {"output_type": kind, "data": shown, "metadata": {}}
                outputs.append(output | ({"execution_count": None} if kind == "execute_result" else {}))
            case {"output_type": "error"}:
                error = _error(item)
                trace = [f"line {error['lineno']}: {error['line']}", f"{error['ename']}: {error['evalue']}"]
                outputs.append(
                    {"output_type": "error", "traceback": trace} | {k: error[k] for k in ("ename", "evalue")}
                )
    if len(repr(outputs)) > room:
        return [{"output_type": "stream", "name": "stderr", "text": "Left out: this notebook shows too much.\n"}]
    return outputs
