"""What of one broker counts against its memory budget, the cheapest to lose first."""

from __future__ import annotations

from collections.abc import Callable

from ges.broker.config import BrokerConfig
from ges.broker.memory_budget import MemoryBudget, Pool
from ges.delivery.kept import KEPT_NS
from ges.sessions.parked_events import ParkedEvents
from ges.sessions.session import Session
from ges.stack import Stack
from overlay.driver import Driver
from overlay.links.heap_trim import trim
from overlay.links.link import Link
from overlay.links.memory_limit import MemoryLimit
from overlay.net.process_memory import process_bytes

VALUES_SHARE = 1 / 8
CLIENTS_SHARE = 3 / 8
FLOWS_SHARE = 1 / 4
HELD_SHARE = 1 / 8  #: of events that wait for earlier ones; they stand in the same pool
PORTION = 1 / 32  #: of what the pools may hold: so much is queued before they are looked at again
STEPS = 8  #: in which kept events are forgotten, the oldest first


def memory_budget(
    config: BrokerConfig,
    driver: Driver,
    stack: Stack,
    parked: ParkedEvents,
    clients: MemoryLimit[Session],
    links: MemoryLimit[Link],
) -> MemoryBudget:
    """Return the budget of one broker."""
    log, values = stack.recalls.log, stack.retaining.values
    audience, replays = stack.deliveries.audience, stack.replays
    kept = replays.kept

    def shed_kept(most: int) -> None:
        for step in range(1, STEPS + 1):
            if kept.bytes + replays.fetched_bytes <= most:
                return
            kept.forget(driver.now() + KEPT_NS * step // STEPS)
        replays.shed(most)

    pools = (
        # They are filled again as events come; all go at once.
        Pool("caches", 1 / 8, lambda: audience.cached_bytes, lambda most: audience.drop_cache()),
        # Only clients that lose their broker just now would want them.
        Pool("kept_events", 1 / 16, lambda: kept.bytes + replays.fetched_bytes, shed_kept),
        # Only brokers that have missed some of them would ask for them.
        Pool("source_log", 1 / 8, lambda: log.bytes, log.shed),
        # What comes twice of a publisher that has been silent for long may be delivered twice.
        Pool("flows", FLOWS_SHARE, lambda: stack.flow_tables.memory, stack.flow_tables.shed),
        # They go to the brokers that stand in for the lost ones.
        Pool("lost_links", 1 / 4, lambda: driver.streams.waiting_bytes, driver.relieve),
        # Their publishers are told.
        Pool("parked_events", 1 / 8, lambda: parked.memory, parked.shed),
        # Clients are cut off, and go elsewhere.
        Pool("clients", CLIENTS_SHARE, lambda: clients.held_bytes, clients.shed),
        # Links are given up: those to ring neighbours and chords last.
        Pool("links", 3 / 8, lambda: links.held_bytes, links.shed),
        # No more are taken than their share holds: a client that would retain more is refused.
        Pool("retained", VALUES_SHARE, lambda: values.bytes, lambda most: None),
    )
    idle = process_bytes() if config.has_process else None
    budget = MemoryBudget(
        config.memory,
        pools,
        driver.counted_log,
        driver.now,
        measure=_above(idle) if idle is not None else None,
        trim=trim,
        tidy=driver.tidy,
    )
    stack.ordering.bound(round(budget.limit * HELD_SHARE))
    values.bound(round(budget.limit * VALUES_SHARE))
    return budget


def filter_bytes(budget: MemoryBudget) -> int:
    """Return what all filters may be charged with, so that no client is cut off for its filters."""
    return round(2 * CLIENTS_SHARE * budget.limit)  # they are charged with twice what they take


def _above(idle: int) -> Callable[[], int]:
    return lambda: max(0, (process_bytes() or idle) - idle)
