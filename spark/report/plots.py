"""The plots of a group, each an SVG drawing that can stand in an HTML page beside others."""

from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from spark.analysis.recovery import MESSAGES
from spark.analysis.results import Curve, Fit, Model, Quantiles

# It announces the building of its font cache on stderr.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

_COLOURS = {"p50": "#1b6ca8", "p95": "#e08e2b", "p99": "#b8405e", "mean": "#4f9d69"}
_MODEL_STYLES = {Model.LOG: ":", Model.SQRT: "-.", Model.LINEAR: "--"}
_MODELS: Mapping[Model, Callable[[float], float]] = {
    Model.LOG: math.log2,
    Model.SQRT: math.sqrt,
    Model.LINEAR: float,
}


def growth_plot(
    name: str, rows: Sequence[Quantiles], fits: Sequence[Fit], lines: Sequence[str]
) -> str:
    """Return one measure over n, a line for each of the columns ``lines``, with the fits of p50.

    Args:
        name: Sets the drawing's inner names apart from those of others on the page.
        rows: The measure's quantiles, by n; at least one.
        fits: Its fits; may be empty.
        lines: Of ``p50``, ``p95``, ``p99`` and ``mean``.
    """
    with _style():
        figure = _figure(7.2, 4.2)
        axes = figure.subplots()
        _lines_over_n(axes, rows, lines)
        sizes = [row.n for row in rows if row.n is not None]
        for fit in fits if len(sizes) > 1 else ():
            _fitted_line(axes, fit, min(sizes), max(sizes))
        _from_zero(axes)
        axes.set_ylabel("messages per incident" if rows[0].measure == MESSAGES else "seconds")
        axes.legend(ncols=2, fontsize="small")
        return _svg(figure, name)


def phases_plot(name: str, phases: Mapping[str, Sequence[Quantiles]]) -> str:
    """Return small multiples: a panel for each phase, its p50 and p95 over n, on one scale."""
    with _style():
        figure = _figure(9.6, 3.2)
        panels = figure.subplots(1, len(phases), sharey=True, squeeze=False)[0]
        for axes, (phase, rows) in zip(panels, phases.items(), strict=True):
            _lines_over_n(axes, rows, ("p50", "p95"))
            axes.set_title(phase)
        _from_zero(panels[0])  # they share one scale
        panels[0].set_ylabel("seconds")
        panels[0].legend(fontsize="small")
        return _svg(figure, name)


def distribution_plot(name: str, curves: Sequence[Curve]) -> str:
    """Return the empirical distribution of a measure: the share of incidents done by then."""
    with _style():
        figure = _figure(7.2, 4.2)
        axes = figure.subplots()
        shades = mpl.colormaps["viridis"]
        for index, row in enumerate(curves):
            shares = [at / (len(row.curve) - 1) for at in range(len(row.curve))]
            colour = shades(0.9 * index / max(len(curves) - 1, 1))
            axes.plot(row.curve, shares, color=colour, label=f"n = {row.n:,}")
        axes.set_xlabel("seconds")
        axes.set_ylabel("share of incidents")
        axes.set_xlim(left=min(0.0, *(row.curve[0] for row in curves)))
        axes.legend(fontsize="small")
        return _svg(figure, name)


def _style() -> AbstractContextManager[None]:
    return mpl.rc_context(
        {
            "axes.edgecolor": "#8a94a3",
            "axes.grid": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": "medium",
            "font.size": 10,
            "grid.color": "#e3e7ed",
            "legend.frameon": False,
            "svg.fonttype": "none",  # text stays text: small, sharp, searchable
            "svg.hashsalt": "chordal",  # the same data draw the same file
        }
    )


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _lines_over_n(axes: Axes, rows: Sequence[Quantiles], lines: Sequence[str]) -> None:
    sizes = [row.n for row in rows if row.n is not None]
    for line in lines:
        values = [getattr(row, line) for row in rows]
        axes.plot(sizes, values, "o-", color=_COLOURS[line], markersize=4, label=line)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes], rotation=30 if len(sizes) > 4 else 0)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("brokers in the ring, n")


def _from_zero(axes: Axes) -> None:
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def _fitted_line(axes: Axes, fit: Fit, smallest: int, largest: int) -> None:
    if fit.slope is None or fit.intercept is None:
        return
    x = _MODELS[fit.model]
    steps = [smallest * (largest / smallest) ** (step / 60) for step in range(61)]
    values = [fit.intercept + fit.slope * x(n) for n in steps]
    style = _MODEL_STYLES[fit.model]
    axes.plot(steps, values, style, color="#5c6673", linewidth=1, label=f"p50 ~ {fit.model}")


def _svg(figure: Figure, name: str) -> str:
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
