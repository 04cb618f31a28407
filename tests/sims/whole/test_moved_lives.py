"""A broker that was away for a moment is back at another place, and the ring is ideal soon."""

from __future__ import annotations

import pytest

from overlay.machine import OpenLink, Send
from ring.facts import JoinDelayed
from sims.experiments.cluster import Cluster
from sims.world.cuts import Cut

CUT_S = 3.0  #: after that time everybody holds a broker for dead that nobody could reach


@pytest.mark.parametrize("seed", [7, 9, 25])
def test_a_life_that_began_while_its_calls_were_under_way_gets_a_place_at_once(seed: int) -> None:
    """B was cut off, and calls several brokers in its old life. The first one holds it for dead.

    So B begins a later life. Its other calls come up in it, and the brokers called know B by its
    old life. One of them has to give B a place: it calls B anew although B is there to be heard.
    """
    cluster = Cluster.ring_of(6, seed)
    uids = cluster.alive
    cut_off = uids[seed % len(uids)]
    others = [uid for uid in uids if uid != cut_off]
    for uid in others:
        cluster.cut(cut_off, uid, Cut.BROKEN)
    cluster.run(CUT_S)
    for uid in others:
        cluster.mend(cut_off, uid)
    replacing: list[OpenLink] = []

    def on_sent(uid: str, effect: Send | OpenLink) -> None:
        if isinstance(effect, OpenLink) and effect.replace:
            replacing.append(effect)

    cluster.world.on_sent = on_sent
    cluster.rest()
    assert {call.uid for call in replacing} == {cut_off}, "the case that this is about"
    assert cluster.told(JoinDelayed) == []
