import pytest
import torch
from device import REAL_DEVICES, check_device
from families import BASE, MIDDLE, SETTINGS, TINY, close, close_gradients, jitter, oracle, padded_batch, twin
from torch import nn
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from encoder.bert import BertConfig, BertForPretraining, MaskedLM, parameter_count
from encoder.seq2seq import Decoder
from encoder.stack import Encoder
from encoder.variants import (
    Albert,
    AlbertConfig,
    Deberta,
    DebertaConfig,
    DebertaLayer,
    DisentangledAttention,
    EnhancedMaskDecoder,
    Roberta,
    RobertaConfig,
    SharedEncoder,
    TokenEmbeddings,
    disentangled_scores,
    log_buckets,
    relative_index,
    roberta_positions,
)

B, T, V, D, H = 3, 7, 23, 8, 2
SIZE = {"vocab_size": V, "d_model": D, "n_layers": 2, "n_heads": H, "d_ff": 12, "dropout": 0.0}
MODELS = {
    "roberta": lambda: Roberta(RobertaConfig(**SIZE)),
    "albert": lambda: Albert(AlbertConfig(**SIZE, d_embedding=6)),
    "deberta": lambda: Deberta(DebertaConfig(**SIZE)),
    "deberta-v2": lambda: Deberta(DebertaConfig(**SIZE, buckets=6, max_distance=16)),
    "mask decoder": lambda: EnhancedMaskDecoder(Deberta(DebertaConfig(**SIZE))),
}
each_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("device", REAL_DEVICES)
@pytest.mark.parametrize("size", [TINY, MIDDLE, BASE], ids=["2x24", "3x64", "12x768"])
@pytest.mark.parametrize("family", [family for family in SETTINGS if family != "bert"])
def test_states_and_gradients_equal_transformers(family, size, device):
    theirs = oracle(family, size).to(device)
    ours = twin(theirs).to(device)
    ids, mask = (x.to(device) for x in padded_batch(family))
    segments = (ids % 2) * mask if family == "albert" else None
    extra = {} if segments is None else {"token_type_ids": segments}

    reference = theirs(input_ids=ids, attention_mask=mask.long(), **extra)
    hidden = ours(ids, mask, segments)
    close(hidden[mask], reference.last_hidden_state[mask])
    losses = [hidden, reference.last_hidden_state]
    if getattr(reference, "pooler_output", None) is not None:
        close(ours.pool(hidden), reference.pooler_output)
        losses = [torch.cat([hidden, ours.pool(hidden)[:, None]], 1)]
        losses.append(torch.cat([reference.last_hidden_state, reference.pooler_output[:, None]], 1))
    weights = torch.randn_like(losses[0]) / mask.sum()
    weights[:, : mask.size(1)] *= mask[..., None]
    for output in losses:
        (output * weights).sum().backward()
    close_gradients(ours, theirs, family)


@pytest.mark.parametrize("family", ["deberta", "deberta-v2"])
@pytest.mark.parametrize("length", [1, 5, 6, 7, 30])
def test_relative_positions_hold_below_at_and_beyond_the_span(family, length):
    theirs = oracle(family, TINY)
    ids = torch.randint(5, 97, (2, length))
    close(twin(theirs)(ids), theirs(input_ids=ids).last_hidden_state)


@pytest.mark.parametrize(
    "model, config, count",
    [
        (Roberta, RobertaConfig(), 124_645_632),
        (Albert, AlbertConfig(), 11_683_584),
        (Deberta, DebertaConfig(), 138_601_728),
        (Deberta, DebertaConfig.v3_base(), 183_831_552),
    ],
    ids=["roberta", "albert", "deberta", "deberta-v3"],
)
def test_parameter_counts_are_those_of_the_published_models(model, config, count):
    with torch.device("meta"):
        assert parameter_count(model(config)) == count


@pytest.mark.parametrize(
    "config, eps, pad_id, activation, dropout",
    [
        (BertConfig(), 1e-12, 0, "gelu", 0.1),
        (RobertaConfig(), 1e-5, 1, "gelu", 0.1),
        (AlbertConfig(), 1e-12, 0, "gelu_tanh", 0.0),
        (DebertaConfig(), 1e-7, 0, "gelu", 0.1),
    ],
    ids=["bert", "roberta", "albert", "deberta"],
)
def test_what_no_count_shows_is_as_published(config, eps, pad_id, activation, dropout):
    assert (config.eps, config.pad_id, config.activation, config.dropout) == (eps, pad_id, activation, dropout)


def test_dropout_falls_on_the_weights_and_on_the_relative_positions():
    attention, x = DisentangledAttention(D, H, dropout=0.5), torch.randn(B, T, D)
    index = relative_index(T, 6, torch.device("cpu"))
    silent, table = torch.zeros(12, D), torch.ones(12, D)
    assert not torch.equal(attention(x, None, (silent, index)), attention(x, None, (silent, index)))
    seen = []
    attention.pos_q_proj.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    attention(x, None, (table, index))
    attention.eval()(x, None, (table, index))
    assert set(seen[0].unique().tolist()) == {0.0, 2.0} and seen[1].unique().tolist() == [1.0]


