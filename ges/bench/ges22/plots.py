"""The plots of the experiment, as in the paper's figures 15 to 26. matplotlib is an extra."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ges.bench.ges22.files import Row
from ges.bench.ges22.topology import MEASURED, Topology
from overlay.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours of Okabe and Ito, and a marker each, as some people and printers see no colours.
LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#000000", "X"))

Key = Callable[[Row], Any]


def require() -> None:
    """Check that matplotlib is there.

    Raises:
        MissingExtra: it is not.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "plots need the plot extra; in a checkout: pip install '.[plot]'; or give --no-plots"
        ) from None


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write the plots for which there are figures, as SVG; returns their paths."""
    by_hops = [row for row in rows if row.topology == Topology.TWO]
    drawn = []
    for topology in Topology:
        own = [r for r in rows if r.topology == topology and r.broker == MEASURED]
        if own:
            path = folder / f"latency-{topology}.svg"
            drawn.append(_latency(own, f"topology {topology}, broker {MEASURED}", path))
            drawn.append(_throughput(own, folder / f"throughput-{topology}.svg"))
    if by_hops:
        drawn.append(_hops(by_hops, folder / "hops.svg"))
    return drawn


def _latency(rows: Sequence[Row], title: str, path: Path) -> Path:
    """Mean latency over the rate: a panel for each match rate, a line for each size."""
    return _panels(
        rows,
        title,
        path,
        panel=lambda row: f"match rate {row.match} %",
        line=lambda row: f"{row.size} bytes",
        value=lambda row: row.mean_ms,
        label="mean latency, ms",
    )


def _throughput(rows: Sequence[Row], path: Path) -> Path:
    return _panels(
        [row for row in rows if row.match == 100] or rows,
        "events received a second",
        path,
        panel=lambda row: f"match rate {row.match} %",
        line=lambda row: f"{row.size} bytes",
        value=lambda row: row.received_per_s,
        label="events/s",
    )


def _hops(rows: Sequence[Row], path: Path) -> Path:
    return _panels(
        rows,
        "topology 2, by brokers passed",
        path,
        panel=lambda row: f"{row.size} bytes, match rate {row.match} %",
        line=lambda row: f"{row.hops_stated} hops (broker {row.broker})",
        value=lambda row: row.mean_ms,
        label="mean latency, ms",
    )


def _panels(
    rows: Sequence[Row],
    title: str,
    path: Path,
    *,
    panel: Key,
    line: Key,
    value: Key,
    label: str,
) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(map(panel, rows)))
    across = min(4, len(names))
    down = -(-len(names) // across)
    figure: Figure = Figure(figsize=(1 + 3.2 * across, 0.8 + 2.8 * down), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
    for name, axes in zip(names, all_axes, strict=False):
        _lines([row for row in rows if panel(row) == name], axes, line, value)
        axes.set_title(name, fontsize="medium")
        axes.set_xlabel("events published a second")
        axes.set_ylabel(label)
    for axes in all_axes[len(names) :]:
        axes.set_visible(False)
    all_axes[0].legend(frameon=False, fontsize="small")
    figure.suptitle(title)
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _lines(rows: Iterable[Row], axes: Axes, line: Key, value: Key) -> None:
    ordered = sorted(rows, key=lambda row: (line(row), row.published_per_s))
    for number, (name, each) in enumerate(groupby(ordered, key=line)):
        colour, marker = LOOKS[number % len(LOOKS)]
        points = [(r.published_per_s, value(r)) for r in each if value(r) is not None]
        x, y = [point[0] for point in points], [point[1] for point in points]
        axes.plot(x, y, color=colour, marker=marker, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(visible=True, color="#dddddd")
