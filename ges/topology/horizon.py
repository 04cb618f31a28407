"""The measured links of the brokers around: of neighbours, and of their neighbours.

A broker tells its neighbours what it measures of its own links; each passes on, once, what it was
told by the origin itself. So everybody knows the links within two steps, whatever the size of the
overlay, and can find ways of up to three links to those it is linked to. What is told is bounded
(:data:`MAX_TABLES` origins), versioned by incarnation and version, and forgotten when it is not
told again in time.

Whom to believe: an origin that tells of itself over a secure link comes before one that does so
over a plain one, and that before what others say of it. Secure links count only where the origin
told of them over a secure link, so nobody without an identity can bend the way of a secure event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from ges.wire.broker_messages import MAX_LINKS_TOLD, MeasuredLinks, ToldLink
from overlay.ids import LinkClass, Nanos, nanos
from overlay.multigraph.graph import Ends, ends
from overlay.multigraph.weights import LinkKey, Weights, worse

MAX_TABLES = 512  #: beyond, only what neighbours tell of themselves is taken
REFRESH_NS = nanos(30)  #: every table is told again after this
EXPIRE_NS = 3 * REFRESH_NS + nanos(10)  #: one that is not is forgotten


class Trust(IntEnum):
    """How a table came; a table gives way only to one that came as well, or better."""

    PASSED_ON = 0
    DIRECT = 1  #: from the origin itself
    SECURE = 2  #: ... over a secure link


@dataclass(slots=True)
class _Table:
    message: MeasuredLinks
    links: dict[LinkKey, Weights]
    trust: Trust
    at: Nanos


class Horizon:
    """The tables a broker holds, its own among them."""

    def __init__(self, own_uid: str) -> None:
        self._own_uid = own_uid
        self._tables: dict[str, _Table] = {}

    def __len__(self) -> int:
        return len(self._tables)

    # ── tables ────────────────────────────────────────────────────────────────────────────────

    def own(self, incarnation: int, links: dict[LinkKey, Weights], now: Nanos) -> set[Ends]:
        """Set this broker's own table; returns the links that may have changed."""
        known = self._tables.get(self._own_uid)
        version = known.message.version + 1 if known is not None else 1
        told = tuple(
            ToldLink(uid, link_class, weights)
            for (uid, link_class), weights in sorted(links.items())[:MAX_LINKS_TOLD]
        )
        message = MeasuredLinks(self._own_uid, incarnation, version, told)
        self._tables[self._own_uid] = _Table(message, dict(links), Trust.SECURE, now)
        if known is None:
            return self._about(self._own_uid)
        return _differences(self._own_uid, known.links, links)

    def learn(
        self, message: MeasuredLinks, came_from: str, link_class: LinkClass, now: Nanos
    ) -> set[Ends] | None:
        """Take a table; returns the links that may have changed, or None if it is no news."""
        origin = message.origin
        trust = Trust.PASSED_ON
        if came_from == origin:
            trust = Trust.SECURE if link_class.is_secret else Trust.DIRECT
        known = self._tables.get(origin)
        if origin == self._own_uid:
            return None
        if known is None:
            if trust is Trust.PASSED_ON and len(self._tables) >= MAX_TABLES:
                return None
        elif trust < known.trust or (trust == known.trust and _age(message) <= _age(known.message)):
            return None
        links = {
            (link.uid, link.link_class): link.weights
            for link in message.links
            if link.uid != origin
        }
        self._tables[origin] = _Table(message, links, trust, now)
        changed = _differences(origin, known.links if known is not None else {}, links)
        if known is None or known.trust is not trust:
            changed |= self._about(origin)
        return changed

    def told_directly(self, uid: str) -> MeasuredLinks | None:
        """Return the table of ``uid`` if it came from there: that is passed on."""
        table = self._tables.get(uid)
        is_direct = table is not None and table.trust >= Trust.DIRECT
        return table.message if table is not None and is_direct else None

    def unlinked(self, uid: str, link_class: LinkClass) -> set[Ends]:
        """A link to ``uid`` is gone: what it told may now come by others."""
        table = self._tables.get(uid)
        if table is None:
            return set()
        if link_class.is_base:
            if len(self._tables) > MAX_TABLES:
                return self.forget(uid)
            table.trust = Trust.PASSED_ON
        elif link_class.is_secret:
            table.trust = min(table.trust, Trust.DIRECT)
        return self._about(uid)

    def forget(self, uid: str) -> set[Ends]:
        """A broker is gone; returns the links that may have changed."""
        if uid == self._own_uid or uid not in self._tables:
            return set()
        about = self._about(uid)
        del self._tables[uid]
        return about

    def expire(self, now: Nanos) -> set[Ends]:
        """Forget what has not been told again; returns the links that may have changed."""
        old = [
            uid
            for uid, table in self._tables.items()
            if now - table.at > EXPIRE_NS and uid != self._own_uid
        ]
        return {link for uid in old for link in self.forget(uid)}

    # ── links ─────────────────────────────────────────────────────────────────────────────────

    def weights(self, a: str, b: str, link_class: LinkClass) -> Weights | None:
        """Return what both ends together say of a link, the worse of each measure.

        None: an end that tells of its links does not tell of this one, or neither can be believed.
        """
        said = []
        for here, there in ((a, b), (b, a)):
            table = self._tables.get(here)
            if table is None:
                continue
            if link_class.is_secret and table.trust < Trust.SECURE:
                continue
            weights = table.links.get((there, link_class))
            if weights is None:
                return None
            said.append(weights)
        if not said:
            return None
        return said[0] if len(said) == 1 else worse(*said)

    def _about(self, uid: str) -> set[Ends]:
        """Return the links of ``uid`` that it tells of, or that others do: it may deny them."""
        table = self._tables.get(uid)
        found = {ends(uid, other) for other, _ in table.links} if table is not None else set()
        # Without a normal link there is none of another class.
        normal = (uid, LinkClass.NORMAL)
        found.update(ends(uid, other) for other, its in self._tables.items() if normal in its.links)
        return found


def _differences(
    origin: str, before: Mapping[LinkKey, Weights], after: Mapping[LinkKey, Weights]
) -> set[Ends]:
    """Return the ends of the links that two tables of one broker do not say the same of."""
    keys = before.keys() | after.keys()
    return {ends(origin, uid) for uid, c in keys if before.get((uid, c)) != after.get((uid, c))}


def _age(message: MeasuredLinks) -> tuple[int, int]:
    return message.incarnation, message.version
