"""Assignment 04: wrong versions that learners really write, each with what a tutor would say, and right ones in other styles."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from encoder.checks import check_width
from encoder.feedforward import ACTIVATIONS, ConvFeedForward, FeedForward, SeparableFeedForward

# --- gelu ----------------------------------------------------------------------------------------------------------


def gelu__tanh_form(x):
    """You wrote the tanh approximation. It is within 5e-4 of GELU, close enough to look right and far enough to break parity with BERT. The exact form uses torch.erf."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu__sigmoid_form(x):
    """You wrote x·σ(1.702x), the coarse approximation, up to 0.02 away. The exact form uses torch.erf."""
    return x * torch.sigmoid(1.702 * x)


def gelu__silu(x):
    """You wrote x·σ(x): that is SiLU (or Swish). GELU multiplies by Φ(x), the normal distribution function, not by the logistic one."""
    return x * torch.sigmoid(x)


def gelu__relu(x):
    """You wrote ReLU. GELU has no kink, and lets a little through left of zero: GELU(−1) = −0.16."""
    return x.clamp(min=0)


def gelu__root_two_forgotten(x):
    """You take erf(x) instead of erf(x/√2). erf belongs to a normal distribution of variance ½; dividing by √2 makes it that of variance 1."""
    return x * 0.5 * (1 + torch.erf(x))


def gelu__divided_by_two(x):
    """You take erf(x/2) instead of erf(x/√2), so the curve bends too slowly."""
    return x * 0.5 * (1 + torch.erf(x / 2))


def gelu__one_forgotten(x):
    """You left out the 1 in ½(1 + erf): your curve is even, x·½·erf, and grows on the left as well as on the right."""
    return x * 0.5 * torch.erf(x / math.sqrt(2))


def gelu__half_forgotten(x):
    """You left out the ½: your function tends to 2x on the right. A probability cannot exceed one."""
    return x * (1 + torch.erf(x / math.sqrt(2)))


def gelu__probability_only(x):
    """You return Φ(x) itself. GELU is x times that probability: the probability is the gate, x is what passes it."""
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu__density(x):
    """You multiply x by the bell curve, the density. Φ is the area under it left of x."""
    return x * torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def gelu__gradient_cut(x):
    """Your values are right, but part of the gradient is lost: Φ(x) was detached, though it depends on x, too."""
    return x * (0.5 * (1 + torch.erf(x / math.sqrt(2)))).detach()


def gelu__always_float32(x):
    """Your result is float32 whatever comes in. A piece keeps the dtype of its input: do not convert."""
    x = x.float()
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu__right__library(x):
    return F.gelu(x)


def gelu__right__erfc(x):
    return x * torch.erfc(-x / 2**0.5) / 2


def gelu__right__ndtr(x):
    return torch.special.ndtr(x) * x


def gelu__right__distribution(x):
    normal = torch.distributions.Normal(torch.zeros_like(x), torch.ones_like(x))
    return x * normal.cdf(x)


# --- FeedForward ---------------------------------------------------------------------------------------------------


class FeedForward__no_activation(FeedForward):
    """Nothing bends between your two matrices, so together they are one matrix. Apply the activation to the F hidden features."""

    def forward(self, x):
        return self.down(self.up(x))


class FeedForward__activation_at_the_end(FeedForward):
    """You apply the activation after the second matrix. It belongs between the two, on the F hidden features; the result is not bent again."""

    def forward(self, x):
        return ACTIVATIONS[self.activation](self.down(self.up(x)))


class FeedForward__activation_twice(FeedForward):
    """You bend twice, once in the middle and once at the end, so your output can hardly be negative. Only the hidden features are bent."""

    def forward(self, x):
        act = ACTIVATIONS[self.activation]
        return act(self.down(act(self.up(x))))


class FeedForward__activation_first(FeedForward):
    """You bend the input before the first matrix, and then the two matrices are one. First up to F features, then bend."""

    def forward(self, x):
        return self.down(self.up(ACTIVATIONS[self.activation](x)))


class FeedForward__residual_inside(FeedForward):
    """You add x to the result. The residual connection belongs to the layer around this piece (assignment 05); added here, it would come twice."""

    def forward(self, x):
        return x + self.down(ACTIVATIONS[self.activation](self.up(x)))


