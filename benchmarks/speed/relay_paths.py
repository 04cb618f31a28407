"""What relay paths cost, and how soon and how seldom they change.

    python -m benchmarks.speed.relay_paths [--changes N] [--minutes M]

*Paths*: a ring of n brokers with chords; one link after the other changes its cost, and the
cheapest paths of one broker are brought up to date, against the same from scratch here and in
networkx. *Reaction*: in virtual time, three brokers with links of 1 ms; one link becomes slower and
recovers, with an event on it every second, and idle. *Noise*: a link that wavers at random by so
much, for the minutes given. *Idle*: what measuring costs where nothing happens.
"""

from __future__ import annotations

import argparse
import random
import time

import networkx

from benchmarks.arguments import at_least
from benchmarks.report import print_line
from benchmarks.stage.mesh import Mesh
from overlay.ids import LinkClass, nanos
from overlay.multigraph.graph import Multigraph, as_networkx
from overlay.multigraph.paths import ShortestPaths
from overlay.multigraph.probes import Reading
from overlay.multigraph.weights import Weights
from overlay.rng import rng_for

BROKERS = (64, 256, 1024)
SLOWER_MS = (5, 20, 100, 500)
NOISE = (0.1, 0.3, 0.6)
PATIENCE = 300  #: seconds, virtual


def main() -> None:
    """Print the four tables, each with its units; there are no bars."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.relay_paths", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--changes", type=at_least(1), default=300, help="changes of links for each size"
    )
    parser.add_argument("--minutes", type=at_least(1), default=10, help="virtual time under noise")
    options = parser.parse_args()
    print_line("paths: us for each change of a link")
    print_line(
        f"{'brokers':>9}{'links':>7}{'networkx':>11}{'from scratch':>14}{'kept up':>9}{'ratio':>8}"
    )
    for n in BROKERS:
        print_line(_paths(n, options.changes))
    print_line(
        "\nreaction: a link of 1 ms, one way, becomes slower and recovers; a relay takes 2 ms"
    )
    print_line(f"{'to ms':>9}{'left after s':>14}{'back after s':>14}{'changes':>9}")
    for is_used in (True, False):
        print_line("with events on it" if is_used else "without")
        for slower in SLOWER_MS:
            print_line(_reaction(slower, is_used=is_used))
    print_line(
        f"\nnoise: the direct link wavers about 2 ms, a relay takes 2 ms; {options.minutes} min"
    )
    print_line(f"{'by':>9}{'changes of way':>16}{'tables told per s':>19}")
    for share in NOISE:
        print_line(_noise(share, options.minutes))
    print_line("\nidle: messages sent per second by each broker, probes, echoes and tables")
    for degree in (4, 8, 12):
        print_line(f"{degree:9} links:{_idle(degree):8.2f}")


def _ring(n: int, rng: random.Random) -> tuple[Multigraph, list[tuple[str, str]]]:
    """Return the links of brokers 1, 2, 4, 8 ... places apart."""
    uids = [f"{number:032x}" for number in range(n)]
    graph, links = Multigraph(), []
    step = 1
    while step <= n // 2:
        for number in range(n):
            pair = uids[number], uids[(number + step) % n]
            graph.put(*pair, LinkClass.NORMAL, _weights(rng))
            links.append(pair)
        step *= 2
    return graph, links


def _weights(rng: random.Random) -> Weights:
    return Weights(nanos(rng.uniform(0.001, 0.05)), 0)


def _paths(n: int, changes: int) -> str:
    rng = rng_for(1, "paths", n)
    graph, links = _ring(n, rng)
    source = f"{0:032x}"
    paths = ShortestPaths(graph, LinkClass.NORMAL, source)
    graph.take_changed(LinkClass.NORMAL)
    kept = scratch = oracle = 0.0
    view = as_networkx(graph)
    for number in range(changes):
        graph.put(*rng.choice(links), LinkClass.NORMAL, _weights(rng))
        start = time.perf_counter()
        paths.update(graph.take_changed(LinkClass.NORMAL))
        kept += time.perf_counter() - start
        if number % 30 == 0:
            start = time.perf_counter()
            ShortestPaths(graph, LinkClass.NORMAL, source)
            scratch += time.perf_counter() - start
            view = as_networkx(graph)
            start = time.perf_counter()
            networkx.single_source_dijkstra(view, source, weight="cost_ns")
            oracle += time.perf_counter() - start
    samples = (changes + 29) // 30
    times = oracle / samples * 1e6, scratch / samples * 1e6, kept / changes * 1e6
    return (
        f"{n:9}{graph.size:7}{times[0]:11.0f}{times[1]:14.0f}{times[2]:9.1f}"
        f"{times[2] / times[1]:8.3f}"
    )


def _triangle(direct_ms: float) -> Mesh:
    mesh = Mesh("abc")
    mesh.link("ab", direct_ms)
    mesh.link("ac", 1)
    mesh.link("bc", 1)
    mesh.run(30)
    return mesh


def _reaction(slower_ms: float, *, is_used: bool) -> str:
    mesh = _triangle(1)
    _pass(mesh, 120, is_used=is_used)
    mesh.link("ab", slower_ms)
    left = _until(mesh, "acb", is_used=is_used)
    _pass(mesh, 60, is_used=is_used)
    mesh.link("ab", 1)
    back = _until(mesh, "ab", is_used=is_used)
    return f"{slower_ms:9}{left:>14}{back:>14}{mesh.changes('a'):9}"


def _pass(mesh: Mesh, seconds: int, *, is_used: bool) -> None:
    """Let time pass; where the link is used, an event goes over it every second, both ways."""
    for _ in range(seconds):
        mesh.run(1)
        _read(mesh, is_used=is_used)


def _read(mesh: Mesh, *, is_used: bool) -> None:
    if is_used:
        for here, there in ("ab", "ba"):
            reading = Reading((there, LinkClass.NORMAL), 0, 0, events=mesh.now)
            mesh.nodes[here].survey.on_read([reading], mesh.now)


def _until(mesh: Mesh, path: str, *, is_used: bool) -> str:
    start = mesh.now
    while mesh.path("ab") != path:
        if mesh.now - start > nanos(PATIENCE):
            return "never"
        for _ in range(10):
            mesh.run(0.1)
            if mesh.path("ab") == path:
                break
        _read(mesh, is_used=is_used)
    return f"{(mesh.now - start) / 1e9:.1f}"


def _noise(share: float, minutes: int) -> str:
    mesh = _triangle(2)
    rng = rng_for(1, "noise", share)
    told = sum(node.survey.told for node in mesh.nodes.values())
    for _ in range(60 * minutes):
        mesh.link("ab", 2 * rng.uniform(1 - share, 1 + share))
        mesh.run(1)
    told = sum(node.survey.told for node in mesh.nodes.values()) - told
    return f"{share:9.0%}{mesh.changes('a'):16}{told / (60 * minutes):19.2f}"


def _idle(degree: int) -> float:
    names = "abcdefghijklmnop"[: degree + 1]
    mesh = Mesh(names)
    for here in names:
        for there in names[names.index(here) + 1 :]:
            mesh.link(here + there, 1)
    mesh.run(30)
    before = mesh.messages
    mesh.run(120)
    return (mesh.messages - before) / 120 / len(names)


if __name__ == "__main__":
    main()
