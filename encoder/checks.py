"""What every piece asks of its inputs: one sentence saying what was expected and what came."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor


def check_same_width(q: Tensor, k: Tensor) -> None:
    if q.size(-1) != k.size(-1):
        raise ValueError(f"queries and keys must have the same width, got {q.size(-1)} and {k.size(-1)}")


def broadcasts(x: Tensor, shape: torch.Size | tuple[int, ...]) -> bool:
    try:
        return torch.broadcast_shapes(x.shape, shape) == torch.Size(shape)
    except RuntimeError:
        return False


def check_mask(mask: Tensor, shape: torch.Size | tuple[int, ...]) -> None:
    """A mask is boolean, True = may attend, and broadcasts to the scores."""
    if mask.dtype != torch.bool:
        raise TypeError(f"a mask must be torch.bool with True = may attend, got {mask.dtype}")
    if not broadcasts(mask, shape):
        raise ValueError(f"a mask must broadcast to the scores {tuple(shape)}, got {tuple(mask.shape)}")


def check_bias(bias: Tensor, shape: torch.Size | tuple[int, ...]) -> None:
    """A bias is a number added to each score; the kernel would take a boolean one for a mask."""
    if not bias.is_floating_point():
        raise TypeError(f"a bias must be of floating point, to be added to the scores, got {bias.dtype}")
    if not broadcasts(bias, shape):
        raise ValueError(f"a bias must broadcast to the scores {tuple(shape)}, got {tuple(bias.shape)}")


def check_divisible(d_model: int, n_heads: int) -> None:
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"d_model must be a multiple of n_heads, got d_model={d_model} and n_heads={n_heads}")


def check_width(x: Tensor, d_model: int, rank: int = 3) -> None:
    if x.dim() != rank or x.size(-1) != d_model:
        raise ValueError(f"expected a tensor of rank {rank} and width {d_model}, got shape {tuple(x.shape)}")


def check_even(width: int) -> None:
    """Sine and cosine, and the two coordinates of a rotation, come in pairs."""
    if width < 2 or width % 2:
        raise ValueError(f"a width of whole pairs is needed, an even number from 2 on, got {width}")


def check_one_of(name: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def check_lengths(lengths: Sequence[int], size: int) -> None:
    if not lengths or not all(isinstance(n, int) and 1 <= n <= size for n in lengths):
        raise ValueError(f"lengths must be whole numbers from 1 to {size}, the padded length, got {list(lengths)}")


def check_ids(ids: Tensor, size: int, what: str = "token") -> None:
    """`what` ids are whole numbers 0 … size − 1 of shape (B, T)."""
    if ids.dim() != 2 or ids.dtype != torch.int64:
        raise ValueError(f"{what} ids must be int64 of shape (B, T), got {ids.dtype} of shape {tuple(ids.shape)}")
    if not ids.is_cpu or torch.compiler.is_compiling() or ids.numel() == 0:
        return  # reading the values back would stall a GPU, whose own kernel asserts the range
    low, high = (int(bound) for bound in ids.aminmax())
    if low < 0 or high >= size:
        raise ValueError(f"{what} ids must be between 0 and {size - 1}, got {low if low < 0 else high}")
