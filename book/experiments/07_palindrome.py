"""Chapter 07: who solves the palindrome, over layers, windows and seeds, causal or not; other recipes; the probe."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.masks import causal_mask, combine_masks, window_mask
from encoder.palindrome import (
    PalindromeClassifier,
    make_palindromes,
    palindrome_accuracy,
    reach,
    sees,
    train_palindrome,
)
from encoder.stack import Encoder

torch.set_num_threads(1)
VOCAB = 4
GRIDS = {2: ((1, 2), (1, 2), range(4)), 3: ((1, 2, 3), (1, 2, 3), range(2))}  # pairs: layers, windows, seeds
RECIPES = {"post-LN": {"norm_first": False}, "two heads": {"n_heads": 2}, "twice the rate": {"lr": 4e-3}}


def trained(
    pairs: int,
    n_layers: int,
    mask: torch.Tensor,
    seed: int,
    n_heads: int = 8,
    norm_first: bool = True,
    lr: float = 2e-3,
) -> dict[str, float]:
    torch.manual_seed(seed)
    model = PalindromeClassifier(pairs, VOCAB, n_layers, n_heads=n_heads)
    if not norm_first:
        model.encoder = Encoder(n_layers, 32, n_heads, 128, norm_first=False)
    losses = train_palindrome(model, mask, lr=lr, seed=seed)
    return {"accuracy": round(palindrome_accuracy(model, mask), 4), "loss": round(losses[-1], 4), "steps": len(losses)}


runs = []
for pairs, (layers, windows, seeds) in GRIDS.items():
    length = 2 * pairs + 1
    for seed in seeds:
        for n_layers in layers:
            for window in windows:
                outcome = trained(pairs, n_layers, window_mask(length, window), seed)
                runs.append(
                    {"pairs": pairs, "layers": n_layers, "window": window, "causal": False, "seed": seed} | outcome
                )
        outcome = trained(pairs, max(layers), causal_mask(length), seed)
        runs.append({"pairs": pairs, "layers": max(layers), "window": length, "causal": True, "seed": seed} | outcome)

pairs, (layers, windows, seeds) = 3, GRIDS[3]
within = [(n, w) for n in layers for w in windows if reach(n, w) >= pairs]
other_recipes = {
    name: [
        trained(pairs, n, window_mask(2 * pairs + 1, w), seed, **change)["accuracy"]
        for seed in seeds
        for n, w in within
    ]
    for name, change in RECIPES.items()
}

probes = agreed = 0
torch.manual_seed(0)
for pairs in (1, 2, 3, 4):
    tokens, _ = make_palindromes(8, pairs, VOCAB)
    for n_layers in (1, 2, 3, 4):
        model = PalindromeClassifier(pairs, VOCAB, n_layers).eval()
        for window in range(5):
            for causal in (False, True):
                mask = combine_masks(window_mask(2 * pairs + 1, window), causal_mask(2 * pairs + 1) if causal else None)
                probes += 1
                agreed += sees(model, tokens, mask) == (reach(n_layers, window) >= pairs and not causal)

solvable = [r["accuracy"] for r in runs if not r["causal"] and r["layers"] * r["window"] >= r["pairs"]]
too_far = [r["accuracy"] for r in runs if not r["causal"] and r["layers"] * r["window"] < r["pairs"]]
causal = [r["accuracy"] for r in runs if r["causal"]]
save(
    "07_palindrome",
    sorted({r["seed"] for r in runs}),
    runs=runs,
    runs_within_reach=len(solvable),
    lowest_accuracy_within_reach=min(solvable),
    runs_beyond_reach=len(too_far),
    highest_accuracy_beyond_reach=max(too_far),
    causal_runs=len(causal),
    causal_accuracy_lowest=min(causal),
    causal_accuracy_highest=max(causal),
    causal_loss_lowest=min(r["loss"] for r in runs if r["causal"]),
    accuracy_within_reach_by_other_recipes=other_recipes,
    probes=probes,
    probes_that_agree_with_the_rule=agreed,
)
