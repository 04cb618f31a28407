"""Changing the authority's key while the overlay runs.

:func:`rotate_authority` makes a new key. For a while both authorities count: an identity issued or
renewed from then on is signed by the new one, trusts both, and shows a *voucher*, the old one's
certificate for the new key, by which those who trust only the old one accept it. So identities may
be renewed one by one, in any order, and every pair of brokers can link at every moment.
:func:`finish_rotation` ends that: what is renewed afterwards trusts the new authority alone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from overlay.authority.authority import VOUCHER, Authority
from overlay.authority.certificates import authority_certificate
from overlay.authority.issued import Issued, read_issued
from overlay.authority.revoking import sign_list
from overlay.errors import IdentityError
from overlay.security.keyfiles import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    REVOKED,
    certificates_pem,
    key_pem,
    locked,
    replace_files,
)
from overlay.wording import counted


def rotate_authority(
    authority: Authority, *, lifetime: timedelta, now: datetime | None = None
) -> Authority:
    """Give the authority a new key and certificate under its old name; the old key is not kept.

    Raises:
        IdentityError: a change is under way already, or the folder cannot be written.
    """
    now = now or datetime.now(UTC)
    if authority.previous is not None:
        raise IdentityError(
            f"{authority.directory}: the authority is being changed already; renew all identities, "
            "then 'chordal identity rotate --finish'"
        )
    old, subject = authority.certificate, authority.certificate.subject
    key = Ed25519PrivateKey.generate()
    certificate = authority_certificate(subject, key, key, now, now + lifetime)
    voucher = authority_certificate(subject, key, authority.key, now, authority.not_after)
    rotated = Authority(authority.directory, certificate, key, old, voucher)
    with locked(authority.directory):
        replace_files(
            authority.directory,
            {
                VOUCHER: certificates_pem(voucher),
                AUTHORITY_CERTIFICATE: certificates_pem(certificate, old),
                AUTHORITY_KEY: key_pem(key),
            },
        )
        if (authority.directory / REVOKED).exists():
            # Under the new key, so that it still counts when the old one does no more.
            sign_list(rotated, read_issued(authority.directory, now), now)
    return rotated


def not_renewed(authority: Authority, *, now: datetime | None = None) -> tuple[Issued, ...]:
    """Return what is still held of the old authority: per uid the last certificate, if it is so."""
    now = now or datetime.now(UTC)
    latest = {entry.uid: entry for entry in read_issued(authority.directory, now)}
    signer = key_id(authority)
    return tuple(e for e in latest.values() if e.authority != signer and not e.revoked)


def finish_rotation(
    authority: Authority, *, force: bool = False, now: datetime | None = None
) -> Authority:
    """Drop the old authority.

    Raises:
        IdentityError: no change is under way; identities are still to be renewed (unless
            ``force``); or the folder cannot be written.
    """
    if authority.previous is None:
        raise IdentityError(
            f"{authority.directory}: the authority is not being changed; begin with "
            "'chordal identity rotate'"
        )
    waiting = () if force else not_renewed(authority, now=now)
    if waiting:
        names = ", ".join(entry.uid for entry in waiting[:3])
        raise IdentityError(
            f"{authority.directory}: {counted(len(waiting), 'identity', 'identities')} "
            f"still of the old authority ({names}{', ...' if len(waiting) > 3 else ''}); renew or "
            "revoke them first, or give --force to cut them off"
        )
    with locked(authority.directory):
        replace_files(
            authority.directory, {AUTHORITY_CERTIFICATE: certificates_pem(authority.certificate)}
        )
        (authority.directory / VOUCHER).unlink(missing_ok=True)
    return Authority(authority.directory, authority.certificate, authority.key)


def key_id(authority: Authority) -> str:
    """Return the id of the key that signs now, hexadecimal, as :class:`Issued` has it."""
    own = x509.SubjectKeyIdentifier.from_public_key(authority.key.public_key())
    return own.digest.hex()
