"""``chordal sim run``: a scenario, or a story."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from overlay.errors import ConfigError
from overlay.wording import counted
from sims.cli.like import run_like
from sims.cli.options import json_option
from sims.cli.plotting import plot_option
from sims.cli.scenario import run_scenario

SHOWN = 10  #: findings of a story, for each seed

_OF_SCENARIOS_ALONE = {"nodes", "changes", "out", "plot"}


@click.command(short_help="Run a scenario, or play a story.")
@click.argument("name", required=False)
@click.option("--nodes", type=int, help="Brokers in the ring.  [default: as the scenario says]")
@click.option("--seed", type=int, default=1, show_default=True, help="Names the run.")
@click.option(
    "--seeds",
    default="1",
    show_default=True,
    metavar="N|N,N,...|N-M",
    help="Of a story. One number: that many seeds, from --seed on. A list, or from and to: these.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Of a scenario: another value for a key of its file, such as faults.0.share=0.2.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Data set to add the run to."
)
@plot_option
@click.option(
    "--like",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Instead of NAME: play what the drills in this data set did, and compare.",
)
@click.option(
    "--plays",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    metavar="N",
    help="With --like: of each kind of strike.",
)
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    name: str | None,
    nodes: int | None,
    seed: int,
    seeds: str,
    changes: tuple[str, ...],
    out: Path | None,
    plot: Path | None,
    like: Path | None,
    plays: int,
    as_json: bool,
) -> None:
    """Run a scenario of the library or in a file, or play a story.

    NAME is what 'chordal sim list' lists, or a file that ends in .toml; 'chordal sim show NAME'
    prints a scenario to be copied and changed. The same options give the same result, wherever it
    runs. A scenario takes --nodes, --seed, --set, --out and --json, a story --seed, --seeds and
    --json. Fails if a promise is broken, and says how to see it again.

    In rings of 2,000 brokers or more, heartbeats and the like that change nothing are not simulated
    one by one; '--set quiet=true' does so in smaller ones, and '--set quiet=false' in none.

    With --like there is no NAME: the strikes of 'chordal drill --out DIR' are played at the same
    size, with the round trips that the brokers had measured, and both are printed side by side.
    """
    if like is not None:
        if name is not None:
            raise click.UsageError("give NAME or --like DIR, not both")
        _refuse(ctx, {"nodes", "changes", "seeds"}, "the drill in --like DIR says that")
        run_like(like, plays, seed, out, plot, as_json=as_json)
        return
    if name is None:
        raise click.UsageError("Missing argument 'NAME'; 'chordal sim list' lists them")
    _refuse(ctx, {"plays"}, "it goes with --like DIR")
    from sims.stories import stories

    if name in stories.BY_NAME:
        _play(ctx, name, seed, seeds, as_json=as_json)
        return
    _refuse(ctx, {"seeds"}, f"{name} is a scenario; 'chordal sim campaign' runs many seeds")
    sizes = [] if nodes is None else [f"nodes={nodes}"]
    run_scenario(name, [*sizes, *changes], seed, out, plot, as_json=as_json)


def _play(ctx: click.Context, name: str, seed: int, seeds: str, *, as_json: bool) -> None:
    """Play a story with each seed, and say seed by seed what it found."""
    import msgspec

    from sims.campaign.cells import read_seeds
    from sims.errors import InvariantViolated
    from sims.stories import stories

    story = stories.find(name)
    _refuse(
        ctx, _OF_SCENARIOS_ALONE, f"{name} is a story, and takes only --seed, --seeds and --json"
    )
    found: dict[int, list[str]] = {}
    try:
        numbers = read_seeds(seeds, seed)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, param_hint="'--seeds'") from None
    for number in numbers:
        found[number] = findings = stories.play(story, number)
        if not as_json:
            verdict = counted(len(findings), "finding") if findings else "nothing wrong"
            click.echo(f"seed {number}: {verdict}")
            for finding in findings[:SHOWN]:
                click.echo(f"  {finding}")
            if len(findings) > SHOWN:
                click.echo(f"  and {len(findings) - SHOWN} more")
    if as_json:
        told = [{"seed": number, "findings": findings} for number, findings in found.items()]
        click.echo(msgspec.json.encode({"story": name, "seeds": told}))
    bad = [number for number, findings in found.items() if findings]
    if bad:
        raise InvariantViolated(
            f"{name} went wrong with {len(bad)} of {counted(len(numbers), 'seed')}; "
            f"see it again with: chordal sim run {name} --seed {bad[0]}"
        )
    if not as_json:
        click.echo(f"{name}: nothing wrong with {counted(len(numbers), 'seed')}")


def _refuse(ctx: click.Context, names: set[str], why: str) -> None:
    """Refuse options that were given and mean nothing here.

    Raises:
        ConfigError: one of these was given.
    """
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in names and given:
            raise ConfigError(f"{option.opts[0]}: {why}")
