"""Brokers that are no longer on the ring, and are shown for a while as they were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ges.http.picture import BrokerPicture, State

SHOWN_SECONDS = 20.0
#: A broker that was not seen to die may still turn out to have: until then it only does not answer.
DOUBT_SECONDS = 1.5


class Fallen:
    """Who was there before, and is no more."""

    def __init__(self) -> None:
        self._last: dict[str, BrokerPicture] = {}  #: of those on the ring
        self._gone: dict[str, tuple[BrokerPicture, float]] = {}  #: as it was, and since when

    def sort(
        self, brokers: Iterable[BrokerPicture], dead: Mapping[str, int], now: float
    ) -> list[BrokerPicture]:
        """Return those on the ring and those that fell off it of late, in ring order."""
        there = {broker.uid: broker for broker in brokers if broker.state is not State.DEAD}
        for uid in self._last.keys() - there.keys():
            self._gone[uid] = (self._last[uid], now)
        self._last = there
        self._gone = {
            uid: (broker, since)
            for uid, (broker, since) in self._gone.items()
            if uid not in there and now - since < SHOWN_SECONDS
        }
        shown = [*there.values()]
        for uid, (broker, since) in self._gone.items():
            state = State.DEAD if dead.get(uid, -1) >= broker.incarnation else State.LEFT
            if state is State.LEFT and now - since < DOUBT_SECONDS:
                state = State.SILENT
            gone = msgspec.structs.replace(broker, state=state, since_s=round(now - since, 1))
            shown.append(gone)
        return sorted(shown, key=lambda broker: (broker.place, broker.uid))
