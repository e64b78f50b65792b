"""Chapter 09 over three seeds: the translation learnt, squeezed through one vector, and with a decoder that peeks."""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.seq2seq import Seq2Seq, Seq2SeqConfig, cross_attention_weights, shift_right
from encoder.training import TrainConfig, fit
from encoder.translation import (
    ENGLISH,
    GERMAN,
    draw_numbers,
    exact_match,
    number_batches,
    number_loss,
    number_pairs,
)

SEEDS = [0, 1, 2]
STEPS = 400
CONFIG = Seq2SeqConfig(len(ENGLISH), len(GERMAN))
DIGITS = [3, 4, 5, 6]


class OneVector(Seq2Seq):
    """The same model, but the decoder is handed only the first of the encoder's vectors."""

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        memory, mask = super().encode(source)
        return memory[:, :1], mask[..., :1]


class Recurrent(Seq2Seq):
    """Two GRUs: the last state of the first is all that the second knows of the source. Sutskever et al. (2014)."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__(config)
        self.encoder = nn.GRU(config.d_model, config.d_model, config.n_layers, batch_first=True)
        self.decoder = nn.GRU(config.d_model, config.d_model, config.n_layers, batch_first=True)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        lengths = (source != self.config.pad_id).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.source_embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        return self.encoder(packed)[1], lengths

    def decode(self, target_in: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        return self.output(self.decoder(self.target_embedding(target_in), memory)[0])


class Peeking(Seq2Seq):
    """No causal mask: while it learns, the decoder reads the token that it has to predict."""

    def decode(self, target_in: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        return self.output(self.decoder(self.embed(self.target_embedding, target_in), memory, None, memory_mask))


def trained(kind: type[Seq2Seq], seed: int, steps: int = STEPS) -> tuple[Seq2Seq, list[float]]:
    torch.manual_seed(seed)
    model = kind(CONFIG)
    losses = fit(model, number_loss, number_batches, TrainConfig(steps, lr=3e-3, quiet=True))
    return model.eval(), losses


@torch.no_grad()
def token_accuracy(model: Seq2Seq, numbers: list[int]) -> float:
    """Share of tokens that are right when the tokens before are given: teacher forcing."""
    source, target = number_pairs(numbers)
    right = model(source, shift_right(target, 1)).argmax(-1) == target
    return float(right[target != 0].float().mean())


def aligned(model: Seq2Seq) -> tuple[float, float, float]:
    """Mean weight on the unit and on the ten while saying the unit, and of the ten while saying the ten."""
    source, target = number_pairs([10 * ten + unit for ten in range(2, 10) for unit in range(2, 10)])
    layers = [cross_attention_weights(model, source, shift_right(target, 1), layer) for layer in (0, 1)]
    read = torch.stack(layers).mean((0, 1, 2))  # (T, S)
    return float(read[0, 1]), float(read[0, 0]), float(read[2, 0])


test = draw_numbers(600, torch.Generator().manual_seed(1), test=True)
by_digits = [[n for n in test if len(str(n)) == d] for d in DIGITS]
exact: dict[str, list[float]] = {}
exact_by_digits: dict[str, list[list[float]]] = {}
tokens: dict[str, list[float]] = {}
losses: dict[str, list[list[float]]] = {}
alignment = []
for name, kind in {
    "all vectors": Seq2Seq,
    "one vector": OneVector,
    "GRU, last state": Recurrent,
    "peeking": Peeking,
}.items():
    for seed in SEEDS:
        model, curve = trained(kind, seed)
        exact.setdefault(name, []).append(round(exact_match(model, test), 4))
        exact_by_digits.setdefault(name, []).append([round(exact_match(model, some), 4) for some in by_digits])
        tokens.setdefault(name, []).append(round(token_accuracy(model, test), 4))
        losses.setdefault(name, []).append([round(loss, 4) for loss in curve[9::10]])
        if kind is Seq2Seq:
            alignment.append([round(weight, 3) for weight in aligned(model)])
        print(name, seed, exact[name][-1], tokens[name][-1], flush=True)

save(
    "09_seq2seq",
    SEEDS,
    steps=STEPS,
    test_numbers=len(test),
    digits=DIGITS,
    exact_match=exact,
    exact_match_by_digits=exact_by_digits,
    token_accuracy_teacher_forced=tokens,
    loss_every_10_steps=losses,
    saying_the_unit_reads_unit_and_ten_saying_the_ten_reads_ten=alignment,
)
