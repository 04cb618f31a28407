"""``chordal access``: ask a file of rules what it allows."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ges.cli.options import json_option
from overlay.wording import counted


@click.group()
def access() -> None:
    """Check the rules that say who may publish and subscribe to what."""


@access.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--subject",
    default="anyone",
    show_default=True,
    help="A client: anyone, token:NAME, uid:HEX32 or role:client.",
)
@click.option("--publish", "topic", metavar="TOPIC", help="May it publish to TOPIC?")
@click.option("--subscribe", "text", metavar="FILTER", help="May it subscribe to FILTER?")
@click.option(
    "--operate",
    type=click.Choice(["clients", "kick", "drain", "drill", "units"]),
    help="May it list clients, cut one off, drain the broker, drill, let a unit join another one?",
)
@json_option
def check(
    file: Path,
    subject: str,
    topic: str | None,
    text: str | None,
    operate: str | None,
    as_json: bool,
) -> int:
    """Say whether the rules in FILE are well-formed, and what they say of one client.

    Exit code 0: allowed (or, asked for nothing, the rules are in order); 1: denied; 2: the file is
    wrong.
    """
    from ges.access.admission import read_access
    from ges.access.rules import Operation, parse_principal
    from ges.wire.topics import check_filter, check_topic

    rules = read_access(file)
    permissions = rules.permissions(parse_principal(subject))
    decisions = []
    if topic is not None:
        decisions.append(permissions.publish(check_topic(topic)))
    if text is not None:
        decisions.append(permissions.subscribe(check_filter(text)))
    if operate is not None:
        decisions.append(permissions.operate(Operation(operate)))
    if as_json:
        found = [
            {
                "allowed": decision.allowed,
                "rule": decision.rule.title if decision.rule is not None else None,
                "reason": decision.reason,
            }
            for decision in decisions
        ]
        click.echo(json.dumps({"rules": len(rules.rules), "decisions": found}))
    else:
        for decision in decisions:
            click.echo(decision.reason)
        if not decisions:
            click.echo(f"{file}: {counted(len(rules.rules), 'rule')}, in order")
    return 0 if all(decision.allowed for decision in decisions) else 1
