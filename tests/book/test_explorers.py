"""The explorers: they answer to pointer and keyboard, and their numbers are those of the encoder package."""

import json
import sys

import numpy as np
import pytest
import torch
from website import ROOT, quiet_pages

from encoder.attention import attention_weights
from encoder.bert import Bert, BertConfig, BertForPretraining, MaskedLM, parameter_count
from encoder.masks import causal_mask, combine_masks, window_mask
from encoder.palindrome import PalindromeClassifier, make_palindromes, reach, sees
from encoder.positions import sinusoidal_positions
from encoder.stack import padding_mask
from encoder.variants import Albert, AlbertConfig, Deberta, DebertaConfig, Roberta, RobertaConfig

TAGS = ["score", "position", "heads", "gradient", "mask", "mlm", "parameter"]


@pytest.fixture(scope="module")
def page(browser, address):
    """All explorers are on one page, opened once."""
    with quiet_pages(browser) as open_page:
        page = open_page()
        page.goto(f"{address}/book/explorers.html")
        yield page


@pytest.fixture
def explore(page):
    """explore("mask", n=7, causal=True) sets controls of an explorer and returns what it then computed."""

    def set_controls(kind, **values):
        explorer = page.locator(f"{kind}-explorer")
        for name, value in values.items():
            control = explorer.locator(f"[name={name}]")
            if isinstance(value, bool):
                control.set_checked(value)
            elif control.evaluate("e => e.tagName") == "SELECT":
                control.select_option(value)
            else:
                steps = explorer.evaluate("(e, name) => e.controls.find(c => c.name === name).steps", name)
                control.fill(str(steps.index(value) if steps else value))
        return explorer.evaluate("e => e.result")

    return set_controls


@pytest.fixture
def add(page):
    """Puts one more explorer on the page, for this test."""

    def insert(html):
        page.evaluate("html => document.querySelector('article').insertAdjacentHTML('beforeend', html)", html)
        return page.locator("article > :last-child")

    yield insert
    page.evaluate("document.querySelector('article > :last-child').remove()")


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dk", [2, 64, 1024])
def test_the_score_explorer_weighs_as_attention_weights_does(explore, dk, scaled):
    shown = explore("score", dk=dk, scaled=scaled)
    query, keys = (torch.tensor(shown[name], dtype=torch.float64) for name in ("query", "keys"))
    assert query.shape == (dk,) and keys.shape == (16, dk)
    query = query if scaled else query * dk**0.5  # the package always divides
    expected = attention_weights(query[None], keys)[0]
    assert np.allclose(shown["weights"], expected, atol=1e-12)
    assert np.isclose(shown["entropy"], torch.special.entr(expected).sum(), atol=1e-9)
    assert 0.8 < shown["variance"] / (1 if scaled else dk) < 1.2


def test_the_score_explorer_draws_again(explore, page):
    before = explore("score", dk=8)
    page.locator("score-explorer").get_by_role("button", name="Draw again").click()
    after = page.evaluate("document.querySelector('score-explorer').result")
    assert after["dk"] == 8 and not np.allclose(before["query"], after["query"])


@pytest.mark.parametrize(("d", "t"), [(4, 0), (32, 10), (64, 47)])
def test_the_position_explorer_shows_the_packages_sinusoids(explore, d, t):
    shown = explore("position", d=d, t=t)
    table = sinusoidal_positions(48, d).double()
    assert np.allclose(shown["table"], table, atol=1e-5)
    assert np.allclose(shown["dots"], table @ table[t], atol=1e-4)


@pytest.mark.parametrize(
    ("n", "window", "layers", "padding", "causal"),
    [
        (9, 2, 2, 0, False),
        (9, 1, 2, 3, False),
        (5, 2, 1, 1, False),
        (15, 1, 7, 0, False),
        (7, 6, 8, 2, True),
        (3, 0, 4, 0, False),
    ],
)
def test_the_mask_explorer_agrees_with_the_masks_and_with_an_encoder(explore, n, window, layers, padding, causal):
    shown = explore("mask", n=n, window=window, layers=layers, padding=padding, causal=causal)
    size, centre = n + padding, n // 2
    keys = padding_mask(torch.tensor([n]), size)[0, 0]
    mask = combine_masks(window_mask(size, window), causal_mask(size) if causal else None, keys)
    assert shown["allowed"] == mask.tolist()
    hops = torch.linalg.matrix_power((mask | torch.eye(size, dtype=torch.bool)).double(), layers)
    assert shown["reached"] == (hops[centre] > 0).tolist()
    assert shown["decides"] == (not causal and reach(layers, window) >= centre)
    torch.manual_seed(0)
    model = PalindromeClassifier(pairs=centre, vocab=4, n_layers=layers).double()
    tokens, _ = make_palindromes(8, centre, 4)
    assert shown["decides"] == sees(model, tokens, mask[:n, :n])


