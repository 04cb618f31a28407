"""Certificates as a web server and those who call it have them: by an authority of their own."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class WebAuthority:
    """Issues certificates; its own is written to ``folder/ca.crt``."""

    def __init__(self, folder: Path, name: str = "test") -> None:
        folder.mkdir(exist_ok=True)
        self.certificate = folder / "ca.crt"
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate.write_bytes(_pem(own.sign(self._key, hashes.SHA256())))

    def issue(self, certificate: Path, key: Path) -> int:
        """Write a certificate for 127.0.0.1 and its key, and return its serial number."""
        own = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, certificate.stem)])
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        signed = (
            self._builder(name, own.public_key())
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        certificate.write_bytes(_pem(signed))
        key.touch(0o600)
        key.write_bytes(
            own.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return signed.serial_number

    def client(self, *, certified_by: WebAuthority | None = None) -> ssl.SSLContext:
        """Return how to call a server of this authority; shows a certificate, if told whose."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if certified_by is not None:
            certificate, key = self._folder / "client.crt", self._folder / "client.key"
            certified_by.issue(certificate, key)
            context.load_cert_chain(certificate, key)
        return context

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
