"""fp32 products on the CPU by oneDNN in place of MKL. Chapter 06.

PyTorch sends fp32 matrix products to MKL, which leaves AVX-512 unused on processors that are not Intel's. PyTorch also
carries oneDNN, which uses it everywhere: on an AMD EPYC (Zen 5) the same product takes half the time, to the same
precision. `use_onednn` changes a model over; weights and their names stay. Measure before you keep it.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a bᵀ + bias: (N, D), (F, D), (F,) → (N, F)"""
    onednn = [None if x is None else x.contiguous().to_mkldnn() for x in (a, b, bias)]
    return F.linear(*onednn).to_dense()  # type: ignore[arg-type]


class Product(torch.autograd.Function):
    """y = x Wᵀ + b, and its gradients: dx = dy W, dW = dyᵀ x, db = Σ dy. PyTorch's own are for MKL only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            product(grad, weight.t()) if needs_x else None,
            product(grad.t(), x.t()) if needs_weight else None,
            grad.sum(0) if needs_bias else None,
        )


def applies(x: Tensor) -> bool:
    """fp32 on the CPU; under autocast products run in bfloat16, which goes to oneDNN by itself."""
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and x.numel() > 0
    lowered = torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling()
    return plain and not lowered and torch.backends.mkldnn.is_available()


class OneDNNLinear(nn.Linear):
    """nn.Linear, by oneDNN where that `applies` and as ever elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        if not applies(x) or x.size(-1) != self.in_features:
            return super().forward(x)  # which also tells of a wrong width
        tokens = x.reshape(-1, self.in_features)
        return Product.apply(tokens, self.weight, self.bias).view(*x.shape[:-1], self.out_features)


def use_onednn(model: nn.Module) -> nn.Module:
    """The same model, every nn.Linear in it replaced by an OneDNNLinear that holds the same weights."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear:
                linear = OneDNNLinear(child.in_features, child.out_features, device="meta")
                linear.weight, linear.bias = child.weight, child.bias
                setattr(module, name, linear)
    return model
