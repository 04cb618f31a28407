"""What growing costs: control messages, rows that a broker holds, and messages for an event.

    python -m benchmarks.bars.growth [--nodes N,N,...] [--unit-limit L] [--subscriptions N]
        [--seed S] [--csv FILE] [--plot FILE.svg]

The machines of whole brokers in virtual time, whose units are there from the beginning (5/8 of the
limit in each). The cost of links is not measured, so no message is about that. For each size one
row:

- *idle*: control messages a second and broker that are not the ring's;
- *join*: such messages, relays included, in the 8 s after a broker has begun to join (the median);
- *new*, *covered*: such messages for a subscription that nothing covers yet, and for one that its
  own broker's subscriptions cover, in the 2 s after (medians), and how long the first ones took to
  be active in the whole system (median and most, ms);
- *rows*: members, units, links and asks that a broker holds, in the median and at most;
- *memory*: of this process for each broker once units have formed, its ring included (KB);
- *messages*: for an event that some share of the brokers want, over the edges of a small tree that
  joins them in the graph of all links (K. Mehlhorn, 1988). Where events go is found by the tables
  that brokers hold (:mod:`sims.experiments.walks`);
- *unsure*: up to 128 brokers, the share of broker-moments in which events go to all, as no mask is
  sure (:mod:`benchmarks.bars.unsure`): while the overlay grows from half its size by a broker a
  second, and under balanced churn; and how long that takes one broker (median, p99).

With ``--subscriptions`` clients subscribe to so many filters of 500 topics, some brokers die, and
others join. Then for 200 events it is seen at whose clients they come: at each broker with a
subscriber once, and at no other. Some pass a broker on the way to two others, *crossing* there.

1,024 brokers take five minutes of a core to form, and 10,000 subscriptions there take longer.
"""

from __future__ import annotations

import argparse
import csv
import gc
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import networkx as nx

from benchmarks.arguments import at_least, listed
from benchmarks.bars.unsure import Share, churning, growing
from benchmarks.report import Bars, print_line
from ges.wire.matter import Matter
from overlay.ids import LinkClass
from overlay.machine import Message
from overlay.rng import rng_for
from sims.experiments.machines import Machines
from sims.experiments.walks import walk
from sims.world.world import CrashMode

SIZES = [8, 16, 32, 64, 128, 256, 512, 1024]
SHARES = (1.0, 0.5, 0.25, 0.1, 0.01)  #: of the brokers that want an event ...
MOST_OVER_TREE = (1.05, 1.4, 1.75, 2.0, 2.2)  #: ... and the messages it may cost, over a small tree
IDLE_S = 10.0
JOIN_S = 8.0
SUBSCRIBE_S = 2.0
JOINS = 5
SUBSCRIPTIONS = 8
EVENTS = 10  #: of each share
MOST_IDLE = 0.2  #: messages a second
TOPICS = 500  #: that clients subscribe to
JUDGED = 200  #: events whose receivers are looked at
MOST_WATCHED = 128  #: brokers of the largest overlay in which it is seen how long masks are unsure
MOST_GROWING = 0.05  #: of broker-moments may be unsure while it grows ...
MOST_CHURNING = 0.005  #: ... and under balanced churn
MOST_UNSURE_S = (1.0, 3.0)  #: one broker is unsure so long at a time: in the median, at p99
CHURN = 0.02  #: of the brokers die, and as many join ...
MOST_CHURN = 50  #: ... but no more than that


@dataclass(frozen=True, slots=True)
class Grown:
    """What was measured at one size."""

    nodes: int
    clusters: int
    members: int  #: of the largest cluster
    formed_s: float  #: of computing
    idle: float
    join: float
    new: float
    covered: float
    active_ms: float
    active_most_ms: float
    rows: float
    rows_most: int
    memory_kb: float
    over_tree: tuple[float, ...]  #: by :data:`SHARES`
    wrong: int | None  #: events that came twice, to the wrong clients or not at all; None: not seen
    crossing: int | None  #: events of which two copies passed one broker
    growing: Share | None  #: masks were not sure while it grew; None: not seen
    churning: Share | None  #: ... and under churn


