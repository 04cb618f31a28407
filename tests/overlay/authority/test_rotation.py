"""Renewal, change of the authority, revocation: what stands in the files, and who trusts whom."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from overlay.authority.authority import (
    VOUCHER,
    Authority,
    create_authority,
    issue_identity,
    load_authority,
    renew_identity,
)
from overlay.authority.issued import issued_as
from overlay.authority.revoking import revoke_certificate, revoke_uid, sign_list
from overlay.authority.rotation import finish_rotation, not_renewed, rotate_authority
from overlay.errors import IdentityError, ProtocolError
from overlay.ids import Uid
from overlay.security.credentials import Credentials
from overlay.security.identity import Identity, PeerIdentity, Role, load_identity
from overlay.security.keyfiles import REVOKED, check_key, read_certificates, read_revoked
from overlay.security.revocation import MAX_LIST_BYTES, UIDS_EXTENSION, Revocations, check_list
from tests.overlay.security.test_tls_handshake import exchange, on_memory

DAY = timedelta(days=1)
UID = Uid("0123456789abcdef" * 2)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return create_authority(tmp_path / "authority", name="test", lifetime=100 * DAY)


def broker(authority: Authority, directory: Path) -> Identity:
    return issue_identity(authority, directory, role=Role.BROKER, lifetime=DAY)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def can_link(server: Identity, client: Identity) -> bool:
    called = Credentials(server).server_context
    assert called is not None
    ends = on_memory(called, Credentials(client).client_context)
    return await exchange(*ends) == (None, None)


# Renewal


@pytest.mark.parametrize("new_key", [False, True])
def test_a_renewed_identity_keeps_uid_and_role(
    authority: Authority, tmp_path: Path, new_key: bool
) -> None:
    old = broker(authority, tmp_path / "a")
    key = old.key.read_bytes()
    renewed = renew_identity(authority, tmp_path / "a", lifetime=20 * DAY, new_key=new_key)
    assert load_identity(tmp_path / "a") == renewed
    assert (renewed.uid, renewed.role) == (old.uid, old.role)
    assert renewed.not_after - old.not_after > 18 * DAY
    assert renewed.serial != old.serial
    assert (old.key.read_bytes() != key) == new_key
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a").iterdir()}
    assert modes == {0o600}


def test_a_key_kept_elsewhere_is_not_needed_to_renew(authority: Authority, tmp_path: Path) -> None:
    old = broker(authority, tmp_path / "a")
    key = old.key.read_bytes()
    old.key.unlink()
    renew_identity(authority, tmp_path / "a", lifetime=20 * DAY)
    assert not old.key.exists()
    old.key.write_bytes(key)
    old.key.chmod(0o600)
    assert load_identity(tmp_path / "a").uid == old.uid


def test_an_expired_identity_can_be_renewed(authority: Authority, tmp_path: Path) -> None:
    past = datetime.now(UTC) - 3 * DAY
    issue_identity(authority, tmp_path / "a", role=Role.CLIENT, lifetime=DAY, now=past)
    with pytest.raises(IdentityError, match=r"expired.*chordal identity renew"):
        load_identity(tmp_path / "a")
    renewed = renew_identity(authority, tmp_path / "a", lifetime=DAY)
    assert load_identity(tmp_path / "a") == renewed


def test_a_foreign_identity_is_not_renewed(authority: Authority, tmp_path: Path) -> None:
    other = create_authority(tmp_path / "other", name="test", lifetime=DAY)
    broker(other, tmp_path / "a")
    before = contents(tmp_path / "a")
    with pytest.raises(IdentityError, match="not issued by the authority"):
        renew_identity(authority, tmp_path / "a", lifetime=DAY)
    with pytest.raises(IdentityError, match="chordal identity issue"):
        renew_identity(authority, tmp_path / "none", lifetime=DAY)
    assert contents(tmp_path / "a") == before


def test_a_renewal_that_fails_leaves_all_as_it_was(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker(authority, tmp_path / "a")
    before = contents(tmp_path / "a")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(IdentityError, match="No space left"):
        renew_identity(authority, tmp_path / "a", lifetime=DAY, new_key=True)
    assert contents(tmp_path / "a") == before


# Change of the authority


async def test_all_can_link_at_every_step_of_a_change(authority: Authority, tmp_path: Path) -> None:
    """Old ones, renewed ones and new ones, each with each, both ways."""
    old, renewed = broker(authority, tmp_path / "old"), broker(authority, tmp_path / "renewed")
    rotated = rotate_authority(authority, lifetime=200 * DAY)
    assert load_authority(authority.directory).previous == authority.certificate
    renewed = renew_identity(rotated, tmp_path / "renewed", lifetime=DAY)
    fresh = broker(rotated, tmp_path / "fresh")
    for server, client in product((old, renewed, fresh), repeat=2):
        assert await can_link(server, client), (server.directory, client.directory)
    assert len(load_identity(tmp_path / "renewed").authorities) == 2

    assert [entry.uid for entry in not_renewed(rotated)] == [old.uid]
    with pytest.raises(IdentityError, match=old.uid):
        finish_rotation(rotated)
    finish_rotation(rotated, force=True)
    finished = load_authority(authority.directory)
    assert finished.trusted == (rotated.certificate,)
    last = renew_identity(finished, tmp_path / "fresh", lifetime=DAY)
    assert len(load_identity(tmp_path / "fresh").authorities) == 1
    assert await can_link(last, renewed)
    assert await can_link(renewed, last)
    assert not await can_link(last, old)
    assert not await can_link(old, last), "nobody vouches for the new authority any more"


def test_the_old_key_is_not_kept_and_signs_no_more(authority: Authority, tmp_path: Path) -> None:
    before = (authority.directory / "authority.key").read_bytes()
    rotate_authority(authority, lifetime=DAY)
    assert all(before not in content for content in contents(authority.directory).values())


def test_changes_in_the_wrong_order(authority: Authority) -> None:
    with pytest.raises(IdentityError, match="chordal identity rotate"):
        finish_rotation(authority)
    rotated = rotate_authority(authority, lifetime=DAY)
    with pytest.raises(IdentityError, match="--finish"):
        rotate_authority(rotated, lifetime=DAY)


def test_a_new_authority_that_the_old_one_did_not_vouch_for_is_not_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    """Who can write a second authority beside the first must have had the first one's key."""
    rotated = rotate_authority(authority, lifetime=DAY)
    issued = broker(rotated, tmp_path / "a")
    other = create_authority(tmp_path / "other", name="test", lifetime=DAY)
    pem = other.certificate.public_bytes(Encoding.PEM)
    issued.authority.write_bytes(rotated.certificate.public_bytes(Encoding.PEM) + pem)
    with pytest.raises(IdentityError, match="does not vouch"):
        load_identity(tmp_path / "a")