class FeedForward__always_relu(FeedForward):
    """You use ReLU whatever was asked for. self.activation holds the name; ACTIVATIONS holds the function."""

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class FeedForward__always_gelu(FeedForward):
    """You use GELU whatever was asked for. self.activation holds the name; ACTIVATIONS holds the function."""

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class FeedForward__gelu_is_tanh(FeedForward):
    """Where "gelu" is asked for you use its tanh form. The two have different names here because they give different numbers."""

    def forward(self, x):
        act = F.relu if self.activation == "relu" else ACTIVATIONS["gelu_tanh"]
        return self.down(act(self.up(x)))


class FeedForward__tanh_is_exact(FeedForward):
    """Where "gelu_tanh" is asked for you use the exact GELU. The two have different names here because they give different numbers."""

    def forward(self, x):
        act = F.relu if self.activation == "relu" else F.gelu
        return self.down(act(self.up(x)))


class FeedForward__biases_dropped(FeedForward):
    """Your output is what you get without b₁ and b₂. Call the linear layers, or add their biases yourself."""

    def forward(self, x):
        return ACTIVATIONS[self.activation](x @ self.up.weight.T) @ self.down.weight.T


class FeedForward__first_matrix_reused(FeedForward):
    """You come back down with the transpose of W₁. W₂ is a matrix of its own: self.down."""

    def forward(self, x):
        return ACTIVATIONS[self.activation](self.up(x)) @ self.up.weight + self.down.bias


class FeedForward__softmax(FeedForward):
    """You put a softmax over the hidden features. They are not shares of anything: each is bent by itself."""

    def forward(self, x):
        return self.down(self.up(x).softmax(-1))


class FeedForward__right__functional(FeedForward):
    def forward(self, x):
        hidden = F.linear(x, self.up.weight, self.up.bias)
        hidden = ACTIVATIONS[self.activation](hidden)
        return F.linear(hidden, self.down.weight, self.down.bias)


class FeedForward__right__einsum(FeedForward):
    def forward(self, x):
        hidden = torch.einsum("...d,fd->...f", x, self.up.weight) + self.up.bias
        return torch.einsum("...f,df->...d", ACTIVATIONS[self.activation](hidden), self.down.weight) + self.down.bias


class FeedForward__right__position_by_position(FeedForward):
    def forward(self, x):
        act = ACTIVATIONS[self.activation]
        rows = [self.down(act(self.up(row))) for row in x.reshape(-1, x.size(-1))]
        return torch.stack(rows).reshape(x.shape)


# --- ConvFeedForward -----------------------------------------------------------------------------------------------


class ConvFeedForward__reshaped(ConvFeedForward):
    """You reshape where axes must change places. The shape fits, but the numbers are dealt out in a new order: features of one token end up in others. Use transpose(1, 2)."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        b, t, d = x.shape
        return self.down(ACTIVATIONS[self.activation](self.up(x.reshape(b, d, t)))).reshape(b, t, d)


class ConvFeedForward__back_by_reshape(ConvFeedForward):
    """On the way in you swap the axes, on the way out you reshape. The result has the right shape and the wrong order: swap back, too."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        return self.down(ACTIVATIONS[self.activation](self.up(x.transpose(1, 2)))).reshape(x.shape)


class ConvFeedForward__channels_last(ConvFeedForward):
    """nn.Conv1d takes channels first, (B, D, T), and you gave it (B, T, D): it mixes positions, or stops when T and D differ."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        return self.down(ACTIVATIONS[self.activation](self.up(x)))


class ConvFeedForward__left_channels_first(ConvFeedForward):
    """Your result is (B, D, T). Swap the axes back before you return it."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        return self.down(ACTIVATIONS[self.activation](self.up(x.transpose(1, 2))))


class ConvFeedForward__no_activation(ConvFeedForward):
    """Nothing bends between your two convolutions, so together they are one."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        return self.down(self.up(x.transpose(1, 2))).transpose(1, 2)


class ConvFeedForward__activation_at_the_end(ConvFeedForward):
    """You apply the activation after the second convolution. It belongs between the two."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        return ACTIVATIONS[self.activation](self.down(self.up(x.transpose(1, 2)))).transpose(1, 2)