def measure(nodes: int, limit: int, seed: int, subscriptions: int) -> Grown:
    """Measure at one size."""
    begun, before = time.process_time(), _resident_kb()
    machines = Machines.laid_out(nodes, limit, seed)
    formed_s, memory_kb = time.process_time() - begun, (_resident_kb() - before) / nodes
    print_line(f"{nodes} brokers: formed in {formed_s:.0f} s of computing, {memory_kb:.0f} KB each")
    members = Counter(machines.brokers[uid].units.cluster for uid in machines.alive)
    idle = _spent(machines, IDLE_S, lambda: None) / IDLE_S
    new, took = _new(machines, seed, idle)
    covered = _covered(machines, seed, idle)
    print_line(f"{nodes} brokers: idle {idle / nodes:.2f}/s, new {new:.0f}, covered {covered:.0f}")
    over_tree = tuple(_over_tree(machines, share, seed) for share in SHARES)
    print_line(f"{nodes} brokers: over tree {', '.join(f'{each:.2f}' for each in over_tree)}")
    join = [
        _spent(machines, JOIN_S, lambda: machines.start(machines.alive[-3:])) - idle * JOIN_S
        for _ in range(JOINS)
    ]
    print_line(f"{nodes} brokers: joins {', '.join(f'{each:.0f}' for each in join)}")
    wrong, crossing = _judged(machines, subscriptions, seed) if subscriptions else (None, None)
    rows = [_rows(machines, uid) for uid in machines.alive]
    grown = churned = None
    if nodes <= MOST_WATCHED:
        young, grown = growing(nodes, limit, seed)
        churned = churning(young, seed)
    return Grown(
        nodes,
        len(members),
        max(members.values()),
        formed_s,
        idle / nodes,
        statistics.median(join),
        new,
        covered,
        statistics.median(took),
        max(took),
        statistics.median(rows),
        max(rows),
        memory_kb,
        over_tree,
        wrong,
        crossing,
        grown,
        churned,
    )


