"""Stories of whatever may befall brokers, in any mixture: those that live on together miss nothing.

Clients want a topic, everywhere or as members of a queue group; others have names. All that is
published is for some of them, and a judge from outside says who is owed it
(:mod:`sims.verdicts.survivors`).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from ges.units.facts import Addressed, Unaddressed
from ges.wire.events import Options
from ges.wire.names import name_filter
from ges.wire.realms import Realm
from overlay.ids import LinkClass, nanos
from overlay.machine import Fact
from overlay.rng import rng_for
from ring.facts import Joined, Left, Rejoining
from sims.experiments.service import Service
from sims.verdicts.survivors import Sent, Survivors
from sims.workloads.witnesses import Witness
from sims.world.clients import SimulatedClient
from sims.world.cuts import Cut
from sims.world.world import CrashMode

PUBLISHERS = 4
PAUSE_S = 0.1  #: between two events of one publisher
NAMES = ("ann", "bob")
MEMBERS = 3  #: of the queue group
FAULTS = 6
LIMIT = 3  #: of units, in an overlay of several clusters
MERGE_S = 1.0  #: events published so long after a ring is one again may not come to all
SETTLE_S = 12.0
FEWEST = 3  #: brokers that are left alone


def event_survivors(seed: int) -> list[str]:
    """One cluster: kills, quick returns, halves, cuts, freezes, leaves, joins; nothing is lost."""
    rng = rng_for(seed, "stories", "event-survivors")
    return _played(Service.ring_of(rng.randint(5, 9), seed), rng, Survivors())


def unit_survivors(seed: int, *, groups_in_change: bool = False) -> list[str]:
    """The same, where there are several clusters, which change.

    ``groups_in_change``: queue groups are judged in the midst of that, too.
    """
    rng = rng_for(seed, "stories", "unit-survivors")
    judge = Survivors(groups_in_change=groups_in_change)
    return _played(Service.of_clusters(rng.randint(7, 10), LIMIT, seed), rng, judge)


class _Scene:
    """An overlay with its clients, and the judge who is told of all that happens."""

    def __init__(self, service: Service, rng: random.Random, judge: Survivors) -> None:
        self.service = service
        self.rng = rng
        self.judge = judge
        self.publishers: list[tuple[Witness, SimulatedClient]] = []
        self.goes_on = True
        service.on_fact = self._on_fact
        for uid in service.alive:
            self.judge.joined(uid, 0)
            address = service.brokers[uid].node.units.address
            self.judge.stands(uid, address and address.numbers[:3], 0)

    def attend(self, uid: str, **wants: str) -> SimulatedClient:
        """Attach a client that wants something."""
        name = f"c{len(self.service.clients)}"
        witness = Witness(name, self.service.timeline, self.judge)
        client = self.service.attach(uid, name, witness)
        if named := wants.get("name"):
            client.subscribe(name_filter(named))
        elif topic := wants.get("topic"):
            client.subscribe(topic, queue=wants.get("group"))
        else:
            self.publishers.append((witness, client))
            return client
        self.judge.wants(name, self.service.timeline.now, **wants)
        return client

    def publish(self, at: int) -> None:
        """Let a publisher publish for ever, each time for others."""
        if not self.goes_on:
            return
        (witness, client), rng = self.publishers[at], self.rng
        draw, now = rng.random(), self.service.timeline.now
        names = (rng.choice(NAMES),) if draw < 0.15 else ()
        near = 0.15 <= draw < 0.3
        number = client.state.outgoing[LinkClass.NORMAL].sequence + 1
        ident = len(self.judge.events)
        options = Options(to=names, realm=Realm.CLUSTER if near else Realm.ALL)
        if client.publish("t", [b"%d" % ident], options=options):
            sent = Sent(witness.name, number, now, witness.broker, "t", near, names)
            self.judge.published(sent)
        self.service.timeline.at(now + nanos(PAUSE_S), self.publish, at)

    # ── faults ────────────────────────────────────────────────────────────────────────────────

    def strike(self) -> None:
        """Let one thing happen, and whatever follows from it."""
        many = len(self.service.alive) > FEWEST
        faults: list[Callable[[], object]] = [self.cut_links, self.freeze, self.part, self.join]
        faults += [self.kill, self.return_soon, self.leave] if many else []
        self.rng.choice(faults)()

    def kill(self) -> str:
        """A broker dies; returns its uid."""
        uid = self.rng.choice(self.service.alive)
        self.judge.ended(uid, self.service.timeline.now)
        self.service.crash(uid, self.rng.choice((CrashMode.KILL, CrashMode.POWER)))
        return uid

    def return_soon(self) -> None:
        """A broker dies, and is back in a later life before others are sure of that."""
        uid = self.kill()
        self.service.run(self.rng.choice((0.01, 0.3, 1.0, 4.0)))
        self.service.start(self.rng.sample(self.service.alive, 2), uid)

    def leave(self) -> None:
        """A broker leaves in good order."""
        self.service.leave(self.rng.choice(self.service.alive))

    def join(self) -> None:
        """A broker joins."""
        self.service.start(self.rng.sample(self.service.alive, 2))

    def freeze(self) -> None:
        """A broker stands still, for a moment or for so long that others hold it for dead."""
        seconds = self.rng.choice((self.rng.uniform(0.05, 0.6), self.rng.uniform(2.5, 5)))
        self.service.pause(self.rng.choice(self.service.alive), seconds)

    def cut_links(self) -> None:
        """Some links of a broker are harmed; those that are late catch up."""
        service, rng = self.service, self.rng
        uid = rng.choice(service.alive)
        mode = rng.choice((Cut.BROKEN, Cut.CLOSED, Cut.SHORT, Cut.LATE))
        for other in service.alive:
            if other != uid and rng.random() < 0.5:
                pair = service.brokers[uid], service.brokers[other]
                service.network.harm(*pair, mode)
                if mode is Cut.LATE:
                    at = service.timeline.now + nanos(rng.uniform(0.01, 0.5))
                    service.timeline.at(at, service.network.mend, *pair)

    def part(self) -> None:
        """All are cut into two halves, which grow together again."""
        service, rng = self.service, self.rng
        order = rng.sample(service.alive, len(service.alive))
        at = rng.randint(1, len(order) - 1)
        here, there = order[:at], order[at:]
        span = self.judge.separated(here, there, service.timeline.now)
        service.part([here, there], rng.choice((Cut.SILENT, Cut.LATE, Cut.BROKEN)))
        service.run(rng.uniform(1, 10))
        mended = service.timeline.now
        service.heal()
        service.rest()
        span.until = service.timeline.now + nanos(MERGE_S)
        self.judge.doubted(mended, span.until)

    def _on_fact(self, uid: str, fact: Fact) -> None:
        now, judge = self.service.timeline.now, self.judge
        if isinstance(fact, Joined):
            judge.joined(uid, now)
        elif isinstance(fact, Rejoining):
            judge.displaced(uid, now)
        elif isinstance(fact, Left):
            judge.ended(uid, now)
        elif isinstance(fact, Addressed):
            judge.stands(uid, fact.address.numbers[:3], now)
        elif isinstance(fact, Unaddressed):
            judge.stands(uid, None, now)


def _played(service: Service, rng: random.Random, judge: Survivors) -> list[str]:
    scene = _Scene(service, rng, judge)
    for uid in service.alive:
        scene.attend(uid, topic="t")
    for _ in range(MEMBERS):
        scene.attend(rng.choice(service.alive), topic="t", group="g")
    for name in NAMES:
        scene.attend(rng.choice(service.alive), name=name)
    for _ in range(PUBLISHERS):
        scene.attend(rng.choice(service.alive))
    service.run(2)
    for at in range(PUBLISHERS):
        scene.publish(at)
    service.run(3)
    for _ in range(FAULTS):
        scene.strike()
        service.run(rng.uniform(0.3, 6))
    service.run(4)
    scene.goes_on = False
    verdict = service.finish(settle_s=SETTLE_S)
    found = scene.judge.findings()
    if not service.is_whole:
        found.append("the ring is not whole in the end")
    return [*verdict.findings, *found]
