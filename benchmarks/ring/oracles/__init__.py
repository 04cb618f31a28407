"""What is asked of a ring to find out whether its protocol is broken.

Each oracle plays a short seeded story in the simulator, or explores small scopes, and returns what
it found wrong. Nothing is wrong with the protocol as it is. What they look for are the promises of
``docs/ring.md``; none knows of any mutant.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.ring.oracles.churn import churn
from benchmarks.ring.oracles.deaths import (
    bare_runs,
    holders,
    kills,
    long_runs,
    outages,
    routes,
    runs,
    testers,
)
from benchmarks.ring.oracles.joins import early_starters, joins
from benchmarks.ring.oracles.links import carriers, chord_cuts, cuts, flaps, mended, tangles
from benchmarks.ring.oracles.lives import alone, doors, leaves, pauses, restarts, wakings
from benchmarks.ring.oracles.partitions import bridges, castaways, partitions, returns, strangers
from benchmarks.ring.oracles.quiet import quiet
from benchmarks.ring.oracles.records import (
    comebacks,
    drifts,
    estates,
    followed,
    handovers,
    heirs,
    newcomers,
    slow_handovers,
)
from benchmarks.ring.oracles.scopes import scopes

Oracle = Callable[[int], list[str]]

#: Stories, by how long they take.
STORIES: tuple[Oracle, ...] = (
    joins,
    early_starters,
    pauses,
    wakings,
    leaves,
    doors,
    alone,
    mended,
    churn,
    kills,
    outages,
    runs,
    testers,
    restarts,
    quiet,
    cuts,
    castaways,
    returns,
    partitions,
    strangers,
    estates,
    heirs,
    followed,
    newcomers,
    comebacks,
    long_runs,
    bare_runs,
    routes,
    holders,
    carriers,
    chord_cuts,
    flaps,
    handovers,
    slow_handovers,
    bridges,
    tangles,
    drifts,
)

SCOPES: Oracle = scopes
