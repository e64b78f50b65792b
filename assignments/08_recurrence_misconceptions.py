"""Wrong versions of assignment 08, each with what a tutor would say, and right ones in other styles."""

import torch
from torch.nn import functional as F

from encoder.recurrence import (
    ConvEncoder,
    GRUCell,
    LSTMCell,
    RecurrentEncoder,
    RNNCell,
    hold,
    real_tokens,
    reverse_tokens,
)

# --- RNNCell -------------------------------------------------------------------------------------------------------


class RNNCell__no_tanh(RNNCell):
    """Your state is not squashed: the tanh is missing, so that it can grow without limit from step to step."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        return F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)


class RNNCell__sigmoid(RNNCell):
    """You squash with a sigmoid, so no state is ever negative. The plain cell uses tanh."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        return torch.sigmoid(F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh))


class RNNCell__second_bias_forgotten(RNNCell):
    """You leave out b_hh. One of the two biases would do in theory, but weights from PyTorch come with both."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        return torch.tanh(F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh))


class RNNCell__state_ignored(RNNCell):
    """Your new state does not depend on the old one: a cell that cannot remember anything."""

    def forward(self, x, h=None):
        return torch.tanh(F.linear(x, self.weight_ih, self.bias_ih) + self.bias_hh)


class RNNCell__tanh_of_each_part(RNNCell):
    """You take the tanh of the two parts and then add them: the sum can reach 2. Add first, then squash once."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        return torch.tanh(F.linear(x, self.weight_ih, self.bias_ih)) + torch.tanh(
            F.linear(h, self.weight_hh, self.bias_hh)
        )


class RNNCell__old_state_added(RNNCell):
    """You add the old state to the new one. That is a residual connection; the plain cell rewrites its state at every step."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        return h + torch.tanh(F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh))


class RNNCell__starts_from_ones(RNNCell):
    """Without a state you start from ones. Before the first token nothing is known: zeros."""

    def forward(self, x, h=None):
        h = x.new_ones(x.size(0), self.weight_hh.size(1)) if h is None else h
        return torch.tanh(F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh))


class RNNCell__recurrent_matrix_transposed(RNNCell):
    """You multiply by W_hh instead of its transpose. For row vectors, W h is written h @ W.T, which is what F.linear does."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        return torch.tanh(F.linear(x, self.weight_ih, self.bias_ih) + h @ self.weight_hh + self.bias_hh)


class RNNCell__biases_swapped_for_one_doubled(RNNCell):
    """You add b_ih twice and b_hh never: each of the two products has a bias of its own."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        return torch.tanh(F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_ih))


class RNNCell__state_skipped_with_its_bias(RNNCell):
    """Without a state you skip the whole second product, b_hh included. Zeros go through W_hh and leave nothing, but the bias is still added."""

    def forward(self, x, h=None):
        if h is None:
            return torch.tanh(F.linear(x, self.weight_ih, self.bias_ih))
        return torch.tanh(F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh))


class RNNCell__no_biases(RNNCell):
    """Neither bias is added. Each of the two products has one of its own: b_ih and b_hh."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        return torch.tanh(F.linear(x, self.weight_ih) + F.linear(h, self.weight_hh))


class RNNCell__right__matrix_products(RNNCell):
    def forward(self, x, h=None):
        total = x @ self.weight_ih.T + self.bias_ih + self.bias_hh
        return torch.tanh(total if h is None else total + h @ self.weight_hh.T)


class RNNCell__right__one_matrix(RNNCell):
    def forward(self, x, h=None):
        if h is None:
            h = torch.zeros(len(x), self.weight_hh.size(0), dtype=x.dtype, device=x.device)
        weight = torch.cat([self.weight_ih, self.weight_hh], 1)
        return F.linear(torch.cat([x, h], 1), weight, self.bias_ih + self.bias_hh).tanh()


class RNNCell__right__einsum(RNNCell):
    def forward(self, x, h=None):
        total = torch.einsum("bd,nd->bn", x, self.weight_ih) + self.bias_ih + self.bias_hh
        if h is not None:
            total = total + torch.einsum("bm,nm->bn", h, self.weight_hh)
        return 2 * torch.sigmoid(2 * total) - 1


# --- LSTMCell ------------------------------------------------------------------------------------------------------


