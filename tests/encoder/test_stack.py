import pytest
import torch
from device import REAL_DEVICES, check_device
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_same, copy_encoder, jitter
from torch import nn

from encoder.packing import Packing
from encoder.stack import Encoder, mixed_precision, padding_mask, pick_device, prepare

B, T, L, D, H, W = 3, 6, 2, 12, 3, 7
LENGTHS = torch.tensor([6, 2, 4])


def test_a_padding_mask_marks_the_real_keys():
    mask = padding_mask(torch.tensor([3, 1]), 4)
    assert mask.dtype == torch.bool and mask.shape == (2, 1, 1, 4)
    assert mask[:, 0, 0].tolist() == [[True, True, True, False], [True, False, False, False]]
    assert padding_mask(LENGTHS).shape == (B, 1, 1, 6), "as long as the longest, if no size is given"


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("sizes", [(L, D, H, W), (12, 768, 12, 3072)])
def test_the_encoder_equals_pytorchs_packed_or_not(sizes, norm_first, device):
    n_layers, d_model, n_heads, d_ff = sizes
    layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, 0.0, "gelu", batch_first=True, norm_first=norm_first)
    norm = nn.LayerNorm(d_model) if norm_first else None
    theirs = jitter(nn.TransformerEncoder(layer, n_layers, norm, enable_nested_tensor=False)).to(device)
    ours = Encoder(*sizes, norm_first).to(device)
    copy_encoder(ours, theirs)
    x, lengths = torch.randn(B, T, d_model, device=device), LENGTHS.to(device)
    mask = padding_mask(lengths, T)
    real = mask[:, 0, 0, :, None]
    with torch.no_grad():
        expected = theirs(x, src_key_padding_mask=~mask[:, 0, 0])
        assert_same(ours(x, mask) * real, expected * real)
        assert_same(ours(x, lengths=lengths), expected * real)


@pytest.mark.parametrize("norm_first", [True, False])
def test_packing_changes_neither_outputs_nor_gradients(norm_first):
    encoder = jitter(Encoder(L, D, H, W, norm_first)).double()
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    mask = padding_mask(LENGTHS, T)
    upstream = torch.randn(B, T, D, dtype=torch.float64) * mask[:, 0, 0, :, None]
    weights = (x, *encoder.parameters())
    expected = torch.autograd.grad(encoder(x, mask), weights, upstream)
    packed = encoder(x, lengths=LENGTHS)
    assert (packed[~mask[:, 0, 0]] == 0).all()
    for a, b in zip(torch.autograd.grad(packed, weights, upstream), expected, strict=True):
        assert_same(a, b, 1e-10)


def test_lengths_may_be_a_list_or_a_packing_made_beforehand():
    encoder, x = Encoder(L, D, H, W), torch.randn(B, T, D)
    packing = Packing(LENGTHS, T)
    expected = encoder(x, lengths=LENGTHS)
    assert torch.equal(encoder(x, lengths=LENGTHS.tolist()), expected)
    assert torch.equal(packing.unpack(encoder(packing.pack(x), packing)), expected)


@given(st.integers(1, T - 1), st.booleans(), st.booleans())
def test_padding_never_changes_other_tokens(length, norm_first, pack):
    encoder = jitter(Encoder(L, D, H, W, norm_first))
    x = torch.randn(1, T, D)
    y = x.clone()
    y[:, length:] = 1e3 * torch.randn(1, T - length, D)
    call = {"lengths": [length]} if pack else {"mask": padding_mask(torch.tensor([length]), T)}
    assert torch.equal(encoder(x, **call)[:, :length], encoder(y, **call)[:, :length])
    assert_same(encoder(x, **call)[:, :length], encoder(x[:, :length]))


def test_no_gradient_reaches_padding():
    for call in ({"lengths": LENGTHS}, {"mask": padding_mask(LENGTHS, T)}):
        x = torch.randn(B, T, D, requires_grad=True)
        real = padding_mask(LENGTHS, T)[:, 0, 0]
        Encoder(L, D, H, W)(x, **call)[real].square().sum().backward()
        assert (x.grad[~real] == 0).all()
        assert (x.grad[real] != 0).any(-1).all()


@given(st.permutations(range(T)), st.booleans())
def test_without_positions_the_encoder_is_permutation_equivariant(order, norm_first):
    encoder, x = jitter(Encoder(L, D, H, W, norm_first)), torch.randn(B, T, D)
    assert_same(encoder(x[:, order]), encoder(x)[:, order])


