import math

import pytest
import torch
from device import REAL_DEVICES, check_device
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_same, jitter
from torch import nn
from torch.nn import functional as F

from encoder.feedforward import ACTIVATIONS, ConvFeedForward, FeedForward, SeparableFeedForward, gelu, gelu_tanh

B, T, D, W = 2, 7, 4, 6


@given(st.floats(-8, 8))
def test_gelu_is_x_times_the_chance_that_a_normal_number_is_smaller(x):
    expected = x * (1 + math.erf(x / math.sqrt(2))) / 2
    assert math.isclose(gelu(torch.tensor(x, dtype=torch.float64)), expected, rel_tol=1e-9, abs_tol=1e-12)


def test_both_gelus_equal_the_fused_kernels_that_modules_run():
    x = torch.linspace(-6, 6, 1001)
    assert_same(gelu(x), ACTIVATIONS["gelu"](x), 1e-6)
    assert_same(gelu_tanh(x), ACTIVATIONS["gelu_tanh"](x), 1e-6)
    gap = (gelu(x) - gelu_tanh(x)).abs().max()
    assert 1e-4 < gap < 5e-4, "the tanh form is near, not equal"


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize(
    ("activation", "theirs"), [("relu", nn.ReLU()), ("gelu", nn.GELU()), ("gelu_tanh", nn.GELU(approximate="tanh"))]
)
def test_the_network_equals_a_chain_of_pytorch_layers(activation, theirs, device):
    ours = jitter(FeedForward(D, W, activation)).to(device)
    x = torch.randn(B, T, D, device=device)
    assert_same(ours(x), nn.Sequential(ours.up, theirs, ours.down)(x))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_it_is_a_convolution_of_width_one_gradients_included(activation):
    ours, conv = jitter(FeedForward(D, W, activation)), ConvFeedForward(D, W, activation)
    conv.load_state_dict({k: p[..., None] if p.dim() == 2 else p for k, p in ours.state_dict().items()})
    x = torch.randn(B, T, D, requires_grad=True)
    assert_same(conv(x), ours(x))
    upstream = torch.randn(B, T, D)
    conv(x).backward(upstream)
    from_conv, x.grad = x.grad, None
    ours(x).backward(upstream)
    assert_same(from_conv, x.grad)
    assert_same(conv.up.weight.grad[..., 0], ours.up.weight.grad)


def moved(module: nn.Module, t: int) -> list[int]:
    """The positions whose output moves when token t does."""
    x = torch.randn(1, T, D)
    y = x.clone()
    y[:, t] += 1
    return (module(x) != module(y)).any(-1)[0].nonzero()[:, 0].tolist()


@given(st.integers(0, T - 1))
def test_a_token_moves_its_own_output_only(t):
    assert moved(FeedForward(D, W), t) == [t]
    assert moved(ConvFeedForward(D, W), t) == [t]


@given(st.integers(0, T - 1), st.sampled_from([1, 3, 5]))
def test_the_separable_version_also_moves_the_neighbours_in_its_kernel(t, kernel):
    reach = kernel // 2
    assert moved(SeparableFeedForward(D, W, kernel), t) == list(range(max(0, t - reach), min(T, t + reach + 1)))


def test_the_separable_version_equals_its_sum():
    ours = jitter(SeparableFeedForward(D, W, 3), 0.5)
    x = torch.randn(B, T, D)
    c, padded = ours.depthwise.weight, F.pad(x, (0, 0, 1, 1))
    mixed = sum(c[:, 0, j] * padded[:, j : j + T] for j in range(3)) + ours.depthwise.bias
    assert_same(ours(x), ours.pointwise(mixed))


@given(st.integers(1, T - 1))
def test_padding_never_changes_other_tokens(length):
    ours = SeparableFeedForward(D, W, 5)
    x = torch.randn(1, T, D)
    x[:, length:] = torch.nan
    mask = (torch.arange(T) < length)[None, None, None]
    alone = ours(x[:, :length])
    assert_same(ours(x, mask)[:, :length], alone)


def test_they_run_on_any_device():
    x, mask = torch.randn(B, T, D, requires_grad=True), torch.ones(B, 1, 1, T, dtype=torch.bool)
    check_device(gelu, x)
    check_device(gelu_tanh, x)
    check_device(FeedForward(D, W), x)
    check_device(ConvFeedForward(D, W), x)
    check_device(SeparableFeedForward(D, W), x, mask)


def test_bad_input_is_told_in_one_sentence():
    for module in (FeedForward, ConvFeedForward):
        with pytest.raises(ValueError, match="one of relu, gelu, gelu_tanh, got 'swish'"):
            module(D, W, "swish")
    with pytest.raises(ValueError, match="odd, so that it has a centre, got 4"):
        SeparableFeedForward(D, W, 4)
    with pytest.raises(ValueError, match=r"rank 3 and width 4, got shape \(2, 7, 5\)"):
        ConvFeedForward(D, W)(torch.randn(B, T, 5))
    with pytest.raises(ValueError, match=r"got shape \(7, 4\)"):
        SeparableFeedForward(D, W)(torch.randn(T, D))


def test_the_separable_network_has_the_activation_that_was_asked_for():
    network, x = SeparableFeedForward(5, 7, activation="relu"), torch.randn(2, 3, 5)
    mixed = network.depthwise(x.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(network(x), network.pointwise.down(network.pointwise.up(mixed).relu()))


def test_the_constant_of_the_tanh_is_exact():
    x = torch.linspace(-4, 4, 81, dtype=torch.float64)
    torch.testing.assert_close(gelu_tanh(x), torch.nn.functional.gelu(x, approximate="tanh"), atol=1e-9, rtol=0)
