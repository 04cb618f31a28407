"""All who stand in connection with this broker by a certificate, and the end of some of them."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from ges.sessions.clients import Clients
from overlay.driver import Driver
from overlay.ids import short
from overlay.machine import Closed
from overlay.security.identity import PeerIdentity


class CertifiedPeers:
    """The brokers at the other ends of secure links, and the clients that have shown a certificate.

    For example, when the certificate of a client ends, its connection is cut, and so is the secure
    link to a broker whose identity is revoked.
    """

    def __init__(self, driver: Driver, clients: Clients) -> None:
        self._driver = driver
        self._clients = clients
        uid = driver.machine.peer.uid
        self._log = structlog.get_logger("chordal.warden").bind(broker=short(uid))

    @property
    def identities(self) -> list[PeerIdentity]:
        """What they have shown: of links first, then of clients."""
        links = (link.identity for link in self._driver.links.values())
        return [who for who in (*links, *self._clients.identities) if who is not None]

    def cut(self, is_over: Callable[[PeerIdentity], bool], reason: Closed) -> None:
        """End at once what stands on a certificate that is good no more."""
        driver = self._driver
        for (uid, link_class), link in list(driver.links.items()):
            if link.identity is not None and is_over(link.identity):
                self._log.warning("secure link closed", peer=short(uid), why=reason.value)
                driver.counters[f"links_{reason.value}"] += 1
                driver.cut(uid, link_class, reason)
        for who in self._clients.detach(is_over):
            self._log.warning("client detached", client=short(who.uid), why=reason.value)
            driver.counters[f"clients_{reason.value}"] += 1
