import pytest
import torch
from device import REAL_DEVICES
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_same

from encoder.attention import scaled_dot_product_attention
from encoder.packing import Packing, attend, attend_in_turn, attend_padded

B, H, T, S, K = 2, 3, 4, 6, 5


def inputs(dtype=torch.float32, device="cpu"):
    return (torch.randn(B, H, n, K, dtype=dtype, device=device, requires_grad=True) for n in (T, S, S))


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize("shape", [(S,), (T, S), (H, 1, S), (B, 1, 1, S), (1, H, T, S), (B, H, T, S)])
def test_the_fused_kernel_equals_the_explicit_mathematics_with_gradients(shape, device):
    q, k, v = inputs(device=device)
    mask = torch.rand(shape, device=device) < 0.7
    ours, theirs = attend(q, k, v, mask), scaled_dot_product_attention(q, k, v, mask)[0]
    assert_same(ours, theirs)
    upstream = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad(ours, (q, k, v), upstream), torch.autograd.grad(theirs, (q, k, v), upstream), strict=True
    ):
        assert_same(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_bias", [False, True])
def test_fully_masked_rows_read_zeros_and_no_gradient_is_nan(dtype, with_bias):
    q, k, v = inputs(dtype)
    bias = torch.randn(1, H, T, S, dtype=dtype, requires_grad=True)
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[0, :, 1] = False
    output = attend(q, k, v, mask, bias if with_bias else None)
    assert (output[0, :, 1] == 0).all() and (output[1, :, 1] != 0).any()
    output.square().sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    assert (q.grad[0, :, 1] == 0).all()
    if with_bias:
        assert bias.grad.isfinite().all() and bias.grad.abs().sum() > 0


@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_is_added_to_the_scores_before_the_softmax(masked):
    q, k, v = inputs()
    bias = torch.randn(H, T, S)
    mask = torch.rand(B, 1, T, S) < 0.7 if masked else torch.ones(B, 1, T, S, dtype=torch.bool)
    scores = (q @ k.transpose(-2, -1) / K**0.5 + bias).masked_fill(~mask, -torch.inf)
    expected = scores.softmax(-1).nan_to_num() @ v
    assert_same(attend(q, k, v, mask if masked else None, bias), expected)


def test_dropout_acts_on_the_weights():
    torch.manual_seed(0)
    q, k, v = inputs()
    one = attend(q, k, torch.ones_like(v), dropout=0.5)
    assert not torch.equal(one, torch.ones_like(one))
    many = torch.stack([attend(q, k, torch.ones_like(v), dropout=0.5).mean() for _ in range(200)]).mean()
    assert abs(many - 1) < 0.05, "what is left is scaled up, so that the mean stays"


some_lengths = st.lists(st.integers(1, 7), min_size=1, max_size=5)


@given(some_lengths)
def test_unpacking_undoes_packing_and_leaves_zeros_on_padding(lengths):
    x = torch.randn(len(lengths), 7, 3)
    packing = Packing(lengths, 7)
    packed = packing.pack(x)
    assert packed.shape == (1, sum(lengths), 3)
    assert torch.equal(packed[0, : lengths[0]], x[0, : lengths[0]])
    real = packing.mask[:, 0, 0, :, None]
    assert real.sum(1).flatten().tolist() == lengths
    assert torch.equal(packing.unpack(packed), x * real)


@given(some_lengths)
def test_both_ways_to_attend_equal_a_padded_batch_with_gradients(lengths):
    packing = Packing(lengths, 7)
    n_tokens, real = sum(lengths), packing.mask[:, 0, 0]
    q, k, v = (torch.randn(1, H, n_tokens, K, requires_grad=True) for _ in range(3))
    blocks = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    expected = scaled_dot_product_attention(q, k, v, blocks[:, None] == blocks)[0]  # each only within itself
    upstream = torch.randn_like(expected)
    for output in (attend_in_turn(q, k, v, lengths), attend_padded(q, k, v, packing), attend(q, k, v, packing)):
        assert_same(output, expected)
        grads = torch.autograd.grad(output, (q, k, v), upstream)
        for a, b in zip(grads, torch.autograd.grad(expected, (q, k, v), upstream, retain_graph=True), strict=True):
            assert_same(a, b)
    assert real.sum() == n_tokens


def test_bad_input_is_told_in_one_sentence():
    q, k, v = inputs()
    with pytest.raises(TypeError, match=r"torch\.bool"):
        attend(q, k, v, torch.zeros(T, S))
    with pytest.raises(ValueError, match=r"got \(2, 4\)"):
        attend(q, k, v, torch.ones(B, T, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"from 1 to 7, .* got \[3, 8\]"):
        Packing([3, 8], 7)
    with pytest.raises(ValueError, match=r"got \[0\]"):
        Packing(torch.tensor([0]), 7)
    with pytest.raises(ValueError, match=r"got \[2.5\]"):
        Packing([2.5], 7)
    with pytest.raises(ValueError, match="no bias"):
        attend(q[:1], q[:1], q[:1], Packing([T], T), torch.zeros(1, H, T, T))


@pytest.mark.parametrize(
    ("bias", "error"),
    [
        (torch.ones(3, 3, dtype=torch.bool), TypeError),
        (torch.ones(3, 3, dtype=torch.int64), TypeError),
        (torch.ones(4, 4), ValueError),
        (torch.ones(1, 1, 1, 3, 3), ValueError),
    ],
)
@pytest.mark.parametrize("mask", [None, torch.ones(3, 3, dtype=torch.bool)])
def test_a_bias_is_numbers_that_fit_the_scores(bias, error, mask):
    """The kernel takes a boolean bias for a mask: the answer would be wrong without a word."""
    q = torch.randn(2, 2, 3, 5)
    with pytest.raises(error, match=r"a bias must .*, got "):
        attend(q, q, q, mask, bias)


@pytest.mark.parametrize(("rows", "tokens", "keys"), [(2, 5, 5), (1, 4, 4), (1, 5, 4)])
def test_a_packing_masks_only_its_own_packed_tokens(rows, tokens, keys):
    q, k = torch.randn(rows, 2, tokens, 4), torch.randn(rows, 2, keys, 4)
    with pytest.raises(ValueError, match="one row of 5 packed tokens, got queries and keys"):
        attend(q, k, k, Packing([2, 3], 3))


def test_no_sequences_cannot_be_packed():
    with pytest.raises(ValueError, match=r"lengths must be whole numbers .*, got \[\]"):
        Packing([], 3)


@pytest.mark.parametrize("mask", [None, Packing([2, 3], 3)])
def test_dropout_of_one_drops_every_weight(mask):
    q = torch.randn(1, 2, 5, 4)
    assert not attend(q, q, q, mask, dropout=1.0).any()
    assert not attend_padded(q, q, q, Packing([2, 3], 3), dropout=1.0).any()
