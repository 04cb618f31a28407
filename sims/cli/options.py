"""What the sub-commands share: an option, and how they list names."""

from __future__ import annotations

from collections.abc import Mapping

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def print_list(scenarios: Mapping[str, str], *, as_json: bool) -> None:
    """Print names, each with what it is."""
    import msgspec

    if as_json:
        click.echo(msgspec.json.encode(scenarios))
        return
    for name, what in scenarios.items():
        click.echo(f"{name}: {what}")
