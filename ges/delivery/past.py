"""What clients have missed that have moved here, fetched from the brokers where it was published.

Subscriber S was attached to broker B, which has died, and comes here. This broker has not had what
was for S: it was sent to B. But the broker where it was published keeps it for a while
(:mod:`ges.order.recall`). So when the subscriptions of S are active here, all brokers are asked for
what they have published of late that S wants. The answers go to S in the order of their publishers,
then what this broker has kept itself, then what comes now (:mod:`ges.delivery.replays`).

Members of the cluster are asked one by one, and each says how many events are to come. Where there
are other clusters, all brokers of the overlay are told the question (:mod:`ges.telling.mailbox`).
Of those only who has something answers. So 0.2 s after all have heard the question, nobody else is
waited for.

A broker that was off the ring for a moment asks in the same way for what its own clients want. That
goes the way of all events, so that clients have each once, and in order.

Clients of one broker come together, so there is one question for all that wait: one *round* at a
time. The broker waits for no answer longer than 2 s. Pure.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ges.delivery.interests import Interests
from ges.delivery.kept import ENTRY_BYTES, Fetched, KeptRun, kept_run
from ges.delivery.subscriber import Subscriber
from ges.gateways.cluster import Cluster
from ges.matching.asks import everything
from ges.matching.filter_tree import FilterTree
from ges.order.recall import KEPT_NS
from ges.order.recalls import Answer, Outbound, Recalls
from ges.telling.post import ANYBODY, Mail
from ges.wire.asked import CLASS_BITS, Ask
from ges.wire.event_runs import EventRun
from ges.wire.names import name_in
from ges.wire.realms import Realm
from ges.wire.recall_messages import PastDone, PastWanted
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, nanos

ACTIVE_NS = nanos(1.0)  #: subscriptions are waited for so long before others are asked
ROUND_NS = nanos(2.0)  #: answers are waited for so long
ANSWER_NS = nanos(0.2)  #: after all have heard a question, the last answer is on its way so long
LOOK_NS = nanos(0.1)  #: it is looked so often whether those that are silent are dead
BEFORE_NS = nanos(3.0)  #: others may have held this broker for dead so long before it knew
BACK_NS = nanos(2.0)  #: until all know again what is wanted here, and send it
GATHER_NS = nanos(0.02)  #: clients that come within this are in one round
MAX_ASKS = 512  #: asked for in one round; beyond, everything ...
MAX_ASK_BYTES = 32 * 1024  #: ... and where they are longer than this
MAX_ANSWERING = 4096  #: brokers of other clusters
MAX_QUESTIONS = 64  #: a second that are told to all and answered here; each may cost 4 MiB
ANSWER_BYTES = 4 * 1024 * 1024  #: in one answer; the latest
POOL_BYTES = 32 * 1024 * 1024  #: of memory that the events take which are fetched in one round
NANOS_PER_MILLI = 1_000_000

_CLASSES = {LinkClass.NORMAL: 1, LinkClass.SECURE: 4}


@dataclass(slots=True)
class _Round:
    number: int
    clients: list[Subscriber]  #: that have moved here and are there yet
    is_for_all: bool  #: rather, it is for all clients here: this broker was off the ring
    until: Nanos
    #: By ring id of the broker: how many events are to come; None: not known yet.
    expected: dict[int, int | None]
    is_open: bool  #: others may answer as well, until ...
    open_until: Nanos | None = None  #: ... this
    came: Counter[int] = field(default_factory=Counter)
    runs: list[KeptRun] = field(default_factory=list)
    regained: list[EventRun] = field(default_factory=list)  #: for those that were here all along
    bytes: int = 0

    @property
    def has_come(self) -> bool:
        return all(n is not None and self.came[place] >= n for place, n in self.expected.items())

    def is_done(self, now: Nanos) -> bool:
        if now >= self.until:
            return True
        is_closed = not self.is_open or (self.open_until is not None and now >= self.open_until)
        return is_closed and self.has_come


class Past:
    """Both sides of one broker."""

    def __init__(
        self,
        cluster: Cluster,
        recalls: Recalls,
        interests: Interests,
        served: Callable[[Subscriber, Fetched, Nanos], None],
        counters: Counter[str],
    ) -> None:
        """``served`` gives a client what it has missed, and then the rest."""
        self._counters = counters
        self._questions: deque[Nanos] = deque()  #: told to all, that were answered of late
        self._cluster = cluster
        self._recalls = recalls
        self._interests = interests
        self._served = served
        self._waiting: dict[Subscriber, Nanos] = {}  #: and since when
        #: Since when this broker was off the ring, and when it asks.
        self._back: tuple[Nanos, Nanos] | None = None
        #: What the clients of this broker want.
        self.wanted_here: Callable[[], Iterable[Ask]] = tuple
        #: Takes what was published while this broker was off the ring, in its publishers' order.
        self.regain: Callable[[list[EventRun], Nanos], None] = lambda runs, now: None
        self._round: _Round | None = None
        self._number = 0
        self._look_at: Nanos = 0  #: whether all that are waited for live ...
        self._looked_at: Nanos = 0  #: ... as was done last then

    # ── as the broker that they move to ───────────────────────────────────────────────────────

    def begin(self, client: Subscriber, now: Nanos) -> bool:
        """A client has moved here; says whether others are asked for what it has missed."""
        if self._cluster.levels == 1 and not self._cluster.is_for_all:
            return False  # all events have come here
        self._waiting[client] = now
        return True

    def came_back(self, since: Nanos, now: Nanos) -> None:
        """This broker is on the ring again; it was off it since that time."""
        self._back = since - BEFORE_NS, now + BACK_NS

    def forget(self, client: Subscriber) -> None:
        """The client is gone."""
        self._waiting.pop(client, None)
        if self._round is not None and client in self._round.clients:
            self._round.clients.remove(client)

    def take(self, run: EventRun, age_ms: int, now: Nanos) -> None:
        """Events have come that were asked for."""
        current, source = self._round, run.head.source
        if current is None or not (current.is_open or source in current.expected):
            return
        if source not in current.came and len(current.came) >= MAX_ANSWERING:
            return
        current.came[source] += run.count
        self._add(current, run, now - age_ms * NANOS_PER_MILLI)
        self._finish(now)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        current = self._round
        if current is not None:
            until, open_until = min(current.until, self._look_at), current.open_until
            if open_until is None or open_until <= self._looked_at:
                return until  # members that are silent are waited for, and looked at again
            return min(until, open_until)
        due = [self._due(each) for each in self._waiting]
        return min([*due, *(self._back[1:] if self._back is not None else ())], default=None)

    def expire(self, now: Nanos) -> Outbound:
        """Begin a round, or end one without those that are silent."""
        self._looked_at, self._look_at = now, now + LOOK_NS
        self._finish(now)
        out = Outbound()
        if self._round is None and self._waiting:
            clients = [each for each in self._waiting if self._due(each) <= now]
            if clients:
                for client in clients:
                    del self._waiting[client]
                self._ask(clients, _asks_of(clients), now - KEPT_NS, now, out)
        if self._round is None and self._back is not None and self._back[1] <= now:
            (since, _), self._back = self._back, None
            wanted = dict.fromkeys(each for each in self.wanted_here() if each.group is None)
            if wanted:
                self._ask([], _bounded(list(wanted)), since, now, out)
        return out

    def on_done(self, uid: str, done: PastDone, now: Nanos) -> None:
        """A broker has sent all that it has."""
        current = self._round
        place = done.place if done.place is not None else self._places.get(uid)
        if current is None or done.number != current.number or place is None:
            return
        if place in current.expected or (current.is_open and len(current.expected) < MAX_ANSWERING):
            current.expected[place] = done.sent
            self._finish(now)

    def on_all_asked(self, number: int, now: Nanos) -> None:
        """All brokers of the overlay have heard a question."""
        if self._round is not None and self._round.number == number:
            self._round.open_until = now + ANSWER_NS

    # ── as a broker where they were published ─────────────────────────────────────────────────

    def on_wanted(self, uid: str, wanted: PastWanted, now: Nanos) -> Outbound:
        """Return what was published here of late, for the broker that asks."""
        address, place = wanted.address, wanted.place
        common: int = Realm.CLUSTER
        if place is not None:
            is_member = address is not None and place in self._cluster.places
            if is_member or place == self._recalls.place:
                return Outbound()  # a member asks its own cluster besides
            if not self._may_answer(now):
                self._counters["past_unanswered"] += 1
                return Outbound()
            common = self._cluster.common_level(place)
        elif self._cluster.slots.get(uid) != wanted.asker:
            return Outbound()
        found = self._find(wanted.asks, now - wanted.age_ms * NANOS_PER_MILLI, now, common)
        to = place if address is None else None
        events = [
            Answer(wanted.asker, run, 1 + (now - at) // NANOS_PER_MILLI, address, to)
            for run, at in found
        ]
        sent = sum(run.count for run, _ in found)
        if place is None:
            return Outbound(events, [Mail(uid, PastDone(wanted.number, sent))])
        done = PastDone(wanted.number, sent, self._recalls.place)
        return Outbound(events, [Mail(ANYBODY, done, place)] if sent else [])

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _may_answer(self, now: Nanos) -> bool:
        """Say whether one more question that all were told is answered now."""
        while self._questions and self._questions[0] <= now - NANOS_PER_SECOND:
            self._questions.popleft()
        if len(self._questions) >= MAX_QUESTIONS:
            return False
        self._questions.append(now)
        return True

    @property
    def _places(self) -> dict[str, int]:
        """The ring ids of the members, by uid."""
        return {uid: place for place, uid in self._cluster.places.items()}

    def _due(self, client: Subscriber) -> Nanos:
        since = self._waiting[client]
        pending = any(
            self._interests.is_pending(client, number)
            for number, ask in client.asks.items()
            if ask.group is None
        )
        return since + (ACTIVE_NS if pending else GATHER_NS)

    def _ask(
        self,
        clients: list[Subscriber],
        asks: tuple[Ask, ...],
        since: Nanos,
        now: Nanos,
        out: Outbound,
    ) -> None:
        """Begin a round: for clients that have moved here, or without any for all that are here."""
        self._number += 1
        own, address, place = self._cluster.slot, self._cluster.address, self._recalls.place
        # Who waits for a slot is a member of no cluster yet, and asks all.
        members = self._places if own is not None else {}
        others = {uid: at for uid, at in members.items() if at != place}
        is_open = place is not None and (
            own is None or (self._cluster.levels > 1 and address is not None)
        )
        self._round = _Round(
            self._number,
            clients,
            not clients,
            now + ROUND_NS,
            dict.fromkeys(others.values(), None),
            is_open,
        )
        for run, at in self._find(asks, since, now) if clients else ():
            self._add(self._round, run, at)
        wanted = PastWanted(own or 0, self._number, (now - since) // NANOS_PER_MILLI, asks)
        out.mail += [Mail(uid, wanted) for uid in others]
        if is_open:
            out.to_all.append(replace(wanted, address=address, place=place))
        self._finish(now)

    def _add(self, current: _Round, run: EventRun, at: Nanos) -> None:
        alone = run.ungrouped().alone()
        current.bytes += ENTRY_BYTES + len(run.head.topic) + len(alone.data)
        if current.bytes > POOL_BYTES:
            return
        if current.is_for_all:
            current.regained.append(alone)
        else:
            common = self._cluster.common_level(run.head.source) if current.is_open else 1
            current.runs.append(kept_run(alone, at, common))

    def _finish(self, now: Nanos) -> None:
        current = self._round
        if current is None:
            return
        for place, count in [*current.expected.items()]:
            if count is None and place not in self._cluster.places:
                del current.expected[place]  # it has died
        if not current.is_done(now):
            return
        self._round = None
        if current.regained:
            current.regained.sort(key=lambda run: (*run.head.flow[:2], run.head.sequence))
            self.regain(current.regained, now)
        keyed = sorted(((run.first, at, run) for at, run in enumerate(current.runs)), key=_order)
        fetched = Fetched.of([run for _, _, run in keyed])
        for client in current.clients:
            self._served(client, fetched, now)

    def _find(
        self, asks: Iterable[Ask], since: Nanos, now: Nanos, common: int = Realm.CLUSTER
    ) -> list[tuple[EventRun, Nanos]]:
        """Return what was published here since a time and matches, oldest first.

        ``common``: the level of the smallest unit that has both this broker and who asks in it.
        """
        matcher = _Matcher(asks)
        found = [
            (run, at)
            for run, at in self._recalls.log.since(since, now)
            if run.head.realm >= common
            and matcher.wants(run.head.link_class, run.head.topic)
            and not run.head.is_named
        ]
        size, first = 0, len(found)
        while first and size < ANSWER_BYTES:
            first -= 1
            run = found[first][0]
            size += run.bounds[-1] - run.bounds[0]
        return found[first:]


class _Matcher:
    """Whether somebody wants a topic."""

    def __init__(self, asks: Iterable[Ask]) -> None:
        self._tree: FilterTree[Ask] = FilterTree()
        self._all = 0
        self._known: dict[tuple[LinkClass, bytes], bool] = {}
        for ask in asks:
            if ask.is_everything:
                self._all |= ask.classes
            else:
                self._tree.add(ask.filter, ask)

    def wants(self, link_class: LinkClass, topic: bytes) -> bool:
        key = link_class, topic
        known = self._known.get(key)
        if known is None:
            bit = CLASS_BITS[link_class]
            try:
                found = self._tree.matches(topic.decode())
            except UnicodeDecodeError:
                found = []
            known = bool(self._all & bit) or any(each.classes & bit for each in found)
            self._known[key] = known
        return known


def _asks_of(clients: Iterable[Subscriber]) -> tuple[Ask, ...]:
    found: dict[Ask, None] = {}
    for client in clients:
        for ask in client.asks.values():
            # Of a queue group others get what a member here has missed, and names are not kept.
            if ask.group is None and ask.only is not LinkClass.EXPRESS and not name_in(ask.filter):
                found[Ask(ask.filter, ask.classes)] = None
    return _bounded(list(found))


def _bounded(asks: Sequence[Ask]) -> tuple[Ask, ...]:
    """Return what covers these asks, and can be told in one message."""
    if len(asks) <= MAX_ASKS and sum(map(_bytes_of, asks)) <= MAX_ASK_BYTES:
        return tuple(asks)
    classes = 0
    for each in asks:
        classes |= each.classes
    return (everything(classes & sum(_CLASSES.values())),)


def _bytes_of(ask: Ask) -> int:
    return len(ask.filter)


def _order(
    entry: tuple[tuple[tuple[bytes, int, LinkClass], int], int, KeptRun],
) -> tuple[bytes, int, str, int, int]:
    ((publisher, incarnation, link_class), sequence), at, _ = entry
    return publisher, incarnation, link_class.value, sequence, at
