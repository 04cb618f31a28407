"""Who founds the ring, where all brokers of a list start and none is on a ring yet.

Brokers are started with one list of addresses. Each calls all the others, and asks whether they
are on a ring. If one is, it is joined (:mod:`ring.joining.newcomer`). If none is, one *founds*: of
those that say they may, the one with the smallest uid. The others wait, and join it.

* A broker that *may* found stands in its own list, or in that of another that starts. Another
  broker only
  looks for the ring: those of the list could not hear of each other through it.
* It founds when nothing that it knows of a seed hinders it (``_HINDRANCES``). A seed that is not
  there hinders nobody once it was called in vain twice: when it starts, it calls us.
* Two that can reach each other never found both. Before either founds, it has asked the other, and
  with that question it has said that it may found as well. The larger of the two waits.

So two rings come out of one list only where a cut parts the brokers; :mod:`ring.joining.merge`
makes them one. The paper founds by hand: its first broker is told that it is the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from overlay.ids import Peer
from overlay.machine import LinkRefused, Refused
from ring.circle.links import RingLinks
from ring.core import Core
from ring.wire.messages import Stance

ABSENT_AFTER = 2  #: calls in vain in a row: the first may have come a moment too early
SILENT_AFTER = 3  #: questions in a row without an answer: that broker stands still, or is cut off

_NOT_THERE = frozenset({Refused.UNREACHABLE, Refused.TIMEOUT})


class Seed(Enum):
    """What is known of the broker at one address of the list."""

    SELF = auto()
    CALLED = auto()  #: it has not answered yet
    MISSED = auto()  #: it was not there, once
    ABSENT = auto()  #: it is not there
    LIVES = auto()  #: it refuses us, and may be on a ring
    ASKED = auto()  #: it is linked, and has not said yet where it stands
    SEEKS = auto()  #: it looks for a ring, and founds none
    AFTER = auto()  #: it may found, and has a larger uid than we
    BEFORE = auto()  #: it may found, and has a smaller uid than we
    JOINS = auto()  #: it is on its way to a ring


#: What hinders this broker from founding, and for how long: all others do not.
_HINDRANCES = frozenset(
    {
        Seed.CALLED,  # until it answers, or is missed
        Seed.MISSED,  # until the next call
        Seed.LIVES,  # as long as it refuses us
        Seed.ASKED,  # until it answers, or its link is given up
        Seed.BEFORE,  # until it has founded, or is gone
        Seed.JOINS,  # until it has joined, or has found nobody
    }
)
#: Who has answered as a broker that starts, too.
_STARTS = frozenset({Seed.SEEKS, Seed.AFTER, Seed.BEFORE})

_WORDS = {
    Seed.SELF: "this broker",
    Seed.CALLED: "no answer yet",
    Seed.ASKED: "linked, no answer yet",
    Seed.SEEKS: "waits for a ring, too",
    Seed.AFTER: "waits for this one to found a ring",
    Seed.BEFORE: "will found the ring",
    Seed.JOINS: "is joining a ring",
}


class Founding:
    """What this broker knows of those in its list, until it has been on a ring."""

    def __init__(self, core: Core, links: RingLinks) -> None:
        self._core = core
        self._links = links
        self.seeds: tuple[str, ...] = ()
        self.is_open = False  #: this broker has not been on a ring yet
        self.may_found = False  #: it stands in its own list, or in that of another
        self._least = 1  #: brokers that must be there
        self._at: dict[str, str] = {}  #: URL of the list -> uid of who answered there
        self._refused: dict[str, LinkRefused] = {}  #: by URL, the latest
        self._missed: dict[str, int] = {}  #: by URL, calls in vain in a row
        self._said: dict[str, Stance] = {}  #: by uid of a linked broker
        #: By uid of a linked broker: questions that it has not answered. Answers come in the order
        #: of the questions, so at 0 the latest one is answered.
        self._unanswered: dict[str, int] = {}

    def begin(self, seeds: tuple[str, ...], least: int) -> None:
        """Begin with the list; ``least`` brokers of it, this one included, must be there."""
        self.seeds, self._least, self.is_open = seeds, least, True
        self.may_found = self._core.peer.url in seeds

    def reseed(self, seeds: tuple[str, ...]) -> None:
        """The list has changed; so many must be there as before."""
        self.seeds = seeds
        self.may_found = self.may_found or self._core.peer.url in seeds

    def end(self) -> None:
        """This broker is on a ring: from now on it founds none by its list."""
        self.is_open = self.may_found = False
        for table in (self._at, self._refused, self._missed, self._said, self._unanswered):
            table.clear()

    # ── what is heard ─────────────────────────────────────────────────────────────────────────

    def on_linked(self, url: str, peer: Peer) -> None:
        """A link is up; ``url`` is the address that was called."""
        self._said.pop(peer.uid, None)
        self._unanswered.pop(peer.uid, None)
        for each in (url, peer.url):
            self._refused.pop(each, None)
            self._missed.pop(each, None)
        if url in self.seeds:
            self._at[url] = peer.uid

    def on_refused(self, event: LinkRefused) -> bool:
        """An address could not be linked; returns whether we may found only now: it is our own."""
        url = event.url
        if url not in self.seeds:
            return False
        self._refused[url] = event
        missed = event.reason in _NOT_THERE
        self._missed[url] = self._missed.get(url, 0) + 1 if missed else 0
        return event.reason is Refused.SELF and self.on_named()

    def on_named(self) -> bool:
        """Another that starts has us in its list; returns whether we may found only now."""
        if not self.is_open or self.may_found:
            return False
        self.may_found = True
        self._said.clear()  # nobody who said so knew that we may
        return True

    def on_question(self, uid: str, stance: Stance) -> None:
        """A linked broker that is on no ring looks for one, too, and says how."""
        if self.is_open and uid in self._links.up:
            self._said[uid] = stance

    def on_answer(self, uid: str, stance: Stance) -> None:
        """A linked broker has answered a question of ours."""
        if self._unanswered.get(uid, 0) > 0:
            self._unanswered[uid] -= 1
        self.on_question(uid, stance)

    def on_ask(self, uid: str) -> bool:
        """Count a question to a linked broker; returns whether it has not answered for too long."""
        if not self.is_open:
            return False
        self._unanswered[uid] = self._unanswered.get(uid, 0) + 1
        return self._unanswered[uid] > SILENT_AFTER

    # ── what follows ──────────────────────────────────────────────────────────────────────────

    def names(self, uid: str) -> bool:
        """Say whether a linked broker stands in our list."""
        link = self._links.up.get(uid)
        return link is not None and (
            link.peer.url in self.seeds or uid in (self._at.get(url) for url in self.seeds)
        )

    @property
    def waiting(self) -> Iterable[str]:
        """Uids of linked brokers that have said where they stand: links that are worth keeping."""
        return (uid for uid in self._said if uid in self._links.up)

    @property
    def is_due(self) -> bool:
        """Whether this broker is to found the ring now."""
        if not self.may_found:
            return False
        states = [self.state(url) for url in self.seeds]
        there = 1 + sum(state in _STARTS for state in states)
        return (
            there >= self._least
            and not any(state in _HINDRANCES for state in states)
            and not any(self._stance(uid) is Seed.BEFORE for uid in self.waiting)
        )

    def state(self, url: str) -> Seed:
        """Return what is known of the broker at an address of the list."""
        if url == self._core.peer.url:
            return Seed.SELF
        uid = self._linked_at(url)
        if uid is not None:
            return self._stance(uid)
        refused = self._refused.get(url)
        if refused is None:
            return Seed.CALLED
        if refused.reason is Refused.SELF:
            return Seed.SELF
        if refused.reason is Refused.DUPLICATE:  # it is linked already, by another address
            known = {self._linked_at(each) for each in self.seeds}
            return Seed.SEEKS if any(uid not in known for uid in self.waiting) else Seed.CALLED
        if refused.reason not in _NOT_THERE:
            return Seed.LIVES
        return Seed.ABSENT if self._missed[url] >= ABSENT_AFTER else Seed.MISSED

    def answers(self) -> tuple[tuple[str, str], ...]:
        """Return what each address of the list has answered, for people."""
        return tuple((url, self._words(url)) for url in self.seeds)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _linked_at(self, url: str) -> str | None:
        uid = self._at.get(url)
        if uid in self._links.up:
            return uid
        return next((uid for uid, link in self._links.up.items() if link.peer.url == url), None)

    def _stance(self, uid: str) -> Seed:
        said = self._said.get(uid)
        if self._links.up[uid].member is not None or said is Stance.JOINS:
            return Seed.JOINS
        if said is None or self._unanswered.get(uid):
            return Seed.ASKED
        if said is Stance.SEEKS:
            return Seed.SEEKS
        return Seed.BEFORE if uid < self._core.peer.uid else Seed.AFTER

    def _words(self, url: str) -> str:
        state = self.state(url)
        refused = self._refused.get(url)
        if state in _WORDS or refused is None:
            return _WORDS[state]
        return refused.detail or refused.reason.value.replace("_", " ")
