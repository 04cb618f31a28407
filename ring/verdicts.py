"""What this broker holds for failed, and on whose word: the latest few (paper 004, section 3.4).

A verdict is about a link or a broker. One on a link is open-ended until the link is back. One that
nobody could decide, because a routed query did not arrive, is kept as undecided: such queries fail
often while many brokers are down (1 to 5 % of them at 30 % dead), so it is asked again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from overlay.ids import Nanos
from overlay.machine import Fact
from overlay.trace_schema import Verdict
from ring.facts import Confirmed, Detoured, DetourEnded, LinkFailed, Undecided

MAX_VERDICTS = 64


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict on the broker ``uid`` or the link to it."""

    uid: str
    incarnation: int
    verdict: Verdict
    witnesses: tuple[str, ...]  #: those who agreed to it; none: nobody was left to ask
    at_ns: Nanos
    path: tuple[str, ...] = ()  #: the way round the failed link that is used now
    restored_ns: Nanos | None = None  #: when the link was back

    @property
    def is_over(self) -> bool:
        """Whether a later verdict on the same broker is about something else."""
        return self.restored_ns is not None or self.verdict is Verdict.BROKER_FAILED


class Verdicts:
    """The latest verdicts; one that stands gives way to the next on the same broker."""

    def __init__(self) -> None:
        self._rulings: OrderedDict[str, Ruling] = OrderedDict()  #: the latest on each
        self._past: list[Ruling] = []  #: those before, for the record alone
        self._paths: dict[str, tuple[str, ...]] = {}  #: of the detours in use

    @property
    def all(self) -> tuple[Ruling, ...]:
        """Return the latest verdicts, oldest first."""
        found = sorted((*self._past, *self._rulings.values()), key=lambda ruling: ruling.at_ns)
        return tuple(found[-MAX_VERDICTS:])

    def is_down(self, uid: str, incarnation: int) -> bool:
        """Say whether the link to that life of ``uid`` is known to have failed."""
        ruling = self._rulings.get(uid)
        return (
            ruling is not None
            and ruling.verdict is Verdict.LINK_FAILED
            and ruling.incarnation == incarnation
            and ruling.restored_ns is None
        )

    def on_linked(self, uid: str, now: Nanos) -> None:
        """There is a link to ``uid``: if it had failed, it is back."""
        ruling = self._rulings.get(uid)
        if ruling is not None and ruling.verdict is Verdict.LINK_FAILED:
            self._rulings[uid] = replace(ruling, restored_ns=ruling.restored_ns or now)

    def note(self, fact: Fact, now: Nanos) -> None:
        """Take what the ring says; only some of it is a verdict, or ends one."""
        match fact:
            case LinkFailed(subject, witness):
                ruling = Ruling(
                    subject.uid, subject.incarnation, Verdict.LINK_FAILED, (witness,), now
                )
            case Confirmed(subject, witnesses):
                self._paths.pop(subject.uid, None)
                ruling = Ruling(
                    subject.uid, subject.incarnation, Verdict.BROKER_FAILED, witnesses, now
                )
            case Undecided(peer):
                ruling = Ruling(peer.uid, peer.incarnation, Verdict.OPEN, (), now)
            case Detoured(uid, path):
                self._paths[uid] = path
                self._go_along(uid, path)
                return
            case DetourEnded(uid):
                self._paths.pop(uid, None)
                self._go_along(uid, ())
                return
            case _:
                return
        ruling = replace(ruling, path=self._paths.get(ruling.uid, ()))
        old = self._rulings.pop(ruling.uid, None)
        if old is not None and old.is_over and not _is_same(old, ruling):
            self._past = [*self._past, old][-MAX_VERDICTS:]
        self._rulings[ruling.uid] = ruling
        if len(self._rulings) > MAX_VERDICTS:
            self._rulings.popitem(last=False)

    def _go_along(self, uid: str, path: tuple[str, ...]) -> None:
        """Note which way round to ``uid`` is in use now; empty: none."""
        if uid in self._rulings:
            self._rulings[uid] = replace(self._rulings[uid], path=path)


def _is_same(old: Ruling, new: Ruling) -> bool:
    """Say whether one death is told again."""
    return new.verdict is Verdict.BROKER_FAILED and (old.verdict, old.incarnation) == (
        new.verdict,
        new.incarnation,
    )
