"""The group of sub-commands, and the list of what can be run."""

from __future__ import annotations

import click

from sims.cli.campaign import campaign, shrink
from sims.cli.explore import explore
from sims.cli.options import json_option, print_list
from sims.cli.run import run


@click.group()
def sim() -> None:
    """Simulate rings that form, break and heal."""


sim.add_command(run)
sim.add_command(campaign)
sim.add_command(shrink)
sim.add_command(explore)


@sim.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List what can be run: all scenarios, and all stories."""
    from sims.scenarios import library
    from sims.stories import stories

    told = {name: stories.about(story) for name, story in stories.BY_NAME.items()}
    if as_json:
        print_list({**library.about(), **told}, as_json=True)
        return
    click.echo("# scenarios: 'chordal sim show NAME' prints one, to be copied and changed")
    print_list(library.about(), as_json=False)
    click.echo("# stories: short tests of the ring; they take --seed and --seeds alone")
    print_list(told, as_json=False)


@sim.command()
@click.argument("name")
def show(name: str) -> None:
    """Print the file of a scenario, to be copied and changed."""
    from sims.scenarios import library

    click.echo(library.find(name).text, nl=False)
