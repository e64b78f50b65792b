"""Wrong versions of the pieces of assignment 07 that learners really write, and right ones in other styles.

Named piece__what_is_wrong; the docstring is what a tutor would say. The grader replays a learner's calls on them.
"""

import torch
from torch import nn
from torch.nn import functional as F

from encoder.palindrome import PalindromeClassifier, make_palindromes
from encoder.training import TrainConfig, fit, warmup_cosine

# --- causal_mask ---------------------------------------------------------------------------------------------------


def causal_mask__itself_hidden(length, device=None):
    """Off by one: your mask hides each token from itself, and the first token reads nothing at all. Itself and the past: s ≤ t."""
    return torch.ones(length, length, device=device).tril(-1).bool()


def causal_mask__one_ahead(length, device=None):
    """Off by one: each token may read the next one, the very word that a decoder has to predict."""
    return torch.ones(length, length, device=device).tril(1).bool()


def causal_mask__transposed(length, device=None):
    """Your mask is transposed: each token reads itself and the future. Rows are queries, columns are keys."""
    return torch.ones(length, length, device=device).triu().bool()


def causal_mask__inverted(length, device=None):
    """Your mask is True where reading is forbidden, as in nn.MultiheadAttention. Here True means "may attend"."""
    return torch.ones(length, length, device=device).triu(1).bool()


def causal_mask__zeros_and_ones(length, device=None):
    """Your mask holds the numbers 0 and 1. A mask is torch.bool: compare, or call .bool()."""
    return torch.ones(length, length, device=device).tril()


def causal_mask__additive(length, device=None):
    """Your mask holds 0 and −∞, to be added to scores. Here masks are boolean, True where reading is allowed."""
    return torch.zeros(length, length, device=device).masked_fill(
        torch.ones(length, length, device=device).triu(1).bool(), -torch.inf
    )


def causal_mask__everything(length, device=None):
    """Your mask allows everything: it hides nothing of the future."""
    return torch.ones(length, length, dtype=torch.bool, device=device)


def causal_mask__only_itself(length, device=None):
    """Your mask lets each token read itself only. The past is allowed as well."""
    return torch.eye(length, dtype=torch.bool, device=device)


def causal_mask__one_row(length, device=None):
    """Your mask has one row for all queries. What is past and what is future differs from query to query: (T, T)."""
    t = torch.arange(length, device=device)
    return (t <= length - 1)[None]


def causal_mask__only_the_one_before(length, device=None):
    """Your mask reaches one token back. A causal mask allows the whole past, however long."""
    t = torch.arange(length, device=device)
    gap = t[:, None] - t
    return (gap >= 0) & (gap <= 1)


def causal_mask__right__tril(length, device=None):
    return torch.tril(torch.ones(length, length, dtype=torch.bool, device=device))


def causal_mask__right__loops(length, device=None):
    mask = torch.zeros(length, length, dtype=torch.bool, device=device)
    for t in range(length):
        mask[t, : t + 1] = True
    return mask


def causal_mask__right__library(length, device=None):
    return nn.Transformer.generate_square_subsequent_mask(length, device=device) == 0


def causal_mask__right__running_or(length, device=None):
    return torch.eye(length, device=device).cumsum(0) > torch.zeros(length, length, device=device).triu(1)


# --- window_mask ---------------------------------------------------------------------------------------------------


def window_mask__past_only(length, window, device=None):
    """Your window looks back only. It reaches as far on either side: take the absolute distance."""
    t = torch.arange(length, device=device)
    gap = t[:, None] - t
    return (gap >= 0) & (gap <= window)


def window_mask__future_only(length, window, device=None):
    """Your window looks ahead only. It reaches as far on either side: take the absolute distance."""
    t = torch.arange(length, device=device)
    gap = t - t[:, None]
    return (gap >= 0) & (gap <= window)


def window_mask__no_absolute_value(length, window, device=None):
    """You compare the signed distance, so one side is not limited at all. Take the absolute distance."""
    t = torch.arange(length, device=device)
    return t - t[:, None] <= window


def window_mask__one_short(length, window, device=None):
    """Off by one: your window ends one token early. A distance of exactly W is still inside: ≤, not <."""
    t = torch.arange(length, device=device)
    return (t - t[:, None]).abs() < window


def window_mask__whole_width(length, window, device=None):
    """You take W as the width of the whole window. It is the reach on each side: 2W + 1 tokens in all."""
    t = torch.arange(length, device=device)
    return (t - t[:, None]).abs() <= window // 2


def window_mask__twice_as_far(length, window, device=None):
    """Your window reaches 2W on each side. It is 2W + 1 tokens wide in all, W on each side."""
    t = torch.arange(length, device=device)
    return (t - t[:, None]).abs() <= 2 * window


def window_mask__goes_round(length, window, device=None):
    """Your window goes round the ends: the first token reads the last. A sequence is a line, not a ring."""
    t = torch.arange(length, device=device)
    gap = (t - t[:, None]).abs()
    return torch.minimum(gap, length - gap) <= window


def window_mask__inverted(length, window, device=None):
    """Your mask is True outside the window. True means "may attend"."""
    t = torch.arange(length, device=device)
    return (t - t[:, None]).abs() > window