@each_model
def test_padding_never_changes_other_tokens(name):
    model = jitter(MODELS[name]()).eval()
    mask = torch.arange(T) < torch.tensor([[4], [7], [2]])
    ids = torch.randint(2, V, (B, T)).masked_fill(~mask, 1)
    out = model(ids, mask)
    close(model(ids[:1, :4])[0], out[0, :4], 1e-6)
    if name != "roberta":  # whose positions are read from the padding itself
        other = torch.where(mask, ids, torch.randint(2, V, (B, T)))
        close(model(other, mask)[mask], out[mask], 1e-6)


@each_model
def test_a_text_of_nothing_but_padding_makes_no_nan(name):
    model = jitter(MODELS[name]())
    mask = torch.arange(T) < torch.tensor([[4], [0], [2]])
    out = model(torch.ones(B, T, dtype=torch.long), mask)
    out.sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@each_model
def test_every_model_stays_on_its_device(name):
    ids, mask = torch.randint(V, (B, T)), torch.ones(B, T, dtype=torch.bool)
    unused = [parameter for parameter, _ in MODELS[name]().named_parameters() if parameter.startswith("pooler")]
    check_device(MODELS[name](), ids, mask, unused=unused)
    check_device(MaskedLM(MODELS[name]()), ids, mask, unused=[f"encoder.{parameter}" for parameter in unused])


def test_the_pieces_stay_on_their_device():
    x, table = torch.randn(B, T, D, requires_grad=True), torch.randn(12, D, requires_grad=True)
    index, mask = torch.zeros(T, T, dtype=torch.long), torch.ones(B, 1, 1, T, dtype=torch.bool)
    own = ["pos_q_proj.weight", "pos_q_proj.bias", "pos_k_proj.weight"]
    for shared in (True, False):
        attention = DisentangledAttention(D, H, shared)
        assert [name for name, _ in attention.named_parameters() if name.startswith("pos")] == ([] if shared else own)
        check_device(attention, x, mask, (table, index), x)
        check_device(DebertaLayer(D, H, 12, shared), x, mask, (table, index))
    check_device(SharedEncoder(3, D, H, 12), x, mask)
    check_device(TokenEmbeddings(V, D), torch.zeros(B, T, dtype=torch.long))
    check_device(log_buckets, index, 6, 16)
    check_device(roberta_positions, index, 1)


def test_roberta_counts_positions_from_beyond_the_padding_id():
    ids = torch.tensor([[7, 8, 9, 1, 1], [5, 1, 1, 1, 1]])
    assert roberta_positions(ids, 1).tolist() == [[2, 3, 4, 1, 1], [2, 1, 1, 1, 1]]


def test_shared_layers_are_one_layer_run_many_times():
    shared, x = jitter(SharedEncoder(3, D, H, 12)), torch.randn(B, T, D)
    once = shared.layer
    assert torch.equal(shared(x), once(once(once(x))))
    assert parameter_count(shared) == parameter_count(once)


@pytest.mark.parametrize("buckets, max_distance", [(4, 40), (32, 128), (256, 512)])
def test_log_buckets_equal_transformers_at_every_distance(buckets, max_distance):
    distance = torch.arange(-1500, 1500)
    expected = make_log_bucket_position(distance, buckets, max_distance).long()
    assert torch.equal(log_buckets(distance, buckets, max_distance), expected)


def test_the_relative_index_is_query_minus_key_clamped():
    assert relative_index(4, 2, torch.device("cpu")).tolist() == [
        [2, 1, 0, 0],
        [3, 2, 1, 0],
        [3, 3, 2, 1],
        [3, 3, 3, 2],
    ]


