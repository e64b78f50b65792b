"""The position-wise feed-forward network, and what it is beside a convolution. Chapter 04."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.checks import check_one_of, check_width


def gelu(x: Tensor) -> Tensor:
    """x · Φ(x) = x · ½ (1 + erf(x / √2)), with Φ the distribution function of N(0, 1).

    Hendrycks and Gimpel (2016).
    """
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: Tensor) -> Tensor:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³))), GELU without erf; at most 5e-4 away from it."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def fused_gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


# What the modules run: each a fused kernel that equals the formula above.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": fused_gelu_tanh}


class FeedForward(nn.Module):
    """FFN(x) = act(x W₁ + b₁) W₂ + b₂, the same at every position: (..., D) → (..., D).

    Vaswani et al. (2017), section 3.3.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "gelu"):
        super().__init__()
        check_one_of("activation", activation, ACTIVATIONS)
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.down(ACTIVATIONS[self.activation](self.up(x)))


class ConvFeedForward(nn.Module):
    """`FeedForward` as two convolutions of width 1 along the sequence: (B, T, D) → (B, T, D).

    Each weight is FeedForward's with one axis more: (F, D) → (F, D, 1).
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "gelu"):
        super().__init__()
        check_one_of("activation", activation, ACTIVATIONS)
        self.up = nn.Conv1d(d_model, d_ff, 1)
        self.down = nn.Conv1d(d_ff, d_model, 1)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        check_width(x, self.up.in_channels)
        channels_first = x.transpose(1, 2)  # (B, D, T)
        return self.down(ACTIVATIONS[self.activation](self.up(channels_first))).transpose(1, 2)


class SeparableFeedForward(nn.Module):
    """A depthwise convolution, then `FeedForward`: each token also sees (kernel − 1) / 2 neighbours on either side.

    depthwise: mixed[t, d] = Σ_j c[d, j] x[t + j, d], along the sequence, each feature by itself
    pointwise: FFN(mixed), across the features, each position by itself

    x: (B, T, D)   mask: bool (B, 1, 1, T), True = real token; padding is read as zeros, like the ends
    returns (B, T, D)

    Chollet (2017), Xception.
    """

    def __init__(self, d_model: int, d_ff: int, kernel: int = 3, activation: str = "gelu"):
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, so that it has a centre, got {kernel}")
        self.depthwise = nn.Conv1d(d_model, d_model, kernel, padding=kernel // 2, groups=d_model)
        self.pointwise = FeedForward(d_model, d_ff, activation)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        return self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2))
