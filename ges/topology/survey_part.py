"""The part of a broker's machine that measures links, and keeps the relay paths over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ges.topology.declared_links import DeclaredLinks
from ges.topology.part import CommandHandler, MessageHandler, Part, RingView
from ges.topology.relay_paths import RelayPaths
from ges.topology.survey import Survey
from ges.wire.broker_messages import MeasuredLinks
from overlay.ids import LinkClass, Nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Command,
    Effect,
    Fact,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
)
from overlay.multigraph.probes import LinkEcho, LinkProbe, LinksRead
from overlay.multigraph.quick_probes import ExpressCame, QuickEcho, QuickProbe
from overlay.multigraph.weights import RESETS
from ring.facts import Confirmed, Departed


@dataclass(frozen=True, slots=True)
class Misled(Command):
    """A neighbour sent an event by us over a link that we do not have (any more)."""

    uid: str


class SurveyPart(Part):
    """What the survey is told, and the relay paths that follow it."""

    def __init__(
        self, ring: RingView, survey: Survey, paths: RelayPaths, declared: DeclaredLinks
    ) -> None:
        """``declared`` knows which links carry events."""
        self._ring = ring
        self._survey = survey
        self._paths = paths
        self._declared = declared
        self._carriers = 0  #: changes of these that have been followed

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Messages about one link, and tables of links."""
        kinds = (LinkProbe, LinkEcho, QuickProbe, QuickEcho, MeasuredLinks)
        return dict.fromkeys(kinds, self._survey.on_message)

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """What the connections and the events on them say of links."""
        return {Misled: self._on_misled, ExpressCame: self._on_express, LinksRead: self._on_read}

    def on_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        """Measure links of all classes while they are up."""
        if isinstance(event, LinkUp):
            self._survey.on_up((event.peer.uid, event.link_class), now)
        elif isinstance(event, LinkDown):
            self._on_end(event.uid, event.link_class, event.reason, now)
        return []

    def on_close(self, close: CloseLink, now: Nanos) -> list[Effect]:
        """Count what the ring closes as lost as broken: the link was half-open."""
        self._on_end(close.uid, close.link_class, close.reason, now)
        return []

    def on_fact(self, fact: Fact, now: Nanos) -> list[Effect]:
        """Forget the links of a broker that is gone."""
        match fact:
            case Confirmed(gone) | Departed(gone):
                self._survey.on_gone(gone.uid)
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Probe and tell, each when it is due."""
        return self._survey.handle_timers(now)

    def next_deadline(self) -> Nanos | None:
        """Return when a probe, a table or the choice of paths is due next, or None."""
        deadlines = (self._survey.next_deadline(), self._paths.next_deadline())
        return min((d for d in deadlines if d is not None), default=None)

    def settle(self, now: Nanos) -> list[Effect]:
        """Bring the relay paths up to what is known of links."""
        self._survey.set_incarnation(self._ring.peer.incarnation, now)
        if self._declared.changes != self._carriers:
            self._carriers = self._declared.changes
            self._survey.on_carriers(now)
        self._paths.follow(now)
        return []

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_misled(self, command: Misled, now: Nanos) -> list[Effect]:
        return self._survey.correct(command.uid)

    def _on_express(self, command: ExpressCame, now: Nanos) -> list[Effect]:
        self._survey.on_express(command.key, now)
        return []

    def _on_read(self, command: LinksRead, now: Nanos) -> list[Effect]:
        self._survey.on_read(command.readings, now)
        return []

    def _on_end(self, uid: str, link_class: LinkClass, reason: Closed, now: Nanos) -> None:
        """A link has ended, and with a normal one those beside it; all count as it does."""
        beside = (LinkClass.SECURE, LinkClass.EXPRESS) if link_class.is_base else ()
        for each in (link_class, *beside):
            self._survey.on_down((uid, each), now, is_reset=reason in RESETS)
