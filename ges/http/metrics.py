"""A broker's metrics as Prometheus reads them, in OpenMetrics where the reader takes it.

Counters have the names of ``docs/counters.md``, as in ``chordal metrics``. Every sample names the
broker. A label ``peer`` is the start of the uid of a broker at the other end of a link, of which
there are some ten; no sample is about a topic or a client.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ges.admin.metrics import COUNTED, odd_counters
from ges.http.answers import Reply
from ges.http.chronicle import Chronicle, Histogram
from ges.wire.status import LinkStatus, Status
from overlay.ids import LinkClass, short
from overlay.trace_schema import Verdict

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


def exposition(status: Status, chronicle: Chronicle, accept: str, *, is_whole: bool) -> Reply:
    """Return the metrics of one broker in the form that ``accept`` asks for."""
    encode, content_type = choose_encoder(accept)
    return Reply(200, encode(_Scrape(status, chronicle, is_whole)), content_type)


class _Scrape(Collector):
    """One broker at one moment."""

    def __init__(self, status: Status, chronicle: Chronicle, is_whole: bool) -> None:
        self._status = status
        self._chronicle = chronicle
        self._is_whole = is_whole
        self._labels = (status.uid,)

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        yield from self._counters()
        yield from self._ring()
        yield from self._links()
        yield from self._held()
        yield from self._failures()

    def _counters(self) -> Iterator[Metric]:
        status = self._status
        odd = set(odd_counters(status))
        counters = dict.fromkeys((*COUNTED, *FLOWS), 0) | status.counters
        for name, value in sorted(counters.items()):
            if name not in odd:
                about = f"Counter {name} of the broker, see docs/counters.md."
                yield self._counter(name, about, value)
        drops = CounterMetricFamily(
            "chordal_events_dropped",
            "Events that went no further, by reason; each is also a counter of its own.",
            labels=("broker", "reason"),
        )
        for reason, name in DROPS.items():
            drops.add_metric((*self._labels, reason), status.counters.get(name, 0))
        yield drops

    def _ring(self) -> Iterator[Metric]:
        status = self._status
        normal = {link.uid for link in status.links if link.link_class.is_base}
        wanted = {member.uid for member in (*status.left, *status.right)}
        linked = len(wanted & normal)
        yield self._gauge("on_ring", "1 on the ring, 0 not.", status.member is not None)
        yield self._gauge("ring_whole", "1: both neighbours agree where it stands.", self._is_whole)
        yield self._gauge("ring_degree", "Brokers linked by normal links.", len(normal))
        yield self._gauge(
            "ring_neighbours_linked",
            "Of the four brokers nearest on the ring, those linked; fewer in a small ring.",
            linked,
        )
        yield self._gauge(
            "ring_survives_brokers",
            "Brokers whose loss at once the ring links here survive; the least of all brokers "
            "counts for the ring.",
            max(0, linked - 1),
        )
        yield self._gauge("chords", "Chords held, right-right not counted.", _chords(status))
        yield self._gauge("suspects", "Neighbours under suspicion now.", len(status.suspects))
        yield self._gauge("units_members", "Members of its cluster, as it knows.", status.members)
        yield self._gauge(
            "units_addressed", "1: it has an address in the units.", status.address is not None
        )
        about = "Units of a level in its own context, as it knows."
        known = GaugeMetricFamily("chordal_units", about, labels=("broker", "level"))
        for context in status.contexts:
            if context.level:
                known.add_metric((*self._labels, str(context.level)), len(context.units))
        yield known
        about = "Units of a level to which no path leads; level 0: brokers of its cluster."
        missing = GaugeMetricFamily("chordal_units_cut_off", about, labels=("broker", "level"))
        about = "Pairs of units that have lost links, by level and kind of the loss."
        lost = CounterMetricFamily(
            "chordal_gateways_lost", about, labels=("broker", "level", "kind")
        )
        for at in status.levels:
            missing.add_metric((*self._labels, str(at.level)), at.cut_off)
            for kind, count in at.lost.items():
                lost.add_metric((*self._labels, str(at.level), kind), count)
        yield from (missing, lost)

    def _links(self) -> Iterator[Metric]:
        status = self._status
        by_class: dict[LinkClass, list[LinkStatus]] = {each: [] for each in LinkClass}
        for link in status.links:
            by_class[link.link_class].append(link)
        up = self._by_class("links", "Links that are up.")
        queued = self._by_class("link_queued_bytes", "Bytes queued for links.")
        sent = self._by_class("link_traffic_bytes_per_second", "Bytes sent over links, averaged.")
        demoted = self._gauge(
            "express_links_demoted",
            "Express links outside the express range.",
            sum(link.demoted for link in status.links),
        )
        for link_class, links in by_class.items():
            labels = (*self._labels, link_class.value)
            up.add_metric(labels, len(links))
            queued.add_metric(labels, sum(link.queued_bytes for link in links))
            sent.add_metric(labels, sum(link.traffic for link in links))
        yield from (up, queued, sent, demoted)
        about = "Bytes queued for all links."
        yield self._gauge("queued_bytes", about, sum(link.queued_bytes for link in status.links))
        yield self._by_link("link_rtt_seconds", "Round trip, smoothed.", "rtt_ms")
        yield self._by_link("link_cost_seconds", "What a link costs an event.", "cost_ms")

    def _held(self) -> Iterator[Metric]:
        status = self._status
        about = "Bytes of memory kept for brokers whose links are lost."
        yield self._gauge("kept_bytes", about, status.kept_bytes)
        about = "Bytes of memory for events kept for clients that lose their broker."
        yield self._gauge("replay_bytes", about, status.replay_bytes)
        about = "Share of the time on the ring in which events from here went to all."
        yield self._gauge("unsure_share", about, status.unsure_share)
        yield self._gauge("parked_events", "Events that wait for a secure path.", status.parked)
        yield self._gauge("records", "Records of the ring that it owns.", status.records)
        yield self._gauge("record_backups", "Brokers that keep them too.", len(status.backups))
        yield self._gauge("clients", "Clients attached.", status.clients)
        yield self._gauge("subscriptions", "Filters held.", status.subscriptions)
        yield self._gauge("uptime_seconds", "Since its start.", status.uptime_s)
        if status.identity is not None:
            yield self._gauge(
                "certificate_expires_in_seconds",
                "Until its certificate ends.",
                status.identity.expires_in_s,
            )

    def _failures(self) -> Iterator[Metric]:
        chronicle = self._chronicle
        about = "Suspicions raised here, of brokers next on the ring."
        yield self._counter("suspicions", about, chronicle.suspicions)
        verdicts = CounterMetricFamily(
            "chordal_verdicts", "What suspicions turned out to be.", labels=("broker", "verdict")
        )
        for verdict in Verdict:
            if verdict is not Verdict.OPEN:
                labels = (*self._labels, verdict.value)
                verdicts.add_metric(labels, chronicle.verdicts[verdict])
        yield verdicts
        about = "Deaths of neighbours: from the first suspicion to the verdict."
        yield self._histogram("detection_seconds", about, chronicle.detections)
        about = "Deaths of neighbours: from the first suspicion until the ring was whole here."
        yield self._histogram("repair_seconds", about, chronicle.repairs)

    # ── kinds ─────────────────────────────────────────────────────────────────────────────────

    def _counter(self, name: str, about: str, value: float) -> Metric:
        family = CounterMetricFamily(f"chordal_{name}", about, labels=("broker",))
        family.add_metric(self._labels, value)
        return family

    def _gauge(self, name: str, about: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"chordal_{name}", about, labels=("broker",))
        family.add_metric(self._labels, float(value))
        return family

    def _histogram(self, name: str, about: str, found: Histogram) -> Metric:
        family = HistogramMetricFamily(f"chordal_{name}", about, labels=("broker",))
        family.add_metric(self._labels, found.buckets(), found.total_s)
        return family

    def _by_class(self, name: str, about: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"chordal_{name}", about, labels=("broker", "class"))

    def _by_link(self, name: str, about: str, field: str) -> Metric:
        """Return what is measured of each link, milliseconds as seconds."""
        family = GaugeMetricFamily(f"chordal_{name}", about, labels=("broker", "peer", "class"))
        for link in self._status.links:
            value: float | None = getattr(link, field)
            if value is not None:
                family.add_metric(
                    (*self._labels, short(link.uid), link.link_class.value), value / 1000
                )
        return family


def _chords(status: Status) -> int:
    return len({member.uid for member in status.chords[1:]})
