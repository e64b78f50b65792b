"""Assignment 01: wrong versions that learners really write, each with what a tutor would say, and right ones in other styles."""

import math

import torch
from torch.nn import functional as F

from encoder.attention import attention_weights

# --- attention_weights ---------------------------------------------------------------------------------------------


def attention_weights__no_scaling(q, k, mask=None):
    """Your output is what you get without dividing by √K. The variance of q·k grows with K, so the softmax saturates as heads get wider."""
    scores = q @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1))


def attention_weights__divided_by_k(q, k, mask=None):
    """Your output is what you get when scores are divided by K instead of √K. The variance of q·k is K, its standard deviation √K: divide by the latter."""
    scores = q @ k.transpose(-2, -1) / q.size(-1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1))


def attention_weights__scaled_by_number_of_keys(q, k, mask=None):
    """Your scores are divided by √S, the number of keys. The scale follows the width K of a key, however many keys there are."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-2))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1))


def attention_weights__multiplied_by_root(q, k, mask=None):
    """Your scores are multiplied by √K instead of divided by it, so the softmax saturates even sooner than without any scaling."""
    scores = q @ k.transpose(-2, -1) * math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1))


def attention_weights__softmax_over_queries(q, k, mask=None):
    """Your columns sum to one, not your rows: the softmax runs over the queries. Each query shares itself out over the keys, the last axis."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-2))


def attention_weights__scaled_after_softmax(q, k, mask=None):
    """You divide by √K after the softmax, so your rows sum to 1/√K. The scaling belongs to the scores, before the softmax sees them."""
    scores = q @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1)) / math.sqrt(q.size(-1))


def attention_weights__mask_inverted(q, k, mask=None):
    """You read the mask the wrong way round: True means 'may attend', and you gave those keys weight 0."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1))


def attention_weights__mask_after_softmax(q, k, mask=None):
    """You zero the masked weights after the softmax, so the rest of the row no longer sums to one. Mask the scores before it."""
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1)
    return weights if mask is None else weights * mask


def attention_weights__masked_scores_are_zero(q, k, mask=None):
    """You set masked scores to 0, but exp(0) = 1: a forbidden key still gets a share. Its score must be −∞."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    return scores.softmax(-1)


def attention_weights__mask_ignored(q, k, mask=None):
    """Your weights are the same with and without a mask: it is never applied."""
    return (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1)


def attention_weights__nan_when_nothing_is_left(q, k, mask=None):
    """A query that may read nothing gets nan from you: a softmax over only −∞ is 0/0. Give that row zeros, or one padded row will spoil the whole batch."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1)


def attention_weights__uniform_when_nothing_is_left(q, k, mask=None):
    """A query that may read nothing reads every forbidden key equally: with −1e9 in place of −∞ the row's scores are all alike. Zero that row."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    return scores.softmax(-1)


def attention_weights__masked_scores_merely_low(q, k, mask=None):
    """You give forbidden keys a score of −10000. Real scores can be lower still, and then the forbidden key wins: only −∞ is below them all."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -1e4).softmax(-1) * mask.any(-1, keepdim=True)


def attention_weights__renormalised_after_softmax(q, k, mask=None):
    """You zero the masked weights after the softmax and divide by what is left. When a forbidden key has by far the highest score, nothing is left: the others were rounded to 0. Mask the scores before the softmax."""
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1)
    if mask is None:
        return weights
    weights = weights * mask
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


def attention_weights__softmax_overflows(q, k, mask=None):
    """Your exponentials overflow: exp(100) is infinite in float32 and ∞/∞ is nan. Subtract the row's largest score first, or use torch.softmax."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    e = scores.exp()
    if mask is not None:
        e = e * mask
    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)


def attention_weights__gradient_cut(q, k, mask=None):
    """Your values are right, but no gradient comes back through them: something on the way (.detach(), .data, .numpy(), no_grad) cut the graph."""
    scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).detach()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1))


