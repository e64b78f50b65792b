import pytest
import torch
from device import check_device
from hypothesis import given
from hypothesis import strategies as st

from encoder.masks import causal_mask, window_mask
from encoder.palindrome import (
    PalindromeClassifier,
    make_palindromes,
    palindrome_accuracy,
    reach,
    sees,
    train_palindrome,
)

pairs_and_vocab = st.tuples(st.integers(1, 5), st.integers(2, 6))


def mismatches(tokens: torch.Tensor, pairs: int) -> torch.Tensor:
    """(n, pairs) bool, counted from the centre: does the pair differ?"""
    return tokens[:, :pairs].flip(1) != tokens[:, pairs + 1 :]


@given(pairs_and_vocab, st.sampled_from(["random", "outer"]))
def test_labels_are_true_and_balanced(sizes, mismatch):
    pairs, vocab = sizes
    tokens, labels = make_palindromes(40, pairs, vocab, mismatch=mismatch)
    assert tokens.shape == (40, 2 * pairs + 1) and tokens.dtype == labels.dtype == torch.int64
    assert labels.sum() == 20
    assert (tokens[:, pairs] == vocab).all(), "[Q] stands at the centre"
    letters = tokens[:, torch.arange(2 * pairs + 1) != pairs]
    assert letters.min() >= 0 and letters.max() < vocab
    assert torch.equal(mismatches(tokens, pairs).sum(1), 1 - labels), "one pair differs, or none"


def test_the_mismatch_is_where_it_was_asked_for():
    tokens, _ = make_palindromes(2000, 3, 4, mismatch="outer")
    assert mismatches(tokens, 3).sum(0).tolist() == [0, 0, 1000]
    tokens, _ = make_palindromes(3000, 3, 4)
    assert all(400 < n < 600 for n in mismatches(tokens, 3).sum(0).tolist())


def test_neither_half_alone_tells_the_label():
    """Every letter is as frequent at every place of a palindrome as of the others."""
    tokens, labels = make_palindromes(8000, 2, 4, mismatch="outer")
    for place in (0, 1, 3, 4):
        for label in (0, 1):
            share = tokens[labels == label, place].bincount(minlength=4) / 4000
            assert ((share - 0.25).abs() < 0.04).all()


def test_data_repeats_with_its_generator():
    a, b = (make_palindromes(9, 2, 3, torch.Generator().manual_seed(5))[0] for _ in range(2))
    assert torch.equal(a, b)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pairs", [1, 2, 3, 4])
def test_without_training_the_centre_sees_the_end_iff_reach_covers_it(pairs, causal):
    length = 2 * pairs + 1
    tokens, _ = make_palindromes(8, pairs, 4)
    for n_layers in (1, 2, 3):
        model = PalindromeClassifier(pairs, 4, n_layers).eval()
        for window in (0, 1, 2, 3, 4):
            mask = window_mask(length, window)
            mask = mask & causal_mask(length) if causal else mask
            assert sees(model, tokens, mask) == (reach(n_layers, window) >= pairs and not causal)
    assert sees(model, tokens), "without a mask all is seen"


def test_two_pairs_are_learnt_exactly_where_reach_says_so():
    outcomes = {}
    for name, n_layers, mask in [
        ("far enough", 2, window_mask(5, 1)),
        ("too near", 1, window_mask(5, 1)),
        ("causal", 2, causal_mask(5)),
    ]:
        torch.manual_seed(0)
        model = PalindromeClassifier(2, 4, n_layers)
        train_palindrome(model, mask, steps=500 if name == "far enough" else 150)
        outcomes[name] = palindrome_accuracy(model, mask)
    assert outcomes["far enough"] > 0.99
    assert 0.45 < outcomes["too near"] < 0.55
    assert 0.45 < outcomes["causal"] < 0.55


def test_training_returns_its_losses_and_ends_when_all_is_learnt():
    model = PalindromeClassifier(1, 2, 1)
    losses = train_palindrome(model, steps=400)
    assert losses[0] > 0.5 and losses[-1] < 1e-3 < losses[-2]
    assert len(losses) < 400


def test_it_runs_on_any_device():
    tokens, _ = make_palindromes(6, 2, 4)
    check_device(PalindromeClassifier(2, 4, 2), tokens, window_mask(5, 1))


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(ValueError, match="one of random, outer, got 'inner'"):
        make_palindromes(4, 2, 4, mismatch="inner")
    with pytest.raises(ValueError, match="got vocab=1 and pairs=2"):
        make_palindromes(4, 2, 1)
    with pytest.raises(ValueError, match="between 0 and 4, got 9"):
        PalindromeClassifier(2, 4, 1)(torch.full((1, 5), 9))
    with pytest.raises(ValueError, match="int64"):
        PalindromeClassifier(2, 4, 1)(torch.zeros(1, 5))
    with pytest.raises(ValueError, match=r"expected 5 tokens, .* got 3"):
        PalindromeClassifier(2, 4, 1)(torch.zeros(1, 3, dtype=torch.int64))
