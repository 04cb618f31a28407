"""``chordal identity``: make the overlay's authority, issue identities from it, look at both.

What happens to them later is in :mod:`ges.cli.identity_life`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from ges.cli.identity_life import renew, revoke, rotate
from ges.cli.identity_options import (
    AUTHORITY_DAYS,
    as_json_option,
    days_type,
    folder,
    lifetime_of,
    lifetime_options,
    print_identity,
    print_json,
    when,
)

LABELS = {"revoked": "list revokes"}  #: of facts that are called otherwise in JSON

# overlay.identity and overlay.authority load the cryptography package, which takes longer than the
# rest of the command: each command imports them when it runs.


@click.group()
def identity() -> None:
    """Create the overlay's authority; issue, renew, revoke and inspect identities."""


for _command in (renew, rotate, revoke):
    identity.add_command(_command)


@identity.command()
@click.argument("directory", metavar="DIR", type=folder)
@click.option("--name", default="chordal overlay", show_default=True, help="Name of the authority.")
@click.option(
    "--days",
    type=days_type,
    default=AUTHORITY_DAYS,
    show_default=True,
    help="Days until it expires.",
)
@as_json_option
def init(directory: Path, name: str, days: int, as_json: bool) -> None:
    """Create the authority of a new overlay in DIR.

    Keep DIR/authority.key away from the brokers: a holder of it can become any of them.
    """
    from overlay.authority.authority import create_authority

    authority = create_authority(directory, name=name, lifetime=timedelta(days=days))
    if as_json:
        print_json(directory=str(directory), name=name, not_after=authority.not_after.isoformat())
    else:
        click.echo(f"authority {name!r} in {directory}, expires {when(authority.not_after)}")


