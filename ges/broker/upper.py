"""What becomes of what the driver brings: frames, facts, links that broke, brokers and clients.

The driver is one of the broker's parts, and what it brings is for several others. So this object is
made before the parts, and is handed all of them when they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import trio

from ges.broker.drills import NO_CONSENT
from ges.broker.fact_log import tell, tell_incident
from ges.broker.parts import Parts
from ges.broker.status import describe
from ges.telling.arcs import Arc
from ges.topology.revocation_lists import NoticeTaken, Outcome
from ges.units.room import JoinContext
from ges.wire.drill_messages import Question
from ges.wire.operator_messages import Operated, UnitJoin, UnitJoining, UnitJoinQuestion
from ges.wire.status import Status
from overlay.ids import LinkClass, Peer
from overlay.links.link import Link
from overlay.machine import Fact, Message
from overlay.net.transport import Wire
from overlay.queues.resend import Item
from overlay.trace_schema import Incident
from overlay.wire.codec import FrameReader, FrameRun
from overlay.wire.greetings import Hello, Refusal
from ring.facts import (
    Alone,
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
        self.watchers: list[Callable[[Fact, Incident | None], None]] = []  #: told of every fact
        self.drain_wanted = trio.Event()  #: by an operator
        self.grace_s: float | None = None  #: seconds that clients then have to move
        self._parts: Parts

    def attach(self, parts: Parts) -> None:
        """Take the parts; nothing is brought before that."""
        self._parts = parts

    def status(self) -> Status:
        """Describe this broker as it is now."""
        return describe(self._parts)

    def drain(self, grace_s: float | None) -> None:
        """An operator wants this broker to leave; who runs it waits for that."""
        if not self.drain_wanted.is_set():
            self.grace_s = grace_s
            self.drain_wanted.set()

    def join_unit(self, question: UnitJoin | UnitJoinQuestion) -> UnitJoining:
        """An operator wants this broker's unit to join another context, or asks about it."""
        parts = self._parts
        if isinstance(question, UnitJoin):
            arc = Arc(question.context_lo, question.context_hi)
            command = JoinContext(
                question.unit, arc, question.steward, question.called, question.brokers
            )
            parts.driver.give(command)
            return parts.node.room.answer()
        return parts.node.room.state

    def drill(self, question: Question, asker: str, waiting: Callable[[], int]) -> Message:
        """A drill asks this broker to break itself, or what it has seen."""
        drills = self._parts.drills
        return Operated(NO_CONSENT) if drills is None else drills.take(question, asker, waiting)

    # ── links ─────────────────────────────────────────────────────────────────────────────────

    def on_frames(self, link: Link, run: FrameRun) -> Iterator[None]:
        """Relay events; between two runs others have their turn.

        Raises:
            ProtocolError: a frame of another kind, one that makes no sense, or a secure event on
                a link that is not.
        """
        return self._parts.stack.take(link, run)

    async def on_batch(self, link: Link) -> None:
        """What came over a normal link is a sign of life; then wait for crowded queues."""
        parts = self._parts
        parts.stack.heard(link)
        if link.reader is not None and link.reader.has_begun:
            parts.link_limit.look()
        await parts.backpressure.relieve(link.allowance)

    def on_changes(self) -> None:
        """Links or places have changed: tell the router, and try parked events again."""
        parts = self._parts
        parts.parked.stir()
        parts.stack.on_changes()
        parts.router_timer.look()
        parts.budget.look()  # whoever is linked is told much, and need not take it

    def on_cut(self, link: Link) -> None:
        """Keep what was under way on a link that broke."""
        self._parts.stack.on_cut(link.peer.uid, link.link_class)

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """Find other ways for events that ``peer`` will not get."""
        self._parts.stack.on_orphans(peer, link_class, items)

    # ── callers ───────────────────────────────────────────────────────────────────────────────

    def judge_broker(self, wire: Wire) -> Refusal | None:
        """Return why the rules let no broker at the other end link to this one, or None."""
        return self._parts.access_watch.judge_broker(wire)

    @property
    def needed(self) -> Collection[str]:
        """Return the ring neighbours and chords of this broker, and those whose links are named."""
        node = self._parts.node
        ring = node.ring
        around = {member.uid for member in (*ring.left, *ring.right, *ring.chords)}
        return around | node.declared.named

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
        parts.stack.on_fact(fact)
        absence = parts.absences.on_fact(fact, parts.driver.now())
        if absence is not None:
            parts.clients.tell_missed(absence)
        if parts.drills is not None:
            parts.drills.on_fact(fact)
        incident = parts.recorder.on_fact(fact, parts.driver.now(), parts.driver.sent_about)
        if incident is not None:
            tell_incident(parts.log, incident)
        for watcher in self.watchers:
            watcher(fact, incident)
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

    def _on_notice(self, fact: NoticeTaken) -> None:
        parts = self._parts
        parts.driver.counters[f"revocation_lists_{fact.outcome.value}"] += 1
        parts.parked.stir()
        if fact.outcome is Outcome.NEWS and parts.secured is not None:
            parts.secured.revocation_watch.enforce(parts.secured.peers)
            parts.clients.tell_revocations()
