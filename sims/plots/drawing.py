"""What all plots share: their style, their colours, and how they become SVG.

The colours are those of Okabe and Ito, which people who confuse red and green tell apart. No plot
relies on them: each line has a marker and a dash of its own as well, for a black printer.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from overlay.errors import ConfigError
from sims.unfinished import publish, unfinished

# It announces the building of its font cache on stderr.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

DARK = "#333333"


@dataclass(frozen=True, slots=True)
class Look:
    """A colour, a marker and a dash that belong together."""

    colour: str
    marker: str
    dash: str


LOOKS = tuple(
    Look(*look)
    for look in (
        ("#0072B2", "o", "-"),
        ("#D55E00", "s", "--"),
        ("#009E73", "^", "-."),
        ("#CC79A7", "D", ":"),
        ("#56B4E9", "v", "-"),
        ("#E69F00", "P", "--"),
        ("#000000", "X", "-."),
    )
)


def look(index: int) -> Look:
    """Return the look of the line number ``index``; they repeat after seven."""
    return LOOKS[index % len(LOOKS)]


def style() -> AbstractContextManager[None]:
    """Return the settings under which all is drawn."""
    return mpl.rc_context(
        {
            "axes.edgecolor": "#767676",
            "axes.grid": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": "medium",
            "font.size": 10,
            "grid.color": "#dddddd",
            "legend.frameon": False,
            "svg.fonttype": "none",  # text stays text: small, sharp, searchable
            "svg.hashsalt": "chordal",  # the same data draw the same file
        }
    )


def figure(width: float, height: float) -> Figure:
    """Return an empty figure; its size is in inches."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawn)
    return drawn


def sizes_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """Make the horizontal axis one of ring sizes."""
    axes.set_xscale("log", base=2)
    shown = sorted(set(sizes))
    while len(shown) > 7:
        shown = shown[::2] if len(shown) % 2 else shown[1::2]
    axes.set_xticks(shown, [f"{n:,}" for n in shown])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("brokers in the ring, n")


def from_zero(axes: Axes) -> None:
    """Let the vertical axis begin at zero, or below where there is something."""
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def errors(
    values: Sequence[float], lows: Sequence[float | None], highs: Sequence[float | None]
) -> list[list[float]]:
    """Return how far intervals reach below and above values; 0 where there is none."""
    below = [v - low if low is not None else 0.0 for v, low in zip(values, lows, strict=True)]
    above = [high - v if high is not None else 0.0 for v, high in zip(values, highs, strict=True)]
    return [[max(part, 0.0) for part in side] for side in (below, above)]


def svg(drawn: Figure, name: str) -> str:
    """Return a figure as SVG whose inner names begin with ``name``: no two drawings clash."""
    text = io.StringIO()
    drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    found = text.getvalue()
    found = found[found.index("<svg") :]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", found)


def write(drawn: Figure, path: Path) -> None:
    """Write a figure into a file that ends in .svg or .png; whole, or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    made = unfinished(path)
    form = path.suffix[1:].lower()
    try:
        with style(), made.open("wb") as file:
            # The same data draw the same bytes: no date, and no version of the library.
            plain = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
            drawn.savefig(file, format=form, dpi=150, metadata=plain)
        publish(made, path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    finally:
        made.unlink(missing_ok=True)
