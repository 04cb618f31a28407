"""What is measured of one link: the weight set W of the multigraph (paper 004, section 3.3).

The paper weighs a link by its bandwidth and its present traffic. To these are added the round trip
time with its variation, what waits in the queue, and how often the link broke of late. All of it is
measured at one end, by probes (:mod:`overlay.multigraph.probes`) and by what the connection has
sent; nothing is configured.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Sequence

import msgspec

from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, WireCount, nanos
from overlay.machine import Closed

#: A link as one of its ends names it: the broker at the other end, and the class.
LinkKey = tuple[str, LinkClass]

RTT_GAIN = 4  #: a sample counts 1/4. RFC 6298 has 1/8, for samples that come with every round trip
JITTER_GAIN = 4
#: The smallest of so many has met no queue, or there is always one; and no process that was late.
RECENT_SAMPLES = 3
RECOVERED_SAMPLES = 4  #: so many samples in a row of less than half the mean are no luck
TRAFFIC_SECONDS = 2.0  #: time constant of the mean traffic
BACKED_UP_SECONDS = 0.05  #: a queue that takes longer to drain shows what the link can carry ...
BACKED_UP_BYTES = 8192  #: ... if it holds so much; less may just have come
HALF_LIFE_NS = nanos(60)  #: a reset counts half after this
MAX_HISTORIES = 1024

#: Ends that tell of a bad link; the others are decisions of one of its ends.
RESETS = frozenset({Closed.LOST, Closed.OVERFLOW, Closed.PROTOCOL})


class Weights(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The measured state of one link. Bytes are those of whole frames, before TLS."""

    rtt_ns: WireCount  #: smoothed round trip, through the queues of both ends
    jitter_ns: WireCount  #: smoothed mean deviation of it
    capacity: WireCount = 0  #: bytes per second it drained while it was backed up; 0: not known
    traffic: WireCount = 0  #: bytes per second sent, exponentially averaged over 2 s
    queued_ns: WireCount = 0  #: how long what is queued takes to drain; 0 if capacity is not known
    resets_milli: WireCount = 0  #: losses, each halved every 60 s, in thousandths

    @property
    def resets(self) -> float:
        """How often the link was lost of late; a loss counts half after 60 s."""
        return self.resets_milli / 1000

    @property
    def load(self) -> float:
        """Traffic as a part of capacity, from 0 to 1; 0 if capacity is not known."""
        return min(1.0, self.traffic / self.capacity) if self.capacity else 0.0


def worse(one: Weights, other: Weights) -> Weights:
    """Return one weight set for a link of which both ends tell: the worse of each measure."""
    known = [weights.capacity for weights in (one, other) if weights.capacity]
    return Weights(
        max(one.rtt_ns, other.rtt_ns),
        max(one.jitter_ns, other.jitter_ns),
        min(known, default=0),
        max(one.traffic, other.traffic),
        max(one.queued_ns, other.queued_ns),
        max(one.resets_milli, other.resets_milli),
    )


def agreed(weights: Weights, recent: Sequence[Nanos]) -> Weights:
    """Return the weights as far as all of the ``recent`` round trips agree on them.

    One measurement may have met a process that the scheduler ran late, and the mean shows it for
    long. So the smallest round trip counts; and of the variation, what more than one shows.
    """
    floor, second = sorted((*recent, min(recent)) if len(recent) == 1 else recent)[:2]
    return msgspec.structs.replace(
        weights,
        rtt_ns=floor,
        jitter_ns=min(weights.jitter_ns, second - floor),
    )


