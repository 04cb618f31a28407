"""``chordal metrics``: the counters of one broker in the text form that Prometheus reads."""

from __future__ import annotations

import click

from ges.cli.connection import Connection
from ges.cli.options import client_options, run_async, tell


@click.command()
@client_options
def metrics(connection: Connection) -> None:
    """Print counters and gauges of one broker, for Prometheus' textfile collector."""
    from ges.cli.status import ask
    from ges.operations.metrics import families_of, odd_counters, text_of

    found = run_async(ask, connection)
    click.echo(text_of(found.uid, families_of(found)), nl=False)
    for name in odd_counters(found):
        tell(f"chordal: warning: no name of a counter, left out: {name}", err=True)
