"""What is lost of the records that brokers back up on each other, and who owns them afterwards.

    python -m benchmarks.bars.backups [--seeds N] [--only NAME,...]

Simulated rings of the ``lan`` profile; every broker owns records. Three bars a check:

* ``loss``: L brokers in a row die at once; with r backups max(0, L - r) brokers' records are lost;
* ``heirs``: a neighbour dies at each of the messages of a take-over; every record has one owner;
* ``paused``: one broker or two are stopped for 5 to 30 s, taken for dead, and come back;
* ``rolling``: each broker of a ring leaves and starts again, the one after the other;
* ``storm``: half of a ring leaves within a second;
* ``exodus``: nine of ten leave at one moment;
* ``restarts``: brokers lose power one after the other, and are soon back, while others join;
* ``returns``: brokers and their neighbours die, and are soon back.

In the last two a record may be lost if every broker that had its bytes died.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.arguments import at_least, listed, one_of
from benchmarks.report import Bars
from overlay.rng import rng_for
from ring.facts import Left
from sims.experiments.cluster import KILL, POWER
from sims.experiments.record_rings import RecordRing
from sims.stories.records import die_and_return, restart_all

RUNS = range(1, 9)
BACKUPS = range(1, 5)
ROLLING = (8, 14, 20, 35, 50)
STORM = 200
EXODUS = 60


@dataclass
class Tally:
    """Runs of one check, and what was wrong in them."""

    runs: int = 0
    records: int = 0
    lost: int = 0  #: records without an owner that should have one, or the other way round
    doubled: int = 0  #: records with more than one
    broken: int = 0  #: local invariants that did not hold at some moment

    def count(self, ring: RecordRing, keys: Iterable[str]) -> None:
        """Add a run: each of ``keys`` should have one owner."""
        self.runs += 1
        self.broken += len(ring.ledger.findings)
        for key in keys:
            owners = len(ring.owners(key))
            self.records += 1
            self.lost += owners == 0
            self.doubled += owners > 1


def loss(seeds: int) -> Tally:
    """A run of L dies at once, killed or without power."""
    tally = Tally()
    for backups in BACKUPS:
        for run in RUNS:
            for seed in range(seeds):
                rng = rng_for("loss", backups, run, seed)
                ring = RecordRing.warm(20, seed, backups)
                keys = ring.put_everywhere(2)
                order = ring.in_order
                first = rng.randrange(len(order))
                dead = [order[(first + step) % len(order)] for step in range(run)]
                mode = rng.choice((KILL, POWER))
                for uid in dead:
                    ring.crash(uid, mode)
                ring.settle()
                gone = {uid for uid in dead if not any(ring.owners(f"{uid}/{k}") for k in (0, 1))}
                tally.count(ring, [key for key in keys if key.split("/")[0] not in gone])
                tally.lost += 2 * abs(len(gone) - max(0, run - backups))
    return tally


def heirs(seeds: int) -> Tally:
    """B dies, then A, C or another holder at some message of what follows."""
    tally = Tally()
    for seed in range(seeds):
        for sends in range(40):
            rng = rng_for("heirs", seed, sends)
            ring = RecordRing.warm(rng.randrange(5, 10), seed, rng.randrange(2, 5))
            keys = ring.put_everywhere()
            order = ring.in_order
            heir = order[(3 + rng.choice((-2, -1, -1, 1, 1, 2))) % len(order)]
            ring.doom(heir, sends, rng.choice((KILL, POWER)))
            ring.crash(order[3], rng.choice((KILL, POWER)))
            while heir in ring.alive:  # the last of its messages may be a heartbeat much later
                ring.run(0.5)
            ring.settle()
            tally.count(ring, keys)
    return tally


def paused(seeds: int) -> Tally:
    """One broker or two stand still until they are taken for dead, and go on."""
    tally = Tally()
    for seed in range(10 * seeds):
        rng = rng_for("paused", seed)
        ring = RecordRing.warm(rng.randrange(5, 41), seed, rng.randrange(1, 5))
        keys = ring.put_everywhere()
        for uid in rng.sample(ring.in_order, rng.randrange(1, 3)):
            ring.pause(uid)
            ring.world.at(ring.world.now + rng.randrange(5, 31) * 10**9, ring.resume, uid)
        ring.run(31)
        ring.settle()
        tally.count(ring, keys)
    return tally


def rolling(seeds: int) -> Tally:
    """Everybody leaves and comes back, one after the other."""
    tally = Tally()
    for seed in range(max(1, seeds // 2)):
        for n in ROLLING:
            ring = RecordRing.warm(n, seed, 1 + (n + seed) % 4)
            keys = ring.put_everywhere(2)
            for uid in list(ring.alive):
                ring.leave(uid)
                while uid in ring.alive:
                    ring.run(0.02)
                tally.count(ring, keys)
                tally.runs -= 1
                ring.run(0.3)
                ring.restart(uid, ring.alive[:3])
                ring.run(1.5)
            ring.settle()
            tally.count(ring, keys)
    return tally


def storm(seeds: int) -> Tally:
    """Half of a ring leaves within a second."""
    tally = Tally()
    for seed in range(max(1, seeds // 2)):
        rng = rng_for("storm", seed)
        ring = RecordRing.warm(STORM, seed, 1 + seed % 4)
        keys = ring.put_everywhere(2)
        for uid in rng.sample(ring.in_order, STORM // 2):
            ring.world.at(ring.world.now + rng.randrange(10**9), ring.leave, uid)
        ring.run(4)
        assert len(ring.told(Left)) == STORM // 2
        ring.settle()
        tally.count(ring, keys)
    return tally


def exodus(seeds: int) -> Tally:
    """Nine of ten brokers leave at one moment."""
    tally = Tally()
    for seed in range(seeds):
        ring = RecordRing.warm(EXODUS, seed, 1 + seed % 4)
        keys = ring.put_everywhere(2)
        leaving = rng_for("exodus", seed).sample(ring.in_order, EXODUS * 9 // 10)
        for uid in leaving:
            ring.leave(uid)
        ring.run(4)
        assert len(ring.told(Left)) == len(leaving)
        ring.settle()
        tally.count(ring, keys)
    return tally


def restarts(seeds: int) -> Tally:
    """Everybody loses power and comes back, one by one, in half of the rings in ring order."""
    return _kept(restart_all, range(50 * seeds))


def returns(seeds: int) -> Tally:
    """Brokers die in ones and twos, and come back within seconds."""
    return _kept(die_and_return, range(125 * seeds))


def _kept(play: Callable[[int], tuple[RecordRing, list[str]]], seeds: Iterable[int]) -> Tally:
    """Count the records of which somebody alive had bytes at any time."""
    tally = Tally()
    for seed in seeds:
        ring, keys = play(seed)
        tally.count(ring, [key for key in keys if key not in ring.buried])
    return tally


#: name -> bar, statement, check
CHECKS = {
    "loss": ("L-r", "runs of 1..8 dead, 1..4 backups: max(0, L - r) brokers' records lost", loss),
    "heirs": ("own", "a second death at each message of a take-over", heirs),
    "paused": ("B22", "brokers stopped for 5..30 s and back", paused),
    "rolling": ("own", f"rolling restarts of rings of {ROLLING}", rolling),
    "storm": ("own", f"half of a ring of {STORM} leaves within a second", storm),
    "exodus": ("own", f"nine tenths of rings of {EXODUS} leave at one moment", exodus),
    "restarts": ("own", "brokers lose power one by one, and are soon back", restarts),
    "returns": ("own", "brokers and their neighbours die, and are soon back", returns),
}


def main() -> None:
    """Run the checks named and print three bars of each; exit code 1 if one is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.backups", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--seeds", type=at_least(1), default=2, help="more: longer, and more certain"
    )
    parser.add_argument(
        "--only",
        type=listed(one_of(CHECKS)),
        default=list(CHECKS),
        help="names of checks, with commas",
    )
    options = parser.parse_args()
    bars = Bars()
    for name in options.only:
        bar, statement, check = CHECKS[name]
        tally = check(options.seeds)
        bars.note(f"{name}: {tally.runs} runs, {tally.records} records")
        wrong = "not lost as expected" if name == "loss" else "without an owner"
        bars.check(bar, f"{statement}: records {wrong}", tally.lost, 0)
        bars.check(bar, f"{statement}: records with two owners", tally.doubled, 0)
        bars.check(bar, f"{statement}: broken local invariants", tally.broken, 0)
    sys.exit(bars.exit_code)


if __name__ == "__main__":
    main()
