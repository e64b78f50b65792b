import pytest
import torch
from device import REAL_DEVICES, check_device
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_same, copy_attention, jitter
from torch import nn

from encoder.heads import (
    MultiHeadAttention,
    diversity_penalty,
    effective_heads,
    inspect_heads,
    merge_heads,
    split_heads,
)
from encoder.positions import RelativeBias

B, T, S, H, K = 2, 4, 6, 3, 5
D = H * K


def make(dropout: float = 0.0, d_model: int = D, n_heads: int = H, device: str = "cpu"):
    theirs = jitter(nn.MultiheadAttention(d_model, n_heads, dropout, batch_first=True, device=device))
    ours = MultiHeadAttention(d_model, n_heads, dropout).to(device)
    copy_attention(ours, theirs)
    return ours, theirs


def test_a_head_holds_neighbouring_features_of_every_token():
    x = torch.arange(B * T * D).view(B, T, D)
    heads = split_heads(x, H)
    assert heads.shape == (B, H, T, K)
    assert torch.equal(heads[1, 2, 3], x[1, 3, 2 * K : 3 * K])
    assert torch.equal(merge_heads(heads), x)


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize(("d_model", "n_heads"), [(D, H), (768, 12), (8, 1), (6, 6)])
def test_multi_head_attention_and_its_gradients_equal_pytorchs(d_model, n_heads, device):
    ours, theirs = make(d_model=d_model, n_heads=n_heads, device=device)
    x = torch.randn(B, T, d_model, device=device, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    mask = torch.tensor([[True] * T, [True, True, False, False]], device=device)
    out, expected = ours(x, mask[:, None, None]), theirs(y, y, y, key_padding_mask=~mask)[0]
    assert_same(out, expected)
    upstream = torch.randn_like(out)
    out.backward(upstream)
    expected.backward(upstream)
    assert_same(x.grad, y.grad)
    grads = [torch.cat([getattr(ours, f"{name}_proj").get_parameter(part).grad for name in "qkv"])
             for part in ("weight", "bias")]  # fmt: skip
    assert_same(grads[0], theirs.in_proj_weight.grad, 3e-5)
    assert_same(grads[1], theirs.in_proj_bias.grad, 3e-5)
    assert_same(ours.out_proj.weight.grad, theirs.out_proj.weight.grad, 3e-5)


def test_cross_attention_reads_the_memory():
    ours, theirs = make()
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    assert_same(ours(x, memory=memory), theirs(x, memory, memory)[0])


def test_a_relative_bias_enters_each_head():
    ours, theirs = make()
    x, bias = torch.randn(B, T, D), RelativeBias(H, 8, 8)
    nn.init.normal_(bias.weight)
    expected = theirs(x, x, x, attn_mask=bias(T).expand(B, H, T, T).flatten(0, 1))[0]  # theirs adds a float mask
    out = ours(x, bias=bias(T))
    assert_same(out, expected)
    out.square().sum().backward()
    used = bias.weight.grad.abs().sum(1) > 0
    assert used.tolist() == [True] * 3 + [False, False] + [True] * 2 + [False], "only distances up to 3 occur"


def test_a_query_that_may_read_nothing_gets_the_output_bias_alone():
    ours, _ = make()
    mask = torch.ones(B, 1, T, T, dtype=torch.bool)
    mask[0, :, 2] = False
    out = ours(torch.randn(B, T, D), mask)
    assert_same(out[0, 2], ours.out_proj.bias)
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in ours.parameters())


@given(st.permutations(range(T)))
def test_without_positions_attention_is_permutation_equivariant(order):
    ours, _ = make()
    x = torch.randn(B, T, D)
    assert_same(ours(x[:, order]), ours(x)[:, order])


def test_dropout_lives_in_training_only():
    ours, _ = make(dropout=0.5)
    x = torch.randn(B, T, D)
    assert not torch.equal(ours(x), ours(x))
    assert torch.equal(ours.eval()(x), ours(x))


def test_contributions_add_up_to_the_output():
    ours, theirs = make()
    x, mask = torch.randn(B, T, D), torch.tensor([True, True, True, False])
    weights, contributions = inspect_heads(ours, x, mask)
    assert contributions.shape == (B, H, T, D)
    assert_same(contributions.sum(1) + ours.out_proj.bias, ours(x, mask))
    expected = theirs(x, x, x, key_padding_mask=~mask.expand(B, T), average_attn_weights=False)[1]
    assert_same(weights, expected)


