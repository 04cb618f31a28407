"""Who saw events that few brokers want, by the counters of all."""

from __future__ import annotations

import msgspec
import pytest

from ges.demo.processes import DemoFailed
from ges.demo.wanted import judge
from ges.wire.status import Status
from tests.ges.operations.test_overlay_graph import broker

UIDS = [each * 32 for each in "abcd"]


def statuses(**received: tuple[int, int]) -> list[Status]:
    """Return brokers by the first letter of their uids, with events received and relayed."""
    found = []
    for uid in UIDS:
        came, passed = received.get(uid[0], (0, 0))
        counters = {"events_received": came, "events_relayed": passed}
        found.append(msgspec.structs.replace(broker(uid), counters=counters))
    return found


def test_brokers_that_saw_nothing_and_relays_are_told_apart() -> None:
    before = statuses(a=(3, 0), b=(5, 5), c=(7, 1), d=(1, 0))
    after = statuses(a=(9, 0), b=(11, 11), c=(7, 1), d=(7, 0))
    found = judge(before, after, {UIDS[0], UIDS[3]}, 12)
    assert (found.brokers, found.wanting, found.relays, found.unaware) == (4, 2, 1, 1)
    assert str(found) == (
        "12 for subscribers at 2 of 4 brokers; of the other 2, 1 saw none of them, "
        "1 passed them on as relays"
    )


def test_events_that_nobody_there_wants_and_that_go_no_further_fail_it() -> None:
    with pytest.raises(DemoFailed, match=f"broker {UIDS[1]} wants none of the events: 2 came"):
        judge(statuses(), statuses(b=(2, 1)), {UIDS[0]}, 2)
