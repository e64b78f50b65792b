"""What attention replaced: recurrent and convolutional encoders. Chapter 08.

D is the width of the input, N that of the hidden state. Parameters carry the names and the gate order of torch.nn's
cells, so `cell.load_state_dict(torch.nn.LSTMCell(D, N).state_dict())` works.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.checks import check_width
from encoder.layer import LayerNorm
from encoder.stack import padding_mask


class RNNCell(nn.Module):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh):  x (B, D), h (B, N) or None for zeros → h' (B, N).

    Elman (1990).
    """

    def __init__(self, d_in: int, d_hidden: int):
        super().__init__()
        bound = d_hidden**-0.5
        self.weight_ih = nn.Parameter(torch.empty(d_hidden, d_in).uniform_(-bound, bound))
        self.weight_hh = nn.Parameter(torch.empty(d_hidden, d_hidden).uniform_(-bound, bound))
        self.bias_ih = nn.Parameter(torch.empty(d_hidden).uniform_(-bound, bound))
        self.bias_hh = nn.Parameter(torch.empty(d_hidden).uniform_(-bound, bound))

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        check_width(x, self.weight_ih.size(1), rank=2)
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        check_width(h, self.weight_hh.size(1), rank=2)
        return torch.tanh(F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh))


class LSTMCell(nn.Module):
    """A memory c that is added to, so that gradients pass through time without being multiplied by a weight matrix.

    i, f, o = σ(W x + b + U h + b')      g = tanh(W x + b + U h + b')      the rows are in order i, f, g, o
    c' = f ⊙ c + i ⊙ g      h' = o ⊙ tanh(c')

    x (B, D), state (h, c) of (B, N) each or None for zeros → (h', c').  Hochreiter and Schmidhuber (1997).
    """

    def __init__(self, d_in: int, d_hidden: int):
        super().__init__()
        bound = d_hidden**-0.5
        self.weight_ih = nn.Parameter(torch.empty(4 * d_hidden, d_in).uniform_(-bound, bound))
        self.weight_hh = nn.Parameter(torch.empty(4 * d_hidden, d_hidden).uniform_(-bound, bound))
        self.bias_ih = nn.Parameter(torch.empty(4 * d_hidden).uniform_(-bound, bound))
        self.bias_hh = nn.Parameter(torch.empty(4 * d_hidden).uniform_(-bound, bound))

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        check_width(x, self.weight_ih.size(1), rank=2)
        zeros = x.new_zeros(x.size(0), self.weight_hh.size(1))
        h, c = (zeros, zeros) if state is None else state
        check_width(h, self.weight_hh.size(1), rank=2)
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)  # (B, 4N)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class GRUCell(nn.Module):
    """The gates of an LSTM without its second state; z says how much of the old state stays.

    r, z = σ(W x + b + U h + b')      n = tanh(W x + b + r ⊙ (U h + b'))      the rows are in order r, z, n
    h' = (1 − z) ⊙ n + z ⊙ h

    x (B, D), h (B, N) or None for zeros → h' (B, N).  Cho et al. (2014), with r applied after U as in torch.nn.
    """

    def __init__(self, d_in: int, d_hidden: int):
        super().__init__()
        bound = d_hidden**-0.5
        self.weight_ih = nn.Parameter(torch.empty(3 * d_hidden, d_in).uniform_(-bound, bound))
        self.weight_hh = nn.Parameter(torch.empty(3 * d_hidden, d_hidden).uniform_(-bound, bound))
        self.bias_ih = nn.Parameter(torch.empty(3 * d_hidden).uniform_(-bound, bound))
        self.bias_hh = nn.Parameter(torch.empty(3 * d_hidden).uniform_(-bound, bound))

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        check_width(x, self.weight_ih.size(1), rank=2)
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        check_width(h, self.weight_hh.size(1), rank=2)
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        return (1 - z) * (n + r * n_h).tanh() + z * h


def real_tokens(x: Tensor, lengths: Tensor | None) -> Tensor:
    """bool (B, T): True where x (B, T, D) holds a token, False where it is padded; all True without lengths."""
    check_width(x, x.size(-1))
    if lengths is None:
        return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    if lengths.shape != x.shape[:1] or lengths.is_floating_point():
        raise ValueError(f"expected {x.size(0)} integer lengths, got shape {tuple(lengths.shape)} of {lengths.dtype}")
    return padding_mask(lengths, x.size(1))[:, 0, 0]


