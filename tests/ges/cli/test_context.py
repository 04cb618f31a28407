"""Connections of clients by name: kept, and used by each command that attaches to a broker."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here

#: Nobody listens there; which is called is told in the error.
PROD, LAB, ELSEWHERE = (f"chordal://127.0.0.1:{port}" for port in (1, 2, 3))
COMMANDS = (
    ("status",),
    ("ring",),
    ("metrics",),
    ("graph",),
    ("pub", "a", "x"),
    ("sub", "a"),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("CONTEXT", "URL", "IDENTITY", "TOKEN", "TOKEN_FILE", "OVERLAY"):
        monkeypatch.delenv(f"CHORDAL_{name}", raising=False)
    return tmp_path / "config"


def run(*arguments: str) -> str:
    done = chordal_here(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fails(*arguments: str, code: int = 2) -> str:
    done = chordal_here(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stdout
    (line,) = done.stderr.splitlines()[-1:]
    return line.removeprefix("chordal: error: ")


def called(*arguments: str) -> str:
    """Return at which URL a command looks for its broker."""
    done = chordal_here(*arguments, "--timeout", "0.05")
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    return next(url for url in (PROD, LAB, ELSEWHERE, "chordal://127.0.0.1:9470") if url in last)


def test_added_listed_shown_and_removed(home: Path, tmp_path: Path) -> None:
    assert "there are no contexts" in run("context", "list")
    token = tmp_path / "me.token"
    token.write_text("secret")
    run("context", "add", "prod", "--broker", PROD, "--token-file", str(token), "--use")
    run("context", "add", "lab", "--broker", LAB, "--description", "on my desk")
    listed = run("context", "list").splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["lab", LAB], ["*", "prod"]]
    found = json.loads(run("context", "list", "--json"))
    assert found["selected"] == "prod"
    assert found["contexts"]["lab"]["description"] == "on my desk"
    assert json.loads(run("context", "show", "--json"))["token_file"] == str(token)
    assert f"broker: {LAB}" in run("context", "show", "lab")
    run("context", "remove", "prod")
    assert json.loads(run("context", "list", "--json"))["selected"] is None
    assert "no context is used" in fails("context", "show")


def test_only_the_user_reads_them_and_there_is_no_secret_in_them(
    home: Path, tmp_path: Path
) -> None:
    token = tmp_path / "me.token"
    token.write_text("secret-of-mine")
    run("context", "add", "prod", "--broker", PROD, "--token-file", str(token))
    path = home / "chordal" / "contexts.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "secret-of-mine" not in path.read_text()
    path.chmod(0o644)
    assert fails("status", "--context", "prod") == (
        f"{path}: open to group or others; chmod 600 {path} [config]"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_attaches_uses_them(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("context", "add", "prod", "--broker", PROD, "--use")
    run("context", "add", "lab", "--broker", LAB)
    assert called(*command) == PROD
    assert called(*command, "--context", "lab") == LAB
    monkeypatch.setenv("CHORDAL_CONTEXT", "lab")
    assert called(*command) == LAB


def test_which_is_stronger(monkeypatch: pytest.MonkeyPatch) -> None:
    run("context", "add", "prod", "--broker", PROD, "--use")
    assert called("status", "--broker", LAB, "--context", "prod") == LAB
    monkeypatch.setenv("CHORDAL_URL", ELSEWHERE)
    assert called("status") == ELSEWHERE, "a variable names the broker, so none is to be chosen"
    assert called("status", "--context", "prod") == PROD, "it is named by a flag"
    monkeypatch.setenv("CHORDAL_CONTEXT", "prod")
    assert called("status") == ELSEWHERE, "a variable that says one thing is stronger"
    monkeypatch.delenv("CHORDAL_URL")
    monkeypatch.delenv("CHORDAL_CONTEXT")
    run("context", "use", "--none")
    assert called("status") == "chordal://127.0.0.1:9470"


def test_a_token_goes_to_no_broker_it_was_not_kept_for(tmp_path: Path) -> None:
    """A token file that is missing shows which command would have read it."""
    token = tmp_path / "gone.token"
    token.write_text("x")
    run("context", "add", "prod", "--broker", PROD, "--token-file", str(token), "--use")
    token.unlink()
    publish = ("pub", "a", "x")
    assert str(token) in fails(*publish)
    assert str(token) in fails(*publish, "--context", "prod")
    assert called(*publish, "--broker", LAB) == LAB


def test_a_token_of_the_environment_or_of_the_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "me.token"
    token.write_text("no token")
    token.chmod(0o600)
    run("context", "add", "prod", "--broker", PROD, "--token-file", str(token), "--use")
    monkeypatch.setenv("CHORDAL_TOKEN", "none either")
    assert "CHORDAL_TOKEN holds no token" in fails("pub", "a", "x")
    assert f"{token} holds no token" in fails("pub", "a", "x", "--context", "prod")


def test_the_overlay_and_the_identity_come_from_it_too(tmp_path: Path) -> None:
    run("context", "add", "a", "--broker", PROD, "--overlay", "x")
    identity = tmp_path / "me"
    identity.mkdir()
    secure = PROD.replace("chordal:", "chordals:")
    run("context", "add", "b", "--broker", secure, "--identity", str(identity))
    identity.rmdir()
    assert str(identity) in fails("status", "--context", "b")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "prd"), "there is no context 'prd'; the nearest is 'prod'"),
        (("remove", "other"), "there is no context 'other'; 'chordal context list' lists all"),
        (("use", "prd"), "the nearest is 'prod'"),
        (("use",), "give NAME, or --none"),
        (("add", "prod", "--broker", PROD), "there is a context 'prod' already; --replace"),
        (("add", "a b", "--broker", PROD), "'a b' cannot name a context: 1 to 64 letters"),
        (("add", "x", "--broker", "http://a"), "'http://a' is not a broker URL"),
        (("add", "x", "--broker", ","), "names no broker"),
        (("add", "x", "--broker", PROD, "--identity", "/nowhere"), "/nowhere is no folder"),
        (("add", "x", "--broker", PROD, "--token-file", "/nowhere"), "/nowhere is no file"),
        (("add", "x", "--broker", PROD, "--overlay", ""), "1 to 64 characters"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], said: str) -> None:
    run("context", "add", "prod", "--broker", PROD)
    assert said in fails("context", *arguments)
    assert list(json.loads(run("context", "list", "--json"))["contexts"]) == ["prod"]


@pytest.mark.parametrize("text", ["{", '{"contexts": {"a": {"token": "x"}}}', "\xff"])
def test_a_damaged_file_is_named(home: Path, text: str) -> None:
    path = home / "chordal" / "contexts.json"
    path.parent.mkdir(parents=True)
    path.touch(0o600)
    path.write_text(text)
    assert "no file of contexts" in fails("context", "list")
    assert "no file of contexts" in fails("context", "add", "x", "--broker", PROD)
    assert path.read_text() == text
