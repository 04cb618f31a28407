"""Stories of units that change out of sight: in doubt events come to all who may want them.

An overlay has two super-super-clusters, ``eu`` and ``us``. Clusters in ``eu`` change, and ``us`` is
told of that by statements alone: its own units are the same as before, so events that are published
there go on to name ``eu`` and nobody else.

In two of the stories each publisher publishes one event, so no later event of it shows that one is
missing, and nobody asks for it.
"""

from __future__ import annotations

from ges.units.planner import UnitsConfig
from ges.units.unit_names import parse_unit
from overlay.ids import nanos
from overlay.rng import rng_for
from sims.experiments.service import UNITS_PAUSE_NS, Service
from sims.workloads.traffic import Flowing

HERE, THERE = parse_unit("us"), parse_unit("eu")
FEW = 4  #: the limit of units, where brokers are to wait for slots ...
HALF = 8  #: ... and where a cluster is split before it is full, so that nobody waits
RATE = 30.0  #: events a second on each topic
JOINING_S = 0.2  #: between two brokers that join at once
KNOWN_S = 1.5  #: until all hear that brokers wait: a third of a second for each of three levels
BEFORE_S, AFTER_S = 0.3, 2.0  #: a broker joins, and then its cluster is split
CALM_S = 5.0  #: all that was published has come by then


def unit_doubts(seed: int) -> list[str]:
    """A cluster far away is split: nobody knows at once what its halves want, and all comes."""
    rng = rng_for(seed, "stories", "unit-doubts")
    service, source = _two_worlds(6, HALF, seed)
    there = _there(service)
    for uid in there:
        service.subscribe(uid)
    service.run(2)
    _say(service, source, BEFORE_S, 0.01)
    service.start((rng.choice(there),), unit=THERE)
    _say(service, source, AFTER_S, 0.01)
    service.run(CALM_S)
    clusters = {service.brokers[uid].node.units.cluster for uid in there}
    if len(clusters) != 2:
        return [f"the cluster of 7 was split into {len(clusters)}"]
    return service.finish(CALM_S).findings


def unit_waits(seed: int) -> list[str]:
    """More brokers join far away than there are slots: as long as some wait, all comes to all."""
    rng = rng_for(seed, "stories", "unit-waits")
    service, source = _two_worlds(8, FEW, seed)
    there = _there(service)
    for uid in there:
        service.subscribe(uid)
    service.run(2)
    for _ in range(8):
        uid = service.start((rng.choice(there),), unit=THERE)
        service.run(JOINING_S)
        service.subscribe(uid)
    service.run(KNOWN_S)
    _say(service, source, 3.0, 0.05)
    service.run(CALM_S)
    return service.finish(CALM_S).findings


def unit_floods(seed: int) -> list[str]:
    """More brokers join far away than there are slots, while events flow: nothing is lost."""
    rng = rng_for(seed, "stories", "unit-floods")
    service, source = _two_worlds(7, FEW, seed)
    there = _there(service)
    topics = tuple(f"t{number}" for number in range(len(there)))
    for uid, topic in zip(there, topics, strict=True):
        service.subscribe(uid, topic)
    service.run(1.5)
    service.publish(source, Flowing(rate=RATE * len(topics), topics=topics))
    service.run(1)
    for _ in range(5):
        service.start((rng.choice(there),), unit=THERE)
        service.run(rng.choice((0, 0.3)))
    service.run(8)
    return service.finish(CALM_S).findings


def _two_worlds(n: int, limit: int, seed: int) -> tuple[Service, str]:
    """Return an overlay with so many brokers in ``eu`` and two in ``us``, and one of those."""
    service = Service(seed, units=UnitsConfig(limit, UNITS_PAUSE_NS))
    first = service.start((), unit=THERE)
    service.run(2)
    for unit in (HERE, HERE, *[THERE] * (n - 1)):
        service.start((first,), unit=unit)
        service.run(0.5)
    service.rest_units(calm=2)
    return service, service.uids[1]


def _there(service: Service) -> list[str]:
    """Return the brokers in ``eu``."""
    return [uid for uid in service.alive if service.brokers[uid].node.units.names == THERE]


def _say(service: Service, uid: str, seconds: float, pause: float) -> None:
    """Let as many publishers publish one event each, one after the other."""
    end = service.timeline.now + nanos(seconds)
    while service.timeline.now < end:
        publisher = service.publish(uid, Flowing(rate=1.0))
        service.timeline.at(service.timeline.now + nanos(0.5), publisher.stop)
        service.run(pause)
