"""What growing costs: control messages, rows that a broker holds, and messages for an event.

    python -m benchmarks.bars.growth [--nodes N,N,...] [--unit-limit L] [--seed S] [--csv FILE]
        [--plot FILE.svg]

Whole brokers in virtual time, whose units are there from the beginning (5/8 of the limit in each).
For each size one row:

- *idle*: control messages a second and broker that are neither the ring's, nor those by which
  neighbours tell each other what links cost;
- *join*: such messages, relays included, in the 4 s after a broker has begun to join (the median);
- *new*, *covered*: such messages for a subscription that nothing covers yet, and for one that its
  own broker's subscriptions cover, in the 2 s after (medians), and how long the first ones took to
  be active in the whole system (median and most, ms);
- *rows*: members, units, links and interests that a broker holds, in the median and at most;
- *messages*: for an event that some share of the brokers want, over the edges of a small tree that
  joins them in the graph of all links (K. Mehlhorn, 1988).

Sizes of 500 and more take minutes each.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import networkx as nx

from benchmarks.arguments import at_least, listed
from benchmarks.report import Bars, print_line
from ges.wire.broker_messages import MeasuredLinks
from ges.wire.client_messages import Level
from overlay.machine import Message
from overlay.rng import rng_for
from sims.experiments.service import Service

SIZES = [8, 32, 64, 128, 256]
SHARES = (1.0, 0.5, 0.25, 0.1, 0.01)  #: of the brokers that want an event ...
MOST_OVER_TREE = (1.05, 1.4, 1.75, 2.0, 2.2)  #: ... and the messages it may cost, over a small tree
IDLE_S = 10.0
JOIN_S = 4.0
SUBSCRIBE_S = 2.0
JOINS = 3
SUBSCRIPTIONS = 8
EVENTS = 10  #: of each share
MOST_IDLE = 0.2  #: messages a second


@dataclass(frozen=True, slots=True)
class Grown:
    """What was measured at one size."""

    nodes: int
    clusters: int
    members: int  #: of the largest cluster
    idle: float
    join: float
    new: float
    covered: float
    active_ms: float
    active_most_ms: float
    rows: float
    rows_most: int
    over_tree: tuple[float, ...]  #: by :data:`SHARES`


def measure(nodes: int, limit: int, seed: int) -> Grown:
    """Measure at one size."""
    service = Service.of_clusters_at_once(nodes, limit, seed)
    members = Counter(service.brokers[uid].node.units.cluster for uid in service.alive)
    idle = _spent(service, IDLE_S, lambda: None) / IDLE_S
    new, took = _new(service, seed, idle)
    covered = _covered(service, seed, idle)
    rows = [_rows(service, uid) for uid in service.alive]
    over_tree = tuple(_over_tree(service, share, seed) for share in SHARES)
    join = [
        _spent(service, JOIN_S, lambda: service.start(service.uids[-3:])) - idle * JOIN_S
        for _ in range(JOINS)
    ]
    return Grown(
        nodes,
        len(members),
        max(members.values()),
        idle / nodes,
        statistics.median(join),
        new,
        covered,
        statistics.median(took),
        max(took),
        statistics.median(rows),
        max(rows),
        over_tree,
    )


def _spent(service: Service, seconds: float, act: Callable[[], object]) -> int:
    """Return how many messages of this layer are sent in some seconds from an act on."""
    before = _sent(service)
    act()
    service.run(seconds)
    return _sent(service) - before


def _sent(service: Service) -> int:
    return sum(
        count
        for broker in service.brokers.values()
        for kind, count in broker.sent.items()
        if _is_of_this_layer(kind)
    )


def _is_of_this_layer(kind: type[Message]) -> bool:
    return kind.__module__.startswith("ges.") and kind is not MeasuredLinks


def _new(service: Service, seed: int, idle: float) -> tuple[float, list[float]]:
    """Return messages for a subscription that nothing covers, and how long each took (ms)."""
    rng = rng_for(seed, "growth")
    sent, took = [], []
    for number in range(SUBSCRIPTIONS):
        uid = rng.choice(service.alive)
        before, at = _sent(service), service.timeline.now
        client = service.subscribe(uid, f"growth/{number}/#")
        service.run(SUBSCRIBE_S)
        sent.append(_sent(service) - before - idle * SUBSCRIBE_S)
        reached = [when for when, told in client.activated if told.level is Level.SYSTEM]
        took += [(when - at) / 1e6 for when in reached[:1]]
    if len(took) < SUBSCRIPTIONS:
        sys.exit(f"{SUBSCRIPTIONS - len(took)} subscriptions were not active in {SUBSCRIBE_S:g} s")
    return statistics.median(sent), took


def _covered(service: Service, seed: int, idle: float) -> float:
    """Return messages for a subscription that one at the same broker covers (the median)."""
    uids = rng_for(seed, "covered").choices(service.alive, k=SUBSCRIPTIONS)
    for number, uid in enumerate(uids):
        service.subscribe(uid, f"wide/{number}/#")
    service.run(SUBSCRIBE_S + 1)
    sent = []
    for number, uid in enumerate(uids):
        act = partial(service.subscribe, uid, f"wide/{number}/narrow")
        sent.append(_spent(service, SUBSCRIBE_S, act) - idle * SUBSCRIBE_S)
    return statistics.median(sent)


def _rows(service: Service, uid: str) -> int:
    """Return how many rows a broker holds: of members, units, links and interests."""
    node = service.brokers[uid].node
    units = sum(len(table.rows) for table in node.units.tables.values())
    links = sum(len(state.links) + len(state.gates) for state in node.gateways.states.states)
    profiles: int = sum(len(node.profiles.index.interests_of(each)) for each in node.units.members)
    stated = sum(
        len(each.interests) + len(each.edges)
        for level in (1, 2, 3)
        for each in node.statements.of_level(level, None)
    )
    return len(node.units.members) + units + links + profiles + stated


def _over_tree(service: Service, share: float, seed: int) -> float:
    """Return messages for an event that this share of the brokers want, over a small tree."""
    rng = rng_for(seed, "events", share)
    topic = f"share/{share:g}"
    wanted = rng.sample(service.alive, max(1, round(share * len(service.alive))))
    for uid in wanted:
        service.subscribe(uid, topic)
    graph = nx.Graph()
    for uid in service.alive:
        graph.add_edges_from((uid, other) for other in service.brokers[uid].node.ring.linked)
    sources = rng.choices(service.alive, k=EVENTS)
    clients = [service.subscribe(source, "none") for source in sources]
    service.run(SUBSCRIBE_S)
    spent = best = 0
    for source, client in zip(sources, clients, strict=True):
        before = _received(service)
        client.publish(topic, [b"x"])
        service.run(0.5)
        spent += _received(service) - before
        ends = {source, *wanted}
        if len(ends) > 1:
            tree = nx.algorithms.approximation.steiner_tree(graph, ends, method="mehlhorn")
            best += tree.number_of_edges()
    return spent / best if best else 1.0


def _received(service: Service) -> int:
    return sum(broker.counters["events_received"] for broker in service.brokers.values())


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.growth", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--nodes", type=listed(at_least(2)), default=SIZES)
    parser.add_argument("--unit-limit", type=at_least(3), default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=Path, help="write the rows there as well")
    parser.add_argument("--plot", type=Path, help="draw what a join and a subscription cost")
    given = parser.parse_args()
    found = []
    bars = Bars()
    for nodes in given.nodes:
        grown = measure(nodes, given.unit_limit, given.seed)
        found.append(grown)
        ratios = ", ".join(f"{each:.2f}" for each in grown.over_tree)
        print_line(
            f"{nodes} brokers in {grown.clusters} clusters of {grown.members} at most:"
            f" idle {grown.idle:.2f}/s, join {grown.join:.0f}, new {grown.new:.0f},"
            f" covered {grown.covered:.0f}, active {grown.active_ms:.0f} ms"
            f" ({grown.active_most_ms:.0f}), rows {grown.rows:.0f} ({grown.rows_most}),"
            f" over tree {ratios}"
        )
        _judge(bars, grown)
        if given.csv is not None:
            _write(given.csv, found)
    if given.plot is not None:
        _draw(given.plot, found)
    sys.exit(bars.exit_code)


def _judge(bars: Bars, grown: Grown) -> None:
    at = f"{grown.nodes} brokers"
    bars.at_most("H24", f"{at}, idle", grown.idle, MOST_IDLE)
    bars.at_most("H24", f"{at}, join", grown.join, 3 * grown.members + 60)
    bars.at_most("H24", f"{at}, covered", grown.covered, 0.5)
    for share, ratio, most in zip(SHARES, grown.over_tree, MOST_OVER_TREE, strict=True):
        bars.at_most("H15", f"{at}, {share:.0%}", ratio, most)


def _write(path: Path, found: Sequence[Grown]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*Grown.__dataclass_fields__][:-1] + [f"over_tree_{s:g}" for s in SHARES])
        for each in found:
            fields = [getattr(each, name) for name in Grown.__dataclass_fields__][:-1]
            writer.writerow([*fields, *each.over_tree])


def _draw(path: Path, found: Sequence[Grown]) -> None:
    from sims.plots.drawing import figure, look, sizes_axis, style, write  # heavy

    sizes = [each.nodes for each in found]
    lines = {
        "a join": [each.join for each in found],
        "a subscription that nothing covers": [each.new for each in found],
    }
    with style():
        drawn = figure(6.4, 3.6)
        axes = drawn.subplots()
        for index, (label, values) in enumerate(lines.items()):
            seen = look(index)
            axes.plot(
                sizes, values, color=seen.colour, marker=seen.marker, ls=seen.dash, label=label
            )
        sizes_axis(axes, sizes)
        axes.set_yscale("log")
        axes.set_ylabel("control messages")
        axes.legend(fontsize="small")
    write(drawn, path)


if __name__ == "__main__":
    main()
