"""``chordal identity renew``, ``rotate`` and ``revoke``: what happens to identities later."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ges.cli.connection import tell_waiting
from ges.cli.durations import long_duration
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
from ges.cli.options import overlay_option, run_async
from ges.errors import SpreadRefused
from overlay.address import parse_urls
from overlay.errors import ChordalError, ConfigError
from overlay.wording import counted

if TYPE_CHECKING:
    from overlay.authority.authority import Authority
    from overlay.security.revocation import RevocationList


@click.command()
@click.argument("authority_dir", type=folder)
@click.argument("directories", metavar="DIR...", type=folder, nargs=-1, required=True)
@click.option("--new-key", is_flag=True, help="Make a new private key, too.")
@lifetime_options
@as_json_option
def renew(
    authority_dir: Path,
    directories: tuple[Path, ...],
    new_key: bool,
    days: int,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Put new certificates into identities' folders; uids stay, and brokers run on.

    A broker that runs with the folder takes the new certificate up within seconds. The private key
    need not be in the folder unless --new-key is given.
    """
    from overlay.authority.authority import load_authority, renew_identity

    authority = load_authority(authority_dir)
    for directory in directories:
        done = renew_identity(
            authority, directory, lifetime=lifetime_of(days, seconds), new_key=new_key
        )
        print_identity(done, directory, as_json)


@click.command()
@click.argument("authority_dir", type=folder)
@click.option("--finish", is_flag=True, help="End the change: trust the new authority alone.")
@click.option("--force", is_flag=True, help="With --finish: cut off who has not been renewed.")
@click.option(
    "--days",
    type=days_type,
    default=AUTHORITY_DAYS,
    show_default=True,
    help="Days until the new authority expires.",
)
@as_json_option
def rotate(authority_dir: Path, finish: bool, force: bool, days: int, as_json: bool) -> None:
    """Change the authority's key. Identities are then renewed, one by one, in any order.

    Until --finish the old authority counts beside the new one, and all can talk to all. The order:
    rotate, renew every identity, rotate --finish, and renew again by and by.
    """
    from overlay.authority.authority import load_authority
    from overlay.authority.rotation import finish_rotation, not_renewed, rotate_authority

    if force and not finish:
        raise click.UsageError("--force goes with --finish")
    authority = load_authority(authority_dir)
    if finish:
        done = finish_rotation(authority, force=force)
        waiting = 0
    else:
        done = rotate_authority(authority, lifetime=timedelta(days=days))
        waiting = len(not_renewed(done))
    if as_json:
        print_json(
            directory=str(authority_dir),
            not_after=done.not_after.isoformat(),
            authorities=len(done.trusted),
            to_renew=waiting,
        )
    elif finish:
        click.echo(f"{authority_dir}: the old authority counts no more for who is renewed from now")
    else:
        click.echo(
            f"{authority_dir}: new key, expires {when(done.not_after)}; "
            f"{counted(waiting, 'identity', 'identities')} to be renewed, "
            f"then 'chordal identity rotate {authority_dir} --finish'"
        )


@click.command()
@click.argument("authority_dir", type=folder)
@click.argument("who", metavar="UID|DIR|CERTIFICATE")
@click.option("--at", "url", metavar="URL", help="A broker with an identity, to spread the list.")
@click.option("--identity", "own", type=folder, metavar="DIR", help="Your own; for chordals://.")
@overlay_option
@click.option(
    "--timeout",
    type=long_duration,
    default="10s",
    show_default=True,
    metavar="TIME",
    help="For --at.",
)
@as_json_option
def revoke(
    authority_dir: Path,
    who: str,
    url: str | None,
    own: Path | None,
    overlay: str,
    timeout: float,
    as_json: bool,
) -> None:
    """Revoke an identity, for good. With --at the new list is spread to all brokers at once.

    Without --at, copy revoked.crl from the authority's folder into one running broker's identity
    folder; it spreads from there.
    """
    from overlay.authority.authority import load_authority

    if url is not None and any(address.tls for address in parse_urls([url])):
        _check_own(own)  # before anything is revoked
    revoked = _revoke(load_authority(authority_dir), who)
    if url is not None:
        try:
            run_async(_spread, revoked, url, own, overlay, timeout)
        except ChordalError as error:
            raise SpreadRefused(
                f"list {revoked.number} is in {authority_dir / 'revoked.crl'}, but not spread: "
                f"{error}; give the command again, or copy the list into a broker's identity folder"
            ) from error
    if as_json:
        print_json(
            directory=str(authority_dir),
            number=revoked.number,
            revoked=sorted(revoked.uids),
            spread_at=url,
        )
    else:
        place = (
            f"spread from {url}"
            if url
            else f"in {authority_dir / 'revoked.crl'}; not spread, --at does"
        )
        click.echo(f"list {revoked.number}, {len(revoked.uids)} revoked, {place}")


def _check_own(own: Path | None) -> None:
    from overlay.security.identity import load_identity

    if own is None:
        raise ConfigError("--at chordals://... needs --identity DIR")
    load_identity(own)


def _revoke(authority: Authority, who: str) -> RevocationList:
    from overlay.authority.revoking import revoke_certificate, revoke_uid
    from overlay.ids import parse_uid

    if Path(who).exists():
        return revoke_certificate(authority, Path(who))
    try:
        uid = parse_uid(who)
    except ConfigError as error:
        raise ConfigError(f"{who!r} is neither a uid, an identity's folder nor a file") from error
    return revoke_uid(authority, uid)


async def _spread(
    revoked: RevocationList, url: str, own: Path | None, overlay: str, timeout: float
) -> None:
    from ges.client import connect

    async with connect(
        url,
        identity=own,
        overlay=overlay,
        timeout=timeout,
        reattach=False,
        on_waiting=tell_waiting,
    ) as client:
        await client.spread(revoked)
