"""What the brokers themselves have written down: their traces, and their logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from benchmarks.campaigns.live.processes import LiveBroker
from benchmarks.campaigns.live.rounds import Fault, Round
from overlay.ids import NANOS_PER_SECOND, short
from overlay.trace_schema import Incident, Run, Verdict

SLACK_NS = NANOS_PER_SECOND // 10  #: between two clocks of one machine


@dataclass(frozen=True)
class Sighting:
    """One broker's row on one failure, by the wall clock."""

    row: Incident
    suspected_ns: int | None
    confirmed_ns: int | None
    repaired_ns: int | None


@dataclass(frozen=True)
class Times:
    """One failure in the traces of all who saw it; seconds since it."""

    detected_s: float | None  #: the first suspicion
    confirmed_s: float | None  #: the first confirmation
    repaired_s: float | None  #: the last broker that had it in a pointer finds its four whole


def sightings(brokers: Iterable[LiveBroker]) -> list[Sighting]:
    """Read all traces."""
    found = []
    for broker in brokers:
        folder = broker.data / "trace"
        for path in sorted((folder / "runs").glob("*.jsonl")):
            run = msgspec.json.decode(path.read_bytes().splitlines()[0], type=Run)
            rows = folder / "incidents" / path.name
            lines = rows.read_bytes().splitlines() if rows.exists() else []
            found += [_sighting(msgspec.json.decode(line, type=Incident), run) for line in lines]
    return found


def times(round_: Round, seen: Iterable[Sighting]) -> Times:
    """Join what all brokers wrote of the failure of one round."""
    mine = [
        sighting
        for sighting in seen
        if sighting.row.subject == round_.uids[0]
        and sighting.row.verdict is Verdict.BROKER_FAILED
        and _within(sighting.confirmed_ns, round_)
    ]
    suspected = [s.suspected_ns for s in mine if _within(s.suspected_ns, round_)]
    confirmed = [s.confirmed_ns for s in mine]
    repaired = [s.repaired_ns for s in mine]
    return Times(
        detected_s=_first(suspected, round_),
        confirmed_s=_first(confirmed, round_),
        repaired_s=_last(repaired, round_),
    )


def false_deaths(
    brokers: Iterable[LiveBroker],
    rounds: Iterable[Round],
    seen: Iterable[Sighting],
    until_ns: int,
) -> list[str]:
    """Return who was declared dead before ``until_ns`` though it lived and ran, and by whom.

    From the traces, and from the logs: a row is written when an incident is decided, a line at
    once; and a broker that is declared dead says itself that it joins anew.
    """
    failing = (Fault.KILL, Fault.STOP, Fault.ISOLATE)
    failed = [round_ for round_ in rounds if round_.fault in failing]

    def is_excused(uid: str, observer: str, at_ns: int | None) -> bool:
        """Say whether ``uid`` was out then, or ``observer`` was and could not know better."""
        if at_ns is not None and at_ns >= until_ns:
            return True
        return any(
            _within(at_ns, r)
            and (
                short(r.uids[0]) == short(uid)
                or (r.fault is Fault.ISOLATE and r.uids[0] == observer)
            )
            for r in failed
        )

    found = [
        f"{short(s.row.subject)} by {short(s.row.observer or '-')}, in its trace"
        for s in seen
        if s.row.verdict is Verdict.BROKER_FAILED
        and not is_excused(s.row.subject, s.row.observer or "", s.confirmed_ns or s.repaired_ns)
    ]
    for broker in brokers:
        for line in broker.logged():
            event, at = line.get("event"), _time_ns(line)
            peer = str(line.get("peer", ""))
            if event == "confirmed dead" and not is_excused(peer, broker.uid, at):
                found.append(f"{peer} by {short(broker.uid)}, in its log at {line['timestamp']}")
            if event == "joining anew" and not is_excused(broker.uid, broker.uid, at):
                found.append(
                    f"{short(broker.uid)} joins anew, in its log at {line['timestamp']}: "
                    f"{line.get('why')}"
                )
    return found


def internal_errors(brokers: Iterable[LiveBroker]) -> list[str]:
    """Return what no log should ever say."""
    return [
        f"{broker.name}: {line.get('event')} {line.get('why', '')}"
        for broker in brokers
        for line in broker.logged()
        if "BUG" in str(line.get("event")) or line.get("level") in ("none", "error")
    ]


def _sighting(row: Incident, run: Run) -> Sighting:
    start = run.started_unix_ns
    assert start is not None

    def absolute(at_ns: int | None) -> int | None:
        return None if at_ns is None else start + at_ns

    return Sighting(
        row,
        absolute(row.suspected_ns),
        absolute(row.confirmed_ns),
        absolute(row.repaired_ns),
    )


def _within(at_ns: int | None, round_: Round) -> bool:
    end = round_.ended_ns or round_.began_ns + 300 * NANOS_PER_SECOND
    return at_ns is not None and round_.began_ns - SLACK_NS <= at_ns <= end + SLACK_NS


def _first(reached: Iterable[int | None], round_: Round) -> float | None:
    return min(_since(reached, round_), default=None)


def _last(reached: Iterable[int | None], round_: Round) -> float | None:
    return max(_since(reached, round_), default=None)


def _since(reached: Iterable[int | None], round_: Round) -> list[float]:
    return [(at - round_.began_ns) / NANOS_PER_SECOND for at in reached if at is not None]


def _time_ns(line: dict[str, object]) -> int | None:
    text = line.get("timestamp")
    return round(datetime.fromisoformat(str(text)).timestamp() * 1e9) if text else None
