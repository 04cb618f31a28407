"""How certificates of authorities and identities are made; who signs what is decided elsewhere."""

from __future__ import annotations

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from overlay.errors import IdentityError
from overlay.security.identity import PeerIdentity, Role

#: How far certificates reach into the past: a peer whose clock is a little slow accepts them.
CLOCK_TOLERANCE = timedelta(minutes=5)

MAX_NAME_BYTES = 64  #: X.509's bound of a common name

_USES = {
    # A broker is called by some and calls others; TLS asks for one use on each side.
    Role.BROKER: [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
    Role.CLIENT: [ExtendedKeyUsageOID.CLIENT_AUTH],
}


def authority_certificate(
    subject: x509.Name,
    key: Ed25519PrivateKey,
    signer: Ed25519PrivateKey,
    now: datetime,
    not_after: datetime,
) -> x509.Certificate:
    """Return an authority's certificate, by itself or by the authority before it, of one name.

    A certificate whose issuer has the name of its subject does not count for ``path_length``
    (RFC 5280, 4.2.1.9), so the change of an authority's key needs no intermediate authorities.
    """
    signer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        _begin(subject, key.public_key(), now, not_after)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(signer_id, critical=False)
        .sign(signer, algorithm=None)
    )


def identity_certificate(
    issuer: x509.Name,
    signer: Ed25519PrivateKey,
    name: PeerIdentity,
    key: Ed25519PublicKey,
    now: datetime,
    not_after: datetime,
) -> x509.Certificate:
    """Return the certificate of a broker or client."""
    authority_key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        _begin(named(name.uid), key, now, not_after)
        .issuer_name(issuer)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_USES[name.role]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(name.urn)]), critical=False
        )
        .add_extension(authority_key_id, critical=False)
        .sign(signer, algorithm=None)
    )


def named(name: str) -> x509.Name:
    """Return an X.509 name.

    Raises:
        IdentityError: ``name`` cannot stand in one.
    """
    if not name.strip() or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
        raise IdentityError(
            f"{name!r} cannot name an authority; "
            f"give 1 to {MAX_NAME_BYTES} bytes of printable text with --name"
        )
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


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
