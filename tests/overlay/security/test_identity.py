"""Identities and the authority: what is written, with which modes, and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from overlay.authority.authority import Authority, create_authority, issue_identity, load_authority
from overlay.errors import ChordalError, IdentityError, ProtocolError
from overlay.ids import Uid
from overlay.security.identity import (
    Identity,
    PeerIdentity,
    Role,
    certified_identity,
    load_identity,
)
from overlay.security.keyfiles import MAX_FILE_BYTES, permission_warnings, read_revoked, unusable

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
UID = Uid("0123456789abcdef" * 2)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return create_authority(tmp_path / "authority", name="test", lifetime=100 * DAY, now=NOW)


@pytest.fixture
def identity(authority: Authority, tmp_path: Path) -> Identity:
    return broker(authority, tmp_path / "broker")


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def broker(authority: Authority, directory: Path, lifetime: timedelta = 30 * DAY) -> Identity:
    return issue_identity(authority, directory, role=Role.BROKER, lifetime=lifetime, now=NOW)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def refused(directory: Path, *words: str, now: datetime = NOW) -> None:
    """Loading the identity fails with one line that holds all the words."""
    with pytest.raises(IdentityError) as caught:
        load_identity(directory, now=now)
    text = str(caught.value)
    assert "\n" not in text
    assert [word for word in words if word not in text] == [], text


# What is issued


def test_an_issued_identity_loads(authority: Authority, tmp_path: Path) -> None:
    issued = issue_identity(
        authority, tmp_path / "a", role=Role.CLIENT, uid=UID, lifetime=30 * DAY, now=NOW
    )
    assert load_identity(tmp_path / "a", now=NOW) == issued
    assert (issued.uid, issued.role) == (UID, Role.CLIENT)
    assert issued.not_after == NOW + 30 * DAY


def test_uids_are_random_and_well_formed(authority: Authority, tmp_path: Path) -> None:
    uids = {broker(authority, tmp_path / str(i)).uid for i in range(5)}
    assert len(uids) == 5
    assert all(re.fullmatch("[0-9a-f]{32}", uid) for uid in uids)


@pytest.mark.parametrize(
    ("role", "uses"),
    [
        (Role.BROKER, [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
        (Role.CLIENT, [ExtendedKeyUsageOID.CLIENT_AUTH]),
    ],
)
def test_the_certificate_says_role_uid_and_use(
    authority: Authority, tmp_path: Path, role: Role, uses: list[x509.ObjectIdentifier]
) -> None:
    issued = issue_identity(
        authority, tmp_path / "a", role=role, uid=UID, lifetime=30 * DAY, now=NOW
    )
    found = certificate(issued.certificate)
    get = found.extensions.get_extension_for_class
    uris = get(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.UniformResourceIdentifier
    )
    assert uris == [f"urn:chordal:{role}:{UID}"]
    assert list(get(x509.ExtendedKeyUsage).value) == uses
    assert get(x509.KeyUsage).value.digital_signature
    assert not get(x509.KeyUsage).value.key_cert_sign
    assert not get(x509.BasicConstraints).value.ca
    signer = certificate(issued.authority).extensions
    assert (
        get(x509.AuthorityKeyIdentifier).value.key_identifier
        == signer.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    )
    assert timedelta() < NOW - found.not_valid_before_utc <= timedelta(minutes=10)


def test_the_authority_signs_identities_and_no_further_authorities(authority: Authority) -> None:
    get = authority.certificate.extensions.get_extension_for_class
    assert get(x509.BasicConstraints).value == x509.BasicConstraints(ca=True, path_length=0)
    assert get(x509.KeyUsage).value.key_cert_sign
    assert get(x509.KeyUsage).value.crl_sign


def test_no_identity_outlives_its_authority(authority: Authority, tmp_path: Path) -> None:
    issued = broker(authority, tmp_path / "a", lifetime=1000 * DAY)
    assert issued.not_after == authority.not_after


def test_the_authority_loads_again_and_signs(authority: Authority, tmp_path: Path) -> None:
    again = load_authority(authority.directory, now=NOW)
    broker(again, tmp_path / "a")
    assert load_identity(tmp_path / "a", now=NOW).role is Role.BROKER


def test_no_key_shows_when_values_are_printed(authority: Authority, identity: Identity) -> None:
    assert "Key" not in repr(authority)
    assert "PRIVATE" not in repr(identity)


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 65, "é" * 33, "\udc80"])
def test_a_name_no_certificate_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IdentityError, match="--name"):
        create_authority(tmp_path / "a", name=name, lifetime=DAY, now=NOW)
    assert not (tmp_path / "a").exists()


# Files, their modes, and never overwriting


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, mask: int) -> None:
    os.umask(mask)
    authority = create_authority(tmp_path / "authority", name="test", lifetime=DAY, now=NOW)
    broker(authority, tmp_path / "broker")
    for directory in (tmp_path / "authority", tmp_path / "broker"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_the_key_is_never_open_to_others_not_even_at_first(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("the mode is set at creation, not afterwards")

    for name in ("chmod", "fchmod"):
        monkeypatch.setattr(os, name, forbidden)
    monkeypatch.setattr(Path, "chmod", forbidden)
    broker(authority, tmp_path / "a")


def test_nothing_is_overwritten(authority: Authority, identity: Identity) -> None:
    before = contents(authority.directory), contents(identity.directory)
    with pytest.raises(IdentityError, match="exists already"):
        create_authority(authority.directory, name="test", lifetime=DAY, now=NOW)
    with pytest.raises(IdentityError, match="exists already"):
        broker(authority, identity.directory)
    with pytest.raises(IdentityError, match="exists already"):
        broker(authority, authority.directory)
    assert (contents(authority.directory), contents(identity.directory)) == before


def test_an_existing_empty_folder_is_used_unless_others_may_write_into_it(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    broker(authority, tmp_path / "mine")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    mends = rf"writable by group or others; chmod 755 {tmp_path}/open, or name a folder of your own"
    with pytest.raises(IdentityError, match=mends):
        broker(authority, tmp_path / "open")


def test_a_file_in_the_folders_place_is_refused(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IdentityError, match="file"):
        broker(authority, tmp_path / "file")
    with pytest.raises(IdentityError, match="file"):
        broker(authority, tmp_path / "file" / "below")


def test_permission_warnings_name_the_file_and_the_mend(identity: Identity) -> None:
    assert permission_warnings(identity.directory) == []
    identity.directory.chmod(0o755)
    identity.key.chmod(0o640)
    identity.authority.chmod(0o666)
    identity.certificate.chmod(0o644)
    folder, key, anchor = permission_warnings(identity.directory)
    assert f"chmod 700 {identity.directory}" in folder
    assert f"chmod 600 {identity.key}" in key
    assert f"chmod 644 {identity.authority}" in anchor


# What is not loaded


def test_a_missing_folder(tmp_path: Path) -> None:
    refused(tmp_path / "none", str(tmp_path / "none"), "No such file", "chordal identity issue")


@pytest.mark.parametrize("name", ["identity.crt", "identity.key", "authority.crt"])
def test_a_missing_file(identity: Identity, name: str) -> None:
    (identity.directory / name).unlink()
    refused(identity.directory, str(identity.directory / name), "No such file", "; ")


def test_a_file_of_another_user(tmp_path: Path) -> None:
    # Root, who may run these tests, is never denied; so the system's answer is handed in.
    denied = unusable(tmp_path, PermissionError(13, "Permission denied"), "make another one")
    assert str(denied) == f"{tmp_path}: Permission denied; run as the user who owns it"


@pytest.mark.parametrize("name", ["identity.crt", "identity.key", "authority.crt"])
@pytest.mark.parametrize("garbage", [b"", b"\xff\x00", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_garbage_in_a_file(identity: Identity, name: str, garbage: bytes) -> None:
    (identity.directory / name).write_bytes(garbage)
    refused(identity.directory, str(identity.directory / name), "PEM")


@pytest.mark.parametrize("name", ["identity.crt", "identity.key", "authority.crt"])
def test_what_is_no_file_of_a_sane_size_is_not_read(identity: Identity, name: str) -> None:
    path = identity.directory / name
    content = path.read_bytes()
    path.write_bytes(content + b"#" * MAX_FILE_BYTES)
    refused(identity.directory, str(path), f"larger than {MAX_FILE_BYTES} bytes")
    path.unlink()
    path.symlink_to("/dev/null")
    refused(identity.directory, str(path), "Not a regular file")


def test_nor_is_such_a_list_of_revoked_identities(identity: Identity) -> None:
    identity.revoked.symlink_to("/dev/null")
    with pytest.raises(IdentityError, match=r"revoked\.crl: Not a regular file"):
        read_revoked(identity.revoked)


def test_a_file_cut_short(identity: Identity) -> None:
    identity.certificate.write_bytes(identity.certificate.read_bytes()[:-60])
    refused(identity.directory, str(identity.certificate), "not a PEM certificate")


def test_a_second_authority_in_the_trust_anchor(identity: Identity, tmp_path: Path) -> None:
    other = create_authority(tmp_path / "other", name="test", lifetime=DAY, now=NOW)
    second = (other.directory / "authority.crt").read_bytes()
    identity.authority.write_bytes(identity.authority.read_bytes() + second)
    refused(identity.directory, str(identity.authority), "single")


def test_the_key_of_another_certificate(
    authority: Authority, identity: Identity, tmp_path: Path
) -> None:
    other = broker(authority, tmp_path / "other")
    shutil.copy(other.key, identity.key)
    refused(identity.directory, str(identity.key), "does not match")


def test_a_key_of_another_kind(identity: Identity) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    identity.key.write_bytes(pem)
    refused(identity.directory, str(identity.key), "not an Ed25519 key")


def test_an_encrypted_key(identity: Identity) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    identity.key.write_bytes(pem)
    refused(identity.directory, str(identity.key), "unencrypted")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_key_open_to_others(identity: Identity, mode: int) -> None:
    identity.key.chmod(mode)
    refused(identity.directory, str(identity.key), "open to group or others", "chmod 600")


def test_an_expired_certificate(identity: Identity) -> None:
    load_identity(identity.directory, now=identity.not_after)
    late = identity.not_after + timedelta(seconds=1)
    refused(identity.directory, str(identity.certificate), "expired on 2030-01-31", now=late)


def test_a_certificate_of_the_future(identity: Identity) -> None:
    refused(identity.directory, "not valid before 2030-01-01", "clock", now=NOW - DAY)


def test_an_expired_authority_says_so(authority: Authority, identity: Identity) -> None:
    late = NOW + 101 * DAY
    refused(identity.directory, str(identity.authority), "new authority", now=late)
    with pytest.raises(IdentityError, match="new authority"):
        load_authority(authority.directory, now=late)


def test_a_foreign_authority_of_the_same_name(identity: Identity, tmp_path: Path) -> None:
    other = create_authority(tmp_path / "other", name="test", lifetime=100 * DAY, now=NOW)
    shutil.copy(other.directory / "authority.crt", identity.authority)
    refused(identity.directory, str(identity.certificate), "not signed by")


def test_a_certificate_without_uid_and_role(authority: Authority, identity: Identity) -> None:
    key = Ed25519PrivateKey.generate()
    identity.certificate.write_bytes(
        signed(authority, key, []).public_bytes(Encoding.PEM),
    )
    identity.key.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    refused(identity.directory, str(identity.certificate), "no uid and role")


def test_folders_mistaken_for_each_other(authority: Authority, identity: Identity) -> None:
    refused(authority.directory, "an authority's folder", "chordal identity issue")
    with pytest.raises(IdentityError, match=r"an identity's folder.*chordal identity init"):
        load_authority(identity.directory, now=NOW)


def test_an_authority_key_open_to_others_does_not_sign(authority: Authority) -> None:
    (authority.directory / "authority.key").chmod(0o644)
    with pytest.raises(IdentityError, match="chmod 600"):
        load_authority(authority.directory, now=NOW)


# What a peer's certificate says


def test_a_peers_certificate_names_it(identity: Identity) -> None:
    der = certificate(identity.certificate).public_bytes(Encoding.DER)
    assert certified_identity(der) == PeerIdentity(identity.uid, Role.BROKER)


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["urn:chordal:king:" + UID],
        ["urn:chordal:broker:" + UID.upper()],
        ["urn:chordal:broker:" + UID + "00"],
        ["x-urn:chordal:broker:" + UID],
        ["urn:chordal:broker:" + UID, "urn:chordal:client:" + UID],
    ],
)
def test_a_certificate_that_names_nobody(authority: Authority, uris: list[str]) -> None:
    der = signed(authority, Ed25519PrivateKey.generate(), uris).public_bytes(Encoding.DER)
    with pytest.raises(ProtocolError, match="no uid and role"):
        certified_identity(der)


def test_bytes_that_are_no_certificate() -> None:
    with pytest.raises(ProtocolError, match="cannot be read") as caught:
        certified_identity(b"\x30\x03abc")
    assert isinstance(caught.value, ChordalError)


def signed(authority: Authority, key: Ed25519PrivateKey, uris: list[str]) -> x509.Certificate:
    """Sign a certificate with arbitrary URIs, as a careless authority might."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "someone")]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + DAY)
    )
    if uris:
        names = [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(authority.key, algorithm=None)
