"""What every engine does: it keeps who is interested in what, and finds them by topic."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class Engine(Protocol[T]):
    """Asks and who holds them.

    An ask is a text that the engine understands, checked before; a holder is anything that can
    be a key. For example, ``add("a/+", 7)`` lets ``matches("a/b")`` return ``[7]``.
    """

    def add(self, ask: str, holder: T) -> None:
        """Let ``holder`` have an ask; having it twice is having it once."""

    def remove(self, ask: str, holder: T) -> None:
        """Take an ask from ``holder``, if it has it."""

    def matches(self, topic: str) -> list[T]:
        """Return the holders that are interested in ``topic``, each once."""
