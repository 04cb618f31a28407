"""What becomes of a call that fails, in words for people; the same for every event loop."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl

from overlay.address import Address
from overlay.errors import ConnectionFailed

#: Errors of connect() that say that there was a connection for a moment.
_CUT = frozenset({errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE})

_NAMED = re.compile(r"\[Errno (\d+)\]")


def not_reached(address: Address, error: OSError) -> ConnectionFailed:
    """Return what to raise where no connection comes about."""
    if isinstance(error, socket.gaierror):
        return ConnectionFailed(address.url, f"no such host ({error.strerror})")
    code = first_errno(error)
    reason = os.strerror(code).lower() if code else str(error)
    return ConnectionFailed(address.url, reason, was_cut=code in _CUT)


def no_tls(address: Address, error: BaseException) -> ConnectionFailed:
    """Return what to raise where a connection comes about, and no TLS on it."""
    return ConnectionFailed(
        address.url,
        f"no TLS ({tls_reason(error)}): {_whose_fault(error)}",
        was_cut=is_cut(error),
        is_final=not is_cut(error),
    )


def no_identity(address: Address) -> ConnectionFailed:
    """Return what to raise where a secure address is called without an identity."""
    return ConnectionFailed(address.url, "secure links need an identity (--identity DIR)")


def first_errno(error: BaseException) -> int | None:
    """Return the errno of ``error`` or of what the event loop has wrapped in it."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    causes = error.__cause__
    inner = causes.exceptions if isinstance(causes, BaseExceptionGroup) else (causes,)
    found = next((e.errno for e in inner if isinstance(e, OSError)), None)
    if found is not None:
        return found
    # Asyncio makes one error of those of several addresses, and its text alone has theirs.
    named = _NAMED.search(str(error))
    return int(named[1]) if named else None


def tls_reason(error: BaseException) -> str:
    """Return what went wrong with TLS in a few words."""
    cause = error.__cause__ or error
    reason = str(getattr(cause, "reason", None) or cause or type(cause).__name__)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{reason}, {cause.verify_message}"
    return reason


def _whose_fault(error: BaseException) -> str:
    """Say what the end that called can know of why there is no TLS."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "the identity at that end is not of this authority"
    if getattr(cause, "reason", None) == "TLSV1_ALERT_UNKNOWN_CA":
        return "the broker there does not know the authority of this identity"
    return "there is no identity at that end, or one of the two authorities does not know the other"


def is_cut(error: BaseException) -> bool:
    """Say whether a connection ended, rather than that its ends do not agree on TLS."""
    cause = error.__cause__ or error
    return isinstance(cause, ssl.SSLEOFError) or not isinstance(cause, ssl.SSLError)
