"""What befell brokers and links of late, as all who saw it tell it: of their words one incident."""

from __future__ import annotations

from dataclasses import dataclass

from ges.http.picture import IncidentPicture
from ges.wire.status import IncidentStatus, Status
from overlay.trace_schema import Verdict

JOIN_SECONDS = 10.0  #: what observers say of one broker within this time is one incident
KEPT = 32  #: incidents
_SHOWN = (Verdict.BROKER_FAILED, Verdict.LINK_FAILED)


@dataclass(slots=True)
class _Joined:
    """One incident; ``began`` by the clock of the one that asks."""

    uid: str
    verdict: Verdict
    began: float
    detected_s: float | None = None
    repaired_s: float | None = None
    observers: int = 0

    def is_same(self, told: IncidentStatus, began: float) -> bool:
        """Say whether an observer speaks of this one."""
        is_near = abs(began - self.began) < JOIN_SECONDS
        return (told.uid, told.verdict) == (self.uid, self.verdict) and is_near

    def add(self, told: IncidentStatus) -> None:
        """Take what one more observer says: the first verdict counts, and the last repair."""
        self.observers += 1
        if told.detected_s is not None:
            known = self.detected_s
            self.detected_s = told.detected_s if known is None else min(known, told.detected_s)
        if told.repaired_s is not None:
            self.repaired_s = max(self.repaired_s or 0.0, told.repaired_s)


class IncidentBook:
    """The latest incidents."""

    def __init__(self) -> None:
        self._incidents: list[_Joined] = []  #: oldest first
        self._heard: dict[str, tuple[int, float]] = {}  #: observer -> its life, and till when

    def hear(self, status: Status, now: float) -> None:
        """Take what an observer has seen since it was heard last."""
        life, till = self._heard.get(status.uid, (status.incarnation, -1.0))
        if life != status.incarnation:
            till = -1.0
        for told in status.incidents:
            decided = told.at_s + (told.repaired_s or told.detected_s or 0.0)
            if decided <= till:
                continue
            began = now - status.uptime_s + told.at_s
            for joined in reversed(self._incidents):
                if joined.is_same(told, began):
                    break
            else:
                joined = _Joined(told.uid, told.verdict, began)
                self._incidents.append(joined)
            joined.add(told)
        self._heard[status.uid] = (status.incarnation, status.uptime_s)
        self._incidents.sort(key=lambda joined: joined.began)
        del self._incidents[:-KEPT]

    def forget(self, uid: str) -> None:
        """An observer is gone."""
        self._heard.pop(uid, None)

    def pictures(self, now: float) -> tuple[IncidentPicture, ...]:
        """Return them for the page, latest first; what was refuted is none."""
        return tuple(
            IncidentPicture(
                uid=joined.uid,
                verdict=joined.verdict,
                ago_s=round(max(0.0, now - joined.began), 1),
                detected_s=joined.detected_s,
                repaired_s=joined.repaired_s,
                observers=joined.observers,
            )
            for joined in reversed(self._incidents)
            if joined.verdict in _SHOWN
        )
