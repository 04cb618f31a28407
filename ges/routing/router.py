"""The way of an event through one broker: in, once, onward, and out to the clients in order.

Called from reader tasks and never waits: it reads the fixed header, looks cached decisions up,
patches a few bytes and appends to queues. The payload is not touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ges.routing.arc_plan import ArcTree
from ges.routing.catch_up import CatchUp, Onward, Passed
from ges.routing.delivery import Deliveries
from ges.routing.express import Express, ExpressHops
from ges.routing.forwarding import Forwarding
from ges.routing.holding import Holding
from ges.routing.ordering import MAX_PUBLISHERS, Key, Ordering, Seen
from ges.routing.rerouting import Rerouting
from ges.sessions.session import Session
from ges.topology.secure_graph import SecureGraph, describe
from ges.wire.event_runs import EventRun
from ges.wire.events import (
    AGAIN_FLAG,
    DEFAULT_BUDGET_US,
    FLOOD_FLAG,
    MARK_FLAG,
    SECURE_FLAG,
    Head,
    read_head,
)
from ges.wire.source_route import read_route
from overlay.errors import ProtocolError
from overlay.ids import LinkClass, Nanos, Peer
from overlay.links.link import Link
from overlay.multigraph.weights import LinkKey
from overlay.net.connection import Connection
from overlay.queues.resend import Item
from overlay.queues.streams import Streams
from ring.wire.messages import Member

MAX_TO_MARK = 2 * MAX_PUBLISHERS
HELD_BYTES = 256  #: of memory for an event that waits for others, beside its own bytes


class Router:
    """Routes events between links and sessions."""

    def __init__(
        self,
        links: Mapping[tuple[str, LinkClass], Link],
        graph: SecureGraph,
        counters: Counter[str],
        now: Callable[[], Nanos],
        detours: Mapping[str, tuple[str, ...]] | None = None,
        ways: Mapping[LinkKey, tuple[str, ...]] | None = None,
        *,
        path: Callable[[LinkKey], tuple[str, ...] | None] = lambda key: None,
        holding: Holding | None = None,
        budget_us: int = DEFAULT_BUDGET_US,
        is_express: Callable[[str], bool] = lambda uid: True,
        one_way_us: Callable[[LinkKey, int], int] = lambda key, kernel_us: kernel_us,
        on_misled: Callable[[str], None] = lambda uid: None,
    ) -> None:
        """``on_misled``: the broker of that uid goes by a link of ours that is gone."""
        self.ordering: Ordering[tuple[bytes, bytes, bool]] = Ordering()
        self._flooded = Seen()  #: events sent to all secure links
        self._to_mark: dict[Key, None] = {}  #: publishers of whom events may have been lost
        self.crowded: set[Connection] = set()  #: queues the next reader should wait for
        self._deliveries = Deliveries(counters, self.crowded)
        self.told: dict[str, int] = {}  #: uids at the other end of normal links events went over
        self._links = links
        detours = detours if detours is not None else {}  # ways round failed links
        # Relay paths in use, by who they lead to and class: the brokers to pass, that one last.
        ways = ways if ways is not None else {}
        self._member: Member | None = None  #: as we stand on the ring, or stood on it last
        self._here: int | None = None
        self._tree = ArcTree()
        self._secure_tree = ArcTree()  #: over secure links alone
        self._secured: list[str] = []  #: uids at the other end of secure links
        self._catch_up = CatchUp()
        self._has_holes = False  #: a ring neighbour of ours has no secure link to us
        #: for whom events wait, as their link is down for the moment
        self._holding = holding or Holding(Streams(), lambda peer: False)
        self._forwarding = Forwarding(
            links,
            ways,
            detours,
            counters,
            self.crowded,
            self.told,
            self._holding,
            now=now,
            path=path,
            on_loss=self.on_loss,
            on_stranded=lambda uid, event, c: self._rerouting.on_stranded(uid, event, c),
        )
        self._rerouting = Rerouting(
            self._holding,
            self._forwarding,
            links,
            detours,
            self._tree,
            counters,
            plan=self._plan,
            on_passed=self._remember,
            on_loss=self.on_loss,
        )
        self.express = Express(
            ExpressHops(links, ways, detours, is_express),
            counters,
            partial(self._deliveries.targets_of, LinkClass.EXPRESS),
            one_way_us=one_way_us,
            budget_us=budget_us,
        )
        self._graph = graph
        self._counters = counters
        self._now = now
        self._on_misled = on_misled

    # ── what the broker sets ──────────────────────────────────────────────────────────────────

    def update(
        self,
        member: Member | None,
        linked: Mapping[str, Member],
        around: Iterable[Member] = (),
        *,
        is_whole: bool = True,
    ) -> None:
        """Note where this broker stands, whom it is linked to, and who are its ring neighbours.

        ``around``: those as well that it has heard of and is not linked to yet; ``is_whole``: they
        agree that this broker stands between them.
        """
        self._here = member.ring_id if member is not None else None
        now = self._now()
        if member is not None and member != self._member:
            if self._member is not None:  # it has joined anew
                self.ordering.doubt(now)
            self._member = member
        self._holding.note(linked, around, is_member=member is not None)
        self._plan()
        if self._holding.held:
            self._rerouting.settle(now)
            self._plan()
        place, left = self._catch_up.move(self._here, now)
        for passed in left:
            self._send_late(passed, self._instead_of_us(place, passed))
        known = (dict(linked), tuple(self._secured))
        if self._catch_up.note(self._here, known, is_whole=is_whole, now=now):
            for passed, late in self._catch_up.missed(now, self._onward_now):
                self._send_late(passed, late)

    def _send_late(self, passed: Passed, late: Onward) -> None:
        if late:
            self._counters["events_sent_late"] += passed.run.count
            flags = passed.flags | AGAIN_FLAG
            for head, body in passed.run.singles():
                self._forwarding.forward(head, body, late, flags, passed.link_class)

    def _instead_of_us(self, place: int, passed: Passed) -> Onward:
        """Return (uid, limit) of those that serve now what we were to serve from ``place``."""
        if passed.flags & FLOOD_FLAG or passed.limit == place:  # for everybody, from us on
            return self._onward(self._here or 0, passed.flags, passed.link_class)
        tree = self._tree if passed.link_class is LinkClass.NORMAL else self._secure_tree
        return tree.instead(place, passed.limit)

    def _onward_now(self, passed: Passed) -> Onward:
        return self._onward(passed.limit, passed.flags, passed.link_class)

    def _onward(self, limit: int, flags: int, link_class: LinkClass) -> Onward:
        """Return (uid, limit) of those to pass an event to."""
        if self._here is None:
            return ()
        if flags & FLOOD_FLAG:
            return tuple((uid, limit) for uid in self._secured)
        tree = self._tree if link_class is LinkClass.NORMAL else self._secure_tree
        return tree.onward(limit)

    def _plan(self) -> Sequence[str]:
        """Lay the trees, over the links that are up and those that are waited for."""
        holding = self._holding
        held = holding.places(LinkClass.SECURE)
        links = [uid for uid, link_class in self._links if link_class is LinkClass.SECURE]
        self._secured = [*links, *(uid for uid in held if uid not in links)]
        self._has_holes = not holding.around <= set(self._secured)
        if self._here is None:
            self._tree.update(0, {})
            self._secure_tree.update(0, {})
        else:
            linked = {uid: m.ring_id for uid, m in holding.linked.items()}
            self._tree.update(self._here, holding.places(LinkClass.NORMAL) | linked)
            places = held | linked
            secured = {uid: places[uid] for uid in self._secured if uid in places}
            self._secure_tree.update(self._here, secured)
        return self._secured

    def subscribe(self, session: Session, number: int, text: str, only: LinkClass | None) -> None:
        """Serve a checked filter; the same number again replaces the earlier one."""
        self._deliveries.subscribe(session, number, text, only)

    def unsubscribe(self, session: Session, number: int) -> None:
        """Serve a filter no longer."""
        self._deliveries.unsubscribe(session, number)

    def forget(self, session: Session) -> None:
        """The client is gone."""
        self._deliveries.forget(session)
        self.crowded.discard(session.connection)

    @property
    def subscriptions(self) -> int:
        """How many filters are served."""
        return self._deliveries.subscriptions

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def why_not(self, session: Session, head: Head) -> str | None:
        """Return why an event from a client cannot be taken, or None."""
        if self._here is None:
            return "this broker is not on the ring at the moment"
        if not head.secure:
            return None
        if not session.secure:
            return "the hop from the client to its broker is not secure; attach over chordals://"
        if self._graph.is_overfull:
            return "more brokers hold identities than this one can keep track of"
        unreachable = self._graph.out_of_reach()
        if unreachable:
            return f"no all-secure path to broker {describe(unreachable)}"
        if self._tree.is_empty or self._graph.reaches_anybody():
            return None
        if self._deliveries.targets_of(LinkClass.SECURE, head.topic):
            return None
        return "no all-secure path from this broker to any other"

    def has_come(self, head: Head) -> bool:
        """Say whether an event that its publisher sends again has come here by another broker."""
        key = (head.publisher, head.incarnation, head.secure)
        return head.again and self.ordering.has_come(key, head.sequence)

    def publish(self, session: Session, head: Head, body: bytes) -> None:
        """Take an event from a client of ours."""
        assert self._here is not None
        self._counters["events_published"] += 1
        key = (head.publisher, head.incarnation, head.secure)
        if head.sequence != session.last.get(head.secure, 0) + 1 and not head.again:
            self._mark(key)  # it published elsewhere before, or we have refused one
        session.last[head.secure] = head.sequence
        self._admit(key, head, body, self._here, flood=not self._graph.is_complete)

    def relay(self, head: Head, body: bytes) -> None:
        """Take an event from another broker."""
        self._counters["events_received"] += 1
        key = (head.publisher, head.incarnation, head.secure)
        self._admit(key, head, body, head.limit, flood=head.flood)

    def publish_run(self, session: Session, run: EventRun) -> None:
        """Take a run of events from a client of ours."""
        head = run.head
        if head.express:
            assert self._here is not None
            for each, body in run.singles():
                hop = session.connection.one_way_us
                self.express.publish(each, body, hop, self._tree.onward(self._here))
            return
        key = (head.publisher, head.incarnation, head.secure)
        due = session.last.get(head.secure, 0) + 1
        here = self._here
        assert here is not None
        if head.sequence == due and self._pass_run(key, run, here):
            session.last[head.secure] = head.sequence + run.count - 1
            self._counters["events_published"] += run.count
        else:
            for each, body in run.singles():
                self.publish(session, each, body)

    def relay_run(self, link: Link, run: EventRun) -> None:
        """Take a run of events from another broker."""
        head = run.head
        if head.express:
            onward = self._tree.onward(head.limit) if self._here is not None else ()
            for each, body in run.singles():
                self.express.relay(link, each, body, onward)
            return
        key = (head.publisher, head.incarnation, head.secure)
        if self._pass_run(key, run, head.limit):
            self._counters["events_received"] += run.count
        else:
            for each, body in run.singles():
                self.relay(each, body)

    def pass_on(self, link: Link, body: bytes) -> None:
        """Pass on an event between two brokers that do not use a link of their own; not for us.

        It goes on over links of the class it came by.

        Raises:
            CodecError: it is malformed.
            ProtocolError: it is secure, and came over a link that is not.
        """
        way, event = read_route(body)
        head = read_head(event)
        if head.secure and link.link_class is not LinkClass.SECURE:
            raise ProtocolError("a secure event on its way over links that are not")
        if way and (way[0], link.link_class) not in self._links:
            # First of all: where the event goes back to the neighbour, that knows better by then.
            self._on_misled(link.peer.uid)
        if head.express:
            self.express.pass_on(link, way, head, event)
        elif link.arrived(1):
            self._counters["events_received_twice"] += 1
        else:
            self._forwarding.send_round(way, event, b"", link.link_class)

    def on_cut(self, uid: str, link_class: LinkClass) -> None:
        """A link broke, or a way round one: events for the broker there wait for what comes."""
        self._rerouting.on_cut((uid, link_class), self._now())

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """Events for a broker that will not get them: others pass them on in its place."""
        self._rerouting.on_orphans((peer.uid, link_class), items)

    def on_loss(self, head: Head | None = None) -> None:
        """An event is lost: mark the next one of its publisher, or of all if nobody knows which."""
        if head is None:
            self._to_mark.update(dict.fromkeys(self.ordering.keys))
        else:
            self._mark((head.publisher, head.incarnation, head.secure))

    def _mark(self, key: Key) -> None:
        self._to_mark[key] = None
        if len(self._to_mark) > MAX_TO_MARK:  # of the oldest, what follows a loss waits longer
            del self._to_mark[next(iter(self._to_mark))]

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        ends = (
            self.ordering.next_deadline(),
            self._holding.next_deadline(self._now()),
            self._catch_up.next_deadline(),
        )
        return min((end for end in ends if end is not None), default=None)

    def expire(self, now: Nanos | None = None) -> None:
        """Give up links and events that do not come; go on with what has waited for them.

        ``now``: the time, or a deadline that has come; None: as the clock shows.
        """
        now = self._now() if now is None else now
        if self._holding.held:
            self._rerouting.settle(now)
            self._plan()
        self._catch_up.forget(now)
        for topic, body, secure in self.ordering.expire(now):
            self._deliveries.deliver(topic, body, secure)

    @property
    def keeps_events(self) -> bool:
        """Events wait here for a link."""
        return not self._holding.is_empty

    def part(self) -> None:
        """Before this broker leaves: send on what waits for links, over those that are up."""
        self._rerouting.give_up()

    def _pass_run(self, key: Key, run: EventRun, limit: int) -> bool:
        """Do all at once what is the same for all; False if each must be looked at."""
        head = run.head
        if (
            self._here is None
            or head.secure  # all-secure ways are decided event by event
            or head.marked
            or head.again
            or key in self._to_mark
            or not self.ordering.admit_run(key, head.sequence, run.count)
        ):
            return False
        onward = self._tree.onward(limit)
        if onward:
            self._forwarding.forward_run(run, onward)
        now = self._now()
        if self._catch_up.is_unsure(now):
            kept = Passed(run.alone(), 0, LinkClass.NORMAL, limit, now)
            self._catch_up.keep(kept, onward)
        targets = self._deliveries.targets_of(LinkClass.NORMAL, head.topic)
        if targets:
            self._deliveries.send(targets, run.frames, run.count)
        return True

    def _admit(self, key: Key, head: Head, body: bytes, limit: int, *, flood: bool) -> None:
        marked = head.marked
        if self._to_mark and key in self._to_mark:
            if self._here is not None and not self._tree.is_empty:
                self._to_mark.pop(key, None)  # else nobody sees the mark: the next is marked, too
            marked = True
        ready = self.ordering.admit(
            key,
            head.sequence,
            (head.topic, body, head.secure),
            self._now(),
            size=len(body) + HELD_BYTES,
            marked=marked,
        )
        flags = MARK_FLAG if marked else 0
        if ready is None:
            self._counters["events_duplicate"] += 1
        if self._here is None:
            pass
        elif head.secure and (flood or self._has_holes):
            # One that came by the tree before may come again to all: it goes on, as only that way
            # it may reach those behind a hole.
            if self._flooded.first((key, head.sequence)):
                flags |= SECURE_FLAG | FLOOD_FLAG
                self._pass_on(head, body, limit, flags, LinkClass.SECURE)
        elif ready is not None or head.again:
            link_class = LinkClass.SECURE if head.secure else LinkClass.NORMAL
            flags |= (SECURE_FLAG if head.secure else 0) | (AGAIN_FLAG if head.again else 0)
            self._pass_on(head, body, limit, flags, link_class)
        for topic, ready_body, secure in ready or ():
            self._deliveries.deliver(topic, ready_body, secure)

    def _pass_on(
        self, head: Head, body: bytes, limit: int, flags: int, link_class: LinkClass
    ) -> None:
        """Send an event to those that come next, and remember it where there may be others."""
        onward = self._onward(limit, flags, link_class)
        self._forwarding.forward(head, body, onward, flags, link_class)
        now = self._now()
        if self._catch_up.is_unsure(now):
            passed = Passed(EventRun.of(head, body), flags, link_class, limit, now)
            self._catch_up.keep(passed, onward)

    def _remember(
        self, head: Head, body: bytes, flags: int, link_class: LinkClass, uid: str
    ) -> None:
        """Remember an event that others get in place of one broker, for which it has waited."""
        onward = self._onward(head.limit, flags, link_class)
        run = EventRun.of(head, body)
        passed = Passed(run, flags, link_class, head.limit, self._now(), uid)
        told = tuple(entry for entry in onward if entry[0] != uid)
        self._catch_up.keep(passed, told)
