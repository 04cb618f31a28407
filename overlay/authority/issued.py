"""The authority's own record of the certificates it has signed that have not ended yet.

It is what turns a uid into serial numbers when an identity is revoked, and what says who still
holds a certificate of an old authority. One file in the authority's folder, ``issued.json``; change
it only while the folder is locked (:func:`overlay.security.keyfiles.locked`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec
from cryptography import x509

from overlay.errors import IdentityError
from overlay.ids import WireUid
from overlay.security.identity import PeerIdentity, Role
from overlay.security.keyfiles import replace_files, unusable
from overlay.security.regular_file import read_regular

ISSUED = "issued.json"
MAX_BYTES = 256 * 1024 * 1024  #: a million certificates in force


class Issued(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One certificate."""

    serial: str  #: hexadecimal
    uid: WireUid
    role: Role
    not_after: datetime
    authority: str  #: hexadecimal id of the key that signed it
    revoked: bool = False


def issued_as(
    certificate: x509.Certificate, name: PeerIdentity, *, revoked: bool = False
) -> Issued:
    """Return the entry of a certificate of ours."""
    signer = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    return Issued(
        f"{certificate.serial_number:x}",
        name.uid,
        name.role,
        certificate.not_valid_after_utc,
        (signer.key_identifier or b"").hex(),
        revoked,
    )


def read_issued(directory: Path, now: datetime) -> list[Issued]:
    """Return the certificates that have not ended at ``now``; none if no record was kept.

    Raises:
        IdentityError: the record is unreadable or damaged.
    """
    path = directory / ISSUED
    try:
        entries = msgspec.json.decode(read_regular(path, MAX_BYTES)[0], type=list[Issued])
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unusable(path, error, "see who owns it") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise IdentityError(
            f"{path}: damaged ({error}); restore it, or remove it and revoke by certificate"
        ) from error
    return [entry for entry in entries if entry.not_after > now]


def write_issued(directory: Path, entries: Iterable[Issued]) -> None:
    """Replace the record.

    Raises:
        IdentityError: the operating system refuses.
    """
    replace_files(directory, {ISSUED: msgspec.json.format(msgspec.json.encode(list(entries)))})
