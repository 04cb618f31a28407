"""What a drill and a broker that has agreed to drills say to each other (``serve --drills``).

A drill breaks a live ring on purpose, and reads from the brokers when each of them noticed what.
Only to a broker that has said :data:`overlay.wire.versions.DRILL`; :mod:`ges.access.operators` says
who may. All times are nanoseconds since the start of the broker that tells them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from overlay.ids import WireCount, WireText, WireUid
from overlay.machine import Message

SEEN_PER_MESSAGE = 64  #: with witnesses and pointers that is a third of a control message
MAX_ABOUT = 16
MAX_BREAK_MS = 600_000  #: no broker stands still, and no link is cut, for longer

BreakMs = Annotated[int, msgspec.Meta(ge=0, le=MAX_BREAK_MS)]
Uids = Annotated[tuple[WireUid, ...], msgspec.Meta(max_length=MAX_ABOUT)]


class Die(Message, frozen=True):
    """End at once, as by SIGKILL, when the answer is on its way."""


class StandStill(Message, frozen=True):
    """Do nothing for so long, as by SIGSTOP, when the answer is on its way."""

    for_ms: BreakMs


class CutOff(Message, frozen=True):
    """End all links to that broker, and make and take none for so long; 0: from now on do."""

    uid: WireUid
    for_ms: BreakMs


class SeenRequest(Message, frozen=True):
    """What have you seen since the number ``after``, and what have you sent about these uids?"""

    after: WireCount
    about: Uids = ()


class Sight(StrEnum):
    """What a broker says of the ring (:mod:`ring.facts`), or does for a drill."""

    SUSPECTED = "suspected"
    REFUTED = "refuted"
    CONFIRMED = "confirmed"
    LINK_FAILED = "link_failed"
    REPAIRED = "repaired"
    CHORD_LOST = "chord_lost"
    CHORD_REPAIRED = "chord_repaired"
    POINTERS = "pointers"
    REJOINING = "rejoining"
    STILL = "still"  #: it stands still from now on
    AWAKE = "awake"  #: and no more
    CUT = "cut"  #: its links to that broker end now


class Seen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One thing that one broker saw."""

    number: WireCount  #: from 1, in the order of time
    at_ns: WireCount
    what: Sight
    uid: str = ""  #: of the broker that it is about
    incarnation: WireCount = 0  #: of that broker; 0: not told
    witnesses: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  #: uids of the pointers, left and left-left ...
    right: tuple[str, ...] = ()  #: ... right and right-right


class Drilled(Message, frozen=True):
    """The answer to all of them, where the broker does it."""

    now_ns: WireCount  #: as it answers
    incarnation: WireCount
    profile: WireText  #: timing of its ring
    last: WireCount = 0  #: number of the last thing that it has seen
    seen: Annotated[tuple[Seen, ...], msgspec.Meta(max_length=SEEN_PER_MESSAGE)] = ()
    sent: Annotated[tuple[WireCount, ...], msgspec.Meta(max_length=MAX_ABOUT)] = ()


Question = Die | StandStill | CutOff | SeenRequest

DRILL_MESSAGES = (Die, StandStill, CutOff, SeenRequest)