def test_the_mlm_explorer_hides_as_the_paper_says(explore):
    for rate in (15, 40):
        share = explore("mlm", rate=rate)["share"]
        assert abs(share["chosen"] - rate / 100) < 0.01
        assert (
            abs(share["masked"] - 0.8) < 0.02
            and abs(share["replaced"] - 0.1) < 0.02
            and abs(share["kept"] - 0.1) < 0.02
        )
    for seed in range(1, 9):
        for token in explore("mlm", rate=50, seed=seed)["tokens"]:
            special = token["token"].startswith("[")
            assert not special or token["fate"] == "untouched"
            assert (token["shown"] == "[MASK]") == (token["fate"] == "masked")
            assert token["fate"] not in ("kept", "untouched") or token["shown"] == token["token"]


CONFIGS = {
    "bert-base": (Bert, BertConfig.base()),
    "bert-large": (Bert, BertConfig.large()),
    "roberta-base": (Roberta, RobertaConfig()),
    "albert-base": (Albert, AlbertConfig()),
    "deberta-base": (Deberta, DebertaConfig()),
    "deberta-v3-base": (Deberta, DebertaConfig.v3_base()),
}


@pytest.mark.parametrize("model", CONFIGS)
def test_the_parameter_explorer_counts_as_the_package_does(explore, model):
    kind, config = CONFIGS[model]
    with torch.device("meta"):
        encoder = kind(config)
        whole = BertForPretraining(config) if kind is Bert else MaskedLM(encoder)
        odd = kind(type(config)(**{**vars(config), "d_model": 128, "n_heads": 2, "n_layers": 3, "d_ff": 640}))
    assert explore("parameter", model=model)["total"] == parameter_count(encoder)
    assert explore("parameter", heads=True)["total"] == parameter_count(whole)
    assert explore("parameter", heads=False, d=128, layers=3, ff=640)["total"] == parameter_count(odd)


def stored(name):
    text = (ROOT / f"book/_static/explorers/{name}-explorer.data.js").read_text(encoding="utf-8")
    return json.loads(text.partition("=")[2].rstrip(";\n"))


@pytest.fixture
def measure(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book"))
    import explorer_data

    yield explorer_data
    del sys.modules["explorer_data"]


def test_the_heads_shown_are_those_of_the_packaged_model(measure, explore):
    now, then = measure.heads(), stored("heads")
    for fresh, old in zip(now, then, strict=True):
        assert fresh["tokens"] == old["tokens"] and fresh["text"] == old["text"]
        assert np.abs(np.array(fresh["weights"]) - np.array(old["weights"])).max() <= 1  # thousandths
    shown = explore("heads", sentence="2", layer=5, head=7, token=3)
    assert np.allclose(np.array(shown["weights"]) * 1000, then[1]["weights"][4][6])
    assert shown["chosen"] == 2
    assert np.allclose(np.sum(shown["weights"], -1), 1, atol=0.02)


def test_the_gradients_shown_are_chapter_05s_and_say_what_the_text_says(measure, explore):
    shown = stored("gradient")
    assert shown == measure.gradients(), "run `python book/explorer_data.py` after experiments/05_layer.py"
    for depth in shown["depths"]:
        pre, post = shown["pre"][str(depth)], shown["post"][str(depth)]
        assert explore("gradient", depth=depth) == {"pre": pre, "post": post}
        assert len(pre) == len(post) == depth
        assert pre[0] > 1.5 * pre[-1], "pre-LN falls towards the output"
        assert 0.5 < post[0] / post[-1] < 2, "post-LN stays about level"


def test_every_explorer_answers_to_the_keyboard_alone(page):
    for tag in TAGS:
        explorer = page.locator(f"{tag}-explorer")
        slider = explorer.locator("input[type=range]").first
        slider.fill(slider.get_attribute("min"))
        before = explorer.locator(".said").inner_text(), explorer.locator(".drawing").inner_html()
        slider.focus()
        page.keyboard.press("ArrowRight")
        assert (explorer.locator(".said").inner_text(), explorer.locator(".drawing").inner_html()) != before, tag


def test_a_slider_answers_to_the_pointer(page):
    slider = page.locator("mask-explorer [name=layers]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    assert page.evaluate("document.querySelector('mask-explorer').values.layers") == 8


WRONG = [
    'score-explorer dk="63"',
    'score-explorer dk="wide"',
    'mask-explorer n="8"',
    'mask-explorer n=""',
    'mask-explorer width="9"',
    'mask-explorer causal="perhaps"',
    'heads-explorer layer="7"',
    'mlm-explorer rate="12.5"',
    'parameter-explorer model="gpt"',
]


@pytest.mark.parametrize("tag", WRONG)
def test_an_explorer_with_a_wrong_attribute_stays_text(add, tag):
    explorer = add(f"<{tag}>In words.</{tag.partition(' ')[0]}>")
    assert explorer.inner_text() == "In words."
    assert explorer.get_attribute("data-problem")


def test_attributes_say_where_an_explorer_starts(add):
    explorer = add('<mask-explorer n="5" window="1" layers="3" padding="2" causal>In words.</mask-explorer>')
    assert explorer.evaluate("e => e.values") == {"n": 5, "window": 1, "layers": 3, "padding": 2, "causal": True}
    assert "In words." not in explorer.inner_text()
