"""Walks a live ring: asks one broker after the other, each for its right neighbour."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from ges.backups import judge_backups
from ges.client import connect
from ges.errors import ConnectionLost
from ges.messages import Status
from overlay.address import Address, parse_url, shown
from overlay.errors import ConfigError
from overlay.ids import short
from overlay.wording import counted
from ring.invariants import Snapshot, local_findings, ring_findings
from ring.messages import Member

MAX_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Walk:
    """What was met on the way round, in ring order, and what is wrong with it."""

    brokers: tuple[Status, ...]
    findings: tuple[str, ...]
    ends_early: str = ""  #: why not all brokers were met; empty if the walk came round
    passed_over: tuple[str, ...] = ()  #: brokers that nobody could ask, as their URLs are none

    def expecting(self, size: int) -> Walk:
        """Return the walk with one more finding, if it did not meet ``size`` brokers."""
        if len(self.brokers) == size:
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
    step_s: float | None = None,
) -> Walk:
    """Walk the ring that the broker at ``url`` belongs to, once round.

    Who looks again soon waits ``step_s`` at most for each broker beyond the first: one that stands
    still is pointed at until its neighbours know.

    Raises:
        ConnectionLost: the first broker cannot be reached.
    """
    tls = parse_url(url.split(",")[0]).tls
    brokers: dict[str, Status] = {}
    findings: list[str] = []
    here: str | None = url
    named: dict[str, str] = {}
    passed_over: dict[Member, None] = {}
    ends_early = ""
    patience_s = timeout_s
    while here is not None and len(brokers) < MAX_STEPS:
        try:
            status = await _ask(here, identity, overlay, patience_s)
        except ConnectionLost as error:
            if not brokers:
                raise
            ends_early = f"the walk ends: {error}"
            findings.append(ends_early)
            break
        if status.uid in brokers:
            if status.uid != next(iter(brokers)):
                ends_early = f"the walk runs in a circle that misses {url}"
                findings.append(ends_early)
            break
        brokers[status.uid] = status
        patience_s = timeout_s if step_s is None else min(timeout_s, step_s)
        if status.member is None:
            findings.append(f"broker {short(status.uid)} at {shown(status.url)} is not on the ring")
        for member in (*status.left, *status.right, *status.chords):
            named[member.uid] = member.peer.url
        here = None
        for member in status.right:
            here = _call_url(member.peer.url, tls)
            if here is not None:
                break
            passed_over[member] = None
        if here is None and status.right:
            ends_early = f"the walk ends: nobody right of {short(status.uid)} can be called"
            findings.append(ends_early)
    skipped = tuple(
        f"broker {short(uid)} is passed over: {url!r} is not a broker URL"
        for uid, url in ((member.uid, member.peer.url) for member in passed_over)
    )
    findings += [*skipped, *judge(brokers, named)]
    return Walk(tuple(brokers.values()), tuple(findings), ends_early, skipped)


async def _ask(url: str, identity: Path | None, overlay: str, timeout_s: float) -> Status:
    async with connect(
        url, identity=identity, overlay=overlay, timeout=timeout_s, reattach=False
    ) as client:
        with trio.move_on_after(timeout_s):
            return await client.status()
    raise ConnectionLost(f"{url}: no answer within {timeout_s:g} s")


def judge(brokers: dict[str, Status], named: dict[str, str]) -> list[str]:
    """Return what is wrong with the brokers met; ``named``: URLs of those they point at, by uid."""
    found = [
        f"broker {short(uid)} at {shown(url)} is pointed at, but not met on the way round"
        for uid, url in named.items()
        if uid not in brokers
    ]
    snapshots = [
        Snapshot(status.member, status.left, status.right)
        for status in brokers.values()
        if status.member is not None
    ]
    for snapshot in snapshots:
        found += local_findings(snapshot)
    return found + ring_findings(snapshots) + list(judge_backups(list(brokers.values())).findings)


def _call_url(url: str, tls: bool) -> str | None:
    """Return the URL at which to ask a broker that others name; None: theirs is none."""
    try:
        address = parse_url(url)
    except ConfigError:
        return None
    return Address(address.host, address.port, tls).url
