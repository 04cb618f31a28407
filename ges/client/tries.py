"""One search for a broker: whom to try, how long to pause, and what to say of it. Pure.

For example, a client that has lost its broker knows two others. It tries the first, is refused,
tries the second, waits in vain, pauses for 50 ms or so, and begins anew. The search calls
:meth:`Tries.begin_round`, tells what became of each try, and asks for the pause. Here is no clock
and no socket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from types import MappingProxyType

from ges.errors import ConnectionLost
from overlay.address import Address, shown
from overlay.errors import ConnectionFailed, ProtocolError
from overlay.wording import printable

ATTACH_SECONDS = 2.0  #: for one broker to take us
RETRY_SECONDS = 0.05  #: first pause after all brokers known have failed; doubles
RETRY_MAX_SECONDS = 1.0
TELL_SECONDS = 0.5  #: without a broker; then it is said for whom the client waits, and why

_NO_ANSWER = "no answer in time"

#: Where no URL is known that cannot be tried.
NOTHING: Mapping[str, str] = MappingProxyType({})


class Tries:
    """What has been tried in one search, and what each broker has answered."""

    def __init__(
        self,
        choices: Callable[[], Iterable[Address]],
        rng: Random,
        unusable: Mapping[str, str] = NOTHING,
        *,
        is_first: bool = False,
    ) -> None:
        """Begin a search.

        Args:
            choices: returns the brokers known, in the order to try them in.
            rng: draws the pauses, so that clients that search together do not call together.
            unusable: URLs that cannot be tried, and why not.
            is_first: no broker has taken us before. Then it is of no use to go on when each of them
                answers what another try would not change, such as a foreign certificate. Later it
                is: what stands in the broker's place may go.
        """
        self._choices = choices
        self._rng = rng
        self._unusable = unusable
        self._is_first = is_first
        self._answers: dict[str, str] = {}
        self._pause = RETRY_SECONDS
        self._may_change = True

    def begin_round(self) -> Iterator[Address]:
        """Yield the brokers to try, one after the other."""
        self._may_change = not self._is_first
        for address in self._choices():
            self._answers.setdefault(address.url, _NO_ANSWER)
            yield address

    def timed_out(self, address: Address) -> None:
        """It did not take us within :data:`ATTACH_SECONDS`."""
        self._note(address, _NO_ANSWER, is_final=False)

    def failed(self, address: Address, error: Exception, *, was_cut: bool = False) -> None:
        """It did not take us, for that reason; ``was_cut``: as the connection ended."""
        if isinstance(error, ConnectionFailed):
            self._note(address, error.reason, is_final=error.is_final)
        elif isinstance(error, ProtocolError):
            words = f"does not speak chordal ({printable(str(error))})"
            self._note(address, words, is_final=True)
        else:
            self._note(address, str(error) or "connection lost", is_final=not was_cut)

    def _note(self, address: Address, answer: str, *, is_final: bool) -> None:
        self._answers[address.url] = answer
        self._may_change = self._may_change or not is_final

    def pause(self) -> float | None:
        """Return the seconds until the next round; None: another would be of no use."""
        if not self._may_change:
            return None
        pause = self._pause * (0.5 + self._rng.random())
        self._pause = min(2 * self._pause, RETRY_MAX_SECONDS)
        return pause

    def waiting(self, timeout: float) -> str:
        """Return a line that says for whom the client waits, and for how many seconds at most."""
        so_far = {address.url: "not tried yet" for address in self._choices()} | self._answers
        brokers = ", ".join(
            f"{shown(url)} ({'no answer yet' if answer == _NO_ANSWER else answer})"
            for url, answer in so_far.items()
        )
        how_long = "until one answers" if timeout == math.inf else f"for {timeout:g} s"
        return f"waiting for a broker at {brokers}; trying {how_long}"

    def in_vain(self) -> ConnectionLost:
        """Return what to raise where nobody has taken us in time, or nobody will."""
        answers = self._answers | dict(self._unusable)
        told = "; ".join(f"{shown(url)}: {answer}" for url, answer in answers.items())
        return ConnectionLost(f"no broker to attach to: {told or 'none is known'}")