def window_mask__itself_left_out(length, window, device=None):
    """Your window leaves out its own centre. A token is at distance 0 from itself, so it may read itself."""
    t = torch.arange(length, device=device)
    gap = (t - t[:, None]).abs()
    return (gap <= window) & (gap > 0)


def window_mask__zeros_and_ones(length, window, device=None):
    """Your mask holds the numbers 0 and 1. A mask is torch.bool."""
    t = torch.arange(length, device=device)
    return ((t - t[:, None]).abs() <= window).long()


def window_mask__right__two_triangles(length, window, device=None):
    full = torch.ones(length, length, dtype=torch.bool, device=device)
    return full.tril(window) & full.triu(-window)


def window_mask__right__loops(length, window, device=None):
    mask = torch.zeros(length, length, dtype=torch.bool, device=device)
    for t in range(length):
        mask[t, max(0, t - window) : t + window + 1] = True
    return mask


def window_mask__right__list(length, window, device=None):
    rows = [[-window <= t - s <= window for s in range(length)] for t in range(length)]
    return torch.tensor(rows, device=device)


# --- combine_masks -------------------------------------------------------------------------------------------------


def combine_masks__either(*masks):
    """Your result allows a key that any one mask allows. It takes all of them: &, not |."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined | mask
    return combined


def combine_masks__none_forbids(*masks):
    """You read None as a mask that forbids everything. None means no limit: leave it out."""
    if any(mask is None for mask in masks):
        given = [mask for mask in masks if mask is not None]
        return torch.zeros_like(given[0]) if given else None
    combined = masks[0] if masks else None
    for mask in masks[1:]:
        combined = combined & mask
    return combined


def combine_masks__none_crashes(*masks):
    """None is not expected in your code, and & with None raises. None means no limit: leave it out."""
    combined = masks[0]
    for mask in masks[1:]:
        combined = combined & mask
    return combined


def combine_masks__first_two(*masks):
    """You combine the first two masks and forget the rest. Any number may be given."""
    given = [mask for mask in masks if mask is not None][:2]
    if not given:
        return None
    return given[0] if len(given) == 1 else given[0] & given[1]


def combine_masks__last_wins(*masks):
    """Your result is the last mask: the ones before it are overwritten instead of combined."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask
    return combined


def combine_masks__first_wins(*masks):
    """Your result is the first mask that is not None. The others must allow a key as well."""
    for mask in masks:
        if mask is not None:
            return mask
    return None


def combine_masks__true_for_nothing(*masks):
    """Without any mask you return True. No limit at all is None, which attention understands."""
    combined = True
    for mask in masks:
        if mask is not None:
            combined = mask & combined
    return combined


def combine_masks__stacked(*masks):
    """Your way of joining masks needs equal shapes: stacking does, and so does &=, which also overwrites the caller's mask. (T, T) and (B, 1, 1, S) differ: a & b broadcasts them."""
    given = [mask for mask in masks if mask is not None]
    return torch.stack(given).all(0) if given else None


def combine_masks__none_ends_it(*masks):
    """You stop at the first None, and the masks after it are lost. None means no limit: go on with the next."""
    combined = None
    for mask in masks:
        if mask is None:
            break
        combined = mask if combined is None else combined & mask
    return combined