class LSTMCell__gates_in_order_i_f_o_g(LSTMCell):
    """You take the rows in the order i, f, o, g. PyTorch's order is i, f, g, o: your output gate is its candidate."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, o, g = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__input_and_forget_swapped(LSTMCell):
    """Your forget gate writes and your input gate keeps: the rows come in the order i, f, g, o."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        f, i, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__candidate_with_sigmoid(LSTMCell):
    """Your candidate g goes through a sigmoid, so that the memory can only be added to, never taken from. It is a tanh."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.sigmoid()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__memory_shown_unsquashed(LSTMCell):
    """Your h' is o ⊙ c'. The memory is squashed before it is shown: o ⊙ tanh(c')."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c, c


class LSTMCell__shows_the_old_memory(LSTMCell):
    """Your h' shows the memory as it was before this step. Write first, then show: o ⊙ tanh(c')."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        return o.sigmoid() * c.tanh(), f.sigmoid() * c + i.sigmoid() * g.tanh()


class LSTMCell__input_gate_missing(LSTMCell):
    """Every candidate is written in full: the input gate is not used. c' = f ⊙ c + i ⊙ g."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + g.tanh()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__forget_gate_forgets(LSTMCell):
    """You multiply the memory by 1 − f. In spite of its name the forget gate says what is kept: at f = 1 everything stays."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = (1 - f.sigmoid()) * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__results_swapped(LSTMCell):
    """You return (c', h'). The order is (h', c'), as in the state that comes in."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return c, o.sigmoid() * c.tanh()


class LSTMCell__state_read_as_c_h(LSTMCell):
    """You unpack the state as (c, h): the gates read the memory and the memory is overwritten by h. It comes as (h, c)."""

    def forward(self, x, state=None):
        c, h = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__gates_with_tanh(LSTMCell):
    """Your gates go through tanh and can be negative. A gate is a share between 0 and 1: a sigmoid."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.tanh().chunk(4, -1)
        c = f * c + i * g
        return o * c.tanh(), c


class LSTMCell__second_bias_forgotten(LSTMCell):
    """You leave out b_hh. PyTorch's cells have two biases, one for each product, and its weights come with both."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__order_f_i_o_g(LSTMCell):
    """You take the rows in the order f, i, o, g, as some papers and libraries do. PyTorch's order is i, f, g, o."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        f, i, o, g = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__interleaved(LSTMCell):
    """You deal the rows out to the gates one by one. They lie in blocks: the first N rows are all of i, the next N all of f, then g, then o."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.view(len(x), -1, 4).unbind(-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__coupled(LSTMCell):
    """You write with 1 − f, as if what is forgotten made room for what is new. The LSTM has a gate of its own for that, i."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        f = f.sigmoid()
        c = f * c + (1 - f) * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LSTMCell__candidate_without_tanh(LSTMCell):
    """Your candidate g is not squashed. What is written into the memory lies between −1 and 1: a tanh."""

    def forward(self, x, state=None):
        h, c = (x.new_zeros(x.size(0), self.weight_hh.size(1)),) * 2 if state is None else state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g
        return o.sigmoid() * c.tanh(), c


class LSTMCell__only_h(LSTMCell):
    """You return h' alone. The next step needs the memory, too: the state is the pair (h', c')."""

    def forward(self, x, state=None):
        return super().forward(x, state)[0]


class LSTMCell__right__slices(LSTMCell):
    def forward(self, x, state=None):
        n = self.weight_hh.size(1)
        h, c = (torch.zeros_like(x[:, :1]).expand(-1, n),) * 2 if state is None else state
        total = x @ self.weight_ih.T + h @ self.weight_hh.T + self.bias_ih + self.bias_hh
        write, keep, show = (torch.sigmoid(total[:, a : a + n]) for a in (0, n, 3 * n))
        c = keep * c + write * torch.tanh(total[:, 2 * n : 3 * n])
        return show * torch.tanh(c), c


class LSTMCell__right__one_matrix_a_gate(LSTMCell):
    def forward(self, x, state=None):
        n = self.weight_hh.size(1)
        h, c = (x.new_zeros(len(x), n), x.new_zeros(len(x), n)) if state is None else state
        parts = []
        for gate in range(4):
            rows = slice(gate * n, (gate + 1) * n)
            inside = F.linear(x, self.weight_ih[rows], self.bias_ih[rows])
            parts.append(inside + F.linear(h, self.weight_hh[rows], self.bias_hh[rows]))
        c = torch.sigmoid(parts[1]) * c + torch.sigmoid(parts[0]) * torch.tanh(parts[2])
        return torch.sigmoid(parts[3]) * torch.tanh(c), c


class LSTMCell__right__unflatten(LSTMCell):
    def forward(self, x, state=None):
        zeros = x.new_zeros(x.size(0), self.weight_hh.size(1))
        h, c = state or (zeros, zeros)
        joined = torch.cat([self.weight_ih, self.weight_hh], 1)
        gates = F.linear(torch.cat([x, h], 1), joined, self.bias_ih + self.bias_hh).unflatten(1, (4, -1))
        c = gates[:, 1].sigmoid() * c + gates[:, 0].sigmoid() * gates[:, 2].tanh()
        return gates[:, 3].sigmoid() * c.tanh(), c


# --- GRUCell -------------------------------------------------------------------------------------------------------


class GRUCell__update_gate_turned_around(GRUCell):
    """Your z says how much is new. Here, as in PyTorch, z says how much of the old state stays: (1 − z) ⊙ n + z ⊙ h."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        return z * (n + r * n_h).tanh() + (1 - z) * h


class GRUCell__reset_before_the_matrix(GRUCell):
    """You multiply h by r before the matrix, as in the paper. PyTorch multiplies what comes out of it, r ⊙ (U h + b'), and its weights are made for that."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, _ = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        n_h = F.linear(r * h, self.weight_hh, self.bias_hh).chunk(3, -1)[2]
        return (1 - z) * (n + n_h).tanh() + z * h


class GRUCell__reset_gate_unused(GRUCell):
    """Your candidate hears all of the old state: the reset gate r is never applied."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        _, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        _, z_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        z = (z + z_h).sigmoid()
        return (1 - z) * (n + n_h).tanh() + z * h


class GRUCell__order_z_r_n(GRUCell):
    """You take the rows in the order z, r, n: reset and update are swapped. PyTorch's order is r, z, n."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        z, r, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        z_h, r_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        return (1 - z) * (n + r * n_h).tanh() + z * h


class GRUCell__candidate_with_sigmoid(GRUCell):
    """Your candidate goes through a sigmoid, so that states are never negative. It is a tanh."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        return (1 - z) * (n + r * n_h).sigmoid() + z * h


class GRUCell__reset_on_the_input_too(GRUCell):
    """Your r multiplies the whole candidate, the new token included. It only says how much of the old state is heard."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        return (1 - z) * (r * (n + n_h)).tanh() + z * h


class GRUCell__bias_outside_the_reset(GRUCell):
    """You apply r to U h but add the bias b' afterwards. In PyTorch the bias is inside: r ⊙ (U h + b')."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        size = h.size(1)
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, _ = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        n_h = r * (h @ self.weight_hh[2 * size :].T) + self.bias_hh[2 * size :]
        return (1 - z) * (n + n_h).tanh() + z * h


class GRUCell__old_state_kept_in_full(GRUCell):
    """You add the candidate to all of the old state. What is new takes the place of what is old: (1 − z) ⊙ n + z ⊙ h."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        return (1 - z) * (n + r * n_h).tanh() + h


class GRUCell__old_state_dropped(GRUCell):
    """Nothing of the old state is carried over: the term z ⊙ h is missing."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        return (1 - z) * (n + r * n_h).tanh()


class GRUCell__second_bias_forgotten(GRUCell):
    """You leave out b_hh. PyTorch's cells have two biases, one for each product, and its weights come with both."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, n_h = F.linear(h, self.weight_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        return (1 - z) * (n + r * n_h).tanh() + z * h


class GRUCell__gates_of_input_only(GRUCell):
    """Your gates look at the new token only. Both also hear the old state: σ(W x + b + U h + b')."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = r.sigmoid(), z.sigmoid()
        return (1 - z) * (n + r * n_h).tanh() + z * h


class GRUCell__reset_on_old_state_in_sum(GRUCell):
    """Your r cuts the state that is carried over. It belongs inside the candidate, where it says how much of U h + b' is heard; z alone decides what stays."""

    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        r, z, n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        r_h, z_h, n_h = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
        return (1 - z) * (n + n_h).tanh() + z * r * h


class GRUCell__right__lerp(GRUCell):
    def forward(self, x, h=None):
        size = self.weight_hh.size(1)
        h = torch.zeros(len(x), size, dtype=x.dtype, device=x.device) if h is None else h
        a, b = x @ self.weight_ih.T + self.bias_ih, h @ self.weight_hh.T + self.bias_hh
        gate = torch.sigmoid(a[:, : 2 * size] + b[:, : 2 * size])
        candidate = torch.tanh(a[:, 2 * size :] + gate[:, :size] * b[:, 2 * size :])
        return torch.lerp(candidate, h, gate[:, size:])


class GRUCell__right__one_matrix_a_gate(GRUCell):
    def forward(self, x, h=None):
        size = self.weight_hh.size(1)
        h = x.new_zeros(len(x), size) if h is None else h
        seen, heard = [], []
        for gate in range(3):
            rows = slice(gate * size, (gate + 1) * size)
            seen.append(F.linear(x, self.weight_ih[rows], self.bias_ih[rows]))
            heard.append(F.linear(h, self.weight_hh[rows], self.bias_hh[rows]))
        r, z = torch.sigmoid(seen[0] + heard[0]), torch.sigmoid(seen[1] + heard[1])
        n = torch.tanh(seen[2] + r * heard[2])
        return n - z * n + z * h


class GRUCell__right__unflatten(GRUCell):
    def forward(self, x, h=None):
        h = x.new_zeros(x.size(0), self.weight_hh.size(1)) if h is None else h
        a = F.linear(x, self.weight_ih, self.bias_ih).unflatten(-1, (3, -1))
        b = F.linear(h, self.weight_hh, self.bias_hh).unflatten(-1, (3, -1))
        r, z = (a[:, :2] + b[:, :2]).sigmoid().unbind(1)
        return h * z + torch.tanh(a[:, 2] + b[:, 2] * r) * (1 - z)


# --- RecurrentEncoder ----------------------------------------------------------------------------------------------


class RecurrentEncoder__walks_on_through_the_padding(RecurrentEncoder):
    """Your state keeps changing after its sequence has ended: the last state has read padding. Hold it where a sequence is over."""

    def read(self, cell, x, alive):
        state, states = None, []
        for x_t in x.unbind(1):
            state = cell(x_t, state)
            states.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(states, 1).masked_fill(~alive[..., None], 0.0), states[-1]


class RecurrentEncoder__last_column(RecurrentEncoder):
    """You take the last column as the last state. For a short sequence that column is padding: zeros."""

    def read(self, cell, x, alive):
        states, _ = super().read(cell, x, alive)
        return states, states[:, -1]


class RecurrentEncoder__padding_not_zeroed(RecurrentEncoder):
    """Your states go on over the padding, with the last one repeated. Padding has no state: fill zeros in."""

    def read(self, cell, x, alive):
        state, states = None, []
        for x_t, alive_t in zip(x.unbind(1), alive.unbind(1), strict=True):
            state = hold(alive_t, cell(x_t, state), state)
            states.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(states, 1), states[-1]


class RecurrentEncoder__flips_the_padding_too(RecurrentEncoder):
    """You flip whole rows for the second direction, so that the padding of a short sequence comes first. Each sequence is turned around by itself."""

    def forward(self, x, lengths=None):
        alive = real_tokens(x, lengths)
        x = x.masked_fill(~alive[..., None], 0.0)
        states, last = self.read(self.cell, x, alive)
        if self.backward_cell is None:
            return states, last
        back, first = self.read(self.backward_cell, x.flip(1), alive)
        return torch.cat([states, back.flip(1)], -1), torch.cat([last, first], -1)


class RecurrentEncoder__backward_states_not_turned_back(RecurrentEncoder):
    """The backward states stay in the order in which they were made: beside token 0 lies the state of the last token. Turn them back."""

    def forward(self, x, lengths=None):
        alive = real_tokens(x, lengths)
        x = x.masked_fill(~alive[..., None], 0.0)
        states, last = self.read(self.cell, x, alive)
        if self.backward_cell is None:
            return states, last
        back, first = self.read(self.backward_cell, reverse_tokens(x, lengths), alive)
        return torch.cat([states, back], -1), torch.cat([last, first], -1)


class RecurrentEncoder__one_cell_for_both(RecurrentEncoder):
    """You read both directions with the same cell. The second direction has weights of its own: `self.backward_cell`."""

    def forward(self, x, lengths=None):
        alive = real_tokens(x, lengths)
        x = x.masked_fill(~alive[..., None], 0.0)
        states, last = self.read(self.cell, x, alive)
        if self.backward_cell is None:
            return states, last
        back, first = self.read(self.cell, reverse_tokens(x, lengths), alive)
        return torch.cat([states, reverse_tokens(back, lengths)], -1), torch.cat([last, first], -1)


class RecurrentEncoder__directions_added(RecurrentEncoder):
    """You add the two directions. They lie side by side, so that nothing is lost: 2N wide."""

    def forward(self, x, lengths=None):
        alive = real_tokens(x, lengths)
        x = x.masked_fill(~alive[..., None], 0.0)
        states, last = self.read(self.cell, x, alive)
        if self.backward_cell is None:
            return states, last
        back, first = self.read(self.backward_cell, reverse_tokens(x, lengths), alive)
        return states + reverse_tokens(back, lengths), last + first


class RecurrentEncoder__backward_state_of_the_last_token(RecurrentEncoder):
    """Your second half of the last state has read one token only. The backward direction ends at the first token: its last state is the one there."""

    def forward(self, x, lengths=None):
        states, last = super().forward(x, lengths)
        if self.backward_cell is None:
            return states, last
        ends = real_tokens(x, lengths).sum(1) - 1
        return states, states[torch.arange(len(x), device=x.device), ends]


class RecurrentEncoder__state_thrown_away(RecurrentEncoder):
    """Every token starts from an empty state: hand the state of one step to the next."""

    def read(self, cell, x, alive):
        state, states = None, []
        for x_t, alive_t in zip(x.unbind(1), alive.unbind(1), strict=True):
            state = hold(alive_t, cell(x_t), state)
            states.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(states, 1).masked_fill(~alive[..., None], 0.0), states[-1]


class RecurrentEncoder__memory_instead_of_h(RecurrentEncoder):
    """Of an LSTM's pair you report the memory c. What the outside sees is h, the first of the two."""

    def read(self, cell, x, alive):
        state, states = None, []
        for x_t, alive_t in zip(x.unbind(1), alive.unbind(1), strict=True):
            state = hold(alive_t, cell(x_t, state), state)
            states.append(state[1] if isinstance(state, tuple) else state)
        return torch.stack(states, 1).masked_fill(~alive[..., None], 0.0), states[-1]


class RecurrentEncoder__nan_in_the_padding_gets_through(RecurrentEncoder):
    """Your outputs are right, but a nan in the padding makes the gradients nan: the cell still computed with it. Clean the padding before the loop."""

    def forward(self, x, lengths=None):
        alive = real_tokens(x, lengths)
        states, last = self.read(self.cell, x, alive)
        if self.backward_cell is None:
            return states, last
        back, first = self.read(self.backward_cell, reverse_tokens(x, lengths), alive)
        return torch.cat([states, reverse_tokens(back, lengths)], -1), torch.cat([last, first], -1)


class RecurrentEncoder__lengths_ignored(RecurrentEncoder):
    """You never look at the lengths: short sequences walk on through their padding, and the padding has states. Start from `real_tokens(x, lengths)`."""

    def forward(self, x, lengths=None):
        def read(cell, x):
            state, states = None, []
            for t in range(x.size(1)):
                state = cell(x[:, t], state)
                states.append(state[0] if isinstance(state, tuple) else state)
            return torch.stack(states, 1), states[-1]

        states, last = read(self.cell, x)
        if self.backward_cell is None:
            return states, last
        back, first = read(self.backward_cell, x.flip(1))
        return torch.cat([states, back.flip(1)], -1), torch.cat([last, first], -1)


class RecurrentEncoder__states_masked_last_raw(RecurrentEncoder):
    """Your states are right, but `last` is what came out of the last step, and by then a short sequence has read its padding. A state stops with its sequence."""

    def forward(self, x, lengths=None):
        alive = real_tokens(x, lengths)

        def read(cell, x):
            state, states = None, []
            for t in range(x.size(1)):
                state = cell(x[:, t], state)
                states.append(state[0] if isinstance(state, tuple) else state)
            return torch.stack(states, 1) * alive[..., None], states[-1]

        states, last = read(self.cell, x)
        if self.backward_cell is None:
            return states, last
        back, first = read(self.backward_cell, reverse_tokens(x, lengths))
        return torch.cat([states, reverse_tokens(back, lengths)], -1), torch.cat([last, first], -1)


class RecurrentEncoder__nan_times_zero(RecurrentEncoder):
    """A nan in the padding gets through: you multiply by 0, and nan · 0 is nan. Replace what stands there (masked_fill, torch.where) before the cell reads it."""

    def forward(self, x, lengths=None):
        alive = real_tokens(x, lengths)

        def read(cell, x):
            state, states = None, []
            for t in range(x.size(1)):
                state = cell(x[:, t], state)
                states.append(state[0] if isinstance(state, tuple) else state)
            states = torch.stack(states, 1) * alive[..., None]
            return states, states[torch.arange(len(x)), alive.sum(1) - 1]

        states, last = read(self.cell, x)
        if self.backward_cell is None:
            return states, last
        back, first = read(self.backward_cell, reverse_tokens(x, lengths))
        return torch.cat([states, reverse_tokens(back, lengths)], -1), torch.cat([last, first], -1)


class RecurrentEncoder__backward_first(RecurrentEncoder):
    """You lay the backward states first. The forward ones come first, then the backward ones."""

    def forward(self, x, lengths=None):
        states, last = super().forward(x, lengths)
        if self.backward_cell is None:
            return states, last
        n = last.size(-1) // 2
        return torch.cat([states[..., n:], states[..., :n]], -1), torch.cat([last[..., n:], last[..., :n]], -1)


class RecurrentEncoder__off_by_one_last(RecurrentEncoder):
    """Your last state is the one before the last token. The state after token n stands at index n − 1, not n − 2."""

    def read(self, cell, x, alive):
        states, _ = super().read(cell, x, alive)
        return states, states[torch.arange(len(x)), alive.sum(1) - 2]


class RecurrentEncoder__mean_state(RecurrentEncoder):
    """You average the states of a sequence. Asked for is the last one: what is known after its last token."""

    def read(self, cell, x, alive):
        states, _ = super().read(cell, x, alive)
        return states, states.sum(1) / alive.sum(1, keepdim=True)


class RecurrentEncoder__right__one_sequence_at_a_time(RecurrentEncoder):
    def read(self, cell, x, alive):
        rows, ends = [], []
        for row, n in zip(x, alive.sum(1).tolist(), strict=True):
            state, states = None, []
            for t in range(n):
                state = cell(row[t : t + 1], state)
                states.append(state[0] if isinstance(state, tuple) else state)
            rows.append(F.pad(torch.cat(states), (0, 0, 0, x.size(1) - n)))
            ends.append(states[-1][0])
        return torch.stack(rows), torch.stack(ends)

    def forward(self, x, lengths=None):
        alive = real_tokens(x, lengths)
        states, last = self.read(self.cell, x, alive)
        if self.backward_cell is None:
            return states, last
        back, first = self.read(self.backward_cell, reverse_tokens(x, lengths), alive)
        return torch.cat([states, reverse_tokens(back, lengths)], -1), torch.cat([last, first], -1)


class RecurrentEncoder__right__backward_with_an_index(RecurrentEncoder):
    def forward(self, x, lengths=None):
        alive = real_tokens(x, lengths)
        clean = torch.where(alive[..., None], x, torch.zeros_like(x))
        outputs = [self.read(self.cell, clean, alive)]
        if self.backward_cell is not None:
            order = torch.arange(x.size(1), device=x.device).expand(len(x), -1)
            order = torch.where(alive, alive.sum(1, keepdim=True) - 1 - order, order)
            rows = torch.arange(len(x), device=x.device)[:, None]
            states, last = self.read(self.backward_cell, clean[rows, order], alive)
            outputs.append((states[rows, order], last))
        return torch.cat([s for s, _ in outputs], -1), torch.cat([e for _, e in outputs], -1)


class RecurrentEncoder__right__picks_the_last_afterwards(RecurrentEncoder):
    def read(self, cell, x, alive):
        state, states = None, []
        for t in range(x.shape[1]):
            state = cell(x[:, t], state)
            states.append(state[0] if isinstance(state, tuple) else state)
        states = torch.stack(states, 1) * alive[..., None]
        return states, states[torch.arange(len(x), device=x.device), alive.sum(1) - 1]


# --- ConvEncoder ---------------------------------------------------------------------------------------------------


class ConvEncoder__no_residual(ConvEncoder):
    """Each of your blocks replaces x instead of adding to it: the residual is missing."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = norm(x).masked_fill(padding, 0.0)
            x = F.gelu(conv(read.transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__norm_forgotten(ConvEncoder):
    """Your convolution reads x as it is: the LayerNorm in front of it is missing."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for conv in self.convs:
            x = x + F.gelu(conv(x.masked_fill(padding, 0.0).transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__norm_after_the_sum(ConvEncoder):
    """You normalise after the residual. The block here is pre-LN: x + GELU(conv(LN(x)))."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = norm(x + F.gelu(conv(x.transpose(1, 2)).transpose(1, 2))).masked_fill(padding, 0.0)
        return x


class ConvEncoder__relu(ConvEncoder):
    """You bend with ReLU. The block asks for GELU, as in the rest of the encoder."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = norm(x).masked_fill(padding, 0.0)
            x = x + F.relu(conv(read.transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__padding_cleaned_once(ConvEncoder):
    """You clean the padding once, before the first block. LayerNorm and the blocks write into it, and the next convolution reads that back: clean before every one."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + F.gelu(conv(norm(x).transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__lengths_ignored(ConvEncoder):
    """You never use the lengths: real tokens near the end read the padding, and padding has an output."""

    def forward(self, x, lengths=None):
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + F.gelu(conv(norm(x).transpose(1, 2)).transpose(1, 2))
        return x


class ConvEncoder__padding_has_an_output(ConvEncoder):
    """Your real tokens are right, but the output on padding is not zero: clean it once more at the end."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = norm(x).masked_fill(padding, 0.0)
            x = x + F.gelu(conv(read.transpose(1, 2)).transpose(1, 2))
        return x


class ConvEncoder__first_layer_repeated(ConvEncoder):
    """You run the first block L times. Each block has a norm and a convolution of its own."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for _ in self.convs:
            read = self.norms[0](x).masked_fill(padding, 0.0)
            x = x + F.gelu(self.convs[0](read.transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__nothing_bends(ConvEncoder):
    """There is no GELU in your blocks: without it, a convolution after a convolution is only a wider convolution."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = norm(x).masked_fill(padding, 0.0)
            x = x + conv(read.transpose(1, 2)).transpose(1, 2)
        return x.masked_fill(padding, 0.0)


class ConvEncoder__last_layer_left_out(ConvEncoder):
    """Your loop stops one block early, so that the window reaches less far than it should."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for norm, conv in list(zip(self.norms, self.convs, strict=True))[:-1]:
            read = norm(x).masked_fill(padding, 0.0)
            x = x + F.gelu(conv(read.transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__axes_not_turned(ConvEncoder):
    """You hand (B, T, D) to nn.Conv1d, which takes its second axis for the features: it wants (B, D, T)."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        x = x.masked_fill(padding, 0.0)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + F.gelu(conv(norm(x).masked_fill(padding, 0.0)))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__cleaned_before_the_norm(ConvEncoder):
    """You clean the padding before the LayerNorm. The norm of a zero vector is its bias, and the convolution reads that: clean after the norm, right before the convolution."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x.masked_fill(padding, 0.0)
            x = x + F.gelu(conv(norm(x).transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__residual_from_normed(ConvEncoder):
    """Your residual adds to the normalised x. The sum is left alone: x + GELU(conv(LN(x)))."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = norm(x).masked_fill(padding, 0.0)
            x = read + F.gelu(conv(read.transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__gelu_before_conv(ConvEncoder):
    """You bend before the convolution. The order is LayerNorm, convolution, GELU."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = F.gelu(norm(x)).masked_fill(padding, 0.0)
            x = x + conv(read.transpose(1, 2)).transpose(1, 2)
        return x.masked_fill(padding, 0.0)


class ConvEncoder__view_for_transpose(ConvEncoder):
    """You reshape (B, T, D) into (B, D, T), which deals the numbers out in another order and mixes tokens with features. Change the axes over: transpose."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        B, T, D = x.shape
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = norm(x).masked_fill(padding, 0.0)
            x = x + F.gelu(conv(read.reshape(B, D, T)).reshape(B, T, D))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__zeros_only_at_end(ConvEncoder):
    """You clean the padding at the end only; before that every convolution near the end of a short sequence has read it."""

    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + F.gelu(conv(norm(x).transpose(1, 2)).transpose(1, 2))
        return x.masked_fill(padding, 0.0)


class ConvEncoder__right__multiply_by_the_mask(ConvEncoder):
    def forward(self, x, lengths=None):
        real = real_tokens(x, lengths).unsqueeze(-1).to(x.dtype)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + F.gelu(conv((norm(x) * real).mT).mT)
        return x * real


class ConvEncoder__right__functional(ConvEncoder):
    def forward(self, x, lengths=None):
        real = real_tokens(x, lengths)[..., None]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = torch.where(real, F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias), 0.0)
            out = F.conv1d(read.permute(0, 2, 1), conv.weight, conv.bias, padding=conv.weight.size(2) // 2)
            x = torch.where(real, x + F.gelu(out.permute(0, 2, 1)), 0.0)
        return x


class ConvEncoder__right__shifted_products(ConvEncoder):
    def forward(self, x, lengths=None):
        padding = ~real_tokens(x, lengths)[..., None]
        for i in range(len(self.convs)):
            weight = self.convs[i].weight
            side = weight.size(2) // 2
            wide = F.pad(self.norms[i](x).masked_fill(padding, 0.0), (0, 0, side, side))
            out = sum(wide[:, j : j + x.size(1)] @ weight[:, :, j].T for j in range(weight.size(2)))
            x = x + F.gelu(out + self.convs[i].bias)
        return x.masked_fill(padding, 0.0)


# --- gradient_by_distance ------------------------------------------------------------------------------------------


def gradient_by_distance__first_token_first(encode, x):
    """Your readings begin with the first token, the farthest one. Distance 0 is the last token: turn them around."""
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)
    return jacobian.square().sum((0, 3)).sqrt().mean(0)


def gradient_by_distance__summed_over_the_batch(encode, x):
    """You add up the sequences of the batch. The mean does not grow with the number of sequences."""
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)
    return jacobian.square().sum((0, 3)).sqrt().sum(0).flip(0)


def gradient_by_distance__of_the_first_output(encode, x):
    """You differentiate the first output. The question is what the last one still feels."""
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, 0].sum(0), x)
    return jacobian.square().sum((0, 3)).sqrt().mean(0).flip(0)


def gradient_by_distance__of_all_outputs(encode, x):
    """You differentiate the sum of all outputs, so that every token is felt by its own. Take the last output alone."""
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens).sum((0, 1)), x)
    return jacobian.square().sum((0, 3)).sqrt().mean(0).flip(0)


def gradient_by_distance__of_the_sum_of_features(encode, x):
    """You sum the N features of the last output and take one gradient. Features that move against each other then cancel; the Jacobian keeps them apart."""
    tokens = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(encode(tokens)[:, -1].sum(), tokens)
    return gradient.norm(dim=-1).mean(0).flip(0)


def gradient_by_distance__squared(encode, x):
    """You return the sum of squares. The Frobenius norm is its root."""
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)
    return jacobian.square().sum((0, 3)).mean(0).flip(0)


def gradient_by_distance__mean_of_entries(encode, x):
    """You average the absolute entries of the Jacobian. The Frobenius norm is the root of the sum of their squares."""
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)
    return jacobian.abs().mean((0, 3)).mean(0).flip(0)


