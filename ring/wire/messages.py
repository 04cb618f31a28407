"""Wire messages of the ring protocol. Names in brackets are the paper's (004, section 3)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from overlay.ids import Peer, WireCount, WireUid
from overlay.machine import Closed, Message

MAX_HOPS = 255  #: that a message can count
MAX_NEIGHBOURS = 16  #: named to a newcomer, or to one that is back
MAX_HOLDERS = 128  #: in a broker's list of those it is linked to
MAX_PEERS = 64  #: named to one who looks for the ring
MAX_WITNESSES = 16  #: of one death
MAX_WISH = 3  #: texts in what a newcomer wishes ...
MAX_WISH_TEXT = 32  #: ... and characters of each
MAX_REASON = 1000  #: characters of why a newcomer gets no place

RingId = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Level = Annotated[int, msgspec.Meta(ge=0, lt=32)]
Rank = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Hops = Annotated[int, msgspec.Meta(ge=0, le=MAX_HOPS)]


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A broker with its place on the ring."""

    peer: Peer
    ring_id: RingId

    @property
    def uid(self) -> str:
        """The broker's uid, 32 hexadecimal digits."""
        return self.peer.uid

    @property
    def incarnation(self) -> int:
        """Which life of the broker this is: the larger, the later."""
        return self.peer.incarnation


Pair = Annotated[tuple[Member, ...], msgspec.Meta(max_length=2)]
Neighbours = Annotated[tuple[Member, ...], msgspec.Meta(max_length=MAX_NEIGHBOURS)]
Holders = Annotated[tuple[Peer, ...], msgspec.Meta(max_length=MAX_HOLDERS)]
Names = Annotated[tuple[WireUid, ...], msgspec.Meta(max_length=MAX_HOLDERS)]
Witnesses = Annotated[tuple[WireUid, ...], msgspec.Meta(max_length=MAX_WITNESSES)]
WishText = Annotated[str, msgspec.Meta(max_length=MAX_WISH_TEXT)]
#: Where a newcomer wants to stand, as the layer above the ring says it (:mod:`ring.joining.guide`).
Wish = Annotated[tuple[WishText, ...], msgspec.Meta(max_length=MAX_WISH)]
Reason = Annotated[str, msgspec.Meta(max_length=MAX_REASON)]


class Purpose(StrEnum):
    """What one end wants a link for."""

    NONE = "none"
    CHORD = "chord"
    RING = "ring"


class Intent(Message, frozen=True):
    """What the sender wants this link for from now on. Repeating it changes nothing."""

    purpose: Purpose


class View(Message, frozen=True):
    """The sender's place and its own two neighbours on each side, nearest first.

    ``version`` grows with each change in one incarnation; an older view is ignored.
    """

    version: WireCount
    member: Member
    left: Pair
    right: Pair

    @property
    def ageless(self) -> View:
        """The same view with version 0, older than any."""
        return self if self.version == 0 else msgspec.structs.replace(self, version=0)


class Place(Message, frozen=True):
    """Where the sender stands, as told on a new link; its view follows if it is a ring link."""

    member: Member


class ViewRequest(Message, frozen=True):
    """Send me your view: a heartbeat showed that I hold an older one."""


class Backup(Message, frozen=True):
    """Whom the sender is linked to, kept by its left and right neighbour for the day it fails.

    The whole list, or what has changed since version ``base``.
    """

    version: WireCount
    linked: Holders  #: all, or those that are new
    gone: Names = ()  #: uids not linked any more
    base: WireCount = 0  #: 0: this is the whole list


class BackupRequest(Message, frozen=True):
    """Send me the whole list: I have dropped the one that your differences are for."""


class Heartbeat(Message, frozen=True):
    """Sign of life on a ring link, with the version of the sender's view."""

    version: WireCount


class Ping(Message, frozen=True):
    """Answer at once: to measure a round-trip time, or to show that you live."""

    token: WireCount


class Pong(Message, frozen=True):
    """The answer to a :class:`Ping`, with its token, and what is new in the sender's list."""

    token: WireCount
    links: Backup | None = None


class Stance(StrEnum):
    """What a broker that is on no ring does about that."""

    SEEKS = "seeks"  #: it looks for a ring, and founds none
    FOUNDS = "founds"  #: it looks for a ring, and founds one where those of its list have none
    JOINS = "joins"  #: it is on its way to a ring, or back to one


class PeersRequest(Message, frozen=True):
    """Which members do you know? The sender is on no ring."""

    named: bool = False  #: you stand in the list that the sender was started with
    stance: Stance = Stance.SEEKS


class Peers(Message, frozen=True):
    """Some members the sender knows, itself included if it is one."""

    members: Annotated[tuple[Member, ...], msgspec.Meta(max_length=MAX_PEERS)]
    stance: Stance = Stance.SEEKS  #: of a sender that is no member


class JoinRequest(Message, frozen=True):
    """Find a place for ``newcomer`` [send-join-request].

    ``hops`` counts how often the request was passed on; ``insert`` says that the receiver was
    chosen as owner of the gap and is to insert.
    """

    newcomer: Peer
    hops: Hops
    insert: bool
    wish: Wish = ()
    lo: RingId = 0  #: its place is to be in the arc from here ...
    hi: RingId = 0  #: ... to here, this one left out; equal: anywhere, or nobody has said yet
    asks: bool = False  #: no place has been chosen yet: who stands first in that arc is to be asked


