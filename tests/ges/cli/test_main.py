"""The root of the command: light to load, and never a traceback for its user."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from ges.cli import main
from ges.errors import ConnectionLost
from overlay.errors import ConfigError

HEAVY = ("trio", "cryptography", "pyarrow", "pyspark", "structlog", "rich", "msgspec", "numpy")


@pytest.mark.parametrize("program", ["import ges.cli.main", "from ges.cli.main import run"])
def test_loading_the_command_loads_nothing_heavy(program: str) -> None:
    report = f"{program}; import sys; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_says_what_each_command_does(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert main.run([flag]) == 0
    told = capsys.readouterr().out
    for name in (*main.COMMANDS, "sim", "recovery"):
        line = next(line for line in told.splitlines() if line.split()[:1] == [name])
        assert len(line.split()) > 2, "the command without a word on what it does"


@pytest.mark.parametrize("name", [*main.COMMANDS, "sim", "recovery"])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main.run([name, "--help"]) == 0
    assert "Usage: chordal" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("chordal ")


@pytest.mark.parametrize("arguments", [["frobnicate"], ["--frobnicate"], ["status", "frobnicate"]])
def test_what_is_not_known_is_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main.run(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("chordal: error: ")
    assert "frobnicate" in line
    assert line.endswith(" --help' [usage]"), "it says where the right ones stand"


@pytest.mark.parametrize(
    "arguments",
    [
        ["sub", "x", "--wait", "nan"],
        ["status", "--timeout", "nan"],
        ["ring", "--check", "--wait", "nan"],
        ["serve", "--connection-rate", "nan"],
    ],
)
def test_what_is_not_a_number_is_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main.run(arguments) == 2
    assert "'nan' is not a number" in capsys.readouterr().err


def test_a_subscriber_says_why_there_is_no_broker_however_short_it_waits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["sub", "x", "--wait", "0.3", "--broker", "chordal://127.0.0.1:1"]) == 1
    assert "connection refused" in capsys.readouterr().err


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    """As trio's nurseries wrap them, one in another."""
    return ExceptionGroup("outer", [ExceptionGroup("inner", list(errors))])


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], int]:
    """Run a command that fails with the given error, and return its exit code."""

    def fail(error: BaseException) -> int:
        def command() -> None:
            raise error

        made = click.command()(command)
        monkeypatch.setattr(main.LazyGroup, "get_command", lambda *_: made)
        return main.run(["status"])

    return fail


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ConnectionLost("no broker"), 1, ["chordal: error: no broker [connection-lost]"]),
        (ConfigError("bad flag"), 2, ["chordal: error: bad flag [config]"]),
        (group(ConfigError("bad flag")), 2, ["chordal: error: bad flag [config]"]),
        (
            group(ConnectionLost("gone"), ConnectionLost("gone")),
            1,
            ["chordal: error: gone [connection-lost]"],
        ),
        (ConnectionLost("told \x1b[2J"), 1, [r"chordal: error: told \x1b[2J [connection-lost]"]),
        (MemoryError(), 1, ["chordal: error: there is not enough memory [no-memory]"]),
        (group(MemoryError()), 1, ["chordal: error: there is not enough memory [no-memory]"]),
        (OSError(errno.ENOMEM, "x"), 1, ["chordal: error: there is not enough memory [no-memory]"]),
        (
            OSError(errno.ENOSPC, "No space left on device", "data/x"),
            1,
            ["chordal: error: cannot write data/x: No space left on device [system]"],
        ),
        (
            OSError(errno.EDQUOT, "Disk quota exceeded", "data/y"),
            1,
            ["chordal: error: cannot write data/y: Disk quota exceeded [system]"],
        ),
        (
            OSError(errno.EMFILE, "Too many open files", "y"),
            1,
            ["chordal: error: y: Too many open files [system]"],
        ),
        (
            OSError(errno.ESTALE, "Stale file handle", "z"),
            1,
            ["chordal: error: z: Stale file handle [system]"],
        ),
        (ConnectionLost("told\nin lines"), 1, ["chordal: error: told in lines [connection-lost]"]),
        (KeyboardInterrupt(), 130, []),
        (BaseExceptionGroup("outer", [KeyboardInterrupt()]), 130, []),
    ],
)
def test_errors_become_one_line_and_an_exit_code(
    fail: Callable[[BaseException], int],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    told: list[str],
) -> None:
    assert fail(error) == code
    assert capsys.readouterr().err.strip().splitlines() == told


def test_a_bug_of_ours_is_called_one(
    fail: Callable[[BaseException], int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CHORDAL_DEBUG", raising=False)
    assert fail(KeyError("x")) == 70
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("chordal: internal error: KeyError: 'x'; this is a bug of chordal; ")
    assert told.endswith("CHORDAL_DEBUG=1 shows where [internal]")
    monkeypatch.setenv("CHORDAL_DEBUG", "1")
    with pytest.raises(KeyError):
        fail(KeyError("x"))