def gradient_by_distance__root_after_the_mean(encode, x):
    """You average the squares over the batch and take the root at the end. Each sequence has a norm of its own; average those."""
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)
    return jacobian.square().sum((0, 3)).mean(0).sqrt().flip(0)


def gradient_by_distance__largest_entry(encode, x):
    """You take the largest entry of the Jacobian. The Frobenius norm counts them all."""
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)
    return jacobian.abs().amax((0, 3)).mean(0).flip(0)


def gradient_by_distance__first_sequence_only(encode, x):
    """You measure the first sequence of the batch only. Average over all of them."""
    jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)
    return jacobian.square().sum((0, 3)).sqrt()[0].flip(0)


def gradient_by_distance__spectral(encode, x):
    """You take the largest singular value of the Jacobian, its spectral norm. Asked for is the Frobenius norm: the root of the sum of all squares."""
    j = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)
    return torch.linalg.matrix_norm(j.permute(1, 2, 0, 3), ord=2).mean(0).flip(0)


def gradient_by_distance__mean_over_features(encode, x):
    """You average the squares over the features. The Frobenius norm adds them up."""
    j = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].sum(0), x)
    return j.square().mean((0, 3)).sqrt().mean(0).flip(0)


def gradient_by_distance__batch_mixed(encode, x):
    """You divide by the batch twice: once inside, by averaging the outputs before you differentiate, and once at the end. Sum the outputs; average the norms."""
    j = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1].mean(0), x)
    return j.square().sum((0, 3)).sqrt().mean(0).flip(0)