class RoundTrip:
    """Smoothed round trip time and its mean deviation, as in RFC 6298 but with other gains.

    The deviation begins with none: it judges the link here, and sets no timer that must not fire.
    After some samples in a row of less than half the mean the link is another: it begins anew.
    """

    __slots__ = ("_low", "_recent", "jitter_ns", "rtt_ns", "samples")

    def __init__(self) -> None:
        self.rtt_ns: Nanos = 0
        self.jitter_ns: Nanos = 0
        self.samples = 0
        self._low = 0  #: samples in a row of less than half the mean
        self._recent: deque[Nanos] = deque(maxlen=RECENT_SAMPLES)

    @property
    def recent(self) -> tuple[Nanos, ...]:
        """The latest samples, three at most."""
        return tuple(self._recent)

    @property
    def floor_ns(self) -> Nanos:
        """The smallest of the latest samples; 0: there are none."""
        return min(self._recent, default=0)

    def on_sample(self, sample_ns: Nanos) -> None:
        """Take one measured round trip."""
        self.samples += 1
        self._recent.append(sample_ns)
        self._low = self._low + 1 if 2 * sample_ns < self.rtt_ns else 0
        if self.samples == 1 or self._low >= RECOVERED_SAMPLES:
            self._low = 0
            self.rtt_ns = sample_ns
            self.jitter_ns = 0
            return
        deviation = abs(sample_ns - self.rtt_ns)
        self.jitter_ns += (deviation - self.jitter_ns) // JITTER_GAIN
        self.rtt_ns += (sample_ns - self.rtt_ns) // RTT_GAIN


class Flow:
    """Traffic and capacity of one connection, from readings of its queue."""

    __slots__ = ("_at", "_drained", "_queued", "_sent", "capacity", "traffic")

    def __init__(self, now: Nanos) -> None:
        self.traffic = 0.0  #: bytes per second
        self.capacity = 0.0  #: bytes per second; 0: never yet backed up
        self._at = now
        self._sent = 0
        self._queued = 0
        self._drained = (now, 0)  #: when a batch of the queue was last seen to have left, and sent

    @property
    def queued_ns(self) -> Nanos:
        """How long what was queued at the last reading takes to drain."""
        return round(self._queued / self.capacity * NANOS_PER_SECOND) if self.capacity else 0

    def on_reading(self, sent_bytes: int, queued_bytes: int, now: Nanos) -> None:
        """Take how much was sent since the connection was made, and how much waits."""
        if now <= self._at:
            return
        seconds = (now - self._at) / NANOS_PER_SECOND
        rate = max(0, sent_bytes - self._sent) / seconds
        self.traffic += (rate - self.traffic) * -math.expm1(-seconds / TRAFFIC_SECONDS)
        self._on_drained(sent_bytes, min(self._queued, queued_bytes), now)
        self._at, self._sent, self._queued = now, sent_bytes, queued_bytes

    def _on_drained(self, sent_bytes: int, waiting: int, now: Nanos) -> None:
        """See what a queue that holds ``waiting`` all the while has drained.

        A slow link takes large batches, so nothing may have left it between two readings.
        """
        since, before = self._drained
        rate = (sent_bytes - before) / (now - since) * NANOS_PER_SECOND
        is_backed_up = waiting >= max(BACKED_UP_BYTES, rate * BACKED_UP_SECONDS)
        if is_backed_up and sent_bytes == before:
            return
        if is_backed_up:
            self.capacity = (self.capacity + rate) / 2 if self.capacity else rate
        self._drained = (now, sent_bytes)


class Resets:
    """How often links broke of late, by link; longest untouched ones are forgotten."""

    def __init__(self) -> None:
        self._counts: OrderedDict[LinkKey, tuple[float, Nanos]] = OrderedDict()

    def note(self, key: LinkKey, now: Nanos) -> None:
        """The link has broken."""
        count = self._count(key, now) + 1
        self._counts[key] = (count, now)
        self._counts.move_to_end(key)
        if len(self._counts) > MAX_HISTORIES:
            self._counts.popitem(last=False)

    def milli(self, key: LinkKey, now: Nanos) -> int:
        """Return the decayed count in thousandths."""
        return round(1000 * self._count(key, now))

    def _count(self, key: LinkKey, now: Nanos) -> float:
        count, at = self._counts.get(key, (0.0, now))
        return float(count * 0.5 ** ((now - at) / HALF_LIFE_NS))