def test_a_bias_reaches_every_layer():
    encoder, x = Encoder(1, D, H, W), torch.randn(B, T, D)
    bias = torch.full((1, H, T, T), -torch.inf).masked_fill(torch.eye(T, dtype=torch.bool), 0.0)
    assert_same(encoder(x, bias=bias), encoder(x, torch.eye(T, dtype=torch.bool)))
    deep = Encoder(3, D, H, W)
    assert_same(deep(x, bias=bias)[:, 0], deep(x[:, :1])[:, 0])


def test_eval_is_deterministic_and_training_is_not():
    encoder, x = Encoder(L, D, H, W, dropout=0.3), torch.randn(B, T, D)
    for call in ({}, {"lengths": LENGTHS}):
        assert not torch.equal(encoder.train()(x, **call), encoder(x, **call))
        assert torch.equal(encoder.eval()(x, **call), encoder(x, **call))


def test_every_weight_gets_a_gradient():
    for norm_first in (True, False):
        encoder = Encoder(L, D, H, W, norm_first)
        encoder(torch.randn(B, T, D)).square().sum().backward()
        silent = {name for name, p in encoder.named_parameters() if p.grad is None or not p.grad.abs().sum()}
        assert not silent


def test_the_last_norm_is_there_for_pre_ln_only():
    assert isinstance(Encoder(L, D, H, W, norm_first=False).norm, nn.Identity)
    out = Encoder(L, D, H, W)(torch.randn(B, T, D) * 10)
    assert_same(out.std(-1, correction=0), torch.ones(B, T), 1e-3)


@pytest.mark.parametrize("pack", [False, True])
def test_mixed_precision_is_near_full_precision_and_leaves_weights_alone(pack):
    encoder, x = Encoder(L, D, H, W), torch.randn(B, T, D)
    call = {"lengths": LENGTHS} if pack else {"mask": padding_mask(LENGTHS, T)}
    full = encoder(x, **call)
    with mixed_precision(x.device):
        low = encoder(x, **call)
    assert 0 < (low - full).abs().max() < 0.1
    low.float().sum().backward()
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in encoder.parameters())
    with mixed_precision(x.device, enabled=False):
        assert torch.equal(encoder(x, **call), full)


def test_a_compiled_encoder_gives_the_same_and_keeps_its_names():
    encoder, x = Encoder(1, D, H, W).eval(), torch.randn(B, T, D)
    expected, names = encoder(x, padding_mask(LENGTHS, T)), list(encoder.state_dict())
    fast = prepare(encoder, torch.device("cpu"), compile=True)
    assert_same(fast(x, padding_mask(LENGTHS, T)), expected)
    assert list(fast.state_dict()) == names


@pytest.mark.parametrize(
    ("present", "expected"), [((), "cpu"), (("mps",), "mps"), (("cuda",), "cuda"), (("cuda", "mps"), "cuda")]
)
def test_the_accelerator_is_picked_where_there_is_one(monkeypatch, present, expected):
    for name in ("cuda", "mps", "xpu"):
        monkeypatch.setattr(torch.get_device_module(name), "is_available", lambda name=name: name in present)
    assert pick_device() == torch.device(expected)


@pytest.mark.parametrize("norm_first", [True, False])
def test_it_runs_on_any_device(norm_first):
    x = torch.randn(B, T, D, requires_grad=True)
    encoder = Encoder(L, D, H, W, norm_first)
    check_device(encoder, x, padding_mask(LENGTHS, T))
    check_device(encoder, x, bias=torch.randn(1, H, T, T))
    check_device(encoder, x, lengths=LENGTHS.tolist())
    check_device(lambda lengths: padding_mask(lengths, T), LENGTHS)


def test_bad_input_is_told_in_one_sentence():
    encoder, x = Encoder(L, D, H, W), torch.randn(B, T, D)
    with pytest.raises(ValueError, match="lengths take the place of a mask"):
        encoder(x, padding_mask(LENGTHS, T), lengths=LENGTHS)
    with pytest.raises(ValueError, match="lengths take the place of a mask"):
        encoder(x, bias=torch.zeros(1, H, T, T), lengths=LENGTHS)
    with pytest.raises(ValueError, match=r"from 1 to 6, .* got \[7, 2, 4\]"):
        encoder(x, lengths=[7, 2, 4])
    with pytest.raises(ValueError, match=r"2 sequences padded to 6 tokens, got a batch of shape \(3, 6, 12\)"):
        encoder(x, lengths=[6, 2])
