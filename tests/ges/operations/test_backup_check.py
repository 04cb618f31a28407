"""What ``chordal ring --check`` says of backups."""

from __future__ import annotations

import json

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks.stage.brokers import Brokers
from ges.cli.ring import ring as ring_command
from ges.operations import walk as walk_module
from ges.operations.backup_check import judge_backups
from ges.operations.walk import Walk, judge, walk_ring
from ges.wire.status import Status
from overlay.ids import Peer
from ring.records.holders import BackupStatus
from ring.wire.messages import Member

UIDS = [f"{at:032x}" for at in range(0x10, 0x80, 0x10)]


def whole_ring(n: int, records: int = 3, wanted: int = 2) -> list[Status]:
    """Return what the brokers of a ring say in which everything is in order."""
    members = [
        Member(Peer(uid, 1, f"chordal://{at}.test:1"), at) for at, uid in enumerate(UIDS[:n])
    ]
    reach = range(1, min(2, n - 1) + 1)
    found = []
    for at, member in enumerate(members):
        left = tuple(members[(at - k) % n] for k in reach)
        right = tuple(members[(at + k) % n] for k in reach)
        rows = (right[:1], left[:1], right[1:], left[1:])
        holders = list(dict.fromkeys(m.uid for row in rows for m in row))[:wanted]
        found.append(
            Status(
                uid=member.uid,
                incarnation=1,
                url=member.peer.url,
                overlay="test",
                version="0",
                secure=False,
                member=member,
                left=left,
                right=right,
                chords=(),
                suspects=(),
                links=(),
                clients=0,
                subscriptions=0,
                counters={},
                uptime_s=0.0,
                backups=tuple(BackupStatus(uid, acknowledged=True) for uid in holders),
                records=records,
                backups_wanted=wanted,
            )
        )
    return found


def with_backups(status: Status, *backups: tuple[str, bool]) -> Status:
    told = tuple(BackupStatus(uid, acknowledged) for uid, acknowledged in backups)
    return msgspec.structs.replace(status, backups=told)


@pytest.mark.parametrize("wanted", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
def test_a_ring_with_its_backups_is_in_order_however_small(n: int, wanted: int) -> None:
    found = judge_backups(whole_ring(n, wanted=wanted))
    assert found.findings == ()
    assert (found.owners, found.records) == (n, 3 * n)
    owners = "1 broker" if n == 1 else f"{n} brokers"
    assert found.in_words == f"backups: {3 * n} records of {owners}, all in place"


def test_where_nobody_owns_records_it_says_so() -> None:
    found = judge_backups([with_backups(status) for status in whole_ring(5, records=0)])
    assert (found.owners, found.findings) == (0, ())
    assert found.in_words == "backups: no broker owns records"


@pytest.mark.parametrize(
    ("backups", "finding"),
    [
        ([], "backed up on 0 of its neighbours up to date; there should be 2"),
        ([(UIDS[1], True)], "backed up on 1 of its neighbours up to date; there should be 2"),
        (
            [(UIDS[1], True), (UIDS[1], True)],
            "backed up on 1 of its neighbours up to date; there should be 2",
        ),
        (
            [(UIDS[1], True), (UIDS[0], True)],
            "backed up on 1 of its neighbours up to date; there should be 2",
        ),
        ([(UIDS[1], True), (UIDS[6], False)], "00000000 has not acknowledged the latest versions"),
        ([(UIDS[1], True), (UIDS[3], True)], "who is no neighbour of it"),
        ([(UIDS[1], True), ("f" * 32, True)], "on ffffffff, who is not met on the way round"),
    ],
    ids=["none", "one", "one twice", "itself", "late", "far", "dead"],
)
def test_what_is_missing_is_found(backups: list[tuple[str, bool]], finding: str) -> None:
    statuses = whole_ring(7)
    statuses[0] = with_backups(statuses[0], *backups)
    found = judge_backups(statuses)
    assert any(finding in text for text in found.findings), found.findings
    assert any("should be 2" in text for text in found.findings)
    assert all(text.startswith("broker 00000000 owns records (3)") for text in found.findings)
    assert found.in_words.endswith("not all in place")
    assert set(found.findings) <= set(judge({s.uid: s for s in statuses}, {}))


def test_more_backups_than_wanted_do_no_harm() -> None:
    statuses = whole_ring(7)
    around = (*statuses[0].left, *statuses[0].right)
    statuses[0] = with_backups(statuses[0], *((member.uid, True) for member in around))
    assert judge_backups(statuses).findings == ()


@pytest.mark.parametrize("is_missing", [False, True])
def test_the_command_fails_where_a_backup_is_missing(
    is_missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = whole_ring(5)
    if is_missing:
        statuses[2] = with_backups(statuses[2], (UIDS[3], True))
    findings = tuple(judge({s.uid: s for s in statuses}, {}))

    async def fake(url: str, **rest: object) -> Walk:
        return Walk(tuple(statuses), findings)

    monkeypatch.setattr(walk_module, "walk_ring", fake)
    monkeypatch.setattr("ges.cli.ring._in_parts", lambda strength: [])
    plain = CliRunner().invoke(ring_command, ["--check"])
    assert plain.exit_code == int(is_missing), plain.output
    where = "not all in place" if is_missing else "all in place"
    assert f"backups: 15 records of 5 brokers, {where}" in plain.output
    told = json.loads(CliRunner().invoke(ring_command, ["--check", "--json"]).stdout)
    assert told["backups"] == {"owners": 5, "records": 15, "in_place": not is_missing}
    assert told["whole"] is not is_missing
    assert told["brokers"][2]["records"] == 3
    assert told["brokers"][2]["backups"][0] == {"uid": UIDS[3], "acknowledged": True}


async def test_live_brokers_say_what_the_judge_needs(brokers: Brokers) -> None:
    ring = await brokers.ring_of(3)
    found = await walk_ring(ring[0].url, identity=None, overlay="chordal", timeout_s=1)
    assert found.findings == ()
    assert [status.records for status in found.brokers] == [0, 0, 0]
    assert {status.backups_wanted for status in found.brokers} == {2}
    assert judge_backups(found.brokers).owners == 0
