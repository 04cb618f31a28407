"""The faults of a soak, one a round, and what is measured of each."""

from __future__ import annotations

import math
import random
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import StrEnum

import trio

from benchmarks.campaigns.live.observing import Watch, until_whole, witness
from benchmarks.campaigns.live.processes import Fleet, LiveBroker
from benchmarks.campaigns.live.switchboard import CLOSED, DARK
from benchmarks.campaigns.live.traffic import Pair, Traffic
from ges.operations.walk import Walk

#: A broker stays frozen, or a link cut, for so long: more than detection takes, and more than an
#: overtaken event is waited for, so that the two can be told apart.
HOLD_SECONDS = 7.0
DOZE_SECONDS = 0.6  #: ... or for so long: less than detection takes in all profiles but ``local``
LOOK_LIMIT_SECONDS = 20.0
WHOLE_LIMIT_SECONDS = 60.0
CALM_SECONDS = 1.5  #: between two rounds
EVENTS_AFTER_SECONDS = 1.0  #: events are watched for so much longer than the ring takes to heal
AGAIN_LIMIT_SECONDS = 20.0


class Fault(StrEnum):
    """What is done to the ring."""

    KILL = "kill"  #: kill -9, and a new life later
    STOP = "stop"  #: SIGSTOP for longer than detection takes, then SIGCONT
    DOZE = "doze"  #: SIGSTOP for less than that: nobody is to be declared dead
    ISOLATE = "isolate"  #: nothing comes through on any link of one broker for a while
    CUT = "cut"  #: the link between two brokers breaks, and cannot be made anew for a while
    DARK = "dark"  #: nothing comes through on the link between two brokers for a while


@dataclass
class Round:
    """One fault. Seconds are since the fault, unless said otherwise; None: it did not come to be.

    Wall clock, in nanoseconds, joins it with the traces of the brokers.
    """

    fault: Fault
    uids: tuple[str, ...]  #: the broker that failed, or the two ends of the link
    began_ns: int
    ended_ns: int = 0
    dropped_s: float | None = None  #: from outside: the first neighbour has dropped it
    repaired_s: float | None = None  #: from outside: the four around it have the right pointers
    whole_s: float | None = None  #: from outside: a walk that began then found the ring whole
    back_s: float | None = None  #: since the end of the fault: the ring of all is whole
    pauses_s: list[float] = field(default_factory=list)  #: per pair of survivors
    pauses_back_s: list[float] = field(default_factory=list)  #: the same, as the ring grows again
    #: since the end of the fault, per pair with a client at the broker that failed: it has got an
    #: event published after that
    again_s: list[float] = field(default_factory=list)
    lost: int = 0  #: events between survivors that never came
    walk_s: float | None = None  #: that walk took so long
    held_up: tuple[str, ...] = ()  #: what the walk before it found wrong
    slowest: str = ""  #: from which broker to which events paused longest
    trouble: str = ""


