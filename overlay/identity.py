"""Identities: who a broker or client is, proven by a certificate of the overlay's own authority.

An identity is a folder of three files::

    identity.crt    certificate: uid and role of the holder, signed by the authority
    identity.key    its private key, which only the owner may read
    authority.crt   certificate of the authority, the only one the holder trusts

The authority's own folder holds ``authority.crt`` and ``authority.key``
(:mod:`overlay.authority`). Uid and role stand in the certificate as a URI among its alternative
names, ``urn:chordal:<role>:<uid>``. All keys are Ed25519, all files PEM.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from overlay.errors import IdentityError, ProtocolError
from overlay.ids import Uid

IDENTITY_CERTIFICATE = "identity.crt"
IDENTITY_KEY = "identity.key"
AUTHORITY_CERTIFICATE = "authority.crt"
AUTHORITY_KEY = "authority.key"

_ISSUE = "make an identity with 'chordal identity issue AUTHORITY_DIR OUT_DIR'"
_URN = re.compile(r"urn:chordal:(broker|client):([0-9a-f]{32})")


class Role(StrEnum):
    """What the authority lets the holder of an identity be."""

    BROKER = "broker"  #: accepts connections and makes them
    CLIENT = "client"  #: only makes them


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """What a certificate says of its holder."""

    uid: Uid
    role: Role

    @property
    def urn(self) -> str:
        """The URI under which both stand in the certificate."""
        return f"urn:chordal:{self.role}:{self.uid}"


@dataclass(frozen=True, slots=True)
class Identity:
    """A folder that was found to hold a usable identity; it carries no key material itself."""

    uid: Uid
    role: Role
    not_after: datetime  #: end of the certificate's life, UTC
    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / IDENTITY_CERTIFICATE

    @property
    def key(self) -> Path:
        return self.directory / IDENTITY_KEY

    @property
    def authority(self) -> Path:
        return self.directory / AUTHORITY_CERTIFICATE


def load_identity(directory: Path, *, now: datetime | None = None) -> Identity:
    """Read and check the identity in ``directory``, as of ``now`` (default: the present).

    Raises:
        IdentityError: the folder or a file is missing, unreadable or no PEM; the key is open to
            others or belongs to another certificate; the certificate is expired, not yet valid,
            names no uid and role, or is not from the authority beside it; or the folder is an
            authority's.
    """
    now = now or datetime.now(UTC)
    names = file_names(directory, mend=_ISSUE)
    if IDENTITY_CERTIFICATE not in names and AUTHORITY_KEY in names:
        raise IdentityError(
            f"{directory}: an authority's folder where an identity's is wanted; "
            f"make an identity with 'chordal identity issue {directory} OUT_DIR'"
        )
    path = directory / IDENTITY_CERTIFICATE
    authority_path = directory / AUTHORITY_CERTIFICATE
    certificate = read_certificate(path, mend=_ISSUE)
    authority = read_certificate(authority_path, mend="copy it from the authority's folder")
    check_key(directory / IDENTITY_KEY, certificate, mend=_ISSUE)
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise IdentityError(
            f"{path}: not signed by the authority of {authority_path}; "
            "take both files from the same 'chordal identity issue'"
        ) from error
    check_validity(authority_path, authority, now, mend="the overlay needs a new authority")
    check_validity(path, certificate, now, mend=_ISSUE)
    name = name_in(certificate)
    if name is None:
        raise IdentityError(f"{path}: names no uid and role; {_ISSUE}")
    return Identity(name.uid, name.role, certificate.not_valid_after_utc, directory)


def certified_identity(der: bytes) -> PeerIdentity:
    """Return whom a peer's certificate names; that it is genuine is for TLS to have checked.

    Raises:
        ProtocolError: it is no certificate, or does not name exactly one uid and role.
    """
    try:
        name = name_in(x509.load_der_x509_certificate(der))
    except ValueError as error:
        raise ProtocolError("the other end's certificate cannot be read") from error
    if name is None:
        raise ProtocolError("the other end's certificate names no uid and role")
    return name


def name_in(certificate: x509.Certificate) -> PeerIdentity | None:
    """Return the uid and role a certificate names; None unless it names exactly one."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (
        ValueError,
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
    ):
        return None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    match = _URN.fullmatch(uris[0]) if len(uris) == 1 else None
    return PeerIdentity(Uid(match[2]), Role(match[1])) if match else None


