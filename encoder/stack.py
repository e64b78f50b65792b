"""The stack of layers, and how it runs fast on any device. Chapter 06."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from encoder.layer import EncoderLayer, LayerNorm
from encoder.packing import Packing


def padding_mask(lengths: Tensor, size: int | None = None) -> Tensor:
    """lengths (B,) → bool (B, 1, 1, S): True for real keys, the same for every head and query."""
    size = int(lengths.max()) if size is None else size
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]


class Encoder(nn.Module):
    """L layers one after the other, and a last LayerNorm when they are pre-LN: (B, T, D) → (B, T, D).

    mask and bias are those of `MultiHeadAttention`, the same in every layer.
    lengths: in the place of a padding mask; then no work is done on padding, and its output is zero.
    """

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        norm_first: bool = True,
        dropout: float = 0.0,
        activation: str = "gelu",
        eps: float = 1e-5,
    ):
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, n_heads, d_ff, norm_first, dropout, activation, eps) for _ in range(n_layers)
        )
        self.norm = LayerNorm(d_model, eps) if norm_first else nn.Identity()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Packing | None = None,
        bias: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> Tensor:
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in self.layers:
            x = layer(x, mask, bias)
        return self.norm(x)

    def forward_packed(
        self, x: Tensor, lengths: Tensor | Sequence[int], mask: Tensor | Packing | None, bias: Tensor | None
    ) -> Tensor:
        if mask is not None or bias is not None:
            raise ValueError("lengths take the place of a mask and allow no bias, got more than lengths")
        packing = Packing(lengths, x.size(1), x.device)
        return packing.unpack(self.forward(packing.pack(x), packing))


def pick_device() -> torch.device:
    """The accelerator of this machine, or else the CPU."""
    for name in ("cuda", "mps", "xpu"):
        if torch.get_device_module(name).is_available():
            return torch.device(name)
    return torch.device("cpu")


def mixed_precision(device: torch.device, enabled: bool = True) -> torch.autocast:
    """A context in which matrix products run in bfloat16 while weights, sums and norms stay float32.

    bfloat16 has the range of float32, so that gradients need no scaling.
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def prepare(model: nn.Module, device: torch.device | None = None, compile: bool = False) -> nn.Module:
    """The model on its device (default: `pick_device`), its forward compiled if asked for; names of weights stay."""
    model = model.to(pick_device() if device is None else device)
    if compile:
        model.compile(dynamic=True)  # one compilation for all batch sizes and lengths
    return model
