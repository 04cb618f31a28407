"""The numbers that the pages on links, express events and reliability state are those that hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from ges.broker import broker
from ges.client import keepalive, outgoing, resuming, tries
from ges.client.attachment import KEPT_BYTES as UNCONFIRMED_BYTES
from ges.delivery import kept, past
from ges.gateways import costs, lasting, own_links
from ges.order import flow_order, recall
from ges.routing import holding
from ges.sessions import reader
from ges.sessions import session as sessions
from ges.topology import parallel_links
from overlay.ids import nanos
from overlay.limits import LIMITS
from overlay.links import calling, keeping, lifecycle, stillness
from overlay.multigraph import (
    cost,
    express_range,
    probes,
    quick_probes,
    weights,
)
from overlay.net import connection, slices
from overlay.queues import pace, resend
from overlay.wire import codec, fragments
from ring.circle import damping
from ring.config import LAN

DOCS = Path(__file__).parents[3] / "docs"

KIB, MIB = 1024, 1024 * 1024

#: As it is stated, what holds, what is stated.
Statement = tuple[str, object, object]

LINKS: list[Statement] = [
    # weights and costs
    ("each sample counts 1/4", (weights.RTT_GAIN, weights.JITTER_GAIN), (4, 4)),
    ("Four samples in a row below half the mean", weights.RECOVERED_SAMPLES, 4),
    ("averaged over 2 s", weights.TRAFFIC_SECONDS, 2),
    (
        "more than 8 KiB, and more than 50 ms of it",
        (weights.BACKED_UP_BYTES, weights.BACKED_UP_SECONDS),
        (8 * KIB, 0.05),
    ),
    ("One counts half after 60 s", weights.HALF_LIFE_NS, nanos(60)),
    (
        "doubles from 4 s to 16 s",
        (probes.Pace().idle_ns, probes.Pace().longest_ns),
        (nanos(4), nanos(16)),
    ),
    (
        "every 4 s, once it was found to vary for 12 probes more than it was steady",
        (probes.RESTLESS, probes.Pace().idle_ns),
        (12, nanos(4)),
    ),
    ("rtt + 4 jitter", cost.EXPRESS_DEVIATIONS, 4),
    ("min(load, 3/4)", cost.MAX_LOAD, 0.75),
    ("+ 50 us", cost.HOP_NS, 50_000),
    (
        "rises by a quarter (and half a millisecond)",
        (cost.RISE, cost.LEAST_NS),
        (1.25, nanos(0.0005)),
    ),
    (
        "the smallest of the latest three round trips",
        weights.RECENT_SAMPLES,
        3,
    ),
    (
        "under way for one, two or three seconds counts as so many measurements",
        probes.Pace().busy_ns,
        nanos(1),
    ),
    (
        "A cost that falls by a quarter counts when it has stayed so for 3 s",
        (cost.FALL, cost.CALM_NS),
        (0.75, nanos(3)),
    ),
    # paths
    ("at once, at most every 50 ms", own_links.GATHER_NS, nanos(0.05)),
    (
        "by three buckets or more is told at most every second",
        (own_links.MUCH, own_links.MUCH_NS),
        (3, nanos(1)),
    ),
    ("A smaller one is told at most every 8 s", own_links.COST_NS, nanos(8)),
    ("each 1.5 times the one before", (costs.BUCKETS_NS[0], costs.BUCKETS_NS[1]), (50000, 75000)),
    ("counts for 0.4 s more", lasting.GRACE_NS, nanos(0.4)),
]

EXPRESS: list[Statement] = [
    (
        "outside for 1 s, in three measurements in a row, is *demoted*",
        express_range.DEMOTE_NS,
        nanos(1),
    ),
    (
        "below 0.8 of the range for 3 s",
        (express_range.WELL_INSIDE, express_range.PROMOTE_NS),
        (0.8, nanos(3)),
    ),
    (
        "smallest of the latest four *quick probes*",
        (quick_probes.LATEST, quick_probes.FEWEST),
        (4, 3),
    ),
    ("as soon as there are three", quick_probes.FEWEST, 3),
    (
        "every 0.3 s while they come, every second after that, and no more when none has come for "
        "30 s",
        (quick_probes.QUICK_NS, quick_probes.SLOW_NS, quick_probes.FORGET_NS),
        (nanos(0.3), nanos(1), nanos(30)),
    ),
    ("the smallest of the latest three counts", weights.RECENT_SAMPLES, 3),
]

QUEUES: list[Statement] = [
    (
        "A frame longer than 64 KiB goes out in slices of 64 KiB",
        fragments.SLICE_BYTES,
        64 * KIB,
    ),
    ("slices below 1 KiB that are not the last", fragments.MIN_SLICE_BYTES, KIB),
    (
        "of 256 frames or 32 KiB of small ones, it asks again every half millisecond",
        (codec.FRAMES_A_READ, codec.READ_BYTES, slices.LOOK_SECONDS),
        (256, 32 * KIB, 0.0005),
    ),
    (
        "64 MiB to a broker, 16 MiB to a client, 4 MiB of express in each",
        (
            lifecycle.LINK_QUEUE_BYTES,
            sessions.CLIENT_QUEUE_BYTES,
            connection.EXPRESS_QUEUE_BYTES,
        ),
        (64 * MIB, 16 * MIB, 4 * MIB),
    ),
    (
        "more than 1 MiB in a queue it is *crowded*",
        (pace.CROWD_BYTES,),
        (MIB,),
    ),
    (
        "they wait up to half a second. Each MiB that it takes earns it one more second of "
        "waiting, so they slow down to what it takes, but not below 1 MiB/s",
        (connection.HOLD_SECONDS, connection.HOLD_RATE),
        (0.5, MIB),
    ),
    (
        "a quarter of its queue's limit in a second (4 MiB), or 16,384 events",
        (pace.QUICK_SHARE, pace.QUICK_SHARE * sessions.CLIENT_QUEUE_BYTES, pace.QUICK_EVENTS),
        (1 / 4, 4 * MIB, 16_384),
    ),
    ("they wait a fifth of the time at most", pace.WAIT_SHARE, 1 / 5),
    ("no more than 16 KiB in one read", reader.EXPRESS_BYTES, 16 * KIB),
]

BROKEN_LINKS: list[Statement] = [
    (
        "after 8192 events, 1 MiB or 200 ms",
        (resend.ACK_FRAMES, resend.ACK_BYTES, resend.ACK_NS),
        (8192, MIB, nanos(0.2)),
    ),
    (
        "At most 8 MiB or 65,536 events are under way",
        (resend.WINDOW_BYTES, resend.WINDOW_FRAMES),
        (8 * MIB, 65536),
    ),
    (
        "32 MiB or 262,144 events for one lost link, and 256 MiB of memory for all lost links",
        (resend.KEPT_BYTES, resend.KEPT_FRAMES, resend.KEPT_BYTES_TOTAL),
        (32 * MIB, 262144, 256 * MIB),
    ),
    ("again twice, after 20 and 40 ms", calling.PAUSES_SECONDS, (0.02, 0.04)),
    (
        "1 s, up to 30 s, doubling",
        (2 * parallel_links.RETRY_NS, parallel_links.RETRY_MAX_NS),
        (nanos(1), nanos(30)),
    ),
    (
        "at once; then after 0.3 s, doubling up to 10 s (profile `lan`)",
        (LAN.retry_ns, LAN.retry_max_ns),
        (nanos(0.3), nanos(10)),
    ),
    (
        "rests for 8 detection times, which are 8.4 s in `lan`",
        (damping.FIRST_PAUSE, damping.FIRST_PAUSE * LAN.silence_ns),
        (8, nanos(8.4)),
    ),
    (
        "doubles with each further loss, up to 32 times that",
        1 << damping.MAX_DOUBLINGS,
        32,
    ),
    ("From the third loss in a row on", damping.FORGIVEN, 2),
    ("has stayed up for 25 detection times starts anew", damping.STEADY, 25),
    ("1.8 s at most until it is suspected", LAN.silence_max_ns, nanos(1.8)),
    ("has not answered for 0.8 s", LAN.test_ns, nanos(0.8)),
    ("3 s until it counts as dead", LAN.alone_ns, nanos(3)),
    (
        "pauses of 50 ms, doubling up to 1 s",
        (tries.RETRY_SECONDS, tries.RETRY_MAX_SECONDS),
        (0.05, 1),
    ),
    (
        "gives a client up after 15 s of silence, the client a broker after 1.2 s",
        (LIMITS.client_silence_seconds, keepalive.SILENCE_SECONDS),
        (15, 1.2),
    ),
    (
        "waits four times the slowest, 10 s at most",
        (keepalive.TIMES_SLOWEST, keepalive.SILENCE_MAX_SECONDS),
        (4, 10),
    ),
    ("not come back after 0.4 s", holding.HOLD_NS, nanos(0.4)),
    ("Nothing of them was taken for 0.5 s", stillness.STILL_SECONDS, 0.5),
    ("goes on draining for up to 10 s", keeping.PARTING_SECONDS, 10),
    ("nor been judged after 20 s", holding.GIVE_UP_NS, nanos(20)),
    ("every 0.5 s until there is an answer", flow_order.ASK_AGAIN_NS, nanos(0.5)),
    ("is waited for 1 s", flow_order.UNKNOWN_NS, nanos(1)),
    (
        "keeps it for 10 s, at most 4 MiB of one publisher and 64 MiB in all",
        (recall.KEPT_NS, recall.FLOW_BYTES, recall.ALL_BYTES),
        (nanos(10), 4 * MIB, 64 * MIB),
    ),
]

RELIABILITY: list[Statement] = [
    (
        "2.6 s (`lan`) that events may wait for a silent ring neighbour",
        LAN.silence_max_ns + LAN.test_ns,
        nanos(2.6),
    ),
    (
        "After 0.5 s it says so in one line",
        tries.TELL_SECONDS,
        0.5,
    ),
    ("waits up to 1.5 s for links", broker.LINK_SECONDS, 1.5),
    ("Up to 8 MiB of each class are kept", UNCONFIRMED_BYTES, 8 * MIB),
    ("up to 1 MiB of each class", outgoing.CONFIRMED_BYTES, MIB),
    ("confirmed in the last second in which", outgoing.CONFIRMED_SECONDS, 1),
    ("*in memory for 10 seconds*", recall.KEPT_NS, nanos(10)),
    ("in the last 10 s (16 MiB)", (kept.KEPT_NS, kept.KEPT_BYTES), (nanos(10), 16 * MIB)),
    ("from up to 0.25 s before it", resuming.SLACK_SECONDS, 0.25),
    ("Other brokers give up after 4 s on events that they miss", flow_order.PATIENCE_NS, nanos(4)),
    (
        "waits for up to 4 s for events that only the other half had",
        flow_order.PATIENCE_NS,
        nanos(4),
    ),
    ("It waits 2 s at most", past.ROUND_NS, nanos(2)),
    ("One answer has 4 MiB at most", past.ANSWER_BYTES, 4 * MIB),
]

STATED = {
    "links.md": LINKS,
    "express.md": EXPRESS,
    "queues.md": QUEUES,
    "broken-links.md": BROKEN_LINKS,
    "reliability.md": RELIABILITY,
}


@pytest.mark.parametrize(
    ("page", "words", "found", "number"),
    [
        pytest.param(page, *each, id=f"{page}: {each[0]}")
        for page, statements in STATED.items()
        for each in statements
    ],
)
def test_what_is_stated_holds(page: str, words: str, found: object, number: object) -> None:
    text = " ".join((DOCS / page).read_text(encoding="utf-8").split())
    assert words in text
    assert found == number
