"""One line a bar: what was measured, the threshold, and whether it is met."""

from __future__ import annotations

import sys


class Bars:
    """Prints bars as they are measured; remembers whether all are met."""

    def __init__(self) -> None:
        self._missed = 0

    def check(self, bar: str, what: str, measured: float, at_most: float) -> None:
        """Print a bar that is met by a figure of ``at_most`` or less."""
        met = measured <= at_most
        self._missed += not met
        verdict = "met" if met else "NOT MET"
        _print(f"{bar}  {what}  measured {measured:g}  threshold {at_most:g}  {verdict}")

    def note(self, words: str) -> None:
        """Print what is no bar."""
        _print(f"     {words}")

    @property
    def exit_code(self) -> int:
        """0 if all bars so far are met, else 1."""
        return 1 if self._missed else 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
