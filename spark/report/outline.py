"""A report as a list of blocks, written as HTML and as Markdown: both say the same.

A block is a heading, a paragraph, a list, three numbers, a table or a figure. Texts from the data
stay text: they cannot become markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from spark.report.tables import Table


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; ``kind`` sets the opening and the small print apart."""

    text: str
    kind: str = ""  #: ``answer``, ``note`` or nothing


@dataclass(frozen=True, slots=True)
class Listed:
    """Sentences, one below the other."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A number to remember, and what it is."""

    value: str
    what: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """A few numbers, side by side."""

    items: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing and what it shows. Markdown has what it shows only."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command line."""

    text: str


@dataclass(frozen=True, slots=True)
class Footnotes:
    """What was not measured, in small print."""

    items: tuple[str, ...]


Block = Heading | Paragraph | Listed | Numbers | Figure | Table | Command | Footnotes


def to_html(blocks: Iterable[Block]) -> str:
    """Return the body of a page."""
    return "\n".join(_html(block) for block in blocks)


def to_markdown(title: str, blocks: Iterable[Block]) -> str:
    """Return the same in Markdown."""
    return "\n\n".join([f"# {title}", *(_markdown(block) for block in blocks)]) + "\n"


def _html(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Paragraph(text, kind):
            return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"
        case Listed(items):
            return _html_list("ul", "", items)
        case Footnotes(items):
            return _html_list("ol", ' class="note"', items)
        case Numbers(items):
            cells = (
                f'<div class="key"><strong>{escape(item.value)}</strong>'
                f"<span>{escape(item.what)}</span></div>"
                for item in items
            )
            return f'<div class="keys">{"".join(cells)}</div>'
        case Figure(svg, caption):
            return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
        case Command(text):
            return f"<pre>{escape(text)}</pre>"
        case Table():
            return block.to_html()


def _html_list(tag: str, kind: str, items: Sequence[str]) -> str:
    lines = "\n".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<{tag}{kind}>\n{lines}\n</{tag}>"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {_plain(text)}"
        case Paragraph(text, _):
            return _plain(text)
        case Listed(items):
            return "\n".join(f"- {_plain(item)}" for item in items)
        case Footnotes(items):
            return "\n".join(f"{at}. {_plain(item)}" for at, item in enumerate(items, start=1))
        case Numbers(items):
            return "\n".join(f"- **{_plain(item.value)}**: {_plain(item.what)}" for item in items)
        case Figure(_, caption):
            return f"*(Figure in the page: {_plain(caption)})*"
        case Command(text):
            return f"```\n{text}\n```"
        case Table():
            return block.to_markdown()


def _plain(text: str) -> str:
    """Return text in which nothing is markup to Markdown."""
    return re.sub(r"([<>*_`\\])", r"\\\1", text).replace("\n", " ")
