"""Broken rules of chords, routes and runs of dead neighbours."""

from __future__ import annotations

from typing import Any

from ring.circle.chords import Chords
from ring.circle.searches import Routing
from ring.core import Timer
from ring.detection.event_links import EventLinks
from ring.geometry import clockwise
from ring.repair.chord_queries import ChordQueries
from ring.repair.dead_runs import DeadRuns
from ring.wire.messages import Member
from tests.mutants.mutant import Chapter, nothing

CHORDS = Chapter(first="quiet")


def _any_other(self: Chords, level: int, member: Member) -> bool:
    return member.uid != self._core.peer.uid


CHORDS.add(
    "chords-have-no-end",
    "a chord may lead round past this broker again",
    (Chords, "_extends", _any_other),
)
CHORDS.add(
    "chords-not-refreshed",
    "chords are never asked for again",
    (Chords, "on_refresh_due", lambda self: self.start()),
)
CHORDS.add("dead-chords-kept", "a chord to the dead stays", (Chords, "on_dead", nothing))


def _one_way_less(self: Chords, uid: str, query: Any) -> None:  # noqa: ANN401
    here = self._core.member.ring_id
    nearest = sorted(self.levels, key=lambda m: clockwise(here, m.ring_id))[:1]
    level = query.level
    self._core.send(uid, type(self._answer(level))(level, nearest[0] if nearest else None, 2))


CHORDS.add(
    "chords-do-not-double",
    "every question for a chord is answered with right-right",
    (Chords, "on_query", _one_way_less),
)
CHORDS.add(
    "chords-not-watched",
    "a chord that fell silent is not noticed",
    (ChordQueries, "watch", nothing),
)
CHORDS.add(
    "routes-stop-at-dead-ends",
    "a search that can go no nearer ends, instead of going back and round",
    (Routing, "_send_back", nothing),
    (Routing, "_pass_by", nothing),
)


def _wait_on(self: DeadRuns, name: str) -> None:
    self._sides[name].searches += 1
    self._core.arm(Timer.GAP, name, self._core.config.route_ns)


CHORDS.add(
    "runs-not-searched",
    "where all the known neighbours on one side are gone, nobody is searched for",
    (DeadRuns, "on_due", _wait_on),
)
CHORDS.add(
    "carriers-not-watched",
    "a chord that carries events and falls silent is not noticed",
    (EventLinks, "on_due", nothing),
)
