"""``chordal sim explore``: every order of things in a small ring."""

from __future__ import annotations

import click

from overlay.wording import counted
from sims.cli.options import json_option, print_list


@click.command(short_help="Try every order of things in a small ring.")
@click.argument("scenario")
@click.option(
    "--brokers", type=int, help="Brokers in all, newcomers included.  [default: the scenario's]"
)
@click.option(
    "--delays",
    type=click.IntRange(min=-1),
    help="Try the orders with so many deliveries put off; -1: all orders there are.  "
    "[default: the scenario's]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="States to look at, at most.",
)
@click.option(
    "--early",
    type=click.IntRange(min=0),
    help="Timers that may run out before their time.  [default: the scenario's]",
)
@click.option(
    "--grain",
    type=click.Choice(["packets", "reads", "turns"]),
    default="packets",
    show_default=True,
    help="With all orders: a step delivers one packet, all on a link, or all to a broker.",
)
@click.option(
    "--lists",
    is_flag=True,
    help="The neighbour lists alone: no chords, and newcomers take the first contact named.",
)
@click.option(
    "--unreduced",
    is_flag=True,
    help="With all orders: also those that differ only in deliveries that commute.",
)
@click.option("--replay", metavar="N,N,...", help="Take these choices only, and tell the story.")
@json_option
def explore(
    scenario: str,
    brokers: int | None,
    delays: int | None,
    limit: int,
    early: int | None,
    grain: str,
    lists: bool,
    unreduced: bool,
    replay: str | None,
    as_json: bool,
) -> None:
    """Try every order in which things may happen to a small ring in SCENARIO; 'list' lists them.

    Fails if in one of them the ring breaks a promise, and says how to see it again.
    """
    import msgspec

    from sims.errors import InvariantViolated, NoSuchScope
    from sims.explore.explorer import Explorer
    from sims.explore.granularity import Granularity
    from sims.explore.scopes import SCOPES
    from sims.explore.unit_explorer import UnitExplorer
    from sims.explore.unit_scopes import UNIT_SCOPES

    if scenario == "list":
        scopes = {name: known.about for name, known in SCOPES.items()}
        units = {name: known.about for name, known in UNIT_SCOPES.items()}
        print_list(scopes | units, as_json=as_json)
        return
    try:
        choices = None if replay is None else [int(part) for part in replay.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{replay!r} is not a list of numbers with commas", param_hint="--replay"
        ) from None
    try:
        explorer: Explorer | UnitExplorer
        if scenario in UNIT_SCOPES:
            if brokers is not None or lists or unreduced:
                raise NoSuchScope(f"{scenario} takes no --brokers, --lists or --unreduced")
            grained = Granularity(grain)
            explorer = UnitExplorer(scenario, delays=delays, early=early, grain=grained)
        else:
            explorer = Explorer(
                scenario,
                brokers=brokers,
                delays=delays,
                early=early,
                reduce=not unreduced,
                lists=lists,
                grain=Granularity(grain),
            )
        report = explorer.search(limit) if choices is None else explorer.replay(choices)
    except NoSuchScope as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        for at, line in enumerate(report.story, start=1):
            click.echo(f"{at:>4}  {line}")
        click.echo(report.in_words())
    if report.findings:
        shown = "\n  ".join(report.findings[:10])
        raise InvariantViolated(
            f"in {counted(len(report.choices), 'step')}; see it again with: {report.replay}\n"
            f"  {shown}"
        )
