"""Keeps a picture of the whole ring, as long as somebody watches.

A broker itself knows who is on the ring (the members of its cluster) and the links two steps far.
The rest it asks the others for, as a client of each: what links they have, how many events go over
them, whom they suspect. Nobody is asked while nobody watches. Where a ring is large each broker is
asked more seldom, so that all together answer no more often than ASKED_PER_SECOND.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import trio

from ges.broker import Broker
from ges.client import connect
from ges.errors import ConnectionLost
from ges.http.assembly import Heard, brokers_of, declared_dead, known_members, links_of
from ges.http.fallen import Fallen
from ges.http.incident_book import IncidentBook
from ges.http.picture import LinkPicture, Picture, State
from ges.http.sightings import Sighting
from ges.wire.status import Status
from overlay.address import Address, parse_url
from overlay.errors import ChordalError
from overlay.ids import LinkClass
from overlay.machine import Fact
from overlay.trace_schema import Incident
from ring.facts import NeighboursChanged, Suspected
from ring.wire.messages import Member

TICK_S = 0.25  #: between two pictures, in a ring of up to SMALL brokers; beyond that longer
SMALL = 40
HASTE_S = 0.05  #: between two pictures, at least
ASK_S = 0.5  #: between two questions to the same broker, at least, unless something has happened
ASKED_PER_SECOND = 60
HURRY = 10  #: times as often when something has happened
ANSWER_S = 2.0  #: for a broker to answer
RETRY_S = 0.5  #: after it did not
LINGER_S = 5.0  #: that others are still asked once nobody watches: a page that is loaded anew
MAX_ASKED = 256  #: brokers
MAX_DEAD = 1024  #: deaths remembered


class Observer:
    """Asks all brokers of the ring while somebody watches; run by :meth:`run`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._watchers = 0
        self._watched = trio.Event()
        self._news = trio.Event()  #: something has happened: look at once
        self._drawn = trio.Event()  #: there is a newer picture
        self._version = 0
        self._data = b""
        self._sightings: dict[str, Sighting] = {}
        self._silent: set[str] = set()
        self._asked: set[str] = set()
        self._dead: dict[str, int] = {}
        self._fallen = Fallen()
        self._book = IncidentBook()
        broker.watch(self._on_fact)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Have the ring watched for the length of the block."""
        self._watchers += 1
        self._watched.set()
        try:
            yield
        finally:
            self._watchers -= 1

    async def newer(self, version: int) -> tuple[int, bytes]:
        """Wait for a picture after the one of that version; returns it in JSON, and its version."""
        while self._version <= version or not self._data:
            await self._drawn.wait()
        return self._version, self._data

    async def settled(self) -> bytes:
        """Return a picture for which all brokers have been asked, or as many as answer soon."""
        with self.watching():
            version, data = await self.newer(self._version)
            with trio.move_on_after(ANSWER_S):
                while self._asked - self._sightings.keys() - self._silent:
                    version, data = await self.newer(version)
        return data

    async def run(self) -> None:
        """Watch whenever somebody wants it."""
        while True:
            await self._watched.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look, nursery)
                await self._nobody()
                nursery.cancel_scope.cancel()
            self._watched = trio.Event()
            self._data = b""
            self._sightings.clear()
            self._silent.clear()
            self._fallen = Fallen()

    # ── looking ───────────────────────────────────────────────────────────────────────────────

    async def _nobody(self) -> None:
        """Wait until nobody has watched for a while."""
        idle_s = 0.0
        while idle_s < LINGER_S:
            await trio.sleep(1)
            idle_s = 0.0 if self._watchers else idle_s + 1

    async def _look(self, nursery: trio.Nursery) -> None:
        while True:
            if self._broker.is_composed:
                if self._news.is_set():  # otherwise others wait for it
                    self._news = trio.Event()
                self._note(self._broker.status())
                heard = self._heard()
                for member in known_members(heard).values():
                    if self._is_to_be_asked(member):
                        self._asked.add(member.uid)
                        nursery.start_soon(self._follow, member)
                self._draw(heard)
            await trio.sleep(HASTE_S)
            size = len(self._asked)
            with trio.move_on_after(TICK_S * max(1.0, size / SMALL) - HASTE_S):
                await self._news.wait()

    async def _follow(self, member: Member) -> None:
        """Ask a broker again and again, until it is dead or nobody knows it any more."""
        uid = member.uid
        found: Member | None = member
        try:
            while found is not None:
                try:
                    await self._ask(found)
                except* (ChordalError, trio.TooSlowError):  # it may be cancelled as well
                    self._lose(uid)
                await trio.sleep(RETRY_S)
                found = self._known(uid)  # in a later life it may have another address
        finally:
            self._asked.discard(uid)
            self._silent.discard(uid)
            self._sightings.pop(uid, None)
            self._book.forget(uid)

    async def _ask(self, member: Member) -> None:
        """Ask a broker over one connection, as long as that lasts.

        Raises:
            ChordalError: it cannot be reached, or the connection broke.
            trio.TooSlowError: it does not answer.
        """
        address = parse_url(member.peer.url)
        identity = self._broker.config.identity if member.peer.secure else None
        async with connect(
            Address(address.host, address.port, tls=identity is not None).url,
            identity=identity,
            overlay=self._broker.config.overlay,
            timeout=ANSWER_S,
            reattach=False,
            on_waiting=lambda words: None,
        ) as client:
            while True:
                with trio.fail_after(ANSWER_S):
                    status = await client.status()
                if status.uid != member.uid:
                    raise ConnectionLost(f"{member.peer.url}: another broker answers there")
                self._silent.discard(member.uid)
                self._note(status)
                news, pause = self._news, len(self._asked) / ASKED_PER_SECOND
                await trio.sleep(max(HASTE_S, pause / HURRY))
                with trio.move_on_after(max(ASK_S, pause)):
                    await news.wait()

    def _on_fact(self, fact: Fact, incident: Incident | None) -> None:
        if self._watched.is_set() and (incident or isinstance(fact, Suspected | NeighboursChanged)):
            self._news.set()

    def _lose(self, uid: str) -> None:
        self._silent.add(uid)
        self._sightings.pop(uid, None)
        self._news.set()

    def _note(self, status: Status) -> None:
        now = trio.current_time()
        before = self._sightings.get(status.uid)
        if before is None:
            is_asked = status.uid != self._broker.node.peer.uid
            self._sightings[status.uid] = Sighting(status, now, is_asked)
        else:
            self._sightings[status.uid] = before.follow(status, now)
        self._book.hear(status, now)
        is_news = before is None or before.status.suspects != status.suspects
        for uid, life in declared_dead(status).items():
            if life > self._dead.get(uid, -1):
                self._dead[uid] = life
                is_news = True
        while len(self._dead) > MAX_DEAD:
            del self._dead[next(iter(self._dead))]
        if is_news:
            self._news.set()

    # ── what is known ─────────────────────────────────────────────────────────────────────────

    def _heard(self) -> Heard:
        node = self._broker.node
        return Heard(
            self._sightings,
            node.units.members,
            frozenset(self._silent),
            {c: [*node.gateways.states.edges(c, node.gateways.slots)] for c in LinkClass},
            trio.current_time(),
            node.units.cluster or (0, 0, 0),
        )

    def _is_to_be_asked(self, member: Member) -> bool:
        is_other = member.uid != self._broker.node.peer.uid and member.uid not in self._asked
        return is_other and len(self._asked) < MAX_ASKED and not self._is_dead(member)

    def _is_dead(self, member: Member) -> bool:
        return self._dead.get(member.uid, -1) >= member.incarnation

    def _known(self, uid: str) -> Member | None:
        """Return a broker in its present life; None: it is dead, or nobody knows it."""
        member = known_members(self._heard()).get(uid)
        return None if member is None or self._is_dead(member) else member

    def _draw(self, heard: Heard) -> None:
        links = links_of(heard)
        brokers = brokers_of(heard, self._dead, _degrees(links))
        on_ring = {broker.uid for broker in brokers if broker.state is not State.DEAD}
        node = self._broker.node
        picture = Picture(
            broker=node.peer.uid,
            overlay=self._broker.config.overlay,
            is_whole=node.ring.is_whole,
            brokers=tuple(self._fallen.sort(brokers, self._dead, heard.now)),
            links=tuple(link for link in links if link.a in on_ring and link.b in on_ring),
            incidents=self._book.pictures(heard.now),
        )
        self._data = msgspec.json.encode(picture)
        self._version += 1
        drawn, self._drawn = self._drawn, trio.Event()
        drawn.set()


def _degrees(links: list[LinkPicture]) -> Counter[str]:
    normal = [link for link in links if link.link_class.is_base and not link.failed]
    return Counter(uid for link in normal for uid in (link.a, link.b))
