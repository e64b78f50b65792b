"""Assignment 11: wrong versions that learners really write, each with what a tutor would say, and right ones in other styles."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from encoder.finetuning import precision_recall_f1
from encoder.pretraining import IGNORE

# --- align_labels --------------------------------------------------------------------------------------------------


def align_labels__every_piece(word_ids, labels):
    """Every piece of a word carries its label, so long words count several times. Only the first piece does; the others are IGNORE."""
    return [IGNORE if word is None else labels[word] for word in word_ids]


def align_labels__rest_is_outside(word_ids, labels):
    """You fill continuation pieces with 0, the label O. That teaches that the ends of names are no names: fill with IGNORE."""
    before = [None, *word_ids]
    return [IGNORE if w is None else 0 if w == p else labels[w] for p, w in zip(before, word_ids, strict=False)]


def align_labels__padding_is_outside(word_ids, labels):
    """Special tokens and padding have the label 0, O. The model is then praised for padding: they must be IGNORE."""
    before = [None, *word_ids]
    return [0 if w is None else IGNORE if w == p else labels[w] for p, w in zip(before, word_ids, strict=False)]


def align_labels__words_in_a_row(word_ids, labels):
    """You lay the words' labels on the first pieces one after the other and fill up with 0. They slip: [CLS] takes the first one, and each long word shifts the rest."""
    return (list(labels) + [0] * len(word_ids))[: len(word_ids)]


def align_labels__last_piece(word_ids, labels):
    """The last piece of each word carries the label. Compare each piece with the one before it, not with the one after it."""
    after = [*word_ids[1:], None]
    return [IGNORE if w is None or w == n else labels[w] for w, n in zip(word_ids, after, strict=True)]


def align_labels__zero_is_nothing(word_ids, labels):
    """The first word never gets its label: its number is 0, and `if word` takes 0 for nothing. Ask `word is None`."""
    before = [None, *word_ids]
    return [labels[w] if w and w != p else IGNORE for p, w in zip(before, word_ids, strict=False)]


def align_labels__counts_words_itself(word_ids, labels):
    """You count the words yourself and hand out labels in order. When the text was cut, words are missing: the number in word_ids says which label it is."""
    out, n = [], -1
    for place, word in enumerate(word_ids):
        if word is None or (place and word == word_ids[place - 1]):
            out.append(IGNORE)
        else:
            n += 1
            out.append(labels[n])
    return out


def align_labels__special_tokens_dropped(word_ids, labels):
    """Your list is shorter than the pieces: places without a word were left out. They need the label IGNORE, or everything after them slips."""
    before = [None, *word_ids]
    return [IGNORE if w == p else labels[w] for p, w in zip(before, word_ids, strict=False) if w is not None]


def align_labels__continuations_only(word_ids, labels):
    """You label the pieces that continue a word and ignore the first. It is the other way round."""
    before = [None, *word_ids]
    return [labels[w] if w is not None and w == p else IGNORE for p, w in zip(before, word_ids, strict=False)]


def align_labels__next_word(word_ids, labels):
    """Each word carries the label of the word after it: your index is off by one."""
    before, shifted = [None, *word_ids], [*labels[1:], IGNORE]
    return [IGNORE if w is None or w == p else shifted[w] for p, w in zip(before, word_ids, strict=False)]


def align_labels__looks_around_the_end(word_ids, labels):
    """At the first piece you look back to index −1, which is the last piece. When both belong to the same word it loses its label: the first piece has nothing before it."""
    return [IGNORE if word is None or word == word_ids[i - 1] else labels[word] for i, word in enumerate(word_ids)]


def align_labels__only_single_pieces(word_ids, labels):
    """Words of several pieces get no label at all. Their first piece carries it."""
    words = list(word_ids)
    return [IGNORE if w is None or words.count(w) > 1 else labels[w] for w in words]


def align_labels__first_always_skipped(word_ids, labels):
    """You take the first place for [CLS] and the last for [SEP] whatever stands there. `word_ids` says which places have no word."""
    out = [IGNORE if w is None or w == p else labels[w] for p, w in zip([None, *word_ids], word_ids, strict=False)]
    if out:
        out[0] = out[-1] = IGNORE
    return out


def align_labels__labels_by_place(word_ids, labels):
    """You index the labels by the place of the piece, not by the number of its word."""
    return [
        IGNORE if w is None or w == p else labels[min(i, len(labels) - 1)]
        for i, (p, w) in enumerate(zip([None, *word_ids], word_ids, strict=False))
    ]


def align_labels__right__loop(word_ids, labels):
    out, previous = [], None
    for word in word_ids:
        if word is None:
            out.append(IGNORE)
        elif word != previous:
            out.append(labels[word])
        else:
            out.append(IGNORE)
        previous = word
    return out


def align_labels__right__set_of_seen_words(word_ids, labels):
    out, seen = [], set()
    for word in word_ids:
        out.append(IGNORE if word is None or word in seen else labels[word])
        seen.add(word)
    return out


def align_labels__right__fill_in(word_ids, labels):
    out = [IGNORE] * len(word_ids)
    for word, label in enumerate(labels):
        if word in word_ids:
            out[word_ids.index(word)] = label
    return out


# --- best_span -----------------------------------------------------------------------------------------------------


def best_span__one_by_one(start, end, allowed=None, max_length=30):
    """You take the best start and the best end on their own, so an answer may end before it starts. Score the pairs, and choose among the valid ones."""
    if allowed is not None:
        start, end = start.masked_fill(~allowed, -torch.inf), end.masked_fill(~allowed, -torch.inf)
    return start.argmax(1), end.argmax(1)


