"""Tells clients that their subscriptions are active.

Today every event goes to every broker, so a subscription is active as soon as its broker serves it.
When events go only where somebody asked for them, :mod:`ges.profiles.activity` says when that is,
with keys as they are given here.
"""

from __future__ import annotations

from collections.abc import Iterable

from ges.sessions.session import Session
from ges.wire.client_messages import Active

CLUSTER = 1  #: level of the unit that is all of the overlay, as long as there is one cluster

#: A client, and the number of one of its subscriptions.
Key = tuple[Session, int]


def tell_active(keys: Iterable[Key], level: int = CLUSTER) -> None:
    """Tell the clients; those that have ended a subscription meanwhile are told nothing of it."""
    for session, number in keys:
        if session.hears_active and number in session.filters and not session.is_detached:
            session.tell(Active(number, level))
