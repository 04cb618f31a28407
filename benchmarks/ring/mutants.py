"""How strong the oracles are: broken protocols, and who notices (B37).

    python -m benchmarks.ring.mutants [--rounds N] [--only NAME,NAME,...]

Every mutant breaks one rule of the ring at run time (``mutations.py``). The oracles play their
stories with it (``oracles.py``), round by round, until one of them finds something. The protocol as
it is must pass all rounds. Exit code 1 if it does not, or if fewer than 95 % are caught.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

from benchmarks.ring import mutations
from benchmarks.ring.mutations import MUTANTS, Mutant, OutOfDate
from benchmarks.ring.oracles import ORACLES

ROUNDS = 3
BAR = 0.95


def catch(rounds: int, mutant: Mutant | None = None) -> tuple[str, int, str] | None:
    """Return (oracle, round, finding) of the first that notices, or None.

    Raises:
        OutOfDate: the mutant itself does not work with the protocol as it is now.
    """
    for number in range(1, rounds + 1):
        for oracle in ORACLES:
            try:
                findings = oracle(number)
            except AssertionError as broken:  # a ring that does not come to rest, for one
                findings = [_short(broken)]
            except Exception as broken:  # a machine that fails is a finding too
                frame = traceback.extract_tb(broken.__traceback__)[-1]
                ours = Path(frame.filename) == Path(mutations.__file__)
                if mutant is not None and (ours or _is_misfit(broken)):
                    raise OutOfDate(f"{mutant.name}: {_short(broken)}") from broken
                findings = [_short(broken)]
            if findings:
                return oracle.__name__, number, findings[0]
    return None


def _is_misfit(broken: Exception) -> bool:
    """Say whether a call does not fit the signature of what was put in its place."""
    return isinstance(broken, TypeError) and "argument" in str(broken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="seeds of each oracle")
    parser.add_argument("--only", help="names of mutants, with commas; implies no control")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    mutants = [m for m in MUTANTS if only is None or m.name in only]
    start = time.process_time()
    control = None if only else catch(options.rounds)
    if only is None:
        _print(f"control: {_told(control)}")
    caught, zave = 0, [m for m in mutants if m.zave]
    for mutant in mutants:
        with mutant.applied():
            found = catch(options.rounds, mutant)
        caught += found is not None
        _print(f"{mutant.name:<26}{_told(found)}")
    share = caught / len(mutants)
    met = share >= BAR and control is None and (only is not None or len(mutants) >= 20)
    _print(
        f"B37  mutants caught, {len(zave)} of them like Zave's  measured {caught} of "
        f"{len(mutants)} ({share:.1%}), control {'passes' if control is None else 'FAILS'}  "
        f"threshold {BAR:.0%} of at least 20  {'met' if met else 'NOT MET'}  "
        f"({time.process_time() - start:.0f} s of one core)"
    )
    sys.exit(0 if met else 1)


def _told(found: tuple[str, int, str] | None) -> str:
    if found is None:
        return "nothing found"
    oracle, number, finding = found
    return f"{oracle:<15} round {number}  {finding[:150]}"


def _short(broken: BaseException) -> str:
    return f"{type(broken).__name__}: {broken}".splitlines()[0]


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
