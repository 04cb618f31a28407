"""The rows of the table: what each measures, its bars, and how far a figure is from its bar."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from statistics import median

RATE = 1000  #: events a second where latency is measured
CPU_BAR_US = 80.0  #: of a broker, for each event at that rate
IDLE_BAR_PERCENT = 1.0  #: of a core
IDLE_BROKERS = 8


class Kind(Enum):
    """What a row measures."""

    SPEED = "events a second"
    LATENCY = "time under way"
    IDLE = "CPU with nothing to do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row. Bars are ratios; None: the ratio is printed and not judged."""

    title: str
    kind: Kind = Kind.SPEED
    size: int = 256  #: payload bytes
    secure: bool = False
    subscribers: int = 1
    brokers: int = 1
    of_relay: float | None = None  #: at least for speed, at most for latency
    of_nats: float | None = None  #: NATS is measured only where there is a bar
    cpu_us: float | None = None  #: of the broker for each event, at most


ROWS = {
    "256": Row(title="256 B", of_relay=0.7),
    "4k": Row(title="4 KiB", size=4096, of_relay=0.65, of_nats=1.3),
    "256-secure": Row(title="256 B secure", secure=True, of_relay=0.5, of_nats=1.3),
    "4k-secure": Row(title="4 KiB secure", size=4096, secure=True),
    "ten": Row(title="one to ten", subscribers=10, of_relay=0.65),
    "ten-secure": Row(title="one to ten, secure", secure=True, subscribers=10, of_nats=1.3),
    "ring": Row(title="ring of three", brokers=3),
    "latency": Row(title="latency", kind=Kind.LATENCY, of_relay=1.2, cpu_us=CPU_BAR_US),
    "latency-secure": Row(title="latency, secure", kind=Kind.LATENCY, secure=True, of_relay=1.3),
    "idle": Row(title=f"idle, ring of {IDLE_BROKERS}", kind=Kind.IDLE, brokers=IDLE_BROKERS),
}

#: Events of few bytes that a system of each name takes in a second, roughly: for the first flow.
_GUESSES = {"bare": 1_000_000, "broker": 250_000, "nats": 80_000}


def first_count(name: str, row: Row, seconds: float) -> int:
    """Return how many events to begin with, so that a flow takes about ``seconds``."""
    rate = _GUESSES[name] / (1 + row.size / 1024) / (2 if row.secure else 1)
    return max(100, int(rate * seconds / (row.subscribers * row.brokers)))


def ratios(ours: list[float], theirs: list[float]) -> float:
    """Return the median over the rounds of the ratio of two figures of one round."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def distance(measured: float, bar: float, *, at_least: bool) -> str:
    """Return by what factor a figure misses its bar, for people; nothing if it is met.

    >>> distance(0.35, 0.7, at_least=True)
    ', x2.00 to go'
    """
    if measured >= bar if at_least else measured <= bar:
        return ""
    factor = (bar / measured if at_least else measured / bar) if measured else float("inf")
    return f", x{factor:.2f} to go"
