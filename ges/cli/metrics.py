"""``chordal metrics``: the counters of one broker in the text form that Prometheus reads."""

from __future__ import annotations

from pathlib import Path

import click

from ges.cli.options import client_options, run_async


@click.command()
@client_options
def metrics(broker: str, identity: Path | None, overlay: str, timeout: float) -> None:
    """Print counters and gauges of one broker, for Prometheus' textfile collector."""
    from ges.admin.metrics import exposition
    from ges.cli.status import ask

    click.echo(exposition(run_async(ask, broker, identity, overlay, timeout)), nl=False)
