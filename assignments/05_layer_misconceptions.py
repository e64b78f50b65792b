"""Assignment 05: wrong versions that learners really write, each with what a tutor would say, and right ones in other styles."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from encoder.layer import EncoderLayer, LayerNorm


# Given to the learner in the assignment.
def run_stack(layers, x):
    for layer in layers:
        x = layer(x)
    return F.layer_norm(x, x.shape[-1:])


def read_first(layers, x):
    return run_stack(layers, x)[:, 0, :2]


# --- layer_norm ----------------------------------------------------------------------------------------------------


def layer_norm__over_positions(x, weight, bias, eps=1e-5):
    """You normalise each feature over the positions. Each token is normalised by itself, over its D features: the last axis."""
    axis = -2 if x.dim() > 1 else -1
    centred = x - x.mean(axis, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(axis, keepdim=True) + eps) * weight + bias


def layer_norm__whole_tensor(x, weight, bias, eps=1e-5):
    """You take one mean and one variance for the whole tensor. Every token has its own."""
    centred = x - x.mean()
    return centred / torch.sqrt(centred.square().mean() + eps) * weight + bias


def layer_norm__over_the_batch(x, weight, bias, eps=1e-5):
    """You normalise over the first axis, the batch: that is BatchNorm. In LayerNorm no sentence sees another."""
    centred = x - x.mean(0, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(0, keepdim=True) + eps) * weight + bias


def layer_norm__unbiased(x, weight, bias, eps=1e-5):
    """Your variance divides by D − 1, torch.var's default. LayerNorm divides by D; for narrow vectors the difference is large."""
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + eps) * weight + bias


def layer_norm__epsilon_outside(x, weight, bias, eps=1e-5):
    """You add ε to the standard deviation. It belongs under the root: √(σ² + ε), not √σ² + ε."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True).sqrt() + eps) * weight + bias


def layer_norm__no_epsilon(x, weight, bias, eps=1e-5):
    """You never use ε. A token whose features are all alike then gives 0/0."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / centred.square().mean(-1, keepdim=True).sqrt() * weight + bias


def layer_norm__fixed_epsilon(x, weight, bias, eps=1e-5):
    """You always use ε = 1e-5, whatever is asked for. BERT wants 1e-12: use the argument."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5) * weight + bias


def layer_norm__no_root(x, weight, bias, eps=1e-5):
    """You divide by the variance. Divide by its root, or tokens that vary much come out too small."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps) * weight + bias


def layer_norm__not_centred(x, weight, bias, eps=1e-5):
    """You never take off the mean: that is RMSNorm. LayerNorm centres first."""
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps) * weight + bias


def layer_norm__mean_added_to_variance(x, weight, bias, eps=1e-5):
    """You centre the numerator, but under the root is the mean of x², which still holds μ². The variance is the mean of (x − μ)²."""
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.square().mean(-1, keepdim=True) + eps) * weight + bias


def layer_norm__variance_by_difference(x, weight, bias, eps=1e-5):
    """Your variance is the mean of x² less μ². On paper that is the same; in float32 two large numbers are subtracted and the digits that matter are gone when a token sits far from zero. Centre first, then square."""
    mean = x.mean(-1, keepdim=True)
    variance = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def layer_norm__no_scale(x, weight, bias, eps=1e-5):
    """Your output ignores γ, the weight: after normalising, each feature is multiplied by its own learned scale."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps) + bias


def layer_norm__no_shift(x, weight, bias, eps=1e-5):
    """Your output ignores β, the bias: after scaling, each feature is shifted by its own learned amount."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps) * weight


def layer_norm__shift_before_scale(x, weight, bias, eps=1e-5):
    """You add β first and then scale it by γ along with the rest. γ scales the normalised token alone; β comes last."""
    centred = x - x.mean(-1, keepdim=True)
    return (centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps) + bias) * weight


def layer_norm__statistics_detached(x, weight, bias, eps=1e-5):
    """Your values are right but your gradient is not: mean and variance depend on x, too, and you cut them off."""
    mean, variance = x.mean(-1, keepdim=True).detach(), x.var(-1, keepdim=True, unbiased=False).detach()
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def layer_norm__right__library(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, (x.size(-1),), weight, bias, eps)


def layer_norm__right__var_mean(x, weight, bias, eps=1e-5):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(variance + eps), weight)


def layer_norm__right__token_by_token(x, weight, bias, eps=1e-5):
    rows = []
    for row in x.reshape(-1, x.size(-1)):
        centred = row - row.sum() / len(row)
        rows.append(weight * centred * (centred @ centred / len(row) + eps) ** -0.5 + bias)
    return torch.stack(rows).reshape(x.shape)


