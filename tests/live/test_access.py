"""Rules and tokens by the command, with real brokers."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live

RULES = """
[[allow]]
name = "line 1 reports"
subject = "token:line-1"
publish = ["sensors/{token}/#"]

[[allow]]
subject = "anyone"
subscribe = ["sensors/#"]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(RULES)
    return path


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


@pytest.fixture
def token(book: Path, tmp_path: Path) -> Path:
    path = tmp_path / "line-1.token"
    issued = chordal_here("token", "issue", str(book), "line-1", "--out", str(path))
    assert issued.returncode == 0, issued.stderr
    return path


def test_from_token_to_denial(brokers: Fleet, rules: Path, book: Path, token: Path) -> None:
    first, second = brokers.ring_of(2, "--access", str(rules), "--tokens", str(book))
    reader = brokers.subscriber("sensors/#", second.url, "--count", "1")
    at = ("--broker", first.url)
    mine = ("--token-file", str(token))
    assert chordal_here("pub", "sensors/line-1/7", "21.5", *at, *mine).returncode == 0
    assert reader.ended() == 0
    assert reader.out == "sensors/line-1/7 21.5\n"

    denied = chordal_here("pub", "sensors/line-2/7", "x", *at, *mine)
    assert denied.returncode == 1
    assert denied.stderr == (
        "chordal: error: publishing to 'sensors/line-2/7' is denied to token:line-1: "
        "no rule allows it [publish-refused]\n"
    )
    denied = chordal_here("sub", "#", "--wait", "1", *at)
    assert denied.returncode == 1
    assert denied.stderr == (
        "chordal: error: subscribing to '#' is denied to anyone: no rule allows it "
        "[subscribe-refused]\n"
    )

    assert chordal_here("ring", "--check", "--expect", "2", *at).returncode == 0
    counters = first.status()["counters"]
    assert (counters["events_denied"], counters["subscriptions_denied"]) == (1, 1)
    metrics = chordal_here("metrics", *at).stdout
    assert f'chordal_events_denied_total{{broker="{first.uid}"}} 1.0\n' in metrics
    assert re.search(r'^chordal_links\{broker="\w+",class="normal"\} 1\.0$', metrics, re.MULTILINE)
    for running in (first, second):
        secret = token.read_text().strip().rpartition(".")[2]
        assert secret not in running.err


def test_new_rules_and_revoked_tokens_need_no_restart(
    brokers: Fleet, rules: Path, book: Path, token: Path
) -> None:
    broker = brokers.broker("--access", str(rules), "--tokens", str(book))
    at, mine = ("--broker", broker.url), ("--token-file", str(token))
    report = ("pub", "sensors/line-1/7", "x", *at, *mine)
    assert chordal_here(*report).returncode == 0

    rules.write_text("[[allow]]\nsubject = 'nobody'\npublish = ['#']")
    broker.signal(signal.SIGHUP)
    eventually(lambda: "the earlier ones stay in force" in broker.err)
    assert "subject 'nobody' is none" in broker.err
    assert chordal_here(*report).returncode == 0

    rules.write_text(RULES.replace("sensors", "readings"))
    broker.signal(signal.SIGHUP)
    eventually(lambda: "access rules read again" in broker.err)
    denied = chordal_here(*report)
    assert (denied.returncode, "denied" in denied.stderr) == (1, True)

    assert chordal_here("token", "revoke", str(book), "line-1").returncode == 0
    eventually(lambda: broker.err.count("tokens read again") == 1)
    refused = chordal_here("pub", "readings/line-1/7", "x", *at, *mine)
    assert refused.returncode == 1
    assert "the token is not known to this broker, or has expired" in refused.stderr
    broker.signal(signal.SIGTERM)
    assert broker.ended() == 0


@pytest.mark.parametrize(
    ("option", "words"),
    [("--access", "no TOML"), ("--tokens", "no book of tokens")],
)
def test_a_wrong_file_does_not_start_the_broker(tmp_path: Path, option: str, words: str) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("[[allow")
    done = chordal_here("serve", "--listen", "127.0.0.1:0", option, str(wrong))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"chordal: error: {wrong}: {words}")


@pytest.mark.parametrize("option", ["--access", "--tokens", "--identity"])
def test_a_pipe_in_a_files_place_does_not_keep_it_waiting(tmp_path: Path, option: str) -> None:
    """Nobody ever writes into it."""
    pipe = tmp_path / "identity.crt"
    os.mkfifo(pipe, 0o600)
    named = tmp_path if option == "--identity" else pipe
    done = chordal_here("serve", "--listen", "127.0.0.1:0", option, str(named))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"chordal: error: {pipe}: Not a regular file")


