"""What the clients of this broker want, as the cluster is told of it.

A subscription is *active* when every broker of the overlay sends here what it asks for
(:mod:`ges.profiles.activity`, :mod:`ges.statements`). Until then it is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ges.directory.directory_part import NamesDropped, NameTaken
from ges.profiles.interest import interest_in
from ges.profiles.profiles_part import Unwanted, Wanted
from ges.routing.subscriber import Subscriber
from ges.wire.client_messages import Level
from ges.wire.realms import Realm
from overlay.ids import LinkClass
from overlay.machine import Input

#: A client, and the number of one of its subscriptions.
Key = tuple[Subscriber, int]


class Interests:
    """The subscriptions of all clients of one broker, as others are told of them."""

    def __init__(self, give: Callable[[Input], None]) -> None:
        """``give`` hands an input to the broker's machine, and has done what it says."""
        self._give = give
        self._pending: set[Key] = set()

    def want(
        self,
        client: Subscriber,
        number: int,
        text: str,
        only: LinkClass | None,
        group: str | None = None,
        realm: int = Realm.ALL,
    ) -> None:
        """A client has a subscription with a checked filter; the same number again replaces it.

        ``group``: name of the queue group that it is in. ``realm``: it is for events published in
        the same unit of that level.
        """
        key = client, number
        if only is LinkClass.SECURE and not client.secure:
            self.unwant(client, (number,))  # no such event goes over this hop
            return
        self._pending.add(key)
        interest = interest_in(text, only, group, secure=client.secure, realm=realm)
        self._give(Wanted(key, interest))

    def want_name(self, client: Subscriber, number: int, name: str) -> None:
        """A client has taken a name by a subscription."""
        key = client, number
        self._pending.add(key)
        self._give(NameTaken(key, name))

    def unwant_names(self, client: Subscriber, numbers: Iterable[int]) -> None:
        """A client has these names no more."""
        keys = tuple((client, number) for number in numbers)
        self._pending.difference_update(keys)
        if keys:
            self._give(NamesDropped(keys))

    def unwant(self, client: Subscriber, numbers: Iterable[int]) -> None:
        """A client has these subscriptions no more."""
        keys = tuple((client, number) for number in numbers)
        self._pending.difference_update(keys)
        if keys:
            self._give(Unwanted(keys))

    def is_pending(self, client: Subscriber, number: int) -> bool:
        """Say whether a subscription is not active yet."""
        return (client, number) in self._pending

    def activated(self, keys: Iterable[Key], level: Level) -> list[Key]:
        """These are active now, so far; return those that were pending."""
        found = [key for key in keys if key in self._pending]
        if level is Level.SYSTEM:
            self._pending.difference_update(found)
        return found
