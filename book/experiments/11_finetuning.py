"""Chapter 11: one pretrained encoder (MiniLM) put to three tasks: frozen, fine-tuned, and against one never pretrained.

All labels are derived from the packaged Wikipedia summaries: topics as given, names of people and places from titles of
articles, answers by patterns. What is measured is agreement with these labels on articles never trained on.
"""

import random
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.bert import Bert, BertConfig
from encoder.finetuning import (
    SequenceClassifier,
    SpanPredictor,
    TokenClassifier,
    align_labels,
    best_span,
    classification_report,
    entity_report,
    span_loss,
    token_loss,
)
from encoder.onednn import use_onednn
from encoder.pretrained import load_minilm
from encoder.pretraining import IGNORE, Article, split_sentences, wikipedia_summaries
from encoder.training import TrainConfig, fit

SEEDS = [0, 1]
LENGTH, BATCH, TRAIN, TEST = 40, 8, 320, 200
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
Batch = dict[str, Tensor]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def pad(rows: list[list[int]], filler: int) -> Tensor:
    return torch.tensor([(row + [filler] * LENGTH)[:LENGTH] for row in rows])


def encode(tokenizer: Tokenizer, texts: list[Any], **options: Any) -> tuple[Batch, list[Any]]:
    encodings = tokenizer.encode_batch(texts, **options)
    batch = {"ids": pad([e.ids for e in encodings], 0), "segments": pad([e.type_ids for e in encodings], 0)}
    return batch | {"mask": pad([[1] * len(e.ids) for e in encodings], 0).bool()}, encodings


def topics(articles: list[Article], tokenizer: Tokenizer) -> tuple[Batch, list[str]]:
    """The text of an article → its topic."""
    kept = [a for a in articles if a.topic != "Uncategorized"][: TRAIN + TEST]
    names = sorted({a.topic for a in kept})
    batch, _ = encode(tokenizer, [a.text for a in kept])
    return batch | {"labels": torch.tensor([names.index(a.topic) for a in kept])}, names


def names(articles: list[Article], tokenizer: Tokenizer) -> tuple[Batch, list[list[str]]]:
    """Sentences → BIO tags of people and places: every title of an article on one that occurs is a name."""
    common = set(re.findall(r"\b[a-z]\w+\b", " ".join(a.text for a in articles)))
    known: dict[str, list[tuple[list[str], str]]] = {}
    for article in articles:
        kind = {"People": "PER", "Geography": "LOC"}.get(article.topic)
        title = words_of(article.title.split(" (")[0])
        if kind and title[0][0].isupper() and not (len(title) == 1 and title[0].lower() in common):
            known.setdefault(title[0], []).append((title, kind))
    sentences, tags = [], []
    for article in articles:
        words = words_of(split_sentences(article.text)[0]) if article.text.strip() else []
        labels, place = ["O"] * len(words), 0
        while place < len(words):
            found = [(t, k) for t, k in known.get(words[place], []) if words[place : place + len(t)] == t]
            title, kind = max(found, key=lambda pair: len(pair[0]), default=([""], ""))
            if found:
                labels[place : place + len(title)] = [f"B-{kind}"] + [f"I-{kind}"] * (len(title) - 1)
            place += len(title)
        if set(labels) != {"O"} and len(sentences) < TRAIN + TEST:
            sentences.append(words)
            tags.append(labels)
    batch, encodings = encode(tokenizer, sentences, is_pretokenized=True)
    labels = [align_labels(e.word_ids, [TAGS.index(t) for t in row]) for e, row in zip(encodings, tags, strict=True)]
    return batch | {"labels": pad(labels, IGNORE)}, tags


PERSON = re.compile(
    r"^[^.]*? (?:was|is) an? (?P<origin>[A-Z]\w+(?:[- ][A-Z]\w+)*) (?P<work>[a-z][\w ,-]*?)"
    r"(?=\.|;|,? (?:who|whose|known|best|considered|active|from|during|in|of|and (?:a|an|the|one))\b)"
)
PLACE = re.compile(r"^[^.]*? (?:is|was) (?:a|an|the) [^.,]*? in (?P<where>(?:the )?[A-Z]\w+(?:[ -][A-Z]\w+)*)")


