"""What operators ask of a broker by way of a client.

Who is attached, cut one off, drain, drill, and let a unit join another one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection

from ges.access.operators import why_not_operate
from ges.access.rules import Operation
from ges.sessions.session import Session
from ges.wire.drill_messages import CutOff, Die, Question, SeenRequest, StandStill
from ges.wire.operator_messages import (
    CLIENTS_PER_MESSAGE,
    ClientList,
    ClientsRequest,
    ClientStatus,
    Drain,
    Kick,
    Operated,
    UnitJoin,
    UnitJoining,
    UnitJoinQuestion,
)
from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.links.counted_log import CountedLog
from overlay.machine import Message

_OPERATIONS: dict[type[Message], Operation] = {
    ClientsRequest: Operation.CLIENTS,
    Kick: Operation.KICK,
    Drain: Operation.DRAIN,
    Die: Operation.DRILL,
    StandStill: Operation.DRILL,
    CutOff: Operation.DRILL,
    SeenRequest: Operation.DRILL,
    UnitJoin: Operation.UNITS,
    UnitJoinQuestion: Operation.UNITS,
}

#: All that operators ask.
Operating = ClientsRequest | Kick | Drain | UnitJoin | UnitJoinQuestion | Question


class Operators:
    """Takes what operators ask, from those who may."""

    def __init__(
        self,
        sessions: Collection[Session],
        counted_log: CountedLog,
        now: Callable[[], Nanos],
        *,
        drain: Callable[[float | None], None],
        drill: Callable[[Question, str, Callable[[], int]], Message],
        join_unit: Callable[[UnitJoin | UnitJoinQuestion], UnitJoining],
        is_certified: bool = False,
    ) -> None:
        """``drain`` is handed the seconds that clients have to move; None: as configured.

        ``join_unit`` is handed what is to become of the broker's unit, or a question how far it is.
        ``drill`` is handed what a drill asks, as whom it is known, and what returns the bytes that
        are queued for it. ``is_certified``: this broker holds an identity.
        """
        self._sessions = sessions
        self._counted_log = counted_log
        self._now = now
        self._drain = drain
        self._drill = drill
        self._join_unit = join_unit
        self._is_certified = is_certified

    def take(self, session: Session, message: Operating) -> Message:
        """Do what one client asks, if it may, and return what it is to be told."""
        operation = _OPERATIONS[type(message)]
        problem = why_not_operate(
            session.admission,
            operation,
            is_local=session.is_local,
            is_certified=self._is_certified,
        )
        if problem is not None:
            self._counted_log.note(
                "operations_denied", "operation denied", what=operation, **session.who
            )
            return Operated(problem[:500])
        match message:
            case ClientsRequest(after):
                return self._list(after, asker=session)
            case Kick(uid):
                return Operated(self._kick(uid, by=session))
            case Drain(grace_ms):
                self._counted_log.note(
                    "drains_asked", "drain asked for", by=session.admission.principal.label
                )
                self._drain(None if grace_ms is None else grace_ms / 1000)
                return Operated(None)
            case UnitJoin(called=called):
                label = session.admission.principal.label
                self._counted_log.note(
                    "unit_joins_asked", "a unit is to join another one", into=called, by=label
                )
                return self._join_unit(message)
            case UnitJoinQuestion():
                return self._join_unit(message)
            case _:
                label, connection = session.admission.principal.label, session.connection
                return self._drill(message, label, lambda: connection.queued_bytes)

    def _list(self, after: int, *, asker: Session) -> ClientList:
        wanted = (each for each in self._sessions if each.number > after and not each.only_looks)
        found = heapq.nsmallest(CLIENTS_PER_MESSAGE + 1, wanted, key=lambda each: each.number)
        now = self._now()
        listed = tuple(_describe(each, now, asker) for each in found[:CLIENTS_PER_MESSAGE])
        return ClientList(listed, len(found) > CLIENTS_PER_MESSAGE)

    def _kick(self, uid: str, *, by: Session) -> str | None:
        found = [each for each in self._sessions if each.uid == uid and each is not by]
        if not found:
            return f"no client {uid} is attached here"
        for session in found:
            self._counted_log.note(
                "clients_kicked",
                "client cut off by an operator",
                name=session.admission.principal.label,
                by=by.admission.principal.label,
                **session.who,
            )
            session.connection.finish()
        return None


def _describe(session: Session, now: Nanos, asker: Session) -> ClientStatus:
    normal, express = session.dropped
    connection = session.connection
    return ClientStatus(
        number=session.number,
        is_asker=session is asker,
        uid=session.uid,
        name=session.admission.principal.label,
        host=session.host,
        secure=session.secure,
        age_s=round((now - session.since) / NANOS_PER_SECOND, 3),
        subscriptions=session.subscriptions,
        queued_bytes=connection.queued_bytes,
        published=session.published,
        delivered=connection.events,
        sent_bytes=connection.sent_bytes,
        dropped=normal,
        express_dropped=express,
    )
