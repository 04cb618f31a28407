"""Events for named clients that came to the wrong broker, or to none: they follow the clients.

For example, an event for ``kitchen`` has gone to broker B, and B says that it has no client of that
name. The source asks where ``kitchen`` is, and sends the event to broker C. If B has died, or has
another address by now, others say so, or no way leads there any more. An event is given up when it
is not kept at its source any more. Bounded; pure.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ges.order.recall import RecallLog
from ges.routing.named_sending import Holders
from ges.routing.router import Router
from ges.wire.directory_messages import Holder, NameWrong
from ges.wire.events import Flow
from overlay.ids import Nanos, nanos

MAX_MISLED = 4096  #: events that are to be sent again; then the oldest are lost
CORRECT_NS = nanos(0.5)  #: while it is not known where to send them, that is looked at so often
TRIED_NS = nanos(2.0)  #: nobody gets an event again at the same address after this


class _Astray(NamedTuple):
    flow: Flow
    sequence: int
    names: tuple[str, ...]
    at: Nanos  #: that was found
    uid: str = ""  #: of a broker that has no clients of these names
    had: Mapping[Holder, Nanos] = MappingProxyType({})  #: it went to these, since then

    def is_wrong(self, holder: Holder, now: Nanos) -> bool:
        """Say whether it is not to be sent to a broker.

        One that has had it at that address gets it again only in the beginning, and not at once.
        """
        since = self.had.get(holder)
        is_had = since is not None and not self.at + CORRECT_NS <= now < since + TRIED_NS
        return is_had or holder.uid == self.uid


class Strays:
    """What one source is to send again."""

    def __init__(
        self, router: Router, log: RecallLog, holders: Holders, counters: Counter[str]
    ) -> None:
        """``holders``: which brokers have clients of a name; None: that is to be asked for."""
        self._router = router
        self._sending = router.named_sending
        self._log = log
        self._holders = holders
        self._counters = counters
        self._astray: deque[_Astray] = deque()
        self._correct_at: Nanos = 0

    def told(self, uid: str, wrong: NameWrong, now: Nanos) -> None:
        """A broker has got an event for names of which it has no clients.

        If the event did not go to that broker, it came to where another one stood before.
        """
        flow = wrong.publisher, wrong.incarnation, wrong.link_class
        had = self._sending.had(flow, wrong.sequence, wrong.names)
        if had and all(holder.uid != uid for holder in had):
            uid = ""  # it may well have such clients, by another word of the directory
        self._keep(_Astray(flow, wrong.sequence, wrong.names, now, uid, had))

    def follow(self, now: Nanos) -> bool:
        """Take what went to brokers to which no way leads; says whether to correct something."""
        lost = self._sending.take_lost(now)
        for sent in lost:
            self._keep(_Astray(sent.flow, sent.sequence, sent.names, now))
        return bool(lost) or (bool(self._astray) and self._correct_at <= now)

    def correct(self, now: Nanos) -> list[str]:
        """Send again what can be sent; return the names that are to be asked for."""
        is_due = self._correct_at <= now
        if is_due:
            self._correct_at = now + CORRECT_NS
        astray, self._astray = self._astray, deque()
        unknown: dict[str, None] = {}
        for each in astray:
            if self._log.get(each.flow, each.sequence) is None:
                self._lose(each)
                continue
            left = self._send_again(each, now)
            if left:
                self._keep(each._replace(names=left))
            unknown.update((name, None) for name in left if is_due or self._holders(name) is None)
        return [*unknown]

    def next_deadline(self) -> Nanos | None:
        """Return when to look again, or None."""
        return self._correct_at if self._astray else None

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _send_again(self, astray: _Astray, now: Nanos) -> tuple[str, ...]:
        """Send an event to the brokers that are known by now; return the other names."""
        copies: dict[Holder, list[str]] = {}
        left = []
        for name in astray.names:
            found = self._right(astray, self._holders(name) or (), now)
            for holder in found:
                copies.setdefault(holder, []).append(name)
            if not found:
                left.append(name)
        for holder, names in copies.items():
            self._router.send_again(astray.flow, astray.sequence, holder, names, now)
        return tuple(left)

    def _right(self, astray: _Astray, holders: Sequence[Holder], now: Nanos) -> list[Holder]:
        leads_to = self._sending.leads_to
        return [h for h in holders if not astray.is_wrong(h, now) and leads_to(h)]

    def _keep(self, astray: _Astray) -> None:
        self._astray.append(astray)
        if len(self._astray) > MAX_MISLED:
            self._lose(self._astray.popleft())

    def _lose(self, astray: _Astray) -> None:
        if len(astray.had) < 2:  # else one of those that had it has the clients
            self._counters["named_events_lost"] += len(astray.names)
