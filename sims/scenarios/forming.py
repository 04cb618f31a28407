"""How a scenario begins: brokers become a ring, and clients are attached to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from overlay.errors import ConfigError
from overlay.ids import Nanos, nanos
from overlay.rng import rng_for
from ring.config import RingConfig, profile
from sims.scenarios.deeds import CONTACTS
from sims.scenarios.inputs import Inputs
from sims.scenarios.matrix import matrix_in
from sims.scenarios.results import Progress
from sims.scenarios.schema import Forming, Mode, Scenario, Workload
from sims.scenarios.stage import Stage
from sims.scenarios.whole_stage import WholeStage
from sims.workloads.traffic import Flowing
from sims.world.bandwidth import Bandwidth
from sims.world.conditions import Conditions
from sims.world.network import DISTANCES

PARK_MS = 20_000  #: a secure event waits so long for an all-secure path
QUIET_NODES = 2000  #: a ring of so many is simulated without what changes nothing, where it can be
UNITS_NS = nanos(600)  #: units get so long to form
UNITS_LOOK_NS = nanos(10)  #: between two looks at them
UNITS_CALM = 2  #: looks in a row that see them in order
GROWTH = 10  #: while it forms a ring grows by such a part of itself at most at a time


def config_of(scenario: Scenario) -> RingConfig:
    """Return the timing and the rules of the brokers.

    Raises:
        ConfigError: they make no sense together.
    """
    ring, base = scenario.ring, profile(scenario.profile)
    beat = base.heartbeat_ns if ring.heartbeat_s is None else nanos(ring.heartbeat_s)
    return replace(
        base,
        chords=ring.chords,
        gap_rule=ring.gaps,
        backups=ring.backups,
        monitors=ring.monitors or base.monitors,
        heartbeat_ns=beat,
    )


def conditions_of(scenario: Scenario, seed: int, inputs: Inputs) -> Conditions:
    """Return the network between the hosts.

    Raises:
        ConfigError: the matrix makes no sense.
    """
    network = scenario.network
    matrix = network.matrix
    return Conditions(
        DISTANCES[scenario.profile],
        seed,
        matrix=matrix_in(inputs.content(matrix), inputs.path(matrix)) if matrix else None,
        loss=network.loss,
        burst=network.burst,
        slow_share=network.slow_share,
        slow_ns=nanos(network.slow_ms / 1000),
    )


def is_quiet(scenario: Scenario) -> bool:
    """Say whether what changes nothing is left out of a run: :mod:`sims.world.quiet`.

    Raises:
        ConfigError: the scenario wants it so, but with what else it says that cannot be.
    """
    network, why = scenario.network, ""
    if scenario.mode is Mode.WHOLE:
        why = 'it is for the ring alone, and mode = "whole"'
    elif network.loss:
        why = "with network.loss a heartbeat that is left out might have been lost"
    elif network.mbit_s is not None:
        why = "with network.mbit_s a heartbeat that is left out holds others up"
    if scenario.quiet is None:
        return not why and scenario.nodes >= QUIET_NODES
    if scenario.quiet and why:
        raise ConfigError(f"quiet = true makes no sense here: {why}")
    return scenario.quiet


def bandwidth_of(scenario: Scenario) -> Bandwidth | None:
    """Return how fast bytes leave; None: at once."""
    mbit_s = scenario.network.mbit_s
    return None if mbit_s is None else Bandwidth(mbit_s * 1e6)


def form(
    stage: Stage, scenario: Scenario, seed: int, step: Callable[[Nanos], None], progress: Progress
) -> None:
    """Let there be a ring, and give it time for its chords.

    Args:
        stage: without brokers.
        scenario: says how many, and how they come.
        seed: of what is drawn.
        step: lets a moment pass, up to a time.
        progress: told how far it is.
    """
    timeline, config = stage.timeline, config_of(scenario)
    if scenario.ring.forming is Forming.JOINS:
        _join(stage, scenario, rng_for(seed, "scenario", "arrivals"), step, progress)
        until = timeline.now + config.chord_refresh_ns
    else:
        stage.begin(scenario.nodes)
        until = timeline.now + 2 * config.chord_refresh_ns
    while timeline.now < until:
        step(until)
        progress("forming the ring", timeline.now / until, timeline.now)


def _join(
    stage: Stage,
    scenario: Scenario,
    rng: random.Random,
    step: Callable[[Nanos], None],
    progress: Progress,
) -> None:
    """Let the brokers join one after the other, each given a few members to ask."""
    timeline, distances = stage.timeline, DISTANCES[scenario.profile]
    # Some dozen one-way trips across the world, ten times over.
    pause = 200 * (distances.base_ns + distances.side_ns + distances.jitter_ns)
    members = [stage.start(())]
    _pass(timeline.now + config_of(scenario).heartbeat_ns, stage, step)
    while len(members) < scenario.nodes:
        batch = min(max(1, len(members) // GROWTH), scenario.nodes - len(members))
        known = list(members)
        members += [stage.start(rng.sample(known, min(CONTACTS, len(known)))) for _ in range(batch)]
        _pass(timeline.now + pause, stage, step)
        progress("forming the ring", len(members) / scenario.nodes, timeline.now)


def rest_units(stage: WholeStage, step: Callable[[Nanos], None], progress: Progress) -> bool:
    """Wait until units have formed and know of each other; says whether they do in time."""
    timeline = stage.timeline
    start, end = timeline.now, timeline.now + UNITS_NS
    calm = 0
    while calm < UNITS_CALM and timeline.now < end:
        _pass(timeline.now + UNITS_LOOK_NS, stage, step)
        calm = calm + 1 if stage.are_units_in_order else 0
        progress("forming units", (timeline.now - start) / (end - start), timeline.now)
    return calm == UNITS_CALM


def _pass(until: Nanos, stage: Stage, step: Callable[[Nanos], None]) -> None:
    while stage.timeline.now < until:
        step(until)


def attach(
    stage: WholeStage, workload: Workload, rng: random.Random, *, is_calm: bool = False
) -> None:
    """Attach the clients; subscribers first, so that they miss nothing.

    ``is_calm``: no link fails, so that express events, too, come in order.
    """
    stage.deliveries.express_in_order = is_calm
    topics = [f"topic/{number}" for number in range(workload.topics)]
    homes = sorted(stage.alive)
    count = workload.subscribers or len(homes)
    for number in range(count):
        home = homes[number % len(homes)] if not workload.subscribers else rng.choice(homes)
        stage.subscribe(home, topics[number % len(topics)])
    stage.run(1.0)
    park_ms = PARK_MS if workload.link_class.may_wait else 0
    for number in range(workload.publishers):
        flowing = Flowing(
            topic=topics[number % len(topics)],
            rate=workload.rate,
            size=workload.size,
            link_class=workload.link_class,
            park_ms=park_ms,
        )
        stage.publish(rng.choice(homes), flowing)
