"""The vocabulary of machines: what goes into a protocol machine, and what comes out.

A machine does no I/O, reads no clock and owns no randomness. A driver hands it an :class:`Input`
and ``now``; the machine changes its own state and returns the effects, which the driver performs
*in order*. There are drivers on trio (``overlay.driver``), in virtual time (``sims.world.world``
and ``sims.world.brokers``) and without any time (``sims.explore.world``). Messages between two
linked brokers arrive in the order they were sent, or the link goes down; that is all a machine may
assume.

Timers live inside the machine, in one :class:`TimerTable`; a driver only ever asks for the next
deadline. That way a timer can be cancelled, and one wake-up per broker is armed at any time.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec

from overlay.ids import LinkClass, Nanos, Peer


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all wire messages between brokers, and between clients and brokers.

    Fields may be appended in later versions, with defaults: who does not know them ignores them.
    """

    #: Sent only to brokers that have said in their greeting that they have this; None: to all.
    capability: ClassVar[str | None] = None
    #: Goes before all that waits, and is lost where too many like it do.
    is_quick: ClassVar[bool] = False


class LinkMessage(Message, frozen=True):
    """Base of messages about one link: they may travel on links of every class."""


class Refused(StrEnum):
    """Why a link could not be made."""

    UNREACHABLE = "unreachable"  #: nobody answers at that address
    TIMEOUT = "timeout"  #: somebody accepts, but the handshake does not finish in time
    NOT_CHORDAL = "not_chordal"  #: what answers does not speak this protocol
    OTHER_OVERLAY = "other_overlay"  #: the broker belongs to another overlay
    OTHER_VERSION = "other_version"  #: no protocol version in common
    OTHER_PEER = "other_peer"  #: another uid than expected answers there
    DUPLICATE = "duplicate"  #: the two brokers are linked already, or the other end's attempt wins
    DECLARED_DEAD = "declared_dead"  #: that life of it was declared dead
    UID_IN_USE = "uid_in_use"  #: another live process uses this uid
    SELF = "self"  #: the address is one's own
    NOT_AUTHENTICATED = "not_authenticated"  #: the certificate does not fit, or there is none
    BUSY = "busy"  #: too many connections
    LEAVING = "leaving"  #: it is on its way out
    DAMPED = "damped"  #: the link flaps, and there is a way round it for the time being


class Closed(StrEnum):
    """Why a link is gone."""

    LOST = "lost"  #: the socket closed or broke without a word
    UNWANTED = "unwanted"  #: the other end has no more use for it
    LEAVING = "leaving"  #: the other end leaves, or is joining anew
    DECLARED_DEAD = "declared_dead"  #: the other end holds us for dead
    REPLACED = "replaced"  #: a newer link to the same broker took its place
    PROTOCOL = "protocol"  #: the other end broke the protocol, or found that we did
    OVERFLOW = "overflow"  #: the other end does not take what is sent to it
    EXPIRED = "expired"  #: a certificate that the link stood on has ended
    REVOKED = "revoked"  #: the authority has revoked an end


# ── inputs ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A link to ``peer`` exists now. Replaces an earlier link to the same uid."""

    peer: Peer
    url: str  #: the address this end asked for; ``peer.url`` where the other end opened the link
    link_class: LinkClass = LinkClass.NORMAL


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The link to ``uid`` is gone; whatever was under way on it may be lost."""

    uid: str
    reason: Closed
    link_class: LinkClass = LinkClass.NORMAL


@dataclass(frozen=True, slots=True)
class LinkRefused:
    """An :class:`OpenLink` failed."""

    url: str
    uid: str | None  #: as expected by the :class:`OpenLink`
    reason: Refused
    detail: str = ""
    link_class: LinkClass = LinkClass.NORMAL


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """``uid`` sent ``message`` over its link of that class.

    Control messages travel on normal links; a :class:`LinkMessage` on the link it is about.
    """

    uid: str
    message: Message
    link_class: LinkClass = LinkClass.NORMAL


class Command:
    """Base of what the layer above asks of a machine."""

    __slots__ = ()


Input = LinkUp | LinkDown | LinkRefused | MessageReceived | Command


# ── effects ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``message`` over a link to ``uid``; dropped silently if the link has just gone.

    Only a :class:`LinkMessage` goes over a link that is not normal. ``about`` names the failure
    (uid of its subject) on whose account the message is sent, so that both drivers can count what a
    repair costs.
    """

    uid: str
    message: Message
    about: str | None = None
    link_class: LinkClass = LinkClass.NORMAL