def combine_masks__exactly_one(*masks):
    """You use ^, which is True where exactly one of two masks allows. All of them have to: &."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined ^ mask
    return combined


def combine_masks__right__reduce(*masks):
    from functools import reduce

    return reduce(lambda a, b: b if a is None else a if b is None else a & b, masks, None)


def combine_masks__right__broadcast_and_stack(*masks):
    given = [mask for mask in masks if mask is not None]
    return torch.stack(torch.broadcast_tensors(*given)).all(dim=0) if given else None


def combine_masks__right__logical_and(*masks):
    combined = None
    for mask in filter(lambda m: m is not None, masks):
        combined = mask.clone() if combined is None else torch.logical_and(combined, mask)
    return combined


# --- check_causality -----------------------------------------------------------------------------------------------


def check_causality__looks_only_at_shapes(encode):
    """Your test looks only at the shape. Change a token, and look which outputs move."""
    assert encode(torch.randn(2, 6, 8)).shape == (2, 6, 8)


def check_causality__last_token_first_output(encode):
    """You change the last token and look at the first output only. A mask that is off by one leaks to the neighbour: look at every output before the change."""
    x = torch.randn(2, 6, 8)
    other = x.clone()
    other[:, -1] = 3 * torch.randn(2, 8)
    assert (encode(other) - encode(x))[:, 0].abs().max() <= 1e-4, "the future leaks"


def check_causality__only_the_future(encode):
    """You show that the future does not matter, but not that the past does. A model that reads nothing passes your test."""
    x = torch.randn(2, 6, 8)
    before = encode(x)
    for s in range(6):
        other = x.clone()
        other[:, s] = 3 * torch.randn(2, 8)
        assert (encode(other) - before)[:, :s].abs().sum() <= 1e-4, "the future leaks"


def check_causality__one_place_in_the_middle(encode):
    """You change one token in the middle. A leak at the end of the sequence is not seen there: try every place."""
    x = torch.randn(2, 6, 8)
    other = x.clone()
    other[:, 3] = 3 * torch.randn(2, 8)
    moved = (encode(other) - encode(x)).abs().amax((0, 2)) > 1e-4
    assert not moved[:3].any() and moved[3:].all(), "not causal"


def check_causality__own_output_must_not_move(encode):
    """You demand that the output at the changed token stays as it was. A token reads itself: only outputs before it must stay."""
    x = torch.randn(2, 6, 8)
    before = encode(x)
    for s in range(6):
        other = x.clone()
        other[:, s] = 3 * torch.randn(2, 8)
        assert (encode(other) - before)[:, : s + 1].abs().sum() <= 1e-4, "the future leaks"


def check_causality__wrong_way_round(encode):
    """Your test has time the wrong way round: it forbids that later outputs move. Those should; earlier ones must not."""
    x = torch.randn(2, 6, 8)
    before = encode(x)
    for s in reversed(range(6)):
        other = x.clone()
        other[:, s] = 3 * torch.randn(2, 8)
        assert (encode(other) - before)[:, s + 1 :].abs().sum() <= 1e-4, "the past leaks"


def check_causality__compares_with_itself(encode):
    """Both calls get the same tensor, so you compare a result with itself and nothing ever moves. Keep the original: x.clone()."""
    x = torch.randn(4, 6, 8)
    for s in range(1, 6):
        x = other = torch.cat((x[:, :s], 3 * torch.randn(4, 6 - s, 8)), 1)
        assert (encode(other) - encode(x))[:, :s].abs().max() <= 1e-4, "the future leaks"


def check_causality__returns_false(encode):
    """Your test returns False instead of raising: nobody looks at what a test returns. Use assert."""
    x = torch.randn(2, 6, 8)
    before = encode(x)
    for s in range(6):
        other = x.clone()
        other[:, s] = 3 * torch.randn(2, 8)
        moved = (encode(other) - before).abs().amax((0, 2)) > 1e-4
        if moved[:s].any() or not moved[s:].all():
            return False
    return True


def check_causality__never_calls_it(encode):
    """Your test never calls the function it is given: it checks its own mask instead of the model."""
    mask = torch.ones(6, 6).tril().bool()
    assert not mask.triu(1).any()


def check_causality__only_itself_is_read(encode):
    """You demand that only the output at the changed token moves. The outputs after it read it too."""
    x = torch.randn(3, 6, 8)
    before = encode(x)
    for s in range(6):
        other = x.clone()
        other[:, s] = 3 * torch.randn(3, 8)
        moved = (encode(other) - before).abs().amax((0, 2)) > 1e-4
        assert moved.tolist() == [t == s for t in range(6)], "not causal"


def check_causality__right__pairs(encode):
    x = torch.randn(3, 5, 8)
    before = encode(x)
    for s in range(5):
        other = x.clone()
        other[:, s] = 4 * torch.randn(3, 8)
        after = encode(other)
        for t in range(5):
            same = torch.allclose(after[:, t], before[:, t], atol=1e-4)
            assert same == (t < s), f"output {t} and input {s}"


def check_causality__right__prefixes(encode):
    x = torch.randn(2, 7, 8)
    before = encode(x)
    for s in range(7):
        future = x.clone()
        future[:, s:] = 3 * torch.randn(2, 7 - s, 8)
        if s:
            assert float((encode(future) - before)[:, :s].abs().max()) <= 1e-4, "the future leaks"
        single = x.clone()
        single[:, s] = 3 * torch.randn(2, 8)
        still = (encode(single) - before)[:, s:].abs().amax((0, 2)) <= 1e-4
        assert not still.any(), "part of the past is not read"


def check_causality__right__influence_matrix(encode):
    x = torch.randn(4, 6, 8)
    rows = []
    for s in range(6):
        other = x.clone()
        other[:, s] += 3 * torch.randn(4, 8)
        rows.append((encode(other) - encode(x)).abs().amax(dim=(0, 2)) > 1e-4)
    influence = torch.stack(rows, 1)  # (T, S)
    assert torch.equal(influence, torch.ones(6, 6).tril().bool()), f"who reads whom: {influence.int().tolist()}"


# --- make_palindromes ----------------------------------------------------------------------------------------------


def make_palindromes__question_missing(n, pairs, vocab, generator=None, mismatch="random"):
    """There is no [Q] between your halves. The model answers there: 2·pairs + 1 tokens."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.flip(1)
    pair = torch.randint(pairs, (n,), generator=generator)
    shift = torch.randint(1, vocab, (n,), generator=generator)
    rows = torch.arange(n)
    labels = rows % 2
    pair = pair if mismatch == "random" else torch.full_like(pair, pairs - 1)
    right[rows, pair] = (right[rows, pair] + shift * (1 - labels)) % vocab
    return torch.cat((left, right), 1), labels


