"""What a source has found out of late: which brokers have clients of the names it was given.

An answer is good for 30 s, or for one second while no way leads to a broker in it. A name of which
nothing is known is asked for four times, every half second; if nobody answers, it is taken for
unknown. An answer that there is no such client holds for a second: it may be about to attach.
Bounded; times are handed in. Pure.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ges.wire.directory_messages import Holder
from overlay.ids import Nanos, nanos

GOOD_NS = nanos(30.0)  #: an answer is asked for again after this ...
NOBODY_NS = nanos(1.0)  #: ... and one that there is nobody after this
AGAIN_NS = nanos(0.5)
TRIES = 4
MAX_KNOWN = 16_384  #: names; then those go that were found first
MAX_QUESTIONS = 1024  #: open at once; further names are asked for when some are answered


@dataclass(frozen=True, slots=True)
class _Answer:
    holders: tuple[Holder, ...]
    at: Nanos
    until: Nanos


@dataclass(slots=True)
class _Question:
    again_at: Nanos
    tries: int = 1


class Lookups:
    """The answers that one broker has, and its open questions."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._questions: dict[str, _Question] = {}

    def get(
        self, name: str, now: Nanos, is_there: Callable[[Holder], bool] = lambda holder: True
    ) -> tuple[Holder, ...] | None:
        """Return who has clients of a name; None: that is not known, or to be asked for again."""
        answer = self._answers.get(name)
        if answer is None or answer.until <= now:
            return None
        if answer.at + NOBODY_NS <= now and not all(map(is_there, answer.holders)):
            return None
        return answer.holders

    def ask(self, names: Iterable[str], now: Nanos) -> list[str]:
        """Return which of some names, which are not known, are to be asked for now."""
        fresh = [name for name in dict.fromkeys(names) if name not in self._questions]
        del fresh[max(0, MAX_QUESTIONS - len(self._questions)) :]
        for name in fresh:
            self._questions[name] = _Question(now + AGAIN_NS)
        return fresh

    def found(self, name: str, holders: tuple[Holder, ...], now: Nanos) -> None:
        """An answer has come."""
        self._questions.pop(name, None)
        self._answers.pop(name, None)
        self._answers[name] = _Answer(holders, now, now + (GOOD_NS if holders else NOBODY_NS))
        if len(self._answers) > MAX_KNOWN:
            self._answers.popitem(last=False)

    def wrong(self, name: str, uid: str, now: Nanos) -> bool:
        """A broker has no clients of a name; says whether it is to be asked for again.

        If that broker was not thought to have some, it speaks of one that has another address now:
        then an answer of less than a second ago may be newer than that.
        """
        answer = self._answers.get(name)
        if answer is None:
            return False
        is_of_it = any(holder.uid == uid for holder in answer.holders)
        if not is_of_it and now < answer.at + NOBODY_NS:
            return False
        del self._answers[name]
        return True

    def due(self, now: Nanos) -> tuple[list[str], bool]:
        """Return which names are to be asked for again, and whether some were given up."""
        again: list[str] = []
        is_given_up = False
        for name, question in [*self._questions.items()]:
            if question.again_at > now:
                continue
            if question.tries == TRIES:
                self.found(name, (), now)
                is_given_up = True
            else:
                question.tries += 1
                question.again_at = now + AGAIN_NS
                again.append(name)
        return again, is_given_up

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`due` has something to say."""
        return min((each.again_at for each in self._questions.values()), default=None)
