"""What is asked of a ring to find out whether its protocol is broken.

Each oracle plays a short seeded story in the simulator, or explores small scopes, and returns what
it found wrong. Nothing is wrong with the protocol as it is. What they look for are the promises of
``docs/ring.md``; none knows of any mutant.
"""

from __future__ import annotations

from collections.abc import Callable

from sims.scenarios.churn import churn
from sims.scenarios.deaths import (
    bare_runs,
    holders,
    kills,
    long_runs,
    outages,
    routes,
    runs,
    testers,
)
from sims.scenarios.joins import early_starters, joins
from sims.scenarios.links import carriers, chord_cuts, cuts, flaps, mended, tangles
from sims.scenarios.lives import alone, doors, leaves, pauses, restarts, wakings
from sims.scenarios.partitions import bridges, castaways, partitions, returns, strangers
from sims.scenarios.quiet import quiet
from sims.scenarios.records import (
    comebacks,
    drifts,
    estates,
    followed,
    handovers,
    heirs,
    newcomers,
    slow_handovers,
)
from sims.scenarios.scopes import scopes

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
