"""What becomes of what the driver brings: frames, facts, links that broke, brokers and clients.

The driver is one of the broker's parts, and what it brings is for several others. So this object is
made before the parts, and is handed all of them when they are there.
"""

from __future__ import annotations

from collections.abc import Iterator

import trio

from ges.broker.fact_log import tell, tell_incident
from ges.broker.parts import Parts
from ges.broker.status import describe
from ges.topology.revocation_lists import NoticeTaken, Outcome
from ges.wire.event_runs import event_runs
from ges.wire.status import Status
from overlay.errors import ProtocolError
from overlay.ids import LinkClass, Peer
from overlay.links.link import Link
from overlay.machine import Fact
from overlay.net.transport import Wire
from overlay.queues.resend import Item
from overlay.wire.codec import FrameReader, FrameRun
from overlay.wire.frames import DETOUR, EVENT
from overlay.wire.greetings import Hello, Refusal
from ring.facts import (
    Alone,
    DetourEnded,
    Joined,
    JoinRejected,
    Left,
    NeighboursChanged,
    Rejoining,
)


class BrokerUpper:
    """The layer above one broker's driver; an :class:`overlay.links.link.Upper`."""

    def __init__(self) -> None:
        self.left = trio.Event()  #: this broker is off the ring, as it wanted
        self.is_leaving = False
        self._parts: Parts

    def attach(self, parts: Parts) -> None:
        """Take the parts; nothing is brought before that."""
        self._parts = parts

    def status(self) -> Status:
        """Describe this broker as it is now."""
        return describe(self._parts)

    # ── links ─────────────────────────────────────────────────────────────────────────────────

    def on_frames(self, link: Link, run: FrameRun) -> Iterator[None]:
        """Relay events and what goes round a failed link; between two runs others have their turn.

        Raises:
            ProtocolError: a frame of another kind, one that makes no sense, or a secure event on
                a link that is not.
        """
        router = self._parts.router
        if run.kind == EVENT:
            for events in event_runs(run.data, run.bounds):
                if events.head.secure and link.link_class is not LinkClass.SECURE:
                    raise ProtocolError("a secure event on a link that is not")
                if not events.head.express and (known := link.arrived(events.count)):
                    self._parts.driver.counters["events_received_twice"] += known
                    if known == events.count:
                        continue
                    events = events.without(known)
                router.relay_run(link, events)
                yield
        elif run.kind == DETOUR:
            for body in run.bodies():
                router.pass_on(link, body)
                yield
        else:
            raise ProtocolError("a delivery from a broker")

    async def on_batch(self, link: Link) -> None:
        """What came over a normal link is a sign of life; then wait for crowded queues."""
        parts = self._parts
        if link.link_class is LinkClass.NORMAL:
            parts.node.ring.heard(link.peer.uid, parts.driver.now())
        if link.reader is not None and link.reader.has_begun:
            parts.link_limit.look()
        await parts.backpressure.relieve()

    def on_changes(self) -> None:
        """Links or places have changed: tell the router, and try parked events again."""
        parts = self._parts
        parts.parked.stir()
        ring = parts.node.ring
        parts.router.update(ring.member, ring.linked, ring.expected, is_whole=ring.is_whole)
        parts.router_timer.look()

    def on_cut(self, link: Link) -> None:
        """Keep what was under way on a link that broke."""
        self._parts.router.on_cut(link.peer.uid, link.link_class)

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """Find other ways for events that ``peer`` will not get."""
        self._parts.router.on_orphans(peer, link_class, items)

    # ── callers ───────────────────────────────────────────────────────────────────────────────

    def judge_broker(self, wire: Wire) -> Refusal | None:
        """Return why the rules let no broker at the other end link to this one, or None."""
        return self._parts.access_watch.judge_broker(wire)

    async def on_client(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        """Serve a client until it goes."""
        await self._parts.clients.serve(hello, wire, reader)

    # ── facts ─────────────────────────────────────────────────────────────────────────────────

    def on_fact(self, fact: Fact) -> None:
        """Write to the log and the trace what the machine says, and act upon it."""
        parts = self._parts
        if not (self.is_leaving and isinstance(fact, Alone)):  # it does not serve on
            tell(parts.log, fact)
        if isinstance(fact, NoticeTaken):
            self._on_notice(fact)
            return
        incident = parts.recorder.on_fact(fact, parts.driver.now(), parts.driver.sent_about)
        if incident is not None:
            tell_incident(parts.log, incident)
        if isinstance(fact, Joined):
            parts.on_ring.joined()
        elif isinstance(fact, JoinRejected):
            parts.on_ring.rejected(fact.reason)
        elif isinstance(fact, Rejoining):
            parts.on_ring.rejoining()
        elif isinstance(fact, Left):
            self.left.set()
        elif isinstance(fact, NeighboursChanged):
            parts.clients.tell_alternates()
        elif isinstance(fact, DetourEnded) and not fact.restored:
            parts.router.on_cut(fact.uid, LinkClass.NORMAL)

    def _on_notice(self, fact: NoticeTaken) -> None:
        parts = self._parts
        parts.driver.counters[f"revocation_lists_{fact.outcome.value}"] += 1
        parts.parked.stir()
        if fact.outcome is Outcome.NEWS and parts.secured is not None:
            parts.secured.revocation_watch.enforce(parts.secured.peers)
            parts.clients.tell_revocations()
