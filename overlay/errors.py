"""Errors of the overlay package, and the root of every package's tree.

::

    ChordalError                 anything this project raises on purpose
    ├── ConfigError              a flag, file or folder the user gave is wrong; exit code 2
    │   ├── AddressError         what was given is no URL of a broker, or no place to listen on
    │   ├── MissingExtra         a library that comes with an extra is not installed
    │   └── IdentityError        a certificate, key or authority is missing, wrong or expired
    ├── ProtocolError            the other end broke the protocol: close that link, count it, go on
    │   ├── CodecError           bytes that are no frame, or a frame that is no message
    │   ├── NoTlsError           a TLS handshake that comes to nothing
    │   └── UntrustedError       a certificate that does not count here, or none
    ├── ConnectionFailed         no link to that address: refused, timed out, wrong overlay, ...
    └── InvariantError           a bug of ours; the text starts with "BUG:"

Operating faults that a protocol expects (a link going down, a refused join) are values handed to
it as inputs, not exceptions.
"""

from __future__ import annotations

from typing import ClassVar


class ChordalError(Exception):
    """Root of every error raised on purpose; its text is one line, fit for a user to read."""

    code: ClassVar[str] = "error"  #: stable; docs/errors.md says what to do


class ConfigError(ChordalError):
    """The user gave something wrong; the text names the thing and the mend."""

    code = "config"


class AddressError(ConfigError):
    """A URL of a broker, or a place to listen on, is none; the text shows a right one."""

    code = "address"


class MissingExtra(ConfigError):
    """A library that this needs is not installed; the text names the extra that it comes with."""

    code = "missing-extra"


class IdentityError(ConfigError):
    """An identity folder, certificate or key is missing, malformed, foreign or expired."""

    code = "identity"


class ProtocolError(ChordalError):
    """The other end broke the protocol."""

    code = "protocol"


class NoTlsError(ProtocolError):
    """A TLS handshake comes to nothing: another version, another protocol, or no TLS after all."""

    code = "no-tls"


class UntrustedError(ProtocolError):
    """The other end shows no certificate, or one that does not count here."""

    code = "untrusted"


class CodecError(ProtocolError):
    """Bytes that are no frame, or a frame whose content is no known message."""

    code = "codec"


class ConnectionFailed(ChordalError):
    """A connection could not be made or was refused; ``reason`` is for people.

    ``was_cut``: it was made, and broke before the other end had answered. ``is_final``: another try
    fails as well, as long as both ends are what they are; for example, two authorities do not know
    each other.
    """

    code = "connection-failed"

    def __init__(
        self, url: str, reason: str, *, was_cut: bool = False, is_final: bool = False
    ) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason
        self.was_cut = was_cut
        self.is_final = is_final


class InvariantError(ChordalError):
    """Our own state is impossible; the text starts with "BUG:"."""

    code = "bug"