# Revocation


def test_a_list_names_the_revoked_and_counts_on(authority: Authority, tmp_path: Path) -> None:
    a, b = broker(authority, tmp_path / "a"), broker(authority, tmp_path / "b")
    renew_identity(authority, tmp_path / "a", lifetime=DAY)
    first = revoke_uid(authority, a.uid)
    second = revoke_certificate(authority, tmp_path / "b" / "identity.crt")
    assert first.number == 1
    assert first.uids == {a.uid}
    assert second.number == 2
    assert second.uids == {a.uid, b.uid}
    parsed = x509.load_der_x509_crl(second.crl)
    assert {a.serial, b.serial} < {entry.serial_number for entry in parsed}
    assert len(list(parsed)) == 3
    assert stat.S_IMODE((authority.directory / REVOKED).stat().st_mode) == 0o600


def test_a_folder_that_others_may_write_into_is_not_renewed_and_the_mend_is_told(
    authority: Authority, tmp_path: Path
) -> None:
    before = broker(authority, tmp_path / "a")
    before.directory.chmod(0o770)
    mend = rf"{before.directory}: writable by group or others; chmod 750 {before.directory}$"
    with pytest.raises(IdentityError, match=mend):
        renew_identity(authority, before.directory, lifetime=DAY)
    before.directory.chmod(0o750)
    assert renew_identity(authority, before.directory, lifetime=DAY).serial != before.serial


def test_a_revoked_uid_gets_no_further_certificate(authority: Authority, tmp_path: Path) -> None:
    revoked = broker(authority, tmp_path / "a")
    revoke_uid(authority, revoked.uid)
    with pytest.raises(IdentityError, match="is revoked"):
        renew_identity(authority, tmp_path / "a", lifetime=DAY)
    with pytest.raises(IdentityError, match="is revoked"):
        issue_identity(authority, tmp_path / "b", role=Role.BROKER, lifetime=DAY, uid=revoked.uid)


def test_who_was_never_issued_cannot_be_revoked(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="no certificate of that uid"):
        revoke_uid(authority, UID)
    other = create_authority(tmp_path / "other", name="test", lifetime=DAY)
    broker(other, tmp_path / "a")
    with pytest.raises(IdentityError, match="not issued by"):
        revoke_certificate(authority, tmp_path / "a")
    assert not (authority.directory / REVOKED).exists()


def test_one_from_before_the_record_is_revoked_by_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    issued = broker(authority, tmp_path / "a")
    (authority.directory / "issued.json").unlink()
    assert revoke_certificate(authority, tmp_path / "a").uids == {issued.uid}


def test_a_list_forgets_what_has_expired_by_itself(authority: Authority, tmp_path: Path) -> None:
    a = broker(authority, tmp_path / "a")
    b = issue_identity(authority, tmp_path / "b", role=Role.BROKER, lifetime=10 * DAY)
    revoke_uid(authority, a.uid)
    later = datetime.now(UTC) + 2 * DAY
    assert revoke_uid(authority, b.uid, now=later).uids == {b.uid}


