"""What runs inside the sandbox, in one process with the learner's code: first the cells, then calls to their pieces.

Nothing here is trusted once a cell has run. The answers go to the grader as plain values, and the grader decides.
"""

import base64
import builtins
import copy
import importlib
import io
import linecache
import os
import random
import socket
import sys
import traceback
import types

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
import wire
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from torch import nn
from traitlets.config import Config

MAX_TEXT = 100_000  # characters of output kept from a cell
MAX_RICH = 4 << 20  # and bytes of pictures


class Outputs:
    """What the running cell has shown, capped."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.items, self.text, self.rich = [], 0, 0

    def stream(self, name, text):
        text = text[: max(MAX_TEXT - self.text, 0)]
        self.text += len(text)
        if text and self.items and self.items[-1].get("name") == name:
            self.items[-1]["text"] += text
        elif text:
            self.items.append({"output_type": "stream", "name": name, "text": text})

    def show(self, data, kind="display_data"):
        data = {mime: value for mime, value in data.items() if mime in ("text/plain", "text/markdown", "image/png")}
        if isinstance(data.get("image/png"), bytes):
            data["image/png"] = base64.b64encode(data["image/png"]).decode()
        size = sum(len(value) for value in data.values())
        if self.rich + size <= MAX_RICH:
            self.rich += size
            self.items.append({"output_type": kind, "data": data})


OUTPUTS = Outputs()


class Stream(io.TextIOBase):
    def __init__(self, name):
        self.name = name

    def write(self, text):
        OUTPUTS.stream(self.name, str(text))
        return len(text)

    def writable(self):
        return True


class Publisher(DisplayPublisher):
    def publish(self, data, metadata=None, **_):
        OUTPUTS.show(data)


class Hook(DisplayHook):
    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        OUTPUTS.show(format_dict, "execute_result")

    def finish_displayhook(self):
        pass


class Shell(InteractiveShell):
    def enable_gui(self, gui=None):
        pass

    def showtraceback(self, *_, **__):
        OUTPUTS.items.append({"output_type": "error", **describe_error(sys.exc_info()[1])})

    def showsyntaxerror(self, *_, **__):
        self.showtraceback()


SHELL = None


def warm_up():
    """Before forking: build the shell and touch what every guest will use."""
    global SHELL
    config = Config()
    config.HistoryManager.enabled = False  # it would start a thread
    config.InteractiveShell.colors = "nocolor"
    Shell.display_pub_class, Shell.displayhook_class = Publisher, Hook
    SHELL = Shell.instance(config=config)
    matplotlib.use("module://matplotlib_inline.backend_inline")
    SHELL.enable_matplotlib("inline")
    torch.set_num_threads(1)
    x = torch.randn(2, 4, 8, requires_grad=True)
    (torch.nn.functional.scaled_dot_product_attention(x, x, x) @ x.mT).sum().backward()
    torch.broadcast_shapes((2, 1), (1, 3))  # imports sympy
    figure, _ = plt.subplots()
    figure.savefig(io.BytesIO(), format="png")
    plt.close(figure)
    SHELL.run_cell("1 + 1")
    OUTPUTS.reset()
    SHELL.reset(new_session=True)
    # An editable install of the course must not lead a guest to the reference.
    sys.meta_path[:] = [f for f in sys.meta_path if "__editable__" not in getattr(f, "__module__", "")]
    course = [name for name in sys.modules if name.split(".")[0] in ("encoder", "autograder")]
    assert not course, f"{course} belong to the course and must not be in the fork server"


def describe_error(error):
    """Type, sentence and the learner's own line, as plain data."""
    line, number = "", None
    if isinstance(error, SyntaxError):
        line, number = (error.text or "").strip(), error.lineno
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith("<ipython-input"):
            line, number = linecache.getline(frame.filename, frame.lineno).strip(), frame.lineno
    try:
        message = str(error.msg if isinstance(error, SyntaxError) else error)
    except BaseException:
        message = ""
    return {
        "ename": type(error).__name__[:80],
        "types": [kind.__name__ for kind in type(error).__mro__],
        "evalue": message[:2000],
        "line": line[:300],
        "lineno": number,
    }


def seed(value):
    random.seed(value)
    np.random.seed(value % 2**32)
    torch.default_generator.manual_seed(value)  # torch.manual_seed would also queue a call for a GPU, with a traceback