def permission_warnings(directory: Path) -> list[str]:
    """Say, a line each, which files of an identity or authority are open to too many.

    Raises:
        IdentityError: the folder cannot be read.
    """
    names = file_names(directory, mend="name an identity's or authority's folder")
    limits = {
        directory: 0o077,
        directory / IDENTITY_KEY: 0o077,
        directory / AUTHORITY_KEY: 0o077,
        directory / IDENTITY_CERTIFICATE: 0o022,
        directory / AUTHORITY_CERTIFICATE: 0o022,
    }
    present = (path for path in limits if path == directory or path.name in names)
    found = (_excess(path, _mode(path), limits[path]) for path in present)
    return [warning for warning in found if warning is not None]


def file_names(directory: Path, *, mend: str) -> set[str]:
    """Return the names in a folder.

    Raises:
        IdentityError: it is missing, no folder, or unreadable.
    """
    try:
        return set(os.listdir(directory))
    except OSError as error:
        raise unusable(directory, error, mend) from error


def read_certificate(path: Path, *, mend: str) -> x509.Certificate:
    """Read a file that holds one PEM certificate.

    Raises:
        IdentityError: the file is missing, unreadable, no certificate, several of them (TLS would
            trust them all), or one of another kind than Ed25519.
    """
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
        keys = [certificate.public_key() for certificate in found]
    except OSError as error:
        raise unusable(path, error, mend) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise IdentityError(f"{path}: not a PEM certificate; {mend}") from error
    if len(found) != 1 or not isinstance(keys[0], Ed25519PublicKey):
        raise IdentityError(f"{path}: not a single Ed25519 certificate; {mend}")
    return found[0]


def check_key(path: Path, certificate: x509.Certificate, *, mend: str) -> Ed25519PrivateKey:
    """Read the private key that belongs to ``certificate``.

    Raises:
        IdentityError: the file is missing, open to group or others, no Ed25519 key, or the key of
            another certificate.
    """
    try:
        with path.open("rb") as file:
            # The mode is asked of the open file: the path could be swapped after a look at it.
            excess = _excess(path, os.fstat(file.fileno()).st_mode, 0o077)
            pem = file.read()
    except OSError as error:
        raise unusable(path, error, mend) from error
    if excess is not None:
        raise IdentityError(excess)
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Without its cause: a parser's complaint may quote what it could not parse.
        raise IdentityError(f"{path}: not an unencrypted PEM private key; {mend}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise IdentityError(f"{path}: not an Ed25519 key; {mend}")
    if key.public_key() != certificate.public_key():
        raise IdentityError(f"{path}: does not match the certificate beside it; {mend}")
    return key


def check_validity(path: Path, certificate: x509.Certificate, now: datetime, *, mend: str) -> None:
    """Check that a certificate is in force at ``now``.

    Raises:
        IdentityError: it has expired, or begins later.
    """
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        raise IdentityError(f"{path}: not valid before {begin:%Y-%m-%d %H:%M} UTC; set the clock")
    if now > end:
        raise IdentityError(f"{path}: expired on {end:%Y-%m-%d %H:%M} UTC; {mend}")


def unusable(path: Path, error: OSError, mend: str) -> IdentityError:
    """Put the operating system's complaint about ``path`` into words for the user."""
    if isinstance(error, PermissionError):
        mend = "run as the user who owns it"
    return IdentityError(f"{path}: {error.strerror or error}; {mend}")


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        raise unusable(path, error, "see who owns it") from error


def _excess(path: Path, mode: int, forbidden: int) -> str | None:
    """Return a complaint when ``mode`` grants any of the ``forbidden`` permissions."""
    mode = stat.S_IMODE(mode)
    if not mode & forbidden:
        return None
    verb = "writable by" if forbidden == 0o022 else "open to"
    return f"{path}: {verb} group or others; chmod {mode & ~forbidden:o} {path}"
