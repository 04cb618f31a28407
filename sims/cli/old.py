"""``chordal sim``: run experiments in virtual time.

Everything but click is imported inside the commands, so that ``chordal --help`` stays fast.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from overlay.errors import ConfigError
from overlay.wording import counted

if TYPE_CHECKING:
    from sims.experiments.experiment import Progress, RunResult
    from sims.experiments.summary import Spread, Summary

SHOWN = 10  #: findings of a story, for each seed

_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def sim() -> None:
    """Simulate rings that form, break and heal."""


@sim.command("list")
@_as_json
def list_(as_json: bool) -> None:
    """List what can be run: the experiment 'crash', and all stories."""
    from sims.experiments.experiment import SCENARIOS
    from sims.scenarios import stories

    told = {name: stories.about(story) for name, story in stories.BY_NAME.items()}
    _print_list({**SCENARIOS, **told}, as_json=as_json)


@sim.command(short_help="Run an experiment, or play a story.")
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
@_as_json
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
    with _progress() as progress:
        result = experiment.run(asked, progress)
    files = dataset.write(result, out) if out is not None else None
    if as_json:
        _print_json(result, summarise(result), files)
    else:
        _print_words(result, summarise(result), files)


def _play(ctx: click.Context, name: str, seed: int, seeds: int, *, as_json: bool) -> None:
    """Play a story with each seed, and say seed by seed what it found."""
    import msgspec

    from sims.errors import InvariantViolated
    from sims.experiments.experiment import SCENARIOS
    from sims.scenarios import stories

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


@sim.command(short_help="Try every order of things in a small ring.")
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
@_as_json
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

    if scenario == "list":
        _print_list({name: known.about for name, known in SCOPES.items()}, as_json=as_json)
        return
    try:
        choices = None if replay is None else [int(part) for part in replay.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{replay!r} is not a list of numbers with commas", param_hint="--replay"
        ) from None
    try:
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


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show stage, share done and virtual clock on a terminal; in a pipe, nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    from overlay.ids import NANOS_PER_SECOND, Nanos

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[clock]}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0, clock="")

        def show(stage: str, share: float, now: Nanos) -> None:
            clock = f"virtual {now / NANOS_PER_SECOND:.1f} s"
            bar.update(task, description=stage, completed=share, clock=clock)

        yield show


def _print_list(scenarios: Mapping[str, str], *, as_json: bool) -> None:
    import msgspec

    if as_json:
        click.echo(msgspec.json.encode(scenarios))
        return
    for name, what in scenarios.items():
        click.echo(f"{name}: {what}")


def _print_json(result: RunResult, summary: Summary, files: tuple[Path, Path] | None) -> None:
    import msgspec

    run_file, incident_file = files or (None, None)
    found = {
        **msgspec.to_builtins(result.run),
        **msgspec.to_builtins(summary),
        "invariants_held": True,
        "files": {
            "runs": run_file and str(run_file),
            "incidents": incident_file and str(incident_file),
        },
    }
    click.echo(msgspec.json.encode(found))


def _print_words(result: RunResult, summary: Summary, files: tuple[Path, Path] | None) -> None:
    click.echo(
        f"{counted(result.run.nodes or 0, 'broker')}, "
        f"{counted(summary.crashes, 'crash', 'crashes')}, {summary.duration_s:.1f} s of "
        f"virtual time, {counted(summary.events, 'event')} simulated"
    )
    for name, spread in (
        ("detected after", summary.detection_s),
        ("confirmed after", summary.confirmation_s),
        ("repaired after", summary.repair_s),
        ("chords repaired after", summary.chord_repair_s),
    ):
        _print_spread(name, spread, "{:.3f} s")
    _print_spread("messages a crash", summary.messages, "{:.0f}")
    if summary.false_suspicions:
        click.echo(f"live brokers suspected: {summary.false_suspicions}")
    for file in files or ():
        click.echo(f"written: {file}")
    click.echo(
        f"{result.run.run_id}: {summary.repaired} of {summary.crashes} crashes repaired, "
        "all invariants held"
    )


def _print_spread(name: str, spread: Spread | None, form: str) -> None:
    if spread is not None:
        click.echo(f"{name}: median {form.format(spread.p50)}, at most {form.format(spread.max)}")
