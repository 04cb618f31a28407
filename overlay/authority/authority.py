"""The overlay's own certificate authority: making it, issuing identities from it, renewing them.

One authority stands behind one overlay, directly: there are no intermediates, and nobody else's
certificates count. Its folder::

    authority.crt   its certificate; while it is changed, the new one's and then the old one's
    authority.key   its private key
    voucher.crt     while it is changed: the old authority vouches for the new one
    issued.json     the certificates it has signed (:mod:`overlay.authority.issued`)
    revoked.crl     those it has revoked (:mod:`overlay.security.revocation`)

:mod:`overlay.security.identity` describes the files that it writes for others.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from overlay.authority.certificates import authority_certificate, identity_certificate, named
from overlay.authority.issued import issued_as, read_issued, write_issued
from overlay.errors import IdentityError
from overlay.ids import Uid
from overlay.security.identity import Identity, PeerIdentity, Role, is_issued_by, name_in
from overlay.security.keyfiles import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    IDENTITY_CERTIFICATE,
    IDENTITY_KEY,
    MAX_FILE_BYTES,
    REVOKED,
    certificates_pem,
    check_key,
    check_validity,
    file_names,
    key_pem,
    locked,
    read_certificate,
    read_certificates,
    read_revoked,
    replace_files,
    write_new,
)
from overlay.security.regular_file import read_regular

VOUCHER = "voucher.crt"

_INIT = "make an authority with 'chordal identity init DIR'"


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority that can sign. Holds the private key: keep it no longer than the signing."""

    directory: Path
    certificate: x509.Certificate
    key: Ed25519PrivateKey = field(repr=False)
    previous: x509.Certificate | None = None  #: still trusted, while the authority is changed
    voucher: x509.Certificate | None = None  #: the previous one's for this one

    @property
    def not_after(self) -> datetime:
        """End of its life, UTC; nothing it signs outlives it."""
        return self.certificate.not_valid_after_utc

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        """Whom the holders of its identities are to trust."""
        return (self.certificate, *((self.previous,) if self.previous is not None else ()))


def create_authority(
    directory: Path, *, name: str, lifetime: timedelta, now: datetime | None = None
) -> Authority:
    """Make a new authority called ``name`` and write its folder.

    Raises:
        IdentityError: the name cannot stand in a certificate, the folder holds an authority or
            identity already, or it cannot be written.
    """
    now = now or datetime.now(UTC)
    key = Ed25519PrivateKey.generate()
    certificate = authority_certificate(named(name), key, key, now, now + lifetime)
    write_new(
        directory,
        {AUTHORITY_CERTIFICATE: certificates_pem(certificate), AUTHORITY_KEY: key_pem(key)},
    )
    return Authority(directory, certificate, key)


def load_authority(directory: Path, *, now: datetime | None = None) -> Authority:
    """Read the authority in ``directory`` in order to sign with it.

    Raises:
        IdentityError: the folder or a file is missing, unreadable or no PEM; the key is open to
            others or belongs to another certificate; the authority is expired or not yet valid; or
            the folder is an identity's.
    """
    now = now or datetime.now(UTC)
    names = file_names(directory, mend=_INIT)
    if AUTHORITY_KEY not in names and IDENTITY_CERTIFICATE in names:
        raise IdentityError(
            f"{directory}: an identity's folder where an authority's is wanted; "
            "name the folder that 'chordal identity init' made"
        )
    path = directory / AUTHORITY_CERTIFICATE
    voucher = previous = None
    if VOUCHER in names:
        voucher = read_certificate(directory / VOUCHER, mend=_INIT)
        certificate, *old = read_certificates(path, most=2, mend=_INIT)
        previous = old[0] if old else None
    else:
        certificate = read_certificate(path, mend=_INIT)
    key = check_key(directory / AUTHORITY_KEY, certificate, mend=_INIT)
    check_validity(path, certificate, now, mend="the overlay needs a new authority")
    return Authority(directory, certificate, key, previous, voucher if previous else None)


