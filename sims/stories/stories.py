"""All stories, by name, and how one is played.

A story is a function of a seed: it plays something that may befall a small ring in the simulator,
and returns what it found wrong. With the protocol as it is, nothing is wrong. Stories look for the
promises of ``docs/ring.md``. The command ``chordal sim run``, the tests, and the mutants of the
protocol play the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from overlay.errors import ConfigError
from sims.errors import InvariantViolated
from sims.stories.absences import event_absences, event_tails, unit_absences, unit_extinctions
from sims.stories.churn import churn
from sims.stories.deaths import (
    bare_runs,
    holders,
    kills,
    long_runs,
    outages,
    routes,
    runs,
    testers,
)
from sims.stories.events import (
    event_flaps,
    event_forgeries,
    event_freezes,
    event_halves,
    event_isolations,
    event_kills,
    event_roams,
    event_topics,
)
from sims.stories.frames import event_frames
from sims.stories.joins import early_starters, joins, one_list
from sims.stories.links import carriers, chord_cuts, cuts, flaps, forgiven, mended, tangles
from sims.stories.lives import alone, doors, leaves, moved_lives, restarts, standstills, wakings
from sims.stories.partitions import bridges, castaways, partitions, returns, strangers
from sims.stories.quiet import quiet
from sims.stories.records import (
    comebacks,
    drifts,
    estates,
    followed,
    handovers,
    heirs,
    newcomers,
    quick_returns,
    rolling_restarts,
    slow_handovers,
)
from sims.stories.scopes import scopes
from sims.stories.survivors import event_survivors, unit_survivors
from sims.stories.unit_doubts import unit_doubts, unit_floods, unit_waits
from sims.stories.unit_links import unit_losses, unit_secrets, unit_ways
from sims.stories.unit_promises import (
    unit_active,
    unit_groups,
    unit_names,
    unit_realms,
)
from sims.stories.unit_tables import unit_growth, unit_medians, unit_merges, unit_places
from sims.stories.units import (
    unit_crowds,
    unit_distances,
    unit_joins,
    unit_kills,
    unit_splits,
    unit_topics,
)

Story = Callable[[int], list[str]]

#: The shortest come first, as mutants are to be noticed soon.
STORIES: tuple[Story, ...] = (
    joins,
    early_starters,
    one_list,
    standstills,
    wakings,
    leaves,
    doors,
    moved_lives,
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
    quick_returns,
    rolling_restarts,
    long_runs,
    bare_runs,
    routes,
    holders,
    carriers,
    chord_cuts,
    flaps,
    forgiven,
    handovers,
    slow_handovers,
    bridges,
    tangles,
    drifts,
    event_flaps,
    event_freezes,
    event_kills,
    event_isolations,
    event_halves,
    event_roams,
    event_topics,
    event_forgeries,
    event_frames,
    event_absences,
    event_tails,
    event_survivors,
    unit_medians,
    unit_places,
    unit_growth,
    unit_merges,
    unit_topics,
    unit_doubts,
    unit_joins,
    unit_secrets,
    unit_losses,
    unit_groups,
    unit_active,
    unit_names,
    unit_realms,
    unit_kills,
    unit_splits,
    unit_crowds,
    unit_waits,
    unit_floods,
    unit_distances,
    unit_ways,
    unit_absences,
    unit_extinctions,
    unit_survivors,
)

SCOPES: Story = scopes  #: has no seeds, so ``chordal sim explore`` is the command for it


def name_of(story: Story) -> str:
    """Return the name by which the command knows a story: ``early-starters``."""
    return story.__name__.replace("_", "-")


def about(story: Story) -> str:
    """Return what a story is about: the first line of its docstring."""
    return (story.__doc__ or "").strip().partition("\n")[0]


BY_NAME: dict[str, Story] = {name_of(story): story for story in sorted(STORIES, key=name_of)}


def find(name: str, others: Iterable[str] = ()) -> Story:
    """Return the story of that name; ``others``: further names that would have been right.

    Raises:
        ConfigError: there is none; the text says which name is nearest.
    """
    if name in BY_NAME:
        return BY_NAME[name]
    [nearest] = get_close_matches(name, [*BY_NAME, *others], n=1, cutoff=0.0)
    raise ConfigError(f"no story {name!r}; nearest is {nearest!r}; 'chordal sim list' lists all")


def play(story: Story, seed: int) -> list[str]:
    """Return what a story found wrong; a ring that does not come to rest in time is a finding."""
    try:
        return story(seed)
    except InvariantViolated as broken:
        return [str(broken)]