def make_palindromes__copied_not_mirrored(n, pairs, vocab, generator=None, mismatch="random"):
    """Your right half repeats the left one. A palindrome is mirrored: flip it."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.clone()
    pair = torch.randint(pairs, (n,), generator=generator)
    shift = torch.randint(1, vocab, (n,), generator=generator)
    rows = torch.arange(n)
    labels = rows % 2
    pair = pair if mismatch == "random" else torch.full_like(pair, pairs - 1)
    right[rows, pair] = (right[rows, pair] + shift * (1 - labels)) % vocab
    return torch.cat((left, torch.full((n, 1), vocab), right), 1), labels


def make_palindromes__labels_swapped(n, pairs, vocab, generator=None, mismatch="random"):
    """Your labels are the wrong way round: 1 means palindrome."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.flip(1)
    pair = torch.randint(pairs, (n,), generator=generator)
    shift = torch.randint(1, vocab, (n,), generator=generator)
    rows = torch.arange(n)
    labels = rows % 2
    pair = pair if mismatch == "random" else torch.full_like(pair, pairs - 1)
    right[rows, pair] = (right[rows, pair] + shift * (1 - labels)) % vocab
    return torch.cat((left, torch.full((n, 1), vocab), right), 1), 1 - labels


def make_palindromes__balance_by_chance(n, pairs, vocab, generator=None, mismatch="random"):
    """You toss a coin for each label, so one batch has more palindromes than another. Make exactly every second one a palindrome."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.flip(1)
    labels = torch.randint(2, (n,), generator=generator)
    pair = torch.randint(pairs, (n,), generator=generator)
    pair = pair if mismatch == "random" else torch.full_like(pair, pairs - 1)
    rows = torch.arange(n)
    shift = torch.randint(1, vocab, (n,), generator=generator)
    right[rows, pair] = (right[rows, pair] + shift * (1 - labels)) % vocab
    return torch.cat((left, torch.full((n, 1), vocab), right), 1), labels


def make_palindromes__new_letter_may_be_the_old(n, pairs, vocab, generator=None, mismatch="random"):
    """Your new letter is drawn among all letters, so it is sometimes the old one: some sequences with label 0 are palindromes. Shift by 1 … vocab − 1."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.flip(1)
    rows = torch.arange(n)
    labels = rows % 2
    pair = torch.randint(pairs, (n,), generator=generator)
    pair = pair if mismatch == "random" else torch.full_like(pair, pairs - 1)
    new = torch.randint(vocab, (n,), generator=generator)
    right[rows, pair] = torch.where(labels == 1, right[rows, pair], new)
    return torch.cat((left, torch.full((n, 1), vocab), right), 1), labels


def make_palindromes__right_half_at_random(n, pairs, vocab, generator=None, mismatch="random"):
    """Your non-palindromes have a right half drawn at random: mostly several pairs differ, sometimes none. Change exactly one pair."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    labels = torch.arange(n) % 2
    other = torch.randint(vocab, (n, pairs), generator=generator)
    right = torch.where(labels[:, None] == 1, left.flip(1), other)
    return torch.cat((left, torch.full((n, 1), vocab), right), 1), labels


def make_palindromes__outer_ignored(n, pairs, vocab, generator=None, mismatch="random"):
    """mismatch="outer" changes nothing in your data: any pair may differ. It has to be the outermost one."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.flip(1)
    pair = torch.randint(pairs, (n,), generator=generator)
    shift = torch.randint(1, vocab, (n,), generator=generator)
    rows = torch.arange(n)
    labels = rows % 2
    right[rows, pair] = (right[rows, pair] + shift * (1 - labels)) % vocab
    return torch.cat((left, torch.full((n, 1), vocab), right), 1), labels


def make_palindromes__outer_is_innermost(n, pairs, vocab, generator=None, mismatch="random"):
    """With mismatch="outer" you change the pair beside the centre. The first column of the right half stands next to [Q]; the last is the far end."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.flip(1)
    pair = torch.randint(pairs, (n,), generator=generator)
    shift = torch.randint(1, vocab, (n,), generator=generator)
    rows = torch.arange(n)
    labels = rows % 2
    pair = pair if mismatch == "random" else torch.zeros_like(pair)
    right[rows, pair] = (right[rows, pair] + shift * (1 - labels)) % vocab
    return torch.cat((left, torch.full((n, 1), vocab), right), 1), labels


def make_palindromes__question_is_a_letter(n, pairs, vocab, generator=None, mismatch="random"):
    """Your [Q] is 0, which is also a letter. It needs a number of its own: vocab."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.flip(1)
    pair = torch.randint(pairs, (n,), generator=generator)
    shift = torch.randint(1, vocab, (n,), generator=generator)
    rows = torch.arange(n)
    labels = rows % 2
    pair = pair if mismatch == "random" else torch.full_like(pair, pairs - 1)
    right[rows, pair] = (right[rows, pair] + shift * (1 - labels)) % vocab
    return torch.cat((left, torch.zeros(n, 1, dtype=torch.long), right), 1), labels


