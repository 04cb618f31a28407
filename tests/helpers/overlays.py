"""Simulated overlays of several clusters, and clients of them that note what they get."""

from __future__ import annotations

from dataclasses import dataclass, field

from ges.wire.delivered import Event
from overlay.ids import LinkClass
from sims.experiments.service import Service
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


@dataclass
class Notes:
    """What a client has got, and what was refused to it."""

    payloads: list[bytes] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    accepted: dict[LinkClass, int] = field(default_factory=dict)

    def on_attached(self, broker: str) -> None:
        """A broker has taken the client."""

    def on_lost(self) -> None:
        """The broker is lost."""

    def on_subscribed(self) -> None:
        """A broker serves the subscription."""

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """All events of that class up to this one are taken, but for those refused."""
        self.accepted[link_class] = sequence

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """An event is refused."""
        self.refused.append(reason)

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""
        self.events += events
        self.payloads += [event.payload for event in events]


def attach(service: Service, uid: str) -> tuple[SimulatedClient, Notes]:
    """Attach a client to a broker."""
    notes = Notes()
    return service.attach(uid, f"c{len(service.clients)}", notes), notes