# --- LayerNorm -----------------------------------------------------------------------------------------------------


class LayerNorm__no_scale(LayerNorm):
    """Your module owns a weight γ and never uses it."""

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, None, self.bias, self.eps)


class LayerNorm__no_shift(LayerNorm):
    """Your module owns a bias β and never uses it."""

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, self.eps)


class LayerNorm__bare(LayerNorm):
    """Your module normalises and stops: neither γ nor β is applied."""

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, eps=self.eps)


class LayerNorm__default_epsilon(LayerNorm):
    """You forgot to pass self.eps on, so ε is 1e-5 whatever the constructor was told."""

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class LayerNorm__over_positions(LayerNorm):
    """You normalise over the positions. Each token is normalised by itself, over the last axis."""

    def forward(self, x):
        centred = x - x.mean(-2, keepdim=True)
        variance = centred.square().mean(-2, keepdim=True)
        return centred / torch.sqrt(variance + self.eps) * self.weight + self.bias


class LayerNorm__whole_sentence(LayerNorm):
    """You normalise all features of all tokens of a sentence together. Each token has its own mean and variance."""

    def forward(self, x):
        return F.layer_norm(x, x.shape[1:], eps=self.eps) * self.weight + self.bias


class LayerNorm__unbiased(LayerNorm):
    """Your variance divides by D − 1, torch.var's default. LayerNorm divides by D."""

    def forward(self, x):
        normal = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + self.eps)
        return normal * self.weight + self.bias


class LayerNorm__epsilon_outside(LayerNorm):
    """You add ε to the standard deviation. It belongs under the root, beside the variance."""

    def forward(self, x):
        normal = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, unbiased=False) + self.eps)
        return normal * self.weight + self.bias


class LayerNorm__one_plus_scale(LayerNorm):
    """You multiply by 1 + γ. γ starts at one here, so it is the whole scale: multiply by γ."""

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, 1 + self.weight, self.bias, self.eps)


class LayerNorm__root_mean_square(LayerNorm):
    """You never take off the mean: that is RMSNorm. LayerNorm centres first."""

    def forward(self, x):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight + self.bias


class LayerNorm__right__by_hand(LayerNorm):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps) * self.weight + self.bias


class LayerNorm__right__var_mean(LayerNorm):
    def forward(self, x):
        variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return torch.addcmul(self.bias, self.weight, (x - mean) / (variance + self.eps).sqrt())


class LayerNorm__right__one_group(LayerNorm):
    def forward(self, x):
        rows = x.reshape(-1, x.size(-1))
        return F.group_norm(rows, 1, self.weight, self.bias, self.eps).reshape(x.shape)


# --- EncoderLayer --------------------------------------------------------------------------------------------------


class EncoderLayer__swapped(EncoderLayer):
    """You have the two orders the wrong way round: norm_first=True is pre-LN, x + f(LN(x))."""

    def forward(self, x, mask=None, bias=None):
        if not self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class EncoderLayer__always_pre(EncoderLayer):
    """Your layer is pre-LN whatever norm_first says. With norm_first=False the norm comes after the addition."""

    def forward(self, x, mask=None, bias=None):
        x = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
        return x + self.dropout(self.feedforward(self.norm2(x)))


class EncoderLayer__always_post(EncoderLayer):
    """Your layer is post-LN whatever norm_first says. With norm_first=True only what the sublayer reads is normalised."""

    def forward(self, x, mask=None, bias=None):
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class EncoderLayer__no_norm(EncoderLayer):
    """There is no norm in your layer: it computes x + f(x), as the bare equations of some texts have it. Both orders need two norms."""

    def forward(self, x, mask=None, bias=None):
        x = x + self.dropout(self.attention(x, mask, bias=bias))
        return x + self.dropout(self.feedforward(x))


class EncoderLayer__second_residual_from_input(EncoderLayer):
    """Your second residual adds the layer's input. It must add what attention has left behind, or attention's work is lost from the stream."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            h = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return x + self.dropout(self.feedforward(self.norm2(h)))
        h = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(x + self.dropout(self.feedforward(h)))


class EncoderLayer__side_by_side(EncoderLayer):
    """Your feed-forward network reads the layer's input, beside attention instead of after it. It must read what attention has left behind."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            attended = self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return x + attended + self.dropout(self.feedforward(self.norm2(x)))
        attended = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(attended + self.dropout(self.feedforward(x)))


