"""Scaled dot-product attention, written out. Chapter 01."""

import math

import torch
from torch import Tensor

from encoder.checks import check_mask, check_same_width


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
    """How much each query reads from each key: softmax(q kᵀ / √K), over the keys.

    q: (..., T, K)   k: (..., S, K)   mask: bool, broadcastable to (..., T, S), True = may attend
    returns (..., T, S); each row sums to 1, or is all zeros where the mask forbids every key.

    Vaswani et al. (2017), section 3.2.1.
    """
    check_same_width(q, k)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (..., T, S)
    if mask is None:
        return scores.softmax(-1)
    check_mask(mask, scores.shape)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return weights.masked_fill(~mask, 0.0)  # a row of only -inf comes out as NaN: it reads nothing


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Each query's average of the values, weighted by `attention_weights`.

    q: (..., T, K)   k: (..., S, K)   v: (..., S, Kv)   mask: as in `attention_weights`
    returns (output, weights): (..., T, Kv) and (..., T, S)
    """
    weights = attention_weights(q, k, mask)
    return weights @ v, weights  # (..., T, S) @ (..., S, Kv)
