"""The figures' helper and the script that stores outputs: one look, the same bytes twice, mistakes said."""

import hashlib
import io
import sys

import matplotlib
import nbformat
import numpy as np
import pytest
from website import ROOT

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture
def plots(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book"))
    with plt.rc_context():
        import plots

        yield plots
        plt.close("all")
        del sys.modules["plots"]


def some_figures(plots):
    """One call to each function; returns nothing, draws one figure."""
    rng = np.random.default_rng(0)
    x = np.arange(1, 6)
    return {
        "lines": lambda: plots.lines(2**x, {"one": x, "runs": rng.random((3, 5))}, "x", "y", logx=True, level=1),
        "bars": lambda: plots.bars(["a", "b"], {"one": [1, 2], "two": [[1, 2], [2, 3]]}, "y", xlabel="x", values=".1f"),
        "histogram": lambda: plots.histogram({"one": rng.normal(size=99)}, "x"),
        "scatter": lambda: plots.scatter(x, x, "x", "y", groups=list("aabba"), names=list("vwxyz"), diagonal=True),
        "heatmap": lambda: plots.heatmap(
            rng.normal(size=(3, 4)), "x", "y", columns=list("abcd"), values=".1f", bar="z"
        ),
    }


def picture():
    buffer = io.BytesIO()
    plt.gcf().savefig(buffer, format="png")
    return hashlib.sha256(buffer.getvalue()).hexdigest()


@pytest.mark.parametrize("kind", ["lines", "bars", "histogram", "scatter", "heatmap"])
def test_every_figure_has_one_width_labelled_axes_and_the_same_bytes_twice(plots, kind):
    pictures = set()
    for _ in range(2):
        assert some_figures(plots)[kind]() is None, "a returned object would be printed under the cell"
        assert plt.gcf().get_figwidth() == plots.WIDTH
        assert plt.gcf().axes[0].get_xlabel() and plt.gcf().axes[0].get_ylabel()
        pictures.add(picture())
    assert len(pictures) == 1


def test_series_are_told_apart_without_colour(plots):
    plots.lines(range(50), {name: np.arange(50) for name in "abcdef"}, "x", "y")
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in plt.gca().lines}) == 6


def test_runs_are_drawn_as_mean_and_band_from_lowest_to_highest(plots):
    plots.lines([0, 1], [[0.0, 2.0], [2.0, 8.0]], "x", "y")
    assert plt.gca().lines[0].get_ydata().tolist() == [1.0, 5.0]
    corners = plt.gca().collections[0].get_paths()[0].vertices
    assert corners[:, 1].min() == 0.0 and corners[:, 1].max() == 8.0


def test_white_is_zero_in_every_heatmap(plots):
    for matrix in ([[0.0, 1.0]], [[-1.0, 0.0, 3.0]], [[False, True]], [[0, 0]]):
        plots.heatmap(matrix, "x", "y")
        image = plt.gca().images[0]
        assert np.allclose(image.cmap(image.norm(0.0))[:3], 1, atol=0.01), matrix


def test_series_of_the_wrong_length_are_named(plots):
    with pytest.raises(ValueError, match=r"'late' has 2 points, x has 3"):
        plots.lines([1, 2, 3], {"late": [1, 2]}, "x", "y")


@pytest.fixture
def store(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book"))
    import store_outputs

    yield store_outputs.store
    del sys.modules["store_outputs"]


def write_notebook(path, *cells):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
    nbformat.write(notebook, path)


def test_outputs_are_stored_the_same_twice_and_figures_keep_their_width(tmp_path, store):
    path = tmp_path / "chapter.ipynb"
    write_notebook(path, "6 * 7", "from plots import lines\nlines([0, 1], [0, 1], 'x', 'y')")
    store(path)
    first = path.read_bytes()
    store(path)
    assert path.read_bytes() == first
    answer, figure = nbformat.read(path, as_version=4).cells
    assert answer.outputs[0].data["text/plain"] == "42"
    assert "896x496" in figure.outputs[0].data["text/plain"] and "image/png" in figure.outputs[0].data
    assert b"execution_state" not in first and b"iopub" not in first and b'"version"' not in first


def test_a_warning_in_a_chapter_stops_the_storing_and_keeps_the_file(tmp_path, store):
    path = tmp_path / "chapter.ipynb"
    write_notebook(path, "import warnings; warnings.warn('old')")
    before = path.read_bytes()
    with pytest.raises(SystemExit, match="wrote to stderr"):
        store(path)
    assert path.read_bytes() == before
