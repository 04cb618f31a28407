"""``chordal graph``: the weighted multigraph of a live overlay."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.names import labelled, names_of
from ges.cli.options import (
    client_options,
    console,
    json_option,
    run_async,
    warn_of_partial,
)
from overlay.ids import LinkClass
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.operations.resilience import Resilience
    from ges.operations.walk import Walk
    from overlay.multigraph.graph import Multigraph


@click.command()
@json_option
@client_options
def graph(as_json: bool, connection: Connection) -> None:
    """Show the links of all brokers, of each class, with what is measured of them.

    Walks the ring from the broker given. A link is shown if both its ends tell of it and have
    measured it, with the worse of the two measurements. Below stands for each class how many
    brokers can be lost, whichever they are, before its links leave the others apart. Where not all
    brokers were met that is not known, and the exit code is 1. Where events take declared links
    alone, a column says which links carry events, and a line how many brokers these survive.
    """
    from ges.operations.overlay_graph import (
        multigraph,
        resilience_of,
        resilience_of_events,
        without_events,
    )

    walked = run_async(connection.walk)
    warn_of_partial(walked)
    brokers = walked.brokers
    found, resilience = multigraph(brokers), resilience_of(brokers)
    closed, of_events = without_events(brokers), resilience_of_events(brokers)
    names = names_of(brokers)
    if as_json:
        click.echo(json.dumps(_as_json(walked, found, resilience, names, closed)))
    else:
        label = labelled(names)
        _print(found, label, closed)
        for link_class, each in resilience.items():
            click.echo(_in_words(link_class.value, each, is_partial=walked.is_partial))
        if of_events is not None:
            words = _in_words("normal, that carry events", of_events, is_partial=walked.is_partial)
            click.echo(words)
    if walked.is_partial:
        click.get_current_context().exit(1)


def _as_json(
    walked: Walk,
    found: Multigraph,
    resilience: dict[LinkClass, Resilience],
    names: dict[str, str],
    closed: Collection[frozenset[str]],
) -> dict[str, object]:
    from overlay.multigraph.graph import as_networkx

    view, brokers = as_networkx(found), walked.brokers
    return {
        "brokers": [status.uid for status in brokers],
        "names": names,
        "links": [
            {
                "ends": [a, b],
                "class": key,
                "carries": frozenset((a, b)) not in closed,
                **attributes,
            }
            for a, b, key, attributes in view.edges(keys=True, data=True)
        ],
        "connectivity": {
            link_class.value: {
                "brokers": each.brokers,
                "links": each.links,
                "k": None if walked.is_partial else each.k,
            }
            for link_class, each in resilience.items()
        },
        "ends_early": walked.ends_early or None,
        "silent": walked.silent,
    }


def _print(
    found: Multigraph, label: Callable[[str], str], closed: Collection[frozenset[str]]
) -> None:
    from rich.table import Table

    from ges.cli.weights import byte_rate, milliseconds, resets
    from overlay.multigraph.cost import cost_ns

    table = Table(
        *("link between", "and", "class", "rtt ms", "jitter ms"),
        *("capacity", "traffic", "resets", "cost ms"),
        *(("events",) if closed else ()),
        box=None,
    )
    for a, b, link_class, weights in found.links():
        table.add_row(
            label(a),
            label(b),
            link_class.value,
            milliseconds(weights.rtt_ns / 1e6),
            milliseconds(weights.jitter_ns / 1e6),
            byte_rate(weights.capacity),
            byte_rate(weights.traffic),
            resets(weights.resets),
            milliseconds(cost_ns(link_class, weights) / 1e6),
            *(("no" if frozenset((a, b)) in closed else "yes",) if closed else ()),
        )
    console().print(table)


def _in_words(name: str, found: Resilience, *, is_partial: bool) -> str:
    links, brokers = counted(found.links, "link"), counted(found.brokers, "broker")
    start = f"{name}: {links} between {brokers}"
    if is_partial:
        return f"{name}: {links} among those met; connectivity not known, as not all were"
    if not found.brokers:
        return start
    if found.brokers == 1:
        return f"{name}: no links, as there is one broker alone"
    if found.is_complete:
        return f"{start}, each linked to each; connectivity {found.k}"
    at_most = "" if found.is_exact else "at most "
    return f"{start}; connectivity {at_most}{found.k}"