def gradient_by_distance__right__a_gradient_for_each_feature(encode, x):
    tokens = x.clone().requires_grad_()
    last = encode(tokens)[:, -1]
    total = torch.zeros(x.shape[:2], dtype=x.dtype)
    for n in range(last.size(-1)):
        (gradient,) = torch.autograd.grad(last[:, n].sum(), tokens, retain_graph=True)
        total = total + gradient.square().sum(-1)
    return total.sqrt().mean(0).flip(0)


def gradient_by_distance__right__full_jacobian(encode, x):
    full = torch.autograd.functional.jacobian(lambda tokens: encode(tokens)[:, -1], x)  # (B, N, B, T, D)
    own = torch.stack([full[b, :, b] for b in range(len(x))])
    return own.pow(2).sum((1, 3)).sqrt().mean(0).flip(0)


def gradient_by_distance__right__one_sequence_at_a_time(encode, x):
    felt = []
    for row in x:
        jacobian = torch.autograd.functional.jacobian(lambda tokens: encode(tokens[None])[0, -1], row)  # (N, T, D)
        felt.append(jacobian.transpose(0, 1).flatten(1).norm(dim=1))
    return torch.stack(felt).mean(0)[torch.arange(x.size(1) - 1, -1, -1)]


# --- check_last_state ----------------------------------------------------------------------------------------------


