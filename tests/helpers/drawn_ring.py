"""Pictures of rings that nobody runs, for the live page: of any size, with links of all classes."""

from __future__ import annotations

import random

from ges.http.picture import BrokerPicture, IncidentPicture, LinkPicture, Picture, State
from overlay.ids import LinkClass
from overlay.multigraph.graph import ends
from overlay.trace_schema import Verdict

CLUSTER = 50  #: brokers of one cluster
CLUSTERS = 2  #: of one super-cluster


def drawn_ring(size: int, seed: int = 1) -> Picture:
    """Return the picture of a ring at rest, some events passing, one death a while ago."""
    rng = random.Random(seed)
    uids = [f"{rng.getrandbits(128):032x}" for _ in range(size)]
    links: dict[tuple[str, str, LinkClass], LinkPicture] = {}

    def link(a: int, b: int, link_class: LinkClass, events_per_s: float = 0.0) -> None:
        one, other = uids[a % size], uids[b % size]
        if one == other:
            return
        key = (*ends(one, other), link_class)
        links.setdefault(
            key,
            LinkPicture(
                a=key[0],
                b=key[1],
                link_class=link_class,
                rtt_ms=round(rng.uniform(0.1, 8), 3),
                jitter_ms=round(rng.random(), 3),
                cost_ms=round(rng.uniform(0.1, 9), 3),
                traffic=rng.randrange(100_000),
                events_per_s=events_per_s,
            ),
        )

    for at in range(size):
        link(at, at + 1, LinkClass.NORMAL, rng.choice([0.0, 5.0, 200.0, 1200.0]))
        link(at, at + 2, LinkClass.NORMAL, rng.choice([0.0, 0.0, 40.0]))
        step = 4
        while step <= size // 2:
            link(at, at + step, LinkClass.NORMAL)
            step *= 2
        if rng.random() < 0.4:
            link(at, at + 1, LinkClass.EXPRESS, 30.0)
        if rng.random() < 0.3:
            link(at, at + rng.choice([1, 2]), LinkClass.SECURE)
    brokers = tuple(_broker(uid, at, size, rng) for at, uid in enumerate(uids))
    died = IncidentPicture(
        uid=f"{rng.getrandbits(128):032x}",
        verdict=Verdict.BROKER_FAILED,
        ago_s=12.5,
        detected_s=0.021,
        repaired_s=0.143,
        observers=4,
    )
    return Picture(
        broker=uids[0],
        overlay="chordal",
        is_whole=True,
        brokers=brokers,
        links=tuple(links.values()),
        incidents=(died,),
    )


def _broker(uid: str, at: int, size: int, rng: random.Random) -> BrokerPicture:
    cluster, slot = divmod(at, CLUSTER)
    return BrokerPicture(
        uid=uid,
        incarnation=1,
        url=f"chordal://10.0.{at // 64}.{at % 64}:9470",
        place=at / size,
        state=State.ALIVE,
        address=f"0.{cluster // CLUSTERS}.{cluster % CLUSTERS}.{slot}",
        degree=8,
        version="0.1.0",
        uptime_s=3600.0,
        clients=rng.randrange(30),
        subscriptions=4,
        published_per_s=float(rng.randrange(200)),
        delivered_per_s=300.0,
        told_s=0.2,
    )
