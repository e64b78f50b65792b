"""Chapter 01 over ten seeds: variance of q·k, and what the softmax makes of it, scaled and not."""

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

WIDTHS = [4, 16, 64, 256, 1024]
SEEDS = list(range(10))
PAIRS, ROWS, KEYS = 20_000, 1000, 64


def softmax_reacts(scores: torch.Tensor) -> tuple[float, float, float]:
    """Mean top weight, mean entropy, median norm of the softmax's Jacobian."""
    w = scores.softmax(-1)
    squares = w.square().sum(-1)
    norm = (squares - 2 * w.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()  # of diag(w) − w wᵀ
    return w.amax(-1).mean().item(), torch.special.entr(w).sum(-1).mean().item(), norm.median().item()


variance, unscaled, scaled = [], [], []
for seed in SEEDS:
    torch.manual_seed(seed)
    variance.append([(torch.randn(PAIRS, d) * torch.randn(PAIRS, d)).sum(1).var().item() / d for d in WIDTHS])
    scores = [torch.einsum("nd,nsd->ns", torch.randn(ROWS, d), torch.randn(ROWS, KEYS, d)) for d in WIDTHS]
    unscaled.append([softmax_reacts(s) for s in scores])
    scaled.append([softmax_reacts(s / d**0.5) for s, d in zip(scores, WIDTHS, strict=True)])

save(
    "01_attention",
    SEEDS,
    widths=WIDTHS,
    variance_over_width=variance,
    columns=["top weight", "entropy", "Jacobian norm"],
    unscaled=np.array(unscaled).round(6).tolist(),
    scaled=np.array(scaled).round(6).tolist(),
)
