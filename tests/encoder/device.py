"""Device bugs found on a machine without a GPU.

A module is moved to a made-up device, "gpu", whose tensors have shapes and dtypes but no values, and runs there forward
and backward. What would fail or stall on a real GPU raises here: a tensor made on the CPU in `forward`, a value read
back (`.item()`, `.cpu()`), a hard-coded device, a layer hidden in a plain list. The private parts of PyTorch used here
are why its version is pinned.
"""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

GPU = "gpu"
_setup_privateuseone_for_python_backend(GPU)

REAL_DEVICES = ["cpu"]  # where parity is tested; a real accelerator joins when there is one
if torch.cuda.is_available():
    REAL_DEVICES.append("cuda")
if torch.backends.mps.is_available():
    REAL_DEVICES.append("mps")


class NoReadingBack(TorchDispatchMode):
    """`.cpu()` is legal on fake tensors, so it is caught here."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].device.type == GPU and out.device.type == "cpu":
            raise RuntimeError("a tensor is copied from the device to the host")
        return out


def on_gpu(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=GPU, requires_grad=x.requires_grad)


def move_to_gpu(module: nn.Module) -> None:
    """What `module.to("gpu")` moves: registered parameters and buffers, nothing else. Tied ones stay tied."""
    moved: dict[int, Tensor] = {}
    for part in module.modules():
        for name, p in part._parameters.items():
            if p is not None:
                if id(p) not in moved:
                    moved[id(p)] = nn.Parameter(on_gpu(p.detach()), requires_grad=p.requires_grad)
                part._parameters[name] = moved[id(p)]
        for name, b in part._buffers.items():
            if b is not None:
                part._buffers[name] = on_gpu(b)


def check_device(module: Any, *args: Any, unused: Iterable[str] = (), **kwargs: Any) -> None:
    """module(*args, **kwargs) stays on the device, forward and backward; given and left on the CPU.

    module: an nn.Module or a function. Tensors among the arguments are moved, also inside lists and dicts.
    unused: parameters that this call does not train; every other one must get a gradient.
    """
    is_module = isinstance(module, nn.Module)
    module = copy.deepcopy(module) if is_module else module
    with FakeTensorMode(allow_non_fake_inputs=True), NoReadingBack():
        if is_module:
            move_to_gpu(module)
        args, kwargs = tree_map_only(Tensor, on_gpu, (args, kwargs))
        leaves = [x for x in tree_leaves(module(*args, **kwargs)) if isinstance(x, Tensor)]
        assert leaves, "nothing came back"
        for x in leaves:
            assert x.device.type == GPU, f"an output is on {x.device}, not on the device of the input"
        if trained := [x.sum() for x in leaves if x.requires_grad]:
            torch.stack(trained).sum().backward()
        if is_module:
            silent = {name for name, p in module.named_parameters() if p.requires_grad and p.grad is None}
            assert silent == set(unused), f"no gradient reaches {sorted(silent)}, expected {sorted(unused)}"
