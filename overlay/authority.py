"""The overlay's own certificate authority: making it, and issuing identities from it.

One authority stands behind one overlay, directly: there are no intermediates, and nobody else's
certificates count. What it writes is described in :mod:`overlay.identity`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from overlay.errors import IdentityError
from overlay.identity import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    IDENTITY_CERTIFICATE,
    IDENTITY_KEY,
    Identity,
    PeerIdentity,
    Role,
    check_key,
    check_validity,
    file_names,
    read_certificate,
    unusable,
)
from overlay.ids import Uid

#: How far certificates reach into the past: a peer whose clock is a little slow accepts them.
CLOCK_TOLERANCE = timedelta(minutes=5)

MAX_NAME_BYTES = 64  #: X.509's bound of a common name

_INIT = "make an authority with 'chordal identity init DIR'"
_USES = {
    # A broker is called by some and calls others; TLS asks for one use on each side.
    Role.BROKER: [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
    Role.CLIENT: [ExtendedKeyUsageOID.CLIENT_AUTH],
}


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority that can sign. Holds the private key: keep it no longer than the signing."""

    directory: Path
    certificate: x509.Certificate
    key: Ed25519PrivateKey = field(repr=False)

    @property
    def not_after(self) -> datetime:
        """End of its life, UTC; nothing it signs outlives it."""
        return self.certificate.not_valid_after_utc


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
    subject = _named(name)
    certificate = (
        _begin(subject, key.public_key(), now, now + lifetime)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, algorithm=None)
    )
    _write(
        directory,
        {AUTHORITY_CERTIFICATE: _pem(certificate), AUTHORITY_KEY: _key_pem(key)},
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
    certificate = read_certificate(path, mend=_INIT)
    key = check_key(directory / AUTHORITY_KEY, certificate, mend=_INIT)
    check_validity(path, certificate, now, mend="the overlay needs a new authority")
    return Authority(directory, certificate, key)


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
        IdentityError: the folder holds an identity or authority already, or cannot be written.
    """
    now = now or datetime.now(UTC)
    key = Ed25519PrivateKey.generate()
    name = PeerIdentity(uid or Uid(secrets.token_hex(16)), role)
    authority_key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(
        authority.key.public_key()
    )
    certificate = (
        _begin(_named(name.uid), key.public_key(), now, min(now + lifetime, authority.not_after))
        .issuer_name(authority.certificate.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_USES[role]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(name.urn)]), critical=False
        )
        .add_extension(authority_key_id, critical=False)
        .sign(authority.key, algorithm=None)
    )
    _write(
        directory,
        {
            IDENTITY_CERTIFICATE: _pem(certificate),
            IDENTITY_KEY: _key_pem(key),
            AUTHORITY_CERTIFICATE: _pem(authority.certificate),
        },
    )
    return Identity(name.uid, role, certificate.not_valid_after_utc, directory)


def _begin(
    subject: x509.Name, key: Ed25519PublicKey, now: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_TOLERANCE)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _named(name: str) -> x509.Name:
    if not name.strip() or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
        raise IdentityError(
            f"{name!r} cannot name an authority; "
            f"give 1 to {MAX_NAME_BYTES} bytes of printable text with --name"
        )
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write new files into a folder, all of them or none; nothing is overwritten.

    Raises:
        IdentityError: a file is there already, others may write into the folder, or the
            operating system refuses.
    """
    mend = "name a folder of your own"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_mode & 0o022:
            raise IdentityError(f"{directory}: writable by group or others; {mend}")
    except OSError as error:
        raise unusable(directory, error, mend) from error
    with ExitStack() as undo:
        for name, content in files.items():
            path = directory / name
            try:
                # O_EXCL also refuses a symbolic link, so no file elsewhere can be written through.
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                undo.callback(path.unlink, missing_ok=True)
                with open(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(descriptor)
            except FileExistsError as error:
                raise IdentityError(
                    f"{path}: exists already and is not overwritten; name another folder"
                ) from error
            except OSError as error:
                raise unusable(path, error, mend) from error
        undo.pop_all()