def best_span__start_first(start, end, allowed=None, max_length=30):
    """You fix the best start and then look for an end. A slightly worse start with a much better end may win: compare all pairs."""
    T = start.size(1)
    if allowed is not None:
        start, end = start.masked_fill(~allowed, -torch.inf), end.masked_fill(~allowed, -torch.inf)
    starts = start.argmax(1)
    distance = torch.arange(T, device=start.device) - starts[:, None]
    return starts, end.masked_fill((distance < 0) | (distance >= max_length), -torch.inf).argmax(1)


def best_span__one_token_forbidden(start, end, allowed=None, max_length=30):
    """You ask for i < j, so no answer can be a single token. An answer of one token starts and ends at the same place: i ≤ j."""
    T = start.size(1)
    scores = start[:, :, None] + end[:, None, :]
    distance = torch.arange(T, device=start.device) - torch.arange(T, device=start.device)[:, None]
    valid = (distance > 0) & (distance < max_length)
    if allowed is not None:
        valid = valid & allowed[:, :, None] & allowed[:, None, :]
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best // T, best % T


def best_span__one_too_long(start, end, allowed=None, max_length=30):
    """Your longest answer has max_length + 1 tokens. From i to j there are j − i + 1 tokens, so j − i must stay below max_length."""
    T = start.size(1)
    scores = start[:, :, None] + end[:, None, :]
    distance = torch.arange(T, device=start.device) - torch.arange(T, device=start.device)[:, None]
    valid = (distance >= 0) & (distance <= max_length)
    if allowed is not None:
        valid = valid & allowed[:, :, None] & allowed[:, None, :]
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best // T, best % T


def best_span__any_length(start, end, allowed=None, max_length=30):
    """`max_length` has no effect: your answers may be as long as the text. Forbid pairs with j − i ≥ max_length."""
    T = start.size(1)
    scores = start[:, :, None] + end[:, None, :]
    valid = torch.ones(T, T, dtype=torch.bool, device=start.device).triu()
    if allowed is not None:
        valid = valid & allowed[:, :, None] & allowed[:, None, :]
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best // T, best % T


def best_span__allowed_ignored(start, end, allowed=None, max_length=30):
    """Answers are taken from the question or the padding: `allowed` has no effect. Both ends of a pair must be allowed."""
    T = start.size(1)
    scores = start[:, :, None] + end[:, None, :]
    distance = torch.arange(T, device=start.device) - torch.arange(T, device=start.device)[:, None]
    best = scores.masked_fill((distance < 0) | (distance >= max_length), -torch.inf).flatten(1).argmax(1)
    return best // T, best % T


def best_span__only_start_allowed(start, end, allowed=None, max_length=30):
    """Only the start of your answer has to be allowed; its end may lie in padding or [SEP]. Check both."""
    T = start.size(1)
    scores = start[:, :, None] + end[:, None, :]
    distance = torch.arange(T, device=start.device) - torch.arange(T, device=start.device)[:, None]
    valid = (distance >= 0) & (distance < max_length)
    if allowed is not None:
        valid = valid & allowed[:, :, None]
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best // T, best % T


def best_span__allowed_inverted(start, end, allowed=None, max_length=30):
    """You answer only with tokens that are not allowed: the mask is read the wrong way round. True means allowed."""
    T = start.size(1)
    scores = start[:, :, None] + end[:, None, :]
    distance = torch.arange(T, device=start.device) - torch.arange(T, device=start.device)[:, None]
    valid = (distance >= 0) & (distance < max_length)
    if allowed is not None:
        valid = valid & ~allowed[:, :, None] & ~allowed[:, None, :]
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best // T, best % T


def best_span__product_of_scores(start, end, allowed=None, max_length=30):
    """You multiply the two scores; two bad, negative ones then make a good pair. Scores are logarithms, up to a constant: add them."""
    T = start.size(1)
    scores = start[:, :, None] * end[:, None, :]
    distance = torch.arange(T, device=start.device) - torch.arange(T, device=start.device)[:, None]
    valid = (distance >= 0) & (distance < max_length)
    if allowed is not None:
        valid = valid & allowed[:, :, None] & allowed[:, None, :]
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best // T, best % T


def best_span__forbidden_with_zero(start, end, allowed=None, max_length=30):
    """Forbidden pairs get the score 0, which beats every negative score. Give them −∞."""
    T = start.size(1)
    scores = start[:, :, None] + end[:, None, :]
    distance = torch.arange(T, device=start.device) - torch.arange(T, device=start.device)[:, None]
    valid = (distance >= 0) & (distance < max_length)
    if allowed is not None:
        valid = valid & allowed[:, :, None] & allowed[:, None, :]
    best = (scores * valid).flatten(1).argmax(1)
    return best // T, best % T


def best_span__row_and_column_swapped(start, end, allowed=None, max_length=30):
    """You return (ends, starts): the row of the table is the start and the column the end."""
    T = start.size(1)
    scores = start[:, :, None] + end[:, None, :]
    distance = torch.arange(T, device=start.device) - torch.arange(T, device=start.device)[:, None]
    valid = (distance >= 0) & (distance < max_length)
    if allowed is not None:
        valid = valid & allowed[:, :, None] & allowed[:, None, :]
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best % T, best // T


def best_span__probabilities_added(start, end, allowed=None, max_length=30):
    """You turn the scores into probabilities and add those. Scores are logarithms: adding them multiplies the probabilities, adding probabilities does not."""
    scores = start.softmax(1)[:, :, None] + end.softmax(1)[:, None, :]
    place = torch.arange(end.size(1))
    valid = (place >= place[:, None]) & (place < place[:, None] + max_length)
    if allowed is not None:
        valid = valid & allowed[:, :, None] & allowed[:, None, :]
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best // end.size(1), best % end.size(1)


