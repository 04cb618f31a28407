"""The authority's side of revocation: which certificates count no more, and the list of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from overlay.authority.authority import Authority
from overlay.authority.issued import Issued, issued_as, read_issued, write_issued
from overlay.errors import IdentityError
from overlay.ids import Uid
from overlay.security.identity import is_issued_by, name_in
from overlay.security.keyfiles import (
    IDENTITY_CERTIFICATE,
    REVOKED,
    locked,
    read_certificates,
    read_revoked,
    replace_files,
)
from overlay.security.revocation import (
    MAX_REVOKED,
    UIDS_EXTENSION,
    RevocationList,
    check_list,
)


def revoke_uid(authority: Authority, uid: Uid, *, now: datetime | None = None) -> RevocationList:
    """Revoke all certificates of ``uid``, write the new list beside the authority, and return it.

    Raises:
        IdentityError: no certificate of that uid is known and in force, the list is full, or the
            authority's folder cannot be written.
    """
    now = now or datetime.now(UTC)
    with locked(authority.directory):
        issued = read_issued(authority.directory, now)
        if not any(entry.uid == uid for entry in issued):
            raise IdentityError(
                f"{uid}: no certificate of that uid is known to be in force; "
                "name the folder of the identity, or its certificate, instead"
            )
        return _revoke(authority, uid, issued, now)


def revoke_certificate(
    authority: Authority, path: Path, *, now: datetime | None = None
) -> RevocationList:
    """Do the same for the uid that a certificate names; ``path`` is the file, or its folder.

    Raises:
        IdentityError: as above, or it is no certificate of this authority.
    """
    now = now or datetime.now(UTC)
    file = path / IDENTITY_CERTIFICATE if path.is_dir() else path
    certificate = read_certificates(file, most=2, mend="name an identity's folder, or its uid")[0]
    name = name_in(certificate)
    if name is None or not any(is_issued_by(certificate, a) for a in authority.trusted):
        raise IdentityError(f"{file}: not issued by the authority in {authority.directory}")
    entry = issued_as(certificate, name)
    with locked(authority.directory):
        issued = read_issued(authority.directory, now)
        if entry.not_after > now and all(known.serial != entry.serial for known in issued):
            issued.append(entry)  # from before the authority kept a record
        if not any(known.uid == name.uid for known in issued):
            raise IdentityError(f"{file}: expired already; nothing is to be revoked")
        return _revoke(authority, name.uid, issued, now)


def list_in(authority: Authority) -> RevocationList | None:
    """Return the newest list in the authority's folder; None: nothing was ever revoked.

    Raises:
        IdentityError: it is unreadable.
    """
    found = read_revoked(authority.directory / REVOKED)
    return None if found is None else check_list(*found, authority.trusted)


def sign_list(authority: Authority, issued: list[Issued], now: datetime) -> RevocationList:
    """Write the next list; the folder is locked.

    Raises:
        IdentityError: it would be too long, or cannot be written.
    """
    revoked = [entry for entry in issued if entry.revoked]
    if len(revoked) > MAX_REVOKED:
        raise IdentityError(
            f"{authority.directory}: {len(revoked)} certificates are revoked, a list holds "
            f"{MAX_REVOKED}; wait until some expire, and issue for fewer days, or rotate the "
            "authority"
        )
    before = list_in(authority)
    uids = b"".join(bytes.fromhex(uid) for uid in sorted({entry.uid for entry in revoked}))
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(now)
        .next_update(max(now, authority.not_after))
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
        .add_extension(
            x509.CRLNumber(before.number + 1 if before is not None else 1), critical=False
        )
        .add_extension(x509.UnrecognizedExtension(UIDS_EXTENSION, uids), critical=False)
    )
    for entry in revoked:
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder()
            .serial_number(int(entry.serial, 16))
            .revocation_date(now)
            .build()
        )
    crl = builder.sign(authority.key, algorithm=None).public_bytes(Encoding.DER)
    voucher = authority.voucher.public_bytes(Encoding.DER) if authority.voucher is not None else b""
    made = check_list(crl, voucher, authority.trusted)
    replace_files(authority.directory, {REVOKED: made.pem})
    return made


def _revoke(authority: Authority, uid: Uid, issued: list[Issued], now: datetime) -> RevocationList:
    marked = [
        Issued(e.serial, e.uid, e.role, e.not_after, e.authority, revoked=True)
        if e.uid == uid
        else e
        for e in issued
    ]
    made = sign_list(authority, marked, now)
    write_issued(authority.directory, marked)
    return made
