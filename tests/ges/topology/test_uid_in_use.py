"""Another process under this broker's uid: told once, and only if it lasts."""

from __future__ import annotations

from ges.topology.uid_in_use import FORGET_IN_USE_NS, IN_USE_NS, UidInUse
from overlay.ids import Nanos
from overlay.machine import LinkRefused, Notify, Refused
from tests.helpers.node_bench import Bench, peer

URL = peer("c").url
TOLD = [Notify(UidInUse(URL))]


def said(bench: Bench, now: Nanos, reason: Refused = Refused.UID_IN_USE) -> list[Notify]:
    """Let a link be refused at a time; return what is told of that."""
    bench.now = now
    effects = bench.give(LinkRefused(URL, "c" * 32, reason))
    return [e for e in effects if isinstance(e, Notify) and isinstance(e.fact, UidInUse)]


def test_it_is_told_once_if_it_lasts() -> None:
    bench = Bench()
    assert said(bench, 1) == []
    assert said(bench, IN_USE_NS) == [], "an earlier call of ours may have met our own later life"
    assert said(bench, 1 + IN_USE_NS) == TOLD
    assert said(bench, 1 + FORGET_IN_USE_NS) == []


def test_it_is_told_again_after_a_while() -> None:
    bench = Bench()
    assert said(bench, 0) + said(bench, IN_USE_NS) == TOLD
    again = FORGET_IN_USE_NS + 1
    assert said(bench, again) + said(bench, again + IN_USE_NS) == TOLD


def test_other_refusals_do_not_say_so() -> None:
    bench = Bench()
    assert said(bench, 0, Refused.BUSY) + said(bench, IN_USE_NS, Refused.BUSY) == []


def test_a_newcomer_is_told_by_its_join_alone() -> None:
    bench = Bench(founds=False)
    assert said(bench, 0) + said(bench, IN_USE_NS) == []
