"""TLS of the admin server, by certificates of its own: browsers do not take those of brokers.

They are in a folder::

    server.crt      certificate of this server, and those between it and its authority
    server.key      its private key, which only the owner may read
    client-ca.crt   if there is one: whoever shows a certificate of these authorities is let in

Files that change are read again for the next connection; if they are wrong, what was read stays.
"""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import structlog

from overlay.errors import ConfigError
from overlay.wording import printable

CERTIFICATE, KEY, CLIENTS = "server.crt", "server.key", "client-ca.crt"

Mark = tuple[tuple[int, int] | None, ...]


class AdminTls:
    """A folder of certificates, in use."""

    def __init__(self, folder: Path, flag: str = "--admin-tls", protocol: str = "http/1.1") -> None:
        """Read it; ``flag`` is how the user has named it, ``protocol`` what is spoken, by ALPN.

        Raises:
            ConfigError: a file is missing, wrong, or open to others.
        """
        self._folder = folder
        self._flag = flag
        self._protocol = protocol
        self._mark = self._look()
        self._context = self._read()
        self._log = structlog.get_logger("chordal.admin")

    @property
    def asks_certificates(self) -> bool:
        """Whether a certificate lets a client in."""
        return self._context.verify_mode is ssl.CERT_OPTIONAL

    def context(self) -> ssl.SSLContext:
        """Return what the next connection goes by."""
        mark = self._look()
        if mark != self._mark:
            self._mark = mark  # what is wrong is told once
            try:
                self._context = self._read()
            except ConfigError as error:
                self._log.error("certificates not read again", why=printable(str(error)))
        return self._context

    def _look(self) -> Mark:
        """Return what changes whenever a file does."""
        marks: list[tuple[int, int] | None] = []
        for name in (CERTIFICATE, KEY, CLIENTS):
            try:
                found = (self._folder / name).stat()
                marks.append((found.st_ino, found.st_mtime_ns))
            except OSError:
                marks.append(None)
        return tuple(marks)

    def _read(self) -> ssl.SSLContext:
        key, clients = self._folder / KEY, self._folder / CLIENTS
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # a resumed session would outlive the certificate it began with
        context.set_alpn_protocols([self._protocol])
        try:
            mode = stat.S_IMODE(key.stat().st_mode)
            context.load_cert_chain(self._folder / CERTIFICATE, key, password=_no_password)
            if clients.exists():
                context.load_verify_locations(clients)
                context.verify_mode = ssl.CERT_OPTIONAL
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"{self._folder}: {why}; {self._flag} wants {CERTIFICATE} and {KEY} there, in PEM, "
                f"and {CLIENTS} if certificates are to let clients in"
            ) from error
        if mode & 0o077:
            raise ConfigError(f"{key}: open to group or others; chmod {mode & 0o700:o} {key}")
        return context


def _no_password() -> str:
    """Say that there is nobody to ask for one."""
    raise ValueError(f"{KEY} is encrypted")
