"""What ``chordal status`` says of links, as text."""

from __future__ import annotations

import json

import msgspec
import pytest

from ges.cli.connection import Connection
from ges.cli.main import run
from ges.wire.status import LevelStatus, LossStatus, Status
from overlay.ids import LinkClass
from tests.ges.operations.test_overlay_graph import broker

NORMAL, EXPRESS = LinkClass.NORMAL, LinkClass.EXPRESS


def columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], at: Status) -> str:
    async def ask(connection: Connection) -> Status:
        return at

    monkeypatch.setattr("ges.cli.status.ask", ask)
    assert run(["status"]) == 0
    return next(line for line in capsys.readouterr().out.splitlines() if "link to" in line)


def test_a_status_shows_what_is_late_dropped_or_known_to_be_narrow_where_there_is_any(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seldom = ["capacity", "late", "dropped"]
    at = broker("a" * 32, ("b" * 32, NORMAL, 1.0), ("b" * 32, EXPRESS, 1.0))
    shown = columns(monkeypatch, capsys, at)
    assert [name for name in seldom if name in shown] == []
    for name, value in (("late", 3), ("dropped", 5), ("capacity", 25_000_000)):
        links = (at.links[0], msgspec.structs.replace(at.links[1], **{name: value}))
        shown = columns(monkeypatch, capsys, msgspec.structs.replace(at, links=links))
        assert [other for other in seldom if other in shown] == [name]


@pytest.mark.parametrize(
    ("unit", "wanted", "line"),
    [
        ("eu/fra/a", "eu/fra/a", "  unit eu/fra/a"),
        ("", "eu", "  unit without a name, and is to be in eu"),
        ("eu", "", "  unit eu, and is to be in one without a name"),
        ("", "", None),
    ],
)
def test_the_names_of_its_units_stand_there_if_there_are_any(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unit: str,
    wanted: str,
    line: str | None,
) -> None:
    at = msgspec.structs.replace(broker("a" * 32), unit=unit, unit_wanted=wanted)

    async def ask(connection: Connection) -> Status:
        return at

    monkeypatch.setattr("ges.cli.status.ask", ask)
    assert run(["status"]) == 0
    found = [each for each in capsys.readouterr().out.splitlines() if each.startswith("  unit ")]
    assert found == ([line] if line is not None else [])


def test_their_values_stand_beside_their_links(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = broker("a" * 32, ("b" * 32, NORMAL, 1.0), ("b" * 32, EXPRESS, 1.0))
    express = msgspec.structs.replace(at.links[1], late=3, dropped=5, capacity=25_000_000)
    at = msgspec.structs.replace(at, links=(at.links[0], express))

    async def ask(connection: Connection) -> Status:
        return at

    monkeypatch.setattr("ges.cli.status.ask", ask)
    assert run(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {kind: next(line for line in lines if f" {kind} " in line) for kind in (NORMAL, EXPRESS)}
    assert rows[NORMAL].split()[-3:] == ["-", "-", "-"]
    assert rows[EXPRESS].split()[-4:] == ["25", "MB/s", "3", "5"]


@pytest.mark.parametrize(
    ("units", "line"),
    [
        (
            {"address": "0.0.0.5", "members": 3, "steward": "b" * 32},
            "address 0.0.0.5, 3 members in",
        ),
        ({"address": "0.0.0.5", "members": 1, "steward": "a" * 32}, "steward this broker"),
        (
            {"address": None, "members": 64, "steward": "b" * 32},
            "no address: there is no free slot",
        ),
        ({"address": None, "members": 0, "steward": None}, "no address yet"),
    ],
)
def test_a_status_says_where_a_broker_is_in_the_units(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    units: dict[str, object],
    line: str,
) -> None:
    at = msgspec.structs.replace(broker("a" * 32), **units)

    async def ask(connection: Connection) -> Status:
        return at

    monkeypatch.setattr("ges.cli.status.ask", ask)
    assert run(["status"]) == 0
    assert line in capsys.readouterr().out


def test_a_status_shows_lost_connections_and_what_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = msgspec.structs.replace(
        broker("a" * 32),
        uptime_s=100.0,
        losses=(LossStatus(1, ("0.0.0", "0.0.1"), "partition", 0, 95.8),),
        levels=(LevelStatus(1, 1, {"partition": 1}), LevelStatus(2, 0, {})),
    )

    async def ask(connection: Connection) -> Status:
        return at

    monkeypatch.setattr("ges.cli.status.ask", ask)
    assert run(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  no path to 1 cluster at present" in lines
    (row,) = [line.split() for line in lines if "0.0.0" in line]
    assert row == ["0.0.0", "0.0.1", "partition", "0", "4.2"]
    assert run(["status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["losses"]
    fields = {"level": 1, "kind": "partition", "left": 0, "at_s": 95.8}
    assert told == [{**fields, "units": ["0.0.0", "0.0.1"]}]