def check_last_state__looks_only_at_shapes(encode):
    """Your test looks at shapes, and all of these bugs keep them. Compare a sequence in a batch with the same sequence alone."""
    states, last = encode(torch.randn(2, 5, 4), torch.tensor([5, 3]))
    assert states.shape[:2] == (2, 5) and last.shape == (2, states.size(-1))


def check_last_state__no_padding_at_all(encode):
    """All sequences of your test have the full length, so there is no padding to get wrong. Mix short ones in."""
    states, last = encode(torch.randn(3, 5, 4), torch.tensor([5, 5, 5]))
    assert torch.allclose(last, states[:, -1], atol=1e-5)


def check_last_state__looks_at_states_only(encode):
    """You compare the states but never look at `last`, which is what the classifier reads."""
    x, lengths = torch.randn(3, 5, 4), torch.tensor([2, 5, 3])
    states, _ = encode(x, lengths)
    for b, n in enumerate([2, 5, 3]):
        assert torch.allclose(states[b, :n], encode(x[b : b + 1, :n], lengths[b : b + 1])[0][0], atol=1e-5)
        assert (states[b, n:] == 0).all()


def check_last_state__only_zeros_on_padding(encode):
    """You only test that padding has no state. What the last state holds is not tested."""
    states, _ = encode(torch.randn(2, 6, 4), torch.tensor([3, 6]))
    assert (states[0, 3:] == 0).all()