def best_span__whole_span_allowed(start, end, allowed=None, max_length=30):
    """You ask that every token between the two is allowed. Only the two ends have to be."""
    scores = start[:, :, None] + end[:, None, :]
    place = torch.arange(end.size(1))
    valid = (place >= place[:, None]) & (place < place[:, None] + max_length)
    if allowed is not None:
        n = F.pad((~allowed).cumsum(1), (1, 0))
        valid = valid & (n[:, None, 1:] - n[:, :-1, None] == 0)
    best = scores.masked_fill(~valid, -torch.inf).flatten(1).argmax(1)
    return best // end.size(1), best % end.size(1)


def best_span__end_first(start, end, allowed=None, max_length=30):
    """You fix the best end and then look for a start. A slightly worse end with a much better start may win: compare all pairs."""
    if allowed is not None:
        start, end = start.masked_fill(~allowed, -torch.inf), end.masked_fill(~allowed, -torch.inf)
    ends = end.argmax(1)
    place = torch.arange(start.size(1))
    near = (place <= ends[:, None]) & (place > ends[:, None] - max_length)
    return start.masked_fill(~near, -torch.inf).argmax(1), ends


def best_span__swapped_when_wrong(start, end, allowed=None, max_length=30):
    """When the answer ends before it starts you change the two over. That is another answer, made of scores that were not given for it: choose among the valid pairs."""
    if allowed is not None:
        start, end = start.masked_fill(~allowed, -torch.inf), end.masked_fill(~allowed, -torch.inf)
    a, b = start.argmax(1), end.argmax(1)
    return torch.minimum(a, b), torch.maximum(a, b)


def best_span__right__loops(start, end, allowed=None, max_length=30):
    starts, ends = [], []
    for b in range(start.size(0)):
        best, span = -math.inf, (0, 0)
        for i in range(start.size(1)):
            for j in range(i, min(start.size(1), i + max_length)):
                fine = allowed is None or bool(allowed[b, i] and allowed[b, j])
                if fine and float(start[b, i] + end[b, j]) > best:
                    best, span = float(start[b, i] + end[b, j]), (i, j)
        starts.append(span[0])
        ends.append(span[1])
    return torch.tensor(starts), torch.tensor(ends)


def best_span__right__product_of_probabilities(start, end, allowed=None, max_length=30):
    if allowed is not None:
        start, end = start.masked_fill(~allowed, -torch.inf), end.masked_fill(~allowed, -torch.inf)
    pairs = start.double().softmax(1)[:, :, None] * end.double().softmax(1)[:, None, :]
    pairs = pairs.triu().tril(max_length - 1)
    flat = pairs.flatten(1).argmax(1)
    return torch.div(flat, start.size(1), rounding_mode="floor"), flat.remainder(start.size(1))


def best_span__right__best_end_for_each_start(start, end, allowed=None, max_length=30):
    T = start.size(1)
    if allowed is not None:
        start, end = start.masked_fill(~allowed, -torch.inf), end.masked_fill(~allowed, -torch.inf)
    outside = torch.ones(T, T, device=start.device).tril(-1) + torch.ones(T, T, device=start.device).triu(max_length)
    value, where = end[:, None, :].expand(-1, T, -1).masked_fill(outside.bool(), -torch.inf).max(-1)
    starts = (start + value).argmax(1)
    return starts, where.gather(1, starts[:, None])[:, 0]


# --- span_loss -----------------------------------------------------------------------------------------------------


def span_loss__summed(start, end, starts, ends, allowed=None):
    """You add the two cross-entropies. Asked for is their mean, half of that."""
    if allowed is not None:
        start, end = (scores.masked_fill(~allowed, -torch.inf) for scores in (start, end))
    return F.cross_entropy(start, starts) + F.cross_entropy(end, ends)


def span_loss__allowed_ignored(start, end, starts, ends, allowed=None):
    """`allowed` has no effect: tokens that can never be chosen take their share of the probability. Give them −∞ before the cross-entropy."""
    return (F.cross_entropy(start, starts) + F.cross_entropy(end, ends)) / 2


def span_loss__allowed_inverted(start, end, starts, ends, allowed=None):
    """You forbid the allowed tokens, the true answer among them: its probability is 0 and the loss infinite. True means allowed."""
    if allowed is not None:
        start, end = (scores.masked_fill(allowed, -torch.inf) for scores in (start, end))
    return (F.cross_entropy(start, starts) + F.cross_entropy(end, ends)) / 2


def span_loss__forbidden_with_zero(start, end, starts, ends, allowed=None):
    """Forbidden tokens get the score 0, and e⁰ = 1 is a share like any other. Give them −∞."""
    if allowed is not None:
        start, end = (scores.masked_fill(~allowed, 0.0) for scores in (start, end))
    return (F.cross_entropy(start, starts) + F.cross_entropy(end, ends)) / 2


def span_loss__start_only(start, end, starts, ends, allowed=None):
    """Only the start is learnt: the cross-entropy of the end is missing."""
    if allowed is not None:
        start = start.masked_fill(~allowed, -torch.inf)
    return F.cross_entropy(start, starts)


def span_loss__both_against_the_start(start, end, starts, ends, allowed=None):
    """You compare the scores of the end with the true start. The end has a place of its own, `ends`."""
    if allowed is not None:
        start, end = (scores.masked_fill(~allowed, -torch.inf) for scores in (start, end))
    return (F.cross_entropy(start, starts) + F.cross_entropy(end, starts)) / 2


