"""What a walk says of backups; what they should be is judged in :mod:`ring.invariants`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ges.wire.status import Status
from overlay.wording import counted
from ring.invariants import Copies, backup_findings


@dataclass(frozen=True, slots=True)
class BackedUp:
    """How many brokers own records, how many records, and what their backups lack."""

    owners: int
    records: int
    findings: tuple[str, ...]

    @property
    def in_words(self) -> str:
        """One line for people: how much there is, and whether all is in place."""
        if not self.owners:
            return "backups: no broker owns records"
        start = f"backups: {counted(self.records, 'record')} of {counted(self.owners, 'broker')}"
        return f"{start}, not all in place" if self.findings else f"{start}, all in place"


def judge_backups(brokers: Sequence[Status]) -> BackedUp:
    """Count the records of the brokers met, and say what their backups lack."""
    owners = [status for status in brokers if status.records]
    findings = backup_findings(map(_copies, brokers))
    return BackedUp(len(owners), sum(status.records for status in owners), tuple(findings))


def _copies(status: Status) -> Copies:
    near = frozenset(member.uid for member in (*status.left, *status.right))
    return Copies(status.uid, near, status.records, status.backups, status.backups_wanted)
