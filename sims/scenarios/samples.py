"""The rows of a run that are written while it goes on: probes of events, and samples of traffic.

They are handed to a :class:`Rows`, which writes them down (:mod:`sims.recording`). Nothing here
keeps more than the last minute of a run.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from overlay.ids import Nanos, nanos
from overlay.trace_schema import FAULT_NS, LATE_NS, Probe, Struck, Traffic
from sims.scenarios.deeds import Deed
from sims.scenarios.stage import Sent, Stage
from sims.verdicts.judged import Judged

SAMPLE_NS = nanos(5)  #: one row of traffic of each broker
HORIZON_NS = nanos(60)  #: an event that has not come in this time is given up
#: What is done to the ring, and does not break anything.
_HARMLESS = frozenset({Deed.MENDED, Deed.PAUSE_ENDED, Deed.HEALED, Deed.UNSKEW})


class Rows(Protocol):
    """Takes the rows of a run."""

    def on_probe(self, probe: Probe) -> None:
        """Take what became of one event at one subscriber."""

    def on_traffic(self, traffic: Traffic) -> None:
        """Take what a broker sent in some seconds."""


class Probes:
    """Says of each event that is judged which fault was near, and hands it on as a row."""

    def __init__(self, run_id: str, rows: Rows) -> None:
        self._run_id = run_id
        self._rows = rows
        self._faults: deque[tuple[Nanos, Deed, tuple[str, ...]]] = deque()

    def on_deed(self, what: Deed, whom: tuple[str, ...], now: Nanos) -> None:
        """Something is done to the ring."""
        if what not in _HARMLESS:
            self._faults.append((now, what, whom))

    def forget(self, before: Nanos) -> None:
        """Forget faults that are near to no event published from then on."""
        while self._faults and self._faults[0][0] < before - FAULT_NS:
            self._faults.popleft()

    def on_judged(self, judged: Judged) -> None:
        """Make a row of what became of one event at one subscriber."""
        got, event = judged.got, judged.event
        fault = self._near(judged)
        self._rows.on_probe(
            Probe(
                run_id=self._run_id,
                publisher=judged.flow[0],
                link_class=judged.flow[1],
                sequence=judged.sequence,
                topic=event.topic,
                subscriber=judged.subscriber,
                publisher_broker=event.broker,
                subscriber_broker=judged.receiver or None,
                published_ns=event.at,
                delivered_ns=None if got is None else got.at,
                copies=0 if got is None else got.copies,
                fate=judged.fate,
                is_late=got is not None and got.at - event.at > LATE_NS,
                why=judged.why,
                fault=None if fault is None else fault[1].value,
                fault_ns=None if fault is None else fault[0],
                struck=None if fault is None else _struck(judged, fault[2]),
            )
        )

    def _near(self, judged: Judged) -> tuple[Nanos, Deed, tuple[str, ...]] | None:
        """Return the fault nearest to the publication; one of the two brokers comes first."""
        at = judged.event.at
        until = at + FAULT_NS if judged.got is None else min(judged.got.at, at + FAULT_NS)
        near = [fault for fault in self._faults if at - FAULT_NS <= fault[0] <= until]
        return min(
            near,
            key=lambda fault: (_struck(judged, fault[2]) is Struck.OTHER, abs(fault[0] - at)),
            default=None,
        )


def _struck(judged: Judged, whom: tuple[str, ...]) -> Struck:
    if judged.event.broker in whom:
        return Struck.PUBLISHER
    return Struck.SUBSCRIBER if judged.receiver in whom else Struck.OTHER


class Meter:
    """Reads what brokers have sent every few seconds, and hands on the differences as rows."""

    def __init__(self, run_id: str, stage: Stage, rows: Rows) -> None:
        self._run_id = run_id
        self._stage = stage
        self._rows = rows
        self._before: dict[str, Sent] = {}
        self._since = stage.timeline.now
        stage.count_traffic()

    def look(self, *, at_end: bool = False) -> None:
        """Make the rows if it is time, or the run is at its end."""
        now = self._stage.timeline.now
        if now == self._since or (now < self._since + SAMPLE_NS and not at_end):
            return
        links = self._stage.link_counts()
        for uid, sent in self._stage.sent().items():
            more = sent - self._before.get(uid, Sent())
            if uid not in links and more == Sent():
                continue  # it has been dead for longer
            self._before[uid] = sent
            carries = self._stage.carries_events
            self._rows.on_traffic(
                Traffic(
                    run_id=self._run_id,
                    broker=uid,
                    from_ns=self._since,
                    to_ns=now,
                    links=links.get(uid, 0),
                    messages=more.messages,
                    bytes=more.bytes,
                    events_forwarded=more.forwarded if carries else None,
                    events_delivered=more.delivered if carries else None,
                )
            )
        self._since = now
