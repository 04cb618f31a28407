"""What one MQTT client has subscribed to, and how it wants it. Pure.

Each filter is a subscription of its own at the broker, under a number. A SUBSCRIBE packet is
answered when the broker has decided on all filters in it: then they are active.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ges.mqtt.packets import SubscribePacket, Wish
from ges.mqtt.reasons import SUBSCRIPTION_FAILED, Reason

MAX_UNANSWERED = 64  #: packets


@dataclass(slots=True)
class Served:
    """One subscription."""

    wish: Wish
    identifier: int
    is_decided: bool = False


@dataclass(slots=True)
class _Answer:
    """What is to be said to one SUBSCRIBE packet."""

    packet_id: int
    codes: list[int]
    missing: set[int] = field(default_factory=set)  #: numbers of those that are not decided
    why: str = ""


class Wishes:
    """All subscriptions of one client."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  #: by filter
        self._served: dict[int, Served] = {}
        self._last = 0
        self._answers: list[_Answer] = []
        self._places: dict[int, list[tuple[_Answer, int]]] = {}  #: where a decision goes

    @property
    def is_crowded(self) -> bool:
        """Too many packets wait for their answers."""
        return len(self._answers) >= MAX_UNANSWERED

    def begin(self, packet: SubscribePacket) -> _Answer:
        """Return what the packet will be answered, when all is decided."""
        answer = _Answer(packet.packet_id, [0] * len(packet.wishes))
        self._answers.append(answer)
        return answer

    def refuse(self, answer: _Answer, at: int, code: int, why: str) -> None:
        """One filter of a packet is not served."""
        answer.codes[at] = code
        answer.why = answer.why or why

    def want(self, answer: _Answer, at: int, wish: Wish, identifier: int) -> tuple[int, bool]:
        """One filter is asked for; returns its number, and whether it is new."""
        number = self._numbers.get(wish.filter)
        is_new = number is None
        if number is None:
            self._last += 1
            number = self._numbers[wish.filter] = self._last
        self._served[number] = Served(wish, identifier)
        answer.codes[at] = min(wish.qos, 1)
        answer.missing.add(number)
        self._places.setdefault(number, []).append((answer, at))
        return number, is_new

    def decided(self, number: int, reason: str | None, code: int = Reason.UNSPECIFIED) -> None:
        """The broker serves one, or does not, and why."""
        for answer, at in self._places.pop(number, ()):
            answer.missing.discard(number)
            if reason is not None:
                self.refuse(answer, at, code, reason)
        served = self._served.get(number)
        if served is None:
            return
        served.is_decided = True
        if reason is not None:
            self._forget(number)

    def drop(self, text: str) -> int | None:
        """A filter is wanted no more; returns the number it had."""
        number = self._numbers.get(text)
        if number is not None:
            self.decided(number, None)
            self._forget(number)
        return number

    def answers(self) -> list[_Answer]:
        """Return, once, the answers that are complete, in the order of the questions."""
        ready: list[_Answer] = []
        while self._answers and not self._answers[0].missing:
            ready.append(self._answers.pop(0))
        return ready

    def of(self, numbers: tuple[int, ...]) -> list[Served]:
        """Return the subscriptions of these numbers that are still there."""
        return [self._served[number] for number in numbers if number in self._served]

    def _forget(self, number: int) -> None:
        served = self._served.pop(number, None)
        if served is not None:
            self._numbers.pop(served.wish.filter, None)


def code_of(reason: str, *, is_denied: bool) -> int:
    """Return the reason code of a refused subscription."""
    if is_denied:
        return Reason.NOT_AUTHORIZED
    if reason.startswith("filter ") or reason.startswith("the filter "):
        return Reason.TOPIC_FILTER
    return Reason.QUOTA


__all__ = ["SUBSCRIPTION_FAILED", "Served", "Wishes", "code_of"]