def questions(articles: list[Article], tokenizer: Tokenizer) -> tuple[Batch, list[tuple[str, str]]]:
    """(question, sentence) → where the answer starts and ends; two questions are asked of the same sentence."""
    asked: list[tuple[str, str, int, int]] = []
    for article in articles:
        sentence = split_sentences(article.text)[0] if article.text.strip() else ""
        name = article.title.split(" (")[0]
        if article.topic == "People" and (found := PERSON.match(sentence)):
            asked.append((f"Where was {name} from?", sentence, *found.span("origin")))
            asked.append((f"What did {name} do?", sentence, *found.span("work")))
        if article.topic == "Geography" and (found := PLACE.match(sentence)):
            asked.append((f"In what region is {name}?", sentence, *found.span("where")))
    batch, encodings = encode(tokenizer, [(question, sentence) for question, sentence, *_ in asked])
    rows, starts, ends, allowed = [], [], [], []
    for n, (encoding, (_, _, first, last)) in enumerate(zip(encodings, asked, strict=True)):
        start, end = encoding.char_to_token(first, 1), encoding.char_to_token(last - 1, 1)
        if start is not None and end is not None and end < LENGTH - 1:
            rows.append(n)
            starts.append(start)
            ends.append(end)
            allowed.append([int(s == 1) for s in encoding.sequence_ids])
    batch = {name: x[rows] for name, x in batch.items()} | {"starts": torch.tensor(starts), "ends": torch.tensor(ends)}
    batch["allowed"] = pad(allowed, 0).bool() & batch["mask"]
    return {name: x[: TRAIN + TEST] for name, x in batch.items()}, [asked[n][:2] for n in rows[: TRAIN + TEST]]


def loss_of(task: str, scores: Any, batch: Batch) -> Tensor:
    if task == "topics":
        return F.cross_entropy(scores, batch["labels"])
    if task == "names":
        return token_loss(scores, batch["labels"])
    return span_loss(*scores, batch["starts"], batch["ends"], batch["allowed"])


def overlap(predicted: range, true: range) -> tuple[float, float, float]:
    """Precision, recall and F1 of an answer's tokens."""
    shared = len(set(predicted) & set(true))
    return shared / len(predicted), shared / len(true), 2 * shared / (len(predicted) + len(true))


def score(task: str, scores: Any, batch: Batch, extra: Any) -> dict[str, float]:
    if task == "topics":
        row = classification_report(batch["labels"], scores.argmax(-1), extra)
        return row["macro"] | {"accuracy": row["micro"]["f1"]}
    if task == "names":
        counted = batch["labels"] != IGNORE
        tags = [
            [[TAGS[i] for i in row[keep].tolist()] for row, keep in zip(x, counted, strict=True)]
            for x in (batch["labels"], scores.argmax(-1))
        ]
        report = entity_report(*tags)
        return report["micro"] | {kind.lower() + "_f1": report[kind]["f1"] for kind in ("PER", "LOC")}
    starts, ends = best_span(*scores, batch["allowed"])
    spans = zip(starts.tolist(), ends.tolist(), batch["starts"].tolist(), batch["ends"].tolist(), strict=True)
    rows = torch.tensor([(*overlap(range(a, b + 1), range(c, d + 1)), (a, b) == (c, d)) for a, b, c, d in spans])
    return dict(zip(("precision", "recall", "f1", "exact"), rows.mean(0).tolist(), strict=True))


def head_for(task: str, encoder: Bert, n_classes: int) -> nn.Module:
    if task == "topics":
        return SequenceClassifier(encoder, n_classes, dropout=0.0)
    return TokenClassifier(encoder, n_classes, dropout=0.0) if task == "names" else SpanPredictor(encoder)


def part(batch: Batch, rows: Tensor | slice) -> Batch:
    return {name: x[rows] for name, x in batch.items()}