def make_palindromes__letters_from_one(n, pairs, vocab, generator=None, mismatch="random"):
    """Your letters are 1 … vocab, and the last of them is also [Q]. Letters are 0 … vocab − 1."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.flip(1)
    pair = torch.randint(pairs, (n,), generator=generator)
    shift = torch.randint(1, vocab, (n,), generator=generator)
    rows = torch.arange(n)
    labels = rows % 2
    pair = pair if mismatch == "random" else torch.full_like(pair, pairs - 1)
    right[rows, pair] = (right[rows, pair] + shift * (1 - labels)) % vocab
    return torch.cat((left + 1, torch.full((n, 1), vocab), right + 1), 1), labels


def make_palindromes__always_the_next_letter(n, pairs, vocab, generator=None, mismatch="random"):
    """A letter that differs is always the next one in your data. Any other letter should be possible, or the model learns a rule about neighbours."""
    left = torch.randint(vocab, (n, pairs), generator=generator)
    right = left.flip(1)
    rows = torch.arange(n)
    labels = rows % 2
    pair = torch.randint(pairs, (n,), generator=generator)
    pair = pair if mismatch == "random" else torch.full_like(pair, pairs - 1)
    right[rows, pair] = (right[rows, pair] + 1 - labels) % vocab
    return torch.cat((left, torch.full((n, 1), vocab), right), 1), labels


def make_palindromes__right__loops(n, pairs, vocab, generator=None, mismatch="random"):
    rows = []
    for i in range(n):
        half = torch.randint(vocab, (pairs,), generator=generator).tolist()
        other = list(half)
        if i % 2 == 0:
            at = 0 if mismatch == "outer" else int(torch.randint(pairs, (1,), generator=generator))
            choices = [letter for letter in range(vocab) if letter != half[at]]
            other[at] = choices[int(torch.randint(vocab - 1, (1,), generator=generator))]
        rows.append(half + [vocab] + other[::-1])
    return torch.tensor(rows), torch.tensor([i % 2 for i in range(n)])


def make_palindromes__right__left_half_changed(n, pairs, vocab, generator=None, mismatch="random"):
    right = torch.randint(0, vocab, (n, pairs), generator=generator)
    left = right.flip(1)
    labels = torch.zeros(n, dtype=torch.long)
    labels[: n // 2] = 1
    column = torch.zeros(n, dtype=torch.long)
    if mismatch == "random":
        column = torch.randint(0, pairs, (n,), generator=generator)
    shift = torch.randint(1, vocab, (n,), generator=generator)
    change = F.one_hot(column, pairs) * (shift * (labels == 0))[:, None]
    return torch.cat([(left + change) % vocab, torch.full((n, 1), vocab), right], dim=1), labels


def make_palindromes__right__shuffled_halves(n, pairs, vocab, generator=None, mismatch="random"):
    half = torch.randint(vocab, (n, pairs), generator=generator)
    labels = (torch.arange(n) % 2)[torch.randperm(n, generator=generator)]
    mirror = half.clone()
    for row in (labels == 0).nonzero().flatten().tolist():
        at = 0 if mismatch == "outer" else torch.randint(pairs, (1,), generator=generator).item()
        mirror[row, at] += torch.randint(1, vocab, (1,), generator=generator).item()
    mirror %= vocab
    return torch.hstack((half, half.new_full((n, 1), vocab), mirror.flip(1))), labels


# --- PalindromeClassifier ------------------------------------------------------------------------------------------


class PalindromeClassifier__reads_the_last_token(PalindromeClassifier):
    """You read the verdict at the last token. [Q] stands at the centre, at place `pairs`."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.encoder(self.positions(self.letters(tokens)), mask)[:, -1])


class PalindromeClassifier__reads_the_first_token(PalindromeClassifier):
    """You read the verdict at the first token, where BERT has its [CLS]. Here [Q] stands at the centre, at place `pairs`."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.encoder(self.positions(self.letters(tokens)), mask)[:, 0])


class PalindromeClassifier__one_past_the_centre(PalindromeClassifier):
    """Off by one: counted from 0, the centre of 2·pairs + 1 tokens is at place `pairs`."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.encoder(self.positions(self.letters(tokens)), mask)[:, self.pairs + 1])


class PalindromeClassifier__mean_of_all(PalindromeClassifier):
    """You average over all tokens. Then the far ends reach the verdict without any attention, and the experiment shows nothing: read the centre."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.encoder(self.positions(self.letters(tokens)), mask).mean(1))


class PalindromeClassifier__mask_forgotten(PalindromeClassifier):
    """The mask never reaches the encoder: a causal model reads the future as if nothing were."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.encoder(self.positions(self.letters(tokens)))[:, self.pairs])


class PalindromeClassifier__positions_forgotten(PalindromeClassifier):
    """You leave out the positions. Without them the letters are a set, and every order of them looks the same."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.encoder(self.letters(tokens), mask)[:, self.pairs])


class PalindromeClassifier__positions_twice(PalindromeClassifier):
    """You add the positions twice: `self.positions(x)` returns x + P already."""

    def forward(self, tokens, mask=None):
        x = self.letters(tokens)
        return self.verdict(self.encoder(self.positions(x) + self.positions.weight, mask)[:, self.pairs])


class PalindromeClassifier__probabilities(PalindromeClassifier):
    """You return probabilities. Return the logits: cross-entropy applies the softmax itself, and a second one flattens its gradient."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.encoder(self.positions(self.letters(tokens)), mask)[:, self.pairs]).softmax(-1)


