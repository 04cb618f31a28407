"""Links: tried again with growing pauses, kept while either end wants them, never doubled."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from overlay.ids import NANOS_PER_SECOND, Peer, nanos
from overlay.machine import Closed, CloseLink, LinkRefused, LinkUp, OpenLink, Refused, Send
from overlay.rng import rng_for
from ring.circle.links import MAX_WAITING, RingLinks
from ring.config import LAN
from ring.core import Core, Timer
from ring.wire.messages import Heartbeat, Intent, Purpose
from tests.helpers.bench import peer

OTHER = peer(7)


@pytest.fixture
def core() -> Core:
    return Core(LAN, peer(1), rng_for(1))


@pytest.fixture
def links(core: Core) -> RingLinks:
    return RingLinks(core)


def up(links: RingLinks, other: Peer = OTHER) -> None:
    links.on_up(LinkUp(other, other.url))


def refuse(links: RingLinks, reason: Refused = Refused.UNREACHABLE) -> None:
    links.on_refused(LinkRefused(OTHER.url, OTHER.uid, reason))


def test_what_is_said_to_a_later_life_does_not_go_over_the_link_to_the_old_one(
    core: Core, links: RingLinks
) -> None:
    later = replace(OTHER, incarnation=OTHER.incarnation + 1)
    up(links)
    core.take()
    links.tell(later, Heartbeat(1))
    assert core.take() == [OpenLink(OTHER.url, OTHER.uid, replace=True)]
    up(links, later)
    assert core.take() == [Send(OTHER.uid, Heartbeat(1))]
    links.tell(OTHER, Heartbeat(2))
    assert core.take() == [Send(OTHER.uid, Heartbeat(2))]


def test_what_is_said_before_the_link_is_up_waits_for_it(core: Core, links: RingLinks) -> None:
    links.tell(OTHER, Heartbeat(1))
    links.tell(OTHER, Heartbeat(2), "about")
    assert core.take() == [OpenLink(OTHER.url, OTHER.uid)]
    up(links)
    sends = [effect for effect in core.take() if isinstance(effect, Send)]
    assert sends == [Send(OTHER.uid, Heartbeat(1)), Send(OTHER.uid, Heartbeat(2), "about")]


def test_what_waits_for_a_link_is_bounded(core: Core, links: RingLinks) -> None:
    for version in range(2 * MAX_WAITING):
        links.tell(OTHER, Heartbeat(version))
    core.take()
    up(links)
    assert len([effect for effect in core.take() if isinstance(effect, Send)]) == MAX_WAITING


@pytest.mark.parametrize("expected", [OTHER.uid, None])
def test_what_waits_for_a_link_that_cannot_be_made_is_dropped(
    core: Core, links: RingLinks, expected: str | None
) -> None:
    links.open(OTHER.url, expected)  # None: as one calls a seed, or a lost peer
    links.tell(OTHER, Heartbeat(1))
    links.on_refused(LinkRefused(OTHER.url, expected, Refused.UNREACHABLE))
    core.take()
    up(links)
    assert [effect for effect in core.take() if isinstance(effect, Send)] == []


@pytest.mark.parametrize("expected", [OTHER.uid, None])
def test_what_waits_for_a_link_is_dropped_if_another_answers_there(
    core: Core, links: RingLinks, expected: str | None
) -> None:
    """A process with another identity listens there now; the broker may be met again elsewhere."""
    links.open(OTHER.url, expected)
    links.tell(OTHER, Heartbeat(1))
    links.on_up(LinkUp(replace(peer(8), url=OTHER.url), OTHER.url))
    links.on_up(LinkUp(replace(OTHER, url="chordal://elsewhere:1"), "chordal://elsewhere:1"))
    assert [effect for effect in core.take() if isinstance(effect, Send)] == []


def test_a_wanted_link_is_opened_and_its_purpose_told(core: Core, links: RingLinks) -> None:
    wanted = {OTHER.uid: (OTHER, Purpose.RING)}
    links.want(wanted, "about")
    assert core.take() == [OpenLink(OTHER.url, OTHER.uid, "about")]
    up(links)
    assert core.take() == [Send(OTHER.uid, Intent(Purpose.RING))]
    links.want(wanted, None)
    links.want({OTHER.uid: (OTHER, Purpose.CHORD)}, None)
    links.want({}, None)
    assert core.take() == [
        Send(OTHER.uid, Intent(Purpose.CHORD)),
        Send(OTHER.uid, Intent(Purpose.NONE)),
    ]


def test_pauses_between_attempts_grow_up_to_a_limit(core: Core, links: RingLinks) -> None:
    pauses = []
    wanted = {OTHER.uid: (OTHER, Purpose.RING)}
    links.want(wanted, None)
    for _ in range(12):
        refuse(links)
        due = core.timers.next_deadline()
        assert due is not None
        pauses.append(due - core.now)
        core.now = due
        core.timers.pop_expired(due)
        core.take()
        links.on_retry(OTHER.url)
        assert core.take() == [OpenLink(OTHER.url, OTHER.uid)]
    assert LAN.retry_ns / 2 <= pauses[0] <= 1.5 * LAN.retry_ns
    assert 0.5 * LAN.retry_max_ns <= pauses[-1] <= 1.5 * LAN.retry_max_ns


def pause_after(failures: int, seed: int) -> float:
    """Return how long a broker waits after so many failures in a row, in seconds."""
    core = Core(LAN, peer(1), rng_for(seed))
    links = RingLinks(core)
    links.want({OTHER.uid: (OTHER, Purpose.RING)}, None)
    for _ in range(failures):
        refuse(links)
    due = core.timers.next_deadline()
    assert due is not None
    return (due - core.now) / NANOS_PER_SECOND


@pytest.mark.parametrize(("failures", "mean"), [(1, 0.3), (2, 0.6), (3, 1.2), (7, 10), (50, 10)])
def test_brokers_that_lose_a_link_together_do_not_call_again_together(
    failures: int, mean: float
) -> None:
    pauses = [pause_after(failures, seed) for seed in range(20)]
    assert len(set(pauses)) == 20
    assert 0.5 * mean <= min(pauses) < 0.8 * mean
    assert 1.2 * mean < max(pauses) <= 1.5 * mean


def test_a_link_not_wanted_any_more_is_not_tried_again(core: Core, links: RingLinks) -> None:
    links.want({OTHER.uid: (OTHER, Purpose.RING)}, None)
    refuse(links)
    links.want({}, None)
    core.take()
    links.on_retry(OTHER.url)
    assert core.take() == []


def test_of_two_crossing_attempts_the_other_ends_may_win(core: Core, links: RingLinks) -> None:
    """Told that the other end's attempt goes through, we wait for it, and only so long."""
    links.want({OTHER.uid: (OTHER, Purpose.RING)}, None)
    links.tell(OTHER, Heartbeat(1))
    refuse(links, Refused.DUPLICATE)
    assert (Timer.RETRY, OTHER.url) in core.timers
    core.take()
    up(links)
    assert Send(OTHER.uid, Heartbeat(1)) in core.take()
    assert (Timer.RETRY, OTHER.url) not in core.timers