def test_a_full_list_still_fits_a_message_and_one_more_is_refused(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = issued_as(
        x509.load_pem_x509_certificate(broker(authority, tmp_path / "a").certificate.read_bytes()),
        PeerIdentity(UID, Role.BROKER),
    )
    many = [
        type(entry)(
            f"{(1 << 158) + n:x}", f"{n:032x}", Role.BROKER, entry.not_after, entry.authority, True
        )
        for n in range(1000)
    ]
    made = sign_list(authority, many, datetime.now(UTC))
    assert len(made.uids) == 1000
    assert len(made.crl) < MAX_LIST_BYTES
    with pytest.raises(IdentityError, match="a list holds 1000"):
        sign_list(authority, [*many, many[0]], datetime.now(UTC))


def test_only_a_higher_number_is_news(authority: Authority, tmp_path: Path) -> None:
    first = revoke_uid(authority, broker(authority, tmp_path / "a").uid)
    second = revoke_uid(authority, broker(authority, tmp_path / "b").uid)
    known = Revocations(load_identity(tmp_path / "a").authorities)
    assert known.learn(second.crl) == second
    assert known.learn(first.crl) is None
    assert known.learn(second.crl) is None
    assert known.current == second


def test_a_list_of_the_new_authority_counts_for_who_knows_only_the_old_one(
    authority: Authority, tmp_path: Path
) -> None:
    a = broker(authority, tmp_path / "a")
    before = revoke_uid(authority, a.uid)
    rotated = rotate_authority(authority, lifetime=DAY)
    resigned = read_revoked(authority.directory / REVOKED)
    assert resigned is not None
    for trusted in ((authority.certificate,), (rotated.certificate,)):
        known = Revocations(trusted)
        found = known.learn(*resigned)
        assert found is not None
        assert found.number == before.number + 1
        assert found.uids == {a.uid}
    with pytest.raises(ProtocolError, match="not from this authority"):
        Revocations((authority.certificate,)).learn(resigned[0])


@pytest.mark.parametrize("at", [0, 10, 100, -1])
def test_a_list_that_was_changed_does_not_count(
    authority: Authority, tmp_path: Path, at: int
) -> None:
    crl = bytearray(revoke_uid(authority, broker(authority, tmp_path / "a").uid).crl)
    crl[at] ^= 1
    with pytest.raises(ProtocolError, match="list of revoked"):
        check_list(bytes(crl), b"", (authority.certificate,))


def test_an_identity_cannot_sign_a_list(authority: Authority, tmp_path: Path) -> None:
    """A holder who signs with its own key, and offers its own certificate as the voucher."""
    thief = broker(authority, tmp_path / "a")
    key = check_key(
        thief.key, x509.load_pem_x509_certificate(thief.certificate.read_bytes()), mend=""
    )
    certificate = x509.load_pem_x509_certificate(thief.certificate.read_bytes())
    posing = Authority(tmp_path / "a", certificate, key)
    revoke_certificate(authority, tmp_path / "a")
    forged = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.subject)
        .last_update(datetime.now(UTC))
        .next_update(datetime.now(UTC) + DAY)
        .add_extension(x509.CRLNumber(99), critical=False)
        .add_extension(
            x509.UnrecognizedExtension(UIDS_EXTENSION, bytes(16)),
            critical=False,
        )
        .sign(posing.key, algorithm=None)
        .public_bytes(Encoding.DER)
    )
    with pytest.raises(ProtocolError, match="not from this authority"):
        check_list(forged, certificate.public_bytes(Encoding.DER), (authority.certificate,))


def test_who_vouches_for_itself_cannot_sign_a_list(authority: Authority, tmp_path: Path) -> None:
    """A whole authority of somebody else's, of the same name, that offers itself as the voucher."""
    foreign = create_authority(tmp_path / "foreign", name="test", lifetime=DAY)
    forged = revoke_uid(foreign, broker(foreign, tmp_path / "a").uid)
    voucher = foreign.certificate.public_bytes(Encoding.DER)
    check_list(forged.crl, voucher, (foreign.certificate,))
    with pytest.raises(ProtocolError, match="not from this authority"):
        check_list(forged.crl, voucher, (authority.certificate,))


def test_after_a_change_nobody_shows_a_voucher(authority: Authority, tmp_path: Path) -> None:
    a = tmp_path / "a"
    broker(authority, a)
    rotated = rotate_authority(authority, lifetime=DAY)
    renew_identity(rotated, a, lifetime=DAY)
    assert len(read_certificates(a / "identity.crt", most=2, mend="")) == 2
    finish_rotation(rotated)
    assert VOUCHER not in {path.name for path in authority.directory.iterdir()}
    renew_identity(load_authority(authority.directory), a, lifetime=DAY)
    assert len(read_certificates(a / "identity.crt", most=2, mend="")) == 1


@pytest.mark.parametrize("garbage", [b"", b"x", b"-----BEGIN X509 CRL-----\nAAAA\n"])
def test_a_file_that_is_no_list(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / REVOKED).write_bytes(garbage)
    with pytest.raises(IdentityError, match="not a PEM list"):
        read_revoked(tmp_path / REVOKED)
    assert read_revoked(tmp_path / "none") is None
