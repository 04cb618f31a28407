"""The figures that the text of the paper states, to stand beside what is measured.

*Grid Event Service protocols*, section 4.3. They were measured on 22 machines of 1998 (Sun SPARC
Ultra-5, 333 MHz, Java 1.2), each with one broker, in topology I, at the subscriber at broker 10.
The rest of what was measured there is in drawings alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stated:
    """One point of the text; None: it does not say."""

    mean_ms: float | None = None
    variance_ms2: float | None = None
    received_per_s: float | None = None


#: By match rate in percent, size in bytes, and events published a second.
STATED: dict[tuple[int, int, float], Stated] = {
    (100, 50, 1): Stated(15.54, 2.3684, 1),
    (100, 450, 952): Stated(391.85, 69_713.93, 78),
    (100, 75, 492): Stated(received_per_s=480.76),
    (50, 50, 20): Stated(13.02, 56.8196),
    (50, 350, 952): Stated(178.66, 14_634),
    (25, 50, 20): Stated(14.40, 0.24),
    (25, 350, 961): Stated(66.6, 587.04),
    (10, 50, 20): Stated(14.40, 0.44),
    (10, 400, 952): Stated(52.0, 103),
}

NOTHING = Stated()


def stated(match: int, size: int, rate: float, hops: int) -> Stated:
    """Return what the paper says of one point; it says nothing of topology II, with 4 hops or less.

    ``hops``: brokers that the paper has between publisher and subscriber, both ends included.
    """
    return STATED.get((match, size, rate), NOTHING) if hops == 9 else NOTHING
