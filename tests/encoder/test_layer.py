import pytest
import torch
from device import REAL_DEVICES, check_device
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_same, assert_same_layer_grads, copy_layer, jitter
from torch import nn

from encoder.layer import EncoderLayer, LayerNorm, layer_norm
from encoder.stack import padding_mask

B, T, D, H, W = 2, 5, 12, 3, 7


def make(norm_first: bool, sizes: tuple[int, int, int] = (D, H, W), activation: str = "gelu", device: str = "cpu"):
    theirs = jitter(
        nn.TransformerEncoderLayer(*sizes, 0.0, activation, batch_first=True, norm_first=norm_first, device=device)
    )
    ours = EncoderLayer(*sizes, norm_first, activation=activation).to(device)
    copy_layer(ours, theirs)
    return ours, theirs


def test_layer_norm_by_hand():
    """1, 2, 3, 6: mean 3, variance (4 + 1 + 0 + 9) / 4 = 3.5."""
    y = layer_norm(torch.tensor([1.0, 2.0, 3.0, 6.0]), torch.ones(4), torch.zeros(4), eps=0.5)
    assert_same(y, torch.tensor([-1.0, -0.5, 0.0, 1.5]))


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_the_formula_and_the_module_equal_pytorchs_with_gradients(eps):
    theirs, ours = jitter(nn.LayerNorm(D, eps), 0.5), LayerNorm(D, eps)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(B, T, D, requires_grad=True)
    upstream = torch.randn(B, T, D)
    expected = torch.autograd.grad(theirs(x), (x, theirs.weight, theirs.bias), upstream)
    for y in (layer_norm(x, ours.weight, ours.bias, eps), ours(x)):
        assert_same(y, theirs(x))
        for a, b in zip(torch.autograd.grad(y, (x, ours.weight, ours.bias), upstream), expected, strict=True):
            assert_same(a, b)


@given(st.floats(0.1, 100), st.floats(-100, 100))
def test_shift_and_scale_of_a_token_are_forgotten(scale, shift):
    norm = LayerNorm(D, eps=1e-12).double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    assert_same(norm(x * scale + shift), norm(x))


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize(("sizes", "activation"), [((D, H, W), "gelu"), ((D, H, W), "relu"), ((768, 12, 3072), "gelu")])
def test_the_layer_and_its_gradients_equal_pytorchs(norm_first, sizes, activation, device):
    ours, theirs = make(norm_first, sizes, activation, device)
    x = torch.randn(B, T, sizes[0], device=device, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    mask = padding_mask(torch.tensor([T, 2], device=device), T)
    out, expected = ours(x, mask), theirs(y, src_key_padding_mask=~mask[:, 0, 0])
    assert_same(out, expected)
    upstream = torch.randn_like(out) / sizes[0] ** 0.5
    out.backward(upstream)
    expected.backward(upstream)
    assert_same(x.grad, y.grad)
    assert_same_layer_grads(ours, theirs)


def test_before_and_after_are_not_the_same():
    """Post-LN leaves every token with the mean and variance of its norm; pre-LN leaves the residual stream alone."""
    x = torch.randn(B, T, D) * 10
    post = EncoderLayer(D, H, W, norm_first=False)(x)
    assert_same(post.mean(-1), torch.zeros(B, T), 1e-4)
    assert_same(post.std(-1, correction=0), torch.ones(B, T), 1e-3)
    pre = EncoderLayer(D, H, W, norm_first=True)
    nn.init.zeros_(pre.attention.out_proj.weight)
    nn.init.zeros_(pre.attention.out_proj.bias)
    nn.init.zeros_(pre.feedforward.down.weight)
    nn.init.zeros_(pre.feedforward.down.bias)
    assert torch.equal(pre(x), x)


def test_the_gradient_of_a_residual_stack_is_the_sum_over_what_each_layer_adds():
    """∂L/∂x_l = ∂L/∂x_L + Σ_i J_iᵀ ∂L/∂x_{i+1} with J_i = ∂f_i/∂x_i, f_i(x) = layer_i(x) − x: formula 5, mended."""
    layers = [jitter(EncoderLayer(D, H, W)).double() for _ in range(3)]
    xs = [torch.randn(B, T, D, dtype=torch.double, requires_grad=True)]
    for layer in layers:
        xs.append(layer(xs[-1]))
        xs[-1].retain_grad()
    xs[-1].backward(torch.randn_like(xs[-1]))
    total = xs[-1].grad
    for layer, x, after in zip(layers, xs, xs[1:], strict=False):
        x = x.detach().requires_grad_()
        total = total + torch.autograd.grad(layer(x) - x, x, after.grad)[0]
    torch.testing.assert_close(total, xs[0].grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("norm_first", [True, False])
def test_dropout_lives_in_training_only(norm_first):
    layer, x = EncoderLayer(D, H, W, norm_first, dropout=0.5), torch.randn(B, T, D)
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


def test_a_bias_reaches_the_attention():
    layer, x, bias = EncoderLayer(D, H, W), torch.randn(B, T, D), torch.randn(1, H, T, T)
    assert_same(layer(x, bias=bias) - layer(x), layer(x, None, bias) - layer(x))
    assert (layer(x, bias=bias) - layer(x)).abs().max() > 1e-4


@pytest.mark.parametrize("norm_first", [True, False])
def test_it_runs_on_any_device(norm_first):
    x, mask = torch.randn(B, T, D, requires_grad=True), torch.ones(B, 1, 1, T, dtype=torch.bool)
    check_device(EncoderLayer(D, H, W, norm_first, dropout=0.1), x, mask)
    check_device(LayerNorm(D), x)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(ValueError, match="d_model=12 and n_heads=5"):
        EncoderLayer(D, 5, W)
    for norm_first in (True, False):
        with pytest.raises(ValueError, match=r"rank 3 and width 12, got shape \(5, 12\)"):
            EncoderLayer(D, H, W, norm_first)(torch.randn(T, D))


@pytest.mark.parametrize("norm_first", [True, False])
def test_dropout_falls_on_the_weights_and_on_both_sublayers(norm_first):
    """With dropout 1 nothing is added to x, in training only."""
    layer, x = EncoderLayer(6, 2, 8, norm_first, dropout=1.0), torch.randn(2, 3, 6)
    expected = x if norm_first else layer.norm2(layer.norm1(x))
    assert torch.allclose(layer(x), expected)
    assert not torch.allclose(layer.eval()(x), expected)
    assert layer.attention.dropout == 1.0


@pytest.mark.parametrize("norm_first", [True, False])
def test_both_norms_have_the_eps_that_was_asked_for(norm_first):
    layer = EncoderLayer(6, 2, 8, norm_first, eps=0.5)
    assert layer.norm1.eps == layer.norm2.eps == 0.5


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_bias_that_forbids_is_a_mask(norm_first):
    layer, x = EncoderLayer(6, 2, 8, norm_first), torch.randn(2, 3, 6)
    mask = torch.tensor([True, False, True]).expand(3, 3)
    bias = torch.zeros(3, 3).masked_fill(~mask, -1e9)
    torch.testing.assert_close(layer(x, bias=bias), layer(x, mask))
