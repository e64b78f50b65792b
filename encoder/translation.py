"""A translation that a laptop learns in a minute: numbers in English words → German words. Chapter 09.

It is small but real. German says the unit before the ten ("forty two" is "zwei und vierzig"), and one is "ein" inside a
number but "eins" at its end: the decoder has to look ahead and back in the source, and the alignment picture shows it.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from encoder.seq2seq import Seq2Seq, greedy_decode, seq2seq_loss, shift_right

SPECIAL = ["<pad>", "<bos>", "<eos>"]  # ids 0, 1, 2 on both sides, as in Seq2SeqConfig
# fmt: off
ENGLISH_UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
ENGLISH_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
GERMAN_UNITS = [
    "null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn",
    "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
]
GERMAN_TENS = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
# fmt: on
ENGLISH = [*SPECIAL, *ENGLISH_UNITS, *ENGLISH_TENS, "hundred", "thousand"]
GERMAN = [*SPECIAL, *GERMAN_UNITS, *GERMAN_TENS, "hundert", "tausend", "und", "eins"]
LARGEST = 999_999


def english(n: int) -> list[str]:
    """42 → ["forty", "two"]"""
    if n >= 1000:
        return [*english(n // 1000), "thousand", *(english(n % 1000) if n % 1000 else [])]
    if n >= 100:
        return [ENGLISH_UNITS[n // 100], "hundred", *(english(n % 100) if n % 100 else [])]
    if n < 20:
        return [ENGLISH_UNITS[n]]
    return [ENGLISH_TENS[n // 10 - 2], *([ENGLISH_UNITS[n % 10]] if n % 10 else [])]


def german_stem(n: int) -> list[str]:
    """42 → ["zwei", "und", "vierzig"], with "ein" for one wherever it stands."""
    if n >= 1000:
        return [*german_stem(n // 1000), "tausend", *(german_stem(n % 1000) if n % 1000 else [])]
    if n >= 100:
        return [GERMAN_UNITS[n // 100], "hundert", *(german_stem(n % 100) if n % 100 else [])]
    if n < 20:
        return [GERMAN_UNITS[n]]
    return [*([GERMAN_UNITS[n % 10], "und"] if n % 10 else []), GERMAN_TENS[n // 10 - 2]]


def german(n: int) -> list[str]:
    """101 → ["ein", "hundert", "eins"]; written, the parts of a German number are one word: "einhunderteins"."""
    *stem, last = german_stem(n)
    return [*stem, "eins" if last == "ein" else last]


def held_out(n: int) -> bool:
    """A tenth of the numbers from 100 on, scattered by a hash: never trained on. Those below 100 teach the words."""
    return n >= 100 and (n * 2654435761 >> 16) % 10 == 0


def draw_numbers(count: int, generator: torch.Generator, test: bool = False) -> list[int]:
    """Numbers from 0 to 999 999, of 1 … 6 digits with equal chance, held out or not as asked."""
    numbers: list[int] = []
    while len(numbers) < count:
        digits = int(torch.randint(1, 7, (), generator=generator))
        n = int(torch.randint(0, 10**digits, (), generator=generator))
        if held_out(n) == test:
            numbers.append(n)
    return numbers


def encode_words(texts: list[list[str]], vocabulary: list[str]) -> Tensor:
    """Words → ids (B, T), each row ended by <eos> and filled up with <pad>."""
    place = {word: i for i, word in enumerate(vocabulary)}
    unknown = [word for text in texts for word in text if word not in place]
    if unknown:
        raise ValueError(f"expected words of the vocabulary, got {unknown[0]!r}")
    rows = [torch.tensor([place[word] for word in [*text, "<eos>"]]) for text in texts]
    return pad_sequence(rows, batch_first=True)


def decode_words(ids: Tensor, vocabulary: list[str]) -> list[list[str]]:
    """Ids (B, T) → the words of each row before <eos>."""
    texts = [[vocabulary[i] for i in row] for row in ids.tolist()]
    return [text[: text.index("<eos>")] if "<eos>" in text else text for text in texts]


def number_pairs(numbers: list[int]) -> tuple[Tensor, Tensor]:
    """(English ids (B, S), German ids (B, T)) of some numbers from 0 to 999 999."""
    if not all(0 <= n <= LARGEST for n in numbers):
        raise ValueError(f"expected numbers from 0 to {LARGEST}, got {numbers}")
    return encode_words([english(n) for n in numbers], ENGLISH), encode_words([german(n) for n in numbers], GERMAN)


def number_batches(step: int, size: int = 64) -> tuple[Tensor, Tensor]:
    """The training batch of a step, the same whenever it is asked."""
    return number_pairs(draw_numbers(size, torch.Generator().manual_seed(step)))


def number_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The loss that `fit` takes: teacher forcing on (source, target)."""
    source, target = batch
    return seq2seq_loss(model(source, shift_right(target, bos_id=1)), target, pad_id=0)


def translate(model: Seq2Seq, texts: list[list[str]]) -> list[list[str]]:
    """English number words → German ones, greedily; no number below a million has more than 11 German parts."""
    source = encode_words(texts, ENGLISH).to(model.output.weight.device)
    return decode_words(greedy_decode(model, source, max_length=12), GERMAN)


def exact_match(model: Seq2Seq, numbers: list[int]) -> float:
    """The share of numbers that are translated without any mistake."""
    answers = translate(model, [english(n) for n in numbers])
    return sum(answer == german(n) for answer, n in zip(answers, numbers, strict=True)) / len(numbers)
