"""Whose slots are taken: a share for each source, and some kept for those who prove who they are.

A *source* is what counts as one: who shows a certificate or a token counts for itself, and all
others count for their address. So whoever fills the slots of its address shuts out its neighbours
there, and nobody who has proven anything. Pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from overlay.ids import short
from overlay.links.doorkeeper import site_of


@dataclass(frozen=True, slots=True)
class Source:
    """Somebody to whom slots are counted."""

    name: str  #: for people: ``address 10.0.0.1``
    is_proven: bool = False


NOWHERE = Source("no address")  #: of who comes over no network; it has no share of its own


def source_of(host: str | None, certified_uid: str | None) -> Source:
    """Return to whom a connection counts, by its certificate or else by its address."""
    if certified_uid is not None:
        return Source(f"certificate {short(certified_uid)}", is_proven=True)
    return Source(f"address {site_of(host)}") if host is not None else NOWHERE


class Slots:
    """Slots of one kind, as they are taken."""

    __slots__ = ("_of_one", "_taken", "_total", "_unproven")

    def __init__(self, total: int, *, of_one: int, reserved: int) -> None:
        """Take how many there are, and how many of them are for whom.

        Args:
            total: how many there are.
            of_one: may be taken by one source, but never more than 3/4 of all; 0: all.
            reserved: are for proven sources alone, but never more than 1/8 of all.
        """
        self._taken: Counter[Source] = Counter()
        self.resize(total, of_one=of_one, reserved=reserved)

    def resize(self, total: int, *, of_one: int, reserved: int) -> None:
        """Let there be so many from now on; nobody who has one loses it."""
        self._total = total
        self._of_one = min(of_one, max(1, total * 3 // 4)) if of_one else total
        self._unproven = total - min(reserved, total // 8)

    def __len__(self) -> int:
        """Return how many are taken."""
        return self._taken.total()

    def of(self, source: Source) -> int:
        """Return how many ``source`` has taken."""
        return self._taken[source]

    def take(self, source: Source) -> None:
        """``source`` has one more."""
        self._taken[source] += 1

    def free(self, source: Source) -> None:
        """``source`` has one less."""
        self._taken[source] -= 1
        if not self._taken[source]:
            del self._taken[source]

    def crowd(self, source: Source) -> Source | None:
        """Return who keeps ``source`` from one more slot: itself, or who has most; None: nobody.

        Somebody proven never has to make room for somebody who is not.
        """
        if source is not NOWHERE and self._taken[source] >= self._of_one:
            return source
        if len(self) < (self._total if source.is_proven else self._unproven):
            return None
        unproven = [(many, one.name, one) for one, many in self._taken.items() if not one.is_proven]
        # Where proven ones have all, or there is no slot at all, nobody else can help it.
        return max(unproven)[2] if unproven else source
