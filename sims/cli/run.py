"""``chordal sim run``: a scenario, a story, or the experiment 'crash'."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from overlay.errors import ConfigError
from overlay.wording import counted
from sims.cli.options import json_option
from sims.cli.printed import print_json, print_words, progress_bar
from sims.cli.scenario import run_scenario

SHOWN = 10  #: findings of a story, for each seed

_OF_STORIES = {"name", "seed", "seeds", "as_json"}
_OF_SCENARIOS = {"name", "nodes", "seed", "changes", "out", "as_json"}
_OF_CRASH = {"crash_share", "crash_mode", "profile", "chords", "gaps"}
_ALL = _OF_STORIES | _OF_SCENARIOS | _OF_CRASH


@click.command(short_help="Run a scenario, or play a story.")
@click.argument("name")
@click.option(
    "--nodes", type=int, default=64, help="Brokers in the ring.  [default: the scenario's; 64]"
)
@click.option("--seed", type=int, default=1, show_default=True, help="Names the run.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Of a story: play it so many times, with --seed and those after it.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Of a scenario: another value for a key of its file, such as faults.0.share=0.2.",
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
    nodes: int | None,
    seed: int,
    seeds: int,
    changes: tuple[str, ...],
    crash_share: float,
    crash_mode: str,
    profile: str,
    chords: str,
    gaps: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run a scenario of the library or in a file; play a story; run the experiment 'crash'.

    NAME is what 'chordal sim list' lists, or a file that ends in .toml; 'chordal sim show NAME'
    prints a scenario to be copied and changed. The same options give the same result, wherever it
    runs. A scenario takes --nodes, --seed, --set, --out and --json, a story --seed, --seeds and
    --json; all other options are for 'crash'. Fails if a promise is broken, and says how to see it
    again.
    """
    from ring.config import ChordStrategy, GapRule
    from sims import dataset
    from sims.experiments import experiment
    from sims.experiments.summary import summarise
    from sims.stories import stories
    from sims.world.world import CrashMode

    if name in stories.BY_NAME:
        _play(ctx, name, seed, seeds, as_json=as_json)
        return
    if name not in experiment.SCENARIOS:
        _refuse(
            ctx, _ALL - _OF_SCENARIOS, f"{name} is a scenario; use --set with a key of its file"
        )
        given = ctx.get_parameter_source("nodes") is ParameterSource.COMMANDLINE
        sizes = [f"nodes={nodes}"] if given else []
        run_scenario(name, [*sizes, *changes], seed, out, as_json=as_json)
        return
    _refuse(ctx, {"changes"}, f"{name} has options of its own")
    _refuse(ctx, {"seeds"}, f"{name} runs one --seed at a time")
    asked = experiment.Experiment(
        scenario=name,
        nodes=64 if nodes is None else nodes,
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
    files: dict[str, Path] = {}
    if out is not None:
        run_file, incident_file = dataset.write(result, out)
        files = {dataset.RUNS: run_file, dataset.INCIDENTS: incident_file}
    if as_json:
        print_json(result, summarise(result), files)
    else:
        print_words(result, summarise(result), files)


def _play(ctx: click.Context, name: str, seed: int, seeds: int, *, as_json: bool) -> None:
    """Play a story with each seed, and say seed by seed what it found."""
    import msgspec

    from sims.errors import InvariantViolated
    from sims.stories import stories

    story = stories.find(name)
    _refuse(
        ctx, _ALL - _OF_STORIES, f"{name} is a story, and takes only --seed, --seeds and --json"
    )
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
