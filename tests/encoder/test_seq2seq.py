import pytest
import torch
from device import REAL_DEVICES, check_device
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from encoder.masks import causal_mask
from encoder.seq2seq import (
    Decoder,
    DecoderLayer,
    Seq2Seq,
    Seq2SeqConfig,
    cross_attention_weights,
    greedy_decode,
    seq2seq_loss,
    shift_right,
)
from encoder.stack import padding_mask

B, T, S, D, H, FF, L = 2, 3, 5, 8, 2, 12, 2
LENGTHS = torch.tensor([5, 2])
CONFIG = Seq2SeqConfig(source_vocab=9, target_vocab=7, d_model=D, n_layers=2, n_heads=H, d_ff=FF)
SOURCE = torch.tensor([[3, 4, 5, 6, 2], [7, 2, 0, 0, 0]])
TARGET = torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]])


def jittered(module: nn.Module, std: float = 0.3) -> nn.Module:
    """At their usual start biases are 0 and norms 1: swapped or forgotten ones would not show."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(std * torch.randn_like(p))
    return module.eval()


def torch_weights(layer: nn.TransformerDecoderLayer) -> dict[str, Tensor]:
    """The weights of torch's decoder layer under our names."""
    named = {
        "linear1": "feedforward.up",
        "linear2": "feedforward.down",
        "norm1": "norm1",
        "norm2": "norm2",
        "norm3": "norm3",
    }
    weights = {
        f"{ours}.{kind}": getattr(layer, theirs).get_parameter(kind)
        for theirs, ours in named.items()
        for kind in ("weight", "bias")
    }
    for theirs, ours in ((layer.self_attn, "attention"), (layer.multihead_attn, "cross_attention")):
        for kind in ("weight", "bias"):
            q, k, v = theirs.get_parameter(f"in_proj_{kind}").chunk(3)
            weights |= {f"{ours}.q_proj.{kind}": q, f"{ours}.k_proj.{kind}": k, f"{ours}.v_proj.{kind}": v}
            weights[f"{ours}.out_proj.{kind}"] = theirs.out_proj.get_parameter(kind)
    return weights