def span_loss__only_the_start_masked(start, end, starts, ends, allowed=None):
    """You forbid tokens for the start but not for the end. Both choices are made among the allowed ones."""
    if allowed is not None:
        start = start.masked_fill(~allowed, -torch.inf)
    return (F.cross_entropy(start, starts) + F.cross_entropy(end, ends)) / 2


def span_loss__softmax_before_cross_entropy(start, end, starts, ends, allowed=None):
    """You apply a softmax before the cross-entropy, which has one inside. It takes scores as they are."""
    if allowed is not None:
        start, end = (scores.masked_fill(~allowed, -torch.inf) for scores in (start, end))
    return (F.cross_entropy(start.softmax(1), starts) + F.cross_entropy(end.softmax(1), ends)) / 2


def span_loss__positions_as_numbers(start, end, starts, ends, allowed=None):
    """You measure how far the best place is from the true one. A place is a class, not a quantity, and argmax has no gradient: use the cross-entropy."""
    if allowed is not None:
        start, end = (scores.masked_fill(~allowed, -torch.inf) for scores in (start, end))
    return ((start.argmax(1) - starts).abs() + (end.argmax(1) - ends).abs()).float().mean() / 2


def span_loss__summed_over_the_batch(start, end, starts, ends, allowed=None):
    """You add up the texts of the batch. The mean does not grow with their number."""
    if allowed is not None:
        start, end = (scores.masked_fill(~allowed, -torch.inf) for scores in (start, end))
    return (F.cross_entropy(start, starts, reduction="sum") + F.cross_entropy(end, ends, reduction="sum")) / 2


def span_loss__each_token_yes_or_no(start, end, starts, ends, allowed=None):
    """You ask of each token by itself whether the answer starts there. Exactly one does: the tokens compete, in one softmax over all of them."""
    target, keep = torch.zeros_like(start), torch.ones_like(start) if allowed is None else allowed.to(start.dtype)
    first, last = target.scatter(1, starts[:, None], 1.0), target.scatter(1, ends[:, None], 1.0)
    return (
        F.binary_cross_entropy_with_logits(start, first, keep) + F.binary_cross_entropy_with_logits(end, last, keep)
    ) / 2


def span_loss__right__logsumexp(start, end, starts, ends, allowed=None):
    total = 0.0
    for scores, true in ((start, starts), (end, ends)):
        open_ = scores if allowed is None else torch.where(allowed, scores, -torch.inf)
        total = total + open_.logsumexp(1) - scores.gather(1, true[:, None])[:, 0]
    return total.mean() / 2


def span_loss__right__text_by_text(start, end, starts, ends, allowed=None):
    costs = []
    for b in range(len(start)):
        keep = torch.ones_like(start[b], dtype=torch.bool) if allowed is None else allowed[b]
        for scores, true in ((start[b], starts[b]), (end[b], ends[b])):
            costs.append(scores[keep].exp().sum().log() - scores[true])
    return torch.stack(costs).mean()


def span_loss__right__one_call(start, end, starts, ends, allowed=None):
    scores, true = torch.cat([start, end]), torch.cat([starts, ends])
    if allowed is not None:
        scores = scores + torch.where(allowed.repeat(2, 1), 0.0, -1e9)
    return F.nll_loss(F.log_softmax(scores, -1), true)


# --- summarise -----------------------------------------------------------------------------------------------------


def summarise__macro_f1_of_means(counts):
    """Your macro F1 is the harmonic mean of macro precision and macro recall. It is the mean of the classes' own F1s."""
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    micro = precision_recall_f1(*(sum(c[i] for c in counts.values()) for i in range(3)))
    macro, weighted = {"support": support}, {"support": support}
    for m in ("precision", "recall", "f1"):
        macro[m] = sum(r[m] for r in rows.values()) / max(1, len(rows))
        weighted[m] = sum(r[m] * r["support"] for r in rows.values()) / max(1, support)
    p, r = macro["precision"], macro["recall"]
    macro["f1"] = 2 * p * r / (p + r) if p + r else 0.0
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__weighted_f1_of_means(counts):
    """Your weighted F1 is the harmonic mean of weighted precision and recall. It is the weighted mean of the classes' own F1s."""
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    micro = precision_recall_f1(*(sum(c[i] for c in counts.values()) for i in range(3)))
    macro, weighted = {"support": support}, {"support": support}
    for m in ("precision", "recall", "f1"):
        macro[m] = sum(r[m] for r in rows.values()) / max(1, len(rows))
        weighted[m] = sum(r[m] * r["support"] for r in rows.values()) / max(1, support)
    p, r = weighted["precision"], weighted["recall"]
    weighted["f1"] = 2 * p * r / (p + r) if p + r else 0.0
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__micro_is_macro(counts):
    """Your micro average is the plain mean over classes, which is macro. For micro, add up the counts first and compute once."""
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    macro, weighted = {"support": support}, {"support": support}
    for m in ("precision", "recall", "f1"):
        macro[m] = sum(r[m] for r in rows.values()) / max(1, len(rows))
        weighted[m] = sum(r[m] * r["support"] for r in rows.values()) / max(1, support)
    return rows | {"micro": dict(macro), "macro": macro, "weighted": weighted}


def summarise__weighted_by_nothing(counts):
    """Your weighted average weighs every class the same, so it equals macro. Weigh each class by its support."""
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    micro = precision_recall_f1(*(sum(c[i] for c in counts.values()) for i in range(3)))
    macro = {m: sum(r[m] for r in rows.values()) / max(1, len(rows)) for m in ("precision", "recall", "f1")}
    macro["support"] = support
    return rows | {"micro": micro, "macro": macro, "weighted": dict(macro)}