def attention_weights__nan_gradient(q, k, mask=None):
    """Your weights are right, but the gradient of a query that may read nothing is nan: torch.where hides a nan from the forward pass, not from the backward one. Keep −∞ out of that row's softmax, or put it there with masked_fill, which also stops the gradient."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is None:
        return scores.softmax(-1)
    weights = (scores + torch.zeros_like(scores).masked_fill(~mask, -torch.inf)).softmax(-1)
    return torch.where(mask, weights, torch.zeros_like(weights))


def attention_weights__always_float32(q, k, mask=None):
    """Your weights come back as float32 whatever goes in. Keep the dtype of the input: mixed precision and float64 checks rely on it."""
    scores = q.float() @ k.float().transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1))


def attention_weights__right__einsum(q, k, mask=None):
    scores = torch.einsum("...tk,...sk->...ts", q, k) * q.shape[-1] ** -0.5
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = torch.where(mask, scores, torch.full_like(scores, -torch.inf))
    return torch.softmax(scores, dim=-1).nan_to_num(0.0)


def attention_weights__right__exponentials(q, k, mask=None):
    scores = torch.matmul(q, k.mT) / q.size(-1) ** 0.5
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    top = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).amax(-1, keepdim=True).detach()
    e = torch.exp((scores - top).masked_fill(~mask, -torch.inf))
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, torch.ones_like(total), total)


def attention_weights__right__loop_over_queries(q, k, mask=None):
    rows = []
    for t in range(q.size(-2)):
        scores = (q[..., t : t + 1, :] * k).sum(-1) / math.sqrt(k.size(-1))
        if mask is None:
            rows.append(F.softmax(scores, dim=-1))
            continue
        row = mask.expand(*scores.shape[:-1], q.size(-2), k.size(-2))[..., t, :]
        rows.append(F.softmax(scores.masked_fill(~row, float("-inf")), dim=-1).masked_fill(~row, 0.0))
    return torch.stack(rows, dim=-2)


def attention_weights__right__additive_bias(q, k, mask=None):
    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-1, -2)
    if mask is None:
        return F.softmax(scores, -1)
    lowest = torch.finfo(q.dtype).min
    weights = F.softmax(scores + torch.zeros_like(scores).masked_fill(~mask, lowest / 2), -1)
    return torch.where(mask, weights, torch.zeros_like(weights))


def attention_weights__right__library(q, k, mask=None):
    one_hot = torch.eye(k.size(-2), dtype=q.dtype, device=q.device).expand(*k.shape[:-2], -1, -1)
    return F.scaled_dot_product_attention(q, k, one_hot, attn_mask=mask)


# --- scaled_dot_product_attention ----------------------------------------------------------------------------------


def scaled_dot_product_attention__averages_the_keys(q, k, v, mask=None):
    """Your output averages the keys. Keys only decide how much is read; what is read are the values."""
    weights = attention_weights(q, k, mask)
    return weights @ k, weights


def scaled_dot_product_attention__averages_the_queries(q, k, v, mask=None):
    """Your output is a mixture of the queries. The weights have one column for each key: they mix the values."""
    weights = attention_weights(q, k, mask)
    return weights.transpose(-2, -1) @ q, weights


def scaled_dot_product_attention__mask_forgotten(q, k, v, mask=None):
    """The mask never reaches attention_weights: with and without it your output is the same."""
    weights = attention_weights(q, k)
    return weights @ v, weights


def scaled_dot_product_attention__mask_on_the_values(q, k, v, mask=None):
    """You multiply by the mask after the weights were shared out, so each output is too small. The forbidden keys must not take part in the softmax."""
    weights = attention_weights(q, k)
    if mask is not None:
        weights = weights * mask
    return weights @ v, weights


def scaled_dot_product_attention__nan_when_nothing_is_left(q, k, v, mask=None):
    """A query that may read nothing gets nan from you. Your attention_weights knows that case: call it rather than writing the softmax again."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights


def scaled_dot_product_attention__uniform_when_nothing_is_left(q, k, v, mask=None):
    """A query that may read nothing gets the mean of all values: with −1e9 in place of −∞ the row's scores are all alike. Call attention_weights, whose row is zeros there."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(-1)
    return weights @ v, weights


def scaled_dot_product_attention__results_swapped(q, k, v, mask=None):
    """You return (weights, output). The order asked for is (output, weights)."""
    weights = attention_weights(q, k, mask)
    return weights, weights @ v


def scaled_dot_product_attention__output_only(q, k, v, mask=None):
    """You return only the output. Return both, (output, weights): one is computed with, the other is looked at."""
    return attention_weights(q, k, mask) @ v


def scaled_dot_product_attention__returns_scores(q, k, v, mask=None):
    """Your second result holds the raw scores, before the softmax. Return the weights themselves: their rows sum to one."""
    return attention_weights(q, k, mask) @ v, q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def scaled_dot_product_attention__softmax_twice(q, k, v, mask=None):
    """You apply a softmax to weights that already are one: the second softmax flattens them towards uniform."""
    weights = attention_weights(q, k, mask).softmax(-1)
    return weights @ v, weights


def scaled_dot_product_attention__scaled_twice(q, k, v, mask=None):
    """You scale by √K once more, though attention_weights has done it: the weights come out too even."""
    weights = attention_weights(q / math.sqrt(q.size(-1)), k, mask)
    return weights @ v, weights


def scaled_dot_product_attention__weights_detached(q, k, v, mask=None):
    """Your output is right, but gradients reach only the values: the weights were detached on the way."""
    weights = attention_weights(q, k, mask).detach()
    return weights @ v, weights


def scaled_dot_product_attention__right__einsum(q, k, v, mask=None):
    weights = attention_weights(q, k, mask)
    return torch.einsum("...ts,...sv->...tv", weights, v), weights


def scaled_dot_product_attention__right__sum_of_values(q, k, v, mask=None):
    weights = attention_weights(q, k, mask)
    return (weights[..., None] * v[..., None, :, :]).sum(-2), weights


def scaled_dot_product_attention__right__library(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), attention_weights(q, k, mask)


# --- score_variance ------------------------------------------------------------------------------------------------


def score_variance__unbiased(q, k):
    """You divide by N − 1. The task asks for the biased variance (divide by N), so that everybody gets the same number."""
    scores = (q * k).sum(-1)
    return scores.var().item(), scores.var().item() / q.size(-1)


def score_variance__variance_divided_by_root(q, k):
    """You divide the variance by √K. Dividing a quantity by √K divides its variance by K."""
    variance = (q * k).sum(-1).var(unbiased=False).item()
    return variance, variance / math.sqrt(q.size(-1))


def score_variance__divided_twice(q, k):
    """You divide the scores by K instead of √K, so the second variance shrinks as K grows."""
    scores = (q * k).sum(-1)
    return scores.var(unbiased=False).item(), (scores / q.size(-1)).var(unbiased=False).item()


def score_variance__standard_deviation(q, k):
    """You return standard deviations. The variance is their square."""
    scores = (q * k).sum(-1)
    return scores.std(unbiased=False).item(), (scores / math.sqrt(q.size(-1))).std(unbiased=False).item()


def score_variance__of_the_products(q, k):
    """You take the variance of the single products q_i k_i, before they are summed to a dot product. It is the sum whose variance grows with K."""
    products = q * k
    return products.var(unbiased=False).item(), products.var(unbiased=False).item() / q.size(-1)


def score_variance__all_pairs(q, k):
    """You score every query against every key. The task pairs row n of q with row n of k: N dot products, not N²."""
    scores = q[:2000] @ k[:2000].T
    return scores.var(unbiased=False).item(), scores.var(unbiased=False).item() / q.size(-1)


def score_variance__theory_instead_of_data(q, k):
    """You return K and 1, what theory says of independent unit components. The instrument must measure the data it is given, whatever they are."""
    return float(q.size(-1)), 1.0


def score_variance__mean_square(q, k):
    """You return the mean of the squared scores and forget to take off the square of their mean. On data whose mean is not 0 that is not the variance."""
    scores = (q * k).sum(-1)
    return scores.square().mean().item(), scores.square().mean().item() / q.size(-1)


def score_variance__right__numpy(q, k):
    dots = [float(a @ b) for a, b in zip(q.double(), k.double())]
    mean = sum(dots) / len(dots)
    variance = sum((d - mean) ** 2 for d in dots) / len(dots)
    return variance, variance / q.shape[1]


def score_variance__right__einsum(q, k):
    s = torch.einsum("nk,nk->n", q, k)
    return float(((s - s.mean()) ** 2).mean()), float(torch.var(s / math.sqrt(q.size(1)), correction=0))


def score_variance__right__diagonal_of_products(q, k):
    s = torch.stack([row_q.dot(row_k) for row_q, row_k in zip(q, k)])
    return s.var(correction=0).item(), (s / q.size(-1) ** 0.5).var(correction=0).item()


# --- jacobian_norm -------------------------------------------------------------------------------------------------


def jacobian_norm__diagonal_only(scores):
    """You keep only the diagonal w(1 − w). Raising one score also lowers every other weight: those are the off-diagonal entries −w_i w_j."""
    w = scores.softmax(-1)
    return (w * (1 - w)).norm(dim=-1)


def jacobian_norm__plus_instead_of_minus(scores):
    """You add w wᵀ where it must be taken off: J = diag(w) − w wᵀ."""
    w = scores.softmax(-1)
    return (torch.diag_embed(w) + w[..., :, None] * w[..., None, :]).flatten(-2).norm(dim=-1)


def jacobian_norm__of_the_scores(scores):
    """You put the scores where the weights belong: take their softmax first, then diag(w) − w wᵀ."""
    w = scores
    return (torch.diag_embed(w) - w[..., :, None] * w[..., None, :]).flatten(-2).norm(dim=-1)


def jacobian_norm__squared(scores):
    """You return the sum of the squares. The Frobenius norm is its square root."""
    w = scores.softmax(-1)
    return (torch.diag_embed(w) - w[..., :, None] * w[..., None, :]).square().sum((-2, -1))


def jacobian_norm__spectral(scores):
    """You return the spectral norm, the largest singular value. The Frobenius norm is the root of the sum of all squared entries."""
    w = scores.softmax(-1)
    return torch.linalg.matrix_norm(torch.diag_embed(w) - w[..., :, None] * w[..., None, :], ord=2)


def jacobian_norm__one_number_for_all(scores):
    """You return one norm for all rows together. Each row of scores has a Jacobian, and so a norm, of its own."""
    w = scores.softmax(-1)
    return (torch.diag_embed(w) - w[..., :, None] * w[..., None, :]).norm()


def jacobian_norm__outer_product_missing(scores):
    """You measure diag(w) alone. The softmax couples the scores: take off w wᵀ."""
    w = scores.softmax(-1)
    return torch.diag_embed(w).flatten(-2).norm(dim=-1)


def jacobian_norm__mean_of_entries(scores):
    """You average the absolute entries. The Frobenius norm is the root of the sum of their squares."""
    w = scores.softmax(-1)
    return (torch.diag_embed(w) - w[..., :, None] * w[..., None, :]).abs().mean((-2, -1))


def jacobian_norm__right__closed_form(scores):
    w = torch.softmax(scores, -1)
    squares = w.square().sum(-1)
    return (squares - 2 * w.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()


def jacobian_norm__right__matrix_norm(scores):
    w = F.softmax(scores, dim=-1)
    return torch.linalg.matrix_norm(torch.diag_embed(w) - torch.einsum("...i,...j->...ij", w, w))


def jacobian_norm__right__autograd(scores):
    rows = scores.reshape(-1, scores.size(-1))
    norms = [torch.autograd.functional.jacobian(lambda s: s.softmax(-1), row).norm() for row in rows]
    return torch.stack(norms).reshape(scores.shape[:-1])


# --- check_masking -------------------------------------------------------------------------------------------------


def check_masking__looks_only_at_shapes(attention_weights):
    """Your test looks only at shapes, and every one of the colleague's bugs keeps them. Test what the mask does to the weights."""
    q, k = torch.randn(2, 4, 5), torch.randn(2, 6, 5)
    mask = torch.ones(2, 4, 6, dtype=torch.bool)
    assert attention_weights(q, k, mask).shape == (2, 4, 6)