class ConvFeedForward__always_relu(ConvFeedForward):
    """You use ReLU whatever was asked for. self.activation holds the name."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        return self.down(F.relu(self.up(x.transpose(1, 2)))).transpose(1, 2)


class ConvFeedForward__always_gelu(ConvFeedForward):
    """You use GELU whatever was asked for. self.activation holds the name."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        return self.down(F.gelu(self.up(x.transpose(1, 2)))).transpose(1, 2)


class ConvFeedForward__residual_inside(ConvFeedForward):
    """You add x to the result. The residual connection belongs to the layer around this piece."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        return x + self.down(ACTIVATIONS[self.activation](self.up(x.transpose(1, 2)))).transpose(1, 2)


class ConvFeedForward__biases_dropped(ConvFeedForward):
    """Your output is what you get without the biases of the two convolutions."""

    def forward(self, x):
        check_width(x, self.up.in_channels)
        hidden = ACTIVATIONS[self.activation](F.conv1d(x.transpose(1, 2), self.up.weight))
        return F.conv1d(hidden, self.down.weight).transpose(1, 2)


class ConvFeedForward__right__conv1d_function(ConvFeedForward):
    def forward(self, x):
        hidden = F.conv1d(x.movedim(-1, 1), self.up.weight, self.up.bias)
        hidden = ACTIVATIONS[self.activation](hidden)
        return F.conv1d(hidden, self.down.weight, self.down.bias).movedim(1, -1)


class ConvFeedForward__right__matrix_products(ConvFeedForward):
    def forward(self, x):
        check_width(x, self.up.in_channels)
        hidden = F.linear(x, self.up.weight.squeeze(-1), self.up.bias)
        return F.linear(ACTIVATIONS[self.activation](hidden), self.down.weight.squeeze(-1), self.down.bias)


class ConvFeedForward__right__position_by_position(ConvFeedForward):
    def forward(self, x):
        columns = [self.down(ACTIVATIONS[self.activation](self.up(x[:, t, :, None]))) for t in range(x.size(1))]
        return torch.cat(columns, dim=2).permute(0, 2, 1)


# --- SeparableFeedForward ------------------------------------------------------------------------------------------


class SeparableFeedForward__mask_ignored(SeparableFeedForward):
    """You never apply the mask, so what lies on padding leaks into the last real tokens, through the window."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        return self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2))


class SeparableFeedForward__mask_inverted(SeparableFeedForward):
    """You zero the real tokens and keep the padding: True means 'real token'."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(mask[:, 0, 0, :, None], 0.0)
        return self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2))


class SeparableFeedForward__mask_after_the_window(SeparableFeedForward):
    """You zero padding after the window has passed: by then the last real token has read it. Zero it before."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        mixed = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        if mask is not None:
            mixed = mixed.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        return self.pointwise(mixed)


class SeparableFeedForward__minus_infinity(SeparableFeedForward):
    """You fill padding with −∞, as one does with scores before a softmax. Here there is no softmax: padding is read as zeros."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], -torch.inf)
        return self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2))


class SeparableFeedForward__first_mask_for_all(SeparableFeedForward):
    """You use the mask of the first sentence for the whole batch. Each sentence has a length of its own."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(~mask[0, 0, 0, :, None], 0.0)
        return self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2))


class SeparableFeedForward__mask_squeezed(SeparableFeedForward):
    """Your squeeze() takes away every axis of size 1, also that of a sentence of one token. Say which axes you mean: mask[:, 0, 0]."""

    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask.squeeze()[..., None]
        return self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2))


class SeparableFeedForward__input_overwritten(SeparableFeedForward):
    """You zero the padding in the caller's own tensor, with masked_fill_ or an assignment. Make a new one: masked_fill."""

    def forward(self, x, mask=None):
        if mask is not None:
            x.masked_fill_(~mask[:, 0, 0, :, None], 0.0)
        return self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2))


