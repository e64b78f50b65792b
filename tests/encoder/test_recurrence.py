import pytest
import torch
from device import REAL_DEVICES, check_device
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from encoder.recurrence import (
    ConvEncoder,
    GRUCell,
    LSTMCell,
    RecurrentEncoder,
    RNNCell,
    gradient_by_distance,
    path_length,
    reverse_tokens,
)

B, T, D, N = 3, 6, 4, 5
LENGTHS = torch.tensor([6, 2, 4])
CELLS = {
    "rnn": (RNNCell, nn.RNNCell, nn.RNN),
    "lstm": (LSTMCell, nn.LSTMCell, nn.LSTM),
    "gru": (GRUCell, nn.GRUCell, nn.GRU),
}
each_cell = pytest.mark.parametrize("kind", CELLS)


def grads(module: nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in module.parameters()]


def encoder_of(reference: nn.Module, kind: str, layer: int = 0) -> RecurrentEncoder:
    """Our encoder with the weights of one (maybe bidirectional) layer of a torch.nn.RNN, LSTM or GRU."""
    cells = []
    for suffix in [f"_l{layer}", f"_l{layer}_reverse"][: 1 + reference.bidirectional]:
        weights = {k.removesuffix(suffix): v for k, v in reference.state_dict().items() if k.endswith(suffix)}
        cells.append(CELLS[kind][0](weights["weight_ih"].size(1), reference.hidden_size))
        cells[-1].load_state_dict(weights)
    return RecurrentEncoder(*cells)


@each_cell
def test_a_cell_loads_torch_weights_and_takes_the_same_step(kind):
    ours, theirs = CELLS[kind][0](D, N), CELLS[kind][1](D, N)
    ours.load_state_dict(theirs.state_dict())
    x, h, c = torch.randn(B, D), torch.randn(B, N), torch.randn(B, N)
    state = (h, c) if kind == "lstm" else h
    torch.testing.assert_close(ours(x, state), theirs(x, state))
    torch.testing.assert_close(ours(x), theirs(x))  # without a state both start from zeros