@pytest.mark.parametrize("option", ["--access", "--tokens"])
def test_a_running_broker_is_not_held_up_by_one(
    brokers: Fleet, rules: Path, book: Path, token: Path, tmp_path: Path, option: str
) -> None:
    broker = brokers.broker("--access", str(rules), "--tokens", str(book))
    assert broker.ready["ready"]
    os.mkfifo(tmp_path / "pipe", 0o600)
    os.replace(tmp_path / "pipe", rules if option == "--access" else book)
    broker.signal(signal.SIGHUP)
    eventually(lambda: "Not a regular file" in broker.err)
    assert "the earlier ones stay in force" in broker.err
    assert broker.status()["url"] == broker.url


def test_tokens_are_issued_listed_and_revoked(book: Path, token: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(token.stat().st_mode) == stat.S_IMODE(book.stat().st_mode) == 0o600
    printed = chordal_here("token", "issue", str(book), "line-2", "--lifetime", "90s")
    assert re.fullmatch(r"line-2\.[\w-]{43}\n", printed.stdout)
    listed = json.loads(chordal_here("token", "list", str(book), "--json").stdout)["tokens"]
    assert [(row["name"], row["expired"]) for row in listed] == [
        ("line-1", False),
        ("line-2", False),
    ]
    told = chordal_here("token", "list", str(book)).stdout
    assert printed.stdout.strip().rpartition(".")[2] not in told + str(listed)
    assert chordal_here("token", "revoke", str(book), "line-1").returncode == 0
    again = chordal_here("token", "revoke", str(book), "line-1")
    assert (again.returncode, again.stderr) == (
        2,
        "chordal: error: there is no token 'line-1' [token]\n",
    )
    wrong = chordal_here("token", "issue", str(book), "a", "--lifetime", "soon")
    assert wrong.returncode == 2
    assert "write one such as 90s, 15m, 12h, 30d or never" in wrong.stderr
    taken = chordal_here("token", "issue", str(book), "b", "--out", str(token))
    assert "is not overwritten" in taken.stderr
    assert "b" not in {
        row["name"]
        for row in json.loads(chordal_here("token", "list", str(book), "--json").stdout)["tokens"]
    }


def test_a_token_may_come_from_the_environment_and_goes_nowhere_in_the_clear(
    brokers: Fleet, rules: Path, book: Path, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = brokers.broker("--access", str(rules), "--tokens", str(book))
    monkeypatch.setitem(os.environ, "CHORDAL_TOKEN", token.read_text().strip())
    sent = chordal_here("pub", "sensors/line-1/7", "x", "--broker", broker.url)
    assert sent.returncode == 0, sent.stderr
    refused = chordal_here("pub", "sensors/line-1/7", "x", "--broker", "chordal://192.0.2.1:9470")
    assert refused.returncode == 2
    assert "plain connection to another host" in refused.stderr
    monkeypatch.setitem(os.environ, "CHORDAL_TOKEN", "secret-but-malformed")
    wrong = chordal_here("pub", "sensors/line-1/7", "x", "--broker", broker.url)
    assert wrong.returncode == 2
    assert "CHORDAL_TOKEN holds no token" in wrong.stderr
    assert "malformed" not in wrong.stderr


def test_rules_can_be_asked(rules: Path) -> None:
    def ask(*arguments: str) -> tuple[int, str]:
        done = chordal_here("access", "check", str(rules), *arguments)
        return done.returncode, done.stdout + done.stderr

    code, told = ask("--subject", "token:line-1", "--publish", "sensors/line-1/7")
    assert code == 0
    assert told.endswith("by the allow rule on line 2 (line 1 reports)\n")
    code, told = ask("--subject", "token:line-2", "--publish", "sensors/line-1/7")
    assert (code, "no rule allows it" in told) == (1, True)
    code, told = ask("--subscribe", "sensors/+/x", "--json")
    assert code == 0
    assert json.loads(told)["decisions"][0]["allowed"] is True
    assert ask()[0] == 0
    assert ask("--subject", "king")[0] == 2
    assert ask("--publish", "a/#")[0] == 2
    rules.write_text("[[allow]]\nsubject = 'anyone'\nsubscribe = 'a/#/b'")
    code, told = ask()
    assert code == 2
    assert "the allow rule on line 1: subscribe: filter 'a/#/b'" in told
