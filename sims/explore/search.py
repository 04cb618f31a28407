"""The search through all states: one for rings and for units, which say what their steps are.

States are tried in depth. Where the order of sending may be changed by D delays alone, those with
fewest delays spent come first, so that no state is met again with more to go.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from sims.errors import NoSuchScope
from sims.explore.report import Report, Trail

Here = TypeVar("Here", bound=Hashable)  #: a state
Move = TypeVar("Move")  #: a step from it


class Search(ABC, Generic[Here, Move]):
    """Goes through the states that steps lead to, from :attr:`_start` on, and fills a report.

    ``_delays``: so many times a channel may be put off behind all others; below 0: all orders.
    """

    _start: Here
    _report: Report
    _delays: int

    def search(self, limit: int = 1_000_000) -> Report:
        """Go through all states within the bound, at most ``limit`` of them."""
        with no_cycles_looked_for():
            return self._search(limit)

    def replay(self, chosen: Sequence[int]) -> Report:
        """Take the given choices and no others; the report tells the story."""
        here, spent, trail = self._start, 0, Trail(None, -1)
        findings: Sequence[str] = ()
        for choice in chosen:
            steps = self._steps(here, spent)
            if not 0 <= choice < len(steps):
                raise NoSuchScope(f"step {trail.depth + 1} has {len(steps)} choices")
            here, findings = self._take(here, steps[choice])
            spent += self._delay(steps[choice])
            trail = Trail(trail, choice)
            if findings:
                break
        if not findings and self._is_rest(here):
            findings = self._rest(here)
        return self._broken(findings, trail)

    def _search(self, limit: int) -> Report:
        report = self._report
        seen = {self._key(self._start)}
        waiting: list[list[tuple[Here, Trail]]] = [[(self._start, Trail(None, -1))]]
        waiting += [[] for _ in range(max(0, self._delays))]
        for spent, bucket in enumerate(waiting):
            while bucket:
                here, trail = bucket.pop()
                if self._is_new(here):
                    report.states += 1
                else:
                    report.again += 1
                report.depth = max(report.depth, trail.depth)
                if self._is_rest(here):
                    report.rests += 1
                    if findings := self._rest(here):
                        return self._broken(findings, trail)
                leads = []
                for choice, step in self._chosen(here, trail, spent):
                    there, findings = self._take(here, step)
                    report.steps += 1
                    if findings:
                        return self._broken(findings, Trail(trail, choice))
                    leads.append(there)
                    if (key := self._key(there)) in seen:
                        report.seen_before += 1
                    else:
                        seen.add(key)
                        waiting[spent + self._delay(step)].append((there, Trail(trail, choice)))
                self._led(here, leads)
                if report.states >= limit:
                    report.complete = False
                    return report
                if not bucket:
                    bucket += self._doubtful()
        return report

    def _broken(self, findings: Sequence[str], trail: Trail) -> Report:
        report = self._report
        report.complete = False
        report.findings, report.choices = tuple(findings), trail.choices()
        here, spent, story = self._start, 0, []
        for choice in report.choices:
            step = self._steps(here, spent)[choice]
            story.append(self._in_words(here, step))
            here, _ = self._take(here, step)
            spent += self._delay(step)
        report.story = tuple(story)
        return report

    # ── what is searched ──────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _steps(self, here: Here, spent: int) -> list[Move]:
        """Return all that may happen next, where so many delays are spent."""

    @abstractmethod
    def _take(self, here: Here, step: Move) -> tuple[Here, Sequence[str]]:
        """Return the state after a step, and what is wrong with it."""

    @abstractmethod
    def _delay(self, step: Move) -> bool:
        """Say whether a step only puts a channel off."""

    @abstractmethod
    def _is_rest(self, here: Here) -> bool:
        """Say whether nothing is left to happen, so that all must be in order."""

    @abstractmethod
    def _rest(self, here: Here) -> Sequence[str]:
        """Return what is not in order there."""

    @abstractmethod
    def _in_words(self, here: Here, step: Move) -> str:
        """Tell a step in a story."""

    # ── what a search may leave out ───────────────────────────────────────────────────────────

    def _key(self, here: Here) -> Hashable:
        """Return what stands for a state among those that were seen."""
        return here

    def _is_new(self, here: Here) -> bool:
        """Say whether a state is gone on from for the first time; it counts once."""
        return True

    def _chosen(self, here: Here, trail: Trail, spent: int) -> list[tuple[int, Move]]:
        """Return those steps that have to be tried, with their numbers among all."""
        return list(enumerate(self._steps(here, spent)))

    def _led(self, here: Here, leads: Sequence[Here]) -> None:
        """Take note of the states that the tried steps have led to."""

    def _doubtful(self) -> list[tuple[Here, Trail]]:
        """Return those states that have to be gone on from anew, with what is known now."""
        return []


@contextmanager
def no_cycles_looked_for() -> Iterator[None]:
    """Do not look for cycles of garbage: among millions of objects that stay, it takes long."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
