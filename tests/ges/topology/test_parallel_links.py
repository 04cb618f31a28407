"""Links beside the normal ones that fail by themselves: called again, and not by all at once."""

from __future__ import annotations

import pytest

from ges.topology.parallel_links import ParallelLinks
from overlay.ids import NANOS_PER_SECOND, LinkClass, Peer
from overlay.machine import Closed, LinkDown, LinkRefused, OpenLink, Refused
from overlay.rng import rng_for

OTHER = Peer("c" * 32, 1, "chordals://c.test:1", secure=True)
SECURE = LinkClass.SECURE
CALL = OpenLink(OTHER.url, OTHER.uid, link_class=SECURE)


def pauses(seed: int, failures: int) -> list[float]:
    """Return how long one waits after each failure in a row, in seconds; the first is a loss."""
    links = ParallelLinks(SECURE, rng_for(seed), lambda uid: OTHER)
    now, waited = 0, []
    for failure in range(failures):
        if failure:
            links.on_link(LinkRefused(OTHER.url, OTHER.uid, Refused.BUSY, "", SECURE), now)
        else:
            links.on_link(LinkDown(OTHER.uid, Closed.LOST, SECURE), now)
        due = links.next_deadline()
        assert due is not None
        assert links.seek(OTHER.uid) == links.handle_timers(due - 1) == []
        waited.append((due - now) / NANOS_PER_SECOND)
        now = due
        assert links.handle_timers(now) == [CALL]
    return waited


@pytest.mark.parametrize(("failures", "mean"), [(1, 1), (2, 2), (5, 16), (6, 30), (50, 30)])
def test_those_that_lose_their_links_together_do_not_call_again_together(
    failures: int, mean: float
) -> None:
    last = [pauses(seed, failures)[-1] for seed in range(20)]
    assert len(set(last)) == 20
    assert 0.5 * mean <= min(last) < 0.8 * mean
    assert 1.2 * mean < max(last) <= 1.5 * mean
