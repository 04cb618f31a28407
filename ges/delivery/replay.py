"""What one client that has moved here has missed, piece by piece. Pure.

The client says of each publisher which event it had last (its *marks*), and for how long it has had
each of its subscriptions. From the kept events it gets those that match, and that it has not had:

* Of a publisher with a mark: what comes after the mark.
* Of a publisher without one: all, as nothing of it that matches has come to the client before.
* For each subscription: nothing older than the subscription.

For example, S subscribed to ``a`` a minute ago and to ``b`` one second ago. It gets what it has
missed of ``a``, and of ``b`` what was published in this last second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ges.delivery.kept import Fetched, KeptEvents, KeptRun
from ges.matching.filter_tree import FilterTree
from ges.wire.asked import Ask
from ges.wire.delivered import MAX_MATCHES, pack_matches
from ges.wire.events import Flow
from ges.wire.realms import Realm
from overlay.ids import LinkClass, Nanos
from overlay.wire.frames import DELIVERY, frame_start

PIECE_BYTES = 64 * 1024  #: of deliveries in one piece, or one run more ...
PIECE_RUNS = 1000  #: ... and so many runs looked at
MAX_MARKS = 4096  #: of one client; what is said of more publishers is not remembered

MAX_ENDED = 1024  #: subscriptions of which something is remembered although they have ended

#: What the client asks for, by the numbers of its subscriptions. Of queue groups nothing is kept.
Asks = Mapping[int, Ask]


class Replay:
    """How far one client has got with what it has missed."""

    def __init__(self, position: int) -> None:
        """``position``: number of the kept run to begin with."""
        self.position = position
        self.is_ready = False  #: all that the client has to say has come
        self.past: Fetched | None = None  #: from others; goes before what is kept here
        self._past_at = 0  #: how much of it has been sent
        self._marks: dict[Flow, int] = {}
        self._begins: dict[int, Nanos] = {}  #: by number of subscription
        self._youngest: Nanos = 0  #: when the latest of them began
        self._is_stale = False  #: a subscription has come since ``_tree`` was made
        self._asks: Asks = {}  #: as they were when ``_tree`` was made
        self._tree: FilterTree[int] = FilterTree()
        self._known: dict[tuple[bytes, bool], tuple[int, ...]] = {}

    def learn(self, marks: Iterable[tuple[Flow, int]]) -> None:
        """The client has had all that it wants of these publishers, up to these numbers."""
        for flow, sequence in marks:
            if len(self._marks) < MAX_MARKS:
                self._marks[flow] = sequence

    def begin(self, number: int, at: Nanos, asks: Asks) -> None:
        """A subscription gets what has passed at that time, and later; ``asks`` hold now."""
        if number not in asks or asks[number].group is not None:
            return  # it was refused, or others get what it would have
        self._begins[number] = at
        self._is_stale = True
        if len(self._begins) > len(asks) + MAX_ENDED:
            self._begins = {each: self._begins[each] for each in asks if each in self._begins}

    def piece(
        self,
        kept: KeptEvents,
        asks: Asks,
        *,
        wall_ms: int = 0,
    ) -> Iterator[tuple[bytes, KeptRun, int]]:
        """Yield the next deliveries: the frame, its events, and how many they are.

        ``asks`` are those that hold now; ``wall_ms``: unix time.
        """
        if self._is_stale or asks != self._asks:
            self._rebuild(asks)
        size = 0
        for run in self._runs(kept):
            is_over = 0 < run.ends_ms <= wall_ms
            numbers = self._matches(run) if not is_over else ()
            if run.common > Realm.CLUSTER:
                numbers = tuple(n for n in numbers if self._asks[n].realm >= run.common)
            if not numbers:
                continue
            flow, first = run.first
            skip = max(0, self._marks.get(flow, 0) + 1 - first)
            if skip >= run.count:
                continue
            if flow in self._marks or len(self._marks) < MAX_MARKS:
                self._marks[flow] = first + run.count - 1  # what was fetched may be kept as well
            matches = pack_matches(numbers[:MAX_MATCHES])
            frames = run.frames(skip)
            delivery = frame_start(DELIVERY, len(matches) + len(frames)) + matches + frames
            size += len(delivery)
            yield delivery, run, run.count - skip
            if size > PIECE_BYTES:
                return

    @property
    def has_past(self) -> bool:
        """Something that was fetched is still to be sent."""
        return self.past is not None and self._past_at < len(self.past.runs)

    def _runs(self, kept: KeptEvents) -> Iterator[KeptRun]:
        for _ in range(PIECE_RUNS):
            if self.past is None or self._past_at == len(self.past.runs):
                break
            self._past_at += 1
            yield self.past.runs[self._past_at - 1]
        else:
            return
        for run in kept.since(self.position, PIECE_RUNS):
            self.position += 1
            yield run

    def _rebuild(self, asks: Asks) -> None:
        self._asks = dict(asks)
        self._youngest = max((self._begins.get(number, 0) for number in asks), default=0)
        self._is_stale = False
        self._known.clear()
        self._tree = FilterTree()
        for number, ask in asks.items():
            self._tree.add(ask.filter, number)

    def _matches(self, run: KeptRun) -> tuple[int, ...]:
        key = run.topic, run.secure
        numbers = self._known.get(key)
        if numbers is None:
            numbers = self._known[key] = self._find(run)
        if run.at < self._youngest:
            return tuple(number for number in numbers if self._begins[number] <= run.at)
        return numbers

    def _find(self, run: KeptRun) -> tuple[int, ...]:
        try:
            found = self._tree.matches(run.topic.decode())
        except UnicodeDecodeError:
            return ()
        link_class = LinkClass.SECURE if run.secure else LinkClass.NORMAL
        asks, begins = self._asks, self._begins
        return tuple(sorted(n for n in found if n in begins and asks[n].takes(link_class)))
