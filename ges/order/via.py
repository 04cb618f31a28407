"""Which way an event has come, as a digest of 32 bits.

Each broker has a *token* for each outgoing stream. An event starts with the token of its flow at
the source, and each broker on the way mixes in the token of the stream that it sends the event on.
So two events with one digest have come the same way, over the same streams, which keep order: what
is missing between their numbers was not for this broker.

A way that was left and taken again must not look the same. Example: destination D moves from stream
1 to stream 2 and back. Event 7 may still be under way on stream 2 while event 8 goes by stream 1.
So the token of a stream is renewed

* when a destination is moved onto it (:attr:`ges.gateways.next_hops.Moves.onto`), or a part of the
  ring, where events go by arcs (:meth:`ges.routing.arc_plan.ArcPlan.take_moved`),
* when another stream to the same broker was taken before (:mod:`ges.routing.forwarding`),
* when what was kept for the broker at its end goes another way,
* when one event leaves the way of the tables: that of the way left and that of the way taken
  (:attr:`ges.gateways.next_hops.Decision.strayed`),
* when events are given up, and nobody knows who misses them: then those of all streams.

An event that comes behind later ones, as it was kept for a broker that died or has waited for a
way, is flagged *again* and has a digest of its own at each hop (:meth:`Tokens.stray`). So the next
new event cannot look as if it came right behind it.

The token of a flow at its source is renewed when the publisher attaches, and when events of the
source begin or cease to name whom they are for: then they take other ways, and where they cease and
begin again within a second the way before and after is one.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from ges.wire.events import Flow

MAX_STREAMS = 8192  #: that have tokens: ways come and go
MAX_FLOWS = 65536  #: whose start is known; then the one longest unused goes
_BITS = 0xFFFFFFFF
_ODD = 0x9E3779B1


def mix(via: int, token: int) -> int:
    """Return the digest of a way that goes on over a stream; the order of streams matters."""
    mixed = ((via ^ token) * _ODD) & _BITS
    return mixed ^ mixed >> 15


S = TypeVar("S", bound=Hashable)


class Tokens(Generic[S]):
    """The tokens of one broker, by stream: one for each link that events go over."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._of: dict[S, int] = {}
        self._starts: OrderedDict[Flow, int] = OrderedDict()
        self.renewed = 0  #: tokens

    def onto(self, via: int, stream: S) -> int:
        """Return the digest of an event that is sent over a stream."""
        token = self._of.get(stream)
        if token is None:
            if len(self._of) >= MAX_STREAMS:
                self._of.clear()  # all are renewed: that costs a question at most
            token = self._of[stream] = self._rng.getrandbits(32)
        return mix(via, token)

    def renew(self, streams: Iterable[S]) -> None:
        """Order may be broken on these streams."""
        for stream in streams:
            self._of[stream] = self._rng.getrandbits(32)
            self.renewed += 1

    def renew_all(self) -> None:
        """Events may be lost, and nobody knows on which stream."""
        self.renew(list(self._of))

    def stray(self) -> int:
        """Return the digest of an event that takes a way of its own: no other one has it."""
        return self._rng.getrandbits(32)

    def start(self, flow: Flow) -> int:
        """Return the digest with which events of a flow set out here."""
        start = self._starts.get(flow)
        if start is None:
            return self.attach(flow)
        self._starts.move_to_end(flow)
        return start

    def restart(self) -> None:
        """Events of all flows set out on other ways from now on."""
        self._starts.clear()

    def attach(self, flow: Flow) -> int:
        """A publisher attaches: its events may have taken other ways meanwhile."""
        start = self._starts[flow] = self._rng.getrandbits(32)
        self._starts.move_to_end(flow)
        if len(self._starts) > MAX_FLOWS:
            self._starts.popitem(last=False)
        return start
