"""Simulated overlays of several clusters, and clients of them."""

from __future__ import annotations

from sims.experiments.service import Service
from sims.workloads.readers import Reader
from sims.world.clients import SimulatedClient

CALM = 5  #: looks at units that are the same, so that tests see no change of them


def overlay(n: int, limit: int, seed: int = 1) -> Service:
    """A ring in which units have formed, know of each other, and stay as they are."""
    return Service.of_clusters(n, limit, seed, calm=CALM)


def units_of(service: Service, level: int) -> dict[str, tuple[int, ...]]:
    """The numbers of each broker's unit of a level, from the top."""
    found = {}
    for uid in service.alive:
        address = service.brokers[uid].node.units.address
        assert address is not None
        found[uid] = address.numbers[: 4 - level]
    return found


def in_another(service: Service, level: int, uid: str, *, within: int = 4) -> str:
    """A broker of another unit of that level than ``uid``, in the same one of level ``within``."""
    there, context = units_of(service, level), units_of(service, within)
    return next(
        each
        for each in service.alive
        if there[each] != there[uid] and context[each] == context[uid]
    )


def attach(service: Service, uid: str) -> tuple[SimulatedClient, Reader]:
    """Attach a client to a broker."""
    notes = Reader()
    return service.attach(uid, f"c{len(service.clients)}", notes), notes


def subscribed(service: Service, uid: str, topic: str) -> Reader:
    """Attach a client to a broker that wants a topic; returns what it gets."""
    client, notes = attach(service, uid)
    client.subscribe(topic)
    return notes
