"""When a subscription is active: every member of the cluster sends what it asks for here.

For example, a client subscribes to ``a/b``, which makes version 7 of the profile. The subscription
is active when all members that are known have taken version 7 or are gone. One to ``a/+`` is not
active before that either, but when ``a/#`` has been in the profile since version 3, which all have
taken, it is active at once.

An event that is published before may come or not; none that is published after is missed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from ges.profiles.profile import Profile
from ges.wire.asked import Ask

K = TypeVar("K", bound=Hashable)


class Activity(Generic[K]):
    """Subscriptions of clients that are not active yet."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        #: With the count of the version that must be taken; None: that version is not made yet.
        self._waiting: dict[K, tuple[Ask, int | None]] = {}
        self._by_count: dict[int | None, dict[K, None]] = {}  #: ordered sets

    def __len__(self) -> int:
        """Return how many subscriptions are not active yet."""
        return len(self._waiting)

    def wait(self, key: K, ask: Ask) -> None:
        """A subscription begins; the profile has its ask already."""
        self.forget(key)
        count = self._profile.since(ask)
        self._waiting[key] = ask, count
        self._by_count.setdefault(count, {})[key] = None

    def forget(self, key: K) -> None:
        """A subscription ends."""
        if key in self._waiting:
            _, count = self._waiting.pop(key)
            keys = self._by_count[count]
            del keys[key]
            if not keys:
                del self._by_count[count]

    def restart(self) -> None:
        """The profile begins another life: its versions count anew."""
        for key, (ask, _) in [*self._waiting.items()]:
            self.wait(key, ask)

    def note_cut(self) -> None:
        """The profile has made a version of what has changed."""
        for key in [*self._by_count.get(None, ())]:
            self.wait(key, self._waiting[key][0])

    def advance(self, floor: int) -> list[K]:
        """All members have taken versions up to ``floor``; return what is active by that."""
        counts = sorted(at for at in self._by_count if at is not None and at <= floor)
        keys = [key for count in counts for key in self._by_count[count]]
        for key in keys:
            self.forget(key)
        return keys
