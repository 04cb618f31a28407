"""The profile of this broker: what its clients want, as few asks as say it.

For example, three clients subscribe to ``a/b`` and one to ``a/#``: the profile is ``a/#`` alone.
When that one goes, the next change of the profile takes ``a/#`` out and puts ``a/b`` in, at once.

Who holds a profile has it in some *version*. Subscriptions change the profile, and :meth:`cut`
makes a version of all changes since the last one, with what others are to be told: one delta, or
several versions one behind the other where that is too much for one message. Then what is added
goes first, so that each of these versions covers what both the one before and the last one cover.
"""

from __future__ import annotations

from collections import Counter

from ges.errors import ProfileFull
from ges.matching.asks import add_marks, mark_of, order, size_of
from ges.profiles.covering import CoverTree
from ges.profiles.merging import merge
from ges.wire.asked import Ask
from ges.wire.profile_messages import MAX_ASKS_TOLD, ProfileDelta, ProfilePage
from ges.wire.telling_messages import RowVersion

MAX_ASKS = 16_384  #: of one broker; what is more is merged ...
MAX_BYTES = 1024 * 1024  #: ... as is what takes more bytes
MAX_GROUPED = 1024  #: asks of one broker with a group, which are not merged
MESSAGE_BYTES = 48 * 1024  #: of asks in one message


