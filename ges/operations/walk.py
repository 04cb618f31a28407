"""Walks a live ring: asks one broker after the other, each for its right neighbour.

A broker that stands still is pointed at until its neighbours have found it dead. So while one is
waited for, the broker before it is asked again, and the walk goes where that one points by then. If
the wait is in vain the walk goes on past it: to right-right, or to the nearest that others name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from ges.client import connect
from ges.client.tries import ATTACH_SECONDS
from ges.errors import ConnectionLost
from ges.operations.backup_check import judge_backups
from ges.wire.status import Status
from overlay.address import Address, parse_url, shown
from overlay.errors import ChordalError, ConfigError
from overlay.ids import short
from overlay.wording import counted
from ring.geometry import RING_SIZE, clockwise
from ring.invariants import Snapshot, local_findings, ring_findings
from ring.wire.messages import Member

MAX_STEPS = 100_000
MAX_NAMES = 3  #: in one finding

#: Seconds in which a broker on the way round is to answer. A silent one is found dead within 2.6 s
#: in the ``lan`` profile, and mostly within 4.8 s in ``wan`` (B18), so in both the ring has closed
#: over it by then, and only one that is not found dead is waited for to the end.
PATIENCE_S = 5.0
#: The same once so much was waited in vain: what its neighbours have not found by then takes long.
LATER_PATIENCE_S = ATTACH_SECONDS
IN_VAIN_S = 15.0  #: waited in vain for so long in all, a walk ends
AGAIN_S = 0.2  #: between two looks at the same broker
#: The one before a silent broker has dropped it: those around it follow within so many seconds.
CLOSING_S = 2.0


@dataclass(frozen=True, slots=True)
class Walk:
    """What was met on the way round, in ring order, and what is wrong with it."""

    brokers: tuple[Status, ...]
    findings: tuple[str, ...]
    ends_early: str = ""  #: why not all brokers were met; empty if the walk came round
    passed_over: tuple[str, ...] = ()  #: brokers that nobody could ask, as their URLs are none
    silent: tuple[str, ...] = ()  #: brokers that did not answer, and are pointed at all the same
    began: float = 0.0  #: by trio's clock, in seconds; later if a broker was waited for in vain

    @property
    def is_partial(self) -> bool:
        """Whether there may be brokers on the ring that could be asked, but were not met."""
        return bool(self.ends_early or self.silent)

    def expecting(self, size: int) -> Walk:
        """Return the walk with one more finding, if it did not meet ``size`` brokers.

        How many the ring has a walk does not know that met a part of it, and says that already.
        """
        if len(self.brokers) == size or self.is_partial:
            return self
        return self.with_findings(
            [f"the ring has {counted(len(self.brokers), 'broker')}, {size} are expected"]
        )

    def with_findings(self, more: Iterable[str]) -> Walk:
        """Return the walk with what else was found to be wrong."""
        return replace(self, findings=(*self.findings, *more))


async def walk_ring(
    url: str,
    *,
    identity: Path | None = None,
    overlay: str = "chordal",
    timeout_s: float = 10,
    on_waiting: Callable[[str], None] | None = None,
) -> Walk:
    """Walk the ring that the broker at ``url`` belongs to, once round.

    The first broker has ``timeout_s`` seconds to answer, each other one PATIENCE_S at most. If the
    ring has closed over a silent one meanwhile, brokers met before that are out of date: the walk
    starts again, until nothing is wrong or CLOSING_S are over. ``on_waiting`` is as for
    :func:`ges.client.connect`, and called of the first broker alone.

    Raises:
        ConnectionLost: the first broker cannot be reached.
    """
    asking = _Asking(identity, overlay, timeout_s, on_waiting)
    while True:
        walk = await _Round(asking, url).walk()
        if not walk.findings or trio.current_time() >= asking.closed_at:
            return walk
        await trio.sleep(AGAIN_S)


class _Asking:
    """Asks brokers, and keeps account of the waiting; for all rounds of one walk."""

    def __init__(
        self,
        identity: Path | None,
        overlay: str,
        timeout_s: float,
        on_waiting: Callable[[str], None] | None,
    ) -> None:
        self.on_waiting = on_waiting
        self.timeout_s = timeout_s
        self.in_vain_s = 0.0  #: waited for brokers that did not answer
        self.closed_at = 0.0  #: until then the ring may be closing over one of them
        self._identity = identity
        self._overlay = overlay

    @property
    def patience_s(self) -> float:
        """Seconds that a broker on the way round is given."""
        return min(self.timeout_s, max(PATIENCE_S - self.in_vain_s, LATER_PATIENCE_S))

    @property
    def is_tired(self) -> bool:
        """Whether so much was waited in vain that no more is to be."""
        return self.in_vain_s >= IN_VAIN_S

    async def ask(
        self,
        url: str,
        patience_s: float,
        on_waiting: Callable[[str], None] | None = lambda words: None,
    ) -> tuple[Status, str]:
        """Return what a broker says of itself, and at which URL of those given.

        Raises:
            ConnectionLost: it does not within ``patience_s`` seconds.
        """
        deadline = trio.current_time() + patience_s
        async with connect(
            url,
            identity=self._identity,
            overlay=self._overlay,
            timeout=patience_s,
            reattach=False,
            on_waiting=on_waiting,
            only_looks=True,
        ) as client:
            with trio.CancelScope(deadline=deadline):
                return await client.status(), client.broker_url
            raise ConnectionLost(f"{url}: no answer within {patience_s:g} s")


class _Round:
    """Once round the ring."""

    def __init__(self, asking: _Asking, url: str) -> None:
        self._asking = asking
        self._url = url
        self._tls = parse_url(url.split(",")[0]).tls
        self._began = trio.current_time()
        self._met: dict[str, Status] = {}
        self._urls: dict[str, str] = {}  #: at which those met were asked, by uid
        self._route: dict[str, None] = {}  #: uids, in ring order
        self._silent: dict[Member, str] = {}  #: and why
        self._passed_over: dict[Member, None] = {}

    async def walk(self) -> Walk:
        """Go round."""
        status, url = await self._asking.ask(
            self._url, self._asking.timeout_s, self._asking.on_waiting
        )
        self._met[status.uid], self._urls[status.uid] = status, url
        self._route[status.uid] = None
        first = here = status.uid
        ends_early = ""
        for _ in range(MAX_STEPS):
            member = self._right_of(here)
            if member is None:
                break
            if member.uid in self._route:
                if member.uid != first:
                    ends_early = f"the walk runs in a circle that misses {self._url}"
                break
            if self._asking.is_tired:
                waited = f"{IN_VAIN_S:g} s were waited for brokers that do not answer"
                ends_early = f"the walk ends: {waited}"
                break
            is_met = member.uid in self._met or await self._meets(member, here)
            # Who is far to the right may name somebody nearer, who comes first then.
            if is_met and self._right_of(here) == member:
                here = member.uid
                self._route[here] = None
        for member in dict.fromkeys(m for status in self._met.values() for m in _named(status)):
            is_met = member.uid in self._met or not self._can_be_asked(member)
            if not is_met and not self._asking.is_tired:  # was it dropped on the way, or not yet?
                await self._meets(member, first)
        return self._conclude(ends_early)

    def _right_of(self, here: str) -> Member | None:
        """Return whom to ask next; None: ``here`` is alone, or has nobody to go to."""
        status = self._met[here]
        for member in status.right:
            if self._can_be_asked(member):
                return member
        if not status.right or status.member is None:
            return None
        ring_id = status.member.ring_id
        known = {status.member for status in self._met.values() if status.member is not None}
        known.update(member for status in self._met.values() for member in _named(status))
        return min(
            filter(self._can_be_asked, known),
            key=lambda member: (clockwise(ring_id, member.ring_id) or RING_SIZE, member.uid),
            default=None,
        )

    def _can_be_asked(self, member: Member) -> bool:
        if call_url(member.peer.url, self._tls) is None:
            self._passed_over[member] = None
            return False
        return member not in self._silent

    async def _meets(self, member: Member, here: str) -> bool:
        """Ask ``member``, as ``here`` or another one points at it; say whether it answered."""
        pointing = (uid for uid in (here, *self._met) if member in _named(self._met[uid]))
        by = next(pointing, None)
        if by is None:  # it has been dropped since
            return False
        started = trio.current_time()
        url = call_url(member.peer.url, self._tls) or ""
        reason = "no answer in time"
        is_met = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_back, member, by, nursery.cancel_scope)
            try:
                await self._wait_for(member.uid, url)
                is_met = True
            except ChordalError as error:
                reason = str(error).rpartition(f"{shown(url)}: ")[2]
            nursery.cancel_scope.cancel()
        if not is_met:
            self._silent[member] = reason
            self._began = trio.current_time()
            self._asking.in_vain_s += self._began - started
        return is_met

    async def _look_back(self, member: Member, by: str, waiting: trio.CancelScope) -> None:
        """Ask ``by`` again and again; once it drops ``member``, that is no longer waited for."""
        while member in _named(self._met[by]):
            await trio.sleep(AGAIN_S)
            with suppress(ChordalError):  # no answer: what it said before still stands
                await self._ask(by, self._urls[by])
        self._asking.closed_at = trio.current_time() + CLOSING_S
        waiting.cancel()

    async def _wait_for(self, uid: str, url: str) -> None:
        """Ask ``uid``; another broker at its address is no answer, as nobody is none."""
        deadline = trio.current_time() + self._asking.patience_s
        while not await self._ask(uid, url):
            await trio.sleep(AGAIN_S)
            if trio.current_time() >= deadline:
                raise ConnectionLost(f"{url}: another broker answers there")

    async def _ask(self, uid: str, url: str) -> bool:
        """Ask what is to be ``uid``; say whether it is."""
        status, _ = await self._asking.ask(url, self._asking.patience_s)
        if status.uid == uid:
            self._met[uid], self._urls[uid] = status, url
        return status.uid == uid

    def _conclude(self, ends_early: str) -> Walk:
        brokers = {uid: self._met[uid] for uid in self._route}
        named = {m.uid: m.peer.url for status in brokers.values() for m in _named(status)}
        silent = {
            member.uid: _pointed_at_in_vain(member, reason, brokers.values(), tls=self._tls)
            for member, reason in self._silent.items()
            if member.uid in named and member.uid not in brokers
        }
        skipped = tuple(
            f"broker {short(member.uid)} is passed over: {member.peer.url!r} is not a broker URL"
            for member in self._passed_over
        )
        findings = [ends_early] * bool(ends_early) + [*silent.values(), *skipped]
        if ends_early:  # compared with a ring of those met, all would seem wrong
            findings += [f for s in _snapshots(brokers.values()) for f in local_findings(s)]
        else:
            findings += judge(brokers, named, silent)
        met = tuple(brokers.values())
        return Walk(met, tuple(findings), ends_early, skipped, tuple(silent.values()), self._began)


def judge(
    brokers: dict[str, Status], named: dict[str, str], silent: Collection[str] = ()
) -> list[str]:
    """Return what is wrong with the brokers met.

    ``named``: URLs of those they point at, by uid. ``silent``: uids of those among them that do not
    answer; that they are pointed at is told elsewhere.
    """
    found = [
        f"broker {short(status.uid)} at {shown(status.url)} is not on the ring"
        for status in brokers.values()
        if status.member is None
    ]
    found += [
        f"broker {short(uid)} at {shown(url)} is pointed at by "
        f"{_who_names(uid, brokers.values())}, but not met on the way round"
        for uid, url in named.items()
        if uid not in brokers and uid not in silent
    ]
    snapshots = _snapshots(brokers.values())
    for snapshot in snapshots:
        found += local_findings(snapshot)
    found += ring_findings(snapshots, silent)
    return found + list(judge_backups(list(brokers.values())).findings)


def _snapshots(brokers: Iterable[Status]) -> list[Snapshot]:
    return [
        Snapshot(status.member, status.left, status.right)
        for status in brokers
        if status.member is not None
    ]


def _named(status: Status) -> tuple[Member, ...]:
    return (*status.left, *status.right, *status.chords)


def _who_names(uid: str, brokers: Iterable[Status]) -> str:
    """Return those that name ``uid`` in a pointer or as a chord, the first few of them."""
    names = [short(b.uid) for b in brokers if any(m.uid == uid for m in _named(b))]
    more = [f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    return ", ".join(names[:MAX_NAMES] + more)


def _pointed_at_in_vain(
    member: Member, reason: str, brokers: Collection[Status], *, tls: bool
) -> str:
    by = sum(any(member.uid == other.uid for other in _named(status)) for status in brokers)
    mend = "resume or end its process"
    if tls:
        mend += ", or see whether its identity has ended or is revoked"
    return (
        f"broker {short(member.uid)} at {shown(member.peer.url)} does not answer ({reason}), and "
        f"is pointed at by {by} of the {len(brokers)} met: they drop it once they find it dead, so "
        f"look again in some seconds; if it stays, {mend}"
    )


def call_url(url: str, tls: bool) -> str | None:
    """Return the URL at which to ask a broker that others name; None: theirs is none."""
    try:
        address = parse_url(url)
    except ConfigError:
        return None
    return Address(address.host, address.port, tls).url