def summarise__weighted_by_predictions(counts):
    """You weigh each class by how often it was predicted, so a model could choose its own weights. The weight is the support: how often it is actual."""
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    said = sum(c[1] for c in counts.values())
    micro = precision_recall_f1(*(sum(c[i] for c in counts.values()) for i in range(3)))
    macro, weighted = {"support": support}, {"support": support}
    for m in ("precision", "recall", "f1"):
        macro[m] = sum(r[m] for r in rows.values()) / max(1, len(rows))
        weighted[m] = sum(rows[name][m] * counts[name][1] for name in counts) / max(1, said)
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__empty_classes_skipped(counts):
    """Your macro average leaves out the classes with F1 = 0, so failing a class altogether raises the score. Divide by the number of all classes."""
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    micro = precision_recall_f1(*(sum(c[i] for c in counts.values()) for i in range(3)))
    macro, weighted = {"support": support}, {"support": support}
    hits = sum(r["f1"] > 0 for r in rows.values())
    for m in ("precision", "recall", "f1"):
        macro[m] = sum(r[m] for r in rows.values()) / max(1, hits)
        weighted[m] = sum(r[m] * r["support"] for r in rows.values()) / max(1, support)
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__micro_from_recall_only(counts):
    """Your micro precision divides by the actual counts, so it is the recall. Precision divides what is correct by what was predicted."""
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    correct = sum(c[0] for c in counts.values())
    micro = precision_recall_f1(correct, support, support)
    macro, weighted = {"support": support}, {"support": support}
    for m in ("precision", "recall", "f1"):
        macro[m] = sum(r[m] for r in rows.values()) / max(1, len(rows))
        weighted[m] = sum(r[m] * r["support"] for r in rows.values()) / max(1, support)
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__mean_support(counts):
    """The support of your averages is the mean of the classes' supports. An average stands for all examples: its support is their sum."""
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    micro = precision_recall_f1(*(sum(c[i] for c in counts.values()) for i in range(3)))
    macro, weighted = {"support": support / len(rows)}, {"support": support / len(rows)}
    for m in ("precision", "recall", "f1"):
        macro[m] = sum(r[m] for r in rows.values()) / max(1, len(rows))
        weighted[m] = sum(r[m] * r["support"] for r in rows.values()) / max(1, support)
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__weighted_divided_by_classes(counts):
    """Your weighted average is divided by the number of classes, so it can exceed 1. Divide by the sum of the weights, the total support."""
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    micro = precision_recall_f1(*(sum(c[i] for c in counts.values()) for i in range(3)))
    macro, weighted = {"support": support}, {"support": support}
    for m in ("precision", "recall", "f1"):
        macro[m] = sum(r[m] for r in rows.values()) / max(1, len(rows))
        weighted[m] = sum(r[m] * r["support"] for r in rows.values()) / max(1, len(rows))
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__precision_and_recall_swapped(counts):
    """Precision and recall have changed places: the order of the counts is (correct, predicted, actual)."""
    rows = {name: precision_recall_f1(c[0], c[2], c[1]) for name, c in counts.items()}
    support = sum(r["support"] for r in rows.values())
    micro = precision_recall_f1(*(sum(c[i] for c in counts.values()) for i in (0, 2, 1)))
    macro, weighted = {"support": support}, {"support": support}
    for m in ("precision", "recall", "f1"):
        macro[m] = sum(r[m] for r in rows.values()) / max(1, len(rows))
        weighted[m] = sum(r[m] * r["support"] for r in rows.values()) / max(1, support)
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__seen_classes_only(counts):
    """Your macro average leaves out classes without support. Every class of the report counts, also one that was only predicted."""
    rows = {name: precision_recall_f1(*count) for name, count in counts.items()}
    support = sum(row["support"] for row in rows.values())
    micro = precision_recall_f1(*(sum(count[i] for count in counts.values()) for i in range(3)))
    macro, weighted = {"support": support}, {"support": support}
    seen = [row for row in rows.values() if row["support"]]
    for metric in ("precision", "recall", "f1"):
        macro[metric] = sum(row[metric] for row in seen) / max(1, len(seen))
        weighted[metric] = sum(row[metric] * row["support"] for row in rows.values()) / max(1, support)
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__micro_weighs_into_macro(counts):
    """Your macro average counts the row "micro" as one more class. Only the classes themselves are averaged."""
    rows = {name: precision_recall_f1(*count) for name, count in counts.items()}
    support = sum(row["support"] for row in rows.values())
    rows["micro"] = precision_recall_f1(*(sum(count[i] for count in counts.values()) for i in range(3)))
    classes = [row for name, row in rows.items() if name != "micro"]
    macro, weighted = {"support": support}, {"support": support}
    for metric in ("precision", "recall", "f1"):
        macro[metric] = sum(row[metric] for row in rows.values()) / len(rows)
        weighted[metric] = sum(row[metric] * row["support"] for row in classes) / max(1, support)
    return rows | {"macro": macro, "weighted": weighted}