class EncoderLayer__residual_from_the_norm(EncoderLayer):
    """In pre-LN you add the normalised x. The stream itself, x, is what the sublayer's result is added to: nothing may touch it on its way."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = self.norm1(x)
            x = self.norm2(x + self.dropout(self.attention(x, mask, bias=bias)))
            return x + self.dropout(self.feedforward(x))
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class EncoderLayer__norms_exchanged(EncoderLayer):
    """norm2 stands at your attention and norm1 at your feed-forward network. Fresh norms are all alike, so nobody notices until weights are loaded."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm2(x), mask, bias=bias))
            return x + self.dropout(self.feedforward(self.norm1(x)))
        x = self.norm2(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm1(x + self.dropout(self.feedforward(x)))


class EncoderLayer__one_norm_for_both(EncoderLayer):
    """You use norm1 in both places. norm2 never gets a gradient, and loaded weights are ignored."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return x + self.dropout(self.feedforward(self.norm1(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm1(x + self.dropout(self.feedforward(x)))


class EncoderLayer__no_residual(EncoderLayer):
    """Nothing is added in your layer: each sublayer replaces the stream. Add its result to what was there."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(self.dropout(self.feedforward(x)))


class EncoderLayer__residual_forgotten_at_the_network(EncoderLayer):
    """The residual connection around the feed-forward network is missing. Both sublayers have one."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(self.dropout(self.feedforward(x)))


class EncoderLayer__norm_on_the_sublayer(EncoderLayer):
    """In post-LN you normalise what the sublayer returns and then add x. The norm goes around the sum: LN(x + f(x))."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = x + self.norm1(self.dropout(self.attention(x, mask, bias=bias)))
        return x + self.norm2(self.dropout(self.feedforward(x)))


class EncoderLayer__network_first(EncoderLayer):
    """You run the feed-forward network before attention. First the tokens exchange, then each thinks for itself."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.feedforward(self.norm2(x)))
            return x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
        x = self.norm2(x + self.dropout(self.feedforward(x)))
        return self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))


class EncoderLayer__mask_forgotten(EncoderLayer):
    """You never hand the mask to attention, so padding is read."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), bias=bias))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, bias=bias)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class EncoderLayer__bias_forgotten(EncoderLayer):
    """You never hand the bias to attention, so relative positions (assignment 02) are lost."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class EncoderLayer__dropout_on_the_stream(EncoderLayer):
    """You drop from the sum, so the stream itself gets holes. Dropout falls on what the sublayer returns, before it is added."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = self.dropout(x + self.attention(self.norm1(x), mask, bias=bias))
            return self.dropout(x + self.feedforward(self.norm2(x)))
        x = self.norm1(self.dropout(x + self.attention(x, mask, bias=bias)))
        return self.norm2(self.dropout(x + self.feedforward(x)))


class EncoderLayer__dropout_forgotten(EncoderLayer):
    """You never call self.dropout: what the sublayers return is added whole, in training, too."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask, bias=bias)
            return x + self.feedforward(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask, bias=bias))
        return self.norm2(x + self.feedforward(x))


class EncoderLayer__dropout_alive_in_eval(EncoderLayer):
    """Your dropout also works in eval(): F.dropout drops unless it is told training=self.training. Use self.dropout, which knows."""

    def forward(self, x, mask=None, bias=None):
        p = self.dropout.p
        if self.norm_first:
            x = x + F.dropout(self.attention(self.norm1(x), mask, bias=bias), p)
            return x + F.dropout(self.feedforward(self.norm2(x)), p)
        x = self.norm1(x + F.dropout(self.attention(x, mask, bias=bias), p))
        return self.norm2(x + F.dropout(self.feedforward(x), p))


class EncoderLayer__dropout_forgotten_at_the_network(EncoderLayer):
    """Dropout falls on what your attention returns, but not on what the feed-forward network returns. Both sublayers are dropped from."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return x + self.feedforward(self.norm2(x))
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(x + self.feedforward(x))


class EncoderLayer__dropout_forgotten_at_attention(EncoderLayer):
    """Dropout falls on what your feed-forward network returns, but not on what attention returns: the rate inside attention drops weights, which is another thing. Both sublayers are dropped from."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask, bias=bias)
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.attention(x, mask, bias=bias))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class EncoderLayer__dropout_on_the_norm(EncoderLayer):
    """You drop from what the norms return. Dropout falls on what a sublayer returns, before it is added."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.attention(self.dropout(self.norm1(x)), mask, bias=bias)
            return x + self.feedforward(self.dropout(self.norm2(x)))
        x = self.dropout(self.norm1(x + self.attention(x, mask, bias=bias)))
        return self.dropout(self.norm2(x + self.feedforward(x)))


class EncoderLayer__mask_lost_beside_the_bias(EncoderLayer):
    """Your mask works alone and your bias works alone, but with both only the bias acts. Hand on both."""

    def forward(self, x, mask=None, bias=None):
        mask = mask if bias is None else None
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class EncoderLayer__bias_in_the_place_of_memory(EncoderLayer):
    """You hand the bias to attention as its third argument, which is the memory. Name it: self.attention(x, mask, bias=bias)."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask, bias))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class EncoderLayer__normalised_on_the_way_out(EncoderLayer):
    """Your pre-LN layer ends with a norm around the sum as well. In pre-LN nothing touches the stream: only what the sublayer reads is normalised."""

    def forward(self, x, mask=None, bias=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return self.norm2(x + self.dropout(self.feedforward(self.norm2(x))))
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class EncoderLayer__right__loop_over_sublayers(EncoderLayer):
    def forward(self, x, mask=None, bias=None):
        sublayers = [
            (self.norm1, lambda h: self.attention(h, mask, bias=bias)),
            (self.norm2, self.feedforward),
        ]
        for norm, f in sublayers:
            x = x + self.dropout(f(norm(x))) if self.norm_first else norm(x + self.dropout(f(x)))
        return x


class EncoderLayer__right__wrapper(EncoderLayer):
    def wrap(self, x, norm, f):
        before = norm(x) if self.norm_first else x
        after = torch.add(x, self.dropout(f(before)))
        return after if self.norm_first else norm(after)

    def forward(self, x, mask=None, bias=None):
        x = self.wrap(x, self.norm1, lambda h: self.attention(h, mask, None, bias))
        return self.wrap(x, self.norm2, self.feedforward)


class EncoderLayer__right__functional(EncoderLayer):
    def forward(self, x, mask=None, bias=None):
        def norm(module, x):
            return F.layer_norm(x, x.shape[-1:], module.weight, module.bias, module.eps)

        def drop(x):
            return F.dropout(x, self.dropout.p, self.training)

        if not self.norm_first:
            x = norm(self.norm1, x + drop(self.attention(x, mask, bias=bias)))
            return norm(self.norm2, x + drop(self.feedforward(x)))
        x = x + drop(self.attention(norm(self.norm1, x), mask, bias=bias))
        return x + drop(self.feedforward(norm(self.norm2, x)))


# --- residual_gradients --------------------------------------------------------------------------------------------


def residual_gradients__without_jacobians(jacobians, grad):
    """You add ∂L/∂f_i as it is, and ∂L/∂f_i is the gradient at x_{i+1}: so yours doubles at every layer, whatever the layers do. It has to pass through J_iᵀ first."""
    gradients = [grad]
    for _ in jacobians:
        gradients.append(gradients[-1] + gradients[-1])
    return torch.stack(gradients[::-1])


def residual_gradients__not_transposed(jacobians, grad):
    """You multiply by J where the gradient needs Jᵀ. Forwards, small changes go through J; backwards, gradients go through its transpose."""
    gradients = [grad]
    for jacobian in jacobians.flip(0):
        gradients.append(gradients[-1] + jacobian @ gradients[-1])
    return torch.stack(gradients[::-1])


def residual_gradients__only_first_order(jacobians, grad):
    """You send the top gradient through every J_i and add up: g_L + Σ J_iᵀ g_L. But what reaches layer i has already gone through the layers above it: g_{i+1}, not g_L."""
    gradients = [grad]
    for jacobian in jacobians.flip(0):
        gradients.append(gradients[-1] + jacobian.T @ grad)
    return torch.stack(gradients[::-1])


def residual_gradients__no_skip(jacobians, grad):
    """You have only the path through the sublayers, Π J_iᵀ. The residual connection adds the identity: Π (I + J_i)ᵀ."""
    gradients = [grad]
    for jacobian in jacobians.flip(0):
        gradients.append(jacobian.T @ gradients[-1])
    return torch.stack(gradients[::-1])


def residual_gradients__only_skip(jacobians, grad):
    """You pass the gradient down untouched, as if the sublayers were not there. They add J_iᵀ g_{i+1}."""
    return grad.expand(len(jacobians) + 1, -1).clone()


def residual_gradients__bottom_up(jacobians, grad):
    """You use the Jacobians from the bottom up. The gradient comes from the top: the last layer's Jacobian is the first it meets."""
    gradients = [grad]
    for jacobian in jacobians:
        gradients.append(gradients[-1] + jacobian.T @ gradients[-1])
    return torch.stack(gradients[::-1])


def residual_gradients__upside_down(jacobians, grad):
    """Your numbers are right and in the wrong order: row 0 must be the gradient at x_0, the last row the one at the top."""
    gradients = [grad]
    for jacobian in jacobians.flip(0):
        gradients.append(gradients[-1] + jacobian.T @ gradients[-1])
    return torch.stack(gradients)


def residual_gradients__top_missing(jacobians, grad):
    """The top is missing: L layers have L + 1 heights, and the last row is the gradient you were given."""
    gradients = [grad]
    for jacobian in jacobians.flip(0):
        gradients.append(gradients[-1] + jacobian.T @ gradients[-1])
    return torch.stack(gradients[:0:-1])


def residual_gradients__bottom_only(jacobians, grad):
    """You return only the gradient at x_0. Asked for is the gradient at every height, (L + 1, D)."""
    for jacobian in jacobians.flip(0):
        grad = grad + jacobian.T @ grad
    return grad


def residual_gradients__sum_of_jacobians(jacobians, grad):
    """You multiply the top gradient by the Jacobian of the layer alone, I + J_i, and forget the layers between it and the top."""
    gradients = [grad + jacobian.T @ grad for jacobian in jacobians]
    return torch.stack([*gradients, grad])


def residual_gradients__right__products(jacobians, grad):
    identity = torch.eye(len(grad), dtype=grad.dtype)
    total, rows = identity, [grad]
    for i in range(len(jacobians) - 1, -1, -1):
        total = total @ (identity + jacobians[i])
        rows.insert(0, grad @ total)
    return torch.stack(rows)


def residual_gradients__right__in_place(jacobians, grad):
    n = jacobians.size(0)
    out = grad.new_empty(n + 1, grad.size(0))
    out[n] = grad
    for i in reversed(range(n)):
        out[i] = out[i + 1] + torch.einsum("oi,o->i", jacobians[i], out[i + 1])
    return out


def residual_gradients__right__sums(jacobians, grad):
    n = len(jacobians)
    rows = {n: grad}
    for low in range(n - 1, -1, -1):
        rows[low] = grad + sum(jacobians[i].mT.mv(rows[i + 1]) for i in range(low, n))
    return torch.stack([rows[low] for low in range(n + 1)])


def residual_gradients__right__autograd(jacobians, grad):
    xs = [torch.zeros_like(grad).requires_grad_()]
    for jacobian in jacobians:
        xs.append(xs[-1] + jacobian.detach() @ xs[-1])
    return torch.stack(torch.autograd.grad(xs[-1] @ grad.detach(), xs))


# --- gradient_norms ------------------------------------------------------------------------------------------------


def gradient_norms__piling_up(layers, x, target):
    """You call backward() once for each layer, and backward() adds to .grad: the second layer's reading is doubled, the third's tripled. Clear the gradients, or use torch.autograd.grad."""
    norms = []
    for layer in layers:
        (run_stack(layers, x) * target).sum().backward()
        norms.append(layer.feedforward.down.weight.grad.norm())
    return torch.stack(norms)


def gradient_norms__squared(layers, x, target):
    """You return the sum of squares. The norm is its root."""
    weights = [layer.feedforward.down.weight for layer in layers]
    gradients = torch.autograd.grad((run_stack(layers, x) * target).sum(), weights)
    return torch.stack([g.square().sum() for g in gradients])


def gradient_norms__mean_loss(layers, x, target):
    """Your loss is a mean. The task asks for the sum, so your readings are smaller by the number of entries."""
    weights = [layer.feedforward.down.weight for layer in layers]
    gradients = torch.autograd.grad((run_stack(layers, x) * target).mean(), weights)
    return torch.stack([g.norm() for g in gradients])


def gradient_norms__largest_entry(layers, x, target):
    """You return the largest entry of each gradient. The Frobenius norm is the root of the sum of all squared entries."""
    weights = [layer.feedforward.down.weight for layer in layers]
    gradients = torch.autograd.grad((run_stack(layers, x) * target).sum(), weights)
    return torch.stack([g.abs().max() for g in gradients])


def gradient_norms__absolute_sum(layers, x, target):
    """You add up absolute values. The Frobenius norm is the root of the sum of the squares."""
    weights = [layer.feedforward.down.weight for layer in layers]
    gradients = torch.autograd.grad((run_stack(layers, x) * target).sum(), weights)
    return torch.stack([g.abs().sum() for g in gradients])


def gradient_norms__spectral(layers, x, target):
    """You return the spectral norm, the largest singular value. Asked for is the Frobenius norm."""
    weights = [layer.feedforward.down.weight for layer in layers]
    gradients = torch.autograd.grad((run_stack(layers, x) * target).sum(), weights)
    return torch.stack([torch.linalg.matrix_norm(g, 2) for g in gradients])


def gradient_norms__first_matrix(layers, x, target):
    """You measure feedforward.up.weight. Asked for is the second matrix, feedforward.down.weight."""
    weights = [layer.feedforward.up.weight for layer in layers]
    gradients = torch.autograd.grad((run_stack(layers, x) * target).sum(), weights)
    return torch.stack([g.norm() for g in gradients])


def gradient_norms__of_the_weights(layers, x, target):
    """You measure the weights themselves, not their gradients."""
    return torch.stack([layer.feedforward.down.weight.detach().norm() for layer in layers])


def gradient_norms__top_first(layers, x, target):
    """Your readings run from the top down. Entry 0 belongs to the first layer."""
    weights = [layer.feedforward.down.weight for layer in layers]
    gradients = torch.autograd.grad((run_stack(layers, x) * target).sum(), weights)
    return torch.stack([g.norm() for g in gradients]).flip(0)


def gradient_norms__no_last_norm(layers, x, target):
    """You run the layers yourself and leave out the last norm. Use run_stack: the scale of a pre-LN stream grows with depth, and the norm takes that out."""
    weights = [layer.feedforward.down.weight for layer in layers]
    for layer in layers:
        x = layer(x)
    gradients = torch.autograd.grad((x * target).sum(), weights)
    return torch.stack([g.norm() for g in gradients])


def gradient_norms__squared_error(layers, x, target):
    """Your loss is the squared distance to the target. The task asks for the sum of output times target."""
    weights = [layer.feedforward.down.weight for layer in layers]
    gradients = torch.autograd.grad((run_stack(layers, x) - target).square().sum(), weights)
    return torch.stack([g.norm() for g in gradients])


def gradient_norms__one_number(layers, x, target):
    """You return one norm for all layers together. Each layer has its own."""
    weights = [layer.feedforward.down.weight for layer in layers]
    gradients = torch.autograd.grad((run_stack(layers, x) * target).sum(), weights)
    return torch.cat([g.flatten() for g in gradients]).norm()


def gradient_norms__right__backward(layers, x, target):
    for layer in layers:
        layer.zero_grad()
    torch.sum(run_stack(layers, x) * target).backward()
    return torch.tensor([float(layer.feedforward.down.weight.grad.norm()) for layer in layers])


def gradient_norms__right__one_at_a_time(layers, x, target):
    norms = []
    for layer in layers:
        loss = torch.einsum("btd,btd->", run_stack(layers, x), target)
        (gradient,) = torch.autograd.grad(loss, layer.feedforward.down.weight)
        norms.append(torch.linalg.matrix_norm(gradient))
    return torch.stack(norms)


def gradient_norms__right__all_parameters(layers, x, target):
    out = run_stack(layers, x)
    weights = [layer.feedforward.down.weight for layer in layers]
    gradients = torch.autograd.grad(out, weights, grad_outputs=target)
    return torch.tensor([math.sqrt(float((g.double() ** 2).sum())) for g in gradients])


# --- train ---------------------------------------------------------------------------------------------------------


def train__gradients_pile_up(layers, x, y, lr, warmup=0):
    """You never clear the gradients, so every step follows the sum of all batches so far. Call zero_grad() before backward()."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    optimiser.zero_grad()
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / max(1, warmup))
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__no_warmup(layers, x, y, lr, warmup=0):
    """Your learning rate is the same from the first step on: warmup is never used."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__starts_at_zero(layers, x, y, lr, warmup=0):
    """Your first step has learning rate 0 and learns nothing: the ramp is (s + 1)/warmup, not s/warmup."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] = lr * min(1.0, step / warmup) if warmup else lr
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__ramp_never_ends(layers, x, y, lr, warmup=0):
    """Your learning rate keeps rising after warm-up. The ramp stops at the full rate: min(1, (s + 1)/warmup)."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] = lr * (step + 1) / warmup if warmup else lr
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__ramp_reversed(layers, x, y, lr, warmup=0):
    """Your learning rate falls during warm-up. It starts small and rises to the full rate."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] = lr * max(0.0, 1 - step / warmup) if warmup else lr
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__never_steps(layers, x, y, lr, warmup=0):
    """Your layers never change: the optimiser's step() is not called."""
    losses = []
    for step in range(len(x)):
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        loss.backward()
        losses.append(loss.item())
    return losses


def train__plain_descent(layers, x, y, lr, warmup=0):
    """You use SGD. The task asks for Adam, whose steps do not shrink with the gradient."""
    optimiser = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / max(1, warmup))
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__last_layer_only(layers, x, y, lr, warmup=0):
    """You train the last layer only. Give the optimiser the parameters of all layers."""
    optimiser = torch.optim.Adam(layers[-1].parameters(), lr)
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / max(1, warmup))
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__new_optimiser_each_step(layers, x, y, lr, warmup=0):
    """You make a new Adam for every batch, and each forgets what the last one knew. Make it once, before the loop, and change its rate."""
    losses = []
    for step in range(len(x)):
        rate = lr * min(1.0, (step + 1) / max(1, warmup))
        optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], rate)
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__softmax_twice(layers, x, y, lr, warmup=0):
    """You apply a softmax before the cross-entropy, which has one inside. Give it the logits."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / max(1, warmup))
        loss = F.cross_entropy(read_first(layers, x[step]).softmax(-1), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__first_batch_only(layers, x, y, lr, warmup=0):
    """Every step of yours learns from the first batch. Step s learns from batch s."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / max(1, warmup))
        loss = F.cross_entropy(read_first(layers, x[0]), y[0])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__loss_after_the_step(layers, x, y, lr, warmup=0):
    """You report each batch's loss after having learnt from it. Take it before the step: that is the honest one."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / max(1, warmup))
        optimiser.zero_grad()
        F.cross_entropy(read_first(layers, x[step]), y[step]).backward()
        optimiser.step()
        losses.append(F.cross_entropy(read_first(layers, x[step]), y[step]).item())
    return losses


def train__ramp_on_the_ramp(layers, x, y, lr, warmup=0):
    """You multiply the rate that the last step left behind, so the ramp is applied again and again. Each step starts from lr: lr · min(1, (s + 1)/warmup)."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        optimiser.param_groups[0]["lr"] *= min(1.0, (step + 1) / max(1, warmup))
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__rate_set_too_late(layers, x, y, lr, warmup=0):
    """You set the rate after the step, so each step uses the one meant for the step before, and the first is made at full speed."""
    optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr)
    losses = []
    for step in range(len(x)):
        loss = F.cross_entropy(read_first(layers, x[step]), y[step])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        optimiser.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / max(1, warmup))
        losses.append(loss.item())
    return losses


