"""One line a bar: what was measured, the threshold, and whether it is met."""

from __future__ import annotations

import sys


class Bars:
    """Prints bars as they are measured; remembers whether all are met."""

    def __init__(self) -> None:
        self._missed = 0

    def check(self, bar: str, what: str, measured: float, at_most: float) -> None:
        """Print a bar that is met by a figure of ``at_most`` or less."""
        words = f"{what}  measured {measured:g}  threshold {at_most:g}"
        self.judge(bar, words, met=measured <= at_most)

    def at_most(self, bar: str, what: str, measured: float, threshold: float) -> None:
        """Print the same in short, to two decimals."""
        words = f"{what}: {measured:.2f}, threshold <= {threshold}"
        self.judge(bar, words, met=measured <= threshold)

    def at_least(self, bar: str, what: str, measured: float, threshold: float) -> None:
        """Print, in short, a bar that is met by a figure of ``threshold`` or more."""
        words = f"{what}: {measured:.2f}, threshold >= {threshold}"
        self.judge(bar, words, met=measured >= threshold)

    def rate(self, bar: str, what: str, found: int, of: float, at_most: float) -> None:
        """Print a bar that is met by a share of ``at_most`` or less, at 95 % where none is found.

        That takes 3 / ``at_most`` to be drawn; with fewer, none is not judged.
        """
        if found or of >= 3 / at_most:
            self.check(bar, what, float(f"{found / of:.3g}"), at_most)
        else:
            self.not_judged(bar, f"{what}  measured 0 of {of:g}  threshold {at_most:g}")

    def not_judged(self, bar: str, words: str) -> None:
        """Print a bar for which too little was drawn; it is not met, either."""
        self._missed += 1
        print_line(f"{bar}  {words}  not judged: too little was drawn")

    def judge(self, bar: str, words: str, *, met: bool) -> None:
        """Print a bar; ``words`` say what was measured and what the threshold is."""
        self._missed += not met
        print_line(f"{bar}  {words}  {'met' if met else 'NOT MET'}")

    def note(self, words: str) -> None:
        """Print what is no bar."""
        print_line(f"     {words}")

    @property
    def exit_code(self) -> int:
        """0 if all bars so far are met, else 1."""
        return 1 if self._missed else 0


def print_line(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