def _resident_kb() -> float:
    """Return what this process takes of memory now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024


def _spent(machines: Machines, seconds: float, act: Callable[[], object]) -> int:
    """Return how many messages of this layer are sent in some seconds from an act on."""
    before = _sent(machines)
    act()
    machines.run(seconds)
    return _sent(machines) - before


def _sent(machines: Machines) -> int:
    return sum(count for kind, count in machines.messages.items() if _is_of_this_layer(kind))


def _is_of_this_layer(kind: type[Message]) -> bool:
    return kind.__module__.startswith("ges.")


def _new(machines: Machines, seed: int, idle: float) -> tuple[float, list[float]]:
    """Return messages for a subscription that nothing covers, and how long each took (ms)."""
    rng = rng_for(seed, "growth")
    sent, took = [], []
    for number in range(SUBSCRIPTIONS):
        text = f"growth/{number}/#"
        act = partial(machines.subscribe, rng.choice(machines.alive), text)
        sent.append(_spent(machines, SUBSCRIBE_S, act) - idle * SUBSCRIBE_S)
        took += [1000 * each for each in machines.active_after(text)]
    if len(took) < SUBSCRIPTIONS:
        sys.exit(f"{SUBSCRIPTIONS - len(took)} subscriptions were not active in {SUBSCRIBE_S:g} s")
    return statistics.median(sent), took


def _covered(machines: Machines, seed: int, idle: float) -> float:
    """Return messages for a subscription that one at the same broker covers (the median)."""
    uids = rng_for(seed, "covered").choices(machines.alive, k=SUBSCRIPTIONS)
    for number, uid in enumerate(uids):
        machines.subscribe(uid, f"wide/{number}/#")
    machines.run(SUBSCRIBE_S + 1)
    sent = []
    for number, uid in enumerate(uids):
        act = partial(machines.subscribe, uid, f"wide/{number}/narrow")
        sent.append(_spent(machines, SUBSCRIBE_S, act) - idle * SUBSCRIBE_S)
    return statistics.median(sent)


def _rows(machines: Machines, uid: str) -> int:
    """Return how many rows a broker holds: of members, units, links and asks."""
    node = machines.brokers[uid]
    units = sum(len(table.rows) for table in node.units.tables.values())
    links = sum(len(state.links) + len(state.gates) for state in node.gateways.states.table)
    profiles: int = sum(len(node.profiles.index.asks_of(each)) for each in node.units.members)
    stated = sum(
        len(each.asks) + len(each.edges)
        for level in (1, 2, 3)
        for each in node.statements.tables[level]
    )
    return len(node.units.members) + units + links + profiles + stated


def _over_tree(machines: Machines, share: float, seed: int) -> float:
    """Return messages for an event that this share of the brokers want, over a small tree."""
    rng = rng_for(seed, "events", share)
    topic = f"share/{share:g}"
    wanted = rng.sample(machines.alive, max(1, round(share * len(machines.alive))))
    for uid in wanted:
        machines.subscribe(uid, topic)
    machines.run(SUBSCRIBE_S)
    graph = nx.Graph()
    for uid in machines.alive:
        graph.add_edges_from((uid, other) for other in machines.nodes[uid].linked)
    spent = best = 0
    for source in rng.choices(machines.alive, k=EVENTS):
        spent += walk(machines.brokers, source, topic.encode()).received.total()
        ends = {source, *wanted}
        if len(ends) > 1:
            tree = nx.algorithms.approximation.steiner_tree(graph, ends, method="mehlhorn")
            best += tree.number_of_edges()
    return spent / best if best else 1.0


def _judged(machines: Machines, subscriptions: int, seed: int) -> tuple[int, int]:
    """Let clients subscribe, brokers die and join; return how many events go wrong, or cross."""
    rng = rng_for(seed, "subscriptions")
    for _ in range(subscriptions):
        topic = rng.randrange(TOPICS)
        machines.subscribe(rng.choice(machines.alive), f"many/{topic % 20}/{topic}")
    machines.run(SUBSCRIBE_S)
    for _ in range(max(1, min(MOST_CHURN, round(CHURN * len(machines.alive))))):
        machines.crash(rng.choice(machines.alive), CrashMode.KILL)
        machines.start(rng.sample(machines.alive, 3))
        machines.run(0.1)
    machines.run(JOIN_S)
    machines.rest_units()
    print_line(f"{len(machines.alive)} brokers: at rest with {subscriptions} subscriptions")
    wrong = crossing = 0
    for _ in range(JUDGED):
        topic = rng.randrange(TOPICS)
        text = f"many/{topic % 20}/{topic}".encode()
        walked = walk(machines.brokers, rng.choice(machines.alive), text)
        wanting = Counter(uid for uid in machines.alive if _wants(machines, uid, text))
        wrong += walked.delivered != wanting
        crossing += max(walked.received.values(), default=1) > 1
    return wrong, crossing


def _wants(machines: Machines, uid: str, topic: bytes) -> bool:
    """Say whether a client of a broker wants a topic."""
    node = machines.brokers[uid]
    slot = node.gateways.slot
    return slot is not None and bool(node.mask_of(Matter(LinkClass.NORMAL, topic)) >> slot & 1)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.growth", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--nodes", type=listed(at_least(2)), default=SIZES)
    parser.add_argument("--unit-limit", type=at_least(3), default=64)
    parser.add_argument("--subscriptions", type=at_least(0), default=0, help="of clients, in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=Path, help="write the rows there as well")
    parser.add_argument("--plot", type=Path, help="draw what a join and a subscription cost")
    given = parser.parse_args()
    found = []
    bars = Bars()
    # Each in a process of its own, so that what one takes of memory is not what another has left.
    one = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1)
    for nodes in given.nodes:
        asked = one.submit(measure, nodes, given.unit_limit, given.seed, given.subscriptions)
        grown = asked.result()
        found.append(grown)
        ratios = ", ".join(f"{each:.2f}" for each in grown.over_tree)
        print_line(
            f"{nodes} brokers in {grown.clusters} clusters of {grown.members} at most:"
            f" idle {grown.idle:.2f}/s, join {grown.join:.0f}, new {grown.new:.0f},"
            f" covered {grown.covered:.0f}, active {grown.active_ms:.0f} ms"
            f" ({grown.active_most_ms:.0f}), rows {grown.rows:.0f} ({grown.rows_most}),"
            f" {grown.memory_kb:.0f} KB, over tree {ratios}"
            + (
                f", of {JUDGED} events {grown.wrong} wrong, {grown.crossing} crossing"
                if grown.wrong is not None
                else ""
            )
        )
        if grown.growing is not None and grown.churning is not None:
            print_line(
                f"{nodes} brokers: unsure {grown.growing.unsure:.2%} growing"
                f" ({grown.growing.median_s:.1f} s, p99 {grown.growing.p99_s:.1f} s),"
                f" {grown.churning.unsure:.2%} in churn"
                f" ({grown.churning.median_s:.1f} s, p99 {grown.churning.p99_s:.1f} s)"
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
    if grown.wrong is not None:
        bars.at_most("H14", f"{at}, events wrong", grown.wrong, 0)
    for name, seen, most_unsure in (
        ("growing", grown.growing, MOST_GROWING),
        ("in churn", grown.churning, MOST_CHURNING),
    ):
        if seen is not None:
            bars.at_most("0083", f"{at}, unsure {name}", seen.unsure, most_unsure)
    if grown.churning is not None:
        spans = grown.churning.median_s, grown.churning.p99_s
        for name, span, most_span in zip(("median", "p99"), spans, MOST_UNSURE_S, strict=True):
            bars.at_most("0083", f"{at}, unsure in churn, {name} s", span, most_span)
    for share, ratio, most in zip(SHARES, grown.over_tree, MOST_OVER_TREE, strict=True):
        bars.at_most("H15", f"{at}, {share:.0%}", ratio, most)


def _write(path: Path, found: Sequence[Grown]) -> None:
    apart = {"over_tree", "growing", "churning"}
    names = [name for name in Grown.__dataclass_fields__ if name not in apart]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        unsure = ["unsure_growing", "unsure_churning"]
        writer.writerow([*names, *(f"over_tree_{share:g}" for share in SHARES), *unsure])
        for each in found:
            shares = [seen and seen.unsure for seen in (each.growing, each.churning)]
            values = (getattr(each, name) for name in names)
            writer.writerow([*values, *each.over_tree, *shares])


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
