import pytest
import torch
from device import check_device
from hypothesis import given
from hypothesis import strategies as st

from encoder.masks import causal_mask, combine_masks, window_mask
from encoder.stack import Encoder, padding_mask

sizes = st.integers(1, 9)


@given(sizes)
def test_a_causal_mask_allows_itself_and_the_past(length):
    mask = causal_mask(length)
    assert mask.dtype == torch.bool and mask.shape == (length, length)
    assert all(mask[t, s] == (s <= t) for t in range(length) for s in range(length))


@given(sizes, st.integers(0, 10))
def test_a_window_is_measured_on_both_sides(length, window):
    mask = window_mask(length, window)
    assert mask.dtype == torch.bool and mask.shape == (length, length)
    assert all(mask[t, s] == (abs(t - s) <= window) for t in range(length) for s in range(length))


def test_masks_combine_where_all_allow():
    lengths = torch.tensor([4, 2])
    mask = combine_masks(causal_mask(4), None, padding_mask(lengths, 4))
    assert mask.shape == (2, 1, 4, 4)
    for b in range(2):
        for t in range(4):
            assert mask[b, 0, t].tolist() == [s <= t and s < lengths[b] for s in range(4)]
    assert combine_masks() is None and combine_masks(None, None) is None
    assert combine_masks(None, causal_mask(3)).equal(causal_mask(3))


def influences(encoder: Encoder, mask: torch.Tensor, length: int) -> torch.Tensor:
    """(T, T) bool: whether output t has any gradient from input s."""
    x = torch.randn(1, length, 8, requires_grad=True)
    outputs = encoder(x, mask)[0] @ torch.randn(8)
    return torch.stack([torch.autograd.grad(o, x, retain_graph=True)[0][0].abs().sum(-1) > 0 for o in outputs])


@given(st.integers(2, 7), st.integers(1, 3))
def test_no_output_depends_on_the_future(length, n_layers):
    encoder = Encoder(n_layers, 8, 2, 16)
    assert influences(encoder, causal_mask(length), length).equal(causal_mask(length))


@given(st.integers(2, 7), st.integers(1, 3), st.integers(0, 3))
def test_news_travels_one_window_a_layer(length, n_layers, window):
    encoder = Encoder(n_layers, 8, 2, 16)
    reached = influences(encoder, window_mask(length, window), length)
    assert reached.equal(window_mask(length, n_layers * window))


def test_they_are_made_on_the_device_asked_for():
    check_device(lambda x: causal_mask(x.size(0), x.device), torch.randn(3))
    check_device(lambda x: combine_masks(window_mask(3, 1, x.device), causal_mask(3, x.device)), torch.randn(3))


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(ValueError, match="0 or more, got -1"):
        window_mask(3, -1)
