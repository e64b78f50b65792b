"""Attention as it runs in production: PyTorch's fused kernel, and batches without padding. Used from chapter 03 on.

The explicit `scaled_dot_product_attention` shows the mathematics; `attend` gives the same output from one fused kernel
that never holds the (T, S) weights. `Packing` lays the real tokens of a padded batch end to end, so that all that works
token by token (projections, feed-forward, norms) does no work on padding.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from encoder.checks import check_bias, check_lengths, check_mask


class Packing:
    """Which tokens of a (B, T) batch are real, and how they lie end to end as (1, N, D), N = Σ lengths.

    Given to a layer in the place of its mask, it says that each sequence attends only within itself.

    lengths: B numbers from 1 to T; real tokens come first in their row
    """

    def __init__(self, lengths: Sequence[int] | Tensor, size: int, device: torch.device | None = None):
        self.lengths: list[int] = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
        check_lengths(self.lengths, size)
        self.size = size
        rows = torch.cat([torch.arange(n) + b * size for b, n in enumerate(self.lengths)])
        self.rows = rows.to(device)  # (N,) where real tokens lie among all B·T; made on the host, so that nothing waits
        self.mask = (torch.arange(size) < torch.tensor(self.lengths)[:, None])[:, None, None].to(device)  # (B, 1, 1, T)

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, D) → (1, N, D)"""
        if x.shape[:2] != (len(self.lengths), self.size):
            expected = f"{len(self.lengths)} sequences padded to {self.size} tokens"
            raise ValueError(f"the lengths are those of {expected}, got a batch of shape {tuple(x.shape)}")
        return x.flatten(0, 1)[None, self.rows]

    def unpack(self, x: Tensor) -> Tensor:
        """(1, N, D) → (B, T, D), zeros on padding."""
        padded = x.new_zeros(len(self.lengths) * self.size, x.size(-1)).index_copy(0, self.rows, x[0])
        return padded.unflatten(0, (-1, self.size))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> Tensor:
        """Attention within each sequence: (1, H, N, K) → (1, H, N, K)."""
        n = sum(self.lengths)
        if not (q.size(0) == k.size(0) == 1 and q.size(-2) == k.size(-2) == n):
            got = f"{tuple(q.shape)} and {tuple(k.shape)}"
            raise ValueError(f"a Packing is the mask of one row of {n} packed tokens, got queries and keys {got}")
        if q.device.type == "cpu":
            return attend_in_turn(q, k, v, self.lengths, dropout)
        return attend_padded(q, k, v, self, dropout)


def attend_in_turn(q: Tensor, k: Tensor, v: Tensor, lengths: list[int], dropout: float = 0.0) -> Tensor:
    """One kernel call a sequence: not one score is computed for padding. The faster way where calls are cheap (CPU)."""
    parts = zip(q.split(lengths, 2), k.split(lengths, 2), v.split(lengths, 2), strict=True)
    heads = [F.scaled_dot_product_attention(*part, dropout_p=dropout).transpose(1, 2) for part in parts]
    return torch.cat(heads, 1).transpose(1, 2)  # joined along tokens, as the kernel lays them out: no copy on merging


def attend_padded(q: Tensor, k: Tensor, v: Tensor, packing: Packing, dropout: float = 0.0) -> Tensor:
    """One kernel call for all sequences, padded for this call only. The faster way where calls are dear (GPU)."""
    n_heads = q.size(1)
    q, k, v = (packing.unpack(x.transpose(1, 2).flatten(2)) for x in (q, k, v))  # (B, T, D)
    q, k, v = (x.unflatten(2, (n_heads, -1)).transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=packing.mask, dropout_p=dropout)
    return packing.pack(heads.transpose(1, 2).flatten(2)).unflatten(2, (n_heads, -1)).transpose(1, 2)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | Packing | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The output of `scaled_dot_product_attention` from one fused kernel, which keeps no weights.

    q: (B, H, T, K)   k, v: (B, H, S, K)   mask: bool, broadcastable to (B, H, T, S), True = may attend, or a Packing
    bias: added to the scores before the softmax, broadcastable to (B, H, T, S)   dropout: on the weights
    returns (B, H, T, K); zeros where the mask forbids every key

    Dao et al. (2022), FlashAttention.
    """
    if isinstance(mask, Packing):
        if bias is not None:
            raise ValueError("a packed batch takes no bias, got both: give a padding mask instead of lengths")
        return mask.attend(q, k, v, dropout)
    scores = (*q.shape[:-1], k.size(-2))
    if mask is not None:
        check_mask(mask, scores)
    if bias is not None:
        check_bias(bias, scores)
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    if mask is not None:
        mask = mask[(None,) * (q.dim() - mask.dim())]  # the kernel wants every axis, of size 1 where nothing differs
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
