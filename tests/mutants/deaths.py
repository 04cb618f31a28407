"""Broken rules of deaths, repairs, and lives that go on."""

from __future__ import annotations

from typing import Any

import msgspec

from overlay.machine import Closed
from ring.circle.neighbourhood import Neighbourhood
from ring.coordination.deaths import Deaths
from ring.coordination.link_events import LinkEvents
from ring.coordination.membership import Membership
from ring.facts import Confirmed
from ring.repair.closing import Loss, Repair
from ring.repair.link_backups import LinkBackups
from ring.wire.messages import Failed, Member
from tests.mutants.mutant import Chapter, Method, around, nothing

DEATHS = Chapter(first="deaths")


def _tell_nobody(self: Repair, subject: Member, witnesses: tuple[str, ...]) -> None:
    self._core.notify(Confirmed(subject, witnesses))
    self._unrepaired[subject.uid] = Loss(subject, witnesses)


DEATHS.add(
    "death-not-told",
    "who confirms a death tells nobody of it",
    (Repair, "begin", _tell_nobody),
)


def _only_remove(self: Deaths, uid: str, notice: Any) -> None:  # noqa: ANN401
    if notice.subject.uid != self._parts.core.peer.uid:
        self._remove(notice.subject, notice.heir, witnessed=bool(notice.witnesses))


DEATHS.add(
    "notice-not-passed-on",
    "who is told of a death does not tell its own neighbours, and does not divide the dead",
    (Deaths, "on_failed", _only_remove),
)


def _only_about_self(original: Method) -> Method:
    def on_failed(self: Deaths, uid: str, notice: Any) -> None:  # noqa: ANN401
        if notice.subject.uid == self._parts.core.peer.uid:
            original(self, uid, notice)

    return on_failed


DEATHS.add(
    "notice-ignored",
    "who is told of another's death does not believe it",
    around(Deaths, "on_failed", _only_about_self),
)
DEATHS.add(
    "strangers-believed",
    "a stranger's notice of a death is believed without a test",
    (Deaths, "_is_trusted", lambda self, teller, subject: True),
)
DEATHS.add(
    "claims-believed",
    "who says itself that it stands beside us is believed like a neighbour that others show",
    (Neighbourhood, "is_attested", lambda self, uid: uid in self.adjacent),
)
DEATHS.add("no-backups", "no links are backed up", (LinkBackups, "exchange", nothing))
DEATHS.add(
    "holders-not-told",
    "those who hold chords to the dead are not told",
    (Repair, "_divide", nothing),
)
DEATHS.add(
    "accused-stays",
    "who is told that it was declared dead does not come back as a newcomer",
    (Membership, "_rejoin", nothing),
)


def _same_life(original: Method) -> Method:
    def rejoin(self: Membership, reason: str) -> None:
        core = self._parts.core
        life = core.peer.incarnation
        original(self, reason)
        core.peer = msgspec.structs.replace(core.peer, incarnation=life)

    return rejoin


DEATHS.add(
    "same-incarnation",
    "who was declared dead comes back under the incarnation that is dead",
    around(Membership, "_rejoin", _same_life),
)


def _departure_is_loss(original: Method) -> Method:
    def on_lost(self: LinkEvents, uid: str, reason: Closed) -> None:
        original(self, uid, Closed.LOST if reason is Closed.LEAVING else reason)

    return on_lost


def _all_are_witnessed(original: Method) -> Method:
    def outlive(self: Membership, holder: str, *, witnessed: bool) -> None:
        original(self, holder, witnessed=True)

    return outlive


def _none_is_tested(original: Method) -> Method:
    def on_failed(self: Deaths, uid: str, notice: Failed) -> None:
        hood, subject = self._parts.hood, notice.subject
        is_news = not hood.is_dead(subject.uid, subject.incarnation)
        if not notice.witnesses and subject.uid != self._parts.core.peer.uid and is_news:
            self._believe(uid, notice, witnessed=False)
        else:
            original(self, uid, notice)

    return on_failed


DEATHS.add(
    "lone-verdicts-bind",
    "a neighbour that was cut off makes a broker join anew by its verdict",
    around(Membership, "outlive", _all_are_witnessed),
)
DEATHS.add(
    "lone-notices-believed",
    "a notice of a death that nobody bears witness to is believed without a test",
    around(Deaths, "on_failed", _none_is_tested),
)
DEATHS.add(
    "goodbyes-not-heard",
    "a broker that leaves is treated like one that is lost",
    (Deaths, "on_leaving", nothing),
    around(LinkEvents, "_on_lost", _departure_is_loss),
)
DEATHS.add(
    "departed-stay",
    "who left, or came back under a new incarnation, is not taken out of the pointers",
    (Deaths, "depart", nothing),
)
