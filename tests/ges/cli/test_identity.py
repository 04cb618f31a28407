"""``chordal identity``: init, issue, show, for people and for machines."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ges.cli.main import cli
from ges.errors import EventError
from overlay.authority.authority import issue_identity, load_authority
from overlay.errors import ConfigError, IdentityError
from overlay.ids import Uid
from overlay.security.identity import Role, load_identity

UID = "00112233445566778899aabbccddeeff"


def chordal(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["identity", *map(str, arguments)])


def printed(*arguments: str | Path, exit_code: int = 0) -> dict[str, Any]:
    """The one JSON object a command prints."""
    result = chordal(*arguments, "--json")
    assert result.exit_code == exit_code, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    assert chordal("init", tmp_path / "authority").exit_code == 0
    return tmp_path / "authority"


def test_the_way_from_authority_to_identity(tmp_path: Path) -> None:
    made = printed("init", tmp_path / "ca", "--name", "my overlay", "--days", "50")
    assert made["name"] == "my overlay"
    issued = printed("issue", tmp_path / "ca", tmp_path / "b", "--broker", "--days", "20")
    loaded = load_identity(tmp_path / "b")
    assert (issued["uid"], issued["role"]) == (loaded.uid, Role.BROKER)
    assert datetime.fromisoformat(issued["not_after"]) == loaded.not_after
    shown = printed("show", tmp_path / "b")
    assert shown["role"] == "broker"
    assert shown["uid"] == loaded.uid
    assert shown["authority"] == "CN=my overlay"
    assert shown["days_left"] == 19
    assert shown["refusal"] is None
    assert shown["warnings"] == []


def test_issue_tells_people_uid_and_expiry(authority: Path, tmp_path: Path) -> None:
    result = chordal("issue", authority, tmp_path / "c", "--client", "--uid", UID)
    loaded = load_identity(tmp_path / "c")
    assert (loaded.uid, loaded.role) == (UID, Role.CLIENT)
    assert 29 <= (loaded.not_after - datetime.now(UTC)).days <= 30
    assert UID in result.stdout
    assert f"{loaded.not_after:%Y-%m-%d}" in result.stdout


def test_a_uid_is_given_to_one_holder(authority: Path, tmp_path: Path) -> None:
    """For a new certificate there is renew; once the old one has ended the uid is free again."""
    first, second = tmp_path / "first", tmp_path / "second"
    issue_identity(
        load_authority(authority), first, role=Role.BROKER, uid=Uid(UID), lifetime=timedelta(days=1)
    )
    refused = chordal("issue", authority, second, "--client", "--uid", UID)
    assert isinstance(refused.exception, IdentityError)
    assert f"{UID} has a certificate already" in str(refused.exception)
    assert f"chordal identity renew {authority}" in str(refused.exception)
    assert not second.exists()
    assert chordal("renew", authority, first).exit_code == 0
    assert chordal("issue", authority, second, "--client").exit_code == 0
    much_later = datetime.now(UTC) + timedelta(days=40)
    issue_identity(
        load_authority(authority),
        tmp_path / "third",
        role=Role.BROKER,
        uid=Uid(UID),
        lifetime=timedelta(days=1),
        now=much_later,
    )


def test_no_private_key_is_printed(authority: Path, tmp_path: Path) -> None:
    outputs = [
        chordal("issue", authority, tmp_path / "c", "--client").output,
        chordal("show", tmp_path / "c").output,
        chordal("show", authority).output,
    ]
    for path in (authority / "authority.key", tmp_path / "c" / "identity.key"):
        secret = path.read_text().splitlines()[1]
        assert all(secret not in output for output in outputs)


@pytest.mark.parametrize("roles", [[], ["--broker", "--client"]])
def test_exactly_one_role(authority: Path, tmp_path: Path, roles: list[str]) -> None:
    result = chordal("issue", authority, tmp_path / "c", *roles)
    assert result.exit_code == 2
    assert "--broker or --client" in result.stderr
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("uid", ["", "abc", UID.upper(), UID + "0", "g" * 32])
def test_a_bad_uid(authority: Path, tmp_path: Path, uid: str) -> None:
    result = chordal("issue", authority, tmp_path / "c", "--client", "--uid", uid)
    assert isinstance(result.exception, ConfigError)
    assert "32 lower-case hexadecimal digits" in str(result.exception)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("days", ["0", "-1", "36501", "soon"])
def test_a_bad_number_of_days(tmp_path: Path, days: str) -> None:
    result = chordal("init", tmp_path / "ca", "--days", days)
    assert result.exit_code == 2
    assert "--days" in result.stderr


def test_a_second_init_is_refused_and_changes_nothing(authority: Path) -> None:
    before = (authority / "authority.key").read_bytes()
    result = chordal("init", authority)
    assert isinstance(result.exception, IdentityError)
    assert (authority / "authority.key").read_bytes() == before


def test_show_of_an_authority(authority: Path) -> None:
    shown = printed("show", authority)
    assert (shown["role"], shown["uid"], shown["refusal"]) == ("authority", None, None)
    assert shown["days_left"] == 3649
    result = chordal("show", authority)
    assert "authority" in result.stdout
    assert result.stdout.splitlines()[-1] == "usable"


def test_show_of_an_identity_whose_key_is_open(authority: Path, tmp_path: Path) -> None:
    chordal("issue", authority, tmp_path / "b", "--broker")
    (tmp_path / "b").chmod(0o755)
    (tmp_path / "b" / "identity.key").chmod(0o644)
    result = chordal("show", tmp_path / "b")
    assert result.exit_code == 1
    *_, warning, last = result.stdout.splitlines()
    assert warning.startswith("warning: ")
    assert f"chmod 700 {tmp_path / 'b'}" in warning
    assert last.startswith("not usable: ")
    assert "identity.key" in last
    assert "identity.key" in printed("show", tmp_path / "b", exit_code=1)["refusal"]


def test_show_of_an_expired_identity(authority: Path, tmp_path: Path) -> None:
    past = datetime.now(UTC) - timedelta(days=10)
    issue_identity(
        load_authority(authority),
        tmp_path / "b",
        role=Role.BROKER,
        lifetime=timedelta(days=1),
        now=past,
    )
    shown = printed("show", tmp_path / "b", exit_code=1)
    assert shown["days_left"] < 0
    assert "expired on" in shown["refusal"]


def test_a_damaged_list_of_revoked_identities_is_shown_and_not_handed_on(
    authority: Path, tmp_path: Path
) -> None:
    assert chordal("issue", authority, tmp_path / "b", "--broker").exit_code == 0
    (tmp_path / "b" / "revoked.crl").write_text("no list")
    assert "revoked.crl: not a PEM list" in printed("show", tmp_path / "b", exit_code=1)["refusal"]
    (authority / "revoked.crl").write_text("no list")
    with pytest.raises(IdentityError, match=r"revoked\.crl: not a PEM list"):
        load_then_issue(authority, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def load_then_issue(authority: Path, folder: Path) -> None:
    issue_identity(load_authority(authority), folder, role=Role.BROKER, lifetime=timedelta(days=1))


@pytest.mark.parametrize("below", ["", "nowhere"])
def test_show_of_a_folder_that_holds_neither(tmp_path: Path, below: str) -> None:
    result = chordal("show", tmp_path / below)
    assert isinstance(result.exception, IdentityError)
    assert str(tmp_path) in str(result.exception)


def test_importing_the_command_does_not_load_cryptography() -> None:
    program = (
        "import sys, ges.cli.identity; sys.exit(any('cryptography' in m for m in sys.modules))"
    )
    finished = subprocess.run([sys.executable, "-c", program], check=False)
    assert finished.returncode == 0


# Later


def test_renew_keeps_the_uid_and_says_until_when(authority: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        chordal("issue", authority, tmp_path / name, "--broker")
    before = load_identity(tmp_path / "a")
    renewed = printed("renew", authority, tmp_path / "a", "--for", "90s")
    after = load_identity(tmp_path / "a")
    assert (renewed["uid"], renewed["role"]) == (before.uid, "broker") == (after.uid, after.role)
    assert 80 < (after.not_after - datetime.now(UTC)).total_seconds() <= 90
    assert printed("show", tmp_path / "a")["seconds_left"] <= 90
    both = chordal("renew", authority, tmp_path / "a", tmp_path / "b", "--new-key")
    assert len(both.stdout.splitlines()) == 2


@pytest.mark.parametrize("text", ["0s", "5", "1w", "-3d", "40000d", ""])
def test_a_duration_that_is_none(authority: Path, tmp_path: Path, text: str) -> None:
    result = chordal("issue", authority, tmp_path / "a", "--broker", "--for", text)
    assert result.exit_code == 2
    assert "--for" in result.stderr
    assert not (tmp_path / "a").exists()


def test_how_long_is_said_once(authority: Path, tmp_path: Path) -> None:
    result = chordal("issue", authority, tmp_path / "a", "--broker", "--for", "3h", "--days", "2")
    assert result.exit_code == 2
    assert "not with both" in result.stderr
    assert not (tmp_path / "a").exists()


def test_force_alone_changes_no_authority(authority: Path) -> None:
    result = chordal("rotate", authority, "--force")
    assert result.exit_code == 2
    assert "--finish" in result.stderr
    assert printed("rotate", authority)["authorities"] == 2


def test_rotate_tells_how_many_are_to_be_renewed_and_waits_for_them(
    authority: Path, tmp_path: Path
) -> None:
    chordal("issue", authority, tmp_path / "a", "--broker")
    begun = printed("rotate", authority)
    assert (begun["authorities"], begun["to_renew"]) == (2, 1)
    early = chordal("rotate", authority, "--finish")
    assert isinstance(early.exception, IdentityError)
    assert "--force" in str(early.exception)
    chordal("renew", authority, tmp_path / "a")
    assert printed("rotate", authority, "--finish")["authorities"] == 1


def test_revoke_by_uid_by_folder_and_by_certificate(authority: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        chordal("issue", authority, tmp_path / name, "--broker")
    uids = [load_identity(tmp_path / name).uid for name in ("a", "b", "c")]
    named: list[str | Path] = [uids[0], tmp_path / "b", tmp_path / "c" / "identity.crt"]
    for number, who in enumerate(named, 1):
        told = printed("revoke", authority, who)
        assert (told["number"], told["revoked"]) == (number, sorted(uids[:number]))
    assert printed("show", authority)["revoked"] == 3
    assert "not spread" in chordal("revoke", authority, uids[0]).stdout
    (tmp_path / "a" / "revoked.crl").write_bytes((authority / "revoked.crl").read_bytes())
    assert "is revoked" in printed("show", tmp_path / "a", exit_code=1)["refusal"]


@pytest.mark.parametrize(
    ("at", "named"), [("http://x", "is not a broker URL"), ("chordals://127.0.0.1:1", "--identity")]
)
def test_a_wrong_place_to_spread_at_revokes_nobody(
    authority: Path, tmp_path: Path, at: str, named: str
) -> None:
    chordal("issue", authority, tmp_path / "a", "--broker")
    result = chordal("revoke", authority, tmp_path / "a", "--at", at)
    assert isinstance(result.exception, ConfigError)
    assert named in str(result.exception)
    assert printed("show", authority)["revoked"] == 0


def test_a_list_that_cannot_be_spread_is_kept_and_the_command_says_so(
    authority: Path, tmp_path: Path
) -> None:
    chordal("issue", authority, tmp_path / "a", "--broker")
    result = chordal(
        "revoke", authority, tmp_path / "a", "--at", "chordal://127.0.0.1:1", "--timeout", "1s"
    )
    assert isinstance(result.exception, EventError)
    assert str(result.exception).startswith("list 1 is in ")
    assert "but not spread" in str(result.exception)
    assert printed("show", authority)["revoked"] == 1


def test_revoke_of_what_is_no_identity(authority: Path, tmp_path: Path) -> None:
    result = chordal("revoke", authority, "nobody")
    assert isinstance(result.exception, ConfigError)
    assert "neither a uid" in str(result.exception)
    result = chordal("revoke", authority, UID)
    assert "no certificate of that uid" in str(result.exception)
    result = chordal("revoke", authority, tmp_path)
    assert isinstance(result.exception, IdentityError)


def test_the_list_has_all_that_is_in_force_and_what_is_to_be_renewed(
    authority: Path, tmp_path: Path
) -> None:
    assert printed("list", authority)["identities"] == []
    for name, role in (("b", "--broker"), ("c", "--client")):
        assert chordal("issue", authority, tmp_path / name, role).exit_code == 0
    broker, client = (load_identity(tmp_path / name) for name in ("b", "c"))
    assert chordal("revoke", authority, client.uid).exit_code == 0
    rows = printed("list", authority)["identities"]
    assert [(row["role"], row["uid"], row["revoked"]) for row in rows] == [
        ("broker", broker.uid, False),
        ("client", client.uid, True),
    ]
    assert 29 * 86_400 < rows[0]["seconds_left"] <= 30 * 86_400
    assert not any(row["old_authority"] for row in rows)
    assert chordal("rotate", authority).exit_code == 0
    assert chordal("renew", authority, tmp_path / "b").exit_code == 0
    rows = printed("list", authority)["identities"]
    assert [row["old_authority"] for row in rows if row["uid"] == broker.uid].count(False) == 1
    told = chordal("list", authority).output
    assert "revoked, old authority" in told
    assert "3 certificates in force" in told


def test_the_list_of_no_authority_is_an_error(tmp_path: Path) -> None:
    result = chordal("list", tmp_path)
    assert isinstance(result.exception, IdentityError)
