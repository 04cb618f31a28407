"""README, the tutorial or a how-to, as what is to be run and what is to be seen.

Blocks are fenced. ``sh`` is run by a shell, one for the page. ``python NAME`` is saved as that
file. ``text`` is what the block before it prints, sooner or later; ``...`` in it stands for
anything. A comment above a block says what is other about it::

    <!-- not run: why -->       it cannot be run here
    <!-- fails: 1 -->           it ends with that exit code
    <!-- asks: why -->          it only asks, and is run again until it prints what follows
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*?) -->\n)?```(?P<info>[^\n]*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PORTS = re.compile(r"\b(94\d\d|95\d\d)\b")
_NOT_RUN = re.compile(r"not run: \S.{10,}")
_FAILS = re.compile(r"fails: (\d+)")
_ASKS = re.compile(r"asks: \S.{10,}")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    line: int
    kind: str  #: the language
    name: str  #: of the file that it is, if any
    body: str
    is_run: bool = True
    code: int = 0  #: the exit code it is to have
    asks: bool = False  #: it changes nothing, so it may be run again


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page.

    Raises:
        AssertionError: one has a mark that is none.
    """
    text = page.read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("info")) + 1
        kind, _, name = found["info"].partition(" ")
        where = f"{page.name}:{line}"
        assert kind in ("sh", "python", "text"), f"{where}: a block of {kind or 'no language'!r}"
        mark = found["mark"] or ""
        is_run = not mark.startswith("not run")
        fails = _FAILS.fullmatch(mark)
        asks = bool(_ASKS.fullmatch(mark))
        is_known = not mark or fails or asks or _NOT_RUN.fullmatch(mark)
        assert is_known, f"{where}: {mark!r} is no mark"
        yield Block(line, kind, name, found["body"], is_run, int(fails[1]) if fails else 0, asks)


def ports_in(page: Path) -> list[int]:
    """Return the ports that brokers of a page listen on."""
    return sorted({int(port) for port in _PORTS.findall("".join(b.body for b in blocks(page)))})


def moved(text: str, ports: dict[int, int]) -> str:
    """Return a text with other ports."""
    return _PORTS.sub(lambda found: str(ports.get(int(found[1]), found[1])), text)


def pattern(text: str) -> re.Pattern[str]:
    """Return what finds a text in an output: ``...`` is anything, and blanks are blanks."""
    parts = [
        r"\s+".join(re.escape(word) for word in part.split()) for part in text.strip().split("...")
    ]
    return re.compile(r"\s*.*?\s*".join(parts), re.DOTALL)
