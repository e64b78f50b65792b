"""Where a token stands: sinusoids, a learned table, a bias by distance, rotation. Chapter 02."""

import math

import torch
from torch import Tensor, nn

from encoder.checks import check_even, check_width


def rotary_angles(length: int, width: int, base: float = 10000.0, device: torch.device | None = None) -> Tensor:
    """θ[t, i] = t · base^(−2i / width): how far position t has turned on wheel i, each wheel slower than the last.

    returns (T, width / 2), float32 at any precision of the model: in bf16 position 257 would be position 256
    """
    check_even(width)
    speed = base ** (-torch.arange(0, width, 2, device=device, dtype=torch.float32) / width)  # (width / 2,)
    return torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed


def sinusoidal_positions(
    length: int,
    d_model: int,
    base: float = 10000.0,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """p[t, 2i] = sin θ[t, i] and p[t, 2i + 1] = cos θ[t, i], with θ from `rotary_angles`. returns (T, D)

    p[t] · p[u] = Σ_i cos((t − u) · base^(−2i / D)) depends on t − u alone.

    Vaswani et al. (2017), section 3.5.
    """
    angles = rotary_angles(length, d_model, base, device)  # (T, D / 2)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).to(dtype)


class LearnedPositions(nn.Module):
    """x[t] + P[t], with P a table of parameters: (B, T, D) → (B, T, D), for T up to max_length.

    Devlin et al. (2018), section 3.
    """

    def __init__(self, max_length: int, d_model: int, std: float = 0.02):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model).normal_(std=std))

    def forward(self, x: Tensor) -> Tensor:
        max_length, d_model = self.weight.shape
        check_width(x, d_model)
        if x.size(1) > max_length:
            raise ValueError(f"positions were made for up to {max_length} tokens, got {x.size(1)}")
        return x + self.weight[: x.size(1)]


def relative_buckets(distance: Tensor, n_buckets: int = 32, max_distance: int = 128) -> Tensor:
    """The bucket of a distance s − t from query t to key s: one each for the near ones, wider and wider for the far.

    Half of the buckets are for s ≤ t, half for s > t. Of the n in each half, the first n / 2 hold |s − t| = 0, 1, 2 …;
    the others grow by a constant factor up to max_distance, and the last also holds all beyond.

    distance: whole numbers, any shape; returns the same shape, 0 … n_buckets − 1

    Raffel et al. (2020), section 2.1 (T5).
    """
    n = n_buckets // 2
    near = n // 2
    if n_buckets < 4 or n_buckets % 2 or max_distance <= near:
        raise ValueError(
            f"expected an even number of buckets from 4 on and max_distance above n_buckets // 4, "
            f"got {n_buckets} and {max_distance}"
        )
    gap = distance.abs()
    steps = torch.log(gap.clamp(min=near) / near) / math.log(max_distance / near)  # 0 at `near`, 1 at max_distance
    far = (near + (steps * (n - near)).long()).clamp(max=n - 1)
    return torch.where(gap < near, gap, far) + n * (distance > 0)


class RelativeBias(nn.Module):
    """b[h, t, s] = w[bucket(s − t), h], to be added to the scores of head h. Returns (1, H, T, S); S = T if not given.

    Raffel et al. (2020), section 2.1 (T5).
    """

    def __init__(self, n_heads: int, n_buckets: int = 32, max_distance: int = 128):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_buckets, n_heads).normal_(std=0.02))
        self.max_distance = max_distance

    def forward(self, length: int, memory_length: int | None = None) -> Tensor:
        memory_length = length if memory_length is None else memory_length
        t = torch.arange(length, device=self.weight.device)
        s = torch.arange(memory_length, device=self.weight.device)
        buckets = relative_buckets(s - t[:, None], self.weight.size(0), self.max_distance)  # (T, S)
        return self.weight[buckets].permute(2, 0, 1)[None]


def apply_rope(x: Tensor, angles: Tensor) -> Tensor:
    """Turns each pair (x[2i], x[2i + 1]) of token t by the angle θ[t, i], so that q[t] · k[u] depends on t − u alone.

    x: (..., T, K)   angles: (T, K / 2), from `rotary_angles(T, K)`   returns (..., T, K)

    Su et al. (2021), RoFormer, section 3.4.
    """
    if angles.shape != (x.size(-2), x.size(-1) // 2) or x.size(-1) % 2:
        raise ValueError(f"x (..., T, K) needs angles (T, K / 2), got {tuple(x.shape)} and {tuple(angles.shape)}")
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