def test_the_penalty_is_one_for_equal_heads_and_zero_for_heads_that_read_different_keys():
    same = torch.rand(B, 1, T, S).softmax(-1).expand(B, H, T, S)
    assert_same(diversity_penalty(same), torch.tensor(1.0))
    apart = torch.eye(S)[:H].view(1, H, 1, S).expand(B, H, T, S)  # head h reads key h
    assert_same(diversity_penalty(apart), torch.tensor(0.0))
    half = torch.tensor([[1.0, 0.0], [0.5, 0.5]]).view(1, 2, 1, 2)
    assert_same(diversity_penalty(half), torch.tensor(0.5))  # cos 45° squared
    assert diversity_penalty(same[:, :1]) == 0


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 4), st.integers(1, 6))
def test_the_penalty_is_the_mean_over_pairs_of_different_heads(batch, n_heads, t, s):
    weights = torch.randn(batch, n_heads, t, s).softmax(-1)
    pairs = [
        torch.cosine_similarity(weights[b, g].flatten(), weights[b, h].flatten(), dim=0) ** 2
        for b in range(batch)
        for g in range(n_heads)
        for h in range(n_heads)
        if g != h
    ]
    expected = torch.stack(pairs).mean() if pairs else torch.tensor(0.0)
    assert_same(diversity_penalty(weights), expected)


def test_descending_the_penalty_makes_heads_differ():
    ours, _ = make()
    x = torch.randn(B, T, D)
    optimizer = torch.optim.SGD(ours.parameters(), lr=5.0)
    before = diversity_penalty(inspect_heads(ours, x)[0]).item()
    for _ in range(100):
        optimizer.zero_grad()
        penalty = diversity_penalty(inspect_heads(ours, x)[0])
        penalty.backward()
        optimizer.step()
    assert penalty < 0.7 * before


def test_effective_heads_counts_the_heads_that_carry_the_output():
    contributions = torch.randn(B, 1, T, D).expand(B, H, T, D).clone()
    assert_same(effective_heads(contributions), torch.tensor(float(H)))
    contributions[:, 1] = 0
    assert_same(effective_heads(contributions), torch.tensor(H - 1.0))
    contributions[:, 2] *= 1e-3
    assert_same(effective_heads(contributions), torch.tensor(1.0))
    assert effective_heads(torch.zeros(B, H, T, D)) == 0
    energies = torch.tensor([3.0, 1.0]).sqrt().view(1, 2, 1, 1)
    assert_same(effective_heads(energies), torch.tensor(16 / 10))


def test_they_run_on_any_device():
    x = torch.randn(B, T, D, requires_grad=True)
    mask = torch.ones(T, T, dtype=torch.bool)
    check_device(make()[0], x, mask)
    check_device(make()[0], x, memory=torch.randn(B, S, D), bias=torch.randn(1, H, T, S))
    check_device(diversity_penalty, torch.rand(B, H, T, S))
    check_device(effective_heads, torch.rand(B, H, T, D))
    check_device(Inspected(), x, mask, unused=["attention.out_proj.bias"])


class Inspected(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = MultiHeadAttention(D, H)

    def forward(self, x, mask):
        return inspect_heads(self.attention, x, mask)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(ValueError, match="d_model=15 and n_heads=4"):
        MultiHeadAttention(D, 4)
    with pytest.raises(ValueError, match="n_heads=0"):
        MultiHeadAttention(D, 0)
    with pytest.raises(ValueError, match="d_model=15 and n_heads=2"):
        split_heads(torch.randn(B, T, D), 2)
    ours, _ = make()
    with pytest.raises(ValueError, match=r"rank 3 and width 15, got shape \(4, 15\)"):
        ours(torch.randn(T, D))
    with pytest.raises(ValueError, match=r"got shape \(2, 6, 5\)"):
        ours(torch.randn(B, T, D), memory=torch.randn(B, S, K))
    with pytest.raises(TypeError, match=r"torch\.bool"):
        ours(torch.randn(B, T, D), torch.zeros(T, T))
    with pytest.raises(ValueError, match=r"\(2, 3, 4, 4\), got \(2, 4\)"):
        ours(torch.randn(B, T, D), torch.ones(B, T, dtype=torch.bool))
