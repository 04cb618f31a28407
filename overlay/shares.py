"""Whose it is, where there is only so much: a share for each source, and a reserve for the proven.

For example, a broker retains 16,384 values. The last eighth of them is for tokens and certificates
alone. One address may have a quarter of the rest, one token or certificate half of all. So a
stranger that takes all that it can get leaves room for others at other addresses, and for all that
prove who they are.

A *source* is what counts as one: who shows a certificate or a token counts for itself, and all
others count for their address. So a stranger that uses up the share of its address shuts out its
neighbours there, and no source that has proven anything. The sources share a number of something,
or bytes. Pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from overlay.address import site_of
from overlay.ids import short

# Where nothing else is set, of all that there is:
PARTS_RESERVED = 8  #: an eighth is for those alone who have proven who they are
PARTS_OF_ONE = 4  #: one source has a quarter of the rest at most ...
PARTS_OF_ONE_PROVEN = 2  #: ... or half of all, if it is proven

MEND = "attach with a certificate or a token, which counts for itself"


@dataclass(frozen=True, slots=True)
class Source:
    """Somebody to whom things are counted."""

    name: str  #: for people: ``address 10.0.0.1``
    is_proven: bool = False


NOWHERE = Source("no address")  #: of who comes over no network; it has no share of its own


def source_of(host: str | None, certified_uid: str | None) -> Source:
    """Return to whom a connection counts, by its certificate or else by its address."""
    if certified_uid is not None:
        return Source(f"certificate {short(certified_uid)}", is_proven=True)
    return Source(f"address {site_of(host)}") if host is not None else NOWHERE


class Shares:
    """Something of which there is only so much, and who has how much of it."""

    __slots__ = (
        "_beside",
        "_of_one",
        "_of_one_proven",
        "_taken",
        "_taken_in_all",
        "_total",
        "_unproven",
    )

    def __init__(
        self, total: int, *, of_one: int | None = None, reserved: int | None = None
    ) -> None:
        """Take how much there is, and how much of it is for whom.

        Args:
            total: how much there is.
            of_one: may be taken by one source, but never more than 3/4 of all; 0: all. None: a
                quarter of what is not reserved, or half of all by one that is proven.
            reserved: is for proven sources alone, but never more than 1/8 of all; None: 1/8.
        """
        self._taken: Counter[Source] = Counter()
        self._taken_in_all = 0
        self.resize(total, of_one=of_one, reserved=reserved)

    def resize(
        self, total: int, *, of_one: int | None = None, reserved: int | None = None, beside: int = 0
    ) -> None:
        """Let there be so much from now on; nobody loses what it has.

        ``beside``: of this, what is taken by others that are not counted here, as by the clients of
        other brokers. Sources share what these leave, so a source that comes to one broker after
        another gets less at each, and never all. Below 0: so much of what is counted here takes no
        room, as several sources have the same.
        """
        left = max(0, total - beside)
        shared = min(left, total)
        eighth = total // PARTS_RESERVED
        self._total, self._beside = left, beside
        self._unproven = max(0, left - (eighth if reserved is None else min(reserved, eighth)))
        if of_one is None:
            self._of_one = max(1, (shared - eighth) // PARTS_OF_ONE)
            self._of_one_proven = max(1, shared // PARTS_OF_ONE_PROVEN)
        else:
            self._of_one = min(of_one, max(1, left * 3 // 4)) if of_one else left
            self._of_one_proven = self._of_one

    def __len__(self) -> int:
        """Return how much is taken."""
        return self._taken_in_all

    def of(self, source: Source) -> int:
        """Return how much ``source`` has taken."""
        return self._taken[source]

    def of_one(self, source: Source) -> int:
        """Return how much ``source`` may take at most."""
        if source is NOWHERE:
            return self._total
        return self._of_one_proven if source.is_proven else self._of_one

    def take(self, source: Source, much: int = 1) -> None:
        """``source`` has so much more."""
        self._taken_in_all += much
        self._taken[source] += much
        if not self._taken[source]:
            del self._taken[source]

    def free(self, source: Source, much: int = 1) -> None:
        """``source`` has so much less."""
        self.take(source, -much)

    def crowd(self, source: Source, much: int = 1) -> Source | None:
        """Return who keeps ``source`` from so much more: itself, or who has most; None: nobody.

        Somebody proven never has to make room for somebody who is not.
        """
        if self._has_its_share(source, much):
            return source
        if self._taken_in_all + much <= (self._total if source.is_proven else self._unproven):
            return None
        unproven = [(many, one.name, one) for one, many in self._taken.items() if not one.is_proven]
        # Where proven ones have all, or there is nothing at all, nobody else can help it.
        return max(unproven)[2] if unproven else source

    def why_not(self, source: Source, much: int, what: str, *, is_new: bool = True) -> str | None:
        """Return why ``source`` cannot have so much more of ``what``, for people; or None.

        ``is_new``: nobody has had it before, so that more is taken in all.
        """
        if self._has_its_share(source, much):
            told = f"{source.name} may have {self.of_one(source)} {what}, and has {self.of(source)}"
            return told if source.is_proven else f"{told}; {MEND}"
        after, taken = self._taken_in_all + much, self._beside + self._taken_in_all
        told = f"{taken} of {self._beside + self._total} {what} are taken"
        if is_new and after > self._total:
            return told
        if is_new and after > self._unproven and not source.is_proven:
            return f"{told}, and the rest is not for strangers; {MEND}"
        return None

    def _has_its_share(self, source: Source, much: int) -> bool:
        return source is not NOWHERE and self._taken[source] + much > self.of_one(source)
