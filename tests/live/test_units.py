"""Real brokers have addresses, and say so."""

from __future__ import annotations

import pytest

from benchmarks.stage.processes import Fleet
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live


def test_three_brokers_have_three_addresses_and_keep_them_without_the_steward(
    brokers: Fleet,
) -> None:
    ring = brokers.ring_of(3)

    def addresses() -> set[str | None]:
        return {broker.status()["address"] for broker in ring}

    eventually(lambda: addresses() == {"0.0.0.0", "0.0.0.1", "0.0.0.2"})
    found = [broker.status() for broker in ring]
    assert [status["members"] for status in found] == [3, 3, 3]
    assert {status["steward"] for status in found} == {ring[0].uid}
    ring[0].end()
    others = ring[1:]
    eventually(lambda: {broker.status()["members"] for broker in others} == {2})
    after = [broker.status() for broker in others]
    assert [status["address"] for status in after] == [s["address"] for s in found[1:]]
    [steward] = {status["steward"] for status in after}
    assert steward in {broker.uid for broker in others}
