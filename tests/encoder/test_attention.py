import math

import numpy as np
import pytest
import torch
from device import REAL_DEVICES, check_device
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_same
from torch.nn import functional as F

from encoder.attention import attention_weights, scaled_dot_product_attention

B, T, S, K, KV = 2, 3, 4, 5, 6


def inputs(device="cpu"):
    return (torch.randn(B, n, w, device=device, requires_grad=True) for n, w in ((T, K), (S, K), (S, KV)))


def test_attention_equals_a_loop_over_queries_and_keys():
    q, k, v = (x.detach().numpy() for x in inputs())
    mask = np.random.default_rng(0).random((B, T, S)) < 0.7
    mask[:, :, 0] = True
    output, weights = scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), torch.tensor(mask))
    for b, t in np.ndindex(B, T):
        scores = [math.exp(q[b, t] @ k[b, s] / math.sqrt(K)) if mask[b, t, s] else 0.0 for s in range(S)]
        expected = np.array(scores) / sum(scores)
        np.testing.assert_allclose(weights[b, t], expected, atol=1e-6)
        np.testing.assert_allclose(output[b, t], expected @ v[b], atol=1e-5)


@pytest.mark.parametrize("device", REAL_DEVICES)
def test_attention_and_its_gradients_equal_pytorchs_kernel(device):
    q, k, v = inputs(device)
    mask = torch.tensor([[True, False, True, True], [True] * 4, [False, False, True, False]], device=device)
    ours, _ = scaled_dot_product_attention(q, k, v, mask)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert_same(ours, theirs)
    upstream = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad(ours, (q, k, v), upstream), torch.autograd.grad(theirs, (q, k, v), upstream), strict=True
    ):
        assert_same(a, b)


def test_weights_sum_to_one_over_the_keys():
    q, k, _ = inputs()
    assert_same(attention_weights(q, k).sum(-1), torch.ones(B, T))


def test_a_masked_key_gets_no_weight_and_no_gradient():
    q, k, v = inputs()
    mask = torch.tensor([True, True, False, True])
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    assert (weights[..., 2] == 0).all()
    output.square().sum().backward()
    assert (k.grad[:, 2] == 0).all() and (v.grad[:, 2] == 0).all()
    assert (k.grad[:, [0, 1, 3]] != 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_fully_masked_row_reads_zeros_and_no_gradient_is_nan(dtype):
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in inputs())
    mask = torch.ones(T, S, dtype=torch.bool)
    mask[1] = False
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    assert (output[:, 1] == 0).all() and (weights[:, 1] == 0).all() and (output[:, 0] != 0).all()
    output.square().sum().backward()
    assert (q.grad[:, 1] == 0).all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))


@given(st.permutations(range(S)))
def test_the_order_of_the_keys_does_not_matter(order):
    q, k, v = inputs()
    assert_same(scaled_dot_product_attention(q, k[:, order], v[:, order])[0], scaled_dot_product_attention(q, k, v)[0])


@given(st.sampled_from([1, 4, 64]), st.floats(1, 30))
def test_scores_are_divided_by_the_root_of_the_width(width, length):
    """One-hot queries and keys of a known length have a score known by hand."""
    q = torch.zeros(1, width)
    q[0, 0] = length
    k = torch.zeros(2, width)
    k[0, 0] = 1.0
    weights = attention_weights(q, k)
    assert math.isclose(weights[0, 0] / weights[0, 1], math.exp(length / math.sqrt(width)), rel_tol=1e-3)


def test_large_scores_do_not_overflow():
    q = torch.full((1, K), 1e4)
    assert attention_weights(q, torch.stack((q[0], -q[0]))).tolist() == [[1.0, 0.0]]


def test_it_runs_on_any_device():
    q, k, v = inputs()
    check_device(scaled_dot_product_attention, q, k, v, torch.ones(T, S, dtype=torch.bool))


def test_bad_input_is_told_in_one_sentence():
    q, k, _ = inputs()
    with pytest.raises(ValueError, match="same width, got 5 and 4"):
        attention_weights(q, k[..., :4])
    with pytest.raises(TypeError, match=r"torch.bool .* got torch.float32"):
        attention_weights(q, k, torch.ones(T, S))
    with pytest.raises(ValueError, match=r"broadcast to the scores \(2, 3, 4\), got \(3, 5\)"):
        attention_weights(q, k, torch.ones(T, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"got \(7, 2, 3, 4\)"):
        attention_weights(q, k, torch.ones(7, B, T, S, dtype=torch.bool))