def tune(task: str, encoder: Bert, data: Batch, n_classes: int, steps: int, lr: float, seed: int) -> nn.Module:
    """Fine-tune every weight on the first TRAIN rows."""
    torch.manual_seed(seed)
    model = use_onednn(head_for(task, encoder, n_classes))
    order = torch.cat([torch.randperm(TRAIN) for _ in range(1 + steps * BATCH // TRAIN)])

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return loss_of(task, model(batch["ids"], batch["mask"], batch["segments"]), batch)

    config = TrainConfig(steps, lr, warmup=steps // 10, quiet=True)
    fit(model, loss, lambda step: part(data, order[step * BATCH : (step + 1) * BATCH]), config)
    return model.eval()


@torch.no_grad()
def read(model: Callable[..., Any], data: Batch) -> Any:
    return model(data["ids"], data["mask"], data["segments"])


def probe(task: str, states: Tensor, data: Batch, n_classes: int, seed: int) -> Any:
    """A linear layer on states that never change, trained on the first TRAIN rows; its scores for the others."""
    torch.manual_seed(seed)
    head = nn.Linear(states.size(-1), n_classes)

    def scores(rows: Tensor | slice) -> Any:
        out = head(states[rows])
        return out.unbind(-1) if task == "answers" else out

    def loss(_: nn.Module, batch: Batch) -> Tensor:
        return loss_of(task, scores(batch["rows"]), part(data, batch["rows"]))

    batches = [{"rows": torch.randint(TRAIN, (64,))} for _ in range(300)]
    fit(head, loss, lambda step: batches[step], TrainConfig(300, 1e-2, quiet=True))
    with torch.no_grad():
        return scores(slice(TRAIN, None))


def main() -> None:
    articles = wikipedia_summaries()
    random.Random(0).shuffle(articles)
    minilm, tokenizer = load_minilm()
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTH)
    tasks = {"topics": topics(articles, tokenizer), "names": names(articles, tokenizer)}
    tasks["answers"] = questions(articles, tokenizer)
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    examples = []
    for task, (data, extra) in tasks.items():
        n_classes = len(extra) if task == "topics" else len(TAGS) if task == "names" else 2
        test = part(data, slice(TRAIN, None))
        rows = results[task] = {"from scratch": [], "frozen": [], "fine-tuned": []}
        states = torch.cat([read(minilm, part(data, slice(i, i + 40))) for i in range(0, TRAIN + TEST, 40)])
        frozen = {"frozen": states}
        if task == "topics":  # the vector that the fine-tuned head reads, and the one that MiniLM was trained for
            weight = data["mask"][..., None].float()
            mean = (states * weight).sum(1) / weight.sum(1)
            frozen = {"frozen": minilm.pool(states).detach(), "frozen, mean of tokens": mean}
        small = BertConfig(minilm.config.vocab_size, 96, 2, 4, 384, 64, dropout=0.0)
        for seed in SEEDS:
            for way, vectors in frozen.items():
                scores = probe(task, vectors, data, n_classes, seed)
                rows.setdefault(way, []).append(score(task, scores, test, extra))
            torch.manual_seed(seed)
            model = tune(task, Bert(small), data, n_classes, 100, 2e-3, seed)
            rows["from scratch"].append(score(task, read(model, test), test, extra))
        encoder = Bert(replace(minilm.config, dropout=0.0))
        encoder.load_state_dict(minilm.state_dict())
        model = tune(task, encoder, data, n_classes, 60, 2e-4, 0)
        scores = read(model, test)
        rows["fine-tuned"].append(score(task, scores, test, extra))
        print(task, {way: [round(r["f1"], 3) for r in runs] for way, runs in rows.items()}, flush=True)
        if task == "answers":
            starts, ends = best_span(*scores, test["allowed"])
            for n in range(12):
                found, true = (slice(a, b + 1) for a, b in ((starts[n], ends[n]), (test["starts"][n], test["ends"][n])))
                question, sentence = extra[TRAIN + n]
                answer, label = (tokenizer.decode(test["ids"][n, span].tolist()) for span in (found, true))
                examples.append({"question": question, "sentence": sentence, "answer": answer, "label": label})
    sizes = {task: len(data["ids"]) - TRAIN for task, (data, _) in tasks.items()}
    save("11_finetuning", SEEDS, train=TRAIN, test=sizes, results=results, answers=examples)


if __name__ == "__main__":
    main()
