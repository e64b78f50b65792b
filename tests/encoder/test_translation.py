import pytest
import torch

from encoder.seq2seq import Seq2Seq, Seq2SeqConfig, cross_attention_weights, shift_right
from encoder.training import TrainConfig, fit
from encoder.translation import (
    ENGLISH,
    GERMAN,
    decode_words,
    draw_numbers,
    encode_words,
    english,
    exact_match,
    german,
    held_out,
    number_batches,
    number_loss,
    number_pairs,
    translate,
)


@pytest.mark.parametrize(
    ("number", "said", "gesagt"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (11, "eleven", "elf"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty one", "einundzwanzig"),
        (42, "forty two", "zweiundvierzig"),
        (60, "sixty", "sechzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred one", "einhunderteins"),
        (1000, "one thousand", "eintausend"),
        (1001, "one thousand one", "eintausendeins"),
        (16_031, "sixteen thousand thirty one", "sechzehntausendeinunddreißig"),
        (101_000, "one hundred one thousand", "einhunderteintausend"),
        (
            999_999,
            "nine hundred ninety nine thousand nine hundred ninety nine",
            "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
        ),
    ],
)
def test_numbers_are_said_as_people_say_them(number, said, gesagt):
    assert " ".join(english(number)) == said
    assert "".join(german(number)) == gesagt


def test_no_two_numbers_share_their_words_and_none_needs_more_than_eleven_parts():
    numbers = [*range(3000), *range(0, 1_000_000, 997), 777_777]
    for language in (english, german):
        assert len({" ".join(language(n)) for n in numbers}) == len(set(numbers))
        assert max(len(language(n)) for n in numbers) <= 11


def test_words_come_back_from_their_ids():
    texts = [german(n) for n in (7, 777_777, 21)]
    ids = encode_words(texts, GERMAN)
    assert ids.shape == (3, 12) and ids[0].tolist() == [GERMAN.index("sieben"), 2, *[0] * 10]
    assert decode_words(ids, GERMAN) == texts
    assert len(set(ENGLISH)) == len(ENGLISH) and len(set(GERMAN)) == len(GERMAN)


def test_training_never_sees_what_is_held_out():
    seen = {n for step in range(50) for n in draw_numbers(64, torch.Generator().manual_seed(step))}
    tested = set(draw_numbers(500, torch.Generator().manual_seed(0), test=True))
    assert not seen & tested and all(map(held_out, tested)) and not any(map(held_out, seen))
    share = sum(map(held_out, range(100, 100_100))) / 100_000
    assert 0.09 < share < 0.11
    assert {len(str(n)) for n in tested} == {3, 4, 5, 6}
    units = {n % 10 for n in tested if n > 999}, {n // 10 % 10 for n in tested if n > 999}
    assert units == (set(range(10)), set(range(10)))  # the hash leaves no digit out


def test_the_batch_of_a_step_is_the_same_whenever_it_is_asked():
    for first, again, other in zip(number_batches(3), number_batches(3), number_batches(4), strict=True):
        assert torch.equal(first, again)
        assert first.shape != other.shape or not torch.equal(first, other)


def test_bad_input_is_answered_in_one_sentence():
    with pytest.raises(ValueError, match=r"numbers from 0 to 999999, got \[3, 1000000\]"):
        number_pairs([3, 1_000_000])
    with pytest.raises(ValueError, match=r"words of the vocabulary, got 'million'"):
        encode_words([["one", "million"]], ENGLISH)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(len(ENGLISH), len(GERMAN)))
    fit(model, number_loss, number_batches, TrainConfig(500, lr=3e-3, quiet=True))
    return model


def test_the_translation_is_learnt(model):
    assert exact_match(model, draw_numbers(500, torch.Generator().manual_seed(1), test=True)) >= 0.99
    assert translate(model, [["forty", "two"], ["one"]]) == [["zwei", "und", "vierzig"], ["eins"]]


def test_the_alignment_crosses_where_german_turns_units_and_tens_around(model):
    """To say the unit the decoder reads the unit, which stands after the ten; averaged over numbers of two digits."""
    numbers = [10 * ten + unit for ten in range(2, 10) for unit in range(2, 10)]
    source, target = number_pairs(numbers)  # ten unit <eos> → unit und ten <eos>
    weights = torch.stack([cross_attention_weights(model, source, shift_right(target, 1), layer) for layer in (0, 1)])
    read = weights.mean((0, 1, 2))  # (T, S), over layers, numbers and heads
    assert read[0, 1] > 3 * read[0, 0] and read[2, 0] > 3 * read[2, 1]
