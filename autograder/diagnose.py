"""Name the mistake: repeat the calls that a failing test made on every known wrong version of the piece.

Where a wrong version gives what the learner's code gave, call by call, its docstring is what a tutor would say.
"""

import ast
import contextlib
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autograder.assignment import Assignment, needed
from autograder.session import Call, Held, RemotePiece, seed_everything

BUDGET = 10.0  # seconds of CPU time that the diagnosis of one submission may take
RTOL, ATOL = 1e-4, 1e-5


@dataclass(frozen=True)
class Version:
    """A wrong version of a piece."""

    piece: str
    name: str
    sentence: str
    implementation: Callable


class Knowledge:
    """The reference pieces of an assignment and the known wrong versions of them."""

    def __init__(self, assignment: Assignment):
        self.namespace: dict[str, Any] = {"__name__": "reference"}
        solutions = "\n\n".join(assignment.solutions.values())
        setup = needed(assignment.given, solutions, set(assignment.pieces))
        with torch.random.fork_rng(devices=[]):  # the CPU generator only: a GPU may be there, and is never woken
            for statement in [*ast.parse(setup).body, *ast.parse(solutions).body]:
                with contextlib.suppress(NameError):  # a given value that is computed from a piece: no piece needs it
                    exec(ast.unparse(statement), self.namespace)
            self.versions = self._read(assignment)

    def _read(self, assignment: Assignment) -> list[Version]:
        module: dict[str, Any] = {"__name__": f"{assignment.name}_misconceptions"}
        exec(compile(assignment.misconceptions, module["__name__"], "exec"), module)
        names = [getattr(node, "name", "") for node in ast.parse(assignment.misconceptions).body]
        versions = []
        for name in names:
            piece, _, what = name.partition("__")
            if what and not what.startswith("right__"):
                sentence = " ".join((module[name].__doc__ or "").split())
                versions.append(Version(piece, name, sentence, module[name]))
        return versions


@lru_cache(maxsize=16)
def _knowledge(name: str, notebook: bytes, misconceptions: str) -> Knowledge:
    return Knowledge(Assignment(name, notebook, misconceptions))


@dataclass
class Outcome:
    """What a call gave: a value, or the name of the error."""

    value: Any = None
    error: str | None = None
    grads: tuple = ()
    asked: tuple = ()


class Diagnosis:
    """The diagnosis of one submission from the calls its tests have made, by test."""

    def __init__(self, assignment: Assignment, calls: dict[str, list[Call]]):
        self.assignment, self.calls = assignment, calls
        self.end = process_time() + BUDGET
        self.cache: dict[tuple, Outcome] = {}
        self.named: list[Version] = []

    @cached_property
    def knowledge(self) -> Knowledge:
        a = self.assignment
        return _knowledge(a.name, a.notebook, a.misconceptions)

    def of(self, test: str, hidden: bool) -> str:
        """What a tutor would say about a failed test; empty when nothing is known."""
        calls = [call for call in self.calls[test] if call.complete]
        for piece in dict.fromkeys(call.piece for call in calls):
            if sentence := self._about(piece, [call for call in calls if call.piece == piece], hidden):
                return sentence
        return ""

    def _about(self, piece: str, calls: list[Call], hidden: bool) -> str:
        wrong = [call for call in calls if not self._agrees(call, None)]
        if all(call.error == "NotImplementedError" for call in wrong):  # right, or not written yet
            return ""
        # The calls where the answer is wrong say most: a version that agrees there is tried first.
        calls = wrong + [call for call in calls if call not in wrong]
        for versions in (
            [v for v in self.named if v.piece != piece],  # one mistake may spoil all that builds on it: say so first
            [v for v in self.knowledge.versions if v.piece == piece],
            [v for v in self.knowledge.versions if v.piece != piece],
        ):
            fits = [v for v in versions if all(self._agrees(call, v) for call in calls + self._calls_of(v, piece))]
            if fits:
                best = max(fits, key=self._likeness) if len(fits) > 1 else fits[0]
                self.named.append(best)
                return best.sentence if best.piece == piece else f"This comes from `{best.piece}`: {best.sentence}"
        return self._share(wrong[0], hidden)

    def _calls_of(self, version: Version, piece: str) -> list[Call]:
        """Another piece is blamed only if it is wrong in the same way where it is called by itself."""
        if version.piece == piece:
            return []
        return [
            call for calls in self.calls.values() for call in calls if call.complete and call.piece == version.piece
        ]

    def _share(self, call: Call, hidden: bool) -> str:
        """How much of a wrong answer is right."""
        ours, theirs = _first_tensor(self._outcome(call, None).value), _first_tensor(call.result)
        if ours is None or theirs is None:
            return ""
        if ours.shape != theirs.shape:
            return "" if hidden else f"`{call.piece}` gave the shape {_shape(theirs)}; it should be {_shape(ours)}."
        right = torch.isclose(theirs.double(), ours.double(), rtol=RTOL, atol=ATOL, equal_nan=True).double().mean()
        if right == 1:  # something else is wrong: another output, a gradient, the type
            return ""
        return f"{float(right):.0%} of the values that `{call.piece}` gave are right."

    def _agrees(self, call: Call, version: Version | None) -> bool:
        return _same_outcome(_given(call), self._outcome(call, version))

    def _likeness(self, version: Version) -> tuple[int, int]:
        """How many of all calls a version agrees with, and in how many it asks a test's function the same."""
        calls = [call for calls in self.calls.values() for call in calls if call.complete]
        outcomes = [self._outcome(call, version) for call in calls]
        agreed = sum(map(_same_outcome, map(_given, calls), outcomes))
        return agreed, sum(_same(call.asked, outcome.asked) for call, outcome in zip(calls, outcomes, strict=True))

    def _outcome(self, call: Call, version: Version | None) -> Outcome:
        key = (id(call), version and version.name)
        if key not in self.cache:
            if process_time() > self.end:
                return Outcome(error="out of time")
            self.cache[key] = self._replay(call, version)
        return self.cache[key]

    def _replay(self, call: Call, version: Version | None) -> Outcome:
        """The call, made to the reference with `version` in the place of its piece."""
        namespace = self.knowledge.namespace
        replaced = version and namespace.get(version.piece)
        if version:
            namespace[version.piece] = version.implementation
        leaves: list[Tensor] = []
        modules: list[nn.Module] = []
        asked: list[tuple] = []
        try:
            args, kwargs = (_thaw(value, namespace, leaves, modules, asked) for value in (call.args, call.kwargs))
            target = namespace[call.piece]
            if call.held:
                target = _rebuild(call.held, namespace, modules).get_submodule(call.path)
            leaves += [p for m in modules for p in m.parameters() if p.requires_grad]
            if call.method:
                target = getattr(target, call.method)
            seed_everything(call.seed)
            with torch.set_grad_enabled(call.grad):
                value = target(*args, **kwargs)
            grads = tuple(_gradients(value, leaves, given) for given, _ in call.backwards)
            return Outcome(_plain(value, call.tracked), None, grads, tuple(asked))
        except Exception as error:
            return Outcome(error=type(error).__name__, asked=tuple(asked))
        finally:
            if version:
                namespace[version.piece] = replaced


