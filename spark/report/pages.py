"""The report as a page: one outline, written as HTML and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib import resources
from string import Template

from spark.analysis.recovery import MEASURES, MESSAGES, PHASES
from spark.analysis.results import Analysis, Group, Judgement, Quantiles
from spark.report.tables import Cell, Table

MEANINGS = {
    "detection": "from the failure to the first suspicion",
    "confirmation": "from the suspicion to the confirmed failure",
    "repair": "from the confirmation to the whole ring",
    "total": "the recovery time, from the failure to the whole ring",
    "chords": "from the failure to the last chord replaced",
    MESSAGES: "all that were sent on account of one incident",
}
HEADLINES = ("total", MESSAGES)  #: the measures that most readers come for

_CLOSING = (
    "Times are in seconds of the run's clock. Quantiles are exact. Fits are least squares of the "
    "median of each size, and hold for the sizes measured, not beyond them."
)


#: Where a number of incidents has no verdict: a fit needs the size n.
_UNFITTED = "incidents: {}, but the size of the ring is unknown: there is nothing to fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing and what it shows."""

    svg: str
    caption: str


def headline(analysis: Analysis) -> str:
    """Return the verdicts that matter most, in one line."""
    groups = analysis.groups
    if not analysis.verdicts:
        failed = sum(count.broker_failed for count in analysis.counts)
        if not failed:
            return "no broker failed in these runs: there is nothing to fit"
        return f"{_UNFITTED.format(failed)}; the tables have what was measured"
    first = analysis.verdicts[0].group
    verdicts = {verdict.measure: verdict for verdict in _verdicts(analysis, first)}
    time = next((verdicts[name] for name in ("total", "repair") if name in verdicts), None)
    said = [f"{v.measure}: {v.words}" for v in (time, verdicts.get(MESSAGES)) if v is not None]
    more = f" (and {len(groups) - 1} more in the report)" if len(groups) > 1 else ""
    return f"{first}: {'; '.join(said)}{more}"


def to_html(analysis: Analysis, figures: dict[Group, list[Figure]]) -> str:
    """Return the report as one self-contained page."""
    parts = ['<div class="verdicts">']
    for group in analysis.groups:
        parts.append(f"<h3>{escape(str(group))}</h3>\n<ul>")
        parts += [f"<li>{escape(line)}</li>" for line in _verdict_lines(analysis, group)]
        parts.append("</ul>")
    parts.append(f'</div>\n<p class="note">{escape(_CLOSING)}</p>')
    for group in analysis.groups:
        parts.append(f"<h2>{escape(str(group))}</h2>")
        parts += [
            f"<figure>{figure.svg}<figcaption>{escape(figure.caption)}</figcaption></figure>"
            for figure in figures.get(group, ())
        ]
        parts += [table.to_html() for table in _tables(analysis, group)]
    parts += ["<h2>The data set</h2>", _facts(analysis).to_html()]
    page = resources.files("spark.report").joinpath("report.html").read_text(encoding="utf-8")
    return Template(page).substitute(body="\n".join(parts))


def to_markdown(analysis: Analysis) -> str:
    """Return the report without its drawings."""
    parts = ["# Recovery after broker failures"]
    for group in analysis.groups:
        lines = "\n".join(f"- {line}" for line in _verdict_lines(analysis, group))
        parts.append(f"**{group}**\n\n{lines}")
    parts.append(_CLOSING)
    for group in analysis.groups:
        parts.append(f"## {group}")
        parts += [table.to_markdown() for table in _tables(analysis, group)]
    parts += ["## The data set", _facts(analysis).to_markdown()]
    return "\n\n".join(parts) + "\n"


def _verdicts(analysis: Analysis, group: Group) -> list[Judgement]:
    return [verdict for verdict in analysis.verdicts if verdict.group == group]


def _verdict_lines(analysis: Analysis, group: Group) -> Iterator[str]:
    words = {verdict.measure: verdict.words for verdict in _verdicts(analysis, group)}
    measured: Counter[str] = Counter()
    for row in analysis.quantiles:
        if row.group == group:
            measured[row.measure] += row.count
    for measure in sorted(MEASURES, key=lambda name: name not in HEADLINES):
        count = measured[measure]
        unfitted = _UNFITTED.format(count) if count else "nothing measured"
        yield f"{measure} ({MEANINGS[measure]}): {words.get(measure, unfitted)}"


def _tables(analysis: Analysis, group: Group) -> Iterator[Table]:
    rows = [row for row in analysis.quantiles if row.group == group]
    yield _quantile_table(
        "Phases of recovery, in seconds", [r for r in rows if r.measure in PHASES]
    )
    yield _quantile_table("Messages per incident", [r for r in rows if r.measure == MESSAGES])
    yield Table(
        caption="Growth of the median with n",
        columns=("measure", "model", "slope", "intercept", "R²", "sizes"),
        rows=tuple(
            (fit.measure, fit.model.value, fit.slope, fit.intercept, fit.r2, fit.sizes)
            for fit in analysis.fits
            if fit.group == group
        ),
    )
    yield Table(
        caption="Runs, and incidents by verdict",
        columns=("n", "runs", "seeds", "broker failed", "link failed", "refuted", "open"),
        rows=tuple(
            (_size(c.n), c.runs, c.seeds, c.broker_failed, c.link_failed, c.refuted, c.open)
            for c in analysis.counts
            if c.group == group
        ),
    )


def _quantile_table(caption: str, rows: list[Quantiles]) -> Table:
    return Table(
        caption=caption,
        columns=("measure", "n", "incidents", "open", "p50", "p95", "p99", "max", "mean"),
        rows=tuple(
            (r.measure, _size(r.n), r.count, r.open, r.p50, r.p95, r.p99, r.max, r.mean)
            for r in rows
        ),
    )


def _size(n: int | None) -> Cell:
    return "unknown" if n is None else n


def _facts(analysis: Analysis) -> Table:
    facts = analysis.facts
    return Table(
        caption="What was read",
        columns=("", "number"),
        rows=(
            ("runs in the simulator", facts.simulated),
            ("runs of live brokers", facts.live),
            ("distinct seeds", facts.seeds),
            ("incidents", facts.incidents),
            ("incidents whose run is missing; not counted anywhere", facts.strays),
            ("written by chordal", ", ".join(facts.versions)),
        ),
    )