def test_no_second_attempt_while_one_is_under_way(core: Core, links: RingLinks) -> None:
    links.open(OTHER.url, OTHER.uid)
    links.open(OTHER.url, None)
    links.tell(OTHER, Heartbeat(1))
    assert core.take() == [OpenLink(OTHER.url, OTHER.uid)]


def test_nobody_calls_itself(core: Core, links: RingLinks) -> None:
    links.open(core.peer.url, None)
    assert core.take() == []


def linger(core: Core, links: RingLinks) -> list[object]:
    core.now += LAN.linger_ns
    while (key := core.timers.pop_expired(core.now)) is not None:
        assert key == (Timer.LINGER, OTHER.uid)
        links.on_linger(OTHER.uid)
    return list(core.take())


def test_a_link_that_neither_end_wants_goes_after_a_while(core: Core, links: RingLinks) -> None:
    links.want({OTHER.uid: (OTHER, Purpose.RING)}, None)
    up(links)
    links.on_intent(OTHER.uid, Intent(Purpose.CHORD))
    links.want({}, None)
    core.timers.cancel((Timer.SILENT, OTHER.uid))
    core.take()
    assert linger(core, links) == []
    links.on_intent(OTHER.uid, Intent(Purpose.NONE))
    assert linger(core, links) == [CloseLink(OTHER.uid, Closed.UNWANTED)]
    assert links.up == {}


def test_a_link_wanted_again_in_time_stays(core: Core, links: RingLinks) -> None:
    up(links)
    core.now += LAN.linger_ns - nanos(0.1)
    links.want({OTHER.uid: (OTHER, Purpose.CHORD)}, None)
    core.take()
    assert linger(core, links) == []
    assert core.now > NANOS_PER_SECOND
    assert OTHER.uid in links.up


def test_a_link_lost_is_made_anew_while_wanted(core: Core, links: RingLinks) -> None:
    wanted = {OTHER.uid: (OTHER, Purpose.CHORD)}
    links.want(wanted, None)
    up(links)
    links.want(wanted, None)
    core.take()
    links.on_down(OTHER.uid)
    links.want(wanted, None)
    assert core.take() == [OpenLink(OTHER.url, OTHER.uid)]