def check_masking__mask_of_only_true(attention_weights):
    """Your mask forbids nothing, so a function that ignores it passes. Forbid some keys."""
    q, k = torch.randn(2, 4, 5), torch.randn(2, 6, 5)
    w = attention_weights(q, k, torch.ones(2, 4, 6, dtype=torch.bool))
    assert torch.allclose(w.sum(-1), torch.ones(2, 4), atol=1e-5)


def check_masking__only_zeros_under_the_mask(attention_weights):
    """You test that forbidden keys get weight 0 but not that the others still sum to one: masking after the softmax slips through."""
    q, k = torch.randn(2, 4, 5), torch.randn(2, 6, 5)
    mask = torch.rand(2, 4, 6) < 0.5
    mask[..., 0] = True
    assert (attention_weights(q, k, mask)[~mask] == 0).all()


def check_masking__only_row_sums(attention_weights):
    """You test that rows sum to one but not who gets the weight: a function that ignores the mask slips through."""
    q, k = torch.randn(2, 4, 5), torch.randn(2, 6, 5)
    mask = torch.rand(2, 4, 6) < 0.5
    mask[..., 0] = True
    assert torch.allclose(attention_weights(q, k, mask).sum(-1), torch.ones(2, 4), atol=1e-5)


def check_masking__no_empty_row(attention_weights):
    """Every query in your test may read at least one key. Add one that may read nothing: nan rows and uniform rows slip through."""
    q, k = torch.randn(2, 4, 5), torch.randn(2, 6, 5)
    mask = torch.rand(2, 4, 6) < 0.5
    mask[..., 0] = True
    mask[..., 1] = False
    w = attention_weights(q, k, mask)
    assert (w[~mask] == 0).all()
    assert torch.allclose(w.sum(-1), torch.ones(2, 4), atol=1e-5)


