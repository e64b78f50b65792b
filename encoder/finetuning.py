"""One encoder, many tasks: heads, losses, decoding, and an honest report. Chapter 11."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.bert import BertLike, init_weights
from encoder.pretraining import IGNORE
from encoder.pretraining import token_loss as token_loss  # the loss of a TokenClassifier is that of masked tokens

Scores = dict[str, float]


class SequenceClassifier(nn.Module):
    """One label a text, from the encoder's pooled vector: (B, T) → (B, C)."""

    def __init__(self, encoder: BertLike, n_classes: int, dropout: float = 0.1):
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(encoder.config.d_model, n_classes)
        init_weights(self.classifier)

    def forward(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        pooled = self.encoder.pool(self.encoder(ids, mask, segments))  # (B, D)
        return self.classifier(self.dropout(pooled))


class TokenClassifier(nn.Module):
    """One label a token, as for named entities: (B, T) → (B, T, C)."""

    def __init__(self, encoder: BertLike, n_labels: int, dropout: float = 0.1):
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(encoder.config.d_model, n_labels)
        init_weights(self.classifier)

    def forward(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self.classifier(self.dropout(self.encoder(ids, mask, segments)))


class SpanPredictor(nn.Module):
    """Where the answer starts and where it ends: (B, T) → two scores a token, start (B, T) and end (B, T)."""

    def __init__(self, encoder: BertLike):
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(encoder.config.d_model, 2)
        init_weights(self.classifier)

    def forward(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> tuple[Tensor, Tensor]:
        start, end = self.classifier(self.encoder(ids, mask, segments)).unbind(-1)
        return start, end


def align_labels(word_ids: Sequence[int | None], labels: Sequence[int]) -> list[int]:
    """Labels of words → labels of their pieces: the first piece carries the label, all else is IGNORE.

    word_ids: for each piece the number of its word, None for special tokens, as `tokenizers` gives it
    """
    before = [None, *word_ids]
    return [
        IGNORE if word is None or word == previous else labels[word]
        for previous, word in zip(before, word_ids, strict=False)
    ]


def span_loss(start: Tensor, end: Tensor, starts: Tensor, ends: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Mean of the cross-entropies of the true start and the true end among the allowed tokens.

    start, end: (B, T) scores   starts, ends: (B,) positions   allowed: bool (B, T), default everywhere
    """
    if allowed is not None:
        start, end = (scores.masked_fill(~allowed, -torch.inf) for scores in (start, end))
    return (F.cross_entropy(start, starts) + F.cross_entropy(end, ends)) / 2


def best_span(start: Tensor, end: Tensor, allowed: Tensor | None = None, max_length: int = 30) -> tuple[Tensor, Tensor]:
    """The i ≤ j < i + max_length, both allowed, with the highest start_i + end_j.

    start, end: (B, T) scores   allowed: bool (B, T), default everywhere
    returns (starts, ends), each (B,)
    """
    scores = start[:, :, None] + end[:, None, :]  # (B, T, T)
    distance = torch.arange(end.size(1), device=end.device) - torch.arange(start.size(1), device=start.device)[:, None]
    valid = (distance >= 0) & (distance < max_length)
    if allowed is not None:
        valid = valid & allowed[:, :, None] & allowed[:, None, :]
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best // end.size(1), best % end.size(1)


def entity_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """BIO tags → (type, first, last) of each entity. An I- with no entity of its type before it begins one.

    ["B-PER", "I-PER", "O", "I-LOC"] → [("PER", 0, 1), ("LOC", 3, 3)]
    """
    spans: list[tuple[str, int, int]] = []
    for place, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if prefix not in ("B", "I", "O"):
            raise ValueError(f"expected tags B-…, I-… or O, got {tag!r}")
        if prefix == "I" and spans and spans[-1][0] == kind and spans[-1][2] == place - 1:
            spans[-1] = (kind, spans[-1][1], place)
        elif prefix != "O":
            spans.append((kind, place, place))
    return spans


def precision_recall_f1(correct: float, predicted: float, actual: float) -> Scores:
    """P = correct / predicted, R = correct / actual, F1 = 2PR / (P + R); 0 where nothing is counted."""
    precision = correct / predicted if predicted else 0.0
    recall = correct / actual if actual else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "support": actual}


def summarise(counts: dict[str, tuple[int, int, int]]) -> dict[str, Scores]:
    """{name: (correct, predicted, actual)} → scores of each name, then their micro, macro and weighted averages.

    micro: from the summed counts   macro: the plain mean   weighted: the mean weighted by support
    """
    rows = {name: precision_recall_f1(*count) for name, count in counts.items()}
    support = sum(row["support"] for row in rows.values())
    micro = precision_recall_f1(*(sum(count[i] for count in counts.values()) for i in range(3)))
    macro, weighted = {"support": support}, {"support": support}
    for metric in ("precision", "recall", "f1"):
        macro[metric] = sum(row[metric] for row in rows.values()) / max(1, len(rows))
        weighted[metric] = sum(row[metric] * row["support"] for row in rows.values()) / max(1, support)
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def classification_report(actual: Tensor, predicted: Tensor, names: Sequence[str]) -> dict[str, Scores]:
    """Precision, recall, F1 and support of each class, and their averages, from class numbers of one shape.

    A place whose actual class is IGNORE is not counted.
    """
    if actual.shape != predicted.shape:
        raise ValueError(
            f"expected as many predictions as labels, got {tuple(predicted.shape)} and {tuple(actual.shape)}"
        )
    counted = actual != IGNORE
    actual, predicted = actual[counted], predicted[counted]
    numbers = torch.cat((actual, predicted)).tolist()
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(names):
        wrong = min(numbers) if min(numbers) < 0 else max(numbers)
        raise ValueError(f"expected classes from 0 to {len(names) - 1}, one for each name, got {wrong}")
    counts = {}
    for number, name in enumerate(names):
        is_class, said_so = actual == number, predicted == number
        counts[name] = int((is_class & said_so).sum()), int(said_so.sum()), int(is_class.sum())
    return summarise(counts)


def entity_report(actual: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, Scores]:
    """The report of whole entities, right only if type, first and last token are all right. BIO tags, per sentence."""
    lengths = [list(map(len, tags)) for tags in (actual, predicted)]
    if lengths[0] != lengths[1]:
        raise ValueError(
            f"expected a predicted tag for every actual one, got sentences of {lengths[1]} and {lengths[0]}"
        )
    found = {(n, *span) for n, tags in enumerate(predicted) for span in entity_spans(tags)}
    true = {(n, *span) for n, tags in enumerate(actual) for span in entity_spans(tags)}
    counts = {}
    for kind in sorted({span[1] for span in found | true}):
        said, right = ({span for span in spans if span[1] == kind} for spans in (found, true))
        counts[kind] = len(said & right), len(said), len(right)
    return summarise(counts)


def format_report(report: dict[str, Scores]) -> str:
    """A report as a table, one row a class."""
    width = max(map(len, report))
    lines = [f"{'':{width}}  precision  recall     f1  support"]
    for name, row in report.items():
        lines.append(
            f"{name:{width}}  {row['precision']:9.3f}  {row['recall']:6.3f}  {row['f1']:5.3f}  {row['support']:7.0f}"
        )
    return "\n".join(lines)
