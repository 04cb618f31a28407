"""The course of a drill: the ring is whole, it is broken, it heals, what all saw is read; again.

Its guard rails: nothing is struck unless the ring is whole and all its brokers agree; never more at
one moment than ``chordal ring --check`` says the ring survives; and the next strike waits until the
ring is whole again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import trio

from ges.drills.ground import Ground
from ges.drills.plan import Means, Plan, Strike, draw
from ges.drills.readings import Reading
from ges.drills.record import Record
from ges.drills.rows import Joined, Place, Sighting, Struck
from ges.errors import ConnectionLost, DrillFailed, DrillRefused
from ges.operations.resilience import live_links, measure, ring_links
from ges.operations.walk import Walk, call_url, walk_ring
from ges.wire.status import Status
from overlay.address import parse_url
from overlay.errors import ChordalError
from overlay.ids import NANOS_PER_SECOND, short
from overlay.rng import rng_for
from overlay.trace_schema import MOMENTS, Deed, Incident
from overlay.wording import counted

WHOLE_SECONDS = 60.0  #: for the ring to be whole again
CHORD_SECONDS = 15.0  #: and for the last chord to be replaced
LOOK_SECONDS = 0.1
WALK_SECONDS = 10.0  #: for the first broker of a walk to answer
FEWEST = 3  #: a ring of fewer brokers survives the loss of none
ROUND_TRIPS = 32  #: that are written down with each strike
BROKERS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did, and what it showed."""

    round: int
    number: int  #: from 1, over all rounds
    n: int
    struck: tuple[Struck, ...]
    incidents: tuple[Incident, ...]
    clocks_ns: int  #: times of brokers are wrong by so much at most
    rtt_ms: tuple[float, ...]  #: round trips, as brokers had measured them just before