@dataclass(frozen=True, slots=True)
class OpenLink:
    """Make a link; the answer is :class:`LinkUp` or :class:`LinkRefused`."""

    url: str
    uid: str | None = None  #: whom to expect there; None: whoever answers
    about: str | None = None
    link_class: LinkClass = LinkClass.NORMAL
    replace: bool = False  #: even if there is a link: the new one then takes its place


@dataclass(frozen=True, slots=True)
class CloseLink:
    """Close the link to ``uid`` after what was sent; this end sees no :class:`LinkDown`."""

    uid: str
    reason: Closed
    link_class: LinkClass = LinkClass.NORMAL


class Fact:
    """Base of what a machine tells the layer above and the trace."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell the layer above."""

    fact: Fact


Effect = Send | OpenLink | CloseLink | Notify


class Machine(Protocol):
    """A protocol machine, as the drivers see it."""

    @property
    def peer(self) -> Peer:
        """How others reach this broker; the incarnation may grow."""

    def admit(self, peer: Peer) -> Refused | None:
        """Say whether a link to ``peer`` may be made; None is yes."""

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """Take one input at time ``now`` and return what is to be done, in order."""

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Run what has come due by ``now``."""

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` wants to be called next."""


K = TypeVar("K", bound=Hashable)


class TimerTable(Generic[K]):
    """Deadlines by key, earliest first; equal deadlines expire in the order they were set."""

    __slots__ = ("_armed", "_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[Nanos, int, K]] = []
        self._armed: dict[K, tuple[Nanos, int]] = {}
        self._count = 0

    def set(self, key: K, at: Nanos, turn: int | None = None) -> None:
        """Arm ``key`` for ``at``, replacing its earlier deadline.

        ``turn``: as :meth:`turn` gave it, when the key was to be armed.
        """
        if turn is None:
            turn = self.turn()
        self._armed[key] = (at, turn)
        heapq.heappush(self._heap, (at, turn, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._armed):
            self._heap = [(at, count, key) for key, (at, count) in self._armed.items()]
            heapq.heapify(self._heap)

    def turn(self) -> int:
        """Return the turn, among equal deadlines, of what is armed now."""
        self._count += 1
        return self._count

    def take(self, key: K) -> tuple[Nanos, int] | None:
        """Disarm ``key``; return its deadline and its turn, or None if it was not armed."""
        return self._armed.pop(key, None)

    def cancel(self, key: K) -> None:
        """Disarm ``key``; no harm if it is not armed."""
        self._armed.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._armed

    def first(self) -> K | None:
        """Return what expires first; None if nothing is armed."""
        return self._heap[0][2] if self.next_deadline() is not None else None

    def deadline(self, key: K) -> Nanos | None:
        """Return when ``key`` expires; None if it is not armed."""
        armed = self._armed.get(key)
        return None if armed is None else armed[0]

    def keys(self) -> tuple[K, ...]:
        """Return what is armed."""
        return tuple(self._armed)

    def next_deadline(self) -> Nanos | None:
        """Return the earliest deadline, or None."""
        heap, armed = self._heap, self._armed
        while heap:
            at, count, key = heap[0]
            if armed.get(key) == (at, count):
                return at
            heapq.heappop(heap)
        return None

    def pop_expired(self, now: Nanos) -> K | None:
        """Disarm and return the earliest key due by ``now``, or None.

        One at a time, because handling a key may set and cancel others.
        """
        due = self.next_deadline()
        if due is not None and due <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._armed[key]
            return key
        return None

    def shift(self, by: Nanos) -> None:
        """Move every deadline ``by`` later: the process stood still for that long."""
        self._heap = [(at + by, count, key) for key, (at, count) in self._armed.items()]
        heapq.heapify(self._heap)
        self._armed = {key: (at, count) for at, count, key in self._heap}

    def clear(self) -> None:
        """Disarm everything."""
        self._heap.clear()
        self._armed.clear()
