"""What clients owe to get from one another that live on in one part of the network.

A judge from outside. It is told what clients publish and get, and what was done to brokers and to
the network between them, and nothing of the way of an event. For example, a client at broker B
publishes an event, and a subscriber is at broker C. B and C live on, and nothing separates them.
Then the subscriber gets the event, whatever befalls other brokers.

* *Once, in order*, at each client, whatever happens.
* *Nothing is lost* between survivors in one part. An event for a queue group comes to one member.
* An event comes to nobody beyond its realm, and to nobody but the clients that it names.

:mod:`sims.verdicts.deliveries` judges by the promises of ``docs/reliability.md``, with an excuse
for each. Here an event is owed or not by who was where, for as long as brokers keep events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from overlay.ids import NANOS_PER_SECOND, Nanos, nanos, short

FOREVER: Nanos = 2**62
BEFORE_NS = nanos(2.0)  #: whoever is to get an event has been where it is for so long, ...
AFTER_NS = nanos(10.0)  #: ... and whoever is to get it, or has it, lives on for so long
DETACHED_NS = nanos(7.0)  #: a subscriber may be without a broker for so long, and miss nothing
NEW_NS = nanos(6.0)  #: a broker that has joined so shortly ago may lack what it was not sent
#: What befalls an overlay of several clusters is forgotten after this where events are for a group.
CALM_NS = nanos(10.0)


@dataclass(slots=True)
class Span:
    """A stretch of time; it has not ended where ``until`` is :data:`FOREVER`."""

    since: Nanos
    until: Nanos = FOREVER

    def meets(self, since: Nanos, until: Nanos) -> bool:
        """Say whether it has a moment in common with another one."""
        return self.since <= until and since <= self.until


@dataclass(frozen=True, slots=True)
class Sent:
    """One event: ``number`` counts those of its publisher."""

    publisher: str
    number: int
    at: Nanos
    broker: str
    topic: str = ""
    near: bool = False  #: it stays in the cluster of its publisher
    names: tuple[str, ...] = ()  #: of the clients that it is for; none: all who want its topic


@dataclass(frozen=True, slots=True)
class _Home:
    """The broker that has taken an event, and keeps it for those that ask."""

    broker: str
    at: Nanos


@dataclass(slots=True)
class _Client:
    topic: str = ""  #: that it wants
    group: str = ""
    name: str = ""
    since: Nanos = FOREVER  #: it wants that
    stays: list[tuple[str, Span]] = field(default_factory=list)  #: brokers, oldest first
    got: dict[int, tuple[Nanos, str]] = field(default_factory=dict)  #: when, and at which broker
    highest: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Survivors:
    """Takes note of what happens, and judges it in the end. Times are virtual."""

    def __init__(self, *, groups_in_change: bool = False) -> None:
        """``groups_in_change``: one member alone gets an event of a group while clusters change."""
        self._groups_in_change = groups_in_change
        self.events: list[Sent] = []
        self.refused: set[tuple[str, int]] = set()
        #: By publisher: which numbers were confirmed, up to which, by which broker.
        self._homes: dict[str, list[tuple[int, str, Nanos]]] = defaultdict(list)
        self._clients: dict[str, _Client] = defaultdict(_Client)
        self._lives: dict[str, list[Span]] = defaultdict(list)  #: of brokers
        self._stands: dict[str, list[Span]] = defaultdict(list)  #: in which they have a place
        self._apart: list[tuple[frozenset[str], frozenset[str], Span]] = []
        self._doubts: list[Span] = []  #: in which parts grow together
        self._places: dict[str, list[tuple[Nanos, object]]] = defaultdict(list)
        self._findings: list[str] = []

    # ── what befalls brokers, and what is between them ────────────────────────────────────────

    def joined(self, broker: str, at: Nanos) -> None:
        """A broker has a place on the ring from now on."""
        _begin(self._lives[broker], at)
        _begin(self._stands[broker], at)

    def displaced(self, broker: str, at: Nanos) -> None:
        """A broker has no place any more, as others hold it for dead; it lives."""
        _end(self._stands[broker], at)

    def ended(self, broker: str, at: Nanos) -> None:
        """A broker was killed, or has left."""
        _end(self._lives[broker], at)
        _end(self._stands[broker], at)

    def separated(self, some: Iterable[str], others: Iterable[str], at: Nanos) -> Span:
        """Nothing passes between these brokers from now on, until the span ends that is returned.

        A broker that joins later belongs to neither part.
        """
        span = Span(at)
        self._apart.append((frozenset(some), frozenset(others), span))
        return span

    def doubted(self, since: Nanos, until: Nanos) -> None:
        """Two rings became one in this time: each broker went over by itself."""
        self._doubts.append(Span(since, until))

    def stands(self, broker: str, cluster: object, at: Nanos) -> None:
        """A broker is in a cluster from now on; None: in none."""
        self._places[broker].append((at, cluster))

    # ── what clients do ───────────────────────────────────────────────────────────────────────

    def wants(
        self, client: str, at: Nanos, topic: str = "", group: str = "", name: str = ""
    ) -> None:
        """A client wants events of a topic from now on, as member of a group; or it has a name."""
        known = self._clients[client]
        known.topic, known.group, known.name, known.since = topic, group, name, at

    def attached(self, client: str, broker: str, at: Nanos) -> None:
        """A broker has taken a client."""
        self._clients[client].stays.append((broker, Span(at)))

    def detached(self, client: str, at: Nanos) -> None:
        """A client has no broker any more."""
        _end([span for _, span in self._clients[client].stays], at)

    def published(self, event: Sent) -> int:
        """An event was handed to a broker; returns the number that its payload is to say."""
        self.events.append(event)
        return len(self.events) - 1

    def confirmed(self, publisher: str, number: int, broker: str, at: Nanos) -> None:
        """A broker has taken all events of a publisher up to that number, but for those refused."""
        homes = self._homes[publisher]
        if not homes or number > homes[-1][0]:
            homes.append((number, broker, at))

    def odd(self, client: str, payload: bytes) -> None:
        """Something has come that nobody published."""
        self._findings.append(f"{payload!r} came to {client}, and nobody published that")

    def got(self, client: str, ident: int, broker: str, at: Nanos) -> None:
        """An event has come to a client."""
        known, event = self._clients[client], self.events[ident]
        label = self._label(ident, client)
        if ident in known.got:
            self._findings.append(f"{label} came again")
            return
        known.got[ident] = at, broker
        if event.number < known.highest[event.publisher]:
            self._findings.append(f"{label} came after a later one")
        known.highest[event.publisher] = max(known.highest[event.publisher], event.number)
        if event.names and known.name not in event.names:
            self._findings.append(f"{label} came, and is for {', '.join(event.names)}")
        if not event.names and event.topic != known.topic:
            self._findings.append(f"{label} came, and is not wanted")

    # ── the verdict ───────────────────────────────────────────────────────────────────────────

    def findings(self) -> list[str]:
        """Judge all that was noted."""
        if not any(client.got for client in self._clients.values()):
            return ["no event came at all"]
        missing, strayed = [], []
        for ident, event in enumerate(self.events):
            home = self._home(event)
            if home is None:
                continue
            for name, client in self._clients.items():
                if ident not in client.got:
                    if self._is_owed(event, home, client):
                        missing.append(f"{self._label(ident, name)} did not come")
                elif event.near and self._has_strayed(event, home, *client.got[ident]):
                    strayed.append(f"{self._label(ident, name)} came from another cluster")
        return [*self._findings, *strayed, *self._of_groups(), *missing]

    def _of_groups(self) -> list[str]:
        found = []
        for group, members in self._groups().items():
            for ident, event in enumerate(self.events):
                home = self._home(event)
                if event.names or event.topic != members[0].topic or home is None:
                    continue
                is_calm = self._is_calm(event.at - CALM_NS, home.at + AFTER_NS)
                if not (is_calm or self._groups_in_change):
                    continue
                label, came = self._label(ident, group), sum(ident in m.got for m in members)
                if came > 1 and home.broker == event.broker:
                    found.append(f"{label} came to {came} members")
                elif (
                    is_calm
                    and not event.near
                    and all(self._stays(event, home, each) for each in members)
                ):
                    found += [] if came else [f"{label} came to no member"]
        return found

    def _groups(self) -> Mapping[str, Sequence[_Client]]:
        found: dict[str, list[_Client]] = defaultdict(list)
        for client in self._clients.values():
            if client.group:
                found[client.group].append(client)
        return found

    def _home(self, event: Sent) -> _Home | None:
        """Return which broker has taken an event; None: none that lives on, or it is in doubt."""
        if (event.publisher, event.number) in self.refused:
            return None
        if any(span.since <= event.at <= span.until for span in self._doubts):
            return None
        for number, broker, at in self._homes[event.publisher]:
            if number >= event.number:
                lives = any(s.since <= at and at + AFTER_NS <= s.until for s in self._lives[broker])
                is_there = self._is_in_place(broker, event.at - BEFORE_NS, at)
                return _Home(broker, at) if lives and is_there else None
        return None

    # ── who is owed an event ──────────────────────────────────────────────────────────────────

    def _is_owed(self, event: Sent, home: _Home, client: _Client) -> bool:
        if event.names:
            is_named = client.name in event.names and self._stays(event, home, client)
            return is_named and self._is_calm(event.at - BEFORE_NS, home.at + AFTER_NS)
        if client.topic != event.topic or client.group or event.at < client.since + BEFORE_NS:
            return False
        since, until = event.at - BEFORE_NS, home.at + AFTER_NS
        stays = [each for each in client.stays if each[1].meets(since, until)]
        if not stays or self._is_without(client, since, until):
            return False
        for broker, span in stays:
            at = max(span.since, since)
            if not self._are_together(home.broker, broker, since, until):
                return False
            if span.since > since and not self._is_in_place(broker, at - NEW_NS, at):
                return False  # it came to a broker that is new itself
            if event.near and self._share(home.broker, broker, since, until) is not True:
                return False
        return True

    def _stays(self, event: Sent, home: _Home, client: _Client) -> bool:
        """Say whether it is at one broker all the time, which lives on with that of the event."""
        since, until = event.at - BEFORE_NS, home.at + AFTER_NS
        stays = [each for each in client.stays if each[1].meets(since, until)]
        if event.at < client.since + BEFORE_NS or len(stays) != 1:
            return False
        broker, span = stays[0]
        return (
            span.since <= since
            and span.until > until
            and self._is_in_place(broker, since, until)
            and self._are_together(home.broker, broker, since, until)
        )

    def _is_without(self, client: _Client, since: Nanos, until: Nanos) -> bool:
        """Say whether a client had no broker for long, or none in the end."""
        spans = [span for _, span in client.stays]
        gaps = zip(spans, [*(span.since for span in spans[1:]), FOREVER], strict=True)
        return any(
            here.until < FOREVER
            and Span(here.until, there).meets(since, until)
            and there - here.until > DETACHED_NS
            for here, there in gaps
        )

    def _is_in_place(self, broker: str, since: Nanos, until: Nanos) -> bool:
        return any(span.since <= since and until <= span.until for span in self._stands[broker])

    def _are_together(self, one: str, other: str, since: Nanos, until: Nanos) -> bool:
        """Say whether nothing was between two brokers."""
        return not any(
            span.meets(since, until)
            and ((one in some and other in others) or (one in others and other in some))
            for some, others, span in self._apart
        )

    # ── where brokers stand ───────────────────────────────────────────────────────────────────

    def _has_strayed(self, event: Sent, home: _Home, at: Nanos, broker: str) -> bool:
        """Say whether an event that was to stay in its cluster has come to a broker of another."""
        shares = self._share(home.broker, broker, event.at - BEFORE_NS, at + BEFORE_NS)
        return shares is False and home.broker == event.broker

    def _share(self, one: str, other: str, since: Nanos, until: Nanos) -> bool | None:
        """Say whether two brokers are in one cluster all the time; None: either has changed."""
        here, there = (self._cluster(each, since, until) for each in (one, other))
        return None if here is None or there is None else here == there

    def _cluster(self, broker: str, since: Nanos, until: Nanos) -> object:
        known = None
        for at, cluster in self._places[broker]:
            if since < at <= until:
                return None
            known = cluster if at <= since else known
        return known

    def _is_calm(self, since: Nanos, until: Nanos) -> bool:
        """Say whether there is one cluster, or nothing befell brokers, nor any cluster.

        Clusters choose members of a group by what they know of each other, and events for named
        clients may be under way between them.
        """
        stays = [cluster for places in self._places.values() for _, cluster in places]
        if len({*stays} - {None}) == 1:
            return True
        spans = [span for stands in self._stands.values() for span in stands]
        apart = [span for _, _, span in self._apart]
        moments = [at for places in self._places.values() for at, _ in places]
        moments += [end for span in (*spans, *apart) for end in (span.since, span.until)]
        if any(span.meets(since, until) for span in apart):
            return False
        return not any(since < at <= until for at in moments)

    def _label(self, ident: int, name: str) -> str:
        event = self.events[ident]
        kind = "near " if event.near else "named " if event.names else ""
        at, broker = event.at / NANOS_PER_SECOND, short(event.broker)
        return f"{kind}event {event.number} of {event.publisher} [{at:.3f} s at {broker}] at {name}"


def _begin(spans: list[Span], at: Nanos) -> None:
    if not spans or spans[-1].until < FOREVER:
        spans.append(Span(at))


def _end(spans: list[Span], at: Nanos) -> None:
    if spans and spans[-1].until == FOREVER:
        spans[-1].until = at