def train__right__scheduler(layers, x, y, lr, warmup=0):
    optimiser = torch.optim.Adam(torch.nn.ModuleList(layers).parameters(), lr=lr)
    ramp = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda s: min(1.0, (s + 1) / warmup) if warmup else 1.0)
    losses = []
    for inputs, labels in zip(x, y):
        optimiser.zero_grad()
        loss = F.cross_entropy(read_first(layers, inputs), labels)
        loss.backward()
        optimiser.step()
        ramp.step()
        losses.append(float(loss.detach()))
    return losses


def train__right__groups_by_layer(layers, x, y, lr, warmup=0):
    optimiser = torch.optim.Adam([{"params": list(layer.parameters())} for layer in layers], lr)
    losses = []
    for step, (inputs, labels) in enumerate(zip(x, y)):
        for group in optimiser.param_groups:
            group["lr"] = lr if step >= warmup else lr * (step + 1) / warmup
        logits = read_first(layers, inputs)
        loss = (logits.logsumexp(-1) - logits.gather(1, labels[:, None])[:, 0]).mean()
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train__right__adam_by_hand(layers, x, y, lr, warmup=0):
    weights = [p for layer in layers for p in layer.parameters()]
    first, second = [torch.zeros_like(p) for p in weights], [torch.zeros_like(p) for p in weights]
    losses = []
    for step in range(1, len(x) + 1):
        rate = lr * (min(1, step / warmup) if warmup else 1)
        loss = F.cross_entropy(read_first(layers, x[step - 1]), y[step - 1])
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for p, g, m, v in zip(weights, gradients, first, second):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p -= rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
        losses.append(loss.item())
    return losses