def check_masking__returns_false(attention_weights):
    """Your test returns False instead of raising: nobody looks at what a test returns. Use assert."""
    q, k = torch.randn(2, 4, 5), torch.randn(2, 6, 5)
    mask = torch.rand(2, 4, 6) < 0.5
    mask[..., 0] = True
    w = attention_weights(q, k, mask)
    return bool((w[~mask] == 0).all() and torch.allclose(w.sum(-1), torch.ones(2, 4), atol=1e-5))


def check_masking__rejects_everything(attention_weights):
    """Your test fails a right implementation as well. A row that may read nothing sums to 0, not to 1."""
    q, k = torch.randn(2, 4, 5), torch.randn(2, 6, 5)
    mask = torch.rand(2, 4, 6) < 0.5
    mask[0, 2] = False
    w = attention_weights(q, k, mask)
    assert torch.allclose(w.sum(-1), torch.ones(2, 4), atol=1e-5)


def check_masking__never_calls_it(attention_weights):
    """Your test never calls the function it is given, so it says the same of every implementation."""
    w = torch.ones(2, 4, 6).softmax(-1)
    assert torch.allclose(w.sum(-1), torch.ones(2, 4))


def check_masking__right__compares_with_subset(attention_weights):
    q, k = torch.randn(1, 2, 4), torch.randn(1, 5, 4)
    mask = torch.tensor([[[True, False, True, False, True], [False] * 5]])
    w = attention_weights(q, k, mask)
    expected = torch.zeros(1, 2, 5)
    expected[0, 0, [0, 2, 4]] = (q[0, 0] @ k[0, [0, 2, 4]].T / 2).softmax(-1)
    assert w.shape == expected.shape and bool(((w - expected).abs() < 1e-5).all()), (
        "weights differ from the unmasked keys alone"
    )


def check_masking__right__library_as_oracle(attention_weights):
    for _ in range(5):
        q, k = torch.randn(3, 4, 5), torch.randn(3, 6, 5)
        mask = torch.rand(3, 4, 6) < 0.4
        mask[1, 1] = False
        expected = F.scaled_dot_product_attention(q, k, torch.eye(6).expand(3, 6, 6), attn_mask=mask)
        torch.testing.assert_close(attention_weights(q, k, mask), expected, atol=1e-5, rtol=0)


def check_masking__right__loops(attention_weights):
    q, k = torch.randn(3, 4), torch.randn(5, 4)
    for bits in range(32):
        mask = torch.tensor([[bool(bits >> s & 1) for s in range(5)]] * 3)
        w = attention_weights(q, k, mask)
        for t in range(3):
            total = sum(float(w[t, s]) for s in range(5))
            assert all(float(w[t, s]) == 0 for s in range(5) if not mask[t, s]), "weight on a forbidden key"
            assert abs(total - (1.0 if bits else 0.0)) < 1e-5, (
                "shares must sum to one, or to zero where nothing may be read"
            )
