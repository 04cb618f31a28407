"""``chordal ring``: walk the live ring and check it."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.names import labelled, names_of
from ges.cli.options import (
    console,
    run_async,
    tell,
    warn_of_partial,
)
from ges.cli.walking import check_together, checking_options, walk_until
from overlay.address import shown
from overlay.ids import short
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.operations.resilience import Resilience
    from ges.operations.walk import Walk

UID_COLUMNS = 8  #: of the start of a uid


@click.command()
@checking_options("order, symmetry, completeness and backups are right", "the ring is whole")
def ring(
    check: bool,
    wait: float,
    expect: int | None,
    as_json: bool,
    connection: Connection,
) -> None:
    """Walk the ring from the broker given, to the right, and print it.

    With --check every broker's four pointers are compared with the ideal ring of those met, and
    nobody may be pointed at who was not met; exit code 1 says that something is wrong, and what.
    A broker that does not answer is given some seconds, for the ring to close over it.
    It also tells how many brokers the links can lose, whichever they are, before the others fall
    apart, and where they are weakest. A broker that owns records must have them backed up on its
    neighbours, up to date.
    """
    from ges.operations.backup_check import judge_backups
    from ring.errors import InvariantBroken

    check_together(check, wait, expect)
    judge = partial(_judge, expect, measured=check)
    walk, resilience = run_async(walk_until, connection, wait, judge)
    if as_json:
        click.echo(json.dumps(_as_json(walk, resilience)))
    else:
        _print(walk)
        for name, found in resilience.items():
            tell(_in_words(walk, name, found))
        if check and not resilience:
            click.echo("links: what they survive is not known, as not all brokers were met")
        if check:
            tell(judge_backups(walk.brokers).in_words)
    if not check:
        warn_of_partial(walk)
    elif walk.findings:
        if not as_json and len(walk.findings) > 1:
            for finding in walk.findings:
                tell(f"chordal: warning: {finding}", err=True)
        raise InvariantBroken(walk.findings)
    elif not as_json:
        click.echo(f"the ring of {len(walk.brokers)} is whole: ordered, symmetric, complete")


def _judge(
    expect: int | None, walk: Walk, is_last: bool, *, measured: bool
) -> tuple[Walk, dict[str, Resilience]] | None:
    """Return the walk with what is wrong, and what the links survive; None: it may be put right."""
    if expect is not None:
        walk = walk.expecting(expect)
    if walk.findings and not is_last:
        return None
    resilience = _resilience(walk) if measured else {}
    walk = walk.with_findings(_in_parts(resilience))
    return (walk, resilience) if not walk.findings or is_last else None


def _resilience(walk: Walk) -> dict[str, Resilience]:
    """Return what the links survive, all and ring links alone; nothing if brokers are missing.

    Of some of the brokers alone it would say little of the ring.
    """
    if walk.is_partial or walk.passed_over:
        return {}
    from ges.operations.resilience import live_links, measure, ring_links

    return {
        "links": measure(live_links(walk.brokers)),
        "ring_links": measure(ring_links(walk.brokers)),
    }


def _in_parts(resilience: dict[str, Resilience]) -> list[str]:
    return [
        f"the {name.replace('_', ' ')} leave the brokers in {len(found.parts)} parts"
        for name, found in resilience.items()
        if len(found.parts) > 1 and not found.k
    ]


def _in_words(walk: Walk, name: str, found: Resilience) -> str:
    start = f"{name.replace('_', ' ')}: {found.links} between {counted(found.brokers, 'broker')}; "
    if found.is_complete:
        return start + "each is linked to each, so they survive any loss"
    parts = " and ".join(map(str, found.parts))
    if not found.k:
        return start + f"they leave the brokers in parts of {parts}"
    about = "" if found.is_exact else "at most (the ring is large, so cuts are sampled) "
    ids = {status.uid: status.member.ring_id for status in walk.brokers if status.member}
    label = labelled(names_of(walk.brokers))
    cut = ", ".join(f"{label(uid)} (ring id {ids.get(uid, '-')})" for uid in found.cut)
    return start + (
        f"they survive the loss of any {about}{found.survives}; "
        f"a weakest cut, of {found.k}, leaves parts of {parts}: {cut}"
    )


def _print(walk: Walk) -> None:
    from rich.table import Column, Table

    have_names = any(status.name for status in walk.brokers)
    names = ("name",) if have_names else ()
    label = labelled(names_of(walk.brokers))
    between = ", " if have_names else " "
    # Where a terminal is narrow, what is to be copied stays whole: URLs and the starts of uids.
    broker, url = Column("broker", no_wrap=True), Column("url", no_wrap=True)
    around = (Column(name, min_width=UID_COLUMNS) for name in ("left", "right", "chords"))
    table = Table("ring id", broker, *names, url, *around, box=None)
    for status in walk.brokers:
        table.add_row(
            str(status.member.ring_id) if status.member else "-",
            short(status.uid),
            *((status.name or "-",) if have_names else ()),
            shown(status.url),
            *(
                between.join(label(member.uid) for member in members)
                for members in (status.left, status.right, status.chords[1:])
            ),
        )
    console().print(table)


def _as_json(walk: Walk, resilience: dict[str, Resilience]) -> dict[str, object]:
    from ges.operations.backup_check import judge_backups

    backed_up = judge_backups(walk.brokers)
    ids = {status.uid: status.member.ring_id for status in walk.brokers if status.member}
    return {
        "size": len(walk.brokers),
        "whole": not walk.findings,
        "findings": list(walk.findings),
        "backups": {
            "owners": backed_up.owners,
            "records": backed_up.records,
            "in_place": not backed_up.findings,
        },
        "connectivity": {
            name: {
                "links": found.links,
                "k": found.k,
                "survives": found.survives,
                "complete": found.is_complete,
                "exact": found.is_exact,
                "weakest_cut": [{"uid": uid, "ring_id": ids.get(uid)} for uid in found.cut],
                "parts": list(found.parts),
            }
            for name, found in resilience.items()
        },
        "brokers": [
            {
                "uid": status.uid,
                "name": status.name,
                "url": status.url,
                "ring_id": status.member.ring_id if status.member else None,
                "left": [m.uid for m in status.left],
                "right": [m.uid for m in status.right],
                "chords": [m.uid for m in status.chords],
                "records": status.records,
                "backups": [
                    {"uid": backup.uid, "acknowledged": backup.acknowledged}
                    for backup in status.backups
                ],
                "counters": status.counters,
            }
            for status in walk.brokers
        ],
    }