class SeparableFeedForward__bias_dropped(SeparableFeedForward):
    """The window's own bias, c_d, is missing from your sum."""

    def forward(self, x, mask=None):
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        weight = self.depthwise.weight
        mixed = F.conv1d(x.transpose(1, 2), weight, padding=weight.size(-1) // 2, groups=x.size(-1))
        return self.pointwise(mixed.transpose(1, 2))


class SeparableFeedForward__centred_for_three_only(SeparableFeedForward):
    """You put one zero before the sentence, which centres a window of 3 and no other. It takes (kernel − 1) / 2 on either side."""

    def forward(self, x, mask=None):
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        c = self.depthwise
        padded = F.pad(x.transpose(1, 2), (1, c.weight.size(-1) - 2))
        return self.pointwise(F.conv1d(padded, c.weight, c.bias, groups=x.size(-1)).transpose(1, 2))


class SeparableFeedForward__reshaped(SeparableFeedForward):
    """You reshape where axes must change places, so features of one token end up in others. Use transpose(1, 2)."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        b, t, d = x.shape
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        return self.pointwise(self.depthwise(x.reshape(b, d, t)).reshape(b, t, d))


class SeparableFeedForward__pointwise_first(SeparableFeedForward):
    """You run the feed-forward network first and the window over its result. First the window, then the network."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        return self.depthwise(self.pointwise(x).transpose(1, 2)).transpose(1, 2)


class SeparableFeedForward__window_forgotten(SeparableFeedForward):
    """Your tokens see no neighbours: the depthwise convolution is never called."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        return self.pointwise(x)


class SeparableFeedForward__activation_in_between(SeparableFeedForward):
    """You bend the features between the window and the network. The network bends by itself, between its two matrices."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        return self.pointwise(F.gelu(self.depthwise(x.transpose(1, 2)).transpose(1, 2)))


class SeparableFeedForward__residual_inside(SeparableFeedForward):
    """You add x to the result. The residual connection belongs to the layer around this piece."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        return x + self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2))


class SeparableFeedForward__round_the_corner(SeparableFeedForward):
    """Your window goes round: the first token reads the last. Beyond the ends there are zeros."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        r = self.depthwise.kernel_size[0] // 2
        mixed = sum(x.roll(-j, 1) * self.depthwise.weight[:, 0, j + r] for j in range(-r, r + 1)) + self.depthwise.bias
        return self.pointwise(mixed)


class SeparableFeedForward__only_backwards(SeparableFeedForward):
    """Your window ends at the token itself and reads only earlier ones. It is centred: as many neighbours on the left as on the right."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        padded = F.pad(x.transpose(1, 2), (self.depthwise.kernel_size[0] - 1, 0))
        mixed = F.conv1d(padded, self.depthwise.weight, self.depthwise.bias, groups=x.size(-1))
        return self.pointwise(mixed.transpose(1, 2))


class SeparableFeedForward__window_mirrored(SeparableFeedForward):
    """Your window is mirrored: the weight of the left neighbour is applied to the right one. C[d, 0] belongs to the leftmost neighbour."""

    def forward(self, x, mask=None):
        check_width(x, self.depthwise.in_channels)
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)
        weight, r = self.depthwise.weight.flip(-1), self.depthwise.kernel_size[0] // 2
        mixed = F.conv1d(x.transpose(1, 2), weight, self.depthwise.bias, padding=r, groups=x.size(-1))
        return self.pointwise(mixed.transpose(1, 2))


class SeparableFeedForward__right__sum_of_shifts(SeparableFeedForward):
    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask[:, 0, 0, :, None]
        r, length = self.depthwise.kernel_size[0] // 2, x.size(1)
        padded = F.pad(x, (0, 0, r, r))
        mixed = self.depthwise.bias
        for j in range(2 * r + 1):
            mixed = mixed + self.depthwise.weight[:, 0, j] * padded[:, j : j + length]
        return self.pointwise(mixed)


class SeparableFeedForward__right__unfolded(SeparableFeedForward):
    def forward(self, x, mask=None):
        if mask is not None:
            x = torch.where(mask[:, 0, 0].unsqueeze(-1), x, torch.zeros_like(x))
        width = self.depthwise.kernel_size[0]
        windows = F.pad(x, (0, 0, width // 2, width // 2)).unfold(1, width, 1)  # (B, T, D, kernel)
        mixed = torch.einsum("btdj,dj->btd", windows, self.depthwise.weight[:, 0]) + self.depthwise.bias
        return self.pointwise(mixed)


class SeparableFeedForward__right__conv1d_function(SeparableFeedForward):
    def forward(self, x, mask=None):
        y = x.permute(0, 2, 1)
        if mask is not None:
            y = y * mask[:, 0].to(y.dtype)
        y = F.conv1d(y, self.depthwise.weight, self.depthwise.bias, padding="same", groups=y.size(1))
        return self.pointwise(y.permute(0, 2, 1))


# --- moved_positions -----------------------------------------------------------------------------------------------


def moved_positions__edited_in_place(f, x, t, replacement):
    """Nothing ever moves for you: you edited x itself, so both runs saw the same input. Work on x.clone()."""
    changed = x
    changed[:, t] = replacement
    return (f(changed) - f(x)).abs().amax((0, 2)) > 1e-6


def moved_positions__compares_the_inputs(f, x, t, replacement):
    """You compare the two inputs. They always differ at t and nowhere else; the question is where the outputs differ."""
    changed = x.clone()
    changed[:, t] = replacement
    return (changed - x).abs().amax((0, 2)) > 1e-6


def moved_positions__sign_kept(f, x, t, replacement):
    """You miss outputs that went down: take the absolute difference before you look for the largest."""
    changed = x.clone()
    changed[:, t] = replacement
    return (f(changed) - f(x)).amax((0, 2)) > 1e-6


def moved_positions__differences_cancel(f, x, t, replacement):
    """You add up the differences of a position, and differences of opposite sign cancel. Take absolute values first."""
    changed = x.clone()
    changed[:, t] = replacement
    return (f(changed) - f(x)).sum((0, 2)).abs() > 1e-6


def moved_positions__first_feature_only(f, x, t, replacement):
    """You look at the first feature only. A position has moved when any of its features has."""
    changed = x.clone()
    changed[:, t] = replacement
    return (f(changed) - f(x))[..., 0].abs().amax(0) > 1e-6


def moved_positions__all_features_must_move(f, x, t, replacement):
    """You ask that all features of a position move. One is enough: any, not all."""
    changed = x.clone()
    changed[:, t] = replacement
    return ((f(changed) - f(x)).abs() > 1e-6).all(-1).any(0)


def moved_positions__all_sentences_must_move(f, x, t, replacement):
    """You ask that a position moves in every sentence of the batch. One sentence is enough: any, not all."""
    changed = x.clone()
    changed[:, t] = replacement
    return ((f(changed) - f(x)).abs() > 1e-6).any(-1).all(0)


def moved_positions__averaged(f, x, t, replacement):
    """You average the differences of a position, so that a small movement of one feature drowns in the others. Take the largest."""
    changed = x.clone()
    changed[:, t] = replacement
    return (f(changed) - f(x)).abs().mean((0, 2)) > 1e-6


def moved_positions__any_rounding_counts(f, x, t, replacement):
    """You call any difference a movement, also one below 1e-6: rounding alone can do that. Compare with the threshold."""
    changed = x.clone()
    changed[:, t] = replacement
    return (f(changed) != f(x)).any(-1).any(0)


def moved_positions__relative(f, x, t, replacement):
    """You use allclose, which allows more where the values are large. The threshold is 1e-6, whatever the size of the output."""
    changed = x.clone()
    changed[:, t] = replacement
    before, after = f(x), f(changed)
    return torch.tensor([not torch.allclose(after[:, i], before[:, i]) for i in range(x.size(1))])


def moved_positions__first_sentence_only(f, x, t, replacement):
    """You replace the token in the first sentence of the batch only, and look at the last one. Every sentence gets the replacement."""
    changed = x.clone()
    changed[0, t] = replacement
    return (f(changed) - f(x))[-1].abs().amax(-1) > 1e-6


def moved_positions__numb(f, x, t, replacement):
    """Your threshold is 0.1, so small movements are missed. The task asks for 1e-6."""
    changed = x.clone()
    changed[:, t] = replacement
    return (f(changed) - f(x)).abs().amax((0, 2)) > 0.1


def moved_positions__added(f, x, t, replacement):
    """You add the replacement to the token. It takes the token's place."""
    changed = x.clone()
    changed[:, t] += replacement
    return (f(changed) - f(x)).abs().amax((0, 2)) > 1e-6


def moved_positions__all_from_t_on(f, x, t, replacement):
    """You replace token t and all that follow it. Only token t changes; index with t, not with t:."""
    changed = x.clone()
    changed[:, t:] = replacement
    return (f(changed) - f(x)).abs().amax((0, 2)) > 1e-6


def moved_positions__one_too_far(f, x, t, replacement):
    """You replace token t + 1. Positions are counted from 0."""
    changed = x.clone()
    changed[:, min(t + 1, x.size(1) - 1)] = replacement
    return (f(changed) - f(x)).abs().amax((0, 2)) > 1e-6


def moved_positions__feature_instead_of_token(f, x, t, replacement):
    """You index the last axis, the features: changed[..., t] is feature t of all tokens. Tokens are on axis 1."""
    changed = x.clone()
    changed[..., t % x.size(-1)] = replacement[0]
    return (f(changed) - f(x)).abs().amax((0, 2)) > 1e-6


def moved_positions__indices(f, x, t, replacement):
    """You return the numbers of the moved positions. Asked for is one truth value for each position, shape (T,)."""
    changed = x.clone()
    changed[:, t] = replacement
    return ((f(changed) - f(x)).abs().amax((0, 2)) > 1e-6).nonzero().flatten()


def moved_positions__right__loop(f, x, t, replacement):
    changed = torch.stack([torch.cat([row[:t], replacement[None], row[t + 1 :]]) for row in x])
    before, after = f(x), f(changed)
    moved = [bool(((after[:, s] - before[:, s]).abs() > 1e-6).any()) for s in range(x.size(1))]
    return torch.tensor(moved)


def moved_positions__right__where(f, x, t, replacement):
    here = (torch.arange(x.size(1)) == t)[None, :, None]
    difference = f(torch.where(here, replacement, x)) - f(x)
    return ((difference > 1e-6) | (difference < -1e-6)).any(2).any(0)


def moved_positions__right__numpy(f, x, t, replacement):
    y = x.detach().numpy().copy()
    y[:, t] = replacement.numpy()
    gap = np.abs((f(torch.from_numpy(y)) - f(x)).detach().numpy()).max(axis=(0, 2))
    return torch.from_numpy(gap > 1e-6)


# --- check_position_wise -------------------------------------------------------------------------------------------


def check_position_wise__looks_only_at_shapes(ffn):
    """Your test looks only at the shape. The colleague's shapes are right: change a token and look at the others."""
    assert ffn(torch.randn(2, 4, 5)).shape == (2, 4, 5)


def check_position_wise__never_calls_it(ffn):
    """Your test never calls the function it is given, so it says the same of every network."""
    x = torch.randn(2, 4, 5)
    assert x.shape == (2, 4, 5)


def check_position_wise__returns_the_verdict(ffn):
    """Your test returns its verdict instead of raising: nobody looks at what a test returns. Use assert."""
    x = torch.randn(2, 4, 5)
    alone = torch.cat([ffn(x[:, t : t + 1]) for t in range(4)], 1)
    together = ffn(x)
    return bool(together.shape == x.shape and torch.allclose(together, alone, atol=1e-4))


def check_position_wise__only_the_last_token(ffn):
    """You replace the last token and look at the earlier ones. A network that reads only to the left slips through: replace every token in turn."""
    x = torch.randn(2, 4, 5)
    other = x.clone()
    other[:, -1] = torch.randn(2, 5)
    assert torch.allclose(ffn(other)[:, :-1], ffn(x)[:, :-1], atol=1e-4)


def check_position_wise__only_the_first_token(ffn):
    """You replace the first token and look at the later ones. A network that reads only to the right slips through: replace every token in turn."""
    x = torch.randn(2, 4, 5)
    other = x.clone()
    other[:, 0] = torch.randn(2, 5)
    assert torch.allclose(ffn(other)[:, 1:], ffn(x)[:, 1:], atol=1e-4)


def check_position_wise__alone_but_not_alike(ffn):
    """You test that no token changes another, but not that all places are treated alike: a network that scales by position slips through."""
    x = torch.randn(2, 4, 5)
    before = ffn(x)
    for b in range(2):
        for t in range(4):
            other = x.clone()
            other[b, t] = torch.randn(5)
            moved = (ffn(other) - before).abs().amax(-1) > 1e-4
            moved[b, t] = False
            assert not moved.any(), "another token moved"


def check_position_wise__alike_but_not_alone(ffn):
    """You shuffle the tokens and see the outputs shuffled alike. That is also true when each token reads the mean of all: test that it reads nobody."""
    x = torch.randn(2, 4, 5)
    order = torch.tensor([2, 0, 3, 1])
    assert torch.allclose(ffn(x[:, order]), ffn(x)[:, order], atol=1e-4)


def check_position_wise__batch_of_one(ffn):
    """A network that mixes sentences slips through: your batch holds one sentence, or you change all of them at once. Change one and look at the other."""
    x = torch.randn(1, 4, 5)
    together = ffn(x)
    assert together.shape == x.shape
    for t in range(4):
        assert torch.allclose(together[:, t], ffn(x[:, t : t + 1])[:, 0], atol=1e-4)


def check_position_wise__sentences_one_by_one(ffn):
    """You test that sentences do not see each other. The colleague's bug is inside one sentence, between its words."""
    x = torch.randn(2, 4, 5)
    together = ffn(x)
    for b in range(2):
        assert torch.allclose(together[b], ffn(x[b : b + 1])[0], atol=1e-4)


def check_position_wise__all_tokens_equal(ffn):
    """Your sentence repeats one token. With nothing to tell tokens apart, a window and a mean over them go unnoticed, or not, by luck. Use different tokens."""
    x = torch.randn(1, 1, 5).expand(2, 4, 5)
    out = ffn(x)
    assert out.shape == x.shape
    assert torch.allclose(out, out[:1, :1].expand(2, 4, 5), atol=1e-4)


def check_position_wise__expects_its_own_network(ffn):
    """Your test fails right networks as well: it expects one particular function. Only that positions are alone and alike is asked."""
    x = torch.randn(2, 4, 5)
    assert torch.allclose(ffn(x), F.gelu(x), atol=1e-4)


def check_position_wise__right__tokens_as_batch(ffn):
    x = torch.randn(3, 6, 5)
    apart = ffn(x.reshape(18, 1, 5)) if x.numel() else x
    singles = torch.cat([ffn(row.reshape(1, 1, 5)) for row in x.reshape(18, 5)])
    assert ffn(x).shape == x.shape, "the shape changed"
    assert torch.allclose(ffn(x).reshape(18, 5), singles.reshape(18, 5), atol=1e-4), "a token depends on the others"
    assert torch.allclose(apart, singles, atol=1e-4), "a sentence depends on the batch"


def check_position_wise__right__alone_and_alike(ffn):
    x = torch.randn(2, 5, 5)
    before = ffn(x)
    assert before.shape == x.shape
    for b in range(2):
        for t in range(5):
            other = x.clone()
            other[b, t] = torch.randn(5)
            still = torch.ones(2, 5, dtype=torch.bool)
            still[b, t] = False
            assert torch.allclose(ffn(other)[still], before[still], atol=1e-4), "another token moved"
    same = ffn(torch.randn(1, 1, 5).expand(1, 5, 5))
    assert torch.allclose(same, same[:, :1].expand(1, 5, 5), atol=1e-4), "places are treated differently"


def check_position_wise__right__many_lengths(ffn):
    token = torch.randn(5)
    expected = ffn(token.reshape(1, 1, 5))[0, 0]
    for length in range(1, 6):
        for t in range(length):
            x = torch.randn(3, length, 5)
            x[1, t] = token
            out = ffn(x)
            assert out.shape == x.shape, "the shape changed"
            assert (out[1, t] - expected).abs().max() < 1e-4, "its surroundings changed the token"
