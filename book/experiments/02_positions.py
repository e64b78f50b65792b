"""Chapter 02 over five seeds: what sees order, what p_t · p_u depends on, which positions carry over to new lengths."""

import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.positions import LearnedPositions, RelativeBias, apply_rope, rotary_angles, sinusoidal_positions
from encoder.stack import Encoder

SEEDS = list(range(5))
WAYS = ["none", "sinusoid", "learned", "bias to 64", "bias to 16", "rotation"]
WIDTH, SYMBOLS, LONGEST_TRAINED = 32, 8, 16
LENGTHS = [8, 16, 24, 32, 48, 64]


class Reader(nn.Module):
    """One attention layer that sees positions in one of these ways; for each token it names a symbol."""

    def __init__(self, way: str):
        super().__init__()
        self.way = way
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.name = nn.Linear(WIDTH, SYMBOLS)
        self.table = LearnedPositions(max(LENGTHS), WIDTH, std=1.0) if way == "learned" else None
        self.bias = RelativeBias(1, 32, max_distance=int(way[-2:])) if way.startswith("bias") else None

    def weights_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        length = x.size(1)
        if self.way == "sinusoid":
            x = x + sinusoidal_positions(length, WIDTH)
        if self.table is not None:
            x = self.table(x)
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        if self.way == "rotation":
            angles = rotary_angles(length, WIDTH)
            q, k = apply_rope(q, angles), apply_rope(k, angles)
        scores = q @ k.mT / math.sqrt(WIDTH)
        if self.bias is not None:
            scores = scores + self.bias(length)[:, 0]
        return scores.softmax(-1), v

    def attend(self, x: Tensor) -> Tensor:
        weights, v = self.weights_and_values(x)
        return weights @ v

    def forward(self, ids: Tensor) -> Tensor:
        return self.name(self.attend(self.embed(ids)))


def accuracy(model: Reader, length: int) -> float:
    """How often the symbol one place to the left is named, over fresh sequences."""
    ids = torch.randint(SYMBOLS, (256, length))
    return (model(ids)[:, 1:].argmax(-1) == ids[:, :-1]).float().mean().item()


def weight_on_left(model: Reader, length: int) -> float:
    """The mean weight that a token gives its left neighbour, the only one worth reading."""
    weights, _ = model.weights_and_values(model.embed(torch.randint(SYMBOLS, (64, length))))
    return weights.diagonal(-1, 1, 2).mean().item()


def train(way: str, seed: int, steps: int = 600) -> Reader:
    """Name the symbol one place to the left, on lengths 4 … LONGEST_TRAINED."""
    torch.manual_seed(seed)
    model = Reader(way)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    for _ in range(steps):
        ids = torch.randint(SYMBOLS, (64, int(torch.randint(4, LONGEST_TRAINED + 1, ()))))
        loss = F.cross_entropy(model(ids)[:, 1:].flatten(0, 1), ids[:, :-1].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return model


@torch.no_grad()
def order_seen(way: str, seed: int) -> tuple[float, float]:
    """Before training: the equivariance error of one layer, and the gap between man-bites-dog and dog-bites-man."""
    torch.manual_seed(seed)
    model, x, order = Reader(way), torch.randn(4, 6, WIDTH), torch.tensor([3, 0, 5, 2, 4, 1])
    error = (model.attend(x[:, order]) - model.attend(x)[:, order]).abs().max().item()
    a, b = (model.attend(model.embed(torch.tensor([ids]))).mean(1) for ids in ([0, 1, 2], [2, 1, 0]))
    return error, (a - b).norm().item()


@torch.no_grad()
def stack_seen(seed: int) -> tuple[float, float]:
    """The same for a whole encoder of four layers, without and with sinusoids: largest change of the mean vector."""
    torch.manual_seed(seed)
    encoder, x, order = Encoder(4, WIDTH, 4, 64).eval(), torch.randn(4, 6, WIDTH), torch.tensor([3, 0, 5, 2, 4, 1])
    p = sinusoidal_positions(6, WIDTH)
    plain = (encoder(x[:, order]).mean(1) - encoder(x).mean(1)).abs().max().item()
    placed = (encoder(x[:, order] + p).mean(1) - encoder(x + p).mean(1)).abs().max().item()
    return plain, placed


def along_diagonals(scores: np.ndarray) -> float:
    """The share of the variance of scores that distance does not explain: 0 when they depend on t − u alone."""
    length = len(scores)
    lines = [scores.diagonal(gap) for gap in range(1 - length, length)]
    return float(sum(((line - line.mean()) ** 2).sum() for line in lines) / ((scores - scores.mean()) ** 2).sum())


def unexplained(seed: int) -> tuple[float, float]:
    """That share for p_t · p_u, and for p_t M p_u with M = W_q W_kᵀ drawn at random, as in a fresh layer."""
    p = sinusoidal_positions(64, WIDTH).double().numpy()
    w_q, w_k = np.random.default_rng(seed).normal(size=(2, WIDTH, WIDTH)) / math.sqrt(WIDTH)
    return along_diagonals(p @ p.T), along_diagonals(p @ w_q @ w_k.T @ p.T)


def trained_unexplained(model: Reader, length: int = 64) -> float:
    """That share for the positional part of the scores of a trained layer."""
    p = sinusoidal_positions(length, WIDTH)
    scores = (p @ model.q_proj.weight.mT) @ (p @ model.k_proj.weight.mT).mT
    return along_diagonals(scores.detach().double().numpy())


if __name__ == "__main__":
    models = {way: [train(way, seed) for seed in SEEDS] for way in WAYS}
    torch.manual_seed(100)
    with torch.no_grad():
        carried = {way: [[accuracy(m, n) for n in LENGTHS] for m in models[way]] for way in WAYS}
        focus = {way: [[weight_on_left(m, n) for n in LENGTHS] for m in models[way]] for way in WAYS}
    seen = {way: [order_seen(way, seed) for seed in SEEDS] for way in WAYS}
    stacks, shares = [stack_seen(seed) for seed in SEEDS], [unexplained(seed) for seed in SEEDS]
    save(
        "02_positions",
        SEEDS,
        equivariance_error={way: [error for error, _ in seen[way]] for way in WAYS},
        man_bites_dog_gap={way: [gap for _, gap in seen[way]] for way in WAYS},
        stack_mean_change={"none": [a for a, _ in stacks], "sinusoid": [b for _, b in stacks]},
        share_not_explained_by_distance={
            "p_t · p_u": [a for a, _ in shares],
            "random projections": [b for _, b in shares],
            "trained projections": [trained_unexplained(m) for m in models["sinusoid"]],
        },
        longest_trained=LONGEST_TRAINED,
        chance=1 / SYMBOLS,
        lengths=LENGTHS,
        accuracy={way: np.round(carried[way], 4).tolist() for way in WAYS},
        weight_on_left_neighbour={way: np.round(focus[way], 4).tolist() for way in WAYS},
    )
