import math

import pytest
import torch
from device import check_device
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_same
from transformers.models.t5.modeling_t5 import T5Attention

from encoder.attention import scaled_dot_product_attention
from encoder.packing import attend
from encoder.positions import (
    LearnedPositions,
    RelativeBias,
    apply_rope,
    relative_buckets,
    rotary_angles,
    sinusoidal_positions,
)

B, T, D, H = 2, 5, 6, 3


def test_sinusoids_equal_the_formula_entry_by_entry():
    p = sinusoidal_positions(T, D)
    assert p.shape == (T, D)
    for t in range(T):
        for i in range(D // 2):
            angle = t / 10000 ** (2 * i / D)
            assert math.isclose(p[t, 2 * i], math.sin(angle), abs_tol=1e-6)
            assert math.isclose(p[t, 2 * i + 1], math.cos(angle), abs_tol=1e-6)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 40))
def test_the_product_of_two_sinusoids_depends_on_their_distance_alone(t, u, shift):
    p = sinusoidal_positions(91, 16)
    assert math.isclose(p[t] @ p[u], p[t + shift] @ p[u + shift], abs_tol=1e-4)
    assert math.isclose(p[t] @ p[t], 8, abs_tol=1e-4)


def test_positions_keep_their_precision_when_the_model_is_bfloat16():
    p = sinusoidal_positions(300, D, dtype=torch.bfloat16)
    assert p.dtype == torch.bfloat16
    assert_same(p.float(), sinusoidal_positions(300, D), tolerance=4e-3)


def test_a_learned_table_is_added_row_by_row():
    positions = LearnedPositions(T + 2, D)
    x = torch.randn(B, T, D)
    assert torch.equal(positions(x), x + positions.weight[:T])
    positions(x).sum().backward()
    assert (positions.weight.grad[:T] == B).all() and (positions.weight.grad[T:] == 0).all()


def test_a_learned_table_has_the_spread_that_was_asked_for():
    assert 0.45 < LearnedPositions(100, 50, std=0.5).weight.std() < 0.55


@given(st.sampled_from([4, 6, 8, 32, 64]), st.integers(20, 300))
def test_buckets_equal_those_of_t5(n_buckets, max_distance):
    distance = torch.arange(-400, 401)
    theirs = T5Attention._relative_position_bucket(
        distance, bidirectional=True, num_buckets=n_buckets, max_distance=max_distance
    )
    assert torch.equal(relative_buckets(distance, n_buckets, max_distance), theirs)


def test_buckets_by_hand():
    """8 buckets, 4 a side: 0 and 1 by themselves, then 2–3 (below the middle √(2·8) = 4) and all from 4 on."""
    before = relative_buckets(-torch.arange(10), 8, 8)
    assert before.tolist() == [0, 1, 2, 2, 3, 3, 3, 3, 3, 3]
    after = relative_buckets(torch.arange(1, 10), 8, 8)
    assert after.tolist() == [5, 6, 6, 7, 7, 7, 7, 7, 7]


@given(st.integers(0, 200), st.integers(0, 200))
def test_buckets_never_fall_with_distance_and_never_mix_sides(near, far):
    near, far = sorted((near, far))
    for side in (-1, 1):
        buckets = relative_buckets(side * torch.tensor([near, far]))
        assert buckets[0] <= buckets[1] or near == 0
    assert relative_buckets(torch.tensor(-far)) < 16
    assert far == 0 or relative_buckets(torch.tensor(far)) >= 16


def test_the_bias_is_looked_up_by_key_minus_query():
    bias = RelativeBias(H, n_buckets=8, max_distance=8)
    out = bias(T, 7)
    assert out.shape == (1, H, T, 7)
    for t in range(T):
        for s in range(7):
            bucket = relative_buckets(torch.tensor(s - t), 8, 8)
            assert torch.equal(out[0, :, t, s], bias.weight[bucket])
    assert bias(T).shape == (1, H, T, T)


def test_the_bias_makes_attention_see_order():
    """Reading a sequence backwards is reading the same set; with a bias by distance it is not."""
    x, bias = torch.randn(1, 1, T, D), RelativeBias(1)
    torch.nn.init.normal_(bias.weight)
    back = x.flip(2)
    assert_same(attend(x, x, x).flip(2), attend(back, back, back))
    difference = attend(x, x, x, bias=bias(T)).flip(2) - attend(back, back, back, bias=bias(T))
    assert difference.abs().max() > 1e-2


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_rotated_products_depend_on_the_distance_alone(t, u, shift):
    q, k = torch.randn(D), torch.randn(D)
    angles = rotary_angles(61, D)
    scores = apply_rope(q.expand(61, D), angles) @ apply_rope(k.expand(61, D), angles).T
    assert math.isclose(scores[t, u], scores[t + shift, u + shift], abs_tol=1e-4)


def test_rotation_equals_complex_multiplication_of_neighbouring_pairs():
    x, angles = torch.randn(B, H, T, D), rotary_angles(T, D)
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    assert_same(apply_rope(x, angles), torch.view_as_real(turned).flatten(-2))


def test_rotation_keeps_lengths_and_leaves_position_zero_alone():
    x, angles = torch.randn(B, H, T, D), rotary_angles(T, D)
    assert_same(apply_rope(x, angles).norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(apply_rope(x, angles)[..., 0, :], x[..., 0, :])
    assert apply_rope(x.bfloat16(), angles).dtype == torch.bfloat16


def test_rotation_makes_attention_see_order():
    x, angles = torch.randn(1, T, D), rotary_angles(T, D)
    turned = apply_rope(x, angles)
    flipped = apply_rope(x.flip(1), angles)
    there, _ = scaled_dot_product_attention(turned, turned, x)
    back, _ = scaled_dot_product_attention(flipped, flipped, x.flip(1))
    assert (there.flip(1) - back).abs().max() > 1e-3


def test_they_run_on_any_device():
    x = torch.randn(B, T, D, requires_grad=True)
    check_device(LearnedPositions(T, D), x)
    check_device(RelativeBias(H), T)
    check_device(lambda x: apply_rope(x, rotary_angles(T, D, device=x.device)), x)
    check_device(lambda x: x + sinusoidal_positions(T, D, device=x.device, dtype=x.dtype), x)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(ValueError, match=r"even number .* got 5"):
        sinusoidal_positions(T, 5)
    with pytest.raises(ValueError, match="up to 3 tokens, got 5"):
        LearnedPositions(3, D)(torch.randn(B, T, D))
    with pytest.raises(ValueError, match=r"rank 3 and width 6, got shape \(2, 5, 4\)"):
        LearnedPositions(T, D)(torch.randn(B, T, 4))
    with pytest.raises(ValueError, match="got 7 and 128"):
        relative_buckets(torch.arange(3), 7)
    with pytest.raises(ValueError, match="got 32 and 8"):
        relative_buckets(torch.arange(3), 32, 8)
    with pytest.raises(ValueError, match=r"got \(2, 5, 6\) and \(4, 3\)"):
        apply_rope(torch.randn(B, T, D), rotary_angles(4, D))


def test_sinusoids_turn_by_the_base_that_was_asked_for():
    expected = torch.stack([torch.tensor(3 * 10.0 ** (-2 * i / 6)) for i in range(3)])
    torch.testing.assert_close(rotary_angles(4, 6, base=10.0)[3], expected)
    torch.testing.assert_close(sinusoidal_positions(4, 6, base=10.0)[3, 0::2], expected.sin())
