"""Which members of the cluster want a topic: one bit for each slot.

For example, the member in slot 0 has ``a/#`` in its profile and the one in slot 1 has ``b``, and
nothing is known of the one in slot 2: ``a/x`` goes to 0b101. In doubt a member is included.

There is a mask for each class of events, and for each realm that somebody has asked for. What finds
and remembers them by topic is one :class:`~ges.matching.mask_index.MaskIndex` for each. Asks
with a queue group are in no mask, but in the index of groups (:mod:`ges.profiles.group_index`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from ges.matching.mask_index import MaskIndex
from ges.profiles.group_index import GroupIndex
from ges.wire.asked import CLASS_BITS, Ask
from ges.wire.matter import Matter
from ges.wire.realms import Realm
from overlay.ids import LinkClass

#: The class of events, and the realm of those who want them.
_Kind = tuple[LinkClass, int]


class ProfileIndex:
    """The profiles of all members, this broker among them, by slot and class."""

    def __init__(self, on_change: Callable[[], None] | None = None) -> None:
        """``on_change`` is called when what is held or known of a member changes."""
        self._on_change = on_change
        self.groups = GroupIndex()  #: of which one member is to get an event, and not each
        self._masks = {(each, int(Realm.ALL)): MaskIndex() for each in LinkClass}
        #: How many asks hold a filter in a slot: two members may claim one for a moment.
        self._uses: Counter[tuple[_Kind, str, int]] = Counter()
        self._everything: Counter[tuple[_Kind, int]] = Counter()  #: likewise, without filters
        self._all = dict.fromkeys(self._masks, 0)  #: masks of these
        self._asks: dict[str, set[Ask]] = {}  #: by member
        self._behind: set[str] = set()
        self._slots: dict[str, int] = {}
        self._unknown = 0  #: mask of members that are behind

    def mask_of(self, matter: Matter) -> int:
        """Return the slots of the members that want an event, or may want it: bit n is slot n."""
        return self.certain_mask_of(matter) | self._unknown

    @property
    def unknown(self) -> int:
        """The slots of the members that may want anything, as nobody knows, as a mask."""
        return self._unknown

    def certain_mask_of(self, matter: Matter) -> int:
        """Return the slots of the members that have said that they want an event."""
        found = 0
        for kind, index in self._masks.items():
            if kind[0] is matter.link_class and kind[1] >= matter.common:
                found |= index.mask_of(matter.topic) | self._all[kind]
        return found

    def set_slots(self, slots: Mapping[str, int]) -> None:
        """Members have these slots, each from 0 to 63; others have none."""
        for uid, slot in [*self._slots.items()]:
            if slots.get(uid) != slot:
                self._count(slot, self._asks.get(uid, ()), -1)
                del self._slots[uid]
        for uid, slot in slots.items():
            if uid not in self._slots:
                self._slots[uid] = slot
                self._count(slot, self._asks.get(uid, ()), 1)
        self._reckon_unknown()

    def asks_of(self, uid: str) -> Collection[Ask]:
        """Return what is held of a member, in no order."""
        return self._asks.get(uid, ())

    # ── what is held of members ───────────────────────────────────────────────────────────────

    def change(self, uid: str, added: Iterable[Ask], removed: Iterable[Ask]) -> None:
        """The profile held of a member has changed so."""
        if self._on_change is not None:
            self._on_change()
        held = self._asks.setdefault(uid, set())
        more = set(added) - held
        held |= more
        less = held.intersection(removed)
        held -= less
        if (slot := self._slots.get(uid)) is not None:
            self._count(slot, more, 1)  # first, so that no topic is without both for a moment
            self._count(slot, less, -1)
        if not held:
            del self._asks[uid]

    def replace(self, uid: str, asks: Iterable[Ask]) -> None:
        """All that is held of a member is this."""
        wanted = set(asks)
        self.change(uid, wanted, self._asks.get(uid, set()) - wanted)

    def set_behind(self, uid: str, is_behind: bool) -> None:
        """A member is to be counted as interested in everything, or no longer."""
        if is_behind != (uid in self._behind):
            (self._behind.add if is_behind else self._behind.discard)(uid)
            self._reckon_unknown()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _reckon_unknown(self) -> None:
        before, self._unknown = self._unknown, 0
        for uid in self._behind:
            if (slot := self._slots.get(uid)) is not None:
                self._unknown |= 1 << slot
        if self._unknown != before and self._on_change is not None:
            self._on_change()

    def _count(self, slot: int, asks: Iterable[Ask], by: int) -> None:
        for ask in asks:
            for link_class, bit in CLASS_BITS.items():
                if not ask.classes & bit:
                    continue
                if ask.group is not None:
                    self.groups.count(link_class, ask, slot, by)
                elif not ask.is_everything:
                    self._count_filter((link_class, ask.realm), ask.filter, slot, by)
                else:  # of a kind that is not known here: it may want anything
                    self._count_everything((link_class, ask.realm), slot, by)

    def _index(self, kind: _Kind) -> MaskIndex:
        if kind not in self._masks:
            self._masks[kind], self._all[kind] = MaskIndex(), 0
        return self._masks[kind]

    def _count_filter(self, kind: _Kind, text: str, slot: int, by: int) -> None:
        uses, key, masks = self._uses, (kind, text, slot), self._index(kind)
        uses[key] += by
        if by > 0 and uses[key] == 1:
            masks.add(text, slot)
        elif uses[key] == 0:
            del uses[key]
            masks.remove(text, slot)

    def _count_everything(self, kind: _Kind, slot: int, by: int) -> None:
        key = kind, slot
        self._index(kind)
        self._everything[key] += by
        if self._everything[key]:
            self._all[kind] |= 1 << slot
        else:
            del self._everything[key]
            self._all[kind] &= ~(1 << slot)
