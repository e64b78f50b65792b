"""Who may read whom. Chapter 07.

The convention of the whole package, said here once: a mask is boolean and **True means "may attend"**, as in PyTorch's
`F.scaled_dot_product_attention` (and the opposite of `nn.MultiheadAttention`). Its axes are (B, H, T, S), or anything
that broadcasts to them: (T, S) is the same for all sequences and heads, (B, 1, 1, S) hides keys, as padding does. Masks
combine with `&`. A query that may attend to nothing reads zeros.
"""

import torch
from torch import Tensor


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """(T, T) bool: query t may read the keys s ≤ t, itself and the past."""
    t = torch.arange(length, device=device)
    return t <= t[:, None]


def window_mask(length: int, window: int, device: torch.device | None = None) -> Tensor:
    """(T, T) bool: query t may read the keys with |t − s| ≤ window, on either side."""
    if window < 0:
        raise ValueError(f"window must be 0 or more, got {window}")
    t = torch.arange(length, device=device)
    return (t - t[:, None]).abs() <= window


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """True where all masks allow; None allows everything, so that any mask may be left out."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined
