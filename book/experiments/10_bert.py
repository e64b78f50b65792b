"""Chapter 10: a small BERT reads Wikipedia summaries; what it learns, and what tying its two tables of words changes.

Writes results/10_bert.json and the weights that the chapter loads, results/10_bert.safetensors (half precision).
"""

import json
import random
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import RESULTS, save

from encoder.bert import BertConfig, BertForPretraining, encode_pairs, parameter_count, train_wordpiece
from encoder.onednn import use_onednn
from encoder.pretraining import IGNORE, MaskedBatches, make_nsp_pairs, split_sentences, wikipedia_summaries
from encoder.training import TrainConfig, fit

CONFIG = BertConfig(vocab_size=2000, d_model=96, n_layers=2, n_heads=4, d_ff=384, max_length=64, dropout=0.0)
BATCH, LENGTH, STEPS, SHORT = 32, 40, 4000, 150
SEEDS = [0, 1]
QUIZ = [
    "he was an american [MASK] .",
    "he was a [MASK] philosopher .",
    "he was king of [MASK] .",
    "it is the largest city in the united [MASK] .",
    "it is the capital [MASK] of the country .",
    "it is a [MASK] in africa .",
    "he is [MASK] known for his work .",
    "[MASK] was born in paris .",
]


class Untied(BertForPretraining):
    """The same with a second table of words for the output, trained on its own."""

    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.table = nn.Parameter(0.1 * torch.randn_like(self.encoder.table()))


def masked_logits(model: BertForPretraining, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of the words at the chosen places (only those are paid for), their labels, scores of the next sentence."""
    hidden = model.encoder(batch["ids"], batch["mask"], batch["segments"])
    chosen = batch["labels"] != IGNORE
    table = model.table if isinstance(model, Untied) else model.encoder.table()
    return model.mlm(hidden[chosen], table), batch["labels"][chosen], model.nsp(model.encoder.pool(hidden))


def step_loss(model: BertForPretraining, batch: dict[str, Tensor]) -> Tensor:
    logits, labels, follows = masked_logits(model, batch)
    return F.cross_entropy(logits, labels) + F.cross_entropy(follows, batch["not_next"])


@torch.no_grad()
def examine(model: BertForPretraining, batches: MaskedBatches, n: int) -> dict[str, float]:
    """Held-out loss and accuracy; accuracy by what was shown at the place: [MASK], another word, the word itself."""
    model.eval()
    total, right, next_right, texts = 0.0, [], 0, 0
    for step in range(n):
        batch = batches(step)
        logits, labels, follows = masked_logits(model, batch)
        shown = batch["ids"][batch["labels"] != IGNORE]
        kind = torch.where(shown == batches.mask_id, 0, torch.where(shown == labels, 2, 1))
        total += F.cross_entropy(logits, labels, reduction="sum").item()
        right.append(torch.stack([logits.argmax(-1) == labels, kind]))
        next_right += int((follows.argmax(-1) == batch["not_next"]).sum())
        texts += len(batch["not_next"])
    hit, kind = torch.cat(right, 1)
    by_kind = [hit[kind == k].float().mean().item() for k in range(3)]
    return {
        "mlm_loss": total / hit.numel(),
        "mlm_accuracy": hit.float().mean().item(),
        "accuracy_shown_mask": by_kind[0],
        "accuracy_shown_other": by_kind[1],
        "accuracy_shown_itself": by_kind[2],
        "nsp_accuracy": next_right / texts,
        "words": hit.numel(),
        "texts": texts,
    }


def pretrain(
    kind: type[BertForPretraining], seed: int, steps: int, clip: float | None, batches: MaskedBatches
) -> tuple[BertForPretraining, list[float], list[float]]:
    """A trained model, its losses, and the norm of the gradient at each step."""
    torch.manual_seed(seed)
    model = kind(CONFIG)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):  # BERT's 0.02 suits a width of 768; here 1/√96 ≈ 0.1
            nn.init.normal_(module.weight, std=0.1)
    model = use_onednn(model)
    norms: list[float] = []

    def watch(step: int, loss: float) -> None:
        norms.append(sum(p.grad.square().sum().item() for p in model.parameters()) ** 0.5)

    losses = fit(model, step_loss, batches, TrainConfig(steps, 2e-3, 50, clip=clip, quiet=True), on_step=watch)
    return model, losses, norms


articles = wikipedia_summaries()
random.Random(0).shuffle(articles)
lives_and_places = [a for a in articles if a.topic in ("People", "Geography")]  # a small model needs a small world
documents = [d for d in (split_sentences(a.text)[:4] for a in lives_and_places) if len(d) > 1]
tokenizer = train_wordpiece((s for d in documents for s in d), CONFIG.vocab_size)
draw = torch.Generator().manual_seed(0)
held_out = make_nsp_pairs(documents[:200], draw)
pairs = make_nsp_pairs(documents[200:], draw)
train = MaskedBatches(tokenizer, pairs, BATCH, LENGTH)
test = MaskedBatches(tokenizer, held_out, BATCH, LENGTH, seed=1)

counts = torch.bincount(train.ids[train.mask], minlength=CONFIG.vocab_size).float()
counts[torch.tensor(train.special_ids)] = 0
unigram = (counts / counts.sum()).clamp(min=1e-9).log()
hidden_words = torch.cat([test(step)["labels"].flatten() for step in range(test.per_epoch)])
hidden_words = hidden_words[hidden_words != IGNORE]

model, losses, _ = pretrain(BertForPretraining, 0, STEPS, 1.0, train)
model.load_state_dict({name: x.half().float() for name, x in model.state_dict().items()})  # as the chapter loads it
result = examine(model, test, test.per_epoch)
filled = []
for text in QUIZ:
    ids, mask, segments = encode_pairs(tokenizer, [(text, None)])
    logits = model(ids, mask, segments)[0][0, ids[0] == tokenizer.token_to_id("[MASK]")][0]
    top = logits.softmax(-1).topk(5)
    words = [tokenizer.id_to_token(i) for i in top.indices.tolist()]
    filled.append({"text": text, "words": words, "shares": [round(p, 3) for p in top.values.tolist()]})
    print(text, words, flush=True)

print(result, flush=True)
vocabulary = json.dumps(sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get), ensure_ascii=False)
save_file(
    {name: x.half().contiguous() for name, x in model.state_dict().items()},
    RESULTS / "10_bert.safetensors",
    metadata={"vocabulary": vocabulary},
)
tied_or_not: dict[str, list] = {"tied": [], "untied": []}
for seed in SEEDS:
    for name, kind in (("tied", BertForPretraining), ("untied", Untied)):
        batches = MaskedBatches(tokenizer, pairs[: SHORT * BATCH], BATCH, LENGTH, seed=seed)
        other, _, norms = pretrain(kind, seed, SHORT, None, batches)
        short = examine(other, test, 8)
        tied_or_not[name].append(
            {
                "held_out_loss": short["mlm_loss"],
                "largest_gradient": max(norms),
                "parameters": parameter_count(other),
            }
        )
        print(name, seed, tied_or_not[name][-1], flush=True)

save(
    "10_bert",
    SEEDS,
    steps=STEPS,
    batch=BATCH,
    parameters=parameter_count(model),
    training_pairs=len(pairs),
    loss_every_10=[round(sum(losses[i : i + 10]) / 10, 4) for i in range(0, STEPS, 10)],
    held_out=result,
    unigram={
        "loss": -unigram[hidden_words].mean().item(),
        "accuracy": (hidden_words == counts.argmax()).float().mean().item(),
        "word": tokenizer.id_to_token(int(counts.argmax())),
    },
    filled=filled,
    tied_or_not=tied_or_not,
)