def summarise__divides_by_zero(counts):
    """Without any support you divide 0 by 0. Where nothing is counted the average is 0."""
    rows = {name: precision_recall_f1(*count) for name, count in counts.items()}
    support = sum(row["support"] for row in rows.values())
    micro = precision_recall_f1(*(sum(count[i] for count in counts.values()) for i in range(3)))
    macro, weighted = {"support": support}, {"support": support}
    for metric in ("precision", "recall", "f1"):
        macro[metric] = sum(row[metric] for row in rows.values()) / len(rows)
        weighted[metric] = sum(row[metric] * row["support"] for row in rows.values()) / support
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__micro_f1_is_plain_mean(counts):
    """Your micro F1 is the plain mean of precision and recall. F1 is their harmonic mean, 2PR / (P + R)."""
    rows = {name: precision_recall_f1(*count) for name, count in counts.items()}
    support = sum(row["support"] for row in rows.values())
    micro = precision_recall_f1(*(sum(count[i] for count in counts.values()) for i in range(3)))
    micro["f1"] = (micro["precision"] + micro["recall"]) / 2
    macro, weighted = {"support": support}, {"support": support}
    for metric in ("precision", "recall", "f1"):
        macro[metric] = sum(row[metric] for row in rows.values()) / max(1, len(rows))
        weighted[metric] = sum(row[metric] * row["support"] for row in rows.values()) / max(1, support)
    return rows | {"micro": micro, "macro": macro, "weighted": weighted}


def summarise__right__numpy(counts):
    table = np.array(list(counts.values()), dtype=float).reshape(-1, 3)
    keys = ("precision", "recall", "f1")
    rows = {name: precision_recall_f1(*c) for name, c in counts.items()}
    scores = np.array([[row[k] for k in keys] for row in rows.values()])
    correct, predicted, actual = table.sum(0).tolist()
    report = dict(rows)
    report["micro"] = precision_recall_f1(correct, predicted, actual)
    report["macro"] = dict(zip(keys, scores.mean(0).tolist(), strict=True)) | {"support": actual}
    share = table[:, 2] / actual if actual else np.zeros(len(table))
    report["weighted"] = dict(zip(keys, (share @ scores).tolist(), strict=True)) | {"support": actual}
    return report


def summarise__right__loops(counts):
    report, total = {}, [0, 0, 0]
    for name in counts:
        report[name] = precision_recall_f1(*counts[name])
        for i in range(3):
            total[i] += counts[name][i]
    macro = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": total[2]}
    weighted = dict(macro)
    for name in counts:
        for metric in ("precision", "recall", "f1"):
            macro[metric] += report[name][metric] / len(counts)
            if total[2]:
                weighted[metric] += report[name][metric] * counts[name][2] / total[2]
    report["micro"] = precision_recall_f1(*total)
    report["macro"], report["weighted"] = macro, weighted
    return report


def summarise__right__own_formulas(counts):
    def row(correct, predicted, actual):
        return {
            "precision": correct / predicted if predicted else 0.0,
            "recall": correct / actual if actual else 0.0,
            "f1": 2 * correct / (predicted + actual) if predicted + actual else 0.0,
            "support": actual,
        }

    def mean(weights):
        total = sum(weights)
        parts = zip(rows.values(), weights, strict=True)
        return {
            m: sum(r[m] * w for r, w in zip(rows.values(), weights, strict=True)) / total if total else 0.0
            for m in ("precision", "recall", "f1")
        } | {"support": sum(r["support"] for r, _ in parts)}

    rows = {name: row(*c) for name, c in counts.items()}
    micro = row(*map(sum, zip(*counts.values(), strict=True)))
    return {**rows, "micro": micro, "macro": mean([1] * len(rows)), "weighted": mean([c[2] for c in counts.values()])}


# --- check_report --------------------------------------------------------------------------------------------------


def check_report__f1_not_checked(report, tolerance=0.002):
    """A class whose F1 does not follow from its precision and recall slips through. Compute the harmonic mean for each class and compare."""
    classes = {n: r for n, r in report.items() if n not in ("micro", "macro", "weighted")}
    support = sum(r["support"] for r in classes.values())
    for m in ("precision", "recall", "f1"):
        macro = sum(r[m] for r in classes.values()) / len(classes)
        weighted = sum(r[m] * r["support"] for r in classes.values()) / support
        assert abs(report["macro"][m] - macro) <= tolerance
        assert abs(report["weighted"][m] - weighted) <= tolerance
        assert abs(report["micro"][m] - report["weighted"]["recall"]) <= tolerance
    assert all(report[a]["support"] == support for a in ("micro", "macro", "weighted"))


def check_report__only_f1(report, tolerance=0.002):
    """You check the F1 of each class and nothing else. The averages can be wrong too: compute macro and weighted from the classes, and compare."""
    for name, row in report.items():
        if name not in ("micro", "macro", "weighted"):
            p, r = row["precision"], row["recall"]
            f1 = 2 * p * r / (p + r) if p + r else 0.0
            assert abs(row["f1"] - f1) <= tolerance


def check_report__macro_not_checked(report, tolerance=0.002):
    """A wrong macro average slips through your test. It must be the plain mean of the classes, for each of the three metrics."""
    classes = {n: r for n, r in report.items() if n not in ("micro", "macro", "weighted")}
    support = sum(r["support"] for r in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) <= tolerance
    for m in ("precision", "recall", "f1"):
        weighted = sum(r[m] * r["support"] for r in classes.values()) / support
        assert abs(report["weighted"][m] - weighted) <= tolerance
        assert abs(report["micro"][m] - report["weighted"]["recall"]) <= tolerance
    assert all(report[a]["support"] == support for a in ("micro", "macro", "weighted"))


