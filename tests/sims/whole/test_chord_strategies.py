"""Chords drawn by lot: how many there are, where they lead, and that they are replaced."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import pytest

from ring.config import LAN, ChordStrategy
from ring.facts import ChordLost, ChordRepaired
from ring.geometry import RING_SIZE, clockwise
from sims.experiments.cluster import POWER, Cluster

N = 32


def settled(strategy: ChordStrategy, seed: int = 1) -> Cluster:
    cluster = Cluster.ring_of(N, seed, replace(LAN, chords=strategy))
    cluster.run(2 * LAN.chord_refresh_ns / 1e9)
    return cluster


def lengths(cluster: Cluster) -> list[float]:
    """How far chords beyond right-right lead, as a share of the circle."""
    found = []
    for uid in cluster.alive:
        node = cluster.nodes[uid]
        if node.member is not None:
            here = node.member.ring_id
            found += [clockwise(here, m.ring_id) / RING_SIZE for m in node.chords[1:]]
    return found


def test_harmonic_chords_are_mostly_short_and_uniform_ones_are_not() -> None:
    """Half of the harmonic ones are shorter than n^-0.5 of the circle."""
    harmonic = lengths(settled(ChordStrategy.HARMONIC))
    uniform = lengths(settled(ChordStrategy.UNIFORM))
    assert sum(length < 0.25 for length in harmonic) / len(harmonic) > 0.35
    assert 0.1 < sum(length < 0.25 for length in uniform) / len(uniform) < 0.4
    assert sum(harmonic) / len(harmonic) < sum(uniform) / len(uniform)


@pytest.mark.parametrize("strategy", [ChordStrategy.HARMONIC, ChordStrategy.UNIFORM])
def test_about_as_many_are_drawn_as_rank_has_and_dead_ones_are_replaced(
    strategy: ChordStrategy,
) -> None:
    cluster = settled(strategy)
    drawn = [len(cluster.nodes[uid].chords) - 1 for uid in cluster.alive]
    assert 0.6 * (log2(N) - 1) <= sum(drawn) / N <= 1.4 * (log2(N) - 1)
    dead = cluster.in_order[10]
    cluster.facts.clear()
    cluster.crash(dead, POWER)
    cluster.rest()
    cluster.run(2 * LAN.chord_refresh_ns / 1e9)
    lost, mended = (
        sorted(uid for uid, f in cluster.told(kind) if getattr(f, "subject", None) == dead)
        for kind in (ChordLost, ChordRepaired)
    )
    assert lost == mended
    assert all(dead not in [m.uid for m in cluster.nodes[u].chords] for u in cluster.alive)


def test_without_chords_there_is_the_ring_alone() -> None:
    cluster = settled(ChordStrategy.NONE)
    assert all(cluster.nodes[uid].chords == cluster.nodes[uid].right[1:] for uid in cluster.alive)
