import itertools

import pytest
import sklearn.metrics
import torch
from device import check_device
from families import SETTINGS, TINY, close, close_gradients, jitter, oracle, padded_batch
from hypothesis import given
from hypothesis import strategies as st

from encoder.bert import Bert, BertConfig
from encoder.finetuning import (
    SequenceClassifier,
    SpanPredictor,
    TokenClassifier,
    align_labels,
    best_span,
    classification_report,
    entity_report,
    entity_spans,
    format_report,
    span_loss,
    token_loss,
)
from encoder.pretrained import FAMILIES, config_from_json, load_weights
from encoder.pretraining import IGNORE
from encoder.variants import Albert, AlbertConfig, Deberta, DebertaConfig, Roberta, RobertaConfig

B, T, V, D, C = 3, 7, 23, 8, 5
SIZE = {"vocab_size": V, "d_model": D, "n_layers": 2, "n_heads": 2, "d_ff": 12, "dropout": 0.0}
ENCODERS = {
    "bert": (Bert, BertConfig(**SIZE)),
    "roberta": (Roberta, RobertaConfig(**SIZE)),
    "albert": (Albert, AlbertConfig(**SIZE, d_embedding=6)),
    "deberta": (Deberta, DebertaConfig(**SIZE)),
}
HEADS = {
    "ForSequenceClassification": lambda encoder: SequenceClassifier(encoder, C),
    "ForTokenClassification": lambda encoder: TokenClassifier(encoder, C),
    "ForQuestionAnswering": SpanPredictor,
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.filterwarnings(
    "ignore:the checkpoint has no"
)  # transformers builds token and span models without a pooler
@pytest.mark.parametrize("kind", HEADS)
def test_heads_and_gradients_equal_transformers(kind):
    theirs = oracle("bert", TINY, kind, **({} if "Question" in kind else {"num_labels": C}))
    family, config = config_from_json(theirs.config.to_dict())
    ours = HEADS[kind](FAMILIES[family][0](config)).eval()
    load_weights(ours.encoder, theirs.state_dict(), family)
    output = getattr(theirs, "classifier", getattr(theirs, "qa_outputs", None))
    ours.classifier.load_state_dict(output.state_dict())

    ids, mask = padded_batch("bert")
    segments = (torch.arange(ids.size(1)) > 4).long().expand_as(ids)
    reference = theirs(input_ids=ids, attention_mask=mask.long(), token_type_ids=segments)
    expected = [reference.start_logits, reference.end_logits] if "Question" in kind else [reference.logits]
    got = ours(ids, mask, segments)
    got = list(got) if isinstance(got, tuple) else [got]
    for a, b in zip(got, expected, strict=True):
        close(a[mask] if a.shape[:2] == mask.shape else a, b[mask] if b.shape[:2] == mask.shape else b)
    for outputs in (got, expected):
        sum((x[mask] if x.shape[:2] == mask.shape else x).sin().sum() for x in outputs).backward()
    close_gradients(ours.encoder, getattr(theirs, theirs.base_model_prefix), family)
    close(ours.classifier.weight.grad, output.weight.grad)
    close(ours.classifier.bias.grad, output.bias.grad)


@pytest.mark.parametrize("family", ENCODERS)
def test_any_encoder_takes_any_head(family):
    build, config = ENCODERS[family]
    ids, mask = torch.randint(2, V, (B, T)), torch.arange(T) < torch.tensor([[7], [3], [5]])
    encoder = jitter(build(config)).eval()
    assert SequenceClassifier(encoder, C).eval()(ids, mask).shape == (B, C)
    assert TokenClassifier(encoder, C).eval()(ids, mask).shape == (B, T, C)
    start, end = SpanPredictor(encoder).eval()(ids, mask)
    assert start.shape == end.shape == (B, T) and not torch.equal(start, end)


@pytest.mark.parametrize("family", ENCODERS)
def test_heads_stay_on_their_device(family):
    build, config = ENCODERS[family]
    ids, mask = torch.randint(2, V, (B, T)), torch.ones(B, T, dtype=torch.bool)
    pooler = [f"encoder.{name}" for name, _ in build(config).named_parameters() if name.startswith("pooler")]
    check_device(SequenceClassifier(build(config), C), ids, mask)
    check_device(TokenClassifier(build(config), C), ids, mask, unused=pooler)
    check_device(SpanPredictor(build(config)), ids, mask, unused=pooler)


def test_losses_and_decoding_stay_on_their_device():
    start, end = torch.randn(B, T, requires_grad=True), torch.randn(B, T, requires_grad=True)
    places, allowed = torch.zeros(B, dtype=torch.long), torch.ones(B, T, dtype=torch.bool)
    check_device(span_loss, start, end, places, places, allowed)
    check_device(best_span, start, end, allowed)


def test_a_frozen_encoder_gets_no_gradient_and_its_head_does():
    encoder = Bert(BertConfig(**SIZE)).requires_grad_(False)
    model = SequenceClassifier(encoder, C)
    model(torch.randint(V, (B, T))).sum().backward()
    assert {name for name, p in model.named_parameters() if p.grad is not None} == {
        "classifier.weight",
        "classifier.bias",
    }


@pytest.mark.parametrize("head", [SequenceClassifier, TokenClassifier])
def test_a_head_drops_out_in_training_only(head):
    model, ids = head(Bert(BertConfig(**SIZE)), C, dropout=0.5), torch.randint(V, (B, T))
    assert not torch.equal(model(ids), model(ids))
    assert torch.equal(model.eval()(ids), model(ids))


def test_only_the_first_piece_of_a_word_carries_its_label():
    assert align_labels([None, 0, 1, 1, 1, 2, None], [4, 5, 6]) == [IGNORE, 4, 5, IGNORE, IGNORE, 6, IGNORE]
    assert align_labels([None, 0, None, 0, 1, None], [7, 8]) == [IGNORE, 7, IGNORE, 7, 8, IGNORE]


def test_padding_labels_are_not_counted():
    logits, labels = torch.randn(B, T, C), torch.randint(C, (B, T))
    padded = labels.clone()
    padded[:, 4:] = IGNORE
    assert torch.allclose(token_loss(logits, padded), token_loss(logits[:, :4], labels[:, :4]))


def test_the_span_loss_is_the_mean_of_both_ends_among_allowed_tokens():
    start, end = torch.randn(B, T), torch.randn(B, T)
    starts, ends = torch.tensor([1, 0, 2]), torch.tensor([3, 0, 4])
    allowed = torch.arange(T) < 5
    expected = 0.0
    for b in range(B):
        expected -= start[b, :5].log_softmax(0)[starts[b]] + end[b, :5].log_softmax(0)[ends[b]]
    assert torch.allclose(span_loss(start, end, starts, ends, allowed.expand(B, T)), expected / (2 * B))
    assert torch.allclose(span_loss(start[:, :5], end[:, :5], starts, ends), expected / (2 * B))


@pytest.mark.parametrize("max_length", [1, 3, 30])
def test_the_best_span_is_the_one_found_by_trying_all(max_length):
    for _ in range(20):
        start, end = torch.randn(B, T), torch.randn(B, T)
        allowed = torch.rand(B, T) < 0.7
        allowed[:, 2] = True
        starts, ends = best_span(start, end, allowed, max_length)
        for b in range(B):
            places = [i for i in range(T) if allowed[b, i]]
            spans = [(i, j) for i, j in itertools.product(places, places) if 0 <= j - i < max_length]
            best = max(spans, key=lambda span: float(start[b, span[0]] + end[b, span[1]]))
            assert (int(starts[b]), int(ends[b])) == best


def test_a_span_never_ends_before_it_starts():
    start, end = torch.tensor([[0.0, 1.0, 9.0]]), torch.tensor([[9.0, 3.0, 0.0]])
    assert [x.item() for x in best_span(start, end)] == [0, 0]
    assert [x.item() for x in best_span(start, end - torch.tensor([[9.0, 0.0, 0.0]]))] == [2, 2]


@pytest.mark.parametrize(
    "tags, spans",
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),
        ("B-PER B-PER I-PER", [("PER", 0, 0), ("PER", 1, 2)]),
        ("I-PER I-PER O I-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),
        ("B-PER I-LOC I-LOC", [("PER", 0, 0), ("LOC", 1, 2)]),
        ("B-PER O I-PER", [("PER", 0, 0), ("PER", 2, 2)]),
        ("O O", []),
        ("B-A-B I-A-B", [("A-B", 0, 1)]),
    ],
)
def test_entities_are_read_from_bio_tags(tags, spans):
    assert entity_spans(tags.split()) == spans


