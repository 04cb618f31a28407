"""A broker's status as metrics, in both text forms that Prometheus reads.

Counters have the names of ``docs/counters.md``. Every sample names the broker. A label ``peer`` is
the start of the uid of a broker at the other end of a link, of which there are some ten; no sample
is about a topic or a client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ges.wire.status import Status
from overlay.ids import LinkClass, short

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

#: Counters of what flows, told before anything does: so a rate begins at 0.
FLOWS = (
    "events_published",
    "events_received",
    "events_forwarded",
    "events_delivered",
    "events_duplicate",
)

#: Counters of events that went no further, and the word for each.
DROPS = {
    "lost": "events_lost",
    "no_link": "events_without_link",
    "too_many_hops": "events_too_many_hops",
    "topic_refused": "events_topic_refused",
    "unacknowledged": "events_unacknowledged_dropped",
    "express_queue_full": "express_dropped",
    "slow_client": "events_dropped_for_clients",
    "slow_client_express": "express_dropped_for_clients",
    "parked_too_long": "events_parked_expired",
    "parked_client_gone": "events_parked_dropped",
}

_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")  #: of a counter; other names are no part of a metric's

Labels = tuple[tuple[str, str], ...]
Buckets = Sequence[tuple[str, int]]  #: an upper end each, and how many are at most that


@dataclass(frozen=True, slots=True)
class Sample:
    """One value; ``labels`` beside the broker's, ``suffix`` of the name of the family."""

    value: float
    labels: Labels = ()
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one name."""

    name: str  #: without ``chordal_`` before it, and ``_total`` behind it
    kind: str  #: counter, gauge or histogram
    about: str
    samples: tuple[Sample, ...]


def counter(name: str, about: str, *samples: Sample) -> Family:
    """Return what only grows."""
    return Family(name, "counter", about, samples)


def gauge(name: str, about: str, value: float) -> Family:
    """Return what a broker has now."""
    return Family(name, "gauge", about, (Sample(float(value)),))


def gauges(name: str, about: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    """Return what it has now, of several kinds."""
    return Family(name, "gauge", about, tuple(Sample(value, labels) for labels, value in samples))


def histogram(name: str, about: str, buckets: Buckets, total: float) -> Family:
    """Return values by their sizes, and their sum."""
    found = [Sample(count, (("le", end),), "_bucket") for end, count in buckets]
    return Family(
        name,
        "histogram",
        about,
        (*found, Sample(buckets[-1][1], (), "_count"), Sample(total, (), "_sum")),
    )


def text_of(uid: str, families: Iterable[Family], *, is_open: bool = False) -> str:
    """Return the metrics of the broker ``uid``; ``is_open``: as OpenMetrics, else as text 0.0.4."""
    lines: list[str] = []
    for family in families:
        name = f"chordal_{family.name}"
        total = "_total" if family.kind == "counter" else ""
        described = name if is_open else name + total
        lines.append(f"# HELP {described} {family.about}")
        lines.append(f"# TYPE {described} {family.kind}")
        for sample in family.samples:
            labels = ",".join(
                f'{key}="{_escaped(value)}"' for key, value in (("broker", uid), *sample.labels)
            )
            lines.append(f"{name}{sample.suffix or total}{{{labels}}} {float(sample.value)!r}")
    return "\n".join((*lines, *(("# EOF",) if is_open else ()))) + "\n"


def odd_counters(status: Status) -> list[str]:
    """Return the names of counters that are none, as no broker of ours has them."""
    return [name for name in status.counters if not _NAME.fullmatch(name)]


def families_of(status: Status) -> Iterator[Family]:
    """Yield what the status of a broker tells.

    Its word is not taken for what a counter may be called: :func:`odd_counters` are left out.
    """
    yield from _counters(status)
    yield from _ring(status)
    yield from _units(status)
    yield from _links(status)
    yield from _held(status)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _counters(status: Status) -> Iterator[Family]:
    odd = set(odd_counters(status))
    for name, value in sorted((dict.fromkeys((*COUNTED, *FLOWS), 0) | status.counters).items()):
        if name not in odd:
            about = f"Counter {name} of the broker, see docs/counters.md."
            yield counter(name, about, Sample(value))
    yield counter(
        "events_dropped",
        "Events that went no further, by reason; each is also a counter of its own.",
        *(
            Sample(status.counters.get(name, 0), (("reason", reason),))
            for reason, name in DROPS.items()
        ),
    )


def _ring(status: Status) -> Iterator[Family]:
    normal = {link.uid for link in status.links if link.link_class.is_base}
    linked = len({member.uid for member in (*status.left, *status.right)} & normal)
    yield gauge("on_ring", "1 on the ring, 0 not.", status.member is not None)
    yield gauge("ring_degree", "Brokers linked by normal links.", len(normal))
    yield gauge(
        "ring_neighbours_linked",
        "Of the four brokers nearest on the ring, those linked; fewer in a small ring.",
        linked,
    )
    yield gauge(
        "ring_survives_brokers",
        "Brokers whose loss at once the ring links here survive; the least of all brokers counts "
        "for the ring.",
        max(0, linked - 1),
    )
    chords = len({member.uid for member in status.chords[1:]})
    yield gauge("chords", "Chords held, right-right not counted.", chords)
    yield gauge("suspects", "Neighbours under suspicion now.", len(status.suspects))


def _units(status: Status) -> Iterator[Family]:
    about = "1: it has an address in the units."
    yield gauge("units_members", "Members of its cluster, as it knows.", status.members)
    yield gauge("units_addressed", about, status.address is not None)
    yield gauges(
        "units",
        "Units of a level in its own context, as it knows.",
        (((("level", str(c.level)),), len(c.units)) for c in status.contexts if c.level),
    )
    yield gauges(
        "units_cut_off",
        "Units of a level to which no path leads; level 0: brokers of its cluster.",
        (((("level", str(at.level)),), at.cut_off) for at in status.levels),
    )
    yield counter(
        "gateways_lost",
        "Pairs of units that have lost links, by level and kind of the loss.",
        *(
            Sample(count, (("level", str(at.level)), ("kind", kind)))
            for at in status.levels
            for kind, count in at.lost.items()
        ),
    )


def _links(status: Status) -> Iterator[Family]:
    by_class = {k: [each for each in status.links if each.link_class is k] for k in LinkClass}
    for name, about, value in (
        ("links", "Links that are up.", len),
        (
            "link_queued_bytes",
            "Bytes queued for links.",
            lambda links: sum(each.queued_bytes for each in links),
        ),
        (
            "link_traffic_bytes_per_second",
            "Bytes sent over links, averaged.",
            lambda links: sum(each.traffic for each in links),
        ),
    ):
        yield gauges(
            name, about, (((("class", k.value),), value(links)) for k, links in by_class.items())
        )
    demoted = sum(link.demoted for link in status.links)
    yield gauge("express_links_demoted", "Express links outside the express range.", demoted)
    queued = sum(link.queued_bytes for link in status.links)
    yield gauge("queued_bytes", "Bytes queued for all links.", queued)
    for name, about, field in (
        ("link_rtt_seconds", "Round trip, smoothed.", "rtt_ms"),
        ("link_cost_seconds", "What a link costs an event.", "cost_ms"),
    ):
        yield gauges(
            name,
            about,
            (
                ((("peer", short(link.uid)), ("class", link.link_class.value)), value / 1000)
                for link in status.links
                if (value := getattr(link, field)) is not None
            ),
        )


def _held(status: Status) -> Iterator[Family]:
    about = "Bytes of memory kept for brokers whose links are lost."
    yield gauge("kept_bytes", about, status.kept_bytes)
    about = "Bytes of memory for events kept for clients that lose their broker."
    yield gauge("replay_bytes", about, status.replay_bytes)
    about = "Share of the time on the ring in which events from here went to all."
    yield gauge("unsure_share", about, status.unsure_share)
    if status.memory is not None:
        about = "Bytes of memory that others may make the broker hold."
        yield gauge("memory_budget_bytes", about, status.memory.budget)
        held = status.memory.held.items()
        yield gauges(
            "memory_held_bytes",
            "Bytes of memory held for others, by what they are.",
            (((("what", name),), size) for name, size in held if _NAME.fullmatch(name)),
        )
    yield gauge("parked_events", "Events that wait for a secure path.", status.parked)
    yield gauge("records", "Records of the ring that it owns.", status.records)
    yield gauge("record_backups", "Brokers that keep them too.", len(status.backups))
    yield gauge("clients", "Clients attached.", status.clients)
    yield gauge("subscriptions", "Filters held.", status.subscriptions)
    yield gauge("uptime_seconds", "Since its start.", status.uptime_s)
    if (identity := status.identity) is not None:
        about = "Until its certificate ends."
        yield gauge("certificate_expires_in_seconds", about, identity.expires_in_s)
