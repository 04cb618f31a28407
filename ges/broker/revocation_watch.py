"""Looks after the list of revoked identities: takes newer ones, spreads them, and applies them.

A list comes from a client, from another broker, or from a file: the one in the identity's folder,
or the one this broker has kept. Whatever the way, it counts only if the authority has signed it.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from ges.access.token_file import file_mark
from ges.broker.certified_peers import CertifiedPeers
from ges.topology.revocation_lists import Spread
from ges.wire.broker_messages import RevocationNotice
from overlay.driver import Driver
from overlay.errors import IdentityError, ProtocolError
from overlay.ids import short
from overlay.machine import Closed
from overlay.security.credentials import Credentials
from overlay.security.identity import Identity
from overlay.security.keyfiles import REVOKED, read_revoked, replace_files
from overlay.security.revocation import check_list


class RevocationWatch:
    """Who is revoked, as one broker knows it."""

    def __init__(self, driver: Driver, credentials: Credentials, store: Path) -> None:
        """``store``: the folder that the newest list is kept in."""
        self._driver = driver
        self._credentials = credentials
        self._store = store
        self._seen: object = ()  #: the files as they were when last read
        self._log = structlog.get_logger("chordal.warden").bind(broker=short(self._identity.uid))

    def take(self, notice: RevocationNotice) -> str | None:
        """Take a list from a client and spread it; returns why not, or None."""
        try:
            check_list(notice.crl, notice.voucher, self._identity.authorities)
        except ProtocolError as error:
            return str(error)
        self._driver.give(Spread(notice))
        return None

    def read_lists(self) -> None:
        """Take what stands in the identity's folder, and what this broker has kept, if it is new.

        A file that cannot be used is complained of once, and else plays no part.
        """
        paths = dict.fromkeys((self._identity.revoked, self._store / REVOKED))
        marks = tuple(map(file_mark, paths))
        if marks == self._seen:
            return
        self._seen = marks
        for path in paths:
            try:
                found = read_revoked(path)
                if found is not None:
                    check_list(*found, self._identity.authorities)
                    self._driver.give(Spread(RevocationNotice(*found)))
            except (IdentityError, ProtocolError) as error:
                self._log.error("list of revoked identities not used", file=str(path), why=error)

    def enforce(self, peers: CertifiedPeers) -> None:
        """A new list has come: keep it, and end what stands on a revoked identity."""
        current = self._credentials.revocations.current
        assert current is not None
        self._log.warning("identities revoked", number=current.number, revoked=len(current.uids))
        try:
            replace_files(self._store, {REVOKED: current.pem})
        except IdentityError as error:
            self._log.error("list of revoked identities not kept", why=str(error))
        forbids = self._credentials.revocations.forbids
        if forbids(self._identity.uid):
            self._log.error("this broker's own identity is revoked: it is secure no more")
            peers.cut(lambda who: True, Closed.REVOKED)
        else:
            peers.cut(lambda who: forbids(who.uid), Closed.REVOKED)

    @property
    def _identity(self) -> Identity:
        return self._credentials.identity
