"""Where a newcomer is to stand, as the layer above the ring says.

For example, a newcomer wishes ``("eu", "fra", "a")``. The ring does not know what that means: it
carries the wish in the request for a place, and each member that gets the request asks its *guide*.
That one says in which arc of the ring the place is to be, or in which arc somebody stands who
knows; or that there is no such place. Without a guide, every place is as good as another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from overlay.ids import Nanos, Peer
from ring.geometry import RING_SIZE
from ring.wire.messages import Wish


class Way(Enum):
    """What is to become of a request for a place."""

    ANYWHERE = auto()  #: the ring chooses
    INSIDE = auto()  #: the place is to be in the arc
    #: Who stands first in the arc is to be asked; where nobody stands in it, the newcomer gets the
    #: place where the arc begins.
    ASK = auto()
    LATER = auto()  #: nobody can say at the moment; the newcomer asks again
    NEVER = auto()  #: there is no such place, and there will be none
    OTHER = auto()  #: the member to the right is to take the newcomer


@dataclass(frozen=True, slots=True)
class Lead:
    """What a guide says."""

    way: Way
    lo: int = 0  #: of the arc
    hi: int = 0
    reason: str = ""  #: for LATER, NEVER and OTHER


ANYWHERE = Lead(Way.ANYWHERE)


@dataclass(frozen=True, slots=True)
class Aim:
    """Where a broker that was on the ring is to stand now: in an arc, or at the place ``lo``."""

    lo: int
    hi: int  #: of an arc that is one place: the next place

    @property
    def is_place(self) -> bool:
        """Whether it is one place alone."""
        return is_place(self.lo, self.hi)


def is_place(lo: int, hi: int) -> bool:
    """Say whether an arc is one place alone."""
    return hi == (lo + 1) % RING_SIZE


class Guide(Protocol):
    """What the layer above knows of places."""

    @property
    def wish(self) -> Wish:
        """What this broker itself wishes, as a newcomer."""

    def aim(self, now: Nanos) -> Aim | None:
        """Say where this broker itself is to stand, as a newcomer; None: where the wish leads."""

    def lead(self, newcomer: Peer, wish: Wish, now: Nanos) -> Lead:
        """Say where a newcomer is to stand."""

    def judge(
        self, newcomer: Peer, place: int, *, is_led: bool, is_aimed: bool = False
    ) -> Lead | None:
        """Say what is to become of a newcomer that would get a place beside this member.

        None: it gets it. ``is_led``: it is to stand in a certain arc; others may stand elsewhere.
        ``is_aimed``: it is to stand at just this place, as it was on the ring before.
        """


class NoGuide:
    """Every place is as good as another."""

    wish: Wish = ()

    def aim(self, now: Nanos) -> Aim | None:
        """Stand anywhere."""
        return None

    def lead(self, newcomer: Peer, wish: Wish, now: Nanos) -> Lead:
        """Let the ring choose."""
        return ANYWHERE

    def judge(
        self, newcomer: Peer, place: int, *, is_led: bool, is_aimed: bool = False
    ) -> Lead | None:
        """Let everybody in."""
        return None
