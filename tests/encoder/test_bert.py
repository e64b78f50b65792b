import pytest
import torch
from device import REAL_DEVICES, check_device
from families import BASE, MIDDLE, TINY, close, close_gradients, jitter, oracle, padded_batch
from transformers import BertTokenizerFast

from encoder.bert import (
    SPECIAL_TOKENS,
    Bert,
    BertConfig,
    BertForPretraining,
    Embeddings,
    MaskedLM,
    MLMHead,
    NSPHead,
    Pooler,
    encode_pairs,
    join_pair,
    parameter_count,
    train_wordpiece,
)
from encoder.pretrained import config_from_json, load_weights

B, T, V, D = 3, 7, 23, 8
CONFIG = BertConfig(vocab_size=V, d_model=D, n_layers=2, n_heads=2, d_ff=12, max_length=T, dropout=0.0)
TEXTS = ["The cat sat on the mat.", "The dog ate the cat's dinner, and the mat.", "A cat and a dog sat."]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def model():
    return jitter(Bert(CONFIG)).eval()


def pretraining_twins(size):
    theirs = oracle("bert", size, "ForPreTraining")
    family, config = config_from_json(theirs.config.to_dict())
    ours = BertForPretraining(config)
    load_weights(ours, theirs.state_dict(), family)
    return ours.eval(), theirs


def segments_of(mask):
    return (torch.arange(mask.size(1)) > 3) & mask


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize("size", [TINY, MIDDLE, BASE], ids=["2x24", "3x64", "12x768"])
def test_states_pooler_both_heads_and_gradients_equal_transformers(size, device):
    ours, theirs = (model.to(device) for model in pretraining_twins(size))
    ids, mask = (x.to(device) for x in padded_batch("bert"))
    segments = segments_of(mask.cpu()).long().to(device)

    reference = theirs(input_ids=ids, attention_mask=mask.long(), token_type_ids=segments, output_hidden_states=True)
    hidden = ours.encoder(ids, mask, segments)
    mlm, nsp = ours(ids, mask, segments)

    close(hidden[mask], reference.hidden_states[-1][mask])
    close(ours.encoder.pool(hidden), theirs.bert.pooler(reference.hidden_states[-1]))
    close(mlm[mask], reference.prediction_logits[mask])
    close(nsp, reference.seq_relationship_logits)

    weights = torch.randn_like(mlm) * mask[..., None] / mask.sum()
    for tokens, follows in ((mlm, nsp), (reference.prediction_logits, reference.seq_relationship_logits)):
        ((tokens * weights).sum() + follows[:, 0].sum()).backward()
    close_gradients(ours, theirs, "bert", prefix="encoder.")


@pytest.mark.parametrize(
    "config, bare, with_heads",
    [(BertConfig.base(), 109_482_240, 110_106_428), (BertConfig.large(), 335_141_888, 336_226_108)],
    ids=["base", "large"],
)
def test_parameter_counts_are_those_of_the_published_models(config, bare, with_heads):
    with torch.device("meta"):
        assert parameter_count(Bert(config)) == bare
        assert parameter_count(BertForPretraining(config)) == with_heads


def test_a_fresh_model_starts_at_a_spread_of_two_hundredths():
    fresh = BertForPretraining(BertConfig(vocab_size=500, d_model=64, n_layers=1, n_heads=2, d_ff=128))
    for name, p in fresh.named_parameters():
        if p.dim() == 2 and p.numel() > 2000:
            assert 0.019 < p.std() < 0.021, name
        elif name.endswith("bias"):
            assert not p.any(), name


def test_the_head_is_tied_to_the_embedding():
    model, ids = BertForPretraining(CONFIG).eval(), torch.randint(V - 1, (B, T))  # the last token is never read
    before = model(ids)[0]
    with torch.no_grad():
        model.encoder.embeddings.token.weight[V - 1] += torch.randn(D)
    after = model(ids)[0]
    assert torch.equal(before[..., :-1], after[..., :-1])
    assert (before[..., -1] - after[..., -1]).abs().min() > 1e-6
    assert sum(tensor.shape == (V, D) for tensor in model.state_dict().values()) == 1


def test_padding_never_changes_other_tokens(model):
    ids = torch.randint(V, (B, T))
    mask = torch.arange(T) < torch.tensor([[4], [7], [2]])
    out = model(ids, mask)
    other = torch.where(mask, ids, torch.randint(V, (B, T)))
    close(model(other, mask)[mask], out[mask], 1e-6)
    close(model(ids[:1, :4])[0], out[0, :4], 1e-6)


def test_lengths_pack_the_batch_and_change_nothing_but_padding(model):
    ids, lengths = torch.randint(V, (B, T)), torch.tensor([4, 7, 2])
    mask = torch.arange(T) < lengths[:, None]
    packed = model(ids, lengths=lengths)
    close(packed[mask], model(ids, mask)[mask], 1e-6)
    assert not packed[~mask].any()


def test_segments_and_order_are_read(model):
    ids = torch.randint(V, (B, T))
    assert not torch.allclose(model(ids), model(ids, segments=torch.ones_like(ids)))
    assert not torch.allclose(model(ids).flip(1), model(ids.flip(1)), atol=1e-4)


