"""Events for named clients, wherever these are attached in an overlay of several levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from ges.directory.directory_part import DirectoryPart
from ges.directory.register import place_of
from ges.wire.events import Options
from ges.wire.names import name_filter
from overlay.ids import LinkClass, Nanos
from overlay.machine import Effect
from ring.geometry import clockwise
from sims.experiments.service import Service
from sims.workloads.readers import Reader
from sims.world.clients import SimulatedClient
from sims.world.world import CrashMode
from tests.helpers.overlays import attach, in_another, overlay

pytestmark = pytest.mark.formed(overlay, 12, 3)


def named(service: Service, uid: str, name: str) -> tuple[SimulatedClient, Reader]:
    client, notes = attach(service, uid)
    client.subscribe(name_filter(name))
    return client, notes


def counted(service: Service) -> Counter[str]:
    return sum((each.stack.counters for each in service.brokers.values()), Counter())


def registrar(service: Service, name: str) -> str:
    """The broker that stands nearest before the place of a name."""
    places = {}
    for uid in service.alive:
        member = service.brokers[uid].node.ring.member
        assert member is not None
        places[uid] = member.ring_id
    return min(places, key=lambda uid: clockwise(places[uid], place_of(name)))


def to(*names: str) -> Options:
    return Options(to=names)


def test_an_event_goes_to_the_clients_of_the_names_and_to_nobody_else(service: Service) -> None:
    here = service.alive[0]
    near = in_another(service, 2, here)
    far = in_another(service, 1, near, within=2)
    _, kitchen = named(service, near, "kitchen")
    _, hall = named(service, far, "hall")
    _, both = named(service, here, "kitchen")
    _, other = named(service, near, "cellar")
    plain, seen = attach(service, near)
    plain.subscribe("#")
    client, told = attach(service, here)
    service.run(2)
    before = counted(service)["events_received"]
    client.publish("lamp", [b"on"], options=to("kitchen"))
    client.publish("lamp", [b"off"], options=to("kitchen", "hall"))
    client.publish("lamp", [b"all"])
    client.publish("lamp", [b"dim"], options=to("hall"))
    service.run(2)
    assert kitchen.payloads == both.payloads == [b"on", b"off"]
    assert hall.payloads == [b"off", b"dim"]
    assert other.payloads == []
    assert seen.payloads == [b"all"]
    assert (told.refused, told.accepted[LinkClass.NORMAL]) == ([], 4)
    assert counted(service)["events_received"] - before <= 16, "others see nothing of it"
    assert kitchen.events[0].topic == "lamp"


def test_who_publishes_to_an_unknown_name_is_told_and_nobody_gets_it(service: Service) -> None:
    here = service.alive[0]
    _, known = named(service, in_another(service, 1, here), "known")
    client, told = attach(service, here)
    service.run(2)
    client.publish("t", [b"1"], options=to("known", "ghost"))
    client.publish("t", [b"2"], options=to("known"))
    service.run(4)
    assert told.refused == ["no such client: ghost"]
    assert known.payloads == [b"2"]
    assert told.accepted[LinkClass.NORMAL] == 2
    ghost, notes = named(service, here, "ghost")
    service.run(2)
    client.publish("t", [b"3"], options=to("ghost"))
    service.run(1)
    assert notes.payloads == [b"3"], "it is attached now"
    ghost.unsubscribe()
    service.run(35)
    client.publish("t", [b"4"], options=to("ghost"))
    service.run(4)
    assert told.refused[1:] == ["no such client: ghost"], "and is no more"


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What a broker says to registrars of names that it has no more is lost."""
    say = DirectoryPart._say

    def spoken(self: DirectoryPart, name: str, lasts_s: int, now: Nanos) -> list[Effect]:
        return say(self, name, lasts_s, now) if lasts_s else []

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryPart, "_say", spoken)
        yield patch


def test_a_registrar_that_missed_the_end_of_a_name_hears_of_it_with_the_next_event(
    service: Service, silence: pytest.MonkeyPatch
) -> None:
    here = service.alive[0]
    gone, _ = named(service, in_another(service, 1, here), "gone")
    client, told = attach(service, here)
    service.run(2)
    gone.unsubscribe()
    service.run(1)
    silence.undo()
    client.publish("t", [b"1"], options=to("gone"))
    service.run(3)
    client.publish("t", [b"2"], options=to("gone"))
    service.run(3)
    assert told.refused == ["no such client: gone"]


def test_an_event_is_not_sent_on_and_on_between_brokers_that_have_no_such_clients(
    service: Service, silence: pytest.MonkeyPatch
) -> None:
    here, *others = service.alive
    clients = [named(service, uid, "nowhere")[0] for uid in others[:3]]
    client, _ = attach(service, here)
    service.run(2)
    for each in clients:
        each.unsubscribe()
    service.run(1)
    before = counted(service)
    client.publish("t", [b"1"], options=to("nowhere"))
    service.run(15)
    after = counted(service)
    assert after["named_events_misled"] - before["named_events_misled"] < 40


@pytest.mark.formed(overlay, 9, 3)
def test_a_name_is_found_after_its_registrar_has_died(service: Service) -> None:
    names = [f"n{number}" for number in range(4)]
    keeper = registrar(service, names[0])
    here, *others = (uid for uid in service.alive if uid != keeper)
    notes = [named(service, uid, name)[1] for uid, name in zip(others, names, strict=False)]
    client, told = attach(service, here)
    service.run(2)
    service.crash(keeper, CrashMode.KILL)
    service.run(15)
    for name in names:
        client.publish("t", [name.encode()], options=to(name))
    service.run(3)
    assert [each.payloads for each in notes] == [[name.encode()] for name in names]
    assert told.refused == []


@pytest.mark.formed(overlay, 3, 8)
def test_a_name_is_found_when_another_broker_has_become_its_registrar(service: Service) -> None:
    names = [f"n{number}" for number in range(12)]
    here, there = service.alive[:2]
    notes = [named(service, there, name)[1] for name in names]
    client, told = attach(service, here)
    service.run(2)
    before = {name: registrar(service, name) for name in names}
    for _ in range(3):
        service.start(service.uids[:1])
        service.run(1)
    service.run(5)
    assert before != {name: registrar(service, name) for name in names}
    for name in names:
        client.publish("t", [name.encode()], options=to(name))
    service.run(3)
    assert [each.payloads for each in notes] == [[name.encode()] for name in names]
    assert told.refused == []
