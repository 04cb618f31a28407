"""The table of bars: one broker between Python at both ends, beside the bare relay and NATS.

The systems of a row take turns, round after round; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.report import Bars, print_line
from benchmarks.speed.links.ends import Flow
from benchmarks.speed.links.measure import Result, System, measure
from benchmarks.speed.links.nats import Nats
from benchmarks.speed.links.processes import Failed
from benchmarks.speed.links.ringed import idle_shares
from benchmarks.speed.links.rows import (
    IDLE_BAR_PERCENT,
    IDLE_BROKERS,
    RATE,
    ROWS,
    Kind,
    Row,
    distance,
    first_count,
    ratios,
)

IDLE_SECONDS = 10.0
SPARE_SECONDS = 60.0  #: for processes to start and end


class Table:
    """Measures rows and prints each as it is done."""

    def __init__(
        self, bars: Bars, identities: Path, nats: Nats | str, *, seconds: int, rounds: int
    ) -> None:
        """``nats``: an installation, or why there is none."""
        self._bars = bars
        self._identities = identities
        self._nats = nats
        self._seconds = seconds
        self._rounds = rounds

    def run(self, names: Sequence[str]) -> None:
        """Measure the rows of these names. One that fails is told of and counts as missed."""
        print_line(f"medians of {self._rounds} rounds of {self._seconds} s; ratios within a round")
        for name in names:
            row = ROWS[name]
            try:
                if row.kind is Kind.IDLE:
                    self._idle(row)
                elif row.kind is Kind.LATENCY:
                    self._latency(row)
                else:
                    self._speed(row)
            except Failed as failed:
                self._bars.judge(row.title, f"not measured: {failed}", met=False)

    def _speed(self, row: Row) -> None:
        taken = self._measured(row)
        rates = {name: [result.per_second for result in taken[name]] for name in taken}
        shown = ", ".join(f"{name} {median(rates[name]):,.0f}/s" for name in rates)
        self._ratio(row.title, shown, "relay", ratios(rates["broker"], rates["bare"]), row.of_relay)
        if "nats" in rates:
            ratio = ratios(rates["broker"], rates["nats"])
            self._ratio(row.title, "", "NATS", ratio, row.of_nats)
        elif row.of_nats is not None:
            self._bars.note(f"{row.title}: NATS is left out: {self._nats}")
        for name, results in taken.items():
            self._bars.note(f"{row.title}: {_cpu(name, results)}")

    def _measured(self, row: Row) -> dict[str, list[Result]]:
        """Return the results of each system, one for each round that did not fail.

        Raises:
            Failed: every round did.
        """
        systems = self._systems(row)
        counts = {system: first_count(system.name, row, self._seconds) for system in systems}
        taken: dict[str, list[Result]] = {system.name: [] for system in systems}
        failures = []
        for _ in range(self._rounds):
            try:
                results = {
                    s: measure(s, _flow(row, counts[s], self._seconds), self._limit)
                    for s in systems
                }
            except Failed as failed:
                failures.append(failed)
                continue
            for system, result in results.items():
                taken[system.name].append(result)
                counts[system] = max(100, int(result.per_second * self._seconds))
        if len(failures) == self._rounds:
            raise failures[0]
        if failures:
            words = f"{len(failures)} of {self._rounds} rounds failed: {failures[0]}"
            self._bars.judge(row.title, words, met=False)
        return taken

    def _ratio(self, title: str, shown: str, of: str, ratio: float, bar: float | None) -> None:
        words = f"{shown}: {ratio:.2f} of the {of}" if shown else f"{ratio:.2f} of {of}"
        if bar is None:
            self._bars.note(f"{title}: {words}, no bar")
        else:
            far = distance(ratio, bar, at_least=True)
            self._bars.judge(title, f"{words}, threshold >= {bar}{far}", met=not far)

    def _latency(self, row: Row) -> None:
        taken = self._measured(row)
        for which in ("p50", "p99"):
            waits = {
                name: [result.p50_us if which == "p50" else result.p99_us for result in results]
                for name, results in taken.items()
            }
            ratio = ratios(waits["broker"], waits["bare"])
            lowest = min(waits["broker"]) / min(waits["bare"])
            shown = ", ".join(f"{name} {median(waits[name]):.0f} us" for name in waits)
            assert row.of_relay is not None
            far = distance(ratio, row.of_relay, at_least=False)
            words = f"{shown}: {ratio:.2f} of the relay (lowest to lowest {lowest:.2f})"
            words += f", threshold <= {row.of_relay}{far}"
            self._bars.judge(f"{row.title} {which}", words, met=not far)
        self._broker_cpu(row, taken)

    def _broker_cpu(self, row: Row, taken: dict[str, list[Result]]) -> None:
        spent = median(result.relay_us for result in taken["broker"])
        relay = median(result.relay_us for result in taken["bare"])
        words = f"{spent:.0f} us of the broker an event, {relay:.0f} us of the relay"
        words += f", ratio {spent / relay:.2f}"
        if row.cpu_us is None:
            self._bars.note(f"{row.title} CPU: {words}, no bar")
        else:
            far = distance(spent, row.cpu_us, at_least=False)
            words += f", threshold <= {row.cpu_us:g} us{far}"
            self._bars.judge(f"{row.title} CPU", words, met=not far)

    def _idle(self, row: Row) -> None:
        rounds = idle_shares(IDLE_BROKERS, IDLE_SECONDS, self._rounds)
        mean = median(100 * sum(shares) / len(shares) for shares in rounds)
        most = median(100 * max(shares) for shares in rounds)
        far = distance(most, IDLE_BAR_PERCENT, at_least=False)
        words = f"{mean:.2f} % of a core on average, the busiest {most:.2f} %"
        words += f", threshold for it <= {IDLE_BAR_PERCENT:g} %{far}"
        self._bars.judge(row.title, words, met=not far)

    def _systems(self, row: Row) -> list[System]:
        identities = self._identities if row.secure else None
        systems = [System("broker", identities, row.brokers), System("bare", identities)]
        if row.of_nats is not None and isinstance(self._nats, Nats):
            systems.append(System("nats", identities, nats=self._nats))
        return systems

    @property
    def _limit(self) -> float:
        return SPARE_SECONDS + 10 * self._seconds


def _flow(row: Row, events: int, seconds: int) -> Flow:
    if row.kind is Kind.LATENCY:
        return Flow(events=RATE * seconds, size=row.size, rate=RATE)
    return Flow(events=events, size=row.size, subscribers=row.subscribers)


def _cpu(name: str, results: list[Result]) -> str:
    """Return what each process takes for each event."""
    publisher = median(result.publisher_us for result in results)
    middle = median(result.relay_us for result in results)
    subscriber = median(result.subscriber_us for result in results)
    return (
        f"CPU us an event, {name}: publisher {publisher:.2f}, middle {middle:.2f}, "
        f"subscriber {subscriber:.2f}"
    )
