"""The filters of all clients of a broker: judged, bounded in number and memory, served."""

from __future__ import annotations

import sys

from ges.errors import TopicError
from ges.matching.asks import served
from ges.matching.filter_tree import filter_cost
from ges.sessions.active_notices import ActiveNotices
from ges.sessions.session import Session
from ges.sessions.subscription_shares import SubscriptionShares
from ges.stack import Stack
from ges.wire.asked import Ask
from ges.wire.client_messages import Subscribe, SubscriptionRefused
from ges.wire.names import ROOT, is_name_filter, name_in
from ges.wire.replies import is_reply_address, why_not_to_be_read
from ges.wire.topics import check_filter
from overlay.errors import ConfigError
from overlay.limits import Limits
from overlay.links.counted_log import CountedLog

MAX_NAMES_OF_ONE = 16  #: that one client may take


class Subscriptions:
    """Which filters clients have, and whether they may."""

    def __init__(
        self,
        stack: Stack,
        limits: Limits,
        counted_log: CountedLog,
        *,
        most_bytes: int = sys.maxsize,
    ) -> None:
        """``most_bytes``: that the filters of all may take, whatever the limits say."""
        self._stack = stack
        self._shares = SubscriptionShares(stack.node.profiles, limits, most_bytes)
        self._deliveries = stack.deliveries
        self._notices = ActiveNotices()
        stack.on_active = self._notices.on_active
        stack.watch(self._notices)
        self._limits = limits
        self._counted_log = counted_log

    def subscribe(self, session: Session, request: Subscribe) -> None:
        """Serve what a client asks for, or tell it why not."""
        session.changes += 1
        number = request.number
        try:
            check_filter(request.ask.filter)
            ask = served(request.ask, secure=session.secure)
        except (TopicError, ConfigError) as error:
            session.tell(SubscriptionRefused(number, str(error)[:500]))
            return
        is_name = is_name_filter(ask.filter)
        reason = why_not_to_be_read(ask.filter, session.uid)
        if reason is None and is_name:
            reason = _why_no_name(session, number, ask)
        permissions = session.admission.permissions
        if reason is None and permissions is not None and not is_name:
            decision = permissions.subscribe(ask.filter)
            if not decision.allowed:
                self._deny(session, number, decision.reason)
                return
        if reason is None:
            self._end(session, number)  # the same number again replaces it
            reason = _why_no_member(ask) or self._no_room(session, ask)
        if reason is not None:
            session.tell(SubscriptionRefused(number, reason[:500]))
            return
        self._notices.begin(session, number, self._stack.now())
        self._deliveries.subscribe(session, number, ask)
        self._shares.take(session, ask)

    def unsubscribe(self, session: Session, number: int) -> None:
        """Serve a filter no longer, if there is one of that number."""
        session.changes += 1
        self._end(session, number)

    def judge_anew(self, session: Session) -> None:
        """The rights of the client have changed: end what it may not have any more."""
        permissions = session.admission.permissions
        for number, ask in [*session.asks.items()]:
            if (name := name_in(ask.filter)) is not None:
                reason = _why_not_its(session, name)
            else:
                decision = permissions.subscribe(ask.filter) if permissions is not None else None
                reason = decision.reason if decision is not None and not decision.allowed else None
            if reason is not None:
                self._end(session, number)
                self._deny(session, number, reason)

    def forget(self, session: Session) -> None:
        """The client is gone."""
        self._shares.free_all(session)
        self._notices.forget(session)
        self._deliveries.forget(session)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _end(self, session: Session, number: int) -> None:
        ask = session.asks.get(number)
        if ask is not None:
            self._shares.free(session, ask)
            self._notices.end(session, number)
            self._deliveries.unsubscribe(session, number)

    def _deny(self, session: Session, number: int, reason: str) -> None:
        self._counted_log.note("subscriptions_denied", "subscription denied", **session.who)
        session.tell(SubscriptionRefused(number, reason[:500]))

    def _no_room(self, session: Session, ask: Ask) -> str | None:
        """Return why there is no room for a subscription, or None; that is counted and logged."""
        limits, cost = self._limits, filter_cost(ask.filter)
        if session.subscriptions >= limits.subscriptions:
            reason = f"a client may have {limits.subscriptions} subscriptions; unsubscribe some"
        elif session.filter_bytes + cost > limits.subscription_bytes:
            reason = "this client's filters take too much memory; unsubscribe some, or shorten them"
        elif (full := self._shares.why_not(session, ask)) is not None:
            reason = f"{full}; unsubscribe some, or attach to another broker"
        else:
            return None
        of = session.source.name
        self._counted_log.note("subscriptions_refused", "no room for a subscription", of=of)
        return reason


def _why_no_member(ask: Ask) -> str | None:
    """Return why a subscription cannot be in the queue group that it asks for, or None."""
    if ask.group is None:
        return None
    if is_reply_address(ask.filter):
        return "replies go to the client that has asked, and to no queue group"
    if not ask.group.isprintable():
        return f"queue {ask.group!r} has characters in it that do not show"
    return None


def _why_no_name(session: Session, number: int, ask: Ask) -> str | None:
    """Return why a client may not take a name, or None."""
    name = name_in(ask.filter)
    if name is None:
        return f"what is below {ROOT} is one name of a client, of letters, digits and ._:@-"
    if ask.group is not None:
        return "events for a name go to all clients of that name, and to no queue group"
    others = (each for at, each in session.asks.items() if at != number)
    if sum(name_in(each.filter) is not None for each in others) >= MAX_NAMES_OF_ONE:
        return f"a client may have {MAX_NAMES_OF_ONE} names"
    return _why_not_its(session, name)


def _why_not_its(session: Session, name: str) -> str | None:
    """Return why a name is not that of a client, where there are rules; or None."""
    proven = session.admission.principal.token, session.uid
    if session.admission.permissions is None or name in proven:
        return None
    return (
        f"the name {name!r} is not proven: where there are rules, a client may take the name of "
        "its token, or its uid"
    )
