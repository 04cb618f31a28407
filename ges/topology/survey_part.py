"""The part of a broker's machine that measures links."""

from __future__ import annotations

from collections.abc import Mapping

from ges.telling.part import CommandHandler, MessageHandler, Part
from ges.topology.survey import Survey
from overlay.ids import LinkClass, Nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Command,
    Effect,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
)
from overlay.multigraph.probes import LinkEcho, LinkProbe, LinksRead
from overlay.multigraph.quick_probes import ExpressCame, QuickEcho, QuickProbe
from overlay.multigraph.weights import RESETS


class SurveyPart(Part):
    """The part of a broker's machine that hands measurements of links to the survey."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Messages about one link."""
        kinds = (LinkProbe, LinkEcho, QuickProbe, QuickEcho)
        return dict.fromkeys(kinds, self._survey.on_message)

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """What the connections and the events on them say of links."""
        return {ExpressCame: self._on_express, LinksRead: self._on_read}

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

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Send the probes that are due."""
        return self._survey.handle_timers(now)

    def next_deadline(self) -> Nanos | None:
        """Return when a probe is due next, or None."""
        return self._survey.next_deadline()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

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
