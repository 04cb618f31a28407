"""The report as a page: one outline, written as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from string import Template

from spark.analysis.analysis import Analysis
from spark.report import at_work, recovery_times
from spark.report.headline import Answer, answer
from spark.report.open_questions import footnotes, questions
from spark.report.outline import (
    Block,
    Command,
    Footnotes,
    Heading,
    Listed,
    Numbers,
    Paragraph,
    to_html,
    to_markdown,
)
from spark.report.tables import Table

TITLE = "Recovery after broker failures"


def headline(analysis: Analysis) -> str:
    """Return the answer in one line."""
    return answer(analysis).text


def page(blocks: Sequence[Block]) -> str:
    """Return an outline as one self-contained page."""
    text = resources.files("spark.report").joinpath("report.html").read_text(encoding="utf-8")
    return Template(text).substitute(body=to_html(blocks))


def markdown(blocks: Sequence[Block]) -> str:
    """Return the same outline in Markdown, without its drawings."""
    return to_markdown(TITLE, blocks)


def outline(analysis: Analysis, command: str) -> list[Block]:
    """Return the whole report; ``command`` is the line that made it."""
    said = answer(analysis)
    return [
        *_opening(analysis, said),
        *recovery_times.phases(analysis, said.group),
        *recovery_times.survival(analysis, said.group),
        *recovery_times.laws(analysis, said.group),
        *at_work.churn(analysis),
        *at_work.levels(analysis),
        *at_work.records(analysis),
        *at_work.delivery(analysis),
        *recovery_times.comparisons(analysis),
        *at_work.outliers(analysis),
        *_closing(analysis, command),
    ]


def _opening(analysis: Analysis, said: Answer) -> Iterator[Block]:
    yield Paragraph(said.text, "answer")
    if said.numbers:
        yield Numbers(said.numbers)
    if (lead := recovery_times.lead(analysis, said.group)) is not None:
        yield lead


def _closing(analysis: Analysis, command: str) -> Iterator[Block]:
    if asked := questions(analysis):
        yield Heading("What could not be answered, and which run would answer it")
        yield Listed(tuple(asked))
    yield Heading("The data, and the command")
    yield _facts(analysis)
    yield recovery_times.counts(analysis)
    yield Command(command)
    if notes := footnotes(analysis):
        yield Footnotes(tuple(notes))


def _facts(analysis: Analysis) -> Table:
    facts = analysis.facts
    strays = (
        [("incidents whose run is missing; not counted anywhere", facts.strays)]
        if facts.strays
        else []
    )
    return Table(
        caption="What was read",
        columns=("", "number"),
        rows=(
            ("runs in the simulator", facts.simulated),
            ("runs of live brokers", facts.live),
            ("distinct seeds", facts.seeds),
            ("incidents", facts.incidents),
            *([("simulated runs without an incident", facts.bare)] if facts.bare else []),
            *strays,
            *((f"left out: {path}", "on request") for path in analysis.skipped),
            ("written by chordal", ", ".join(facts.versions)),
        ),
    )
