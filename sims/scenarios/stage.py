"""The brokers of a scenario, and what can be done to them: the face of both stages.

:mod:`sims.scenarios.ring_stage` is the ring alone, :mod:`sims.scenarios.whole_stage` whole brokers.
A fault or a churn model is written once, for both. Times are virtual nanoseconds since the
beginning of the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sims.verdicts.ledger import Ledger
from sims.world.cuts import Cut
from sims.world.timeline import Timeline
from sims.world.world import CrashMode


class Sent(NamedTuple):
    """What one broker has sent, in all its lives."""

    messages: int = 0  #: of control, to brokers
    bytes: int = 0
    forwarded: int = 0  #: events, to brokers
    delivered: int = 0  #: events, to clients

    def __sub__(self, other: Sent) -> Sent:
        """Return what was sent since."""
        return Sent(*(now - then for now, then in zip(self, other, strict=True)))


class Stage(Protocol):
    """What is done to brokers, and what is seen of them."""

    timeline: Timeline
    ledger: Ledger  #: pointers of all that live, and every incident
    carries_events: bool

    def count_traffic(self) -> None:
        """Count from now on what brokers send; before that it may be left out, to save time."""

    def sent(self) -> dict[str, Sent]:
        """Return what each broker has sent, by uid, those that are dead among them."""

    @property
    def alive(self) -> list[str]:
        """Uids of the processes that run, in the order in which they came."""

    def is_alive(self, uid: str) -> bool:
        """Say whether a broker's process runs."""

    @property
    def in_order(self) -> list[str]:
        """Uids of the members that live, going right on the ring."""

    def links(self) -> list[tuple[str, str]]:
        """Return the pairs of brokers that are linked, each once, in a fixed order."""

    def link_counts(self) -> dict[str, int]:
        """Return of each broker that lives how many that live it is linked to."""

    def begin(self, nodes: int) -> None:
        """Let there be a ring of so many brokers, without joins."""

    def start(self, contacts: Sequence[str]) -> str:
        """Start a broker that joins through ``contacts``, or founds a ring; returns its uid."""

    def restart(self, uid: str, contacts: Sequence[str]) -> None:
        """Start a broker again that has died or left: the same uid, its next incarnation."""

    def put(self, uid: str, key: str, body: bytes) -> None:
        """Let a broker own a record."""

    def kept(self, uid: str) -> frozenset[str]:
        """Return the keys of the records of which a broker has the bytes, its own among them."""

    def crash(self, uid: str, mode: CrashMode) -> None:
        """Let a broker die now, without a word of its own."""

    def leave(self, uid: str) -> None:
        """Ask a broker to leave in good order."""

    def pause(self, uid: str, seconds: float) -> None:
        """Let a broker stand still for so long."""

    def skew(self, uid: str, rate: float) -> None:
        """Let the clock of a broker count so many seconds in one, until it is started again."""

    def cut(self, uid: str, other: str, mode: Cut, *, one_way: bool) -> None:
        """Let nothing pass between two brokers until :meth:`mend`."""

    def mend(self, uid: str, other: str) -> None:
        """End what :meth:`cut` began."""

    def part(self, groups: Sequence[Sequence[str]]) -> None:
        """Let nothing pass between the groups until :meth:`heal`."""

    def heal(self) -> None:
        """End what :meth:`part` began."""
