"""Chapter 12: the variants at toy size on a language with one rule; masking, batches, and next sentences."""

import re
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.bert import Bert, BertConfig, BertLike, MaskedLM, parameter_count
from encoder.pretraining import (
    make_nsp_pairs,
    mask_tokens,
    masking_generator,
    split_sentences,
    token_accuracy,
    token_loss,
    wikipedia_summaries,
)
from encoder.variants import Albert, AlbertConfig, Deberta, DebertaConfig, EnhancedMaskDecoder, Roberta, RobertaConfig

SEEDS = [0, 1, 2]
SPECIAL, LETTERS, MASK_ID = 5, 19, 4
LENGTH, LONGER, BATCH, STEPS = 16, 32, 64, 400
PARTNER = torch.randperm(LETTERS, generator=torch.Generator().manual_seed(0))
SIZES = {
    "vocab_size": SPECIAL + LETTERS, "d_model": 32, "n_layers": 3, "n_heads": 4, "d_ff": 64, "max_length": LONGER,
    "dropout": 0.0, "pad_id": 0,
}  # fmt: skip
MODELS = {
    "BERT": lambda: Bert(BertConfig(**SIZES)),
    "shared layers": lambda: Albert(AlbertConfig(**SIZES, d_embedding=32)),
    "ALBERT": lambda: Albert(AlbertConfig(**SIZES, d_embedding=8)),
    "DeBERTa": lambda: Deberta(DebertaConfig(**SIZES, max_distance=8)),
    "DeBERTa + decoder": lambda: EnhancedMaskDecoder(Deberta(DebertaConfig(**SIZES, max_distance=8))),
}


def sentences(n: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """Three free letters; every later one is the partner of the letter three places before it."""
    letters = torch.randint(LETTERS, (n, length), generator=generator)
    for i in range(3, length):
        letters[:, i] = PARTNER[letters[:, i - 3]]
    return letters + SPECIAL


def masked(ids: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    return mask_tokens(ids, MASK_ID, SPECIAL + LETTERS, range(SPECIAL), generator=generator)


def train(encoder: BertLike, seed: int, steps: int = STEPS, batch: int = BATCH, corpus: int = 0, copies=None):
    """A trained MaskedLM and the CPU seconds of a step. corpus: how many sentences there are, 0 = always new ones."""
    generator = torch.Generator().manual_seed(seed)
    model = MaskedLM(encoder)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    known = sentences(corpus, LENGTH, generator) if corpus else None
    start = time.process_time()
    for step in range(steps):
        if known is None:
            inputs, labels = masked(sentences(batch, LENGTH, generator), generator)
        else:
            epoch, place = divmod(step, corpus // batch)
            inputs, labels = (x[place * batch :][:batch] for x in masked(known, masking_generator(seed, epoch, copies)))
        loss = token_loss(model(inputs), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return model.eval(), (time.process_time() - start) / steps


@torch.no_grad()
def accuracy(model: MaskedLM, length: int) -> float:
    generator = torch.Generator().manual_seed(1234)
    inputs, labels = masked(sentences(1000, length, generator), generator)
    return round(token_accuracy(model(inputs), labels), 3)


@torch.no_grad()
def spread_on_masks(encoder: BertLike) -> float:
    """How far the states of a sentence of nothing but [MASK] lie apart: 0 for whoever knows no absolute position."""
    states = encoder(torch.full((1, LENGTH), MASK_ID))
    return float((states - states[:, :1]).norm(dim=-1).max() / states.norm(dim=-1).mean())


def base_parameters() -> dict[str, int]:
    with torch.device("meta"):
        models = {
            "BERT": Bert(BertConfig()), "RoBERTa": Roberta(RobertaConfig()), "ALBERT": Albert(AlbertConfig()),
            "DeBERTa": Deberta(DebertaConfig()), "DeBERTa v3": Deberta(DebertaConfig.v3_base()),
        }  # fmt: skip
        return {name: parameter_count(model) for name, model in models.items()}


def words(text: str) -> set[str]:
    return {w for w in re.findall(r"[a-z]{4,}", text.lower()) if w not in {"that", "this", "with", "from", "which"}}


def next_sentence_by_overlap(seed: int) -> float:
    """Share of next-sentence questions answered by: does the second sentence repeat a word of the first, or not?"""
    documents = [s for s in (split_sentences(a.text) for a in wikipedia_summaries()[::5]) if len(s) > 1]
    pairs = make_nsp_pairs(documents, torch.Generator().manual_seed(seed))
    right = [bool(words(first) & words(second)) != bool(label) for first, second, label in pairs]
    return round(sum(right) / len(right), 3)


def main() -> None:
    torch.set_num_threads(1)
    quality, longer, seconds, spread, parameters = {}, {}, {}, {}, {}
    for name, make in MODELS.items():
        quality[name], longer[name], seconds[name] = [], [], []
        for seed in SEEDS:
            torch.manual_seed(seed)
            encoder = make()
            spread[name] = round(spread_on_masks(encoder), 4)
            parameters[name] = parameter_count(encoder)
            model, step = train(encoder, seed)
            quality[name].append(accuracy(model, LENGTH))
            longer[name].append(accuracy(model, LONGER))
            seconds[name].append(step)
    masking = {}
    for name, copies in {"1 draw": 1, "10 draws": 10, "dynamic": None}.items():
        masking[name] = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            model, _ = train(MODELS["DeBERTa"](), seed, corpus=128, copies=copies)
            masking[name].append(accuracy(model, LENGTH))
    batches = {}
    for batch in (16, 64, 256):
        batches[str(batch)] = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            model, _ = train(MODELS["BERT"](), seed, steps=STEPS * BATCH // batch, batch=batch)
            batches[str(batch)].append(accuracy(model, LENGTH))
    save(
        "12_variants",
        SEEDS,
        base_parameters=base_parameters(),
        toy_parameters=parameters,
        accuracy=quality,
        accuracy_at_double_length=longer,
        step_time_over_bert={n: round(min(s) / min(seconds["BERT"]), 2) for n, s in seconds.items()},
        spread_on_masks=spread,
        masking_accuracy=masking,
        batch_accuracy=batches,
        sentences_seen_in_batches=STEPS * BATCH,
        next_sentence_by_overlap=[next_sentence_by_overlap(seed) for seed in SEEDS],
    )


if __name__ == "__main__":
    main()
