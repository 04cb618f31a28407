"""Stories of records: what is lost, and who owns the rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from overlay.ids import nanos
from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import DutyLost, DutyTaken, Rejoining
from sims.experiments.cluster import KILL, POWER
from sims.experiments.record_rings import RecordRing
from sims.stories.seen import MERGE_S, confirmed

RATE = 256 * 1024  #: bytes a second to one neighbour, where copies are to be slow
LARGE, LARGE_BYTES = 24, 40 * 1024
MEETING_S = 30.0  #: claims are told to the records' homes that often, at the least

ROLLED = 12  #: brokers that are restarted, one each ...
EACH_S, BACK_S = 0.8, 0.5  #: ... and how long after its death each is back


def estates(seed: int) -> list[str]:
    """As many neighbours die as there are copies: no record is lost, and each has one owner."""
    rng = rng_for(seed, "mutants", "estates")
    found: list[str] = []
    for backups in (1, 2, 3):
        ring = RecordRing.warm(14, seed, backups)
        keys = ring.put_everywhere(4)
        for uid in ring.in_order[3 : 3 + backups]:
            ring.crash(uid, rng.choice((KILL, POWER)))
        ring.settle()
        found += _not_owned(ring, keys)
    return found


def heirs(seed: int) -> list[str]:
    """A broker dies: each of its records is taken over once, for good, by a broker beside it."""
    found: list[str] = []
    for backups in (2, 3):
        ring = RecordRing.warm(14, seed, backups)
        keys = ring.put_everywhere(8)
        order = ring.in_order
        ring.crash(order[3], KILL if seed % 2 else POWER)
        ring.settle()
        found += _not_owned(ring, keys)
        found += [f"{uid[:8]} took a record over and lost it" for uid, _ in ring.told(DutyLost)]
        moves = Counter(f.key for _, f in ring.told(DutyTaken) if isinstance(f, DutyTaken))
        found += [f"a record was taken over {count} times" for count in moves.values() if count > 1]
        if {uid for uid, _ in ring.told(DutyTaken)} - {order[2], order[4]}:
            found.append("a broker took records over that did not stand beside the dead")
    return found


def followed(seed: int) -> list[str]:
    """Brokers join and die, and copies follow them: no record is lost by a later death."""
    ring = RecordRing.warm(8, seed, 2)
    keys = ring.put_everywhere(2)
    for _ in range(4):
        ring.start(ring.in_order[:3])
        ring.run(0.5)
    ring.settle()
    order = ring.in_order
    for uid in (order[2], order[3], order[7], order[8]):
        ring.crash(uid, KILL)
    ring.settle()
    return _not_owned(ring, keys)


def newcomers(seed: int) -> list[str]:
    """A broker dies beside a newcomer that has not all copies yet: no record is lost."""
    found: list[str] = []
    for wait in (0.0, 0.1, 0.3):
        ring = RecordRing.warm(6, seed, 1, replace(LAN, backup_rate=RATE))
        keys = [f"{uid}/{number}" for uid in ring.alive for number in range(LARGE)]
        for key in keys:
            uid = key.split("/")[0]
            ring.put(uid, key, uid.encode() * (LARGE_BYTES // 32))
        ring.settle()
        newcomer = ring.join(ring.alive[:3])
        ring.run(wait)
        order = ring.in_order
        ring.crash(order[order.index(newcomer) - 1], KILL if seed % 2 else POWER)
        ring.settle()
        found += _not_owned(ring, keys)
    return found


def comebacks(seed: int) -> list[str]:
    """A broker that stood still for long, or was cut off, comes back: each record has one owner."""
    rng = rng_for(seed, "mutants", "comebacks")
    ring = RecordRing.warm(9, seed, 1 + seed % 3)
    keys = ring.put_everywhere()
    uid = rng.choice(ring.in_order)
    ring.pause(uid)
    ring.run(rng.uniform(4, 20))
    ring.resume(uid)
    found: list[str] = []
    taken = {fact.key for _, fact in ring.told(DutyTaken) if isinstance(fact, DutyTaken)}
    for _ in range(1000):
        ring.run(0.002)
        if ring.told(Rejoining) and taken & ring.nodes[uid].records.keys():
            found.append(f"{uid[:8]} was dead, and still owns what others took over")
    ring.settle()
    found += _not_owned(ring, keys)
    found += [
        f"{other[:8]} lost a record again to one that was dead"
        for other, _ in ring.told(DutyLost)
        if other != uid
    ]
    rest = [other for other in ring.alive if other != uid]
    ring.part([[uid], rest])
    ring.run(20)
    ring.heal()
    ring.rest(MERGE_S)
    ring.run(2 * MEETING_S)
    ring.settle()
    return found + _not_owned(ring, keys)


def handovers(seed: int) -> list[str]:
    """A broker leaves: each record has an owner all the while, even if an heir dies meanwhile."""
    ring = RecordRing.warm(9, seed, 2)
    keys = ring.put_everywhere()
    ring.leave(ring.in_order[3])
    found: list[str] = []
    for _ in range(200):
        ring.run(0.0002)
        found += [f"{key} has no owner during a leave" for key in keys if not ring.owners(key)]
    ring.settle()
    found += _not_owned(ring, keys)
    if confirmed(ring):
        found.append("one that left was declared dead")
    for sends in range(30):
        ring = RecordRing.warm(9, seed, 2)
        keys = ring.put_everywhere()
        ring.doom(ring.in_order[4], sends, KILL)
        ring.leave(ring.in_order[3])
        ring.settle()
        found += _not_owned(ring, keys)
    return found


def slow_handovers(seed: int) -> list[str]:
    """A broker with many records leaves, copies are slow, and an heir dies: no record is lost."""
    found: list[str] = []
    for step in range(8):
        ring = RecordRing.warm(9, seed, 2, replace(LAN, backup_rate=RATE))
        uid = ring.in_order[3]
        keys = [f"{uid}/{number}" for number in range(LARGE)]
        for key in keys:
            ring.put(uid, key, uid.encode() * (LARGE_BYTES // 32))
        ring.settle()
        heirs = ring.in_order[2], ring.in_order[4]
        ring.leave(uid)
        ring.run(0.05 + 0.1 * step)
        ring.crash(heirs[step % 2], KILL)
        ring.settle()
        found += _not_owned(ring, keys)
    return found


def drifts(seed: int) -> list[str]:
    """Brokers join on both sides of a partition: once it has healed, each record has one owner."""
    found: list[str] = []
    for number in (3 * seed - 1, 3 * seed, 3 * seed + 1):
        ring = RecordRing.warm(8, number, backups=4)
        keys = ring.put_everywhere()
        order = ring.in_order
        sides = [order[::2], order[1::2]]
        ring.part(sides)
        ring.run(MEETING_S)
        for _ in range(4):
            for side in sides:
                contacts = list(side)
                side += [ring.start_beside(contacts) for _ in range(2)]
            ring.run(12)
        ring.heal()
        ring.rest(MERGE_S)
        ring.run(2 * MEETING_S)
        ring.settle(MERGE_S)
        found += _not_owned(ring, keys)
    return found


def rolling_restarts(seed: int) -> list[str]:
    """All brokers are restarted one by one: no record is lost of which a living broker has bytes.

    Each loses power, and is back after half a second; meanwhile others join, and links are cut.
    """
    ring, keys = restart_all(seed)
    return _not_owned(ring, [key for key in keys if key not in ring.buried])


def quick_returns(seed: int) -> list[str]:
    """Brokers and their neighbours die and are soon back: no record is lost that somebody keeps."""
    ring, keys = die_and_return(seed)
    return _not_owned(ring, [key for key in keys if key not in ring.buried])


def restart_all(seed: int) -> tuple[RecordRing, list[str]]:
    """Restart every broker, in ring order if ``seed`` is odd; return ring and keys afterwards."""
    rng = rng_for(seed, "rolling restarts 13")  # of these draws seed 1 has met a loss
    ring = RecordRing.warm(ROLLED, seed, backups=2)
    keys = ring.put_everywhere(2)
    order = ring.in_order if seed % 2 else rng.sample(ring.in_order, ROLLED)
    span_s = ROLLED * EACH_S
    for number, uid in enumerate(order):
        _after(number * EACH_S, ring, partial(ring.crash, uid, POWER))
        _after(number * EACH_S + BACK_S, ring, partial(_back, ring, uid))
    for _ in range(7):
        _after(rng.uniform(0, span_s), ring, partial(_newcomer, ring))
    for _ in range(rng.randrange(6)):
        _after(rng.uniform(0, span_s), ring, partial(_cut_somewhere, ring, rng))
    ring.run(span_s + 2)
    _come_to_rest(ring)
    return ring, keys


def die_and_return(seed: int) -> tuple[RecordRing, list[str]]:
    """Let brokers die in ones and twos, and come back; return the ring afterwards, and all keys."""
    rng = rng_for(seed, "quick returns")
    ring = RecordRing.warm(rng.randrange(6, 13), seed, backups=2)
    keys = ring.put_everywhere(2)
    for _ in range(rng.randrange(2, 6)):
        order = ring.in_order
        if len(order) < 5:
            break
        at = rng.randrange(len(order))
        dying = [order[at], order[(at + rng.choice((-1, 1))) % len(order)]][: rng.randrange(1, 3)]
        for number, uid in enumerate(dying):
            dies_s = number * rng.uniform(0.0, 2.0)
            back_s = dies_s + rng.uniform(0.05, 1.5)
            _after(dies_s, ring, partial(ring.crash, uid, rng.choice((KILL, POWER))))
            _after(back_s, ring, partial(_back, ring, uid))
        if rng.random() < 0.5:
            _after(rng.uniform(0.0, 2.0), ring, partial(_newcomer, ring))
        ring.run(rng.uniform(3.6, 6.0))
    _come_to_rest(ring)
    return ring, keys


def _after(seconds: float, ring: RecordRing, do: Callable[..., None]) -> None:
    ring.world.at(ring.world.now + nanos(seconds), do)


def _back(ring: RecordRing, uid: str) -> None:
    ring.restart(uid, ring.in_order[:3])


def _newcomer(ring: RecordRing) -> None:
    ring.start(ring.in_order[:3])


def _cut_somewhere(ring: RecordRing, rng: random.Random) -> None:
    """Cut the link of two neighbours for up to three seconds."""
    uid = rng.choice(ring.in_order)
    node = ring.nodes[uid]
    beside = [m.uid for m in (*node.left, *node.right) if m.uid in ring.alive]
    if beside:
        other = rng.choice(beside)
        ring.cut(uid, other)
        _after(rng.uniform(0.2, 3.0), ring, partial(ring.mend, uid, other))


def _come_to_rest(ring: RecordRing) -> None:
    """Let silent owners be asked after, and claims meet."""
    ring.settle(MERGE_S)
    ring.run(2 * MEETING_S)
    ring.settle(MERGE_S)


def _not_owned(ring: RecordRing, keys: list[str]) -> list[str]:
    """Return the records that have no owner, or two, or other bytes than their writer's."""
    found = []
    for key in keys:
        owners = ring.owners(key)
        if len(owners) != 1:
            found.append(f"record {key[:8]}{key[32:]} has {len(owners)} owners")
        elif not ring.nodes[owners[0]].records[key].startswith(key.split("/")[0].encode()):
            found.append(f"record {key[:8]}{key[32:]} has other bytes than were written")
    return found
