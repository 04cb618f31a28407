"""Looks after what a live broker's secure links and clients stand on: its certificate and theirs.

Every few seconds it looks at the identity's folder. A renewed certificate is shown in handshakes
from then on, and every secure link made before is made anew beside itself, so that the other ends
see it too; no link goes down meanwhile. A newer list of revoked identities is spread. A connection
whose certificate, at either end, has ended is closed at that moment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import structlog
import trio

from ges.access.token_file import file_mark
from ges.broker.certified_peers import CertifiedPeers
from ges.broker.revocation_watch import RevocationWatch
from ges.topology.parallel_links import RenewLinks
from ges.wire.status import IdentityStatus
from overlay.driver import Driver
from overlay.errors import IdentityError
from overlay.ids import Nanos, nanos, short
from overlay.machine import Closed
from overlay.security.credentials import Credentials
from overlay.security.identity import Identity, PeerIdentity, load_identity
from overlay.security.keyfiles import permission_warnings

RENEW_AGAIN_NS = nanos(5.0)  #: a link that could not be made anew is tried again
SOON = 1 / 3  #: of a certificate's remaining life when first seen: then its end is worth a warning

Marks = tuple[tuple[int, int, int] | None, ...]


class IdentityWatch:
    """The keeper of one broker's credentials."""

    def __init__(
        self,
        driver: Driver,
        credentials: Credentials,
        peers: CertifiedPeers,
        revocation_watch: RevocationWatch,
        *,
        look_seconds: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Take what this broker shows and to whom, and how often to look at its files."""
        self._driver = driver
        self._credentials = credentials
        self._peers = peers
        self._revocation_watch = revocation_watch
        self._look_seconds = look_seconds
        self._clock = clock
        self._seen = self._marks()
        self._complained: Marks = ()  #: the files as they were when found unusable
        self._renewed_ns: Nanos | None = None  #: links made before are to be made anew
        self._asked_ns: Nanos = 0
        self._warn_from = self._when_to_warn()
        self._told_end = False
        self._log = structlog.get_logger("chordal.warden").bind(broker=short(self._identity.uid))

    async def run(self) -> None:
        """Look, again and again, until cancelled."""
        self._warn_of_permissions()
        self._revocation_watch.read_lists()
        while True:
            self.look()
            now = self._clock()
            ends = [end for end in map(self._end, self._holders()) if end is not None]
            wait = min(((end - now).total_seconds() for end in ends), default=self._look_seconds)
            # A certificate is good to the very end of its last second.
            await trio.sleep(min(max(wait, 0.0) + 0.01, self._look_seconds))

    def look(self) -> None:
        """Do what is due."""
        self._read_identity()
        self._revocation_watch.read_lists()
        self._renew_links()
        self._end_expired()

    def status(self) -> IdentityStatus:
        """Say what is shown now, and who is refused."""
        identity, current = self._identity, self._credentials.revocations.current
        return IdentityStatus(
            not_after=identity.not_after.isoformat(),
            expires_in_s=round((identity.not_after - self._clock()).total_seconds(), 1),
            serial=f"{identity.serial:x}",
            authorities=len(identity.authorities),
            revocations=current.number if current is not None else 0,
            revoked=len(current.uids) if current is not None else 0,
        )

    def expires_in_s(self, peer: PeerIdentity | None) -> float | None:
        """Return for how long the certificate lasts that a link stands on; None without one."""
        end = peer.not_after if peer is not None else None
        return None if end is None else round((end - self._clock()).total_seconds(), 1)

    @property
    def is_settled(self) -> bool:
        """All secure links stand on the certificate that is shown now."""
        return self._renewed_ns is None and self._marks() == self._seen

    @property
    def has_complained(self) -> bool:
        """The identity's folder holds what cannot be used."""
        return bool(self._complained) and self._complained == self._seen

    # ── certificates ──────────────────────────────────────────────────────────────────────────

    @property
    def _identity(self) -> Identity:
        return self._credentials.identity

    def _marks(self) -> Marks:
        identity = self._identity
        return tuple(map(file_mark, (identity.certificate, identity.key, identity.authority)))

    def _warn_of_permissions(self) -> None:
        """Say which of the identity's files are open to too many, and used all the same.

        A user that may write into the folder may put another identity or authority there.
        """
        with contextlib.suppress(IdentityError):  # it can be read no more: a look will tell
            for warning in permission_warnings(self._identity.directory):
                self._log.warning("identity open to too many", why=warning)

    def _read_identity(self) -> None:
        """Take the identity's files if they have changed.

        Several files cannot change at one moment. A look in between finds a key and a certificate
        that do not go together; so it is only at a second look that this is worth a word.
        """
        marks = self._marks()
        if marks == self._seen:
            return
        try:
            renewed = load_identity(self._identity.directory, now=self._clock())
            self._credentials.replace(renewed)
        except IdentityError as error:
            if self._complained == marks:
                self._seen = marks
                self._log.error("changed identity not used", why=str(error))
            self._complained = marks
            return
        self._seen = marks
        self._renewed_ns, self._asked_ns = self._driver.now(), -RENEW_AGAIN_NS
        self._warn_from, self._told_end = self._when_to_warn(), False
        self._driver.counters["identity_renewals"] += 1
        self._log.info(
            "identity renewed",
            until=renewed.not_after.isoformat(),
            authorities=len(renewed.authorities),
        )

    def _renew_links(self) -> None:
        """Have the links made anew that still stand on the certificate before."""
        now = self._driver.now()
        if self._renewed_ns is None or now < self._asked_ns + RENEW_AGAIN_NS:
            return
        uids = tuple(
            uid
            for (uid, link_class), link in self._driver.links.items()
            if link_class.is_secret and link.since_ns < self._renewed_ns
        )
        if uids:
            self._asked_ns = now
            self._driver.give(RenewLinks(uids))
        else:
            self._renewed_ns = None

    def _end_expired(self) -> None:
        now = self._clock()
        own_end = self._identity.not_after
        if now > own_end:
            if not self._told_end:
                self._told_end = True
                self._log.error("identity expired: secure no more", since=own_end.isoformat())
            self._peers.cut(lambda who: True, Closed.EXPIRED)
            return
        if now > self._warn_from:
            self._warn_from = own_end
            self._log.warning("identity ends soon; renew it", until=own_end.isoformat())
        self._peers.cut(lambda who: now > (self._end(who) or now), Closed.EXPIRED)

    def _end(self, who: PeerIdentity) -> datetime | None:
        """Return when the last certificate that somebody has shown ends."""
        return self._credentials.lasts_until(who)

    def _when_to_warn(self) -> datetime:
        end = self._identity.not_after
        return end - SOON * (end - self._clock())

    def _holders(self) -> list[PeerIdentity]:
        """Return all on whose certificates something stands, and this broker itself."""
        found = self._peers.identities
        own = self._identity
        if not self._told_end:
            found.append(PeerIdentity(own.uid, own.role, own.not_after))
        return found