class Profile:
    """What the clients of this broker want, with what others have been told of it."""

    def __init__(
        self, uid: str, epoch: int, *, limit: int = MAX_ASKS, limit_bytes: int = MAX_BYTES
    ) -> None:
        """Begin without an ask, as version 0 of the broker's life ``epoch``."""
        self.counters: Counter[str] = Counter()
        self.version = RowVersion(epoch, 0)  #: as cut last
        self.digest = 0  #: of that version
        self._uid = uid
        self._limit, self._limit_bytes = limit, limit_bytes
        self._subscribers: Counter[Ask] = Counter()
        self._grouped = 0
        self._merged: set[Ask] = set()
        self._merged_at = 0  #: how many asks were there when they were merged
        self._all = CoverTree()  #: what anybody asked for, and what is merged
        self._since: dict[Ask, int | None] = {}  #: of all those; see :meth:`since`
        self._fresh: list[Ask] = []  #: of all those, in no version yet
        self._minimal: set[Ask] = set()
        self._bytes = 0  #: of these
        self._added: set[Ask] = set()  #: to these, since the last cut
        self._removed: set[Ask] = set()

    def __len__(self) -> int:
        """Return how many asks others are told."""
        return len(self._minimal)

    @property
    def asks(self) -> frozenset[Ask]:
        """The profile as it is now; the next cut makes a version of it."""
        return frozenset(self._minimal)

    @property
    def told(self) -> frozenset[Ask]:
        """The profile as it was cut last."""
        return frozenset((self._minimal - self._added) | self._removed)

    @property
    def is_merged(self) -> bool:
        """Whether it covers more than anybody asked for, as it would be too large otherwise."""
        return bool(self._merged)

    @property
    def has_changed(self) -> bool:
        """Whether a cut has something to do."""
        return bool(self._added or self._removed or self._fresh)

    def since(self, ask: Ask) -> int | None:
        """Return the count from which on all versions cover what somebody asked for.

        None: the next cut makes that version, or nobody asked for it.
        """
        return self._since.get(ask)

    @property
    def grouped(self) -> int:
        """How many asks with a group there are."""
        return self._grouped

    def is_wanted(self, ask: Ask) -> bool:
        """Say whether somebody has asked for just this."""
        return ask in self._subscribers

    # ── subscriptions ─────────────────────────────────────────────────────────────────────────

    def why_full(self, ask: Ask) -> str | None:
        """Return why there is no room for what somebody asks for, or None."""
        if ask.group is None or ask in self._subscribers:
            return None
        if self._grouped < MAX_GROUPED:
            return None
        return (
            f"this broker has subscribers in {MAX_GROUPED} queue groups and filters, "
            "which is the most; attach to another"
        )

    def add(self, ask: Ask) -> None:
        """Somebody asked for it.

        Raises:
            ProfileFull: there are too many asks with a group.
        """
        if (problem := self.why_full(ask)) is not None:
            raise ProfileFull(problem)
        if ask.group is not None and not self._subscribers[ask]:
            self._grouped += 1
        self._subscribers[ask] += 1
        if self._subscribers[ask] == 1 and ask not in self._merged:
            self._enter(ask)
            self._keep_small()

    def remove(self, ask: Ask) -> None:
        """One of those who asked for it wants it no more."""
        if not self._subscribers[ask]:
            return
        self._subscribers[ask] -= 1
        if not self._subscribers[ask]:
            del self._subscribers[ask]
            self._grouped -= ask.group is not None
            if ask not in self._merged:
                self._leave(ask)
            self._keep_exact()

    def renew(self, epoch: int) -> None:
        """This broker begins another life: what others held of the last one counts no more."""
        self._added, self._removed, self.digest = set(self._minimal), set(), 0
        self.version = RowVersion(epoch, 0)
        self._fresh = list(self._since)
        self._since = dict.fromkeys(self._since)

    # ── telling ───────────────────────────────────────────────────────────────────────────────

    def cut(self) -> list[ProfileDelta]:
        """Make a version of what has changed; return what others are to be told, in order."""
        deltas = [
            *(self._step(chunk, ()) for chunk in _chunks(self._added)),
            *(self._step((), chunk) for chunk in _chunks(self._removed)),
        ]
        if self._added and self._removed and len(deltas) == 2 and _fit(self._added, self._removed):
            first, last = deltas
            after = RowVersion(first.before.epoch, first.after.count)
            deltas = [
                ProfileDelta(self._uid, first.before, after, first.added, last.removed, last.digest)
            ]
            self.version = after
        self._added.clear()
        self._removed.clear()
        for ask in self._fresh:
            if self._since.get(ask, 0) is None:
                self._since[ask] = self.version.count
        self._fresh.clear()
        return deltas

    def statement(self, life: int) -> ProfileDelta:
        """Return what a newcomer in that life is told: all in one, or which version holds."""
        told = self.told
        if len(told) <= MAX_ASKS_TOLD and sum(map(size_of, told)) <= MESSAGE_BYTES:
            nothing = RowVersion(self.version.epoch, 0)
            asks = tuple(sorted(told, key=order))
            return ProfileDelta(self._uid, nothing, self.version, asks, (), self.digest, life)
        return self.reminder(life)

    def reminder(self, life: int) -> ProfileDelta:
        """Return which version holds, for a member in that life."""
        return ProfileDelta(self._uid, self.version, self.version, (), (), self.digest, life)

    def pages(self, life: int) -> list[ProfilePage]:
        """Return all of the version cut last, for a member in that life."""
        chunks = _chunks(self.told) or [()]
        return [
            ProfilePage(self._uid, self.version, self.digest, page, len(chunks), chunk, life)
            for page, chunk in enumerate(chunks)
        ]

    def _step(self, added: tuple[Ask, ...], removed: tuple[Ask, ...]) -> ProfileDelta:
        before = self.version
        self.version = RowVersion(before.epoch, before.count + 1)
        for ask in added:
            self.digest = add_marks(self.digest, mark_of(ask))
        for ask in removed:
            self.digest = add_marks(self.digest, -mark_of(ask))
        return ProfileDelta(self._uid, before, self.version, added, removed, self.digest)

    # ── the minimal set ───────────────────────────────────────────────────────────────────────

    def _enter(self, ask: Ask) -> None:
        """Put in what nobody asked for before."""
        covering = list(self._all.covering(ask))
        self._all.add(ask)
        since: int | None = None
        if covering:
            known = [at for wide in covering if (at := self._since[wide]) is not None]
            since = min(known, default=None)
        else:
            self._put(ask)
            for narrow in self._all.covered(ask):
                if narrow in self._minimal:
                    self._drop(narrow)
        self._since[ask] = since
        if since is None:
            self._fresh.append(ask)

    def _leave(self, ask: Ask) -> None:
        """Take out what nobody asks for any more; what it alone covered comes in its place."""
        self._all.remove(ask)
        del self._since[ask]
        if ask in self._minimal:
            self._drop(ask)
            for narrow in self._all.covered(ask):
                if not any(True for _ in self._all.covering(narrow)):
                    self._put(narrow)

    def _put(self, ask: Ask) -> None:
        self._minimal.add(ask)
        self._bytes += size_of(ask)
        if ask in self._removed:
            self._removed.discard(ask)
        else:
            self._added.add(ask)

    def _drop(self, ask: Ask) -> None:
        self._minimal.discard(ask)
        self._bytes -= size_of(ask)
        if ask in self._added:
            self._added.discard(ask)
        else:
            self._removed.add(ask)

    # ── what is too large ─────────────────────────────────────────────────────────────────────

    def _keep_small(self) -> None:
        """Merge down to three quarters, so that the next subscription need not merge again."""
        if len(self._minimal) <= self._limit and self._bytes <= self._limit_bytes:
            return
        wider = merge(self._minimal, self._limit * 3 // 4, self._limit_bytes * 3 // 4)
        wider -= self._merged
        if wider:
            self.counters["profiles_merged"] += 1
            self._merged_at = len(self._all)
        for ask in sorted(wider, key=order):
            self._merged.add(ask)
            if not self._subscribers[ask]:
                self._enter(ask)

    def _keep_exact(self) -> None:
        """Give up what was merged when half of what led to it has gone."""
        is_far_fewer = not self._subscribers or len(self._all) <= self._merged_at // 2
        if self._merged and is_far_fewer:
            merged, self._merged = self._merged, set()
            for ask in sorted(merged, key=order):
                if not self._subscribers[ask]:
                    self._leave(ask)
            self._keep_small()


def _chunks(asks: set[Ask] | frozenset[Ask]) -> list[tuple[Ask, ...]]:
    """Return the asks in parts that fit into one message each."""
    chunks: list[tuple[Ask, ...]] = []
    part: list[Ask] = []
    size = 0
    for ask in sorted(asks, key=order):
        cost = size_of(ask)
        if part and (size + cost > MESSAGE_BYTES or len(part) == MAX_ASKS_TOLD):
            chunks.append(tuple(part))
            part, size = [], 0
        part.append(ask)
        size += cost
    return [*chunks, tuple(part)] if part else chunks


def _fit(added: set[Ask], removed: set[Ask]) -> bool:
    """Say whether both fit into one message."""
    return sum(map(size_of, added)) + sum(map(size_of, removed)) <= MESSAGE_BYTES