class Drill:
    """One drill on one ring."""

    def __init__(
        self, ground: Ground, plan: Plan, record: Record, told: Callable[[str], None]
    ) -> None:
        """``told`` is handed a line for people now and then."""
        self.steps: list[Step] = []
        self._ground = ground
        self._plan = plan
        self._record = record
        self._told = told
        self._rng = rng_for(plan.seed, "drill", "draw")
        self._size = 0  #: of the ring when it was whole last

    async def run(self) -> None:
        """Do it all.

        Raises:
            DrillRefused: the ring is not whole, or survives less than is to be struck.
            OperationRefused: a broker takes part in no drills, or this operator may not drill.
            DrillFailed: a broker did not break as it should, or the ring did not heal in time.
            ConnectionLost: no broker answers.
        """
        if not self._plan.strikes:
            raise DrillRefused("nothing is to be broken; give --kill, --pause or --cut")
        for number, step in self._plan.steps():
            if not self._size:
                await self._whole_at_first()
            await trio.sleep(self._plan.gap_s)
            await self._step(number, step, await self._whole_now())

    # ── before ────────────────────────────────────────────────────────────────────────────────

    async def _whole_at_first(self) -> None:
        walk = await self._walk(self._ground.operator.timeout_s)
        if walk.findings:
            raise DrillRefused(f"the ring is not whole, so nothing is broken: {walk.findings[0]}")
        self._check_survival(walk)
        readings = await self._read(walk, {}, ())
        self._begin(walk, next(iter(readings.values())).profile)

    def _begin(self, walk: Walk, profile: str) -> None:
        plan, n = self._plan, len(walk.brokers)
        self._size = n
        means = type(self._ground).__name__.lower()
        self._record.begin(
            n,
            profile,
            {
                "kill": plan.kill,
                "pause": plan.pause,
                "cut": plan.cut,
                "rounds": plan.rounds,
                "at_once": plan.at_once,
                "gap_s": plan.gap_s,
                "pause_s": plan.pause_s,
                "cut_s": plan.cut_s,
                "seed": plan.seed,
                "by": "process" if means == "started" else "message",
            },
        )
        self._told(
            f"the ring of {n} is whole and survives the loss of any {_survives(walk)}; "
            f"{counted(plan.strikes, 'strike')}, {plan.at_once} at once"
        )

    def _check_survival(self, walk: Walk) -> None:
        n, survives = len(walk.brokers), _survives(walk)
        if n < FEWEST or survives < self._plan.at_once:
            raise DrillRefused(
                f"the ring of {n} survives the loss of any {survives} at once, and "
                f"{self._plan.at_once} would be struck; start more brokers, or strike fewer at once"
            )

    async def _whole_now(self) -> Walk:
        walk = await self._until_whole(range(1, 10**6))
        self._check_survival(walk)
        return walk

    # ── a step ────────────────────────────────────────────────────────────────────────────────

    async def _step(self, number: int, means: Sequence[Means], walk: Walk) -> None:
        ground, plan = self._ground, self._plan
        places = [_place(status) for status in walk.brokers]
        uids = [place.uid for place in places]
        strikes = draw(means, self._rng, uids, _links(walk.brokers))
        about = tuple(dict.fromkeys(uid for s in strikes for uid in (s.uid, s.other) if uid))[:16]
        before = await self._read(walk, {}, about)
        struck = await self._strike(strikes, before)
        for each in struck:
            self._told(f"round {number}: {_in_words(each)}")
        seconds = {Means.PAUSE: plan.pause_s, Means.CUT: plan.cut_s}
        await trio.sleep(max(seconds.get(strike.means, 0.0) for strike in strikes))
        await ground.wake()
        kills = sum(each.means is Means.KILL for each in struck)
        whole = await self._until_whole(range(len(uids) - kills, len(uids) + 1))
        after, joined, struck = await self._see(whole, before, about, places, struck)
        sent = {
            uid: sum(_sent(after[by], before[by], about, uid) for by in after if by in before)
            for uid in about
        }
        incidents = joined.incidents(self._record.run_id, sent)
        clocks = max(r.uncertainty_ns for r in (*before.values(), *after.values()))
        trips = tuple(_round_trips(walk.brokers))
        here = len(self.steps) + 1
        step = Step(number, here, len(uids), tuple(struck), tuple(incidents), clocks, trips)
        self.steps.append(step)
        self._record.add(incidents, _deeds(self._record.run_id, step))
        for line in _told(step):
            self._told(line)
        if kills:
            await self._bring_back(len(uids))

    async def _strike(
        self, strikes: Iterable[Strike], readings: Mapping[str, Reading]
    ) -> list[Struck]:
        """Strike all at once."""
        struck: list[Struck] = []
        seconds = {Means.PAUSE: self._plan.pause_s, Means.CUT: self._plan.cut_s}

        async def strike_one(strike: Strike) -> None:
            reading, for_s = readings[strike.uid], seconds.get(strike.means, 0.0)
            struck.append(await self._ground.strike(strike, reading, for_s))

        async with trio.open_nursery() as nursery:
            for strike in strikes:
                nursery.start_soon(strike_one, strike)
        return sorted(struck, key=lambda each: each.began_ns)

    async def _see(
        self,
        walk: Walk,
        before: Mapping[str, Reading],
        about: tuple[str, ...],
        places: Sequence[Place],
        struck: Sequence[Struck],
    ) -> tuple[dict[str, Reading], Joined, list[Struck]]:
        """Read what all saw; until no chord is missing any more, if that is soon."""
        deadline = trio.current_time() + CHORD_SECONDS
        while True:
            after = await self._read(walk, before, about)
            exact = [
                self._ground.refine(each, after[each.uid], after[each.uid].seen)
                if each.uid in after
                else each
                for each in struck
            ]
            first = min(each.began_ns for each in exact)
            sightings = [
                Sighting(reading.here(seen.at_ns), reading.uid, seen)
                for reading in after.values()
                for seen in reading.seen
                if reading.here(seen.at_ns) >= first - reading.uncertainty_ns
            ]
            joined = Joined(places, exact, sightings)
            if not joined.chords_missing or trio.current_time() >= deadline:
                return after, joined, exact
            await trio.sleep(LOOK_SECONDS)

    async def _bring_back(self, size: int) -> None:
        if await self._ground.revive():
            await self._until_whole(range(size, size + 1))
            self._told(f"the ring of {size} is whole again")

    # ── asking brokers ────────────────────────────────────────────────────────────────────────

    async def _read(
        self, walk: Walk, before: Mapping[str, Reading], about: tuple[str, ...]
    ) -> dict[str, Reading]:
        """Ask all that were met. One that was not asked before has only come since."""
        found: dict[str, Reading] = {}
        limiter = trio.CapacityLimiter(BROKERS_AT_ONCE)

        async def ask(uid: str) -> None:
            earlier = before.get(uid)
            async with limiter:
                after = earlier.last if earlier is not None else None
                found[uid] = await self._ground.read(uid, after, about)

        try:
            async with trio.open_nursery() as nursery:
                for status in walk.brokers:
                    if not before or status.uid in before:
                        nursery.start_soon(ask, status.uid)
        except* ChordalError as errors:
            raise _first(errors) from None
        return found

    async def _walk(self, timeout_s: float = WALK_SECONDS) -> Walk:
        operator = self._ground.operator
        urls = [url for uid, url in self._ground.urls.items() if uid not in self._ground.dead]
        walk = await walk_ring(
            ",".join(urls) or operator.urls,
            identity=operator.identity,
            overlay=operator.overlay,
            timeout_s=timeout_s,
        )
        tls = parse_url(operator.urls.split(",")[0]).tls
        for status in walk.brokers:
            self._ground.dead.discard(status.uid)
            self._ground.urls[status.uid] = call_url(status.url, tls) or status.url
        return walk

    async def _until_whole(self, sizes: range) -> Walk:
        why = "no broker answers"
        with trio.move_on_after(WHOLE_SECONDS):
            while True:
                try:
                    walk = await self._walk()
                    if not walk.findings and len(walk.brokers) in sizes:
                        self._size = len(walk.brokers)
                        return walk
                    size = f"it has {counted(len(walk.brokers), 'broker')}"
                    why = walk.findings[0] if walk.findings else size
                except ConnectionLost as error:
                    why = str(error)
                await trio.sleep(LOOK_SECONDS)
        raise DrillFailed(f"the ring is not whole {WHOLE_SECONDS:.0f} s after the strike: {why}")