classes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


@given(classes)
def test_the_report_equals_scikit_learns(pairs):
    actual, predicted = (torch.tensor(column) for column in zip(*pairs, strict=True))
    names = ["a", "b", "c", "d"]
    report = classification_report(actual, predicted, names)
    theirs = sklearn.metrics.classification_report(
        actual, predicted, labels=range(4), target_names=names, output_dict=True, zero_division=0
    )
    rows = {name: name for name in names} | {"macro": "macro avg", "weighted": "weighted avg"}
    for ours, name in rows.items():
        for metric, value in report[ours].items():
            assert value == pytest.approx(theirs[name]["f1-score" if metric == "f1" else metric])
    assert report["micro"]["f1"] == pytest.approx(theirs["accuracy"])


def test_places_without_a_label_are_not_reported():
    actual, predicted = torch.tensor([[0, 1, IGNORE]]), torch.tensor([[0, 0, 0]])
    report = classification_report(actual, predicted, ["x", "y"])
    assert report["x"] == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "support": 1}
    assert report["y"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}
    with pytest.raises(ValueError, match=r"as many predictions as labels, got \(1, 2\) and \(1, 3\)"):
        classification_report(actual, predicted[:, :2], ["x", "y"])


def test_an_entity_counts_only_if_type_and_both_ends_are_right():
    actual = [["B-PER", "I-PER", "O", "B-LOC", "O"], ["B-LOC", "O"], ["B-PER"]]
    predicted = [["B-PER", "O", "O", "B-LOC", "O"], ["B-LOC", "B-LOC"], ["B-LOC"]]
    report = entity_report(actual, predicted)
    assert report["PER"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 2}
    assert report["LOC"] == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "support": 2}
    assert report["micro"] == {"precision": 0.4, "recall": 0.5, "f1": pytest.approx(4 / 9), "support": 4}
    assert report["macro"]["f1"] == report["weighted"]["f1"] == pytest.approx(1 / 3)