def _thaw(value: Any, namespace: dict, leaves: list[Tensor], modules: list[nn.Module], asked: list[tuple]) -> Any:
    """Arguments as they were: fresh copies, modules rebuilt."""
    if isinstance(value, Tensor):
        copy = value.detach().clone()
        if value.requires_grad:
            leaves.append(copy.requires_grad_())
        return copy
    if isinstance(value, Held):
        return _rebuild(value, namespace, modules)
    if type(value) in (list, tuple, set):
        return type(value)([_thaw(item, namespace, leaves, modules, asked) for item in value])
    if type(value) is dict:
        return {key: _thaw(item, namespace, leaves, modules, asked) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, RemotePiece):
        return namespace[value.__name__]
    if isinstance(value, types.FunctionType):  # of the test: note what it is asked, as it was for the learner
        return lambda *args, **kwargs: (asked.append(args), value(*args, **kwargs))[1]
    return value


def _given(call: Call) -> Outcome:
    return Outcome(call.result, call.error, tuple(got for _, got in call.backwards), tuple(call.asked))


def _rebuild(held: Held, namespace: dict, modules: list[nn.Module]) -> nn.Module:
    """A module of the reference in the state that the learner's had."""
    made = namespace[held.piece]
    if not isinstance(made, nn.Module):
        made = made(*_thaw(held.args, namespace, [], [], []), **_thaw(held.kwargs, namespace, [], [], []))
    tensors = dict([*made.named_parameters(remove_duplicate=False), *made.named_buffers(remove_duplicate=False)])
    with torch.no_grad():
        for name, tensor in held.state.items():
            tensors[name].copy_(tensor)
            if isinstance(tensors[name], nn.Parameter):
                tensors[name].requires_grad_(tensor.requires_grad)
    for name, training in held.training.items():
        made.get_submodule(name).training = training
    modules.append(made)
    return made


def _gradients(value: Any, leaves: list[Tensor], given: tuple) -> tuple:
    outputs: list[Tensor] = [t for t in _tensors(value) if t.requires_grad]
    pairs = [(o, g) for o, g in zip(outputs, given, strict=True) if g is not None]
    return torch.autograd.grad(
        [o for o, _ in pairs], leaves, [g for _, g in pairs], retain_graph=True, allow_unused=True
    )


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in _tensors(item)]
    if isinstance(value, dict):
        return [t for item in value.values() for t in _tensors(item)]
    return []


def _first_tensor(value: Any) -> Tensor | None:
    return next(iter(_tensors(value)), None)


def _plain(value: Any, tracked: bool) -> Any:
    """What would have come over the wire."""
    if isinstance(value, nn.Module):
        tensors = [*value.named_parameters(remove_duplicate=False), *value.named_buffers(remove_duplicate=False)]
        return Held("", (), {}, dict(tensors), {})
    if isinstance(value, Tensor):
        return value if tracked else value.detach()
    if isinstance(value, (list, tuple)):
        return [_plain(item, tracked) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item, tracked) for key, item in value.items()}
    return value


def _same_outcome(a: Outcome, b: Outcome) -> bool:
    if a.error or b.error:
        return a.error == b.error
    return _same(a.value, b.value) and len(a.grads) == len(b.grads) and all(map(_same, a.grads, b.grads))


def _same(a: Any, b: Any) -> bool:
    """Equal as far as a test could tell: numbers up to rounding, nan equal to nan, gradients wanted or not."""
    if isinstance(a, Held) and isinstance(b, Held):
        return {n: t.shape for n, t in a.state.items()} == {n: t.shape for n, t in b.state.items()}
    if isinstance(a, (Tensor, np.ndarray)) and isinstance(b, (Tensor, np.ndarray)):
        x, y = torch.as_tensor(a), torch.as_tensor(b)
        if x.shape != y.shape or x.dtype != y.dtype or x.requires_grad != y.requires_grad:
            return False
        return torch.allclose(x.detach().double(), y.detach().double(), rtol=RTOL, atol=ATOL, equal_nan=True)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, (int, float)):
        return bool(np.isclose(a, b, rtol=RTOL, atol=ATOL, equal_nan=True))
    return type(a) is type(b) and (a == b or not isinstance(a, (bool, int, str, set, type(None))))


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
