"""Are all records backed up? Judged from what the brokers of a ring say of themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ges.messages import Status
from overlay.ids import short
from overlay.wording import counted


@dataclass(frozen=True, slots=True)
class BackedUp:
    """How many brokers own records, how many records, and what their backups lack."""

    owners: int
    records: int
    findings: tuple[str, ...]

    @property
    def in_words(self) -> str:
        if not self.owners:
            return "backups: no broker owns records"
        start = f"backups: {counted(self.records, 'record')} of {counted(self.owners, 'broker')}"
        return f"{start}, not all in place" if self.findings else f"{start}, all in place"


def judge_backups(brokers: Sequence[Status]) -> BackedUp:
    """Compare the backups of each broker that owns records with what they should be.

    They are to be on as many distinct ring neighbours as the owner is configured for (all others
    in a ring too small for that), each of them alive and with the latest of everything.
    """
    met = {status.uid: None for status in brokers}
    owners = [status for status in brokers if status.records]
    findings = tuple(finding for status in owners for finding in _findings(status, met))
    return BackedUp(len(owners), sum(status.records for status in owners), findings)


def _findings(owner: Status, met: Collection[str]) -> Iterable[str]:
    near = {member.uid for member in (*owner.left, *owner.right)}
    start = f"broker {short(owner.uid)} owns records ({owner.records})"
    good = set[str]()
    for status in owner.backups:
        uid = status.uid
        if uid == owner.uid:
            continue
        if uid not in met:
            yield f"{start}, with a backup on {short(uid)}, who is not met on the way round"
        elif uid not in near:
            yield f"{start}, with a backup on {short(uid)}, who is no neighbour of it"
        elif not status.acknowledged:
            yield f"{start}, of which {short(uid)} has not acknowledged the latest versions"
        else:
            good.add(uid)
    wanted = min(owner.backups_wanted, len(met) - 1)
    if len(good) < wanted:
        on = f"{len(good)} of its neighbours up to date"
        yield f"{start}, backed up on {on}; there should be {wanted}"
