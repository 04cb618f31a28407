"""What matching costs by the number of filters: two bars.

    python -m benchmarks.speed.matching [--topics T] [--rounds R]

Filters of three levels, such as ``d17/+/x3``: half of them exact, half with one or two wildcards.
Topics are drawn in the same way, and each is matched by a few filters. The time of one match with
100,000 filters is compared with that of 10,000, for clients (the holders of a filter are found) and
for members (a mask of 64 bits). Nothing is remembered between two matches.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable

from benchmarks.arguments import at_least
from benchmarks.report import Bars, print_line
from ges.matching.mask_index import MAX_MEMBERS, MaskIndex
from ges.matching.topic_filters import TopicFilters
from overlay.rng import rng_for

FEW, MANY = 10_000, 100_000
MOST_TIMES = 3.0


def main() -> None:
    """Print microseconds a match for both sizes, and whether the bars are met."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.matching", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--topics", type=at_least(1), default=5_000)
    parser.add_argument("--rounds", type=at_least(1), default=5, help="the best of so many counts")
    options = parser.parse_args()
    bars = Bars()
    for title, build in (("clients", _clients), ("masks", _masks)):
        costs = []
        for size in (FEW, MANY):
            rng = rng_for("matching")
            work, count = build(size, rng)
            topics = [_topic(size, rng) for _ in range(options.topics)]
            took = min(_seconds(work, topics) for _ in range(options.rounds))
            found = sum(map(count, topics)) / len(topics)
            costs.append(1e6 * took / len(topics))
            print_line(f"{title:8}{size:8} filters {costs[-1]:8.2f} us a match, {found:.1f} found")
        bars.at_most("matching", f"{title}, times the cost", costs[1] / costs[0], MOST_TIMES)
    sys.exit(bars.exit_code)


def _clients(size: int, rng: random.Random) -> tuple[Callable[[str], object], Callable[[str], int]]:
    engine: TopicFilters[int] = TopicFilters()
    for number in range(size):
        engine.add(_filter(size, rng), number)
    return engine.matches, lambda topic: len(engine.matches(topic))


def _masks(size: int, rng: random.Random) -> tuple[Callable[[str], object], Callable[[str], int]]:
    index = MaskIndex()
    for number in range(size):
        index.add(_filter(size, rng), number % MAX_MEMBERS)

    def match(topic: str) -> int:
        index.drop_cache()
        return index.mask_of(topic.encode())

    return match, lambda topic: match(topic).bit_count()


def _topic(size: int, rng: random.Random) -> str:
    """Return a topic; with ten times the filters there are ten times the topics."""
    return f"d{rng.randrange(size // 100)}/m{rng.randrange(10)}/x{rng.randrange(10)}"


def _filter(size: int, rng: random.Random) -> str:
    device, middle, last = _topic(size, rng).split("/")
    shapes = (f"{device}/+/{last}", f"{device}/#", f"{device}/{middle}/+", f"{device}/+/+")
    return rng.choice(shapes) if rng.random() < 0.5 else f"{device}/{middle}/{last}"


def _seconds(work: Callable[[str], object], topics: list[str]) -> float:
    start = time.perf_counter()
    for topic in topics:
        work(topic)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