def test_dropout_is_off_in_eval_and_on_in_training():
    model, ids = Bert(BertConfig(vocab_size=V, d_model=D, n_layers=1, n_heads=2, d_ff=12)), torch.randint(V, (B, T))
    assert not torch.equal(model(ids), model(ids))
    assert torch.equal(model.eval()(ids), model(ids))
    for part in (model.embeddings, model.encoder):
        part.train()
        assert not torch.equal(model(ids), model(ids))
        part.eval()


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"ids": torch.full((B, T), V)}, "token ids must be between 0 and 22, got 23"),
        ({"ids": torch.full((B, T), -1)}, "token ids must be between 0 and 22, got -1"),
        ({"ids": torch.zeros(B, T)}, "token ids must be int64"),
        ({"ids": torch.zeros(T, dtype=torch.long)}, r"shape \(B, T\), got torch.int64 of shape \(7,\)"),
        ({"ids": torch.zeros(B, T + 1, dtype=torch.long)}, "at most 7 tokens, got 8"),
        ({"segments": torch.full((B, T), 2)}, "segment ids must be between 0 and 1, got 2"),
        ({"mask": torch.ones(B, T)}, r"torch.bool of shape \(3, 7\).* got torch.float32"),
        ({"mask": torch.ones(B, T + 1, dtype=torch.bool)}, r"shape \(3, 7\).* of shape \(3, 8\)"),
    ],
)
def test_bad_input_is_answered_with_one_sentence(model, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        model(**({"ids": torch.zeros(B, T, dtype=torch.long)} | change))


def test_every_module_stays_on_its_device():
    ids, mask = torch.randint(V, (B, T)), torch.ones(B, T, dtype=torch.bool)
    hidden = torch.randn(B, T, D, requires_grad=True)
    pooler = {"pooler.dense.weight", "pooler.dense.bias"}
    check_device(Embeddings(V, D), ids, torch.zeros_like(ids))
    check_device(Bert(CONFIG), ids, mask, unused=pooler)
    check_device(Bert(CONFIG), ids, lengths=[2, 7, 4], unused=pooler)
    check_device(Pooler(D), hidden)
    check_device(MLMHead(V, D, D), hidden, torch.randn(V, D))
    check_device(NSPHead(D), hidden[:, 0])
    check_device(MaskedLM(Bert(CONFIG)), ids, mask, unused={f"encoder.{name}" for name in pooler})
    check_device(BertForPretraining(CONFIG), ids, mask, torch.zeros_like(ids))


def test_a_trained_wordpiece_is_the_same_every_time_and_knows_its_special_tokens():
    tokenizers = [train_wordpiece(TEXTS, 40) for _ in range(5)]
    vocabulary = tokenizers[0].get_vocab()
    assert all(tokenizer.get_vocab() == vocabulary for tokenizer in tokenizers)
    assert len(vocabulary) == 40
    assert [vocabulary[token] for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]


@pytest.fixture
def tokenizers(tmp_path):
    """Ours, and BERT's own in `transformers` with the same vocabulary."""
    ours = train_wordpiece(TEXTS, 45)
    vocabulary = ours.get_vocab()
    (tmp_path / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)), encoding="utf-8")
    return ours, BertTokenizerFast(vocab=str(tmp_path / "vocab.txt"))


def test_wordpiece_cuts_text_as_berts_own_tokenizer_does(tokenizers):
    ours, theirs = tokenizers
    for text in [*TEXTS, "Catted dogs: [MASK] dîners?", "##at"]:
        assert ours.encode(text).ids == theirs(text, add_special_tokens=False)["input_ids"]
    assert ours.decode(ours.encode(TEXTS[0]).ids) == "the cat sat on the mat."


@pytest.mark.parametrize("max_length", [*range(5, 20), 64])
def test_pairs_are_encoded_as_berts_own_tokenizer_encodes_them(tokenizers, max_length):
    ours, theirs = tokenizers
    first, second = [TEXTS[0], TEXTS[2]], [TEXTS[1], TEXTS[0]]
    expected = theirs(first, second, padding=True, truncation=True, max_length=max_length, return_tensors="pt")
    ids, mask, segments = encode_pairs(ours, list(zip(first, second, strict=True)), max_length)
    assert mask.dtype == torch.bool
    assert torch.equal(ids, expected["input_ids"])
    assert torch.equal(mask.long(), expected["attention_mask"])
    assert torch.equal(segments, expected["token_type_ids"])


def test_a_single_text_has_one_separator_and_one_segment():
    assert join_pair([7, 8], None, 2, 3, max_length=10) == ([2, 7, 8, 3], [0, 0, 0, 0])
    assert join_pair([7, 8], [9], 2, 3, max_length=10) == ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1])


def test_the_longer_text_is_cut_first():
    assert join_pair([5, 6, 7, 8], [9], 2, 3, max_length=6)[0] == [2, 5, 6, 3, 9, 3]
    assert join_pair([5], [6, 7, 8, 9], 2, 3, max_length=6)[0] == [2, 5, 3, 6, 7, 3]
    assert join_pair([5, 6], [7, 8], 2, 3, max_length=6)[0] == [2, 5, 3, 7, 8, 3]
    with pytest.raises(ValueError, match="room for the special tokens, got 2"):
        join_pair([5], [6], 2, 3, max_length=2)
