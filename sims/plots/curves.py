"""Empirical distributions: which share of the incidents had got so far after how many seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from sims.plots.drawing import figure, look, style

MARKS = 8  #: on one curve, so that it is told from others without colours
FEW = 25  #: values, below which each is marked

#: Title of a panel -> name of a curve -> values in seconds.
Panels = Mapping[str, Mapping[str, Sequence[float]]]


def curves(title: str, panels: Panels) -> Figure:
    """Return a panel for each entry, side by side, with a curve for each of its own."""
    with style():
        drawn = figure(max(6.4, 3.4 * len(panels)), 3.6)
        drawn.suptitle(title, fontsize="medium")
        axes_of = drawn.subplots(1, max(len(panels), 1), sharey=True, squeeze=False)[0]
        for axes, (name, lines) in zip(axes_of, panels.items(), strict=False):
            axes.set_title(name)
            axes.set_xlabel("seconds")
            for index, (label, values) in enumerate(lines.items()):
                seen, ordered = look(index), sorted(values)
                shares = [(at + 1) / len(ordered) for at in range(len(ordered))]
                axes.step(
                    [0.0, *ordered],
                    [0.0, *shares],
                    where="post",
                    color=seen.colour,
                    linestyle=seen.dash,
                    marker=seen.marker,
                    markevery=1 if len(ordered) < FEW else max(1, len(ordered) // MARKS),
                    markersize=4,
                    label=f"{label} ({len(ordered)})",
                )
            axes.set_xlim(left=0)
            axes.set_ylim(0, 1.03)
            axes.legend(fontsize="small", loc="lower right")
        axes_of[0].set_ylabel("share of incidents")
        return drawn