@each_cell
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("device", REAL_DEVICES)
def test_an_encoder_equals_torch_on_padded_batches_gradients_too(kind, bidirectional, device):
    theirs = CELLS[kind][2](D, N, batch_first=True, bidirectional=bidirectional).to(device)
    ours = encoder_of(theirs, kind).to(device)
    x = torch.randn(B, T, D, device=device)
    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    states, last = ours(x_ours, LENGTHS.to(device))
    packed, final = theirs(pack_padded_sequence(x_theirs, LENGTHS, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    final = (final[0] if kind == "lstm" else final).transpose(0, 1).flatten(1)  # (B, directions · N)
    torch.testing.assert_close(states, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(last, final, rtol=1e-5, atol=1e-5)
    weight, weight_last = torch.randn_like(states), torch.randn_like(last)
    ((states * weight).sum() + (last * weight_last).sum()).backward()
    ((expected * weight).sum() + (final * weight_last).sum()).backward()
    torch.testing.assert_close(x_ours.grad, x_theirs.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grads(ours), grads(theirs), rtol=1e-4, atol=1e-5)


@each_cell
def test_two_encoders_in_a_row_are_torchs_two_layers(kind):
    theirs = CELLS[kind][2](D, N, num_layers=2, batch_first=True)
    x = torch.randn(B, T, D)
    states, _ = encoder_of(theirs, kind)(x)
    states, _ = encoder_of(theirs, kind, layer=1)(states)
    torch.testing.assert_close(states, theirs(x)[0], rtol=1e-5, atol=1e-5)


def make(kind: str) -> nn.Module:
    if kind == "conv":
        return ConvEncoder(3, D, kernel_size=5)
    return RecurrentEncoder(CELLS[kind][0](D, N), CELLS[kind][0](D, N))


def tensors(output: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return output if isinstance(output, tuple) else (output,)


@pytest.mark.parametrize("kind", [*CELLS, "conv"])
def test_padding_is_never_read_even_if_it_is_nan(kind):
    encoder, x = make(kind), torch.randn(B, T, D)
    dirty = x.clone()
    for row, length in enumerate(LENGTHS):
        dirty[row, length:] = torch.nan
    for clean_out, dirty_out in zip(tensors(encoder(x, LENGTHS)), tensors(encoder(dirty, LENGTHS)), strict=True):
        assert torch.equal(clean_out, dirty_out)
    sum(out.sum() for out in tensors(encoder(dirty, LENGTHS))).backward()
    assert all(p.grad.isfinite().all() for p in encoder.parameters())
    for row, length in enumerate(LENGTHS):  # and each sequence comes out as it does alone
        alone, batched = tensors(encoder(x[row : row + 1, :length])), tensors(encoder(x, LENGTHS))
        torch.testing.assert_close(alone[0][0], batched[0][row, :length])
        torch.testing.assert_close(alone[-1][0], batched[-1][row, : alone[-1].size(1)])
        assert (batched[0][row, length:] == 0).all()


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("kind", [*CELLS, "conv"])
def test_every_encoder_stays_on_its_device(kind, lengths):
    check_device(make(kind), torch.randn(B, T, D), lengths)


def test_an_empty_sequence_keeps_the_state_it_started_with():
    states, last = RecurrentEncoder(LSTMCell(D, N))(torch.randn(2, T, D), torch.tensor([0, 3]))
    assert (states[0] == 0).all() and (last[0] == 0).all() and (last[1] != 0).all()


def test_reversing_turns_tokens_around_and_leaves_padding():
    x = torch.arange(1, 11).view(2, 5, 1)
    assert reverse_tokens(x, torch.tensor([5, 3]))[..., 0].tolist() == [[5, 4, 3, 2, 1], [8, 7, 6, 9, 10]]
    assert torch.equal(reverse_tokens(x), x.flip(1))


@pytest.mark.parametrize(("layers", "kernel", "reach"), [(1, 3, 1), (2, 3, 2), (2, 5, 4)])
def test_a_convolution_reads_exactly_its_reach(layers, kernel, reach):
    x = torch.randn(2, 13, D, requires_grad=True)
    ConvEncoder(layers, D, kernel)(x)[:, 6].sum().backward()
    touched = x.grad.abs().sum((0, 2)) > 0
    assert touched.nonzero().flatten().tolist() == list(range(6 - reach, 7 + reach))


@pytest.mark.parametrize("decay", [0.5, 0.9])
def test_the_gradient_of_a_linear_recurrence_decays_as_the_power_of_its_weight(decay):
    x = torch.randn(B, T, D, dtype=torch.float64)
    powers = decay ** torch.arange(T - 1, -1, -1, dtype=torch.float64)

    def encode(tokens: torch.Tensor) -> torch.Tensor:  # h_T = Σ_t decay^(T−t) x_t, with h_1 … h_(T−1) beside the point
        return (tokens * powers[:, None]).cumsum(1)

    expected = decay ** torch.arange(T, dtype=torch.float64) * D**0.5  # the Jacobian is decay^d times the identity
    torch.testing.assert_close(gradient_by_distance(encode, x), expected)


def test_the_gradient_by_distance_is_that_of_each_sequence_alone():
    encoder, x = RecurrentEncoder(GRUCell(D, N)), torch.randn(B, T, D)
    both = gradient_by_distance(lambda tokens: encoder(tokens)[0], x)
    alone = [gradient_by_distance(lambda tokens: encoder(tokens)[0], row[None]) for row in x]
    torch.testing.assert_close(both, torch.stack(alone).mean(0))
    assert both[0] > both[-1] > 0  # a fresh GRU feels the last token more than the first


def test_a_signal_needs_one_step_a_token_by_recurrence_and_one_layer_by_attention():
    assert [path_length(12, reach) for reach in (1, 2, 5, 12, 100)] == [12, 6, 3, 1, 1]
    assert path_length(0, 1) == 0


@each_cell
def test_bad_input_is_answered_in_one_sentence(kind):
    cell = CELLS[kind][0](D, N)
    with pytest.raises(ValueError, match=r"rank 2 and width 4, got shape \(3, 7\)"):
        cell(torch.randn(B, 7))
    bad = torch.randn(B, N + 1)
    with pytest.raises(ValueError, match=r"rank 2 and width 5, got shape \(3, 6\)"):
        cell(torch.randn(B, D), (bad, bad) if kind == "lstm" else bad)
    encoder = RecurrentEncoder(cell)
    with pytest.raises(ValueError, match=r"rank 3 and width 4, got shape \(3, 4\)"):
        encoder(torch.randn(B, D))
    with pytest.raises(ValueError, match=r"expected 3 integer lengths, got shape \(2,\)"):
        encoder(torch.randn(B, T, D), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"expected 3 integer lengths, got shape \(3,\) of torch.float32"):
        encoder(torch.randn(B, T, D), torch.ones(B))


def test_a_kernel_without_a_middle_is_refused():
    with pytest.raises(ValueError, match=r"kernel_size must be odd.*got 4"):
        ConvEncoder(1, D, kernel_size=4)
