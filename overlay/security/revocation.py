"""Revoked identities: the list that the authority signs, and what a broker or client knows of it.

The list is an X.509 certificate revocation list (RFC 5280, section 5). Beside the serial numbers it
holds the uids they belong to, in an extension of its own: a uid that is revoked counts no more,
whichever certificate it shows. Lists are numbered, and only a higher number replaces what is known,
so an old list that is played again changes nothing. To check a list needs no clock.

While the authority is changed, those who know only the old one accept a list of the new one by the
*voucher*, a certificate in which the old one vouches for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ObjectIdentifier

from overlay.errors import ProtocolError
from overlay.security.identity import is_issued_by

MAX_REVOKED = 1000  #: certificates in one list; it then takes some 55 KB, less than a message may
MAX_LIST_BYTES = 60_000
MAX_VOUCHER_BYTES = 2_000

#: The revoked uids, 16 bytes each. From a UUID, as anybody may mint one (ITU-T X.667).
UIDS_EXTENSION = ObjectIdentifier("2.25.243182859053505485087374468785514150273")
UID_BYTES = 16


@dataclass(frozen=True, slots=True)
class RevocationList:
    """A list that was found to be from the authority."""

    number: int
    uids: frozenset[str]
    crl: bytes = field(repr=False)  #: DER
    voucher: bytes = field(repr=False, default=b"")  #: DER; empty: none is needed

    @property
    def pem(self) -> bytes:
        """The list as it stands in a file, with its voucher if it has one."""
        pem = x509.load_der_x509_crl(self.crl).public_bytes(Encoding.PEM)
        if self.voucher:
            pem += x509.load_der_x509_certificate(self.voucher).public_bytes(Encoding.PEM)
        return pem


class Revocations:
    """The newest list that is known here. Without I/O, clock or randomness."""

    def __init__(self, authorities: Sequence[x509.Certificate]) -> None:
        self._authorities = tuple(authorities)
        self.current: RevocationList | None = None

    def trust(self, authorities: Sequence[x509.Certificate]) -> None:
        """Check lists from now on by these; what is known already stays."""
        self._authorities = tuple(authorities)

    def learn(self, crl: bytes, voucher: bytes = b"") -> RevocationList | None:
        """Take a list heard of; returns it if it is news, and None if it is not newer.

        Raises:
            ProtocolError: it is no list, or not from the authority.
        """
        if self.current is not None and (crl, voucher) == (self.current.crl, self.current.voucher):
            return None
        found = check_list(crl, voucher, self._authorities)
        if self.current is not None and found.number <= self.current.number:
            return None
        self.current = found
        return found

    def forbids(self, uid: str) -> bool:
        """Say whether ``uid`` counts no more."""
        return self.current is not None and uid in self.current.uids


def check_list(
    crl: bytes, voucher: bytes, authorities: Sequence[x509.Certificate]
) -> RevocationList:
    """Read a list and check whose it is.

    Raises:
        ProtocolError: it is no list, too long, or not from one of ``authorities``.
    """
    if len(crl) > MAX_LIST_BYTES or len(voucher) > MAX_VOUCHER_BYTES:
        raise ProtocolError("a list of revoked identities that is too long")
    try:
        parsed = x509.load_der_x509_crl(crl)
        number = parsed.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        uids = parsed.extensions.get_extension_for_oid(UIDS_EXTENSION).value
        between = x509.load_der_x509_certificate(voucher) if voucher else None
        signed = any(_signed_by(parsed, between, authority) for authority in authorities)
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise ProtocolError("not a list of revoked identities") from error
    if not signed:
        raise ProtocolError("a list of revoked identities that is not from this authority")
    assert isinstance(uids, x509.UnrecognizedExtension)
    packed = uids.value
    if len(packed) % UID_BYTES:
        raise ProtocolError("a list of revoked identities whose uids make no sense")
    found = (packed[at : at + UID_BYTES] for at in range(0, len(packed), UID_BYTES))
    return RevocationList(number, frozenset(uid.hex() for uid in found), crl, voucher)


def _signed_by(
    crl: x509.CertificateRevocationList,
    voucher: x509.Certificate | None,
    authority: x509.Certificate,
) -> bool:
    key = authority.public_key()
    if isinstance(key, Ed25519PublicKey) and crl.is_signature_valid(key):
        return True
    if voucher is None or not is_issued_by(voucher, authority):
        return False
    usage = voucher.extensions.get_extension_for_class(x509.KeyUsage).value
    key = voucher.public_key()
    return usage.crl_sign and isinstance(key, Ed25519PublicKey) and crl.is_signature_valid(key)