class Guest:
    """Answers the grader's requests. `objects` are what it holds handles to, `graphs` what it may ask gradients of."""

    def __init__(self, sock):
        self.sock, self.objects, self.graphs = sock, {}, {}
        self.next_id = 0

    # -- requests ----------------------------------------------------------------------------------------------

    def files(self, message, tensors):
        """Write the submission's own files and the earlier chapters' package."""
        for name, data in message["files"].items():
            path = os.path.join(os.getcwd(), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(tensors[data].numpy().tobytes())
        sys.path[:0] = [os.path.join(os.getcwd(), "package"), os.path.join(os.getcwd(), "work")]
        os.chdir("work")
        return {}, []

    def cell(self, message, tensors):
        if message["seed"] is not None:
            seed(message["seed"])
        OUTPUTS.reset()
        result = SHELL.run_cell(message["source"], store_history=True)
        error = result.error_before_exec or result.error_in_exec
        return {"outputs": list(OUTPUTS.items), "error": describe_error(error) if error else None}, []

    def begin(self, message, tensors):
        """A new test: forget the objects of the last one; say which of the asked names exist."""
        self.objects.clear()
        self.graphs.clear()
        return {"defined": [name for name in message["names"] if name in SHELL.user_ns]}, []

    def value(self, message, tensors):
        out = []
        return {"value": self.encode(SHELL.user_ns[message["name"]], out)}, out

    def attribute(self, message, tensors):
        out = []
        value = getattr(self.target(message["target"]), message["name"])
        if callable(value) and not isinstance(value, nn.Module):
            return {"value": ["method"]}, []
        return {"value": self.encode(value, out)}, out

    def call(self, message, tensors):
        for key in message["drop"]:
            self.graphs.pop(key, None)
        for key, state in message["state"].items():
            self.load_state(self.objects[int(key)], state, tensors)
        leaves, modules = [], []
        args, kwargs = (self.decode(message[key], tensors, leaves, modules) for key in ("args", "kwargs"))
        function = self.target(message["target"], modules)
        if message["method"]:
            function = getattr(function, message["method"])
        leaves += [p for m in modules for p in m.parameters() if p.requires_grad]
        before = [snapshot(m) for m in modules]
        given = [t.detach().clone() for t in tensors]
        seed(message["seed"])
        with torch.set_grad_enabled(message["grad"]):
            result = function(*args, **kwargs)
        out, outputs = [], []
        reply = {"value": self.encode(result, out, outputs if message["tracked"] else None)}
        if outputs:
            self.graphs[message["id"]] = outputs, leaves
        reply["state"] = [changes(m, old, out) for m, old in zip(modules, before, strict=True)]
        pairs = enumerate(zip(tensors, given, strict=True))
        reply["changed"] = [i for i, (t, old) in pairs if not torch.equal(as_bytes(t), as_bytes(old))]  # nan is nan
        return reply, out

    def backward(self, message, tensors):
        outputs, leaves = self.graphs[message["id"]]
        used = [(o, tensors[i]) for o, i in zip(outputs, message["grads"], strict=True) if i is not None]
        grads = torch.autograd.grad(
            [o for o, _ in used], leaves, [g for _, g in used], retain_graph=True, allow_unused=True
        )
        out = [g for g in grads if g is not None]
        places = iter(range(len(out)))
        return {"grads": [None if g is None else next(places) for g in grads]}, out

    def assign(self, message, tensors):
        setattr(self.target(message["target"]), message["name"], self.decode(message["value"], tensors, [], []))
        return {}, []

    def copy(self, message, tensors):
        out = []
        return {"value": self.encode(copy.deepcopy(self.target(message["target"])), out)}, out

    # -- values ------------------------------------------------------------------------------------------------

    def target(self, node, modules=None):
        """The object a request is about: a name of the notebook, or an object held for the grader."""
        if node[0] == "piece":
            return SHELL.user_ns[node[1]]
        root = self.objects[node[1]]
        if modules is not None and isinstance(root, nn.Module) and all(root is not m for m in modules):
            modules.append(root)
        return root.get_submodule(node[2]) if node[2] else root

    def decode(self, node, tensors, leaves, modules):
        def other(node):
            match node[0]:
                case "tensor":
                    tensor = tensors[node[1]]
                    if node[2]:
                        leaves.append(tensor.requires_grad_())
                    return tensor
                case "piece" | "handle":
                    return self.target(node, modules)
                case "library":
                    value = importlib.import_module(node[1])
                    for name in node[2].split("."):
                        value = getattr(value, name)
                    return value
                case "config":
                    kind = getattr(importlib.import_module(node[1]), node[2])
                    return kind(**self.decode(node[3], tensors, leaves, modules))
                case "callback":
                    return lambda *args, **kwargs: self.call_back(node[1], args, kwargs)

        return wire.decode(node, tensors, other)

    def encode(self, value, tensors, outputs=None):
        def other(value):
            if isinstance(value, torch.Tensor):
                place = -1
                if outputs is not None and value.requires_grad:
                    place = len(outputs)
                    outputs.append(value)
                tensors.append(value)
                return ["tensor", len(tensors) - 1, place]
            if isinstance(value, types.GeneratorType | map | filter | zip | range):
                return wire.encode(list(value), tensors, other)
            self.next_id += 1
            self.objects[self.next_id] = value
            if not isinstance(value, nn.Module):
                return ["object", self.next_id, type(value).__name__]
            return ["module", self.next_id, describe_module(value, tensors)]

        return wire.encode(value, tensors, other)

    def load_state(self, module, state, tensors):
        parameters, buffers = named(module)
        held = parameters | buffers
        with torch.no_grad():
            for name, (index, requires_grad) in state["tensors"].items():
                tensor, new = held[name], tensors[index]
                if tensor.shape == new.shape and tensor.dtype == new.dtype:
                    tensor.copy_(new)
                else:
                    tensor.data = new
                if name in parameters:
                    tensor.requires_grad_(requires_grad)
        for name, training in state["training"].items():
            module.get_submodule(name).training = training

    def call_back(self, key, args, kwargs):
        """The learner's code calls a function that the test passed: it runs in the grader."""
        out = []
        message = {"callback": key, "args": self.encode(args, out), "kwargs": self.encode(kwargs, out)}
        wire.send(self.sock, message, out)
        reply, tensors = wire.receive(self.sock)
        if "error" in reply:
            raise getattr(builtins, reply["error"][0])(reply["error"][1])
        return self.decode(reply["value"], tensors, [], [])


def named(module):
    """All parameters and buffers by name, shared ones under each of their names."""
    return (
        dict(module.named_parameters(remove_duplicate=False)),
        dict(module.named_buffers(remove_duplicate=False)),
    )


def describe_module(module, tensors):
    parameters, buffers = named(module)
    places = {}

    def place(tensor):
        if id(tensor) not in places:
            tensors.append(tensor)
            places[id(tensor)] = len(tensors) - 1
        return places[id(tensor)]

    persistent = module.state_dict(keep_vars=True).keys()
    return {
        "parameters": [[name, place(p), p.requires_grad] for name, p in parameters.items()],
        "buffers": [[name, place(b), name in persistent] for name, b in buffers.items()],
        "parts": [
            [name, part.training, isinstance(part, nn.ModuleList | nn.Sequential)]
            for name, part in module.named_modules(remove_duplicate=False)
        ],
    }


def snapshot(module):
    parameters, buffers = named(module)
    return {name: tensor.detach().clone() for name, tensor in (parameters | buffers).items()}


def changes(module, before, tensors):
    """The tensors of a module that a call has changed: training steps, running statistics."""
    parameters, buffers = named(module)
    changed = {}
    for name, tensor in (parameters | buffers).items():
        if name not in before or not same(tensor, before[name]):
            tensors.append(tensor)
            changed[name] = len(tensors) - 1
    return {"tensors": changed, "training": {n: m.training for n, m in module.named_modules(remove_duplicate=False)}}


def as_bytes(tensor):
    return tensor.detach().reshape(-1).view(torch.uint8)


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def serve(sock: socket.socket) -> None:
    sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
    guest = Guest(sock)
    requests = {name: getattr(guest, name) for name in REQUESTS}
    while True:
        try:
            message, tensors = wire.receive(sock)
        except EOFError:
            os._exit(0)
        except KeyboardInterrupt:
            continue
        try:
            reply, out = requests[message["op"]](message, tensors)
            wire.send(sock, reply, out)
        except BaseException as error:
            wire.send(sock, {"error": describe_error(error)}, [])


REQUESTS = ("files", "cell", "begin", "value", "attribute", "assign", "call", "backward", "copy")
