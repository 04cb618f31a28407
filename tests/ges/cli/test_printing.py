"""What others say reaches no terminal and no metric as it is."""

from __future__ import annotations

import json

import msgspec
import pytest
import structlog

from ges.cli import logs, sub
from ges.cli.connection import Connection
from ges.cli.main import run
from ges.operations.metrics import families_of, odd_counters, text_of
from ges.operations.walk import Walk
from ges.wire.delivered import Event
from ges.wire.status import Status
from overlay.ids import LinkClass
from tests.ges.operations.test_overlay_graph import broker

EVIL = "\x1b[2J\x9b2J\n\u202e\rforged"
TOLD = r"\x1b[2J\x9b2J\n\u202e\rforged"
NORMAL = LinkClass.NORMAL


def evil_status() -> Status:
    """What a broker says that means harm, wherever a message takes any text."""
    at = broker("a" * 32, ("b" * 32, NORMAL, 1.0))
    link = msgspec.structs.replace(at.links[0], cipher=EVIL, roles=(EVIL,), name=EVIL)
    return msgspec.structs.replace(
        at,
        links=(link,),
        overlay=EVIL,
        version=EVIL,
        name=EVIL,
        counters={EVIL: 1, "good": 2},
    )


@pytest.fixture
def status(monkeypatch: pytest.MonkeyPatch) -> Status:
    """What the broker asked says of itself."""
    found = evil_status()

    async def ask(connection: Connection) -> Status:
        return found

    async def walk_ring(*_: object, **__: object) -> Walk:
        return Walk((found,), (f"finding {EVIL}",), f"ends {EVIL}")

    monkeypatch.setattr("ges.cli.status.ask", ask)
    monkeypatch.setattr("ges.operations.walk.walk_ring", walk_ring)
    return found


@pytest.mark.parametrize(
    "command",
    ["status", "status --json", "ring", "ring --json", "graph", "graph --json", "ring --check"],
)
def test_a_command_prints_nothing_that_does_not_show(
    status: Status, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    run(command.split())
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert all(line.isprintable() for line in text.split("\n"))
        assert not any(line.startswith("\u202e") for line in text.split("\n"))


def test_a_status_shows_it_escaped(status: Status, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status"]) == 0
    assert f"overlay {TOLD}, chordal {TOLD}" in capsys.readouterr().out
    assert run(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["overlay"] == EVIL


def test_a_name_that_is_none_becomes_no_metric(
    status: Status, capsys: pytest.CaptureFixture[str]
) -> None:
    text = text_of(status.uid, families_of(status))
    assert "chordal_good_total" in text
    assert "forged" not in text
    assert odd_counters(status) == [EVIL]
    assert run(["metrics"]) == 0
    shown = capsys.readouterr()
    assert shown.out == text
    assert shown.err == f"chordal: warning: no name of a counter, left out: {TOLD}\n"


def event(payload: bytes, topic: str = "a") -> Event:
    return Event(topic, payload, {}, NORMAL, "c" * 32, 1, 0, 0)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b"21.5", b"a 21.5\n"),
        ("21.5 °C".encode(), "a 21.5 °C\n".encode()),
        (EVIL.encode(), f"a {TOLD}\n".encode()),
        (b"\xff\0", rb"a \xff\x00" + b"\n"),
    ],
)
def test_a_subscriber_escapes_events_on_a_terminal(payload: bytes, told: bytes) -> None:
    assert sub.as_shown(event(payload)) == told
    assert sub.as_raw(event(payload)) == b"a " + payload + b"\n"


def test_the_topic_of_an_older_broker_is_escaped_as_well() -> None:
    assert sub.as_shown(event(b"", EVIL)) == f"{TOLD} \n".encode()
    assert all(
        line.isprintable() for line in sub.as_json_line(event(b"", EVIL)).decode().splitlines()
    )


def test_a_log_on_a_terminal_has_it_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    before = structlog.get_config()
    try:
        logs.configure_logs("info")
        structlog.get_logger().info("refused", reason="\x1b[2J\x9b", more=[EVIL], number=7)
    finally:
        structlog.configure(**before)
    told = capsys.readouterr().err
    assert r"\x1b[2J\x9b" in told
    assert "\x1b[2J" not in told
    assert "\x9b" not in told
    assert "number" in told