@identity.command()
@click.argument("authority_dir", type=folder)
@click.argument("out_dir", type=folder)
@click.option("--broker", is_flag=True, help="For a broker, which accepts connections.")
@click.option("--client", is_flag=True, help="For a client, which only makes them.")
@click.option("--uid", metavar="HEX32", help="Its uid, 32 lower-case hex digits; default random.")
@lifetime_options
@as_json_option
def issue(
    authority_dir: Path,
    out_dir: Path,
    broker: bool,
    client: bool,
    uid: str | None,
    days: int,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Issue an identity from the authority in AUTHORITY_DIR into OUT_DIR."""
    from overlay.authority.authority import issue_identity, load_authority
    from overlay.ids import parse_uid
    from overlay.security.identity import Role

    if broker == client:
        raise click.UsageError("say what the identity is for: --broker or --client, one of them")
    issued = issue_identity(
        load_authority(authority_dir),
        out_dir,
        role=Role.BROKER if broker else Role.CLIENT,
        uid=None if uid is None else parse_uid(uid),
        lifetime=lifetime_of(days, seconds),
    )
    print_identity(issued, out_dir, as_json)


@identity.command()
@click.argument("directory", metavar="DIR", type=folder)
@as_json_option
def show(directory: Path, as_json: bool) -> None:
    """Show the identity or authority in DIR, and what is wrong with it.

    The exit code is 1 if it cannot be used.
    """
    from overlay.authority.authority import load_authority
    from overlay.errors import IdentityError
    from overlay.security.identity import load_identity, name_in
    from overlay.security.keyfiles import (
        AUTHORITY_CERTIFICATE,
        IDENTITY_CERTIFICATE,
        file_names,
        permission_warnings,
        read_certificates,
    )

    mend = "name a folder made by 'chordal identity init' or 'chordal identity issue'"
    is_identity = IDENTITY_CERTIFICATE in file_names(directory, mend=mend)
    file = IDENTITY_CERTIFICATE if is_identity else AUTHORITY_CERTIFICATE
    certificate = read_certificates(directory / file, most=2, mend=mend)[0]
    now = datetime.now(UTC)
    refusal = None
    try:
        (load_identity if is_identity else load_authority)(directory, now=now)
    except IdentityError as error:
        refusal = str(error)
    warnings = [warning for warning in permission_warnings(directory) if warning != refusal]
    name = name_in(certificate) if is_identity else None
    try:
        revoked = _revoked(directory)
    except IdentityError as error:
        revoked = frozenset()
        refusal = refusal or str(error)
    if refusal is None and name is not None and name.uid in revoked:
        refusal = f"{name.uid} is revoked; issue an identity with another uid"
    facts = {
        "role": "authority" if not is_identity else name.role if name else None,
        "uid": name.uid if name else None,
        "authority": certificate.issuer.rfc4514_string(),
        "serial": f"{certificate.serial_number:x}",
        "not_before": certificate.not_valid_before_utc.isoformat(),
        "not_after": certificate.not_valid_after_utc.isoformat(),
        "days_left": (certificate.not_valid_after_utc - now).days,
        "revoked": len(revoked),
        "seconds_left": round((certificate.not_valid_after_utc - now).total_seconds()),
    }
    if as_json:
        print_json(directory=str(directory), **facts, refusal=refusal, warnings=warnings)
    else:
        for label, value in facts.items():
            shown = LABELS.get(label, label.replace("_", " "))
            click.echo(f"{shown:<13} {'-' if value is None else value}")
        for warning in warnings:
            click.echo(f"warning: {warning}")
        click.echo("usable" if refusal is None else f"not usable: {refusal}")
    if refusal is not None:
        click.get_current_context().exit(1)


@identity.command("list")
@click.argument("authority_dir", type=folder)
@as_json_option
def list_identities(authority_dir: Path, as_json: bool) -> None:
    """List the certificates that the authority in AUTHORITY_DIR has issued and that are in force.

    Revoked ones are listed, too, until they end. After 'identity rotate' it says who still has a
    certificate of the old authority.
    """
    from overlay.authority.authority import load_authority
    from overlay.authority.issued import read_issued
    from overlay.authority.rotation import key_id

    now = datetime.now(UTC)
    signer = key_id(load_authority(authority_dir))
    found = sorted(read_issued(authority_dir, now), key=lambda e: (e.role, e.uid, e.not_after))
    rows = [
        {
            "role": each.role,
            "uid": each.uid,
            "serial": each.serial,
            "not_after": each.not_after.isoformat(),
            "seconds_left": round((each.not_after - now).total_seconds()),
            "revoked": each.revoked,
            "old_authority": each.authority != signer,
        }
        for each in found
    ]
    if as_json:
        print_json(authority=str(authority_dir), identities=rows)
        return
    from rich.table import Table

    from ges.cli.options import console
    from overlay.wording import counted, lasting

    table = Table("role", "uid", "expires", "in", "", box=None)
    for each, row in zip(found, rows, strict=True):
        remarks = [word for word in ("revoked", "old_authority") if row[word]]
        left = lasting((each.not_after - now).total_seconds())
        table.add_row(
            each.role, each.uid, when(each.not_after), left, ", ".join(remarks).replace("_", " ")
        )
    console().print(table)
    click.echo(f"{counted(len(found), 'certificate')} in force")


def _revoked(directory: Path) -> frozenset[str]:
    """Return the uids on the list in the folder; none if it is not the authority's beside it.

    Raises:
        IdentityError: the list is damaged.
    """
    from overlay.errors import IdentityError, ProtocolError
    from overlay.security.keyfiles import (
        AUTHORITY_CERTIFICATE,
        REVOKED,
        read_certificates,
        read_revoked,
    )
    from overlay.security.revocation import check_list

    found = read_revoked(directory / REVOKED)
    try:
        authorities = read_certificates(directory / AUTHORITY_CERTIFICATE, most=2, mend="")
        return frozenset() if found is None else check_list(*found, authorities).uids
    except (IdentityError, ProtocolError):
        return frozenset()