# ── helpers ───────────────────────────────────────────────────────────────────────────────────


def _survives(walk: Walk) -> int:
    return min(measure(of(walk.brokers)).survives for of in (live_links, ring_links))


def _first(errors: BaseExceptionGroup[ChordalError]) -> ChordalError:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, ChordalError)
    return error


def _place(status: Status) -> Place:
    assert status.member is not None  # the ring is whole
    links = {link.uid for link in status.links}
    return Place(status.uid, status.incarnation, status.member.ring_id, len(links))


def _links(brokers: Iterable[Status]) -> list[tuple[str, str]]:
    return [
        (uid, other)
        for uid, others in live_links(brokers).items()
        for other in others
        if uid < other
    ]


def _round_trips(brokers: Iterable[Status]) -> list[float]:
    """Return what the brokers measure of their links, in milliseconds; evenly, if of many.

    Both ends measure a link. Other work of either only adds, so the smaller one counts.
    """
    trips: dict[frozenset[str], float] = {}
    for status in brokers:
        for link in status.links:
            if link.rtt_ms is not None and link.link_class.is_base:
                ends = frozenset((status.uid, link.uid))
                trips[ends] = min(trips.get(ends, link.rtt_ms), link.rtt_ms)
    found = sorted(round(trip, 4) for trip in trips.values())
    if len(found) <= ROUND_TRIPS:
        return found
    return [found[round(at * (len(found) - 1) / (ROUND_TRIPS - 1))] for at in range(ROUND_TRIPS)]


def _sent(after: Reading, before: Reading, about: Sequence[str], uid: str) -> int:
    at = about.index(uid)
    return after.sent[at] - before.sent[at]


def _deeds(run_id: str, step: Step) -> list[Deed]:
    return [
        Deed(
            run_id=run_id,
            round=step.round,
            step=step.number,
            kind=each.means.value,
            subject=each.uid,
            other=each.other or None,
            n=step.n,
            began_ns=each.began_ns,
            ended_ns=each.ended_ns,
            uncertainty_ns=each.uncertainty_ns,
            clocks_ns=step.clocks_ns,
            rtt_ms=step.rtt_ms,
        )
        for each in step.struck
    ]


def _in_words(struck: Struck) -> str:
    match struck.means:
        case Means.KILL:
            return f"{short(struck.uid)} is killed"
        case Means.PAUSE:
            return f"{short(struck.uid)} stands still"
        case Means.CUT:
            return f"{short(struck.uid)} and {short(struck.other)} are cut off from each other"


def _told(step: Step) -> list[str]:
    """Say what each strike led to."""
    lines = []
    for each in step.struck:
        ends = (each.uid, each.other) if each.means is Means.CUT else (each.uid,)
        rows = [row for row in step.incidents if row.subject in ends]
        told = [
            f"{words} after {(at - each.began_ns) / NANOS_PER_SECOND:.3f} s"
            for name, words in MOMENTS.items()
            if (at := min((t for r in rows if (t := getattr(r, name)) is not None), default=None))
            is not None
        ]
        clocks = f"clocks within {step.clocks_ns / 1e6:.1f} ms"
        lines.append(f"  {short(each.uid)}: {', '.join(told) or 'nobody noticed'}; {clocks}")
    return lines
