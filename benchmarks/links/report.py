"""One line a bar: what was measured, the threshold, and whether it is met."""

from __future__ import annotations

import sys


class Bars:
    """Prints bars as they are measured; remembers whether all are met."""

    def __init__(self) -> None:
        self._missed = 0

    def at_least(self, bar: str, what: str, measured: float, threshold: float) -> None:
        """Print a bar that is met by a figure of ``threshold`` or more."""
        self._print(bar, what, measured, ">=", threshold, met=measured >= threshold)

    def at_most(self, bar: str, what: str, measured: float, threshold: float) -> None:
        """Print a bar that is met by a figure of ``threshold`` or less."""
        self._print(bar, what, measured, "<=", threshold, met=measured <= threshold)

    @property
    def exit_code(self) -> int:
        """0 if all bars so far are met, else 1."""
        return 1 if self._missed else 0

    def _print(
        self, bar: str, what: str, measured: float, sign: str, threshold: float, *, met: bool
    ) -> None:
        self._missed += not met
        verdict = "met" if met else "NOT MET"
        print_line(f"{bar}  {what}: {measured:.2f}, threshold {sign} {threshold}  {verdict}")


def print_line(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