# --- check_layer_norm ----------------------------------------------------------------------------------------------


def check_layer_norm__looks_only_at_shapes(norm):
    """Your test looks only at shapes. Compare values, with a scale, a shift and an ε that matter."""
    x = torch.randn(2, 3, 4)
    assert norm(x, torch.ones(4), torch.zeros(4), 1e-5).shape == x.shape


def check_layer_norm__never_calls_it(norm):
    """Your test never calls the function it is given, so it says the same of every norm."""
    x = F.layer_norm(torch.randn(2, 3, 4), (4,))
    assert x.mean(-1).abs().max() < 1e-4


def check_layer_norm__returns_the_verdict(norm):
    """Your test returns its verdict instead of raising: nobody looks at what a test returns. Use assert."""
    x, w, b = torch.randn(2, 3, 4), torch.randn(4), torch.randn(4)
    y = norm(x, w, b, 0.5)
    return bool(y.shape == x.shape and torch.allclose(y, F.layer_norm(x, (4,), w, b, 0.5), atol=1e-3))


def check_layer_norm__fresh_weights(norm):
    """Your scale is 1 and your shift 0, so a norm that ignores them passes. Draw both at random."""
    for eps in (1e-5, 0.5):
        for x in (torch.randn(2, 3, 4), torch.ones(2, 3, 4)):
            y = norm(x, torch.ones(4), torch.zeros(4), eps)
            assert y.shape == x.shape and torch.allclose(y, F.layer_norm(x, (4,), eps=eps), atol=1e-3)


