"""Lists of revoked identities on their way through the overlay: what to believe, and to pass on.

A broker with an identity checks a list against its authority; it keeps the newest, and passes that
on once. One without cannot check, but may stand between brokers that can, so it passes on what it
has not seen, a few and seldom: a stranger who sends it false lists delays true ones for seconds at
most, and nobody believes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ges.telling.part import CommandHandler, MessageHandler, Part
from ges.wire.broker_messages import RevocationNotice
from overlay.errors import ProtocolError
from overlay.ids import Nanos, nanos
from overlay.machine import Command, Effect, Fact, Message, Notify, Send
from overlay.multigraph.weights import LinkKey
from overlay.security.revocation import Revocations

UNCHECKED_KEPT = 4  #: lists that a broker without identity keeps and passes on
UNCHECKED_PAUSE_NS = nanos(1.0)  #: it takes one so often, and as many at once as it keeps


class Outcome(StrEnum):
    """What became of a list."""

    NEWS = "news"  #: believed, or, without identity, passed on
    OLD = "old"  #: known already, or older than what is known
    FALSE = "false"  #: not the authority's
    TOO_MANY = "too_many"  #: unchecked lists come too fast


@dataclass(frozen=True, slots=True)
class Spread(Command):
    """Make a list of revoked identities known to all brokers."""

    notice: RevocationNotice


@dataclass(frozen=True, slots=True)
class NoticeTaken(Fact):
    """A list came that was not known."""

    outcome: Outcome
    sender: str | None  #: uid; None: from here


class RevocationLists(Part):
    """The lists of one broker, a part of its machine."""

    def __init__(self, revocations: Revocations | None, normal: Collection[str]) -> None:
        """Take the list to keep, None without an identity; and who has normal links to here."""
        self._revocations = revocations
        self._normal = normal
        self._unchecked: deque[RevocationNotice] = deque(maxlen=UNCHECKED_KEPT)
        self._taken: deque[Nanos] = deque(maxlen=UNCHECKED_KEPT)

    @property
    def known(self) -> tuple[RevocationNotice, ...]:
        """What a broker newly linked is told."""
        if self._revocations is None:
            return tuple(self._unchecked)
        current = self._revocations.current
        return () if current is None else (RevocationNotice(current.crl, current.voucher),)

    def forbids(self, uid: str) -> bool:
        """Say whether the holder of ``uid`` counts no more."""
        return self._revocations is not None and self._revocations.forbids(uid)

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Lists that others pass on."""
        return {RevocationNotice: self._on_notice}

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """Lists that a client or the owner of this broker has handed over."""
        return {Spread: self._on_spread}

    def greet(self, uid: str) -> list[Effect]:
        """Tell all lists that count."""
        return [Send(uid, notice) for notice in self.known]

    def take(self, notice: RevocationNotice, now: Nanos) -> Outcome:
        """Judge a list that was heard of."""
        if self._revocations is None:
            return self._pass_on(notice, now)
        try:
            found = self._revocations.learn(notice.crl, notice.voucher)
        except ProtocolError:
            return Outcome.FALSE
        return Outcome.OLD if found is None else Outcome.NEWS

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_notice(self, key: LinkKey, notice: RevocationNotice, now: Nanos) -> list[Effect]:
        return self._spread(notice, now, but=key[0])

    def _on_spread(self, command: Spread, now: Nanos) -> list[Effect]:
        return self._spread(command.notice, now)

    def _spread(self, notice: RevocationNotice, now: Nanos, but: str | None = None) -> list[Effect]:
        """Pass a list on if it is news, and the authority's."""
        effects: list[Effect] = []
        outcome = self.take(notice, now)
        if outcome is Outcome.NEWS:
            effects += [Send(uid, notice) for uid in self._normal if uid != but]
        if outcome is not Outcome.OLD:
            effects.append(Notify(NoticeTaken(outcome, but)))
        return effects

    def _pass_on(self, notice: RevocationNotice, now: Nanos) -> Outcome:
        if notice in self._unchecked:
            return Outcome.OLD
        taken = self._taken
        if len(taken) == UNCHECKED_KEPT and now - taken[0] < UNCHECKED_KEPT * UNCHECKED_PAUSE_NS:
            return Outcome.TOO_MANY
        taken.append(now)
        self._unchecked.append(notice)
        return Outcome.NEWS