def check_report__weighted_not_checked(report, tolerance=0.002):
    """A wrong weighted average slips through your test. It must be the mean of the classes, weighted by support, for each of the three metrics."""
    classes = {n: r for n, r in report.items() if n not in ("micro", "macro", "weighted")}
    support = sum(r["support"] for r in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) <= tolerance
    for m in ("precision", "recall", "f1"):
        macro = sum(r[m] for r in classes.values()) / len(classes)
        assert abs(report["macro"][m] - macro) <= tolerance
        assert abs(report["micro"][m] - report["weighted"]["recall"]) <= tolerance
    assert all(report[a]["support"] == support for a in ("micro", "macro", "weighted"))


def check_report__micro_not_checked(report, tolerance=0.002):
    """A wrong micro average slips through your test. With one label and one prediction each, its three numbers are all the accuracy."""
    classes = {n: r for n, r in report.items() if n not in ("micro", "macro", "weighted")}
    support = sum(r["support"] for r in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) <= tolerance
    for m in ("precision", "recall", "f1"):
        macro = sum(r[m] for r in classes.values()) / len(classes)
        weighted = sum(r[m] * r["support"] for r in classes.values()) / support
        assert abs(report["macro"][m] - macro) <= tolerance
        assert abs(report["weighted"][m] - weighted) <= tolerance
    assert all(report[a]["support"] == support for a in ("micro", "macro", "weighted"))


def check_report__micro_only_with_itself(report, tolerance=0.002):
    """You ask that micro precision, recall and F1 agree with each other, but not that they are the accuracy. Compare them with the weighted recall."""
    classes = {n: r for n, r in report.items() if n not in ("micro", "macro", "weighted")}
    support = sum(r["support"] for r in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) <= tolerance
    for m in ("precision", "recall", "f1"):
        macro = sum(r[m] for r in classes.values()) / len(classes)
        weighted = sum(r[m] * r["support"] for r in classes.values()) / support
        assert abs(report["macro"][m] - macro) <= tolerance
        assert abs(report["weighted"][m] - weighted) <= tolerance
        assert abs(report["micro"][m] - report["micro"]["recall"]) <= tolerance
    assert all(report[a]["support"] == support for a in ("micro", "macro", "weighted"))


def check_report__support_not_checked(report, tolerance=0.002):
    """A wrong support slips through your test. Each average stands for all examples: its support is the sum over the classes."""
    classes = {n: r for n, r in report.items() if n not in ("micro", "macro", "weighted")}
    support = sum(r["support"] for r in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) <= tolerance
    for m in ("precision", "recall", "f1"):
        macro = sum(r[m] for r in classes.values()) / len(classes)
        weighted = sum(r[m] * r["support"] for r in classes.values()) / support
        assert abs(report["macro"][m] - macro) <= tolerance
        assert abs(report["weighted"][m] - weighted) <= tolerance
        assert abs(report["micro"][m] - report["weighted"]["recall"]) <= tolerance


def check_report__averages_as_classes(report, tolerance=0.002):
    """You ask the harmonic mean of the averages, too, and so accuse honest reports: a mean of F1s is not the F1 of the means."""
    for row in report.values():
        p, r = row["precision"], row["recall"]
        assert abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) <= tolerance


def check_report__exact(report, tolerance=0.002):
    """You compare for equality, and so accuse honest reports whose numbers were rounded. Allow each number its tolerance."""
    classes = {n: r for n, r in report.items() if n not in ("micro", "macro", "weighted")}
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert row["f1"] == (2 * p * r / (p + r) if p + r else 0.0)


def check_report__returns_a_verdict(report, tolerance=0.002):
    """Your function returns True or False and never raises. A test speaks by raising an AssertionError: say it with `assert`."""
    classes = {n: r for n, r in report.items() if n not in ("micro", "macro", "weighted")}
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        if abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) > tolerance:
            return False
    return True


def check_report__too_lenient(report, tolerance=0.002):
    """Your test allows a difference of 0.05, more than any rounding to three digits explains. Use `tolerance`."""
    classes = {n: r for n, r in report.items() if n not in ("micro", "macro", "weighted")}
    support = sum(r["support"] for r in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) <= 0.05
    for m in ("precision", "recall", "f1"):
        macro = sum(r[m] for r in classes.values()) / len(classes)
        weighted = sum(r[m] * r["support"] for r in classes.values()) / support
        assert abs(report["macro"][m] - macro) <= 0.05
        assert abs(report["weighted"][m] - weighted) <= 0.05
        assert abs(report["micro"][m] - report["weighted"]["recall"]) <= 0.05
    assert all(report[a]["support"] == support for a in ("micro", "macro", "weighted"))


