"""What lies between two looks at the brokers."""

from __future__ import annotations

import msgspec

from ges.operations.rates import brokers_between, links_of
from overlay.ids import LinkClass
from tests.ges.operations.test_overlay_graph import broker

NORMAL, EXPRESS = LinkClass.NORMAL, LinkClass.EXPRESS
A, B = "a" * 32, "b" * 32


def test_rates_are_differences_over_the_brokers_own_time() -> None:
    look = broker(A)
    first = msgspec.structs.replace(look, uptime_s=10.0, counters={"events_published": 100})
    counters = {"events_published": 300, "events_refused": 4, "events_lost": 6}
    second = msgspec.structs.replace(look, uptime_s=14.0, counters=counters)
    (found,) = brokers_between([first], [second])
    assert (found.published_per_s, found.received_per_s, found.lost_per_s) == (50.0, 0.0, 2.5)


def test_a_broker_that_is_new_or_has_begun_anew_has_no_rates() -> None:
    look = msgspec.structs.replace(broker(A), uptime_s=5.0)
    (found,) = brokers_between([], [look])
    assert found.published_per_s is None
    again = msgspec.structs.replace(look, incarnation=look.incarnation + 1, uptime_s=6.0)
    (found,) = brokers_between([look], [again])
    assert found.published_per_s is None


def test_a_link_is_shown_once_with_the_traffic_of_both_ways() -> None:
    left, right = broker(A, (B, NORMAL, 1.0), (B, EXPRESS, 2.0)), broker(B, (A, NORMAL, 3.0))
    busy = [msgspec.structs.replace(link, traffic=500) for link in left.links[:1]]
    left = msgspec.structs.replace(left, links=(*busy, *left.links[1:]))
    normal, express = links_of([left, right])
    assert (normal.ends, normal.link_class, normal.rtt_ms) == ((A, B), NORMAL, 3.0)
    assert (normal.traffic, normal.told_by) == (500 + right.links[0].traffic, 2)
    assert (express.link_class, express.told_by) == (EXPRESS, 1)
