"""Completion, as a shell asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from benchmarks.stage.processes import REPOSITORY
from ges.cli import main
from ges.operations.local_brokers import COMMAND

HEAVY = ("trio", "cryptography", "rich", "msgspec", "sims.cli", "spark.cli")


def completed(*words: str) -> list[str]:
    """What fish is given for the last of these words, by line."""
    environment = {
        **os.environ,
        "_CHORDAL_COMPLETE": "fish_complete",
        "COMP_WORDS": " ".join(["chordal", *words]),
        "COMP_CWORD": words[-1],
    }
    done = subprocess.run(
        COMMAND, env=environment, capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def values(*words: str) -> set[str]:
    return {line.partition(",")[2].partition("\t")[0] for line in completed(*words)}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_lines(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main.run(["completion", shell]) == 0
    told = capsys.readouterr().out
    assert f"_CHORDAL_COMPLETE={shell}_complete" in told
    program = shutil.which(shell)
    if program is not None:  # the shell takes it
        checked = subprocess.run([program, "-n"], input=told, text=True, check=False)
        assert checked.returncode == 0


def test_commands_options_and_choices_are_completed() -> None:
    assert {"ping", "pub"} <= values("p")
    assert values("serve", "--gra") == {"--grace"}
    assert values("pub", "--class", "e") == {"express"}
    assert "list" in values("identity", "l")


def test_completing_a_command_imports_none() -> None:
    program = (
        "import sys, click\nfrom ges.cli.main import cli\n"
        "items = cli.shell_complete(click.Context(cli), 's')\n"
        "assert {'serve', 'sub', 'status', 'sim'} <= {item.value for item in items}\n"
        "assert all(item.help for item in items)\n"
        f"print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    assert done.stdout.split() == []


def test_another_shell_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
