"""What one broker keeps as a registrar, or as its neighbour: who has clients of which name.

An entry lasts as long as its holder said, unless it is said again before. So what is told of a
broker that has died goes by itself. Bounded; times are handed in. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from ges.wire.directory_messages import MAX_HOLDERS, Holder, NameAt
from overlay.ids import NANOS_PER_SECOND, Nanos

MAX_ENTRIES = 65_536  #: of all names; further ones are not kept ...
MAX_OF_ONE = MAX_ENTRIES // 4  #: ... and no more of one broker


@dataclass(frozen=True, slots=True)
class _Entry:
    holder: Holder
    until: Nanos


def place_of(name: str) -> int:
    """Return the place on the ring to which a name is hashed."""
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big")


class Register:
    """The entries of one broker."""

    def __init__(self) -> None:
        self.size = 0
        self._entries: dict[str, dict[str, _Entry]] = {}  #: by name and uid
        self._held: Counter[str] = Counter()  #: entries of each broker, by uid

    def take(self, told: NameAt, now: Nanos) -> bool:
        """Note what a holder says of itself; says whether there was room for it.

        A copy that ends sooner than what is known is an older word: the holder may have had
        another address then.
        """
        name, holder = told.name, told.holder
        held, until = self._entries.get(name, {}), now + told.lasts_s * NANOS_PER_SECOND
        known = held.get(holder.uid)
        if told.is_copy and told.lasts_s and known is not None and until < known.until:
            return True
        if not told.lasts_s:
            self._drop(name, holder.uid)
            return True
        if holder.uid not in held:
            is_full = self.size >= MAX_ENTRIES or self._held[holder.uid] >= MAX_OF_ONE
            if is_full or len(held) >= MAX_HOLDERS:
                return False
            self.size += 1
            self._held[holder.uid] += 1
        entry = _Entry(holder, until)
        self._entries.setdefault(name, {})[holder.uid] = entry
        return True

    def holders(self, name: str, now: Nanos) -> tuple[Holder, ...]:
        """Return who has clients of a name."""
        found = self._entries.get(name, {}).values()
        return tuple(entry.holder for entry in found if entry.until > now)

    def copies(self, now: Nanos) -> Iterator[NameAt]:
        """Yield all entries, as neighbours are told them."""
        for name, held in self._entries.items():
            for entry in held.values():
                lasts_s = (entry.until - now) // NANOS_PER_SECOND
                if lasts_s > 0:
                    yield NameAt(name, entry.holder, lasts_s, is_copy=True)

    def forget(self, now: Nanos) -> None:
        """Forget what lasts no longer."""
        over = [
            (name, uid)
            for name, held in self._entries.items()
            for uid, entry in held.items()
            if entry.until <= now
        ]
        for name, uid in over:
            self._drop(name, uid)

    def _drop(self, name: str, uid: str) -> None:
        held = self._entries.get(name, {})
        if held.pop(uid, None) is not None:
            self.size -= 1
            self._held[uid] -= 1
            if not self._held[uid]:
                del self._held[uid]
            if not held:
                del self._entries[name]
