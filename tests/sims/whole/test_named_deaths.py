"""The broker of a named client dies or leaves: events for the name follow the client."""

from __future__ import annotations

import pytest

from ges.wire.events import Options
from ges.wire.names import name_filter
from overlay.ids import LinkClass
from sims.experiments.service import Service
from sims.world.world import CrashMode
from tests.helpers.overlays import attach

EVENTS, BEFORE = 80, 10


def findings(how: str, home: int, seed: int = 1) -> list[str]:
    """Publish for a name while its broker goes; return what its client has not got as it should."""
    service = Service.ring_of(6, seed)
    here, there = service.uids[0], service.uids[home]
    client, notes = attach(service, there)
    client.subscribe(name_filter("kitchen"))
    publisher, told = attach(service, here)
    service.run(1)
    for number in range(EVENTS):
        if number == BEFORE and how == "leave":
            service.leave(there)
        elif number == BEFORE:
            service.crash(there, CrashMode(how))
        publisher.publish("t", [b"%d" % number], options=Options(to=("kitchen",)))
        service.run(0.05)
    service.run(4)
    assert told.accepted[LinkClass.NORMAL] == EVENTS
    lost = EVENTS - len(told.refused) - len({*notes.payloads})
    found = [f"{lost} lost"] if lost else []
    if notes.payloads != sorted(set(notes.payloads), key=int):
        found.append("twice, or not in order")
    return found


@pytest.mark.parametrize(
    ("how", "home", "seed"),
    [
        ("kill", 2, 1),
        ("leave", 2, 1),
        *(
            pytest.param(how, home, seed, marks=pytest.mark.soak)
            for how in ("kill", "leave", "power")
            for home in (2, 4)
            for seed in (2, 3, 4)
        ),
    ],
)
def test_nothing_is_lost_where_the_broker_of_a_name_dies_or_leaves(
    how: str, home: int, seed: int
) -> None:
    assert findings(how, home, seed) == []
