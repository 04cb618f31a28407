"""``chordal config``: what a broker is set to, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ges.cli.options import json_option, tell
from ges.cli.setting_options import SettingsCommand, setting_options
from ges.settings.gathering import BY_KEY, Sources, gather

if TYPE_CHECKING:
    from ges.settings.gathering import Gathered

MAX_VALUE_COLUMNS = 24  #: in which values stand one below the other; longer ones take more


@click.group()
def config() -> None:
    """Show the settings of a broker; 'chordal serve --check' checks them."""


@config.command(cls=SettingsCommand)
@click.option("--toml", "as_toml", is_flag=True, help="Print a file to copy, with comments.")
@json_option
@setting_options
def show(as_toml: bool, as_json: bool, sources: Sources) -> None:
    """Print every setting that 'chordal serve' would have, its value, and where that came from.

    Give it the flags that serve is given. A value comes from a flag, else from an environment
    variable, else from the file, else it is the default. No setting is a secret: where there is
    one, the setting is the path of a file.
    """
    from ges.settings.reference import to_copy

    if as_toml and as_json:
        raise click.UsageError("--toml and --json are two formats; choose one")
    found = gather(sources)
    if as_toml:
        click.echo(to_copy(found.found), nl=False)
    elif as_json:
        click.echo(json.dumps(_as_json(found)))
    else:
        _print(found)


def _as_json(found: Gathered) -> dict[str, object]:
    from ges.settings.values import written

    return {
        key: {
            "value": written(BY_KEY[key], each.value),
            "source": each.source.value,
            "from": each.place,
            "about": BY_KEY[key].text,
            "flag": BY_KEY[key].about.flag,
            "variable": BY_KEY[key].about.env,
            "reloads": BY_KEY[key].about.reloads,
        }
        for key, each in found.found.items()
    }


def _print(found: Gathered) -> None:
    """Print two lines for each setting: paths are long, and a table would cut them off."""
    from ges.settings.values import shown

    values = {key: shown(BY_KEY[key], each.value) for key, each in found.found.items()}
    keys = max(map(len, values))
    width = min(MAX_VALUE_COLUMNS, max(map(len, values.values())))
    for key, each in found.found.items():
        tell(f"{key:<{keys}}  {values[key]:<{width}}  {each.place}")
        tell(f"    {BY_KEY[key].text}")
