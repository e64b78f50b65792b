"""PyTorch's own layers as oracles: every weight jittered, and copied into ours."""

import torch
from torch import Tensor, nn

from encoder.heads import MultiHeadAttention
from encoder.layer import EncoderLayer
from encoder.stack import Encoder

TOLERANCE = 1e-5


def jitter(module: nn.Module, std: float = 0.02) -> nn.Module:
    """Noise on every weight: at their initial values, swapped norms or dropped biases would make no difference."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn_like(p) * std)
    return module


def assert_same(ours: Tensor, theirs: Tensor, tolerance: float = TOLERANCE) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    state = {}
    for name, weight, bias in zip(("q_proj", "k_proj", "v_proj"), weights, biases, strict=True):
        state |= {f"{name}.weight": weight, f"{name}.bias": bias}
    state |= {f"out_proj.{name}": p for name, p in theirs.out_proj.named_parameters()}
    ours.load_state_dict(state)


def copy_layer(ours: EncoderLayer, theirs: nn.TransformerEncoderLayer) -> None:
    copy_attention(ours.attention, theirs.self_attn)
    ours.feedforward.up.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.down.load_state_dict(theirs.linear2.state_dict())
    ours.norm1.load_state_dict(theirs.norm1.state_dict())
    ours.norm2.load_state_dict(theirs.norm2.state_dict())


def copy_encoder(ours: Encoder, theirs: nn.TransformerEncoder) -> None:
    for layer, their_layer in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(layer, their_layer)
    if theirs.norm is not None:
        ours.norm.load_state_dict(theirs.norm.state_dict())


def assert_same_layer_grads(ours: EncoderLayer, theirs: nn.TransformerEncoderLayer) -> None:
    """The gradients of both, weight by weight: theirs are copied like weights and compared with ours."""
    of_weights = EncoderLayer(ours.norm1.weight.numel(), ours.attention.n_heads, ours.feedforward.up.out_features)
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(p.grad)
    copy_layer(of_weights.to(ours.norm1.weight.device), theirs)
    expected = dict(of_weights.named_parameters())
    for name, p in ours.named_parameters():
        assert_same(p.grad, expected[name].detach())