def check_last_state__returns_false(encode):
    """Your test returns False instead of raising: nobody looks at what a test returns. Use assert."""
    states, last = encode(torch.randn(2, 7, 4), torch.tensor([3, 7]))
    return bool(torch.allclose(last[0], states[0, 2], atol=1e-5) and (states[0, 3:] == 0).all())


def check_last_state__expects_the_last_column(encode):
    """Your test expects the last state in the last column and so rejects a right encoder: for a short sequence that column is padding."""
    states, last = encode(torch.randn(2, 8, 4), torch.tensor([4, 8]))
    assert torch.allclose(last, states[:, -1], atol=1e-5)


def check_last_state__never_calls_it(encode):
    """Your test never calls the function it is given, so it says the same of every encoder."""
    lengths = torch.tensor([6, 2, 4])
    assert int(lengths.max()) == 6


def check_last_state__longest_sequence_only(encode):
    """You compare only the longest sequence of the batch, and that one has no padding. Look at the short ones."""
    x = torch.randn(2, 9, 4)
    states, last = encode(x, torch.tensor([9, 4]))
    assert torch.allclose(last[0], states[0, 8], atol=1e-5)
    assert torch.allclose(last[0], encode(x[:1], torch.tensor([9]))[1][0], atol=1e-5)


def check_last_state__swallows_its_own_assert(encode):
    """Your try … except catches the AssertionError that you raise yourself: nothing gets out."""
    try:
        states, last = encode(torch.randn(2, 10, 4), torch.tensor([4, 10]))
        assert torch.allclose(last[0], states[0, 3], atol=1e-5)
    except Exception:
        pass


