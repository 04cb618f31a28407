"""Which files of tests notice which mutants: a matrix of what tests prove at each height."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks.report import print_line
from tests.mutants.mutant import Mutant

LIMIT_S = 120  #: a file that goes on for longer under a mutant has noticed it
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
PASSED, NOTICED, BROKEN = ".", "X", "?"


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files of tests that paths are, or that are in them."""
    found = [sorted(path.rglob("test_*.py")) if path.is_dir() else [path] for path in paths]
    return [file for files in found for file in files]


def matrix(mutants: Sequence[Mutant], files: Sequence[Path]) -> bool:
    """Print for each mutant which files notice it; returns whether all files pass without any.

    ``.``: the file passes; ``X``: a test fails, or does not end; ``?``: no test was run, or the
    mutant is out of date.
    """
    for number, file in enumerate(files):
        print_line(f"{number:>3}  {file}")
    with redirect_stdout(StringIO()):  # what is imported here is not imported in each fork
        pytest.main([*OPTIONS, "--collect-only", *map(str, files)])
    control = [_run(None, file) for file in files]
    print_line(f"{'none':<32}{''.join(control)}")
    unnoticed = []
    for mutant in mutants:
        row = [_run(mutant, file) for file in files]
        print_line(f"{mutant.name:<32}{''.join(row)}")
        if NOTICED not in row:
            unnoticed.append(mutant.name)
    print_line(f"noticed by none: {', '.join(unnoticed) or 'no mutant'}")
    return set(control) <= {PASSED}


def _run(mutant: Mutant | None, file: Path) -> str:
    """Run a file in a fork, so that neither mutants nor tests leave anything behind."""
    sys.stdout.flush()
    if not (pid := os.fork()):
        _be(mutant, file)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == pytest.ExitCode.OK:
        return PASSED
    return NOTICED if code in (pytest.ExitCode.TESTS_FAILED, -signal.SIGALRM) else BROKEN


def _be(mutant: Mutant | None, file: Path) -> NoReturn:
    """Be the process that runs a file under a mutant, quietly and within the limit."""
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        signal.alarm(LIMIT_S)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        with mutant.applied() if mutant is not None else nullcontext():
            code = pytest.main([*OPTIONS, "-m", "not soak", str(file)])
    finally:
        os._exit(code)
