"""The plots of the experiment, as in the paper's figures 15 to 26. matplotlib is an extra."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ges.bench.ges22.files import Row
from ges.bench.ges22.topology import MEASURED, Topology
from overlay.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours of Okabe and Ito, and a marker each, as some people and printers see no colours.
LOOKS = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#56B4E9", "v"),
    ("#E69F00", "P"),
)
PAPER = "as the paper states it"

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
        line=lambda row: (row.size, f"{row.size} bytes"),
        value=lambda row: row.mean_ms,
        paper=lambda row: row.paper_mean_ms,
        label="mean latency, ms",
    )


def _throughput(rows: Sequence[Row], path: Path) -> Path:
    return _panels(
        [row for row in rows if row.match == 100] or rows,
        "events received a second",
        path,
        panel=lambda row: f"match rate {row.match} %",
        line=lambda row: (row.size, f"{row.size} bytes"),
        value=lambda row: row.received_per_s,
        paper=lambda row: row.paper_received_per_s,
        label="events/s",
    )


def _hops(rows: Sequence[Row], path: Path) -> Path:
    def panel(row: Row) -> str:
        return f"{row.size} bytes, match rate {row.match} %"

    rates: dict[str, set[float]] = {}
    for row in rows:
        rates.setdefault(panel(row), set()).add(row.rate)
    return _panels(
        [row for row in rows if len(rates[panel(row)]) > 1] or rows,
        "topology 2, by brokers passed",
        path,
        panel=panel,
        line=lambda row: (row.hops_stated, f"to {row.broker}, hops {row.hops_stated}"),
        value=lambda row: row.mean_ms,
        paper=lambda row: None,
        label="mean latency, ms",
        across=len({row.size for row in rows if len(rates[panel(row)]) > 1}) or 1,
    )


def _panels(
    rows: Sequence[Row],
    title: str,
    path: Path,
    *,
    panel: Key,
    line: Key,
    value: Key,
    paper: Key,
    label: str,
    across: int = 4,
) -> Path:
    """Draw values over the rate; ``line``: order and name of the line that a row is on."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(map(panel, rows)))
    across = min(across, len(names))
    down = -(-len(names) // across)
    figure: Figure = Figure(figsize=(3 + 3.2 * across, 0.8 + 2.8 * down), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
    looks = dict(zip(sorted(set(map(line, rows))), cycle(LOOKS), strict=False))
    shown: dict[str, Artist] = {}
    for name, axes in zip(names, all_axes, strict=False):
        inside = [row for row in rows if panel(row) == name]
        for key, look in looks.items():
            points = [(r.published_per_s, value(r)) for r in inside if line(r) == key]
            _line(axes, points, look, key[1], shown)
        stated = [(row.rate, paper(row)) for row in inside]
        _line(axes, stated, ("#000000", "x"), PAPER, shown, joined=False)
        _dress(axes, name, label)
    for axes in all_axes[len(names) :]:
        axes.set_visible(False)
    figure.legend(shown.values(), shown.keys(), loc="outside right upper", frameon=False)
    figure.suptitle(title)
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _line(
    axes: Axes,
    points: Iterable[tuple[float, float | None]],
    look: tuple[str, str],
    name: str,
    shown: dict[str, Artist],
    *,
    joined: bool = True,
) -> None:
    known = sorted((x, y) for x, y in points if y is not None)
    if known:
        colour, marker = look
        x, y = [point[0] for point in known], [point[1] for point in known]
        style = "-" if joined else ""
        (shown[name],) = axes.plot(x, y, color=colour, marker=marker, linestyle=style)


def _dress(axes: Axes, title: str, label: str) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set_title(title, fontsize="medium")
    axes.set_xlabel("events published a second")
    axes.set_ylabel(label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, color="#dddddd")