class JoinAccept(Message, frozen=True):
    """The newcomer's id, from the owner of the gap, with the owner's neighbours.

    ``reserved`` are ids promised to others in what becomes the newcomer's own gap.
    """

    ring_id: RingId
    owner: Member
    neighbours: Neighbours
    reserved: Neighbours = ()


class JoinRefuse(Message, frozen=True):
    """No place was found.

    ``full``: the id space is full as far as the search went, and stays so, or ``reason`` says why
    there will be no place; if not, the contact is no member, or all that is free is promised to
    others, or ``reason`` says what is to be waited for.
    """

    full: bool
    reason: Reason = ""


class TestNeighbour(Message, frozen=True):
    """Test whether ``subject`` lives, and tell me [test-neighbour]."""

    subject: Member


class Tested(Message, frozen=True):
    """What the test showed [alive(B), failed(B)]."""

    subject: Member
    alive: bool


class Failed(Message, frozen=True):
    """``subject`` failed: route to ``heir`` what was meant for it [divide-neighbour].

    Ignored by those who know. A subject that lives goes on in a later life; if a neighbour of its
    own says so, or if it has none, it has lost its place and joins anew.
    """

    subject: Member
    witnesses: Witnesses
    heir: Member | None


class Leaving(Message, frozen=True):
    """The sender leaves the ring of its own will."""

    member: Member


class ChordQuery(Message, frozen=True):
    """Who is your chord of this level?

    Tell me again if it comes to be or ends, if its broker dies, and if right-right is another.
    """

    level: Level


class ChordAnswer(Message, frozen=True):
    """The sender's chord of this level; None if it has none."""

    level: Level
    member: Member | None
    rank: Rank = 0  #: how many brokers to the right of the sender it stands; 0: about 2^(level+1)


class Meet(Message, frozen=True):
    """Find the place of ``subject``, perhaps of another ring, and meet it [mlookup, trymerge].

    ``entry`` is the first broker of your ring that was asked; ``hops`` counts how often the
    question was passed on.
    """

    subject: Member
    entry: WireUid
    hops: Hops


class HeldDead(Message, frozen=True):
    """I hold this life of yours, and all before, for dead: show me that you live in a later one."""

    incarnation: WireCount
    witnessed: bool  #: by others, so that it is not I alone who holds you for dead


class Towards(StrEnum):
    """How a route measures the distance of a broker from its target."""

    NEAREST = "nearest"  #: by the shorter way round
    RIGHT = "right"  #: the first broker at the target or to the right of it
    LEFT = "left"  #: the first broker at the target or to the left of it


#: Moves of one message towards a place, going back included; a whole ring takes about log2(n).
MAX_ROUTE_HOPS = 64

Trail = Annotated[tuple[WireUid, ...], msgspec.Meta(max_length=MAX_ROUTE_HOPS + 1)]


class Route(Message, frozen=True):
    """Find the broker ``uid`` at ``target``, or without a uid the nearest one to it.

    The way it came is on it, so that brokers on the way keep nothing: ``trail`` are the brokers on
    the path, origin first, and ``tried`` those that were dead ends.
    """

    origin: Member
    token: WireCount  #: the origin's number of this search
    target: RingId
    towards: Towards
    uid: WireUid | None
    trail: Trail
    tried: Trail
    best: Member  #: nearest to the target so far
    hops: Hops


class RouteHeard(Message, frozen=True):
    """The sender has got that :class:`Route` and will see to it."""

    origin: WireUid
    token: WireCount
    hops: Hops  #: as they stood on it


class Routed(Message, frozen=True):
    """The answer to a :class:`Route`, on its way back along the trail.

    ``reached`` says that ``member`` is the very broker asked for, or, where none was named, that
    nobody can be nearer; else ``member`` is the best that was found.
    """

    token: WireCount
    reached: bool
    member: Member
    trail: Trail
    hops: Hops


MAX_PATH = 16  #: brokers on the way round a failed link, both ends included
MAX_RELAYED_BYTES = 60 * 1024  #: fits into a control frame together with the longest path

Path = Annotated[tuple[WireUid, ...], msgspec.Meta(min_length=2, max_length=MAX_PATH)]


class Relay(Message, frozen=True):
    """Pass ``body`` on along ``path``: the link between its two ends has failed.

    ``at`` is the receiver's index in the path and grows with each hop, so no relay goes round in
    circles; who is not linked to the next one says so with :class:`DetourBroken`.
    """

    path: Path
    at: Annotated[int, msgspec.Meta(ge=1, lt=MAX_PATH)]
    sender: Peer  #: at the start of the path
    body: Annotated[bytes, msgspec.Meta(max_length=MAX_RELAYED_BYTES)]


# What stands in the body of a relay, beside the messages above.


class DetourOpen(Message, frozen=True):
    """Let us talk along this path: our link has been down for ``down_ns``, or cannot be made."""

    ring_id: RingId | None  #: of the sender, if it has one
    down_ns: WireCount


class DetourOpened(Message, frozen=True):
    """Agreed; the receiver of this asked for it."""

    ring_id: RingId | None


class DetourClosed(Message, frozen=True):
    """The sender does not talk along this path, or no longer."""

    reason: Closed


class DetourBroken(Message, frozen=True):
    """The sender, on the path to ``uid``, cannot pass anything on to it."""

    uid: WireUid
