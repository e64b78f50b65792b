"""Many heads: split, attend, merge; how different they are, and how many carry the output. Chapter 03."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.attention import scaled_dot_product_attention
from encoder.checks import check_divisible, check_width
from encoder.packing import Packing, attend


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """(B, T, D) → (B, H, T, K) with K = D / H; head h holds the features h·K … (h+1)·K − 1."""
    check_divisible(x.size(-1), n_heads)
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) → (B, T, H·K), the inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(-2)


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_H) W_O with head_h = Attention(x W_Qʰ, m W_Kʰ, m W_Vʰ).

    x: (B, T, D)   memory m: (B, S, D), default x   mask: bool, broadcastable to (B, H, T, S), True = may attend
    bias: added to the scores, broadcastable to (B, H, T, S)
    returns (B, T, D)

    Vaswani et al. (2017), section 3.2.2.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        check_divisible(d_model, n_heads)
        self.n_heads = n_heads
        self.dropout = dropout
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Packing | None = None,
        memory: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        memory = x if memory is None else memory
        check_width(x, self.q_proj.in_features)
        check_width(memory, self.k_proj.in_features)
        q = split_heads(self.q_proj(x), self.n_heads)  # (B, H, T, K)
        k = split_heads(self.k_proj(memory), self.n_heads)  # (B, H, S, K)
        v = split_heads(self.v_proj(memory), self.n_heads)
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


def inspect_heads(attention: MultiHeadAttention, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """What each head reads, and what it adds to the output: weights (B, H, T, T), contributions (B, H, T, D).

    `attention(x, mask)` is the sum of the contributions over the heads, plus the bias of `out_proj`.
    """
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    w_out = attention.out_proj.weight.unflatten(1, (attention.n_heads, -1))  # (D, H, K): head h has its own K columns
    return weights, torch.einsum("bhtk,dhk->bhtd", heads, w_out)


def diversity_penalty(weights: Tensor) -> Tensor:
    """The mean squared cosine between the attention matrices of two different heads: a number from 0 to 1.

    0: no two heads read the same key for the same query. 1: all heads read alike. With one head: 0.

    weights: (B, H, T, S), from `attention_weights`
    """
    n_heads = weights.size(1)
    flat = F.normalize(weights.flatten(2), dim=-1)  # (B, H, T·S), each of length 1
    cosines = flat @ flat.transpose(1, 2)  # (B, H, H)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)  # (B,)
    return others.mean() / max(1, n_heads * (n_heads - 1))


def effective_heads(contributions: Tensor) -> Tensor:
    """(Σ_h e_h)² / Σ_h e_h² with e_h the energy that head h adds: H when all add alike, 1 when a single one does all.

    contributions: (B, H, T, D), from `inspect_heads`; 0 when nothing is added at all
    """
    energy = contributions.square().sum((0, 2, 3))  # (H,)
    return energy.sum().square() / energy.square().sum().clamp(min=torch.finfo(energy.dtype).tiny)
