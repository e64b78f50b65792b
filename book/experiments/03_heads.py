"""Chapter 03 over five seeds: what joined heads span, whether they differ, what a penalty does, who is heard."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.attention import scaled_dot_product_attention
from encoder.heads import (
    MultiHeadAttention,
    diversity_penalty,
    effective_heads,
    inspect_heads,
    merge_heads,
    split_heads,
)
from encoder.positions import LearnedPositions

SEEDS = list(range(5))
STRENGTHS = [0.0, 0.1, 1.0]
N_HEADS = [1, 2, 4, 8, 16]
WIDTH, SYMBOLS, LENGTH, HEADS = 32, 8, 12, 8
TEXT = "The old captain looked at the sea and said nothing for a long time, because he had seen this weather before."


@torch.no_grad()
def ranks(n_heads: int, seed: int, width: int = 64, tokens: int = 256) -> tuple[int, int, int]:
    """Rank of one head's output, of all heads joined, and of one head's scores: (T, K), (T, D) and (T, T)."""
    torch.manual_seed(seed)
    m = MultiHeadAttention(width, n_heads).double()
    x = 3 * torch.randn(1, tokens, width, dtype=torch.float64)  # sharp enough that heads are not all near the mean
    q, k, v = (split_heads(layer(x), n_heads) for layer in (m.q_proj, m.k_proj, m.v_proj))
    heads, _ = scaled_dot_product_attention(q, k, v)
    matrices = heads[0, 0], merge_heads(heads)[0], q[0, 0] @ k[0, 0].mT
    one, joined, scores = (int(torch.linalg.matrix_rank(matrix, rtol=1e-9)) for matrix in matrices)
    return one, joined, scores


class Reader(nn.Module):
    """One layer of eight heads that names, for each token, the symbol before it and the symbol after it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.places = LearnedPositions(LENGTH, WIDTH, std=0.5)
        self.attention = MultiHeadAttention(WIDTH, HEADS)
        self.name = nn.Linear(WIDTH, 2 * SYMBOLS)

    def heads(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return inspect_heads(self.attention, self.places(self.embed(ids)))

    def named(self, contributions: Tensor) -> Tensor:
        """(B, H, T, D) → (B, T, 2, V): what is named when the heads add this."""
        return self.name(contributions.sum(1) + self.attention.out_proj.bias).unflatten(-1, (2, SYMBOLS))


def batch(size: int) -> tuple[Tensor, Tensor]:
    """Symbols, and for each but the first and last token its two neighbours."""
    ids = torch.randint(SYMBOLS, (size, LENGTH))
    return ids, torch.stack((ids[:, :-2], ids[:, 2:]), -1)


def train(strength: float, seed: int, steps: int = 400) -> Reader:
    torch.manual_seed(seed)
    model = Reader()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    for _ in range(steps):
        ids, neighbours = batch(64)
        weights, contributions = model.heads(ids)
        named = model.named(contributions)[:, 1:-1]
        loss = F.cross_entropy(named.flatten(0, 2), neighbours.flatten()) + strength * diversity_penalty(weights)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return model


@torch.no_grad()
def examine(model: Reader) -> dict[str, float | list[float]]:
    """Accuracy, likeness of the heads, how many carry the output, and accuracy with only the strongest n heads."""
    ids, neighbours = batch(256)
    weights, contributions = model.heads(ids)

    def accuracy(contributions: Tensor) -> float:
        return (model.named(contributions)[:, 1:-1].argmax(-1) == neighbours).float().mean().item()

    energy = contributions.square().sum((0, 2, 3))
    strongest = energy.argsort(descending=True)
    kept = []
    for n in range(1, HEADS + 1):
        keep = torch.zeros(HEADS).index_fill(0, strongest[:n], 1.0)
        kept.append(accuracy(contributions * keep[:, None, None]))
    levelled = contributions * (energy.mean() / energy).sqrt()[:, None, None]  # every voter the same voice
    return {
        "accuracy": accuracy(contributions),
        "alike": diversity_penalty(weights).item(),
        "effective_heads": effective_heads(contributions).item(),
        "accuracy_of_strongest": kept,
        "accuracy_levelled": accuracy(levelled),
    }


@torch.no_grad()
def real_heads() -> tuple[list[float], list[float], list[list[float]]]:
    """For each layer of MiniLM: likeness of its heads, how many carry its output, each one's share of the energy."""
    from encoder.pretrained import load_minilm

    model, tokenizer = load_minilm()
    model.eval()
    tokenizer.no_padding()
    alike, effective, shares = [], [], []

    def look(attention: nn.Module, args: tuple, _: Tensor) -> None:
        weights, contributions = inspect_heads(attention, args[0])
        energy = contributions.square().sum((0, 2, 3))
        alike.append(diversity_penalty(weights).item())
        effective.append(effective_heads(contributions).item())
        shares.append((energy / energy.sum()).tolist())

    for layer in model.encoder.layers:
        layer.attention.register_forward_hook(look)
    model(torch.tensor([tokenizer.encode(TEXT).ids]))
    return alike, effective, shares


if __name__ == "__main__":
    rank = np.array([[ranks(h, seed) for seed in SEEDS] for h in N_HEADS])  # (number of heads, seeds, 3)
    examined = {strength: [] for strength in STRENGTHS}
    for strength in STRENGTHS:
        for seed in SEEDS:
            model = train(strength, seed)
            torch.manual_seed(1000 + seed)
            examined[strength].append(examine(model))
    alike, effective, shares = real_heads()
    save(
        "03_heads",
        SEEDS,
        n_heads=N_HEADS,
        rank_width=64,
        rank_one_head=rank[..., 0].tolist(),
        rank_joined_heads=rank[..., 1].tolist(),
        rank_scores_of_one_head=rank[..., 2].tolist(),
        heads_trained=HEADS,
        strengths=STRENGTHS,
        **{
            key: [np.round([run[key] for run in examined[strength]], 4).tolist() for strength in STRENGTHS]
            for key in ("accuracy", "alike", "effective_heads", "accuracy_of_strongest", "accuracy_levelled")
        },
        minilm_alike=np.round(alike, 4).tolist(),
        minilm_effective_heads=np.round(effective, 4).tolist(),
        minilm_energy_shares=np.round(shares, 4).tolist(),
    )
