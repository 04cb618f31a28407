"""Who tells of deaths, and how often that was wrong.

On a ring without certificates anybody may link to a broker and tell it that another is dead. So a
notice is believed at once only where there is a reason to (:mod:`ring.coordination.deaths`); else
the subject is tested first. A test costs two messages, and a liar can have one made as often as it
likes. So this broker does not listen for a while to a teller that was refuted often. The paper
trusts all brokers.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from overlay.ids import Nanos
from ring.core import Core

REFUTED_OFTEN = 3  #: notices that were refuted, before the next ones are not listened to
IGNORED = 64  #: for so many silences, from the latest that was refuted: a minute on a LAN
MAX_TELLERS = 256  #: remembered at once; the one refuted longest ago goes first


@dataclass(slots=True)
class _Record:
    refuted: int = 0
    last: Nanos = 0


class Tellers:
    """Counts refuted notices by their tellers."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def on_refuted(self, uid: str) -> None:
        """The subject of a notice of ``uid`` lives."""
        now = self._core.now
        record = self._records.pop(uid, None)
        if record is None or self._is_old(record):
            record = _Record()
        self._records[uid] = record
        record.refuted, record.last = record.refuted + 1, now
        if len(self._records) > MAX_TELLERS:
            self._records.popitem(last=False)

    def is_ignored(self, uid: str) -> bool:
        """Say whether notices of ``uid`` are not listened to now."""
        record = self._records.get(uid)
        return record is not None and record.refuted >= REFUTED_OFTEN and not self._is_old(record)

    def clear(self) -> None:
        """Forget all of it."""
        self._records.clear()

    def _is_old(self, record: _Record) -> bool:
        return self._core.now - record.last > IGNORED * self._core.config.silence_ns
