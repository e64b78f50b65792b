"""The models of `transformers` as oracles: built small or large, every weight jittered, and copied into ours."""

import torch
import transformers
from torch import Tensor, nn

from encoder.pretrained import FAMILIES, config_from_json, load_weights, our_weights

transformers.logging.set_verbosity_error()

TINY = {"layers": 2, "width": 24, "heads": 3, "inner": 40}
MIDDLE = {"layers": 3, "width": 64, "heads": 4, "inner": 96}
BASE = {"layers": 12, "width": 768, "heads": 12, "inner": 3072}

VOCABULARY = 97
DEBERTA = {
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["c2p", "p2c"],
    "type_vocab_size": 0,
}
SETTINGS = {
    "bert": ("Bert", {"max_position_embeddings": 40}),
    "roberta": (
        "Roberta",
        {"max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5},
    ),
    "albert": ("Albert", {"max_position_embeddings": 40, "embedding_size": 16}),
    "deberta": ("Deberta", DEBERTA | {"max_position_embeddings": 40, "max_relative_positions": 6}),
    "deberta-v2": (
        "DebertaV2",
        DEBERTA
        | {
            "max_position_embeddings": 40,
            "position_buckets": 4,
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
        },
    ),
}


def jitter(model: nn.Module) -> nn.Module:
    """At their start biases are 0 and scales 1, and many a bug makes no difference."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    return model


def oracle(family: str, size: dict[str, int], kind: str = "Model", **changes: object) -> nn.Module:
    """A model of `transformers` without dropout, e.g. BertForPreTraining for kind="ForPreTraining"."""
    prefix, settings = SETTINGS[family]
    config = getattr(transformers, prefix + "Config")(
        vocab_size=VOCABULARY,
        num_hidden_layers=size["layers"],
        hidden_size=size["width"],
        num_attention_heads=size["heads"],
        intermediate_size=size["inner"],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **(settings | changes),
    )
    return jitter(getattr(transformers, prefix + kind)(config)).eval()


def twin(model: nn.Module, wrap: type[nn.Module] | None = None) -> nn.Module:
    """Our model with the oracle's weights; wrapped, if asked, by something that takes our encoder."""
    family, config = config_from_json(model.config.to_dict())
    ours = FAMILIES[family][0](config)
    ours = wrap(ours) if wrap else ours
    load_weights(ours, model.state_dict(), family)
    return ours.eval()


def padded_batch(family: str, size: int = 11, batch: int = 3) -> tuple[Tensor, Tensor]:
    """ids and mask; every text but the first is shorter than the batch."""
    pad_id = 1 if family == "roberta" else 0
    lengths = torch.tensor([size, *range(size // 2, size // 2 + batch - 1)])
    mask = torch.arange(size) < lengths[:, None]
    return torch.randint(5, VOCABULARY, (batch, size)).masked_fill(~mask, pad_id), mask


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    """Within the tolerance, of the largest value where that is above 1 (as gradients are)."""
    ours, theirs = ours.detach(), theirs.detach()
    assert ours.shape == theirs.shape
    error, limit = float((ours - theirs).abs().max()), tolerance * max(1.0, float(theirs.abs().max()))
    assert error <= limit, f"differs by {error:.2e}, allowed {limit:.2e}"


def close_gradients(ours: nn.Module, theirs: nn.Module, family: str, prefix: str = "") -> None:
    """Gradients of all weights, named as the weights are. `prefix`: of our names, where ours is wrapped."""
    expected = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    expected = our_weights(expected, family, theirs.config.num_attention_heads)
    got = {name.removeprefix(prefix): p.grad for name, p in ours.named_parameters() if p.grad is not None}
    assert got.keys() == expected.keys()
    for name, gradient in got.items():
        close(gradient, expected[name])
