"""Is it a palindrome? A question that only the two ends together answer, asked at the centre. Chapter 07.

`(a, b, [Q], b, a)` is one, `(a, b, [Q], b, c)` is not. The answer is read at [Q]: each layer carries news `window`
tokens further, so the ends are heard there iff `reach(n_layers, window)` covers the distance; and through a causal mask
never, since half of the tokens lie in the future.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.checks import check_ids, check_one_of
from encoder.positions import LearnedPositions
from encoder.stack import Encoder
from encoder.training import warmup_cosine


def make_palindromes(
    n: int, pairs: int, vocab: int, generator: torch.Generator | None = None, mismatch: str = "random"
) -> tuple[Tensor, Tensor]:
    """n sequences, every second one a palindrome, the others with a single pair that does not match.

    mismatch="random": in any pair. "outer": in the pair farthest from the centre, so that only full reach can tell.

    returns tokens (n, 2·pairs + 1): letters 0 … vocab − 1, and [Q] = vocab at the centre; labels (n,): 1 = palindrome
    """
    check_one_of("mismatch", mismatch, ("random", "outer"))
    if vocab < 2 or pairs < 1:
        raise ValueError(f"expected two letters or more and one pair or more, got vocab={vocab} and pairs={pairs}")
    device = torch.device("cpu") if generator is None else generator.device
    left = torch.randint(vocab, (n, pairs), generator=generator, device=device)
    right = left.flip(1)
    pair = torch.randint(pairs, (n,), generator=generator, device=device)  # counted from the centre
    shift = torch.randint(1, vocab, (n,), generator=generator, device=device)  # to any other letter
    rows = torch.arange(n, device=device)
    labels = rows % 2
    pair = pair if mismatch == "random" else torch.full_like(pair, pairs - 1)
    right[rows, pair] = (right[rows, pair] + shift * (1 - labels)) % vocab
    return torch.cat((left, torch.full_like(left[:, :1], vocab), right), 1), labels


class PalindromeClassifier(nn.Module):
    """Letters and their places, a pre-LN encoder, and the verdict from the centre token: (B, 2·pairs + 1) → (B, 2)."""

    def __init__(
        self,
        pairs: int,
        vocab: int,
        n_layers: int,
        d_model: int = 32,
        n_heads: int = 8,
        d_ff: int = 128,
        std: float = 0.5,
    ):
        super().__init__()
        self.pairs = pairs
        self.letters = nn.Embedding(vocab + 1, d_model)
        nn.init.normal_(self.letters.weight, std=std)
        self.positions = LearnedPositions(2 * pairs + 1, d_model, std)
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff)
        self.verdict = nn.Linear(d_model, 2)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        check_ids(tokens, self.letters.num_embeddings)
        if tokens.size(1) != 2 * self.pairs + 1:
            raise ValueError(f"expected {2 * self.pairs + 1} tokens, {self.pairs} pairs and [Q], got {tokens.size(1)}")
        x = self.positions(self.letters(tokens))  # (B, T, D)
        return self.verdict(self.encoder(x, mask)[:, self.pairs])


def train_palindrome(
    model: PalindromeClassifier, mask: Tensor | None = None, steps: int = 500, lr: float = 2e-3, seed: int = 0
) -> list[float]:
    """Trains on mismatches in any pair and returns the losses; ends early once a loss says that all is learnt.

    A fresh batch of 256 each step, so there is nothing to learn by heart.
    """
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator(model.letters.weight.device).manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses: list[float] = []
    model.train()
    while len(losses) < steps and min(losses, default=1.0) > 1e-3:
        optimizer.param_groups[0]["lr"] = warmup_cosine(len(losses), steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, vocab, generator)
        loss = F.cross_entropy(model(tokens, mask), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def palindrome_accuracy(
    model: PalindromeClassifier, mask: Tensor | None = None, n: int = 4096, seed: int = 99
) -> float:
    """The share of right verdicts where only the outermost pair can differ: 1.0 solved, 0.5 guessed."""
    generator = torch.Generator(model.letters.weight.device).manual_seed(seed)
    tokens, labels = make_palindromes(n, model.pairs, model.letters.num_embeddings - 1, generator, "outer")
    return float((model.eval()(tokens, mask).argmax(1) == labels).float().mean())


def reach(n_layers: int, window: int) -> int:
    """How far news travels: each layer carries it `window` tokens further, so L layers carry it L·w tokens."""
    return n_layers * window


@torch.no_grad()
def sees(model: Callable[[Tensor, Tensor | None], Tensor], tokens: Tensor, mask: Tensor | None = None) -> bool:
    """Whether the centre hears of the last token, found without training: change it, and look at the verdict.

    tokens: (B, 2·pairs + 1). True iff reach(L, w) ≥ pairs and the mask is not causal, for any weights but unlucky ones.
    """
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % tokens.max()  # another letter: [Q], the largest id, counts them
    return not torch.equal(model(tokens, mask), model(changed, mask))
