"""A broker's status as metrics, in the text exposition format of Prometheus, version 0.0.4."""

from __future__ import annotations

import re

from ges.wire.status import Status
from overlay.ids import LinkClass

#: Counters of what strangers and clients do wrong, shown before there is anything to count as well:
#: one that begins to grow is then seen to grow.
COUNTED = (
    "accepts_failed",
    "brokers_denied",
    "brokers_without_identity",
    "clients_not_authenticated",
    "clients_silent",
    "clients_token_ended",
    "clients_too_slow",
    "clients_turned_away",
    "connections_too_fast",
    "connections_turned_away",
    "events_denied",
    "events_refused",
    "internal_errors",
    "links_given_up",
    "links_made_room",
    "links_too_fast",
    "memory_relieved",
    "operations_denied",
    "protocol_errors",
    "resource_shortages",
    "retained_refused",
    "strangers_dropped",
    "strangers_evicted",
    "strangers_gone",
    "strangers_no_tls",
    "strangers_not_chordal",
    "strangers_too_slow",
    "strangers_untrusted",
    "subscriptions_denied",
    "subscriptions_refused",
    "visitors_evicted",
)


_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")  #: of a counter; other names are no part of a metric's


def odd_counters(status: Status) -> list[str]:
    """Return the names of counters that are none, as no broker of ours has them."""
    return [name for name in status.counters if not _NAME.fullmatch(name)]


def exposition(status: Status) -> str:
    """Return the metrics of one broker; every sample names it by its uid.

    Its word is not taken for what a counter may be called: :func:`odd_counters` are left out.
    """
    odd = set(odd_counters(status))
    broker = f'broker="{status.uid}"'
    lines: list[str] = []

    def metric(name: str, kind: str, about: str, samples: list[tuple[str, float]]) -> None:
        lines.append(f"# HELP {name} {about}")
        lines.append(f"# TYPE {name} {kind}")
        lines.extend(f"{name}{{{labels}}} {value:.15g}" for labels, value in samples)

    for name, value in sorted((dict.fromkeys(COUNTED, 0) | status.counters).items()):
        if name in odd:
            continue
        about = f"Counter {name} of the broker, see docs/counters.md."
        metric(f"chordal_{name}_total", "counter", about, [(broker, value)])
    by_class = [
        (f'{broker},class="{kind}"', sum(link.link_class is kind for link in status.links))
        for kind in LinkClass
    ]
    queued = sum(link.queued_bytes for link in status.links)
    on_ring = int(status.member is not None)
    metric("chordal_links", "gauge", "Links that are up.", [*by_class])
    metric("chordal_queued_bytes", "gauge", "Bytes queued for all links.", [(broker, queued)])
    about = "Bytes of memory kept for brokers whose links are lost."
    metric("chordal_kept_bytes", "gauge", about, [(broker, status.kept_bytes)])
    about = "Bytes of memory for events kept for clients that lose their broker."
    metric("chordal_replay_bytes", "gauge", about, [(broker, status.replay_bytes)])
    about = "Share of the time on the ring in which events from here went to all."
    metric("chordal_unsure_share", "gauge", about, [(broker, status.unsure_share)])
    if status.memory is not None:
        about = "Bytes of memory that others may make the broker hold."
        metric("chordal_memory_budget_bytes", "gauge", about, [(broker, status.memory.budget)])
        about = "Bytes of memory held for others, by what they are."
        held = [
            (f'{broker},what="{name}"', size)
            for name, size in status.memory.held.items()
            if _NAME.fullmatch(name)
        ]
        metric("chordal_memory_held_bytes", "gauge", about, [*held])
    metric("chordal_clients", "gauge", "Clients attached.", [(broker, status.clients)])
    metric("chordal_subscriptions", "gauge", "Filters held.", [(broker, status.subscriptions)])
    metric("chordal_on_ring", "gauge", "1 on the ring, 0 not.", [(broker, on_ring)])
    metric("chordal_uptime_seconds", "gauge", "Since its start.", [(broker, status.uptime_s)])
    return "\n".join(lines) + "\n"