def check_last_state__never_alone(encode):
    """You ask that `last` is the state after the last token and that padding is zero, but never whether the states themselves are right: an encoder that reads the padding first slips through. Compare with the sequence alone."""
    x, lengths = torch.randn(3, 6, 4), torch.tensor([6, 2, 4])
    states, last = encode(x, lengths)
    for b, n in enumerate([6, 2, 4]):
        assert torch.allclose(last[b], states[b, n - 1], atol=1e-5)
        assert (states[b, n:] == 0).all()


def check_last_state__only_last_alone(encode):
    """You compare `last` with the sequence alone, but not the states: they may stand on padding, or be wrong themselves."""
    x, lengths = torch.randn(3, 6, 4), torch.tensor([6, 2, 4])
    states, last = encode(x, lengths)
    for b, n in enumerate([6, 2, 4]):
        assert torch.allclose(last[b], encode(x[b : b + 1, :n], lengths[b : b + 1])[1][0], atol=1e-5)


def check_last_state__right__index_arithmetic(encode):
    x, lengths = torch.randn(5, 4, 4), torch.tensor([3, 1, 2, 4, 3])
    states, last = encode(x, lengths)
    real = torch.arange(4) < lengths[:, None]
    assert (states[~real] == 0).all(), "padding must have no state"
    ends = states.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, states.size(-1)))[:, 0]
    assert torch.allclose(last, ends, atol=1e-5), "last must be the state after each sequence's own last token"
    noise = torch.where(real[..., None], x, torch.randn_like(x))
    assert torch.allclose(encode(noise, lengths)[1], last, atol=1e-5), "padding was read"