def check_report__zero_division(report, tolerance=0.002):
    """A class that is never predicted has precision and recall 0, and you divide by their sum. Its F1 is 0: such a report is honest."""
    classes = {name: row for name, row in report.items() if name not in ("micro", "macro", "weighted")}
    support = sum(row["support"] for row in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert abs(row["f1"] - 2 * p * r / (p + r)) <= tolerance
    for metric in ("precision", "recall", "f1"):
        macro = sum(row[metric] for row in classes.values()) / len(classes)
        weighted = sum(row[metric] * row["support"] for row in classes.values()) / support
        assert abs(report["macro"][metric] - macro) <= tolerance
        assert abs(report["weighted"][metric] - weighted) <= tolerance
        assert abs(report["micro"][metric] - report["weighted"]["recall"]) <= tolerance
    for average in ("micro", "macro", "weighted"):
        assert report[average]["support"] == support


def check_report__raises_value_error(report, tolerance=0.002):
    """You raise ValueError. A test speaks by raising an AssertionError: that is what its callers catch."""
    classes = {name: row for name, row in report.items() if name not in ("micro", "macro", "weighted")}
    support = sum(row["support"] for row in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        if abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) > tolerance:
            raise ValueError("f1")
    for metric in ("precision", "recall", "f1"):
        macro = sum(row[metric] for row in classes.values()) / len(classes)
        weighted = sum(row[metric] * row["support"] for row in classes.values()) / support
        if abs(report["macro"][metric] - macro) > tolerance or abs(report["weighted"][metric] - weighted) > tolerance:
            raise ValueError(metric)
        if abs(report["micro"][metric] - report["weighted"]["recall"]) > tolerance:
            raise ValueError("micro")
    for average in ("micro", "macro", "weighted"):
        if report[average]["support"] != support:
            raise ValueError("support")


def check_report__only_f1_averaged(report, tolerance=0.002):
    """You check the averages of F1 only. Precision and recall have averages, too, and each must follow from the classes."""
    classes = {name: row for name, row in report.items() if name not in ("micro", "macro", "weighted")}
    support = sum(row["support"] for row in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert abs(row["f1"] - (2 * p * r / (p + r) if p + r else 0.0)) <= tolerance
    for metric in ("f1",):
        macro = sum(row[metric] for row in classes.values()) / len(classes)
        weighted = sum(row[metric] * row["support"] for row in classes.values()) / support
        assert abs(report["macro"][metric] - macro) <= tolerance
        assert abs(report["weighted"][metric] - weighted) <= tolerance
    for metric in ("precision", "recall", "f1"):
        assert abs(report["micro"][metric] - report["weighted"]["recall"]) <= tolerance
    for average in ("micro", "macro", "weighted"):
        assert report[average]["support"] == support


def check_report__signed(report, tolerance=0.002):
    """You ask for differences without their absolute value, so numbers that are too small slip through. Use abs."""
    classes = {name: row for name, row in report.items() if name not in ("micro", "macro", "weighted")}
    support = sum(row["support"] for row in classes.values())
    for row in classes.values():
        p, r = row["precision"], row["recall"]
        assert row["f1"] - (2 * p * r / (p + r) if p + r else 0.0) <= tolerance
    for metric in ("precision", "recall", "f1"):
        macro = sum(row[metric] for row in classes.values()) / len(classes)
        weighted = sum(row[metric] * row["support"] for row in classes.values()) / support
        assert report["macro"][metric] - macro <= tolerance
        assert report["weighted"][metric] - weighted <= tolerance
        assert report["micro"][metric] - report["weighted"]["recall"] <= tolerance
    for average in ("micro", "macro", "weighted"):
        assert report[average]["support"] == support


def check_report__right__list_of_problems(report, tolerance=0.002):
    classes = [name for name in report if name not in ("micro", "macro", "weighted")]
    total = sum(report[name]["support"] for name in classes)
    expected = {}
    for name in classes:
        p, r = report[name]["precision"], report[name]["recall"]
        expected[name, "f1"] = 0.0 if p == r == 0 else 2 * p * r / (p + r)
    for metric in ("precision", "recall", "f1"):
        expected["macro", metric] = sum(report[name][metric] for name in classes) / len(classes)
        expected["weighted", metric] = sum(report[n][metric] * report[n]["support"] for n in classes) / total
    accuracy = expected["weighted", "recall"]
    expected |= {("micro", metric): accuracy for metric in ("precision", "recall", "f1")}
    problems = [key for key, value in expected.items() if abs(report[key[0]][key[1]] - value) > tolerance]
    problems += [(a, "support") for a in ("micro", "macro", "weighted") if report[a]["support"] != total]
    assert not problems, f"these numbers contradict the others: {problems}"


def check_report__right__numpy(report, tolerance=0.002):
    keys = ("precision", "recall", "f1")
    names = [n for n in report if n not in ("micro", "macro", "weighted")]
    table = np.array([[report[n][k] for k in keys] for n in names])
    support = np.array([report[n]["support"] for n in names], dtype=float)
    p, r, f1 = table.T
    harmonic = np.divide(2 * p * r, p + r, out=np.zeros_like(p), where=p + r > 0)
    assert np.allclose(f1, harmonic, rtol=0, atol=tolerance), "F1 is a harmonic mean"
    averages = {"macro": table.mean(0), "weighted": support @ table / support.sum()}
    averages["micro"] = np.full(3, averages["weighted"][1])
    for name, values in averages.items():
        assert np.allclose([report[name][k] for k in keys], values, rtol=0, atol=tolerance), name
        assert report[name]["support"] == support.sum(), f"support of {name}"


def check_report__right__early_raise(report, tolerance=0.002):
    rows = [row for name, row in report.items() if name not in ("micro", "macro", "weighted")]
    n = sum(row["support"] for row in rows)

    def must_equal(got, wanted, what):
        if not abs(got - wanted) <= tolerance:
            raise AssertionError(f"{what}: {got} instead of {wanted:.3f}")

    for row in rows:
        both = row["precision"] + row["recall"]
        must_equal(
            row["f1"] * both, 2 * row["precision"] * row["recall"], "f1 of a class"
        ) if both < 0.05 else must_equal(row["f1"], 2 * row["precision"] * row["recall"] / both, "f1 of a class")
    for metric in ("precision", "recall", "f1"):
        must_equal(report["macro"][metric], sum(row[metric] for row in rows) / len(rows), f"macro {metric}")
        mean = sum(row[metric] * row["support"] / n for row in rows)
        must_equal(report["weighted"][metric], mean, f"weighted {metric}")
        must_equal(report["micro"][metric], report["weighted"]["recall"], f"micro {metric}")
    for average in ("micro", "macro", "weighted"):
        must_equal(report[average]["support"], n, f"support of {average}")
