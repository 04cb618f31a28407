"""A broker has died: who stands in for it gets its events as they were published, byte by byte."""

from __future__ import annotations

from collections import Counter

import pytest

from ges.gateways.gateways_part import GatewaysPart
from ges.routing import rerouting
from ges.wire.event_flags import GROUPS_FLAG, TIMED_FLAGS, WAY_FLAGS
from ges.wire.events import Options
from sims.experiments.service import Service
from sims.workloads.readers import Reader
from sims.world.world import CrashMode
from tests.helpers.overlays import attach


@pytest.fixture(autouse=True)
def _no_mask_is_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let events go to all brokers by arcs, as while units change."""
    monkeypatch.setattr(GatewaysPart, "is_for_all", False)


#: Events are plain, end, are retained, or both, by turns.
KINDS = (None, Options(ttl_ms=60_000), Options(retain=True), Options(retain=True, ttl_ms=60_000))


def findings(victim: int) -> list[str]:
    """Let a broker lose power while events go by arcs; return what is wrong with what came."""
    service = Service.ring_of(10, seed=1)
    service.run(1)
    uids = service.uids
    dead = uids[victim]
    plain, members, publishers = [], [], []
    for uid in uids:
        if uid != dead:
            client, notes = attach(service, uid)
            client.subscribe("t")
            plain.append(notes)
            publishers.append(attach(service, uid)[0])
    for uid in (uids[2], uids[7]):
        client, notes = attach(service, uid)
        client.subscribe("t", queue="workers")
        members.append(notes)
    service.run(0.5)
    sent = []
    for number in range(48):
        for at, client in enumerate(publishers):
            sent.append(b"%d of %d" % (number, at))
            client.publish("t", sent[-1:], options=KINDS[number % len(KINDS)])
        service.run(0.02)
        if number == 12:
            service.crash(dead, CrashMode.POWER)
    service.run(5)
    assert service.counters["events_sent_on"] > 100
    found = [wrong for notes in plain if (wrong := _wrong(sent, (notes,)))]
    return [*found, *filter(None, (_wrong(sent, members),))]


def _wrong(sent: list[bytes], receivers: tuple[Reader, ...] | list[Reader]) -> str:
    """Compare what came, but for values of the past, with what is to come once to one of these."""
    came = Counter(e.payload for each in receivers for e in each.events if not e.retained)
    foreign, lost = came.keys() - set(sent), set(sent) - came.keys()
    twice = [payload for payload, count in came.items() if count > 1]
    if not (foreign or lost or twice):
        return ""
    return f"{len(foreign)} never published, {len(lost)} lost, {len(twice)} twice"


@pytest.mark.parametrize(
    "victim", [4, *(pytest.param(at, marks=pytest.mark.soak) for at in (1, 3, 5, 6, 8, 9))]
)
def test_who_stands_in_for_a_dead_broker_gets_events_as_they_were_published(victim: int) -> None:
    assert findings(victim) == []


@pytest.mark.soak
@pytest.mark.parametrize("flag", [GROUPS_FLAG, TIMED_FLAGS])
def test_a_flag_that_is_lost_on_the_way_is_noticed(
    monkeypatch: pytest.MonkeyPatch, flag: int
) -> None:
    monkeypatch.setattr(rerouting, "WAY_FLAGS", WAY_FLAGS | flag)
    assert findings(4) != []