def check_layer_norm__epsilon_too_small_to_see(norm):
    """Your ε is 1e-5 on tokens that vary by 1: where it stands, and whether it is there at all, makes no difference. Use a large ε, or tokens that hardly vary."""
    x, w, b = 3 + torch.randn(2, 3, 4), torch.randn(4), torch.randn(4)
    y = norm(x, w, b, 1e-5)
    assert y.shape == x.shape and torch.allclose(y, F.layer_norm(x, (4,), w, b, 1e-5), atol=1e-3)


def check_layer_norm__wide_and_loose(norm):
    """Your vectors are so wide, and your tolerance so loose, that dividing by D − 1 instead of D goes unnoticed. Narrow vectors show it best."""
    for eps in (1e-5, 0.5):
        for x in (3 + torch.randn(2, 3, 400), torch.ones(2, 3, 400)):
            w, b = torch.randn(400), torch.randn(400)
            y, expected = norm(x, w, b, eps), F.layer_norm(x, (400,), w, b, eps)
            assert y.shape == x.shape and (y - expected).abs().max() < 0.05


def check_layer_norm__centred_data(norm):
    """Your tokens already have mean 0, so a norm that never centres passes. Shift them."""
    w, b = torch.randn(4), torch.randn(4)
    for eps in (1e-5, 0.5):
        x = torch.randn(2, 3, 4)
        x = x - x.mean(-1, keepdim=True)
        y = norm(x, w, b, eps)
        assert y.shape == x.shape and torch.allclose(y, F.layer_norm(x, (4,), w, b, eps), atol=1e-3)