def issue_identity(
    authority: Authority,
    directory: Path,
    *,
    role: Role,
    lifetime: timedelta,
    uid: Uid | None = None,
    now: datetime | None = None,
) -> Identity:
    """Issue an identity, with a random uid unless one is given, and write its folder.

    It ends with ``lifetime`` or with the authority, whichever comes first.

    Raises:
        IdentityError: the folder holds an identity or authority already, or cannot be written; or
            the uid is revoked, or has a certificate already that is in force.
    """
    now = now or datetime.now(UTC)
    key = Ed25519PrivateKey.generate()
    name = PeerIdentity(uid or Uid(secrets.token_hex(16)), role)
    with locked(authority.directory):
        _check_unused(authority, name.uid, now)
        certificate = _sign(authority, name, key.public_key(), lifetime, now)
        files = _identity_files(authority, certificate)
        write_new(directory, {IDENTITY_KEY: key_pem(key), **files})
        _record(authority, certificate, name, now)
    return _as_identity(authority, certificate, name, directory)


def renew_identity(
    authority: Authority,
    directory: Path,
    *,
    lifetime: timedelta,
    new_key: bool = False,
    now: datetime | None = None,
) -> Identity:
    """Put a new certificate in place of the one in ``directory``; uid and role stay.

    The key stays too, and need not be there, unless ``new_key`` is set. A broker that runs with the
    folder takes the new files up by itself. One that has expired can be renewed.

    Raises:
        IdentityError: there is no certificate of this authority, or of the one before it, in the
            folder; its uid is revoked; or the folder cannot be written.
    """
    now = now or datetime.now(UTC)
    path = directory / IDENTITY_CERTIFICATE
    mend = "name a folder made by 'chordal identity issue'"
    old = read_certificates(path, most=2, mend=mend)[0]
    name = name_in(old)
    if name is None or not any(is_issued_by(old, signer) for signer in authority.trusted):
        raise IdentityError(
            f"{path}: not issued by the authority in {authority.directory}; "
            "name the one it came from, or issue a new identity"
        )
    key = Ed25519PrivateKey.generate() if new_key else None
    public = key.public_key() if key is not None else old.public_key()
    assert isinstance(public, Ed25519PublicKey)
    with locked(authority.directory):
        certificate = _sign(authority, name, public, lifetime, now)
        files = _identity_files(authority, certificate)
        replace_files(
            directory, {**({IDENTITY_KEY: key_pem(key)} if key is not None else {}), **files}
        )
        _record(authority, certificate, name, now)
    return _as_identity(authority, certificate, name, directory)


def _check_unused(authority: Authority, uid: Uid, now: datetime) -> None:
    """Check that nobody holds ``uid``: two that do would be taken for one another.

    Raises:
        IdentityError: somebody does.
    """
    held = [e for e in read_issued(authority.directory, now) if e.uid == uid and not e.revoked]
    if held:
        end = max(entry.not_after for entry in held)
        raise IdentityError(
            f"{uid} has a certificate already, in force until {end:%Y-%m-%d %H:%M} UTC; for "
            f"another one in its place run 'chordal identity renew {authority.directory} DIR' "
            "with the folder that holds it, for somebody else leave --uid out"
        )


def _sign(
    authority: Authority,
    name: PeerIdentity,
    key: Ed25519PublicKey,
    lifetime: timedelta,
    now: datetime,
) -> x509.Certificate:
    if any(e.revoked and e.uid == name.uid for e in read_issued(authority.directory, now)):
        raise IdentityError(f"{name.uid} is revoked; issue an identity with another uid")
    not_after = min(now + lifetime, authority.not_after)
    subject = authority.certificate.subject
    return identity_certificate(subject, authority.key, name, key, now, not_after)


def _identity_files(authority: Authority, certificate: x509.Certificate) -> dict[str, bytes]:
    """Return what is public in an identity's folder, in the order in which it is to be replaced."""
    vouchers = (authority.voucher,) if authority.voucher is not None else ()
    files = {
        IDENTITY_CERTIFICATE: certificates_pem(certificate, *vouchers),
        AUTHORITY_CERTIFICATE: certificates_pem(*authority.trusted),
    }
    revoked = authority.directory / REVOKED
    if read_revoked(revoked) is not None:
        files[REVOKED], _ = read_regular(revoked, MAX_FILE_BYTES)
    return files


def _record(
    authority: Authority, certificate: x509.Certificate, name: PeerIdentity, now: datetime
) -> None:
    known = read_issued(authority.directory, now)
    write_issued(authority.directory, [*known, issued_as(certificate, name)])


def _as_identity(
    authority: Authority, certificate: x509.Certificate, name: PeerIdentity, directory: Path
) -> Identity:
    return Identity(
        name.uid,
        name.role,
        certificate.not_valid_after_utc,
        directory,
        certificate.serial_number,
        authority.trusted,
    )
