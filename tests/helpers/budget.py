"""What each test computes: the dearest are told, and too dear a test fails the run.

Processor time counts, of the test and of all processes below it, whatever else the machine does.
What fixtures prepare for several tests is of none of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic  # tests put others in its place

import msgspec
import pytest

from tests.helpers import formed

TOLD_S, TOO_MUCH_S = 3.0, 6.0
#: A test with real processes, or a JVM of its own, cannot take less.
PROCESSES_S = 9.0
#: The same test computes so many times as long on a machine whose cores are all busy.
BUSY = 1.5
_KEPT = "chordal/seconds"  #: in pytest's cache: how long each test has lasted
_TICKS = os.sysconf("SC_CLK_TCK")


def processor_s() -> float:
    """Return what this process and all that it has started have computed."""
    own = os.times()
    used = own.user + own.system + own.children_user + own.children_system
    below, parents = {os.getpid()}, _running()
    while found := {pid for pid, (parent, _) in parents.items() if parent in below} - below:
        below |= found
    return used + sum(parents[pid][1] for pid in below - {os.getpid()})


def _running() -> dict[int, tuple[int, float]]:
    """Return who runs, with its parent and what it and those that it has waited for computed."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)
    return found


class Budget:
    """A plugin of pytest: measures tests where they run, and judges where the run is led from."""

    def __init__(self, config: pytest.Config) -> None:
        """Read how long tests have lasted in the runs before."""
        self._config = config
        self._shared_s = 0.0
        self._used: dict[str, tuple[float, float]] = {}
        self._dear: set[str] = set()
        self._is_judged = config.option.markexpr == "not soak"
        self._cache: pytest.Cache | None = getattr(config, "cache", None)
        self.lasted: dict[str, float] = self._cache.get(_KEPT, {}) if self._cache else {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note where a test begins."""
        self._starts = item.get_closest_marker("live") or item.get_closest_marker("spark")
        self._shared_s, self._before_s, self._began = 0.0, self._now(), monotonic()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Take off what is made for several tests."""
        is_shared = fixturedef.scope != "function" or fixturedef.func.__module__ == formed.__name__
        before = self._now() if is_shared else 0.0
        try:
            return (yield)
        finally:
            if is_shared:
                self._shared_s += self._now() - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        """Send what a test has computed with the report of its call."""
        if call.when == "call":
            used = self._now() - self._before_s - self._shared_s
            item.user_properties.append(("took", (used, monotonic() - self._began)))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what has come with a report."""
        for name, took in report.user_properties:
            if name != "took":
                continue
            used, lasted = msgspec.convert(took, tuple[float, float])
            self._used[report.nodeid] = used, lasted
            with_processes = {"live", "spark"} & report.keywords.keys()
            if used > BUSY * (PROCESSES_S if with_processes else TOO_MUCH_S):
                self._dear.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep how long tests have lasted; fail a run with too dear a test."""
        if hasattr(self._config, "workerinput"):
            return
        if self._cache:
            self.lasted |= {name: round(wall, 2) for name, (_, wall) in self._used.items()}
            self._cache.set(_KEPT, self.lasted)
        if self._is_judged and self._dear and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List those above the budget."""
        total = sum(used for used, _ in self._used.values())
        terminalreporter.write_line(f"{total:.0f} s of processors for {len(self._used)} tests")
        if not self._is_judged:
            return
        for used, name in sorted(((u, n) for n, (u, _) in self._used.items()), reverse=True):
            if used > TOLD_S:
                verdict = "too much, it fails the run" if name in self._dear else "much"
                terminalreporter.write_line(f"{used:6.1f} s are {verdict}: {name}")

    def _now(self) -> float:
        return processor_s() if self._starts else sum(os.times()[:4])
