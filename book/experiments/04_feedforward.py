"""Chapter 04 over five seeds: what the network adds, what it equals, how far a token reaches, what it costs."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.feedforward import ConvFeedForward, FeedForward, SeparableFeedForward, gelu, gelu_tanh
from encoder.heads import MultiHeadAttention

torch.set_num_threads(1)
SEEDS = list(range(5))
UNITS = [2, 4, 8, 16, 32]


def explained(activation: str, units: int, seed: int) -> float:
    """Share of the variance of x_0 · x_1 that a trained network of this many hidden units explains, on new data."""
    torch.manual_seed(seed)
    bend = {"none": lambda h: h, "relu": F.relu, "gelu": F.gelu}[activation]
    up, down = nn.Linear(4, units), nn.Linear(units, 1)
    optimiser = torch.optim.Adam([*up.parameters(), *down.parameters()], 1e-2)
    for _ in range(600):
        x = torch.randn(256, 4)
        loss = (down(bend(up(x)))[:, 0] - x[:, 0] * x[:, 1]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    x = torch.randn(10_000, 4)
    product = x[:, 0] * x[:, 1]
    with torch.no_grad():
        return 1 - (down(bend(up(x)))[:, 0] - product).square().mean().item() / product.var().item()


def gap_to_convolution(seed: int) -> float:
    """Largest difference between the network and the convolution of width 1 with the same weights, in float64."""
    torch.manual_seed(seed)
    ffn, conv = FeedForward(24, 96).double(), ConvFeedForward(24, 96).double()
    conv.load_state_dict({k: v[..., None] if v.dim() == 2 else v for k, v in ffn.state_dict().items()})
    x = torch.randn(3, 20, 24, dtype=torch.float64)
    return (ffn(x) - conv(x)).abs().max().item()


def reached(f, seed: int, length: int = 21) -> int:
    """How many positions move when the middle token is replaced."""
    torch.manual_seed(seed)
    x = torch.randn(1, length, 16)
    other = x.clone()
    other[0, length // 2] = torch.randn(16)
    with torch.no_grad():
        return int(((f(other) - f(x)).abs().amax((0, 2)) > 1e-6).sum())


def subjects(seed: int) -> dict:
    torch.manual_seed(seed)
    layers = [SeparableFeedForward(16, 64, 3) for _ in range(3)]
    return {
        "feed-forward": FeedForward(16, 64),
        "separable, window 3": layers[0],
        "separable, window 5": SeparableFeedForward(16, 64, 5),
        "three separable, window 3": nn.Sequential(*layers),
        "self-attention": MultiHeadAttention(16, 4),
    }


grid = torch.linspace(-8, 8, 160_001, dtype=torch.float64)
parts = {"attention": MultiHeadAttention(768, 12), "feed-forward": FeedForward(768, 3072)}
save(
    "04_feedforward",
    SEEDS,
    units=UNITS,
    variance_explained={a: [[explained(a, u, s) for u in UNITS] for s in SEEDS] for a in ("none", "relu", "gelu")},
    gap_to_convolution=[gap_to_convolution(s) for s in SEEDS],
    positions_moved={name: [reached(subjects(s)[name], s) for s in SEEDS] for name in subjects(0)},
    gelu_tanh_largest_error=(gelu(grid) - gelu_tanh(grid)).abs().max().item(),
    parameters_bert_base={name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()},
)