def check_layer_norm__mean_and_variance_only(norm):
    """You test that the output has mean 0 and variance 1. That is a property of the normalised token; with γ, β and a large ε it says nothing of them."""
    x = 3 + torch.randn(2, 3, 4)
    y = norm(x, torch.ones(4), torch.zeros(4), 1e-5)
    assert y.mean(-1).abs().max() < 1e-3
    assert (y.var(-1, unbiased=False) - 1).abs().max() < 1e-2


def check_layer_norm__only_constant_tokens(norm):
    """You test only tokens that are constant. nan is caught there, and a forgotten β, and hardly anything else."""
    w, b = torch.randn(4), torch.randn(4)
    y = norm(torch.ones(2, 3, 4), w, b, 1e-5)
    assert y.shape == (2, 3, 4) and torch.allclose(y, b.expand(2, 3, 4), atol=1e-3)


def check_layer_norm__expects_unbiased(norm):
    """Your test fails a right norm: it expects the variance that divides by D − 1."""
    x, w, b = 3 + torch.randn(2, 3, 4), torch.randn(4), torch.randn(4)
    y = norm(x, w, b, 1e-5)
    assert torch.allclose(y, (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) * w + b, atol=1e-3)


def check_layer_norm__right__by_hand(norm):
    w, b = torch.randn(5) + 2, torch.randn(5) + 2
    for eps in (1e-6, 0.1, 2.0):
        for x in (2 + 3 * torch.randn(3, 4, 5), 1e-4 * torch.randn(3, 4, 5), torch.zeros(3, 4, 5)):
            y = norm(x, w, b, eps)
            assert y.shape == x.shape, "the shape changed"
            for i in range(3):
                for j in range(4):
                    token = x[i, j].double()
                    mean = token.sum() / 5
                    spread = ((token - mean) ** 2).sum() / 5
                    expected = (token - mean) / math.sqrt(float(spread) + eps) * w + b
                    assert (y[i, j] - expected).abs().max() < 2e-3, (
                        "a token is not normalised by itself as it should be"
                    )


def check_layer_norm__right__numpy(norm):
    rng = np.random.default_rng(0)
    for eps in (1e-5, 1.0):
        for x in (rng.normal(4, 2, (2, 5, 3)), np.full((2, 5, 3), 2.0), rng.normal(0, 1e-3, (2, 5, 3))):
            w, b = rng.normal(size=3), rng.normal(size=3) + 1
            expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b
            got = norm(*(torch.tensor(a, dtype=torch.float32) for a in (x, w, b)), eps)
            assert tuple(got.shape) == x.shape, "the shape changed"
            assert np.abs(got.numpy() - expected).max() < 2e-3, "values differ from the formula"


def check_layer_norm__right__library(norm):
    for _ in range(4):
        x, w, b = 5 + torch.randn(3, 2, 6), torch.randn(6), torch.randn(6)
        for scale in (1.0, 1e-3, 0.0):
            for eps in (1e-4, 0.7):
                y = norm(scale * x, w, b, eps)
                torch.testing.assert_close(y, F.layer_norm(scale * x, (6,), w, b, eps), atol=2e-3, rtol=0)
