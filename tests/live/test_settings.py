"""Settings of a broker from a file, while it runs: SIGHUP, names, limits."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chordal.toml"
    path.write_text("")
    return path


def started(brokers: Fleet, file: Path, *arguments: str) -> Broker:
    broker = brokers.broker("--config", str(file), *arguments)
    assert broker.ready["ready"]
    return broker


def reload(broker: Broker, file: Path, text: str) -> list[dict[str, object]]:
    """Write the file, send SIGHUP, and return the lines that the broker has logged then."""
    before = len(broker.err.splitlines())
    file.write_text(text)
    broker.signal(signal.SIGHUP)

    def told() -> list[str]:
        return broker.err.splitlines()[before:]

    ends = ("settings read again", "the earlier ones stay in force")
    eventually(lambda: any(end in line for line in told() for end in ends))
    return [json.loads(line) for line in told()]


def test_what_can_change_does_and_what_cannot_is_named(brokers: Fleet, file: Path) -> None:
    file.write_text("[limits]\nclients = 10\n[log]\nlevel = 'error'")
    broker = started(brokers, file, "--backups", "3")
    at = ("--broker", broker.url)
    assert chordal_here("status", *at).returncode == 0
    assert broker.err == "", "errors alone are logged"

    told = reload(
        broker,
        file,
        "listen = '127.0.0.1:1'\n[limits]\nclients = 0\n[log]\nlevel = 'info'\n[ring]\nbackups = 4",
    )
    by_key = {line.get("key"): line for line in told}
    assert by_key["limits.clients"] == by_key["limits.clients"] | {
        "event": "setting changed",
        "running": "10",
        "new": "0",
        "by": f"{file}:3",
    }
    assert by_key["log.level"]["event"] == "setting changed"
    assert "listen" not in by_key, "a flag is stronger than the file"
    assert "ring.backups" not in by_key
    refused = chordal_here("pub", "a", "x", *at, "--timeout", "0.3")
    assert refused.returncode == 1
    assert "serves 0 clients" in refused.stderr

    told = reload(broker, file, "overlay = 'other'\n[limits]\nclients = 5")
    by_key = {line.get("key"): line for line in told}
    assert by_key["overlay"]["event"] == "setting needs a restart"
    assert by_key["overlay"]["level"] == "warning"
    assert chordal_here("pub", "a", "x", *at).returncode == 0


def test_a_broken_file_changes_nothing(brokers: Fleet, file: Path) -> None:
    file.write_text("[limits]\nclients = 10")
    broker = started(brokers, file)
    told = reload(broker, file, "[limits]\nclients = 0\nclint = 1")
    errors = [line for line in told if line["level"] == "error"]
    assert [line["why"] for line in errors] == [
        f"{file}:3: limits.clint: unknown key; the nearest is limits.clients"
    ]
    file.unlink()
    broker.signal(signal.SIGHUP)
    eventually(lambda: "No such file or directory" in broker.err)
    assert chordal_here("status", "--broker", broker.url).returncode == 0
    broker.signal(signal.SIGTERM)
    assert broker.ended() == 0


def test_rules_and_tokens_may_come_move_and_go(brokers: Fleet, file: Path, tmp_path: Path) -> None:
    rules, book, token = (tmp_path / name for name in ("access.toml", "tokens.json", "me.token"))
    rules.write_text("[[allow]]\nsubject = 'token:me'\npublish = ['#']")
    issued = chordal_here("token", "issue", str(book), "me", "--out", str(token))
    assert issued.returncode == 0, issued.stderr
    broker = started(brokers, file)
    publish = ("pub", "a", "x", "--broker", broker.url)
    assert chordal_here(*publish).returncode == 0

    reload(broker, file, "[security]\naccess = 'access.toml'\ntokens = 'tokens.json'")
    denied = chordal_here(*publish)
    assert (denied.returncode, "no rule allows it" in denied.stderr) == (1, True)
    mine = (*publish, "--token-file", str(token))
    assert chordal_here(*mine).returncode == 0
    assert chordal_here("token", "revoke", str(book), "me").returncode == 0
    eventually(lambda: broker.err.count("tokens read again") == 2)  # on SIGHUP, and now
    assert "not known to this broker" in chordal_here(*mine).stderr

    told = reload(broker, file, "[security]\naccess = 'gone.toml'")
    assert any("wrong access rules" in str(line["event"]) for line in told)
    assert chordal_here(*publish).returncode == 1, "what was in force stays so"
    reload(broker, file, "")
    assert chordal_here(*publish).returncode == 0


def test_rings_become_one_when_a_list_names_the_other(brokers: Fleet, file: Path) -> None:
    first = started(brokers, file)
    second = brokers.broker()
    assert second.ready["ready"]
    whole(first.url, 1)
    told = reload(first, file, f"join = ['{second.url}']")
    assert any(line.get("key") == "join" for line in told)
    whole(second.url, 2)


def test_a_list_that_is_looked_for_elsewhere_may_be_named_later(
    brokers: Fleet, file: Path, tmp_path: Path
) -> None:
    """One that is wrong ends no broker that runs."""
    first = started(brokers, file)
    second = brokers.broker()
    assert second.ready["ready"]
    wrong, listed = tmp_path / "wrong", tmp_path / "listed"
    wrong.write_text("here")
    reload(first, file, f"join = ['file:{wrong}']")
    eventually(lambda: f"{wrong}: line 1: 'here' is not a broker URL" in first.err)
    whole(first.url, 1)
    reload(first, file, f"join = ['file:{listed}']")
    listed.write_text(second.url)
    whole(second.url, 2)


def test_a_broker_that_waits_for_a_ring_goes_by_the_new_list(brokers: Fleet, file: Path) -> None:
    file.write_text("join = ['chordal://127.0.0.1:1']")
    waiting = brokers.broker("--config", str(file))
    eventually(lambda: "not joined yet" in waiting.err)
    other = brokers.broker()
    assert other.ready["ready"]
    reload(waiting, file, f"join = ['{other.url}']")
    assert waiting.ready["ready"]
    whole(other.url, 2)


def test_limits_that_cannot_be_kept_are_named(tmp_path: Path, file: Path) -> None:
    file.write_text("[limits]\nconnections = 900")
    broker = Broker(tmp_path, "narrow", ("--config", str(file)), files=512)
    try:
        assert broker.ready["ready"]
        warning = json.loads(broker.err.splitlines()[0])
        assert warning["event"] == "limits lowered"
        assert warning["key"] == "limits.connections"
        assert (warning["wanted"], warning["allowed"]) == (900, 336)
    finally:
        broker.kill()


def test_a_payload_has_a_limit_that_can_change(brokers: Fleet, file: Path) -> None:
    file.write_text("[limits]\npayload = 10")
    broker = started(brokers, file)
    at = ("--broker", broker.url)
    assert chordal_here("pub", "a", "x" * 10, *at).returncode == 0
    for extra in ((), ("--class", "express")):
        refused = chordal_here("pub", "a", "x" * 11, "--attr", "k=v", *extra, *at)
        assert refused.returncode == 1
        assert "a payload of 11 bytes; this broker takes 10 at most" in refused.stderr
    reader = brokers.subscriber("a", broker.url, "--count", "2")
    mixed = chordal_here("pub", "a", "-", "--lines", *at, given=f"one\n{'x' * 50}\ntwo\n")
    assert mixed.returncode == 1
    assert "50 bytes" in mixed.stderr
    assert reader.ended() == 0
    assert reader.out == "a one\na two\n"
    reload(broker, file, "[limits]\npayload = '1KiB'")
    assert chordal_here("pub", "a", "x" * 50, *at).returncode == 0


def test_a_broker_has_a_name(brokers: Fleet, file: Path) -> None:
    file.write_text("name = 'berlin-1'\n[log]\nformat = 'key=value'")
    broker = started(brokers, file)
    assert broker.ready["name"] == "berlin-1"
    assert broker.status()["name"] == "berlin-1"
    at = ("--broker", broker.url)
    told = chordal_here("status", *at).stdout.splitlines()[0]
    assert told.startswith(f"broker berlin-1, {broker.uid} ")
    head, row = chordal_here("ring", *at).stdout.splitlines()[:2]
    assert head.split()[2:4] == ["broker", "name"]
    assert row.split()[2] == "berlin-1"
    assert json.loads(chordal_here("ring", "--json", *at).stdout)["brokers"][0]["name"] == (
        "berlin-1"
    )
    joined = next(line for line in broker.err.splitlines() if "event=joined" in line)
    assert "level=info" in joined
    assert "name=berlin-1" in joined
    broker.signal(signal.SIGHUP)
    eventually(lambda: 'event="settings read again"' in broker.err)


def test_neighbours_are_told_the_name_of_a_broker(brokers: Fleet) -> None:
    first = brokers.broker("--name", "berlin-1")
    second = brokers.broker("--name", "paris-1", "--join", first.url)
    third = brokers.broker("--join", first.url)
    uids = {first.uid: "berlin-1", second.uid: "paris-1", third.uid: ""}
    whole(first.url, 3)

    def is_told(broker: Broker) -> bool:
        told = {link["uid"]: link["name"] for link in broker.status()["links"]}
        return told == {uid: name for uid, name in uids.items() if uid != broker.uid}

    eventually(lambda: all(is_told(broker) for broker in (first, second, third)))
    at = ("--broker", third.url)
    shown = chordal_here("status", *at).stdout
    rows = [line.split() for line in shown.splitlines()]
    assert [first.uid[:8], "berlin-1"] in [row[:2] for row in rows]
    assert f"{second.uid[:8]} paris-1" in chordal_here("ring", *at).stdout

    def measured() -> dict[str, object]:
        found: dict[str, object] = json.loads(chordal_here("graph", "--json", *at).stdout)
        return found

    eventually(lambda: len(list(measured()["links"])) >= 3)  # type: ignore[call-overload]
    assert measured()["names"] == {uid: name for uid, name in uids.items() if name}
    assert f"{first.uid[:8]} berlin-1" in chordal_here("graph", *at).stdout


def test_level_and_format_of_the_log_change(brokers: Fleet, file: Path) -> None:
    file.write_text("[log]\nlevel = 'debug'\nformat = 'json'")
    broker = started(brokers, file)
    reload(broker, file, "[log]\nlevel = 'debug'\nformat = 'json'")
    before = len(broker.err.splitlines())
    file.write_text("[log]\nlevel = 'info'\nformat = 'key=value'")
    broker.signal(signal.SIGHUP)
    eventually(lambda: 'event="settings read again"' in broker.err)
    lines = broker.err.splitlines()[before:]
    assert all("level=" in line for line in lines), lines
    file.write_text("[log]\nlevel = 'error'\nformat = 'json'")
    broker.signal(signal.SIGHUP)
    eventually(lambda: '"event": "settings read again"' in broker.err.splitlines()[-1])
    quiet = len(broker.err.splitlines())
    broker.signal(signal.SIGTERM)
    assert broker.ended() == 0
    assert len(broker.err.splitlines()) == quiet, "it leaves, and logs no error"


def test_contexts_lead_to_a_broker(
    brokers: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    broker = brokers.broker("--overlay", "lab")
    added = chordal_here(
        "context", "add", "lab", "--broker", broker.url, "--overlay", "lab", "--use"
    )
    assert added.returncode == 0, added.stderr
    found = chordal_here("status", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["uid"] == broker.uid


def test_a_file_in_the_way_is_not_read_but_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a broker is started from decides nothing that nobody has asked for."""
    (tmp_path / "chordal.toml").write_text("listen = 'no address at all'")
    monkeypatch.chdir(tmp_path)
    done = chordal_here("serve", "--listen", "127.0.0.1:0", "--identity", "nobody")
    assert done.returncode == 2
    warning, error = done.stderr.splitlines()
    assert json.loads(warning)["event"] == "settings file not read"
    assert "nobody" in error
