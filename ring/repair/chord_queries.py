"""A chord that cannot be linked: is it the broker or the link? (paper 004, section 3.4.2)

Nobody stands beside a chord who could be asked, so a query is routed to the broker itself. If it
arrives, the link failed and the query's path becomes the way round it; the broker learns of it by
the request that comes along that path, so both ends conclude the same. If it does not arrive,
nobody knows: the chord is given up, and the query is repeated later, as while many brokers are
down some queries fail although the broker lives.

Departs from the paper in waiting first: a death is told to holders of chords by the dead broker's
neighbours, so only what they do not tell needs a query. Links that are no ring links are not
watched by heartbeats, but with each refresh of the chords: one that is not heard of from one to the
next is pinged, and given until the one after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from overlay.ids import Nanos
from overlay.machine import Closed
from ring.circle.links import RingLinks
from ring.circle.searches import Finding, Routing
from ring.core import Core, Timer
from ring.facts import LinkFailed, Undecided
from ring.repair.detours import Detours
from ring.wire.messages import MAX_PATH, Member, Ping, Purpose

MAX_QUERIES = 32  #: brokers in question at once
RETESTS = 4  #: of one query that did not arrive; the pause between them doubles


@dataclass(slots=True)
class _Question:
    member: Member
    asked: int = 0  #: queries so far that did not arrive
    is_lost: bool = False  #: the chord was given up; only the verdict is open


class ChordQueries:
    """The chords that are in question, and what became of the queries to them."""

    def __init__(self, core: Core, links: RingLinks, routing: Routing, detours: Detours) -> None:
        self._core = core
        self._links = links
        self._routing = routing
        self._detours = detours
        self._open: dict[str, _Question] = {}
        self._refreshed_at: Nanos = 0
        self._pinged: set[str] = set()
        self.given_up: list[str] = []  #: chords that are to be replaced

    def begin(self, member: Member, *, at_once: bool = False) -> None:
        """The link to a chord is gone and cannot be made; ``at_once`` if it is not to be tried."""
        core, uid = self._core, member.uid
        known = self._open.get(uid)
        if known is not None:
            if known.is_lost and known.member == member:
                self.given_up.append(uid)
            return
        if len(self._open) >= MAX_QUERIES:
            self.given_up.append(uid)
            return
        self._open[uid] = _Question(member)
        if at_once:
            self.ask(uid)
        else:
            core.arm(Timer.QUERY, uid, core.config.silence_ns + 2 * core.config.test_ns)

    def ask(self, uid: str) -> None:
        """It is time to ask: no death was told, and the link is not back."""
        question = self._open.get(uid)
        if question is None:
            return
        if uid in self._links.up:
            self.forget(uid)
            return
        target = question.member.ring_id
        self._routing.find(target, partial(self._found, uid), uid=uid, about=uid)

    def forget(self, uid: str) -> None:
        """Drop the question about ``uid``: it is linked again, or judged."""
        self._open.pop(uid, None)
        self._core.disarm(Timer.QUERY, uid)

    def on_no_way(self, member: Member) -> None:
        """The query's path cannot be used: the broker lives, but is no use as a chord."""
        if member.uid in self._open:
            self.forget(member.uid)
            self.given_up.append(member.uid)

    def watch(self) -> None:
        """The chords are refreshed: ping over all links not heard of since last time.

        The link to one that was pinged last time and has not answered is closed. That goes for the
        chords of others to us as well, and for those that hold us alone for a ring neighbour: a
        death is told to those that the dead broker's backup names, and a broker that was linked too
        late to stand in it would keep the link for ever. Of the two ends of a link, what the first
        sends serves the other, so it costs hardly more pings.
        """
        before, self._refreshed_at = self._refreshed_at, self._core.now
        pinged, self._pinged = self._pinged, set()
        for uid, link in list(self._links.up.items()):
            if link.heard_at >= before or link.since >= before or link.purpose is Purpose.RING:
                continue
            if uid in pinged:
                self._links.close(uid, Closed.LOST)  # and then opened again like any lost link
            else:
                self._pinged.add(uid)
                self._core.send(uid, Ping(0))

    def clear(self) -> None:
        """Forget all queries: this broker is off the ring."""
        for uid in list(self._open):
            self.forget(uid)
        self.given_up.clear()
        self._pinged.clear()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _found(self, uid: str, finding: Finding) -> None:
        question = self._open.get(uid)
        if question is None:
            return
        if uid in self._links.up:
            self.forget(uid)
        elif finding.reached:
            self._on_reached(question, finding.path)
        else:
            self._on_missed(uid, question)

    def _on_reached(self, question: _Question, path: tuple[str, ...]) -> None:
        member = question.member
        if question.is_lost:  # the chord was replaced meanwhile; only the verdict was open
            self.forget(member.uid)
            if len(path) > 1:
                self._core.notify(LinkFailed(member, path[-2]))
        elif 3 <= len(path) <= MAX_PATH:
            self._detours.begin_along(member, [path])  # ends with a detour, or on_no_way
        else:
            self.on_no_way(member)

    def _on_missed(self, uid: str, question: _Question) -> None:
        core = self._core
        if not question.is_lost:
            question.is_lost = True
            core.notify(Undecided(question.member.peer))
            self.given_up.append(uid)
        question.asked += 1
        if question.asked > RETESTS:
            self.forget(uid)
        else:
            pause = core.config.chord_refresh_ns << (question.asked - 1)
            core.arm(Timer.QUERY, uid, core.jitter(pause))
