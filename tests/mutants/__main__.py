"""How strong the tests of the ring are: broken protocols, and who notices (B37).

    python -m tests.mutants [--rounds N] [--only NAME,NAME,...] [--list] [--by PATH ...]

Every mutant breaks one rule of the ring at run time. The stories of ``sims.stories`` are played
with it, round by round, each with other seeds, and the small scopes are explored, until one of them
finds something; those that know the broken part best are asked first. The protocol as it is must
pass all of that. Exit code 1 if it does not, or if fewer than 95 % are caught; 2 for a mutant that
does not fit any more. With ``--only`` that share is not judged, and the exit code is 1 if one of
those named is not caught.

With ``--by`` files of tests are run under each mutant instead, each until a test of it fails. A
matrix says which of them notices what. Exit code 1 if one of them fails without a mutant.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.arguments import at_least, listed
from benchmarks.report import print_line
from tests.mutants import MUTANTS, OutOfDate
from tests.mutants.by import files_of, matrix
from tests.mutants.hunt import judge

ROUNDS = 3


def main() -> None:
    """Print who noticed each mutant, and B37.

    Exit code 1 if that is missed, or one of those that ``--only`` names is not caught; 2 if a
    mutant is out of date. ``--list`` only says what each breaks.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rounds", type=at_least(1), default=ROUNDS, help="seeds of each story")
    parser.add_argument(
        "--only", type=listed(str), help="names of mutants, with commas; implies no control"
    )
    parser.add_argument("--list", action="store_true", help="say what each mutant breaks, and stop")
    parser.add_argument(
        "--by", type=Path, nargs="+", metavar="PATH", help="files of tests, or folders of them"
    )
    options = parser.parse_args()
    names = {mutant.name for mutant in MUTANTS}
    only = names if options.only is None else set(options.only)
    if only - names:
        unknown = ", ".join(map(repr, sorted(only - names)))
        parser.error(f"--only: no {unknown}; --list shows all")
    mutants = [mutant for mutant in MUTANTS if mutant.name in only]
    if options.list:
        for mutant in mutants:
            print_line(f"{mutant.name:<26}{mutant.what}")
        return
    if options.by:
        sys.exit(0 if matrix(mutants, files_of(options.by)) else 1)
    try:
        sys.exit(0 if judge(mutants, options.rounds, with_control=options.only is None) else 1)
    except OutOfDate as misfit:
        print_line(f"out of date: {misfit}")
        sys.exit(2)


if __name__ == "__main__":
    main()