def hold(alive: Tensor, new: Any, old: Any) -> Any:
    """The new state where a sequence is still running, the old one (zeros before the first step) where it has ended."""
    if isinstance(new, tuple):
        return tuple(hold(alive, *pair) for pair in zip(new, old or [None] * len(new), strict=True))
    return torch.where(alive[:, None], new, torch.zeros_like(new) if old is None else old)


def reverse_tokens(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Each sequence back to front, its padding left where it is: (B, T, D) → (B, T, D). Its own inverse."""
    size = torch.full_like(x[:, 0, 0], x.size(1), dtype=torch.long) if lengths is None else lengths
    step = torch.arange(x.size(1), device=x.device)
    index = torch.where(step < size[:, None], size[:, None] - 1 - step, step)  # (B, T)
    return x.gather(1, index[..., None].expand_as(x))


class RecurrentEncoder(nn.Module):
    """Reads a sequence token by token with a cell and, if there is one, back to front with a second cell.

    x (B, T, D), lengths (B,) or None → states (B, T, N), zeros on padding, and the last state of each sequence (B, N);
    with a backward cell both directions side by side, 2N wide. Padding is never read: a state stops with its sequence.
    """

    def __init__(self, cell: nn.Module, backward_cell: nn.Module | None = None):
        super().__init__()
        self.cell = cell
        self.backward_cell = backward_cell

    def read(self, cell: nn.Module, x: Tensor, alive: Tensor) -> tuple[Tensor, Tensor]:
        """Runs one cell from left to right."""
        state, states = None, []
        for x_t, alive_t in zip(x.unbind(1), alive.unbind(1), strict=True):
            state = hold(alive_t, cell(x_t, state), state)
            states.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(states, 1).masked_fill(~alive[..., None], 0.0), states[-1]

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        alive = real_tokens(x, lengths)
        x = x.masked_fill(~alive[..., None], 0.0)  # even NaN in the padding must not reach the gradients
        states, last = self.read(self.cell, x, alive)
        if self.backward_cell is None:
            return states, last
        back, first = self.read(self.backward_cell, reverse_tokens(x, lengths), alive)
        return torch.cat([states, reverse_tokens(back, lengths)], -1), torch.cat([last, first], -1)


class ConvEncoder(nn.Module):
    """L blocks x + GELU(conv(LN(x))), each token reading k − 1 neighbours more per block: (B, T, D) → (B, T, D).

    Padding is set to zero before every convolution: a block writes into it, and the next one would read that back.
    """

    def __init__(self, n_layers: int, d_model: int, kernel_size: int = 3):
        super().__init__()
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size must be odd, so that a token sits in its middle, got {kernel_size}")
        self.norms = nn.ModuleList(LayerNorm(d_model) for _ in range(n_layers))
        self.convs = nn.ModuleList(
            nn.Conv1d(d_model, d_model, kernel_size, padding=kernel_size // 2) for _ in range(n_layers)
        )

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        padding = ~real_tokens(x, lengths)[..., None]  # (B, T, 1)
        x = x.masked_fill(padding, 0.0)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = norm(x).masked_fill(padding, 0.0)
            x = x + F.gelu(conv(read.transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


def gradient_by_distance(encode: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """‖∂ h_T / ∂ x_{T−d}‖ for d = 0 … T − 1, averaged over the batch: how much the last output feels each token.

    encode: (B, T, D) → (B, T, N), row by row    x: (B, T, D)    returns (T,)
    """
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)  # (N, B, T, D)
    return jacobian.square().sum((0, 3)).sqrt().mean(0).flip(0)


def path_length(distance: int, reach: int) -> int:
    """Steps or layers that a signal needs over a distance, ⌈distance / reach⌉, when each carries it `reach` tokens.

    Recurrence has reach 1, a convolution (k − 1) / 2, attention within a window W, full attention the whole sequence.
    Vaswani et al. (2017), table 1.
    """
    return math.ceil(distance / reach)
