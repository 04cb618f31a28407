"""Writes what a live broker sees of failures into a trace, in the simulator's schema.

One JSON line an incident, appended when it is decided: the ring is whole again, or the suspicion
was wrong. A broker cannot know when another one died, so ``failed_ns`` stays empty here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import structlog

from ges.broker.data_directory import Life
from overlay.errors import ConfigError
from overlay.ids import Nanos, short
from overlay.machine import Fact
from overlay.release import software_version
from overlay.security.own_file import append
from overlay.trace_schema import Incident, Run, Source, Verdict
from ring.facts import (
    ChordLost,
    ChordRepaired,
    Confirmed,
    DetourEnded,
    LinkFailed,
    Refuted,
    Repaired,
    Suspected,
)
from ring.wire.messages import Member

MAX_FAILED_LINKS = 256
RECENT = 16  #: incidents kept to be told


def live_run(life: Life, profile: str) -> Run:
    """Return the run that begins with a life of a broker; ``profile`` is that of its ring."""
    return Run(
        run_id=f"live-{short(life.uid)}-{life.incarnation}",
        source=Source.LIVE,
        scenario="live",
        nodes=None,
        seed=None,
        profile=profile,
        version=software_version(),
        started_unix_ns=time.time_ns(),
        duration_ns=None,
        parameters="{}",
    )


@dataclass(slots=True)
class _Observation:
    subject: Member
    suspected_ns: Nanos | None = None
    confirmed_ns: Nanos | None = None
    repaired_ns: Nanos | None = None
    chords_repaired_ns: Nanos | None = None
    holds_chord: bool = False
    verdict: Verdict = Verdict.OPEN
    witnesses: list[str] = field(default_factory=list)

    @property
    def is_decided(self) -> bool:
        if self.verdict is Verdict.BROKER_FAILED:
            return self.repaired_ns is not None and not self.holds_chord
        return self.verdict is not Verdict.OPEN


class Recorder:
    """The incidents one broker sees, and the files they go to (none: they are only counted)."""

    def __init__(self, run: Run, observer: str, directory: Path | None) -> None:
        self._run_id = run.run_id
        self._observer = observer
        self._open: dict[str, _Observation] = {}
        self._failed_links: dict[str, None] = {}  #: written, and not seen to be back
        #: The latest, oldest first, each with the time when it was decided.
        self.recent: deque[tuple[Nanos, Incident]] = deque(maxlen=RECENT)
        self._path: Path | None = None
        self._log = structlog.get_logger("chordal.trace")
        if directory is not None:
            try:
                for name in ("runs", "incidents"):
                    (directory / name).mkdir(parents=True, exist_ok=True)
                _append(directory / "runs" / f"{run.run_id}.jsonl", run)
            except OSError as error:
                raise ConfigError(f"trace directory {directory}: {error.strerror}") from error
            self._path = directory / "incidents" / f"{run.run_id}.jsonl"

    def on_fact(self, fact: Fact, now: Nanos, messages: Mapping[str, int]) -> Incident | None:
        """Take what the ring says; returns the incident this decides, if any.

        ``messages``: how many were sent so far on account of each subject.
        """
        match fact:
            case Suspected(subject):
                entry = self._entry(subject)
                entry.suspected_ns = entry.suspected_ns or now
            case Confirmed(subject, witnesses):
                entry = self._entry(subject)
                entry.confirmed_ns, entry.verdict = now, Verdict.BROKER_FAILED
                entry.witnesses += [uid for uid in witnesses if uid not in entry.witnesses]
            case Repaired(subject):
                entry = self._entry(subject)
                entry.repaired_ns = now
            # One incident a failed link, until it is back: while it is cut the ring goes on testing
            # it and says each time what it finds. The far end may suspect nobody before it is told.
            case LinkFailed(subject, witness) if (
                subject.uid in self._open or subject.uid not in self._failed_links
            ):
                self._failed_links[subject.uid] = None
                if len(self._failed_links) > MAX_FAILED_LINKS:
                    del self._failed_links[next(iter(self._failed_links))]
                entry = self._entry(subject)
                entry.verdict = Verdict.LINK_FAILED
                entry.witnesses.append(witness)
            case Refuted(subject) if subject.uid in self._open:
                entry = self._open[subject.uid]
                entry.verdict = Verdict.REFUTED
            case DetourEnded(uid, restored):
                if restored:
                    self._failed_links.pop(uid, None)
                return None
            case ChordLost(uid) if uid in self._open:
                entry = self._open[uid]
                entry.holds_chord = True
            case ChordRepaired(uid) if uid in self._open:
                entry = self._open[uid]
                entry.holds_chord, entry.chords_repaired_ns = False, now
            case _:
                return None
        if not entry.is_decided:
            return None
        uid = entry.subject.uid
        del self._open[uid]
        incident = self._write(entry, messages.get(uid, 0))
        self.recent.append((now, incident))
        return incident

    def close(self, messages: Mapping[str, int]) -> None:
        """Write what is still open, as the broker stops."""
        for uid, entry in self._open.items():
            self._write(entry, messages.get(uid, 0))
        self._open.clear()

    def _entry(self, subject: Member) -> _Observation:
        return self._open.setdefault(subject.uid, _Observation(subject))

    def _write(self, entry: _Observation, messages: int) -> Incident:
        subject = entry.subject
        incident = Incident(
            run_id=self._run_id,
            incident_id=f"{subject.uid}/{subject.incarnation}",
            verdict=entry.verdict,
            subject=subject.uid,
            subject_ring_id=subject.ring_id,
            observer=self._observer,
            n=None,
            degree=None,
            failed_ns=None,
            suspected_ns=entry.suspected_ns,
            confirmed_ns=entry.confirmed_ns,
            repaired_ns=entry.repaired_ns,
            chords_repaired_ns=entry.chords_repaired_ns,
            messages=messages,
            witnesses=tuple(entry.witnesses),
        )
        if self._path is not None:
            try:
                _append(self._path, incident)
            except OSError as error:  # a full disk must not stop the broker
                self._log.error("trace not written", path=str(self._path), why=error.strerror)
        return incident


def _append(path: Path, row: Run | Incident) -> None:
    """Append one line in a single write, so that no reader sees half of it."""
    append(path, msgspec.json.encode(row) + b"\n")
