"""The last things that happened in a run, and those of them that a broken promise is about.

Only so many are kept, however long the run is.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from overlay.ids import NANOS_PER_SECOND, Nanos, nanos, short
from overlay.machine import Fact
from ring.facts import (
    ChordLost,
    ChordRepaired,
    Confirmed,
    Departed,
    Detoured,
    DetourEnded,
    JoinDelayed,
    Joined,
    Left,
    LinkFailed,
    NeighboursChanged,
    Refuted,
    Reincarnated,
    Rejoining,
    Repaired,
    Suspected,
    Undecided,
)
from ring.wire.messages import Member
from sims.scenarios.deeds import Deed

KEPT = 20_000  #: steps of all brokers together
TOLD = 16  #: steps around a broken promise
AFTER_NS = nanos(5)  #: of an event that is lost, steps so long after its publication are told

_NAME = re.compile(r"\b[0-9a-f]{8}\b")
_TIME = re.compile(r"of (\d+\.\d+) s is lost")


@dataclass(frozen=True, slots=True)
class Step:
    """A broker said something, or something was done to brokers."""

    at: Nanos
    what: Fact | Deed
    whom: tuple[str, ...]  #: uids: who said it, or whom it befell

    def is_about(self, names: frozenset[str]) -> bool:
        """Say whether it was said by one of these brokers, about one, or done to one."""
        uids: Iterable[str] = self.whom
        if not isinstance(self.what, Deed):
            uids = (*uids, *_named(self.what))
        return any(short(uid) in names for uid in uids)

    def __str__(self) -> str:
        time = f"{self.at / NANOS_PER_SECOND:10.4f} s"
        if isinstance(self.what, Deed):
            return f"{time}  {self.what}: {_names(self.whom) or 'the network'}"
        return f"{time}  {short(self.whom[0])} {_words(self.what)}"


class Steps:
    """Keeps the last steps of a run."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque(maxlen=KEPT)

    def add(self, at: Nanos, what: Fact | Deed, *whom: str) -> None:
        """Note something that happens now."""
        self._steps.append(Step(at, what, whom))

    def around(self, sentence: str) -> list[str]:
        """Return the last steps that the brokers named in a sentence had a part in, in order.

        Of a sentence about a lost event, the last ones before it was lost. Where a sentence names
        no broker, the last ones of all.
        """
        names = frozenset(_NAME.findall(sentence))
        lost = _TIME.search(sentence)
        until = None if lost is None else nanos(float(lost[1])) + AFTER_NS
        found: list[str] = []
        for step in reversed(self._steps):
            if (until is None or step.at <= until) and (not names or step.is_about(names)):
                found.append(str(step))
                if len(found) == TOLD:
                    break
        return found[::-1]


def _named(fact: Fact) -> Iterator[str]:
    """Yield the uids of the brokers that a fact is about."""
    for field in fields(fact):  # type: ignore[arg-type]  # every fact is a dataclass
        value = getattr(fact, field.name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Member):
                yield each.uid
            elif isinstance(each, str):
                yield each


def _names(uids: Iterable[str]) -> str:
    return ", ".join(map(short, uids))


def _members(members: Iterable[Member]) -> str:
    return _names(member.uid for member in members) or "nobody"


def _words(fact: Fact) -> str:
    """Say in words what a broker says."""
    match fact:
        case Joined(member):
            return f"has its place, {member.ring_id}"
        case JoinDelayed(reason):
            return f"gets no place yet: {reason}"
        case NeighboursChanged(left, right):
            return f"has {_members(left)} to its left and {_members(right)} to its right"
        case Suspected(subject, reason):
            return f"suspects {short(subject.uid)}: {reason}"
        case Refuted(subject):
            return f"sees that {short(subject.uid)} lives"
        case LinkFailed(subject, witness):
            return f"lost the link to {short(subject.uid)}, which {short(witness)} reaches"
        case Confirmed(subject, witnesses):
            return f"holds {short(subject.uid)} for dead, as does {_names(witnesses) or 'nobody'}"
        case Repaired(subject):
            return f"is whole again after {short(subject.uid)}"
        case ChordLost(subject):
            return f"lost a chord to {short(subject)}"
        case ChordRepaired(subject):
            return f"has another chord for that to {short(subject)}"
        case Departed(member):
            return f"sees {short(member.uid)} leave"
        case Detoured(uid, path):
            return f"reaches {short(uid)} by {_names(path)}"
        case DetourEnded(uid):
            return f"needs no way round to {short(uid)} any more"
        case Undecided(subject):
            return f"does not reach {short(subject.uid)}"
        case Rejoining(_, reason):
            return f"begins anew: {reason}"
        case Reincarnated():
            return "goes on in a later life"
        case Left():
            return "has left"
        case _:
            return type(fact).__name__
