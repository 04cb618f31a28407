"""What the ring is asked for, and what it tells the layer above, the trace and the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.ids import Nanos, Peer
from overlay.machine import Command, Fact
from ring.geometry import FIRST_ID
from ring.wire.messages import Member

# ── commands ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Found(Command):
    """Be the first broker of a new ring.

    With links to other founders, the rings of all become one: the simulator starts large rings so.
    """

    ring_id: int = FIRST_ID


@dataclass(frozen=True, slots=True)
class Join(Command):
    """Join the ring that the brokers at these URLs belong to.

    Where none of them is on a ring, one of them founds one (:mod:`ring.joining.founding`): that may
    be this broker, if its own URL is among the seeds, or if another that starts has it in its list.
    ``bootstrap``: so many of them, this one included, must be there before it founds.
    """

    seeds: tuple[str, ...]
    bootstrap: int = 1
    patient: bool = False  #: a seed that can never let us in is passed over: nobody has named it


@dataclass(frozen=True, slots=True)
class Reseed(Command):
    """From now on the ring is looked for at these URLs, instead of those that :class:`Join` named.

    A broker on a ring knocks at once at those that are new: brokers of another ring may be there,
    and the two rings become one then.
    """

    seeds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leave(Command):
    """Hand over what this broker owns, tell the neighbours and go.

    ``turn``: nanoseconds to stay a full member first; drawn if None, 0 for one that has waited
    :meth:`ring.node.RingNode.draw_turn` already. ``Left`` is the last fact, at most
    ``RingConfig.leave_ns`` later.
    """

    turn: Nanos | None = None


@dataclass(frozen=True, slots=True)
class Move(Command):
    """Leave this place, and join again at another one, which the guide finds.

    Nothing happens to a broker that is not on the ring, or alone on it.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class PutRecord(Command):
    """Own this record, or change it; copies go to ring neighbours.

    Where another broker is known to own it, the duty comes to this one. The keys are the ring's:
    two brokers must not use one key for two things. ``key``: 1 to 64 characters; ``body``: at most
    48 KiB. Beyond that, where this broker has too many, and while it has no place on the ring the
    record is not put: :class:`RecordRefused`.
    """

    key: str
    body: bytes


@dataclass(frozen=True, slots=True)
class KeepLinks(Command):
    """Keep links to these open while they are up, and to none that was named so before."""

    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class DropRecord(Command):
    """The record is of no more use, here and in all copies."""

    key: str


@dataclass(frozen=True, slots=True)
class ReportLoad(Command):
    """How loaded the layer above is."""

    permille: int  #: thousandths of what it can bear; beyond 0 and a million the nearest of them


@dataclass(frozen=True, slots=True)
class Locate(Command):
    """Find the broker nearest to ``target``, or the broker ``uid`` there; told by ``Located``."""

    target: int  #: a ring id, modulo the size of the ring
    uid: str | None = None


# ── facts ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Joined(Fact):
    """This broker is on the ring."""

    member: Member
    contact: str | None  #: uid of the broker that passed the request on
    round_trip_ns: int | None  #: measured to the contact


@dataclass(frozen=True, slots=True)
class JoinDelayed(Fact):
    """A join does not get on; it goes on trying."""

    reason: str
    retry_ns: int


@dataclass(frozen=True, slots=True)
class JoinWaits(Fact):
    """This broker is on no ring yet; told every few seconds."""

    answers: tuple[tuple[str, str], ...]  #: URL of each seed, and what it has answered
    why: str = ""  #: what a member has said that is to be waited for; empty: nothing


@dataclass(frozen=True, slots=True)
class JoinRejected(Fact):
    """The ring will not take this broker; trying again would not help."""

    reason: str


@dataclass(frozen=True, slots=True)
class NeighboursChanged(Fact):
    """The four pointers, as they are now; fewer in rings of fewer than five."""

    left: tuple[Member, ...]  #: left, left-left
    right: tuple[Member, ...]  #: right, right-right


