"""Every figure of the book is one call to one of these functions; each draws, labels its axes and returns nothing.

Chapters run inside book/, so `from plots import lines, heatmap` works. Several drawings side by side:
`left, right = panels(2)`, then pass `ax=left` and `ax=right`.

Figures are white with dark ink; the site turns them over in the dark (`_static/course.css`). Series differ by dash,
marker or hatch as well as by colour. Plot text is English only: matplotlib's own font, the same on every machine, has
no Chinese glyphs.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

Limits = tuple[float | None, float | None]

COLOURS = ["#0b62a8", "#c8500a", "#00805e", "#a0408f", "#7a6a00", "#444c56"]
DASHES = ["-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 2))]
MARKERS = ["o", "s", "^", "D", "v", "P"]
THIN = {"color": "#444c56", "linewidth": 0.8, "linestyle": (0, (2, 2))}  # what is compared with
HATCHES = ["", "//", "..", "xx", "\\\\", "++"]
FROM_ZERO = LinearSegmentedColormap.from_list("from_zero", ["#ffffff", "#9cc4e4", "#0b62a8", "#0a4478"])
AROUND_ZERO = LinearSegmentedColormap.from_list("around_zero", ["#8f3500", "#e8a983", "#ffffff", "#8fbce0", "#06426f"])

WIDTH, HEIGHT = 5.6, 3.1  # inches; one width for all figures, so that their letters have one size on the page
plt.rcParams.update(
    {
        "figure.figsize": (WIDTH, HEIGHT),
        "figure.dpi": 160,
        "figure.constrained_layout.use": True,
        "font.size": 9.5,
        "axes.titlesize": 9.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#dde2e7",
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.6,
        "lines.markersize": 4,
        "legend.frameon": False,
    }
)


def keep_full_width() -> None:
    """Stop notebooks from cropping figures: a cropped figure is enlarged on the page, letters and all."""
    try:
        from IPython import get_ipython
    except ImportError:
        return
    if get_ipython() is not None:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("png", bbox_inches=None)


keep_full_width()


def panels(n: int, height: float = HEIGHT, share_y: bool = False) -> list[Axes]:
    """n empty drawings side by side in one figure, to be passed as `ax=`."""
    return list(plt.subplots(1, n, figsize=(WIDTH, height), sharey=share_y, squeeze=False)[1][0])


def lines(
    x: ArrayLike,
    series: Mapping[str, ArrayLike] | ArrayLike,
    xlabel: str,
    ylabel: str,
    *,
    title: str = "",
    logx: bool = False,
    logy: bool = False,
    ylim: Limits | None = None,
    level: float | None = None,
    ax: Axes | None = None,
) -> None:
    """Curves over x: `lines(depth, {"pre-LN": a, "post-LN": b}, "layer", "gradient norm", logy=True)`.

    A series is (points,) or (runs, points): runs are drawn as their mean inside a band from lowest to highest.
    level: a thin horizontal line to compare with (chance, the value that theory gives).
    """
    ax = ax or panels(1)[0]
    x = np.asarray(x)
    for i, (label, y) in enumerate(_named(series).items()):
        y = np.atleast_2d(np.asarray(y, dtype=float))
        if y.shape[-1] != len(x):
            raise ValueError(f"series {label!r} has {y.shape[-1]} points, x has {len(x)}")
        style = {"color": _pick(COLOURS, i), "linestyle": _pick(DASHES, i)}
        ax.plot(x, y.mean(0), label=label, marker=_pick(MARKERS, i) if len(x) <= 20 else None, **style)
        if len(y) > 1:
            ax.fill_between(x, y.min(0), y.max(0), color=style["color"], alpha=0.15, linewidth=0)
    _mark_level(ax, level)
    if logx:
        ax.set_xscale("log", base=2 if _all_powers_of_two(x) else 10)
        if len(x) <= 12:
            ax.set_xticks(x, [f"{value:g}" for value in x])
            ax.minorticks_off()
    if logy:
        ax.set_yscale("log")
    _finish(ax, xlabel, ylabel, title, ylim)
    if logy and ax.get_ylim()[1] < 100 * ax.get_ylim()[0]:  # too short for powers of ten: 1, 2, 5, 10 …
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())


def bars(
    labels: Sequence[str],
    series: Mapping[str, ArrayLike] | ArrayLike,
    ylabel: str,
    *,
    xlabel: str = "",
    title: str = "",
    logy: bool = False,
    ylim: Limits | None = None,
    level: float | None = None,
    values: str = "",
    ax: Axes | None = None,
) -> None:
    """Bars, grouped when there are several series: `bars(["BERT", "ALBERT"], [109.5, 11.7], "million parameters")`.

    A series is (labels,) or (runs, labels): runs get a whisker from lowest to highest.
    values: a format such as ".2f" writes each value on its bar.
    """
    ax = ax or panels(1)[0]
    series = _named(series)
    width = 0.8 / len(series)
    for i, (label, y) in enumerate(series.items()):
        y = np.atleast_2d(np.asarray(y, dtype=float))
        mean = y.mean(0)
        at = np.arange(len(labels)) + (i - (len(series) - 1) / 2) * width
        whisker = np.stack([mean - y.min(0), y.max(0) - mean]) if len(y) > 1 else None
        drawn = ax.bar(
            at,
            mean,
            width * 0.92,
            yerr=whisker,
            label=label,
            color=_pick(COLOURS, i),
            edgecolor="white",
            hatch=_pick(HATCHES, i),
            error_kw={"elinewidth": 1, "capsize": 2},
        )
        if values:
            ax.bar_label(drawn, fmt=f"{{:{values}}}", padding=2, fontsize=8.5)
    _mark_level(ax, level)
    ax.set_xticks(np.arange(len(labels)), labels)
    ax.grid(axis="x", visible=False)
    if logy:
        ax.set_yscale("log")
    _finish(ax, xlabel, ylabel, title, ylim)


def histogram(
    series: Mapping[str, ArrayLike] | ArrayLike,
    xlabel: str,
    *,
    bins: int = 40,
    title: str = "",
    ax: Axes | None = None,
) -> None:
    """How values are distributed, as densities on shared bins."""
    ax = ax or panels(1)[0]
    series = {label: np.ravel(y) for label, y in _named(series).items()}
    edges = np.histogram_bin_edges(np.concatenate(list(series.values())), bins)
    for i, (label, y) in enumerate(series.items()):
        colour = _pick(COLOURS, i)
        ax.hist(y, edges, density=True, histtype="stepfilled", color=colour, alpha=0.2)
        ax.hist(y, edges, density=True, histtype="step", color=colour, linestyle=_pick(DASHES, i), label=label)
    _finish(ax, xlabel, "density", title)


def scatter(
    x: ArrayLike,
    y: ArrayLike,
    xlabel: str,
    ylabel: str,
    *,
    groups: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    title: str = "",
    logx: bool = False,
    logy: bool = False,
    diagonal: bool = False,
    ax: Axes | None = None,
) -> None:
    """Points; `groups` gives each point's class (colour and marker), `names` writes a word beside each point.

    diagonal: the line y = x, to compare two measurements of one thing.
    """
    ax = ax or panels(1)[0]
    x, y = np.ravel(x), np.ravel(y)
    groups = np.asarray(groups) if groups is not None else np.full(len(x), "")
    for i, group in enumerate(dict.fromkeys(groups.tolist())):
        chosen = groups == group
        ax.scatter(x[chosen], y[chosen], s=18, color=_pick(COLOURS, i), marker=_pick(MARKERS, i), label=group)
    for name, px, py in zip(names or [], x, y, strict=False):
        ax.annotate(name, (px, py), xytext=(4, 3), textcoords="offset points", fontsize=8.5)
    if diagonal:
        ax.axline((x.min(), x.min()), slope=1, **THIN)
    if logx:
        ax.set_xscale("log")
    if logy:
        ax.set_yscale("log")
    _finish(ax, xlabel, ylabel, title)


def heatmap(
    matrix: ArrayLike,
    xlabel: str = "",
    ylabel: str = "",
    *,
    columns: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    title: str = "",
    values: str = "",
    bar: str = "",
    vmin: float | None = None,
    vmax: float | None = None,
    ax: Axes | None = None,
) -> None:
    """A matrix as colours, row 0 on top: `heatmap(weights, "key", "query", rows=words, columns=words, values=".2f")`.

    White is zero. Matrices with negative values get two hues around it. A boolean mask shows True blue. Captions
    say "blue", never "dark": a reader in the dark sees it light.
    values: a format such as ".1f" writes each number in its cell. bar: the label of a colour bar, none without it.
    """
    matrix = np.asarray(matrix, dtype=float)
    ax = ax or panels(1, height=min(5.0, max(2.0, WIDTH * 0.72 * matrix.shape[0] / matrix.shape[1])))[0]
    if vmin is None and vmax is None:
        top = float(np.nanmax(np.abs(matrix))) or 1.0
        vmin, vmax = (-top if np.nanmin(matrix) < 0 else 0.0), top
    around = vmin is not None and vmin < 0
    image = ax.imshow(matrix, cmap=AROUND_ZERO if around else FROM_ZERO, vmin=vmin, vmax=vmax, interpolation="nearest")
    if values:
        for (r, c), value in np.ndenumerate(matrix):
            red, green, blue, _ = image.cmap(image.norm(value))
            ink = "white" if 0.3 * red + 0.6 * green + 0.1 * blue < 0.55 else "#1b2026"
            ax.text(c, r, f"{value:{values}}", ha="center", va="center", color=ink, fontsize=8.5)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    if columns is not None:
        crowded = sum(len(name) for name in columns) > 44
        ax.set_xticks(range(len(columns)), columns, rotation=90 if crowded else 0)
    if rows is not None:
        ax.set_yticks(range(len(rows)), rows)
    ax.grid(visible=False)
    ax.tick_params(length=0)
    if bar:
        ax.figure.colorbar(image, ax=ax, label=bar, shrink=0.85)
    _finish(ax, xlabel, ylabel, title)


def _named(series: Mapping[str, ArrayLike] | ArrayLike) -> dict[str, ArrayLike]:
    return dict(series) if isinstance(series, Mapping) else {"": series}


def _pick(choices: list, i: int):
    return choices[i % len(choices)]


def _all_powers_of_two(x: np.ndarray) -> bool:
    return bool((x > 0).all() and np.allclose(np.log2(x), np.round(np.log2(x))))


def _mark_level(ax: Axes, level: float | None) -> None:
    if level is not None:
        ax.axhline(level, **THIN)


def _finish(ax: Axes, xlabel: str, ylabel: str, title: str, ylim: Limits | None = None) -> None:
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if title:
        ax.set_title(title)
    if ylim:
        ax.set_ylim(*ylim)
    if any(label and not label.startswith("_") for label in ax.get_legend_handles_labels()[1]):
        ax.legend()
