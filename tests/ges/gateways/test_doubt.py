"""The share of time in which no mask is sure."""

from __future__ import annotations

from ges.gateways.doubt import Doubt


def test_it_is_of_the_time_on_the_ring_alone() -> None:
    doubt = Doubt()
    assert doubt.share(0) == 0
    doubt.note(is_unsure=None, now=0)
    doubt.note(is_unsure=True, now=100)
    doubt.note(is_unsure=False, now=110)
    doubt.note(is_unsure=False, now=150)
    doubt.note(is_unsure=None, now=200)
    doubt.note(is_unsure=True, now=1000)
    assert doubt.share(1000) == 10 / 100
    assert doubt.share(1100) == 110 / 200, "what lasts counts up to now"
