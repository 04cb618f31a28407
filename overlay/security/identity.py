"""Identities: who a broker or client is, proven by a certificate of the overlay's own authority.

An identity is a folder::

    identity.crt    certificate: uid and role of the holder, signed by the authority
    identity.key    its private key, which only the owner may read
    authority.crt   certificate of the authority, the only one the holder trusts
    revoked.crl     identities that count no more (:mod:`~overlay.security.revocation`), if any

While the authority is changed (:mod:`overlay.authority.rotation`), ``authority.crt`` holds the new
one's certificate and the old one's, and ``identity.crt`` a second certificate, in which the old
authority vouches for the new one: brokers that know only the old one accept the holder by it.

Uid and role stand in the certificate as a URI among its alternative names,
``urn:chordal:<role>:<uid>``. All keys are Ed25519, all files PEM.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from overlay.errors import IdentityError, UntrustedError
from overlay.ids import Uid
from overlay.security.keyfiles import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    IDENTITY_CERTIFICATE,
    IDENTITY_KEY,
    REVOKED,
    check_key,
    check_validity,
    file_names,
    read_certificate,
    read_certificates,
)

_ISSUE = "make an identity with 'chordal identity issue AUTHORITY_DIR OUT_DIR'"
_RENEW = "renew it with 'chordal identity renew AUTHORITY_DIR DIR'"
_URN = re.compile(r"urn:chordal:(broker|client):([0-9a-f]{32})")


class Role(StrEnum):
    """What the authority lets the holder of an identity be."""

    BROKER = "broker"  #: accepts connections and makes them
    CLIENT = "client"  #: only makes them


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """What a certificate says of its holder, and of itself."""

    uid: Uid
    role: Role
    not_after: datetime | None = field(default=None, compare=False)  #: UTC; it ends then

    @property
    def urn(self) -> str:
        """The URI under which uid and role stand in the certificate."""
        return f"urn:chordal:{self.role}:{self.uid}"


@dataclass(frozen=True, slots=True)
class Identity:
    """A folder that was found to hold a usable identity; it carries no private key itself."""

    uid: Uid
    role: Role
    not_after: datetime  #: end of the certificate's life, UTC
    directory: Path
    serial: int = field(default=0, compare=False)  #: of the certificate
    #: Whom the holder trusts: one, or the new and the old one while the authority is changed.
    authorities: tuple[x509.Certificate, ...] = field(default=(), compare=False, repr=False)

    @property
    def certificate(self) -> Path:
        """The file with the certificate."""
        return self.directory / IDENTITY_CERTIFICATE

    @property
    def key(self) -> Path:
        """The file with the private key."""
        return self.directory / IDENTITY_KEY

    @property
    def authority(self) -> Path:
        """The file with the authorities that the holder trusts."""
        return self.directory / AUTHORITY_CERTIFICATE

    @property
    def revoked(self) -> Path:
        """The file with the list of revoked identities; there may be none."""
        return self.directory / REVOKED


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
    certificate, *vouchers = read_certificates(path, most=2, mend=_ISSUE)
    authorities = _read_authorities(directory / AUTHORITY_CERTIFICATE, vouchers)
    check_key(directory / IDENTITY_KEY, certificate, mend=_ISSUE)
    issuer = next((a for a in authorities if is_issued_by(certificate, a)), None)
    if issuer is None:
        raise IdentityError(
            f"{path}: not signed by the authority of {directory / AUTHORITY_CERTIFICATE}; "
            "take both files from the same 'chordal identity issue'"
        )
    anchor = directory / AUTHORITY_CERTIFICATE
    check_validity(anchor, issuer, now, mend="the overlay needs a new authority")
    check_validity(path, certificate, now, mend=_RENEW)
    name = name_in(certificate)
    if name is None:
        raise IdentityError(f"{path}: names no uid and role; {_ISSUE}")
    return Identity(
        name.uid,
        name.role,
        certificate.not_valid_after_utc,
        directory,
        certificate.serial_number,
        authorities,
    )


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Say whether ``authority`` has signed ``certificate``; when either is in force plays no part.

    Two authorities of one overlay have the same name, so it is the signature that tells.
    """
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _read_authorities(
    path: Path, vouchers: Sequence[x509.Certificate]
) -> tuple[x509.Certificate, ...]:
    """Read whom to trust: one authority, or two of which the older vouches for the newer."""
    mend = "copy it from the authority's folder"
    if not vouchers:
        return (read_certificate(path, mend=mend),)
    found = read_certificates(path, most=2, mend=mend)
    if len(found) == 2:
        new, old = found
        (voucher,) = vouchers
        if voucher.public_key() != new.public_key() or not is_issued_by(voucher, old):
            raise IdentityError(f"{path}: the old authority does not vouch for the new one; {mend}")
    return tuple(found)


def certified_identity(der: bytes) -> PeerIdentity:
    """Return whom a peer's certificate names; that it is genuine is for TLS to have checked.

    Raises:
        UntrustedError: it is no certificate, or does not name exactly one uid and role.
    """
    try:
        name = name_in(x509.load_der_x509_certificate(der))
    except ValueError as error:
        raise UntrustedError("the other end's certificate cannot be read") from error
    if name is None:
        raise UntrustedError("the other end's certificate names no uid and role")
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
    if match is None:
        return None
    return PeerIdentity(Uid(match[2]), Role(match[1]), certificate.not_valid_after_utc)
