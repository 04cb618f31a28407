"""Empirical distributions: which share of the incidents had got so far after how many seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sims.plots.drawing import figure, look, style

COLUMNS = 3  #: of panels, at most
TICKS = 5  #: on a horizontal axis, at most
MARKS = 8  #: on one curve, so that it is told from others without colours
FEW = 25  #: values, below which each is marked

#: Title of a panel -> name of a curve -> values in seconds; what never got so far is infinite.
Panels = Mapping[str, Mapping[str, Sequence[float]]]


def curves(title: str, panels: Panels) -> Figure:
    """Return a panel for each entry, side by side, with a curve for each of its own."""
    with style():
        columns = min(len(panels), COLUMNS)
        rows = -(-len(panels) // columns)
        drawn = figure(max(6.4, 3.4 * columns), 0.4 + 3.2 * rows)
        drawn.suptitle(title, fontsize="medium")
        grid = drawn.subplots(rows, columns, sharey=True, squeeze=False)
        all_axes = [axes for line in grid for axes in line]
        for unused in all_axes[len(panels) :]:
            unused.remove()
        for axes, (name, lines) in zip(all_axes, panels.items(), strict=False):
            axes.set_title(name)
            axes.set_xlabel("seconds")
            for index, (label, values) in enumerate(lines.items()):
                seen, ordered = look(index), sorted(filter(math.isfinite, values))
                shares = [(at + 1) / len(values) for at in range(len(ordered))]
                axes.step(
                    [0.0, *ordered],
                    [0.0, *shares],
                    where="post",
                    color=seen.colour,
                    linestyle=seen.dash,
                    marker=seen.marker,
                    markevery=1 if len(ordered) < FEW else max(1, len(ordered) // MARKS),
                    markersize=4,
                    label=f"{label} ({_counted(len(ordered), len(values))})",
                )
            axes.set_xlim(left=0)
            axes.xaxis.set_major_locator(MaxNLocator(TICKS))
            axes.set_ylim(0, 1.03)
            axes.legend(fontsize="small", loc="lower right")
        for line in grid:
            line[0].set_ylabel("share of incidents")
        return drawn


def _counted(finished: int, of: int) -> str:
    return str(of) if finished == of else f"{finished} of {of}"