def test_disentangled_scores_are_their_three_terms():
    K, R = 5, 6
    q, k = torch.randn(B, H, T, K), torch.randn(B, H, T, K)
    pos_q, pos_k = torch.randn(1, H, R, K), torch.randn(1, H, R, K)
    index = relative_index(T, R // 2, torch.device("cpu"))
    scores = disentangled_scores(q, k, pos_q, pos_k, index)
    for b, h, i, j in [(0, 0, 0, 6), (1, 1, 3, 2), (2, 0, 6, 0), (2, 1, 4, 4)]:
        d = index[i, j]
        terms = q[b, h, i] @ k[b, h, j], q[b, h, i] @ pos_k[0, h, d], k[b, h, j] @ pos_q[0, h, d]
        assert scores[b, h, i, j] == pytest.approx(float(sum(terms)) / (3 * K) ** 0.5, abs=1e-5)


def test_the_mask_decoder_runs_the_last_layer_twice_on_the_states_before_it():
    theirs = oracle("deberta-v2", MIDDLE)
    decoder = jitter(EnhancedMaskDecoder(twin(theirs))).eval()
    decoder.encoder.load_state_dict(twin(theirs).state_dict())
    ids, mask = padded_batch("deberta-v2")

    before = theirs(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states[-2]
    query = before + decoder.position.weight[: ids.size(1)]
    for _ in range(2):
        query = theirs.encoder.layer[-1](
            before,
            theirs.encoder.get_attention_mask(mask.long()),
            query_states=query,
            relative_pos=theirs.encoder.get_rel_pos(before),
            rel_embeddings=theirs.encoder.get_rel_embedding(),
        )[0]
    close(decoder(ids, mask)[mask], query[mask])


def test_only_the_mask_decoder_knows_absolute_positions():
    """Moving the table of positions moves what the decoder says, and nothing that the layers say."""
    decoder = jitter(EnhancedMaskDecoder(Deberta(DebertaConfig(**SIZE)))).eval()
    ids = torch.full((1, T), 5)
    plain, decoded = decoder.encoder(ids), decoder(ids)
    with torch.no_grad():
        decoder.position.weight.copy_(decoder.position.weight.roll(1, 0))
    assert torch.equal(decoder.encoder(ids), plain)
    assert not torch.allclose(decoder(ids), decoded)


def test_every_head_is_tied_to_its_encoders_table():
    for name, build in MODELS.items():
        model = MaskedLM(build()).eval()
        assert model(torch.randint(2, V, (B, T))).shape == (B, T, V), name
        assert sum(tensor.size(0) == V and tensor.dim() == 2 for tensor in model.state_dict().values()) == 1, name


def test_bad_input_is_answered_with_one_sentence():
    long = torch.full((1, 9), 5)
    with pytest.raises(ValueError, match="at most 8 tokens, got 9"):
        Roberta(RobertaConfig(**SIZE, max_length=10))(long)
    with pytest.raises(ValueError, match="at most 8 tokens, got 9"):
        EnhancedMaskDecoder(Deberta(DebertaConfig(**SIZE, max_length=8)))(long)
    with pytest.raises(ValueError, match="segment ids must be between 0 and 0, got 1"):
        Roberta(RobertaConfig(**SIZE))(long, segments=torch.ones_like(long))
    with pytest.raises(ValueError, match="token ids must be between 0 and 22, got 23"):
        Deberta(DebertaConfig(**SIZE))(long + 18)
    with pytest.raises(ValueError, match=r"torch\.bool of shape"):
        Deberta(DebertaConfig(**SIZE))(long, torch.ones(1, 9))
    with pytest.raises(ValueError, match="multiple of n_heads"):
        DisentangledAttention(D, 3)


@pytest.mark.parametrize(
    "model",
    [
        BertForPretraining(BertConfig(11, 6, 2, 2, 8, 5, dropout=0.3, activation="relu", eps=0.5)),
        MaskedLM(Roberta(RobertaConfig(11, 6, 2, 2, 8, 5, dropout=0.3, activation="relu", eps=0.5))),
        MaskedLM(Albert(AlbertConfig(11, 6, 2, 2, 8, 5, dropout=0.3, activation="relu", eps=0.5, d_embedding=4))),
        MaskedLM(EnhancedMaskDecoder(Deberta(DebertaConfig(11, 6, 2, 2, 8, 5, 0, 0, 0.3, "relu", 0.5)))),
        MaskedLM(Deberta(DebertaConfig(11, 6, 2, 2, 8, 5, 0, 0, 0.3, "relu", 0.5, buckets=4))),
        Encoder(2, 6, 2, 8, dropout=0.3, activation="relu", eps=0.5),
        Decoder(2, 6, 2, 8, dropout=0.3, activation="relu", eps=0.5),
    ],
    ids=lambda model: type(getattr(model, "encoder", model)).__name__,
)
def test_dropout_activation_and_eps_reach_every_part(model):
    """Models of tests have no dropout and the default eps: a setting lost on its way down makes no difference there."""
    found = {"dropout": set(), "activation": set(), "eps": set()}
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            found["dropout"].add(module.p)
        for name, values in found.items():
            if isinstance(value := getattr(module, name, None), float | str):
                values.add(value)
    assert found == {"dropout": {0.3}, "activation": {"relu"}, "eps": {0.5}}


def test_dropout_of_one_leaves_of_deberta_only_its_norms():
    model = Deberta(DebertaConfig(11, 6, 2, 2, 8, 5, dropout=1.0)).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
        expected = torch.zeros(2, 3, 6)
        for layer in model.layers:
            expected = layer.norm2(layer.norm1(expected))
        torch.testing.assert_close(model(torch.randint(11, (2, 3))), expected)
