"""Tables for people: the same rows as HTML and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A caption, column names, and rows as wide as these."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def to_html(self) -> str:
        """Return the table as HTML; what is in the data cannot become markup."""
        head = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
        body = "\n".join(
            "<tr>" + "".join(_html_cell(cell) for cell in row) + "</tr>" for row in self.rows
        )
        return (
            f'<div class="table"><table>\n<caption>{escape(self.caption)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
        )

    def to_markdown(self) -> str:
        """Return the table as Markdown, under its caption in bold."""
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        drawn = ("| " + " | ".join(_markdown_cell(cell) for cell in row) + " |" for row in lines)
        return f"**{self.caption}**\n\n" + "\n".join(drawn)


def shown(cell: Cell) -> str:
    """Return ``cell`` as people read it: three significant digits, a dash for nothing."""
    match cell:
        case None:
            return "–"
        case float() if abs(cell) >= 1000:
            return f"{cell:,.0f}"
        case float():
            return f"{cell:.3g}"
        case int():
            return f"{cell:,}"
        case text:
            return text


def interval(low: float | None, high: float | None) -> str:
    """Return an interval as people read it; without an upper end: that is not reached."""
    if low is None:
        return "–"
    return f"{shown(low)} or more" if high is None else f"{shown(low)} to {shown(high)}"


def size(n: int | None) -> Cell:
    """Return a size, which nobody may have counted."""
    return "unknown" if n is None else n


def share(value: float | None) -> str:
    """Return a share in per cent: with more digits, the nearer to all or nothing."""
    if value is None:
        return "–"
    off = min(abs(value), abs(1 - value))
    return f"{value:.1%}" if off >= 0.01 or off == 0 else f"{value:.3%}"


def _html_cell(cell: Cell) -> str:
    kind = "" if isinstance(cell, str) else ' class="number"'
    return f"<td{kind}>{escape(shown(cell))}</td>"


def _markdown_cell(cell: Cell) -> str:
    return shown(cell).replace("|", "\\|").replace("\n", " ")
