"""``chordal sim run``: an experiment, or a story."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from overlay.errors import ConfigError
from overlay.wording import counted
from sims.cli.options import json_option
from sims.cli.printed import print_json, print_words, progress_bar

SHOWN = 10  #: findings of a story, for each seed


@click.command(short_help="Run an experiment, or play a story.")
@click.argument("name")
@click.option("--nodes", type=int, default=64, show_default=True, help="Brokers in the ring.")
@click.option("--seed", type=int, default=1, show_default=True, help="Names the run.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Of a story: play it so many times, with --seed and those after it.",
)
@click.option(
    "--crash-share", type=float, default=0.05, show_default=True, help="Share that crashes."
)
@click.option(
    "--crash-mode",
    type=click.Choice(["kill", "power"]),
    default="power",
    show_default=True,
    help="The process dies and its sockets close, or the machine falls silent.",
)
@click.option(
    "--profile",
    type=click.Choice(["local", "lan", "wan"]),
    default="lan",
    show_default=True,
    help="Timing of the brokers, and distances between them.",
)
@click.option(
    "--chords",
    type=click.Choice(["rank", "harmonic", "uniform", "none"]),
    default="rank",
    show_default=True,
    help="How links beyond right-right are chosen.",
)
@click.option(
    "--gaps",
    type=click.Choice(["widest", "published"]),
    default="widest",
    show_default=True,
    help="Which gap between two brokers a newcomer is offered.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Data set to add the run to."
)
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    name: str,
    nodes: int,
    seed: int,
    seeds: int,
    crash_share: float,
    crash_mode: str,
    profile: str,
    chords: str,
    gaps: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run the experiment 'crash', or play a story; 'chordal sim list' lists all that NAME may be.

    The same options give the same result, wherever it runs. A story takes --seed, --seeds and
    --json; all other options are for 'crash'. Fails if the ring breaks a promise, and says how to
    see it again.
    """
    from ring.config import ChordStrategy, GapRule
    from sims import dataset
    from sims.experiments import experiment
    from sims.experiments.summary import summarise
    from sims.world.world import CrashMode

    if name not in experiment.SCENARIOS:
        _play(ctx, name, seed, seeds, as_json=as_json)
        return
    _refuse(ctx, {"seeds"}, f"{name} runs one --seed at a time")
    asked = experiment.Experiment(
        scenario=name,
        nodes=nodes,
        seed=seed,
        crash_share=crash_share,
        crash_mode=CrashMode(crash_mode),
        profile=profile,
        chords=ChordStrategy(chords),
        gap_rule=GapRule(gaps),
    )
    if out is not None:
        dataset.prepare(out)
    with progress_bar() as progress:
        result = experiment.run(asked, progress)
    files = dataset.write(result, out) if out is not None else None
    if as_json:
        print_json(result, summarise(result), files)
    else:
        print_words(result, summarise(result), files)


def _play(ctx: click.Context, name: str, seed: int, seeds: int, *, as_json: bool) -> None:
    """Play a story with each seed, and say seed by seed what it found."""
    import msgspec

    from sims.errors import InvariantViolated
    from sims.experiments.experiment import SCENARIOS
    from sims.stories import stories

    story = stories.find(name, SCENARIOS)
    its_own = {"name", "seed", "seeds", "as_json"}
    others = {option.name for option in ctx.command.params if option.name} - its_own
    _refuse(ctx, others, f"{name} is a story, and takes only --seed, --seeds and --json")
    found: dict[int, list[str]] = {}
    for number in range(seed, seed + seeds):
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
            f"{name} went wrong with {len(bad)} of {counted(seeds, 'seed')}; "
            f"see it again with: chordal sim run {name} --seed {bad[0]}"
        )
    if not as_json:
        click.echo(f"{name}: nothing wrong with {counted(seeds, 'seed')}")


def _refuse(ctx: click.Context, names: set[str], why: str) -> None:
    """Refuse options that were given and mean nothing here.

    Raises:
        ConfigError: one of these was given.
    """
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in names and given:
            raise ConfigError(f"{option.opts[0]}: {why}")