class Rounds:
    """Carries out faults on a fleet with traffic."""

    def __init__(self, fleet: Fleet, traffic: Traffic, watch: Watch, rng: random.Random) -> None:
        self.done: list[Round] = []
        self._fleet = fleet
        self._traffic = traffic
        self._watch = watch
        self._rng = rng

    async def run(self, fault: Fault) -> Round:
        """Carry out one fault and wait until all are one ring again.

        Raises:
            SoakFailed: the ring has not come to be whole.
        """
        await trio.sleep(CALM_SECONDS * (0.5 + self._rng.random()))
        whole = await until_whole(self._fleet, len(self._fleet.brokers), WHOLE_LIMIT_SECONDS)
        if fault in (Fault.CUT, Fault.DARK):
            return await self._cut(fault, whole.ring)
        return await self._fail(fault, self._rng.choice(self._fleet.brokers), whole.ring)

    # ── brokers ───────────────────────────────────────────────────────────────────────────────

    async def _fail(self, fault: Fault, broker: LiveBroker, ring: Walk) -> Round:
        fleet, size = self._fleet, len(self._fleet.brokers)
        pairs = self._traffic.pairs_apart_from(broker.url, broker.advertised)
        async with AsyncExitStack() as stack:
            seen = await witness(stack, fleet, ring, broker.uid)
            found = Round(fault, (broker.uid,), time.time_ns())
            self.done.append(found)
            began = trio.current_time()
            self._begin(fault, broker, ring)
            if fault is Fault.DOZE:
                await trio.sleep(DOZE_SECONDS)
            else:
                with trio.move_on_after(LOOK_LIMIT_SECONDS):
                    await seen.look()
                found.dropped_s = _since(began, seen.dropped_at)
                found.repaired_s = _since(began, seen.repaired_at)
                looked = trio.current_time() - began
                whole = await until_whole(fleet, size - 1, WHOLE_LIMIT_SECONDS)
                found.whole_s = looked + whole.waited_s
                found.walk_s, found.held_up = whole.walk_s, whole.held_up
                if fault is not Fault.KILL:
                    await trio.sleep_until(began + HOLD_SECONDS)
        await trio.sleep(EVENTS_AFTER_SECONDS if fault is Fault.KILL else 0)
        over = trio.current_time()
        published = list(self._traffic.published)
        await self._end(fault, broker)
        found.back_s = (await until_whole(fleet, size, WHOLE_LIMIT_SECONDS)).waited_s
        await trio.sleep(EVENTS_AFTER_SECONDS)
        for pair in self._traffic.pairs.values():
            if pair not in pairs:
                with trio.move_on_after(AGAIN_LIMIT_SECONDS) as limit:
                    found.again_s.append(await pair.arrival(published[pair.publisher]) - over)
                if limit.cancelled_caught:
                    found.again_s.append(math.inf)
        found.ended_ns = time.time_ns()
        self._count_events(found, pairs, began, over)
        return found

    def _begin(self, fault: Fault, broker: LiveBroker, ring: Walk) -> None:
        if fault is Fault.KILL:
            self._fleet.kill(broker)
            for status in ring.brokers:
                if status.uid == broker.uid and status.member is not None:
                    self._watch.killed(status.member)
        elif fault is Fault.ISOLATE:
            broker.is_cut_off = True
            self._switch_all(broker, "cut", DARK)
        else:
            broker.signal(signal.SIGSTOP)

    async def _end(self, fault: Fault, broker: LiveBroker) -> None:
        if fault is Fault.KILL:
            await self._fleet.restart(broker)
        elif fault is Fault.ISOLATE:
            self._switch_all(broker, "mend")
            broker.is_cut_off = False
        else:
            broker.signal(signal.SIGCONT)

    def _switch_all(self, broker: LiveBroker, verb: str, *how: str) -> None:
        board = self._fleet.board
        assert board is not None
        assert broker.proxy is not None
        for other in self._fleet.brokers:
            if other is not broker and other.proxy is not None:
                board.ask(verb, broker.proxy, other.proxy, *how)

    # ── links ─────────────────────────────────────────────────────────────────────────────────

    async def _cut(self, fault: Fault, ring: Walk) -> Round:
        fleet = self._fleet
        assert fleet.board is not None
        here = self._rng.choice([status for status in ring.brokers if status.links])
        known = fleet.by_uid
        # One in two is a link to a ring neighbour: those are watched, and matter most.
        near = [member.uid for member in (*here.left, *here.right)]
        far = [link.uid for link in here.links if link.roles and link.uid not in near]
        there = self._rng.choice(far if far and self._rng.randrange(2) else near)
        a, b = known[here.uid].proxy, known[there].proxy
        assert a is not None
        assert b is not None
        found = Round(fault, (here.uid, there), time.time_ns())
        self.done.append(found)
        began = trio.current_time()
        concerned = fleet.board.ask("cut", a, b, CLOSED if fault is Fault.CUT else DARK)
        if not concerned:
            found.trouble = "there was no connection to cut"
        await trio.sleep(HOLD_SECONDS)
        over = trio.current_time()
        fleet.board.ask("mend", a, b)
        whole = await until_whole(fleet, len(fleet.brokers), WHOLE_LIMIT_SECONDS)
        found.back_s = whole.waited_s
        await trio.sleep(EVENTS_AFTER_SECONDS)
        found.ended_ns = time.time_ns()
        self._count_events(found, self._traffic.pairs_apart_from(), began, over)
        return found

    def _count_events(self, found: Round, pairs: list[Pair], began: float, over: float) -> None:
        """Note how events fared between ``pairs`` during the fault, and after it."""
        now = trio.current_time()
        for pair in pairs:
            found.pauses_s.append(pair.pause(began, over))
            found.pauses_back_s.append(pair.pause(over, now))
            found.lost += pair.lost(began - 1, now)
        if pairs:
            slowest = max(pairs, key=lambda pair: pair.pause(began, over))
            ends = (
                self._traffic.broker_of("publisher", slowest.publisher),
                self._traffic.broker_of("subscriber", slowest.subscriber),
            )
            brokers = [self._fleet.at(url) for url in ends]
            found.slowest = " to ".join(b.uid[:8] if b is not None else "?" for b in brokers)


def _since(began: float, reached: float | None) -> float | None:
    return None if reached is None else reached - began
