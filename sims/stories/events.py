"""Stories of whole brokers whose events flow while links and brokers fail.

Each broker has a subscriber, some have publishers. The seed decides whether brokers hold identities
and secure events flow among the others, and whether express events do. The verdict is
:mod:`sims.verdicts.deliveries`.
"""

from __future__ import annotations

import random
from collections.abc import Collection

from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, nanos
from overlay.rng import rng_for
from overlay.trace_schema import Fate, Why
from ring.facts import Rejoining
from sims.experiments.forgers import Claim, Forger
from sims.experiments.service import Service
from sims.verdicts.judged import Verdict
from sims.workloads.traffic import Flowing
from sims.world.cuts import Cut
from sims.world.world import CrashMode

RATE = 10.0  #: events a second of each publisher
PARK_MS = 20_000  #: a secure event waits so long for an all-secure path
LONGEST_S = 5.0  #: a flap may hold an event up for so long
MERGE_S = 1.0  #: events published so long after a ring is one again may not come to all
FORGERS = 6
TOPICS = 40
LATE_S = 0.5  #: a connection that is late is so for up to so many seconds


def event_flaps(seed: int) -> list[str]:
    """Events flow while links are cut, stall and are late: each comes once, in order, in time."""
    rng = rng_for(seed, "stories", "event-flaps")
    service = flowing(rng, seed, size=rng.randint(2, 6), publishers=3)
    service.deliveries.express_in_order = False
    end = service.timeline.now + nanos(6)
    while service.timeline.now < end:
        service.run(rng.uniform(0.1, 0.7))
        struck = service.alive if rng.random() < 0.2 else [rng.choice(service.alive)]
        mode = rng.choice((Cut.BROKEN, Cut.CLOSED, Cut.SHORT, Cut.LATE))
        for uid in struck:
            _strike(service, rng, uid, mode, share=1.0 if len(struck) > 1 else 0.5)
    verdict = service.finish()
    if verdict.longest_ns > nanos(LONGEST_S):
        seconds = verdict.longest_ns / NANOS_PER_SECOND
        verdict.findings.append(f"an event took {seconds:.3f} s")
    return _findings(service, verdict)


def event_halves(seed: int) -> list[str]:
    """A ring is cut in two for a while: in each half events come as ever, and later in both."""
    rng = rng_for(seed, "stories", "event-halves")
    size = rng.randint(4, 9)
    service = flowing(rng, seed, size=size, publishers=3)
    service.deliveries.express_in_order = False
    order = rng.sample(service.uids, size)
    at = rng.randint(1, size - 1)
    here, there = order[:at], order[at:]
    service.run(2)
    since = service.timeline.now
    service.part([here, there], rng.choice((Cut.SILENT, Cut.LATE, Cut.BROKEN)))
    service.run(rng.uniform(3, 12))
    mended = service.timeline.now
    service.heal()
    service.rest()
    until = service.timeline.now + nanos(MERGE_S)
    service.run(MERGE_S + 3)
    for some, others in ((here, there), (there, here)):
        service.excuse(Why.APART, since - nanos(1), some, others, until)
    # Brokers cross one by one: until then, one that has is apart from the rest of its half.
    service.excuse(Why.APART, mended, None, None, until)
    return _findings(service, service.finish())


def event_isolations(seed: int) -> list[str]:
    """A broker is cut off again and again: the others keep their places, and miss nothing."""
    rng = rng_for(seed, "stories", "event-isolations")
    service = flowing(rng, seed, size=rng.randint(4, 9), publishers=3)
    service.deliveries.express_in_order = False
    victim = rng.choice(service.uids)
    others = [uid for uid in service.uids if uid != victim]
    mode = rng.choice((Cut.SILENT, Cut.LATE, Cut.BROKEN))
    service.run(rng.uniform(1, 6))
    since = service.timeline.now
    for _ in range(3):
        service.part([[victim], others], mode)
        service.run(rng.uniform(0.5, 5))
        service.heal()
        service.run(rng.uniform(1, 6))
    service.rest()
    until = service.timeline.now + nanos(MERGE_S)
    service.run(MERGE_S + 3)
    service.excuse(Why.APART, since - nanos(1), [victim], None, until)
    service.excuse(Why.APART, since - nanos(1), None, [victim], until)
    anew = [f"{uid[:8]} joined anew: {why}" for uid, why in _rejoined(service, since, others)]
    return anew + _findings(service, service.finish())


def event_kills(seed: int) -> list[str]:
    """Brokers are killed, lose power, leave and are back: their clients move, and miss no more."""
    rng = rng_for(seed, "stories", "event-kills")
    service = flowing(rng, seed, size=rng.randint(4, 9), publishers=3)
    service.deliveries.express_in_order = False
    for _ in range(3):
        service.run(rng.uniform(1, 5))
        uid = rng.choice(service.alive)
        verb = rng.choice(("kill", "power", "leave"))
        if verb == "leave":
            service.leave(uid)
        else:
            service.crash(uid, CrashMode(verb))
        if rng.random() < 0.5:
            service.run(rng.choice((0.01, 1.0, 4.0)))
            if uid not in service.alive:
                service.start([other for other in service.alive if other != uid][:3], uid)
    service.run(6)
    return _findings(service, service.finish())


