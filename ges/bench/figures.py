"""Times as histograms, and what is told of them. hdrhistogram is an extra, and imported late."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from overlay.errors import MissingExtra

if TYPE_CHECKING:
    from ges.bench.load import Answered, Asked, Load, Published, Received

HIGHEST_US = 3_600_000_000  #: longer times count as an hour
DIGITS = 3
UNSORTED = 1_000_000  #: times kept before they go into the histogram
PERCENTILES = (50.0, 90.0, 99.0, 99.9)


class Times:
    """Times in microseconds, as many as there are: to note one costs less than to file it."""

    def __init__(self) -> None:
        self._histogram = _new()
        self._unsorted = array("q")

    def note(self, nanoseconds: int) -> None:
        """Note one."""
        self._unsorted.append(nanoseconds)
        if len(self._unsorted) >= UNSORTED:
            self._file()

    def encoded(self) -> bytes:
        """Return all of them, for another process."""
        self._file()
        found: bytes = self._histogram.encode()
        return found

    def add(self, encoded: bytes) -> None:
        """Take those of another process."""
        self._histogram.decode_and_add(encoded)

    def summary(self) -> Percentiles | None:
        """Return what is told of them; None if there are none."""
        self._file()
        histogram = self._histogram
        if not histogram.get_total_count():
            return None
        at = {p: histogram.get_value_at_percentile(p) / 1000 for p in PERCENTILES}
        return Percentiles(
            mean_ms=round(histogram.get_mean_value() / 1000, 3),
            p50_ms=at[50.0],
            p90_ms=at[90.0],
            p99_ms=at[99.0],
            p99_9_ms=at[99.9],
            max_ms=histogram.get_max_value() / 1000,
        )

    def _file(self) -> None:
        record = self._histogram.record_value
        for nanoseconds in self._unsorted:
            record(min(max(nanoseconds // 1000, 1), HIGHEST_US))
        del self._unsorted[:]


class Percentiles(msgspec.Struct, frozen=True):
    """Of some times, in milliseconds, to three digits."""

    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p99_9_ms: float
    max_ms: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one load."""

    link_class: str
    size: int
    published: int | None = None  #: None: nobody published here
    published_per_s: float | None = None
    confirm: Percentiles | None = None  #: time until an event was confirmed
    received: int | None = None  #: by all subscribers together; None: nobody subscribed here
    received_per_s: float | None = None
    megabytes_per_s: float | None = None  #: of payloads, 10^6 bytes, received or else published
    lost: int | None = None  #: not received, of all that were published for all subscribers
    dropped: int | None = None  #: of those: as subscribers were too slow
    latency: Percentiles | None = None  #: from when an event was due or published


class RequestFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one load of requests."""

    link_class: str
    size: int
    requests: int
    replies: int
    replies_per_s: float
    unanswered: int  #: requests without a reply in time
    nobody: int  #: of those: nobody was there to answer
    answered: int | None  #: requests that came to those that answer; None: others answer
    round_trip: Percentiles | None  #: from a request, or when it was due, until its reply


def put_requests_together(
    load: Load, asked: Iterable[Asked], answered: Iterable[Answered]
) -> RequestFigures:
    """Return the figures of all processes together."""
    found, others = list(asked), list(answered)
    trips = Times()
    for each in found:
        trips.add(each.times)
    requests = sum(each.requests for each in found)
    replies = sum(each.replies for each in found)
    return RequestFigures(
        link_class=load.link_class.value,
        size=load.size,
        requests=requests,
        replies=replies,
        replies_per_s=_per_second(
            replies, [each.began_ns for each in found], [each.ended_ns for each in found]
        ),
        unanswered=requests - replies,
        nobody=sum(each.nobody for each in found),
        answered=sum(each.requests for each in others) if others else None,
        round_trip=trips.summary(),
    )


def put_together(
    load: Load, published: Iterable[Published], received: Iterable[Received]
) -> Figures:
    """Return the figures of all processes together."""
    sent, got = list(published), list(received)
    count = sum(each.events for each in sent)
    figures = Figures(link_class=load.link_class.value, size=load.size)
    if sent:
        confirms = Times()
        for each in sent:
            if each.confirms:
                confirms.add(each.confirms)
        per_s = _per_second(count, [s.began_ns for s in sent], [s.ended_ns for s in sent])
        figures = msgspec.structs.replace(
            figures,
            published=count,
            published_per_s=per_s,
            confirm=confirms.summary(),
            megabytes_per_s=_megabytes(per_s * load.size),
        )
    if got:
        events = sum(each.events for each in got)
        latencies = Times()
        for other in got:
            latencies.add(other.latencies)
        busy = [each for each in got if each.events]
        began, ended = [each.began_ns for each in busy], [each.ended_ns for each in busy]
        volume = sum(each.volume for each in got)
        figures = msgspec.structs.replace(
            figures,
            received=events,
            received_per_s=_per_second(events, began, ended),
            megabytes_per_s=_megabytes(_per_second(volume, began, ended)),
            lost=load.subscribers * count - events if sent else None,
            dropped=sum(each.dropped for each in got),
            latency=latencies.summary(),
        )
    return figures


def require_histograms() -> None:
    """Check that hdrhistogram is there.

    Raises:
        ConfigError: it is not.
    """
    _new()


def _new() -> Any:  # noqa: ANN401 - hdrhistogram has no types
    try:
        from hdrh.histogram import HdrHistogram
    except ImportError:
        raise MissingExtra(
            "this command needs the bench extra; in a checkout: pip install '.[bench]'"
        ) from None
    return HdrHistogram(1, HIGHEST_US, DIGITS)


def _per_second(number: float, began: list[int], ended: list[int]) -> float:
    if not began:
        return 0.0
    return round(number / max((max(ended) - min(began)) / 1e9, 1e-6), 1)


def _megabytes(per_second: float) -> float:
    return round(per_second / 1e6, 3)
