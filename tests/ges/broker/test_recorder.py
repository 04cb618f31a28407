"""From what the ring says to incidents in the trace."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ges.broker.recorder import Recorder
from overlay.errors import ConfigError
from overlay.machine import Fact
from overlay.trace_schema import Incident, Run, Source, Verdict
from ring.facts import (
    Alone,
    ChordLost,
    ChordRepaired,
    Confirmed,
    DetourEnded,
    LinkFailed,
    Refuted,
    Repaired,
    Suspected,
)
from tests.helpers import rows
from tests.helpers.bench import member, uid

OBSERVER = uid(1)
SUBJECT = member(7)
RUN = rows.run(run_id="live-1", source=Source.LIVE, scenario="live", nodes=None, seed=None)


class Diary:
    """A recorder, told one fact every ten nanoseconds."""

    def __init__(self, directory: Path | None = None) -> None:
        self.recorder = Recorder(RUN, OBSERVER, directory)
        self.now = 0

    def tell(self, *facts: Fact, messages: int = 0) -> list[Incident]:
        """Return the incidents that are decided by these facts."""
        decided = []
        for fact in facts:
            self.now += 10
            incident = self.recorder.on_fact(fact, self.now, {SUBJECT.uid: messages})
            if incident is not None:
                decided.append(incident)
        return decided


def written(directory: Path) -> list[Incident]:
    lines = (directory / "incidents" / "live-1.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Incident) for line in lines]


def test_a_death_from_suspicion_to_repair(tmp_path: Path) -> None:
    diary = Diary(tmp_path)
    assert diary.tell(Suspected(SUBJECT, "silent"), Confirmed(SUBJECT, (uid(8),))) == []
    (incident,) = diary.tell(Repaired(SUBJECT), messages=12)
    assert incident == Incident(
        run_id="live-1",
        incident_id=f"{SUBJECT.uid}/1",
        verdict=Verdict.BROKER_FAILED,
        subject=SUBJECT.uid,
        subject_ring_id=7,
        observer=OBSERVER,
        n=None,
        degree=None,
        failed_ns=None,
        suspected_ns=10,
        confirmed_ns=20,
        repaired_ns=30,
        chords_repaired_ns=None,
        messages=12,
        witnesses=(uid(8),),
    )
    assert written(tmp_path) == [incident]


def test_a_death_learnt_from_others_has_no_suspicion() -> None:
    (incident,) = Diary().tell(Confirmed(SUBJECT, ()), Repaired(SUBJECT))
    assert (incident.suspected_ns, incident.confirmed_ns) == (None, 10)
    assert incident.witnesses == ()


def test_the_first_suspicion_counts_and_no_witness_twice() -> None:
    (incident,) = Diary().tell(
        Suspected(SUBJECT, "silent"),
        Suspected(SUBJECT, "link lost"),
        Confirmed(SUBJECT, (uid(8), uid(9))),
        Confirmed(SUBJECT, (uid(8),)),
        Repaired(SUBJECT),
    )
    assert incident.suspected_ns == 10
    assert incident.witnesses == (uid(8), uid(9))


def test_a_holder_of_a_chord_waits_until_it_is_replaced() -> None:
    diary = Diary()
    started = diary.tell(
        Suspected(SUBJECT, "silent"),
        Confirmed(SUBJECT, ()),
        ChordLost(SUBJECT.uid),
        Repaired(SUBJECT),
    )
    assert started == []
    (incident,) = diary.tell(ChordRepaired(SUBJECT.uid))
    assert (incident.repaired_ns, incident.chords_repaired_ns) == (40, 50)


@pytest.mark.parametrize(
    ("fact", "verdict", "witnesses"),
    [
        (Refuted(SUBJECT), Verdict.REFUTED, ()),
        (LinkFailed(SUBJECT, uid(8)), Verdict.LINK_FAILED, (uid(8),)),
    ],
)
def test_a_suspicion_that_was_wrong(
    fact: Fact, verdict: Verdict, witnesses: tuple[str, ...]
) -> None:
    (incident,) = Diary().tell(Suspected(SUBJECT, "silent"), fact)
    assert (incident.verdict, incident.witnesses) == (verdict, witnesses)
    assert (incident.confirmed_ns, incident.repaired_ns) == (None, None)


def test_after_a_wrong_suspicion_the_next_is_a_new_incident() -> None:
    diary = Diary()
    diary.tell(Suspected(SUBJECT, "silent"), Refuted(SUBJECT))
    (incident,) = diary.tell(
        Suspected(SUBJECT, "silent"), Confirmed(SUBJECT, ()), Repaired(SUBJECT)
    )
    assert incident.suspected_ns == 30


def test_a_link_that_stays_cut_is_one_incident() -> None:
    diary = Diary()
    (incident,) = diary.tell(
        Suspected(SUBJECT, "link lost"),
        LinkFailed(SUBJECT, uid(8)),
        LinkFailed(SUBJECT, uid(8)),
        LinkFailed(SUBJECT, uid(5)),
    )
    assert (incident.suspected_ns, incident.verdict) == (10, Verdict.LINK_FAILED)
    (death,) = diary.tell(Confirmed(SUBJECT, ()), Repaired(SUBJECT))
    assert death.verdict is Verdict.BROKER_FAILED


def test_the_far_end_of_a_link_writes_its_verdict_too_once_until_it_is_back() -> None:
    diary = Diary()
    failed, back = LinkFailed(SUBJECT, uid(8)), DetourEnded(SUBJECT.uid, restored=True)
    lost = DetourEnded(SUBJECT.uid, restored=False)
    incidents = diary.tell(failed, lost, failed, back, failed)
    assert [(i.suspected_ns, i.verdict, i.witnesses) for i in incidents] == [
        (None, Verdict.LINK_FAILED, (uid(8),))
    ] * 2


def test_chords_to_the_living_and_other_facts_are_no_incidents(tmp_path: Path) -> None:
    diary = Diary(tmp_path)
    assert diary.tell(ChordLost(uid(3)), ChordRepaired(uid(3)), Alone()) == []
    diary.recorder.close({})
    assert not (tmp_path / "incidents" / "live-1.jsonl").exists()


def test_what_is_open_at_the_end_is_written_once(tmp_path: Path) -> None:
    diary = Diary(tmp_path)
    diary.tell(Suspected(SUBJECT, "silent"), Suspected(member(9), "silent"), Refuted(member(9)))
    diary.recorder.close({SUBJECT.uid: 3})
    diary.recorder.close({SUBJECT.uid: 3})
    refuted, undecided = written(tmp_path)
    assert refuted.verdict is Verdict.REFUTED
    assert (undecided.verdict, undecided.subject, undecided.messages) == (
        Verdict.OPEN,
        SUBJECT.uid,
        3,
    )


def test_the_run_is_written_first(tmp_path: Path) -> None:
    Diary(tmp_path / "deep" / "trace")
    path = tmp_path / "deep" / "trace" / "runs" / "live-1.jsonl"
    assert msgspec.json.decode(path.read_bytes(), type=Run) == RUN


def test_a_disk_that_fails_later_does_not_stop_the_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diary = Diary(tmp_path)
    (tmp_path / "incidents" / "live-1.jsonl").mkdir()
    assert diary.tell(Suspected(SUBJECT, "silent"), Refuted(SUBJECT))
    assert "trace not written" in capsys.readouterr().out


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="trace directory"):
        Diary(tmp_path / "file")


def test_a_trace_is_not_written_through_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    valuable = tmp_path / "valuable"
    valuable.write_text("do not touch")
    for name in ("runs", "incidents"):
        (tmp_path / name).mkdir()
    (tmp_path / "runs" / "live-1.jsonl").symlink_to(valuable)
    with pytest.raises(ConfigError, match=r"trace directory .*live-1.jsonl is a symbolic link"):
        Diary(tmp_path)
    (tmp_path / "runs" / "live-1.jsonl").unlink()
    (tmp_path / "incidents" / "live-1.jsonl").symlink_to(valuable)
    assert Diary(tmp_path).tell(Suspected(SUBJECT, "silent"), Refuted(SUBJECT))
    assert "live-1.jsonl is a symbolic link" in capsys.readouterr().out
    assert valuable.read_text() == "do not touch"
