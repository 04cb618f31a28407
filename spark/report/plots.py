"""The plots of the report, each an SVG drawing that can stand in an HTML page beside others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from sims.plots.drawing import DARK, Look, errors, figure, from_zero, look, sizes_axis, style, svg
from spark.analysis.judging import FUNCTIONS
from spark.analysis.recovery import NUMBERS
from spark.analysis.results import Churn, Comparison, Fit, Quantiles, Survival

_STEPS = 60
#: A fitted law stands out from the points that it runs through.
FITTED = Look(DARK, "", "--")


def lead_plot(name: str, lines: Mapping[str, Sequence[Quantiles]], fits: Sequence[Fit]) -> str:
    """Return recovery time over n: medians and, of the first group, the time of 99 in 100.

    Args:
        name: Sets the drawing's inner names apart from those of others on the page.
        lines: By what tells a group from the others, its quantiles by n; the first is drawn whole.
        fits: The laws that the verdict names, of the group that is the first of ``lines``.
    """
    with style():
        drawn = figure(8.4, 3.3)
        axes = drawn.subplots()
        sizes = [row.n for rows in lines.values() for row in rows if row.n is not None]
        for index, (label, rows) in enumerate(lines.items()):
            own = f" ({label})" if label else ""
            # A law that runs through the points takes the place of the line between them.
            joined = bool(index) or not fits
            seen = look(index + min(index, 1))  # the second look is for 99 of 100
            _with_intervals(axes, rows, "p50", seen, f"median{own}", joined=joined)
            if not index:
                _with_intervals(axes, rows, "p99", look(1), f"99 of 100{own}")
        for fit in fits:
            _band(axes, fit, FITTED, label=f"{fit.law} fitted to the median, 95 % band")
        sizes_axis(axes, sizes)
        from_zero(axes)
        axes.set_ylabel("seconds until the ring is whole")
        axes.legend(loc="upper left", fontsize="small", ncols=2)
        rows_of_legend = math.ceil((len(lines) + 1 + len(fits)) / 2)
        axes.set_ylim(top=axes.get_ylim()[1] * (1.1 + 0.09 * rows_of_legend))
        return svg(drawn, name)


def phases_plot(name: str, phases: Mapping[str, Sequence[Quantiles]]) -> str:
    """Return small multiples: a panel for each phase, its p50 and p99 over n, on one scale."""
    with style():
        drawn = figure(10, 3.1)
        panels = drawn.subplots(1, len(phases), sharey=True, squeeze=False)[0]
        for axes, (phase, rows) in zip(panels, phases.items(), strict=True):
            for index, quantile in enumerate(("p50", "p99")):
                _with_intervals(axes, rows, quantile, look(index), quantile)
            sizes_axis(axes, [row.n for row in rows if row.n is not None])
            axes.tick_params(axis="x", labelrotation=45)
            axes.set_xlabel("n")
            axes.set_title(phase)
        from_zero(panels[0])  # they share one scale
        panels[0].set_ylabel("seconds")
        panels[0].legend(fontsize="small")
        return svg(drawn, name)


def survival_plot(name: str, curves: Mapping[int, Sequence[Survival]]) -> str:
    """Return Kaplan-Meier curves by n, the share on a logarithmic scale."""
    with style():
        drawn = figure(8.4, 4.2)
        axes = drawn.subplots()
        lowest, latest = 1.0, 0.0
        for index, (n, steps) in enumerate(curves.items()):
            at, left = [0.0], [1.0]
            for step in steps:
                at.append(step.after_s)
                if step.survival < left[-1]:  # what follows the last repair is flat
                    latest = max(latest, step.after_s)
                left.append(step.survival)
            lowest = min([lowest, *(share for share in left if share > 0)])
            shown = [share if share > 0 else math.nan for share in left]
            seen = look(index)
            axes.fill_between(
                [step.after_s for step in steps],
                [step.low if step.low is not None else math.nan for step in steps],
                [step.high if step.high is not None else math.nan for step in steps],
                step="post",
                color=seen.colour,
                alpha=0.15,
                linewidth=0,
            )
            axes.step(
                *(at, shown),
                where="post",
                color=seen.colour,
                linestyle=seen.dash,
                label=f"n = {n:,}",
            )
        axes.set_yscale("log")
        axes.set_ylim(bottom=lowest / 1.5, top=1.2)
        axes.set_xlim(0, 1.15 * latest or 1.0)
        axes.set_xlabel("seconds after the failure")
        axes.set_ylabel("share not yet repaired")
        axes.legend(fontsize="small", loc="upper right")
        return svg(drawn, name)


def laws_plot(
    name: str, panels: Mapping[str, tuple[Sequence[Quantiles], Mapping[str, Sequence[Fit]]]]
) -> str:
    """Return a panel for each measure: p50 and p99, and the laws that their verdicts name.

    ``panels`` has the quantiles by n and, for ``p50`` and ``p99``, the fits of these laws.
    """
    with style():
        drawn = figure(10, 3.9)
        axes_of = drawn.subplots(1, len(panels), squeeze=False)[0]
        for axes, (measure, (rows, fits)) in zip(axes_of, panels.items(), strict=True):
            for index, quantile in enumerate(("p50", "p99")):
                for at, fit in enumerate(fits[quantile]):
                    _band(axes, fit, look(index), thin=at > 0)
                _with_intervals(axes, rows, quantile, look(index), quantile, joined=False)
            sizes_axis(axes, [row.n for row in rows if row.n is not None])
            from_zero(axes)
            axes.set_title(measure)
            axes.set_ylabel("number" if measure in NUMBERS else "seconds")
            axes.legend(fontsize="small")
        return svg(drawn, name)


def churn_plot(name: str, points: Mapping[str, Sequence[tuple[Churn, Quantiles]]]) -> str:
    """Return median recovery over the rate of failures, a line for each size."""
    with style():
        drawn = figure(8.4, 3.8)
        axes = drawn.subplots()
        for index, (label, pairs) in enumerate(points.items()):
            rates = [churn.failures_per_broker_hour for churn, _ in pairs]
            rows = [row for _, row in pairs]
            _with_intervals(axes, rows, "p50", look(index), label, at=rates)
        axes.set_xscale("log")
        from_zero(axes)
        axes.set_xlabel("failures per broker and hour")
        axes.set_ylabel("seconds until the ring is whole (p50)")
        axes.legend(fontsize="small")
        return svg(drawn, name)


def ratios_plot(name: str, rows: Sequence[Comparison], labels: Sequence[str]) -> str:
    """Return ratios with their intervals, one below the other; 1 is no difference."""
    with style():
        drawn = figure(8.4, 1.1 + 0.34 * len(rows))
        axes = drawn.subplots()
        places = list(range(len(rows)))[::-1]
        ratios = [row.ratio or 1.0 for row in rows]
        reach = errors(ratios, [r.ratio_low for r in rows], [r.ratio_high for r in rows])
        axes.errorbar(
            *(ratios, places),
            xerr=reach,
            fmt="o",
            color=look(0).colour,
            capsize=3,
        )
        axes.axvline(1, color=DARK, linewidth=1)
        axes.set_yticks(places, list(labels))
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.set_xlabel("ratio, with 95 % interval")
        return svg(drawn, name)


def _with_intervals(
    axes: Axes,
    rows: Sequence[Quantiles],
    quantile: str,
    seen: Look,
    label: str,
    *,
    at: Sequence[float] | None = None,
    joined: bool = True,
) -> None:
    places = at if at is not None else [row.n or 0 for row in rows]
    # What is not reached has no point, and the line is broken there.
    values = [math.nan if (v := getattr(row, quantile)) is None else v for row in rows]
    lows, highs = ([getattr(row, f"{quantile}_{end}") for row in rows] for end in ("low", "high"))
    axes.errorbar(
        places,
        values,
        yerr=errors(values, lows, highs),
        marker=seen.marker,
        linestyle=seen.dash if joined else "none",
        color=seen.colour,
        markersize=5,
        capsize=3,
        label=label,
    )


def _band(axes: Axes, fit: Fit, seen: Look, *, thin: bool = False, label: str = "") -> None:
    """Draw a law and the band in which it lies with 95 %."""
    x = FUNCTIONS[fit.law]
    if fit.n_min == fit.n_max:
        return
    steps = [fit.n_min * (fit.n_max / fit.n_min) ** (step / _STEPS) for step in range(_STEPS + 1)]
    values = [fit.intercept + fit.slope * x(n) for n in steps]
    axes.plot(
        *(steps, values),
        linestyle=":" if thin else "--",
        color=seen.colour,
        linewidth=1 if thin else 1.6,
        zorder=3,
        label=label or f"{fit.law} ({fit.quantile})",
    )
    parts = (fit.intercept_variance, fit.slope_variance, fit.covariance)
    if thin or None in parts:
        return
    a, b, ab = (part or 0.0 for part in parts)
    reach = [1.96 * math.sqrt(max(a + 2 * x(n) * ab + x(n) ** 2 * b, 0.0)) for n in steps]
    below = [value - width for value, width in zip(values, reach, strict=True)]
    above = [value + width for value, width in zip(values, reach, strict=True)]
    axes.fill_between(steps, below, above, color=seen.colour, alpha=0.3, linewidth=0, zorder=1)
