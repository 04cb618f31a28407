"""What the subscriptions of a broker's clients take, shared by source: memory, groups, names. Pure.

For example, all filters of a broker may take 96 MiB of memory. Thirty connections of one address
get no more than its share of them (:mod:`overlay.shares`), and other clients still subscribe.
"""

from __future__ import annotations

from collections import Counter

from ges.matching.filter_tree import filter_cost
from ges.profiles import profile
from ges.profiles.profiles_part import ProfilesPart
from ges.sessions.session import Session
from ges.wire.asked import Ask
from ges.wire.names import is_name_filter
from overlay.limits import Limits
from overlay.shares import Shares, Source

MAX_NAMES = 16_384  #: that all clients of one broker together may take


class SubscriptionShares:
    """Who has how much of what filters, queue groups and names of one broker take."""

    def __init__(self, profiles: ProfilesPart, limits: Limits, most_bytes: int) -> None:
        """``most_bytes``: that the filters of all may take, whatever the limits say."""
        self._profiles = profiles
        self._limits = limits
        self._most_bytes = most_bytes
        # How much there is of each is looked up when it is asked for.
        self._memory, self._groups, self._names = Shares(0), Shares(0), Shares(0)
        self._members: Counter[tuple[Source, Ask]] = Counter()  #: of queue groups

    def why_not(self, session: Session, ask: Ask) -> str | None:
        """Return why there is no room for a subscription, or None."""
        total = min(self._limits.subscription_bytes_total, self._most_bytes)
        self._memory.resize(total)
        cost, source = filter_cost(ask.filter), session.source
        reason = self._memory.why_not(source, cost, "bytes of memory for filters")
        if reason is None and is_name_filter(ask.filter):
            self._names.resize(MAX_NAMES)
            return self._names.why_not(source, 1, "names")
        if reason is not None or ask.group is None:
            return reason
        return self._why_no_member(source, ask)

    def take(self, session: Session, ask: Ask) -> None:
        """A client has got a subscription."""
        self._change(session, ask, 1)

    def free(self, session: Session, ask: Ask) -> None:
        """A client has a subscription no more."""
        self._change(session, ask, -1)

    def free_all(self, session: Session) -> None:
        """A client is about to have no subscription any more."""
        for ask in session.asks.values():
            self._change(session, ask, -1)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _why_no_member(self, source: Source, ask: Ask) -> str | None:
        full = self._profiles.why_full(ask)
        if full is not None or self._members[source, ask]:
            return full
        taken = self._profiles.grouped
        # A group in which several sources have members takes the room of one.
        self._groups.resize(profile.MAX_GROUPED, beside=taken - len(self._groups))
        is_new = not self._profiles.is_wanted(ask)
        return self._groups.why_not(source, 1, "queue groups", is_new=is_new)

    def _change(self, session: Session, ask: Ask, by: int) -> None:
        source, cost = session.source, by * filter_cost(ask.filter)
        session.filter_bytes += cost
        self._memory.take(source, cost)
        if is_name_filter(ask.filter):
            self._names.take(source, by)
        if ask.group is None:
            return
        key = source, ask
        before = self._members[key]
        self._members[key] += by
        if not self._members[key]:
            del self._members[key]
        if not before or key not in self._members:
            self._groups.take(source, by)
