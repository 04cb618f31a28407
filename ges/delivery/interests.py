"""What the clients of this broker want, as the cluster is told of it.

A subscription is *active* when every broker of the overlay sends here what it asks for
(:mod:`ges.profiles.activity`, :mod:`ges.statements`). Until then it is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ges.delivery.subscriber import Subscriber
from ges.directory.directory_part import NamesDropped, NameTaken
from ges.profiles.profiles_part import Unwanted, Wanted
from ges.wire.asked import Ask
from ges.wire.client_messages import Level
from ges.wire.names import name_in
from overlay.machine import Input

#: A client, and the number of one of its subscriptions.
Key = tuple[Subscriber, int]


class Interests:
    """The subscriptions of all clients of one broker, as others are told of them."""

    def __init__(self, give: Callable[[Input], None]) -> None:
        """``give`` hands an input to the broker's machine, and has done what it says."""
        self._give = give
        self._pending: set[Key] = set()

    def want(self, client: Subscriber, number: int, ask: Ask) -> None:
        """A client has a subscription; the same number again replaces one that takes no name."""
        key = client, number
        self._pending.add(key)
        name = name_in(ask.filter)
        self._give(Wanted(key, ask) if name is None else NameTaken(key, name))

    def unwant(self, client: Subscriber, asks: Mapping[int, Ask]) -> None:
        """A client has these subscriptions no more."""
        named = {number for number, ask in asks.items() if name_in(ask.filter) is not None}
        for numbers, given in ((asks.keys() - named, Unwanted), (named, NamesDropped)):
            keys = tuple((client, number) for number in sorted(numbers))
            self._pending.difference_update(keys)
            if keys:
                self._give(given(keys))

    def is_pending(self, client: Subscriber, number: int) -> bool:
        """Say whether a subscription is not active yet."""
        return (client, number) in self._pending

    def activated(self, keys: Iterable[Key], level: Level) -> list[Key]:
        """These are active now, so far; return those that were pending."""
        found = [key for key in keys if key in self._pending]
        if level is Level.SYSTEM:
            self._pending.difference_update(found)
        return found