class PalindromeClassifier__decided_already(PalindromeClassifier):
    """You return the winning class. Nothing can be trained through an argmax: return the two logits."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.encoder(self.positions(self.letters(tokens)), mask)[:, self.pairs]).argmax(-1)


class PalindromeClassifier__verdict_everywhere(PalindromeClassifier):
    """You return a verdict for every token. One is asked for, at the centre: (B, 2)."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.encoder(self.positions(self.letters(tokens)), mask))


class PalindromeClassifier__no_encoder(PalindromeClassifier):
    """The encoder is never called: the centre sees nothing but [Q] and its place."""

    def forward(self, tokens, mask=None):
        return self.verdict(self.positions(self.letters(tokens))[:, self.pairs])


class PalindromeClassifier__right__verdict_then_select(PalindromeClassifier):
    def forward(self, tokens, mask=None):
        everywhere = self.verdict(self.encoder(self.positions(self.letters(tokens)), mask))
        return everywhere[:, tokens.size(1) // 2, :]


class PalindromeClassifier__right__spelled_out(PalindromeClassifier):
    def forward(self, tokens, mask=None):
        x = F.embedding(tokens, self.letters.weight) + self.positions.weight[: tokens.shape[1]]
        for layer in self.encoder.layers:
            x = layer(x, mask)
        return F.linear(self.encoder.norm(x).select(1, self.pairs), self.verdict.weight, self.verdict.bias)


class PalindromeClassifier__right__centre_found(PalindromeClassifier):
    def forward(self, tokens, mask=None):
        encoded = self.encoder(self.positions(self.letters(tokens)), mask=mask)
        at_question = F.one_hot(torch.full_like(tokens[:, 0], self.pairs), tokens.size(1)).to(encoded.dtype)
        return self.verdict(torch.einsum("btd,bt->bd", encoded, at_question))


# --- can_solve -----------------------------------------------------------------------------------------------------


def can_solve__causal_forgotten(pairs, n_layers, window, causal):
    """You leave out the causal mask. Behind it the centre never hears of the right half, however many layers there are."""
    return n_layers * window >= pairs


def can_solve__must_be_more(pairs, n_layers, window, causal):
    """You ask for more than the distance. News that travels exactly as far arrives: ≥, not >."""
    return not causal and n_layers * window > pairs


def can_solve__layers_ignored(pairs, n_layers, window, causal):
    """You look at one layer only. Each layer carries the news `window` tokens further."""
    return not causal and window >= pairs


def can_solve__window_ignored(pairs, n_layers, window, causal):
    """You count layers only. Each of them carries the news `window` tokens, not one."""
    return not causal and n_layers >= pairs


def can_solve__sum_instead_of_product(pairs, n_layers, window, causal):
    """You add layers and window. Every layer brings the whole window again: multiply."""
    return not causal and n_layers + window >= pairs


def can_solve__from_end_to_end(pairs, n_layers, window, causal):
    """You ask the news to travel from one end to the other. It meets in the middle: `pairs` tokens from either end."""
    return not causal and n_layers * window >= 2 * pairs


def can_solve__both_sides_counted(pairs, n_layers, window, causal):
    """You count the window on both sides, 2w. News from one end travels in one direction: w a layer."""
    return not causal and n_layers * 2 * window >= pairs


def can_solve__whole_window_counted(pairs, n_layers, window, causal):
    """You take the whole width 2w + 1 as the step of a layer. From its place a token reaches w to one side."""
    return not causal and n_layers * (2 * window + 1) >= pairs


def can_solve__powers(pairs, n_layers, window, causal):
    """You let the reach multiply from layer to layer. It adds up: each layer carries the news the same w further."""
    return not causal and window**n_layers >= pairs


def can_solve__causal_is_enough(pairs, n_layers, window, causal):
    """You have causal the wrong way round: it is the causal model that cannot."""
    return causal and n_layers * window >= pairs


def can_solve__steps_rounded_down(pairs, n_layers, window, causal):
    """You round the number of steps down: 5 // 2 = 2 steps of two end one place short of five. Round up, or ask whether layers times window reach."""
    return not causal and window > 0 and n_layers >= pairs // window


def can_solve__one_layer_for_free(pairs, n_layers, window, causal):
    """You count one layer more than there are. The centre starts at its own place; only layers carry news."""
    return not causal and (n_layers + 1) * window >= pairs


def can_solve__causal_takes_twice_as_long(pairs, n_layers, window, causal):
    """You let a causal model get there with twice the reach. News from the right never travels left behind a causal mask, however many layers there are."""
    return n_layers * window >= (2 * pairs if causal else pairs)


def can_solve__right__steps(pairs, n_layers, window, causal):
    if causal:
        return False
    heard = 0
    for _ in range(n_layers):
        heard += window
    return heard >= pairs


def can_solve__right__layers_needed(pairs, n_layers, window, causal):
    if causal or window == 0:
        return False
    return -(-pairs // window) <= n_layers


def can_solve__right__follows_the_mask(pairs, n_layers, window, causal):
    n = 2 * pairs + 1
    heard = {pairs}
    for _ in range(n_layers):
        heard = {s for t in heard for s in range(n) if abs(t - s) <= window and (s <= t or not causal)}
    return 0 in heard and n - 1 in heard


# --- sees ----------------------------------------------------------------------------------------------------------


def sees__changes_the_first_token(model, tokens, mask=None):
    """You change the first token. The past is visible to a causal model as well; change the last one."""
    changed = tokens.clone()
    changed[:, 0] = (changed[:, 0] + 1) % tokens.max()
    return not torch.equal(model(tokens, mask), model(changed, mask))


def sees__same_tensor_twice(model, tokens, mask=None):
    """`changed = tokens` is the same tensor under another name: you change both, and never see a difference. Use .clone()."""
    changed = tokens
    changed[:, -1] = (changed[:, -1] + 1) % tokens.max()
    return not torch.equal(model(tokens, mask), model(changed, mask))


def sees__inverted(model, tokens, mask=None):
    """Your answer is the wrong way round: True when the logits move."""
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % tokens.max()
    return torch.equal(model(tokens, mask), model(changed, mask))


def sees__mask_forgotten(model, tokens, mask=None):
    """The mask never reaches the model: without one, everything is seen."""
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % tokens.max()
    return not torch.equal(model(tokens), model(changed))


def sees__mask_in_one_call_only(model, tokens, mask=None):
    """Only one of your two calls has the mask, so the results differ because of the mask. Change one thing at a time."""
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % tokens.max()
    return not torch.equal(model(tokens, mask), model(changed))


def sees__changes_the_question(model, tokens, mask=None):
    """You change the token at the centre, which every model sees. Change the last one."""
    changed = tokens.clone()
    changed[:, tokens.size(1) // 2] = 0
    return not torch.equal(model(tokens, mask), model(changed, mask))


def sees__changes_the_neighbour(model, tokens, mask=None):
    """You change the token beside the centre: one step is enough to hear of it. Change the last one."""
    changed = tokens.clone()
    at = tokens.size(1) // 2 + 1
    changed[:, at] = (changed[:, at] + 1) % tokens.max()
    return not torch.equal(model(tokens, mask), model(changed, mask))


def sees__set_to_zero(model, tokens, mask=None):
    """You set the last token to 0. Where it was 0 already, nothing has changed: make it another letter."""
    changed = tokens.clone()
    changed[:, -1] = 0
    return not torch.equal(model(tokens, mask), model(changed, mask))


def sees__beyond_the_letters(model, tokens, mask=None):
    """You add 1 to the last token without going round: the last letter becomes [Q]. Stay among the letters with %."""
    changed = tokens.clone()
    changed[:, -1] = changed[:, -1] + 1
    return not torch.equal(model(tokens, mask), model(changed, mask))


def sees__only_the_verdict(model, tokens, mask=None):
    """You compare the winning classes. An untrained model hears a change long before its verdict flips: compare the logits."""
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % tokens.max()
    return not torch.equal(model(tokens, mask).argmax(-1), model(changed, mask).argmax(-1))


def sees__all_tokens_changed(model, tokens, mask=None):
    """You change every letter of the sequence, so every model notices. Change the last one and nothing else."""
    vocab = tokens.max()
    changed = torch.where(tokens == vocab, tokens, (tokens + 1) % vocab)
    return not torch.equal(model(tokens, mask), model(changed, mask))


def sees__right__allclose(model, tokens, mask=None):
    last = (tokens[:, -1:] + 1) % int(tokens.max())
    changed = torch.cat((tokens[:, :-1], last), dim=1)
    with torch.no_grad():
        return not torch.allclose(model(tokens, mask), model(changed, mask), rtol=0, atol=1e-7)


def sees__right__every_other_letter(model, tokens, mask=None):
    vocab = int(tokens.max())
    before = model(tokens, mask)
    moved = False
    for shift in range(1, vocab):
        changed = tokens.clone()
        changed[:, -1] = (tokens[:, -1] + shift) % vocab
        moved = moved or bool((model(changed, mask) != before).any())
    return moved


def sees__right__one_row_at_a_time(model, tokens, mask=None):
    for row in tokens:
        changed = row.clone()
        changed[-1] = row[-1] - 1 if row[-1] > 0 else row.max() - 1
        if (model(row[None], mask) - model(changed[None], mask)).abs().max() > 0:
            return True
    return False


# --- train_palindrome ----------------------------------------------------------------------------------------------


def train_palindrome__never_steps(model, mask=None, steps=500, lr=2e-3, seed=0):
    """No weight of your model moves: either optimizer.step() is missing, or zero_grad() stands between backward and step and erases what was to be used."""
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator().manual_seed(seed)
    losses = []
    while len(losses) < steps and min(losses, default=1.0) > 1e-3:
        tokens, labels = make_palindromes(256, model.pairs, vocab, generator)
        loss = F.cross_entropy(model(tokens, mask), labels)
        loss.backward()
        losses.append(loss.item())
    return losses


def train_palindrome__mask_forgotten(model, mask=None, steps=500, lr=2e-3, seed=0):
    """You train without the mask: the model learns from tokens that it will not see afterwards."""
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses = []
    while len(losses) < steps and min(losses, default=1.0) > 1e-3:
        optimizer.param_groups[0]["lr"] = warmup_cosine(len(losses), steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, vocab, generator)
        loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_palindrome__labels_inverted(model, mask=None, steps=500, lr=2e-3, seed=0):
    """You train with the labels the wrong way round: the loss falls, and every verdict is wrong."""
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses = []
    while len(losses) < steps and min(losses, default=1.0) > 1e-3:
        optimizer.param_groups[0]["lr"] = warmup_cosine(len(losses), steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, vocab, generator)
        loss = F.cross_entropy(model(tokens, mask), 1 - labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_palindrome__only_the_last_layer(model, mask=None, steps=500, lr=2e-3, seed=0):
    """You train the verdict's weights only. The encoder has to learn to compare the two ends: train all parameters."""
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.verdict.parameters(), weight_decay=0.0)
    losses = []
    while len(losses) < steps and min(losses, default=1.0) > 1e-3:
        optimizer.param_groups[0]["lr"] = warmup_cosine(len(losses), steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, vocab, generator)
        loss = F.cross_entropy(model(tokens, mask), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_palindrome__never_ends_early(model, mask=None, steps=500, lr=2e-3, seed=0):
    """You always run all steps. Stop at the first loss of 1e-3 or less: there is nothing left to learn."""
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses = []
    while len(losses) < steps:
        optimizer.param_groups[0]["lr"] = warmup_cosine(len(losses), steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, vocab, generator)
        loss = F.cross_entropy(model(tokens, mask), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_palindrome__losses_are_tensors(model, mask=None, steps=500, lr=2e-3, seed=0):
    """Your losses are tensors, each holding on to the graph of its step: memory fills up. Keep plain numbers, loss.item()."""
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses = []
    while len(losses) < steps and (not losses or losses[-1] > 1e-3):
        optimizer.param_groups[0]["lr"] = warmup_cosine(len(losses), steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, vocab, generator)
        loss = F.cross_entropy(model(tokens, mask), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return losses


def train_palindrome__last_loss_only(model, mask=None, steps=500, lr=2e-3, seed=0):
    """You return the last loss. Return them all, one a step: a curve says more than its end."""
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = warmup_cosine(step, steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, vocab, generator)
        loss = F.cross_entropy(model(tokens, mask), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if loss <= 1e-3:
            break
    return loss.item()


def train_palindrome__seed_ignored(model, mask=None, steps=500, lr=2e-3, seed=0):
    """The same seed gives you other batches each time. Make one torch.Generator, seed it once, hand it to make_palindromes, and draw every random number there with generator=generator."""
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses = []
    while len(losses) < steps and min(losses, default=1.0) > 1e-3:
        optimizer.param_groups[0]["lr"] = warmup_cosine(len(losses), steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, model.letters.num_embeddings - 1)
        loss = F.cross_entropy(model(tokens, mask), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_palindrome__uphill(model, mask=None, steps=500, lr=2e-3, seed=0):
    """You go uphill: the loss grows. An optimizer goes down the gradient by itself; no minus sign is needed."""
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses = []
    while len(losses) < steps and min(losses, default=1.0) > 1e-3:
        optimizer.param_groups[0]["lr"] = warmup_cosine(len(losses), steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, vocab, generator)
        loss = F.cross_entropy(model(tokens, mask), labels)
        optimizer.zero_grad()
        (-loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_palindrome__right__scheduler(model, mask=None, steps=500, lr=2e-3, seed=0):
    g = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warmup_cosine(step, steps, 50))
    losses = []
    for _ in range(steps):
        tokens, labels = make_palindromes(256, model.pairs, model.letters.num_embeddings - 1, generator=g)
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(model(tokens, mask), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(float(loss.detach()))
        if losses[-1] <= 1e-3:
            break
    return losses


def train_palindrome__right__one_loop_for_all(model, mask=None, steps=500, lr=2e-3, seed=0):
    vocab = model.letters.num_embeddings - 1
    generator = torch.Generator().manual_seed(seed)
    return fit(
        model,
        lambda m, batch: F.cross_entropy(m(batch[0], mask), batch[1]),
        lambda step: make_palindromes(256, model.pairs, vocab, generator),
        TrainConfig(steps, lr, warmup=50, weight_decay=0.0, quiet=True),
        on_step=lambda step, loss: loss <= 1e-3,
    )


def train_palindrome__right__log_probabilities(model, mask=None, steps=500, lr=2e-3, seed=0):
    generator = torch.Generator().manual_seed(seed + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    losses = [float("inf")]
    model.train()
    while len(losses) <= steps and losses[-1] > 1e-3:
        for group in optimizer.param_groups:
            group["lr"] = warmup_cosine(len(losses) - 1, steps, 50, lr)
        tokens, labels = make_palindromes(256, model.pairs, model.letters.num_embeddings - 1, generator)
        log_probabilities = model(tokens, mask).log_softmax(-1)
        loss = -log_probabilities[torch.arange(256), labels].mean()
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses[1:]