def inputs(device: str = "cpu") -> tuple[Tensor, Tensor]:
    return torch.randn(B, T, D, device=device, requires_grad=True), torch.randn(
        B, S, D, device=device, requires_grad=True
    )


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_layer_equals_torch_causal_crossed_and_padded_gradients_too(norm_first, activation, device):
    sizes = {"dim_feedforward": FF, "dropout": 0.0, "activation": activation, "batch_first": True}
    theirs = jittered(nn.TransformerDecoderLayer(D, H, norm_first=norm_first, **sizes)).to(device)
    ours = DecoderLayer(D, H, FF, norm_first, activation=activation).to(device)
    ours.load_state_dict(torch_weights(theirs))
    (x, memory), lengths = inputs(device), LENGTHS.to(device)
    x2, memory2 = (tensor.detach().clone().requires_grad_() for tensor in (x, memory))
    y = ours(x, memory, causal_mask(T, x.device), padding_mask(lengths, S))
    expected = theirs(
        x2, memory2, tgt_mask=~causal_mask(T, x.device), memory_key_padding_mask=~padding_mask(lengths, S)[:, 0, 0]
    )
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    weight = torch.randn_like(y)
    (y * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close((x.grad, memory.grad), (x2.grad, memory2.grad), rtol=1e-4, atol=1e-5)
    for name, p in theirs.named_parameters():  # gradients under our names, by way of the same mapping
        p.data = p.grad
        assert p.data.abs().max() > 0, f"{name} gets no gradient"
    got = {name: p.grad for name, p in ours.named_parameters()}
    torch.testing.assert_close(
        got, {name: p.detach() for name, p in torch_weights(theirs).items()}, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_stack_equals_torchs(norm_first):
    layer = nn.TransformerDecoderLayer(D, H, FF, 0.0, "gelu", batch_first=True, norm_first=norm_first)
    theirs = jittered(nn.TransformerDecoder(layer, L, nn.LayerNorm(D) if norm_first else None))
    ours = Decoder(L, D, H, FF, norm_first)
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        mine.load_state_dict(torch_weights(other))
    if norm_first:
        ours.norm.load_state_dict(theirs.norm.state_dict())
    x, memory = inputs()
    expected = theirs(x, memory, tgt_mask=~causal_mask(T), memory_key_padding_mask=~padding_mask(LENGTHS, S)[:, 0, 0])
    torch.testing.assert_close(
        ours(x, memory, causal_mask(T), padding_mask(LENGTHS, S)), expected, rtol=1e-5, atol=1e-5
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 2**31))
def test_the_future_of_the_target_never_changes_its_past(length, at, seed):
    torch.manual_seed(seed)
    model, at = jittered(Seq2Seq(CONFIG)), at % length
    target = torch.randint(3, 7, (B, length))
    changed = target.clone()
    changed[:, at] = torch.where(target[:, at] == 3, 4, 3)
    before, after = model(SOURCE, target), model(SOURCE, changed)
    assert torch.equal(before[:, :at], after[:, :at])
    assert (before[:, at:] != after[:, at:]).any(-1).all()  # and every later position does hear of it


def test_padding_of_the_source_never_changes_the_output():
    model = jittered(Seq2Seq(CONFIG))
    target_in = shift_right(TARGET, CONFIG.bos_id)
    logits = model(SOURCE, target_in)
    alone = model(SOURCE[1:, :2], target_in[1:])
    torch.testing.assert_close(logits[1:], alone, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        model.source_embedding.weight[CONFIG.pad_id] = 100.0
    assert torch.equal(model(SOURCE, target_in)[1], logits[1])


def test_a_source_of_nothing_but_padding_gives_finite_logits_and_gradients():
    model = jittered(Seq2Seq(CONFIG))
    logits = model(torch.zeros_like(SOURCE), shift_right(TARGET, CONFIG.bos_id))
    logits.sum().backward()
    assert logits.isfinite().all() and all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_teacher_forcing_equals_decoding_step_by_step():
    model = jittered(Seq2Seq(CONFIG))
    target_in = shift_right(torch.randint(3, 7, (B, 6)), CONFIG.bos_id)
    memory, mask = model.encode(SOURCE)
    steps = [model.decode(target_in[:, : t + 1], memory, mask)[:, -1] for t in range(6)]
    torch.testing.assert_close(model(SOURCE, target_in), torch.stack(steps, 1), rtol=1e-5, atol=1e-5)


def test_greedy_decoding_takes_the_likeliest_token_of_its_own_prefix():
    torch.manual_seed(3)
    model = jittered(Seq2Seq(CONFIG)).train()
    ids = greedy_decode(model, SOURCE, max_length=6)
    likeliest = model(SOURCE, shift_right(ids, CONFIG.bos_id)).argmax(-1)
    for row, best in zip(ids.tolist(), likeliest.tolist(), strict=True):
        end = row.index(CONFIG.eos_id) + 1 if CONFIG.eos_id in row else len(row)
        assert row[:end] == best[:end]
        assert row[end:] == [CONFIG.pad_id] * (len(row) - end)


class Parrot(Seq2Seq):
    """Repeats its source: what comes out is known without any training."""

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return source, source

    def decode(self, target_in: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        return nn.functional.one_hot(memory[:, : target_in.size(1)], 9).float()


def test_greedy_decoding_ends_each_row_at_its_end_sign_and_all_together_at_the_last():
    source = torch.tensor([[3, 2, 5, 6, 7], [4, 5, 6, 2, 8]])  # what stands after <eos> must not be said
    assert greedy_decode(Parrot(CONFIG), source, 5).tolist() == [[3, 2, 0, 0], [4, 5, 6, 2]]
    assert greedy_decode(Parrot(CONFIG), source, 3).tolist() == [[3, 2, 0], [4, 5, 6]]


def test_the_decoder_is_given_the_token_before():
    assert shift_right(torch.tensor([[5, 6, 2], [7, 2, 0]]), bos_id=1).tolist() == [[1, 5, 6], [1, 7, 2]]


def test_the_loss_is_the_mean_over_real_tokens():
    logits = torch.randn(B, 4, 7, requires_grad=True)
    logp = logits.log_softmax(-1)
    real = [-logp[b, t, TARGET[b, t]] for b in range(B) for t in range(4) if TARGET[b, t] != 0]
    loss = seq2seq_loss(logits, TARGET, pad_id=0)
    torch.testing.assert_close(loss, torch.stack(real).mean())
    loss.backward()
    assert (logits.grad[1, 2:] == 0).all() and (logits.grad[1, :2] != 0).all()
    assert seq2seq_loss(logits, torch.zeros_like(TARGET), pad_id=0) == 0  # nothing to predict, not NaN


def test_the_alignment_is_what_the_cross_attention_really_uses():
    model = jittered(Seq2Seq(CONFIG))
    target_in = shift_right(TARGET, CONFIG.bos_id)
    outputs: list[tuple[tuple[Tensor, ...], Tensor]] = []
    attention = model.decoder.layers[1].cross_attention
    handle = attention.register_forward_hook(lambda module, args, output: outputs.append((args, output)))
    weights = cross_attention_weights(model, SOURCE, target_in, layer=1)
    handle.remove()
    assert weights.shape == (B, H, 4, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, 4))
    assert (weights[1, :, :, 2:] == 0).all() and (weights[1, :, :, :2] > 0).all()
    (_, _, memory), output = outputs[0]
    values = attention.v_proj(memory).view(B, 5, H, D // H).transpose(1, 2)
    heads = (weights @ values).transpose(1, 2).reshape(B, 4, D)
    torch.testing.assert_close(attention.out_proj(heads), output, rtol=1e-5, atol=1e-5)
    assert not attention._forward_pre_hooks  # nothing is left behind
    assert not torch.equal(weights, cross_attention_weights(model, SOURCE, target_in, layer=0))


def test_the_order_of_words_matters_on_both_sides():
    model, target_in = jittered(Seq2Seq(CONFIG)), torch.tensor([[1, 4, 5, 6]])
    logits = model(SOURCE[:1], target_in)[0, -1]
    assert (model(SOURCE[:1].flip(1), target_in)[0, -1] - logits).abs().max() > 1e-3
    assert (model(SOURCE[:1], torch.tensor([[4, 1, 5, 6]]))[0, -1] - logits).abs().max() > 1e-3


def test_nothing_is_dropped_while_decoding():
    torch.manual_seed(0)
    model = jittered(Seq2Seq(Seq2SeqConfig(9, 7, D, 1, H, FF, dropout=0.5)))
    target_in = shift_right(TARGET, CONFIG.bos_id)
    ids, weights = greedy_decode(model, SOURCE, 9), cross_attention_weights(model, SOURCE, target_in)
    for _ in range(5):
        assert torch.equal(greedy_decode(model.train(), SOURCE, 9), ids)
        assert torch.equal(cross_attention_weights(model.train(), SOURCE, target_in), weights)


def test_evaluation_is_deterministic_and_training_drops():
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(9, 7, D, 1, H, FF, dropout=0.5))
    target_in = shift_right(TARGET, CONFIG.bos_id)
    assert not torch.equal(model(SOURCE, target_in), model(SOURCE, target_in))
    model.eval()
    assert torch.equal(model(SOURCE, target_in), model(SOURCE, target_in))


@pytest.mark.parametrize("norm_first", [True, False])
def test_all_pieces_stay_on_their_device(norm_first):
    x, memory = inputs()
    masks = torch.ones(T, T, dtype=torch.bool), padding_mask(LENGTHS, S)
    check_device(DecoderLayer(D, H, FF, norm_first), x, memory, *masks)
    check_device(Decoder(L, D, H, FF, norm_first), x, memory, *masks)
    check_device(Seq2Seq(CONFIG), SOURCE, shift_right(TARGET, 1))
    check_device(shift_right, TARGET, 1)
    check_device(seq2seq_loss, torch.randn(B, 4, 7, requires_grad=True), TARGET, 0)


def test_bad_input_is_answered_in_one_sentence():
    model, layer, (x, memory) = Seq2Seq(CONFIG), DecoderLayer(D, H, FF), inputs()
    with pytest.raises(ValueError, match=r"token ids must be between 0 and 8, got 9"):
        model(SOURCE + 2, TARGET)
    with pytest.raises(ValueError, match=r"token ids must be between 0 and 6, got 7"):
        model(SOURCE, TARGET + 1)
    with pytest.raises(ValueError, match=r"must be int64 .* got torch.float32"):
        model(SOURCE, TARGET.float())
    with pytest.raises(ValueError, match=r"of shape \(B, T\), got torch.int64 of shape \(4,\)"):
        model(SOURCE, TARGET[0])
    with pytest.raises(ValueError, match=r"width 8, got shape \(2, 5, 7\)"):
        layer(x, memory[..., :7])
    with pytest.raises(ValueError, match=r"must broadcast to the scores \(2, 2, 3, 5\), got \(3, 3\)"):
        layer(x, memory, None, causal_mask(T))
    with pytest.raises(TypeError, match=r"torch.bool with True = may attend, got torch.float32"):
        layer(x, memory, causal_mask(T).float())
    with pytest.raises(ValueError, match=r"expected a target of shape \(2, 4\), got \(2, 3\)"):
        seq2seq_loss(torch.randn(B, 4, 7), TARGET[:, :3], 0)
    with pytest.raises(ValueError, match=r"multiple of n_heads"):
        DecoderLayer(D, 3, FF)