@dataclass(frozen=True, slots=True)
class Suspected(Fact):
    """A ring neighbour went silent, its socket closed, or it failed a test made for another."""

    subject: Member
    reason: str


@dataclass(frozen=True, slots=True)
class Refuted(Fact):
    """A suspected neighbour showed by itself that it lives."""

    subject: Member


@dataclass(frozen=True, slots=True)
class LinkFailed(Fact):
    """A witness reaches ``subject``, which this broker does not: the link failed, not the broker.

    ``subject`` is a neighbour, a chord, or one that this broker tried to link to.
    """

    subject: Member
    witness: str


@dataclass(frozen=True, slots=True)
class Confirmed(Fact):
    """A ring neighbour is dead; ``witnesses`` agreed (none: nobody was left to ask)."""

    subject: Member
    witnesses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repaired(Fact):
    """This broker's four pointers are whole again after ``subject`` died."""

    subject: Member


@dataclass(frozen=True, slots=True)
class ChordLost(Fact):
    """This broker held a chord to ``subject``, which is dead or gone."""

    subject: str


@dataclass(frozen=True, slots=True)
class ChordRepaired(Fact):
    """The chords that led to ``subject`` lead elsewhere now."""

    subject: str


@dataclass(frozen=True, slots=True)
class Departed(Fact):
    """A neighbour left of its own will, or came back in a later life."""

    member: Member


@dataclass(frozen=True, slots=True)
class Rejoining(Fact):
    """This broker begins anew as a newcomer: the same uid in a later life; ``reason`` says why."""

    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Alone(Fact):
    """Nobody is left; this broker goes on serving as a ring of one and knocks at lost peers."""


@dataclass(frozen=True, slots=True)
class Left(Fact):
    """This broker has left the ring."""


@dataclass(frozen=True, slots=True)
class Located(Fact):
    """The end of a search that :class:`Locate` asked for."""

    target: int
    uid: str | None
    reached: bool  #: that very broker, or without a uid: nobody can be nearer
    member: Member | None  #: who was found; None if no answer came
    path: tuple[str, ...]  #: uids from this broker to the one found, both included
    hops: int  #: messages it took to get there, detours included


@dataclass(frozen=True, slots=True)
class Detoured(Fact):
    """Messages between this broker and ``uid`` go along ``path`` now."""

    uid: str
    path: tuple[str, ...]  #: uids, from this broker to that one


@dataclass(frozen=True, slots=True)
class DetourEnded(Fact):
    """The way round to ``uid`` is no longer used."""

    uid: str
    restored: bool  #: the link itself is back


@dataclass(frozen=True, slots=True)
class Undecided(Fact):
    """A chord cannot be linked and a query did not reach it: link or broker, nobody knows yet."""

    subject: Peer


@dataclass(frozen=True, slots=True)
class Reincarnated(Fact):
    """Another ring, or a broker that was cut off, held this broker for dead.

    It keeps its place, in a later life.
    """

    member: Member
    holder: str  #: uid of the broker that said so


@dataclass(frozen=True, slots=True)
class DutyTaken(Fact):
    """This broker owns a record now that was another's."""

    key: str
    body: bytes
    previous: str  #: uid of the owner before
    epoch: int


@dataclass(frozen=True, slots=True)
class DutyLost(Fact):
    """A record this broker owned is another's now: handed over, or taken over meanwhile."""

    key: str
    body: bytes  #: as it was here
    owner: str  #: uid of the owner now
    epoch: int


@dataclass(frozen=True, slots=True)
class RecordRefused(Fact):
    """A record could not be put, and why; nothing was changed."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProvisionerNeeded(Fact):
    """This broker has more than it can bear, and nobody has room: a new broker is needed.

    That is load, or records of a dead broker beyond the number and the size it may own.
    """

    load: int  #: in thousandths of what it can bear
    excess: int  #: what should go elsewhere, in the same measure