def event_freezes(seed: int) -> list[str]:
    """Brokers stand still for a moment, or so long that all leave them: nobody misses anything."""
    rng = rng_for(seed, "stories", "event-freezes")
    service = flowing(rng, seed, size=rng.randint(4, 9), publishers=3)
    service.deliveries.express_in_order = False
    for _ in range(3):
        service.run(rng.uniform(1, 4))
        seconds = rng.uniform(0.05, 0.6) if rng.random() < 0.4 else rng.uniform(2.5, 5)
        service.pause(rng.choice(service.uids), seconds)
        service.run(seconds)
    service.run(6)
    return _findings(service, service.finish())


def event_roams(seed: int) -> list[str]:
    """Clients move and new ones subscribe while brokers join: who is served misses nothing."""
    rng = rng_for(seed, "stories", "event-roams")
    service = flowing(rng, seed, size=rng.randint(4, 8), publishers=3, everywhere=False)
    service.deliveries.express_in_order = False
    for _ in range(8):
        service.run(rng.uniform(0.1, 1.2))
        act = rng.random()
        if act < 0.4:
            service.subscribe(rng.choice(service.alive))
        elif act < 0.8:
            client = rng.choice(service.clients)
            client.move(service.brokers[rng.choice(service.alive)].url)
        else:
            service.start(rng.sample(service.alive, 2))
    service.run(3)
    return _findings(service, service.finish())


def event_topics(seed: int) -> list[str]:
    """Each subscriber wants a topic of its own, seldom published: it misses nothing once served."""
    rng = rng_for(seed, "stories", "event-topics")
    service = Service.ring_of(rng.randint(4, 8), seed)
    topics = tuple(f"t{number}" for number in range(TOPICS))
    for _ in range(3):
        service.publish(rng.choice(service.uids), Flowing(rate=100, topics=topics))
    for topic in topics:
        service.subscribe(rng.choice(service.alive), topic)
        service.run(rng.expovariate(1 / 0.1))
        if rng.random() < 0.1:
            service.start(rng.sample(service.alive, 2))
    service.run(2)
    return _findings(service, service.finish())


def event_forgeries(seed: int) -> list[str]:
    """False brokers tell all around a healthy one that it is dead: it stays where it is.

    With some seeds they say that they stand beside it.
    """
    rng = rng_for(seed, "stories", "event-forgeries")
    service = flowing(rng, seed, size=rng.randint(5, 9), publishers=3)
    claim = Claim.NOWHERE if seed % 4 == 0 else Claim.BESIDE
    return forge(service, rng.choice(service.uids), 10.0, claim) + _findings(
        service, service.finish()
    )


def forge(service: Service, victim: str, seconds: float, claim: Claim) -> list[str]:
    """Let six false brokers forge the death of ``victim``; returns who lost its place by that."""
    ring = service.brokers[victim].node.ring
    around = [member.uid for member in (*ring.left, *ring.right)]
    others = [uid for uid in service.uids if uid != victim and uid not in around]
    since = service.timeline.now
    for number, target in enumerate([*around, victim, *others, *around][:FORGERS]):
        Forger(service, number, target, victim, claim).go_on(seconds)
        service.run(0.1)
    service.run(seconds)
    return [
        f"{uid[:8]} lost its place, as false brokers told of a death: {why}"
        for uid, why in _rejoined(service, since, service.uids)
    ]


def _rejoined(service: Service, since: Nanos, whose: Collection[str]) -> list[tuple[str, str]]:
    """Return which of these brokers lost their places since then, and why."""
    return [
        (uid, fact.reason)
        for at, uid, fact in service.facts
        if at >= since and uid in whose and isinstance(fact, Rejoining)
    ]


def flowing(
    rng: random.Random, seed: int, size: int, publishers: int, *, everywhere: bool = True
) -> Service:
    """Return a ring with publishers at some brokers, and a subscriber at each, or at two."""
    secure = rng.random() < 0.4
    express = rng.random() < 0.4
    service = Service.ring_of(size, seed, secure=secure)
    if everywhere:
        service.subscribe_everywhere()
    else:
        for uid in rng.sample(service.uids, 2):
            service.subscribe(uid)
        service.run(0.5)
    classes: list[LinkClass] = [LinkClass.NORMAL]
    if secure:
        classes.append(LinkClass.SECURE)
    if express:
        classes.append(LinkClass.EXPRESS)
    for number in range(publishers):
        link_class = classes[number % len(classes)]
        park_ms = PARK_MS if link_class.may_wait else 0
        what = Flowing(rate=RATE, link_class=link_class, park_ms=park_ms)
        service.publish(rng.choice(service.uids), what)
    service.run(1)
    return service


def _strike(service: Service, rng: random.Random, uid: str, mode: Cut, share: float) -> None:
    """Harm about a share of the connections of a broker to others."""
    broker = service.brokers[uid]
    for other in service.alive:
        if other == uid or rng.random() >= share:
            continue
        service.network.harm(broker, service.brokers[other], mode)
        if mode is Cut.LATE:
            service.timeline.at(
                service.timeline.now + nanos(rng.uniform(0.01, LATE_S)),
                service.network.mend,
                broker,
                service.brokers[other],
            )


def _findings(service: Service, verdict: Verdict) -> list[str]:
    if not service.is_whole:
        verdict.findings.append("the ring is not whole in the end")
    if not verdict.fates[Fate.ONCE]:
        verdict.findings.append("no event came at all")
    return verdict.findings