def check_last_state__right__every_sequence_alone(encode):
    x = torch.randn(4, 7, 4)
    lengths = torch.tensor([7, 1, 3, 5])
    states, last = encode(x, lengths)
    for b in range(4):
        n = int(lengths[b])
        alone, end = encode(x[b, :n].unsqueeze(0), torch.tensor([n]))
        expected = torch.cat([alone[0], torch.zeros(7 - n, alone.size(-1))])
        assert bool(((states[b] - expected).abs() < 1e-5).all()), "the states differ from those of the sequence alone"
        assert bool(((last[b] - alone[0, -1]).abs() < 1e-5).all()) and bool(((end[0] - last[b]).abs() < 1e-5).all())


def check_last_state__right__many_lengths(encode):
    for n in (1, 2, 3, 4):
        x = torch.randn(2, 5, 4)
        states, last = encode(x, torch.tensor([n, 5]))
        torch.testing.assert_close(last[0], states[0, n - 1], atol=1e-5, rtol=0)
        torch.testing.assert_close(last[1], states[1, 4], atol=1e-5, rtol=0)
        assert states[0, n:].abs().sum() == 0, "states on padding"
        short = encode(x[:1, :n], torch.tensor([n]))[0]
        torch.testing.assert_close(short[0], states[0, :n], atol=1e-5, rtol=0)