def test_a_text_without_entities_has_an_empty_report():
    report = entity_report([["O", "O"]], [["O", "O"]])
    assert report.keys() == {"micro", "macro", "weighted"}
    assert report["micro"]["f1"] == 0.0


def test_a_report_prints_one_aligned_row_a_class():
    report = classification_report(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]), ["cat", "hippopotamus"])
    lines = format_report(report).splitlines()
    assert len(lines) == 6 and len({len(line) for line in lines}) == 1
    assert lines[2].split() == ["hippopotamus", "1.000", "0.500", "0.667", "2"]


def test_the_settings_of_all_families_are_covered_here():
    assert set(SETTINGS) - {"deberta-v2"} == set(ENCODERS)


def test_a_report_of_entities_wants_a_tag_for_every_tag():
    for predicted in ([["O"]], []):
        with pytest.raises(ValueError, match="a predicted tag for every actual one, got sentences of"):
            entity_report([["O", "B-X"]], predicted)


def test_a_type_that_is_only_predicted_counts_against_precision():
    report = entity_report([["B-X", "O"]], [["B-X", "B-Y"]])
    assert report["Y"]["support"] == 0
    assert report["micro"]["precision"] == 0.5


@pytest.mark.parametrize("tag", ["E-PER", "PER", ""])
def test_a_tag_is_b_i_or_o(tag):
    with pytest.raises(ValueError, match="expected tags B-…, I-… or O, got "):
        entity_spans([tag])


@pytest.mark.parametrize("wrong", [2, -1])
def test_a_class_without_a_name_is_told_of(wrong):
    right, other = torch.tensor([0, 1, 1]), torch.tensor([0, 1, wrong])
    for pair in ((right, other), (other, right)):
        with pytest.raises(ValueError, match=f"expected classes from 0 to 1, one for each name, got {wrong}"):
            classification_report(*pair, ["a", "b"])
