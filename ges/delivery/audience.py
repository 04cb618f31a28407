"""Who wants the events of a topic, and by which subscriptions.

Matching finds a holding once, however many subscriptions share it. The clients that want a topic
are remembered, and mended when a filter changes that matches the topic: only the row of the client
whose filter it is is made anew. So neither the number of filters that others have nor how often
they change them costs the events of a topic much.

A client that has gone is not sought in all that is remembered: its rows lead nowhere from then on,
and are left out when the topic is mended.
"""

from __future__ import annotations

from functools import partial

from ges.delivery.holdings import (
    Change,
    Holding,
    Recipient,
    Row,
    Targets,
    from_afar,
    mended,
    merged,
    weigh,
)
from ges.delivery.subscriber import Subscriber
from ges.matching.changes import Changes
from ges.matching.engine import Engine
from ges.matching.topic_cache import TopicCache
from ges.matching.topic_filters import TopicFilters
from ges.wire.asked import Ask
from ges.wire.matter import Matter
from ges.wire.realms import Realm
from overlay.ids import LinkClass

MAX_CACHE_BYTES = 32 * 1024 * 1024  #: for the events of each class
MAX_OLD_BYTES = 16 * 1024 * 1024  #: of rows that have been replaced, and may still be remembered


class Audience:
    """All subscriptions of the clients here."""

    def __init__(self) -> None:
        self.size = 0  #: how many subscriptions there are
        self._kept_near = 0  #: of these: how many are for events of some units alone
        self._old_bytes = 0  #: of rows that have been replaced since the caches were dropped
        self._recipients: dict[Subscriber, Recipient] = {}
        self._engine: Engine[Holding] = TopicFilters()
        self._changes: Changes[Change] = Changes()
        self._caches: dict[LinkClass, TopicCache[Targets, Change]] = {
            each: TopicCache(
                self._changes,
                partial(self._match, each),
                partial(self._mend, each),
                weigh,
                nothing=(),
                limit_bytes=MAX_CACHE_BYTES,
            )
            for each in LinkClass
        }

    @property
    def has_realms(self) -> bool:
        """Some subscription is for events of some units alone."""
        return self._kept_near > 0

    def add(self, client: Subscriber, number: int, ask: Ask) -> None:
        """Let a subscription that is not in use ask for something."""
        recipient = self._recipient(client)
        if ask.realm < Realm.ALL:
            recipient.near += 1
            self._kept_near += 1
        holding = recipient.holdings.get(ask)
        if holding is None:
            holding = recipient.holdings[ask] = Holding(recipient, ask)
            self._engine.add(ask.filter, holding)
        holding.add(number)
        self._drop_row(holding)
        self.size += 1
        self._changes.note(ask.filter, Change(holding, number, is_new=True))

    def remove(self, client: Subscriber, number: int, ask: Ask) -> None:
        """Let a subscription ask for nothing; it has been added with just this."""
        recipient = self._recipients[client]
        holding = recipient.holdings[ask]
        holding.remove(number)
        if ask.realm < Realm.ALL:
            recipient.near -= 1
            self._kept_near -= 1
        self._drop_row(holding)
        self.size -= 1
        if not holding.numbers:
            del recipient.holdings[ask]
            self._engine.remove(ask.filter, holding)
        self._changes.note(ask.filter, Change(holding, number, is_new=False))

    def forget(self, client: Subscriber) -> None:
        """The client is gone, or is to get nothing more of what it has subscribed to so far."""
        recipient = self._recipients.pop(client, None)
        if recipient is None:
            return
        for ask, holding in recipient.holdings.items():
            self._engine.remove(ask.filter, holding)
            self.size -= len(holding.numbers)
            self._drop_row(holding)
        recipient.holdings.clear()
        self._kept_near -= recipient.near
        recipient.client = recipient.outlet = None

    def hold(self, client: Subscriber) -> None:
        """Let only express events go to a client from now on."""
        self._recipient(client).outlet = None

    def release(self, client: Subscriber) -> None:
        """Let all events that a client wants go to it again."""
        self._recipient(client).outlet = client.connection

    def of(self, matter: Matter) -> Targets:
        """Return the clients that want an event; some may have gone."""
        found = self._caches[matter.link_class].value(matter.topic)
        if matter.common > Realm.CLUSTER and self._kept_near:
            return from_afar(found, matter.common)
        return found

    @property
    def cached_bytes(self) -> int:
        """Memory that takes what is remembered of topics, by estimate."""
        return self._old_bytes + sum(cache.cached_bytes for cache in self._caches.values())

    def drop_cache(self) -> None:
        """Forget what is remembered of topics."""
        for cache in self._caches.values():
            cache.drop()
        self._old_bytes = 0

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _drop_row(self, holding: Holding) -> None:
        self._old_bytes += holding.drop_row()
        if self._old_bytes > MAX_OLD_BYTES:
            self.drop_cache()  # topics that nobody has used since then may have all of them

    def _recipient(self, client: Subscriber) -> Recipient:
        recipient = self._recipients.get(client)
        if recipient is None:
            recipient = self._recipients[client] = Recipient(client)
        return recipient

    def _match(self, link_class: LinkClass, topic: str) -> Targets:
        rows: dict[Recipient, Row] = {}
        several: dict[Recipient, list[Row]] = {}
        for holding in self._engine.matches(topic):
            row = holding.row(link_class)
            if row is None:
                continue
            known = rows.setdefault(holding.recipient, row)
            if known is not row:
                several.setdefault(holding.recipient, [known]).append(row)
        for recipient, parts in several.items():
            rows[recipient] = merged(recipient, parts)
        return tuple(rows.values())

    def _mend(
        self, link_class: LinkClass, topic: str, targets: Targets, changes: list[Change]
    ) -> Targets:
        rows = {row.recipient: row for row in targets if row.recipient.client is not None}
        theirs: dict[Recipient, list[Change]] = {}
        for change in changes:
            if change.holding.ask.takes(link_class):
                theirs.setdefault(change.holding.recipient, []).append(change)
        for recipient, few in theirs.items():
            row = mended(recipient, rows.get(recipient), few, link_class)
            if row is not None:
                rows[recipient] = row
            else:
                rows.pop(recipient, None)
        return tuple(rows.values())
