"""Broken rules of records and who owns them (:mod:`ring.records.duties` and its parts)."""

from __future__ import annotations

from typing import Any

import ring.records.duties
import ring.records.reclaim
import ring.records.replicas
from overlay.ids import Nanos
from ring.coordination.membership import Membership
from ring.records.backups import Backups
from ring.records.claims import claim_of
from ring.records.duties import Duties
from ring.records.far_estates import FarEstates
from ring.records.handover import Handover
from ring.records.holders import holders_among
from ring.records.homes import Homes
from ring.records.replicas import Held, Replicas
from tests.mutants.mutant import Chapter, Method, around, nothing

RECORDS = Chapter(first="records")

RECORDS.add("no-copies", "records are not copied to neighbours", (Backups, "_push", nothing))


def _one_less(left: Any, right: Any, backups: int) -> Any:  # noqa: ANN401
    return holders_among(left, right, backups - 1)


RECORDS.add(
    "one-copy-less",
    "one neighbour fewer than configured keeps copies",
    (ring.records.backups, "holders_among", _one_less),
)
RECORDS.add(
    "copies-never-done",
    "holders do not say that they have everything",
    (Backups, "on_agreed", nothing),
)
RECORDS.add(
    "copies-stay-behind",
    "copies do not follow when neighbours change",
    (Backups, "follow", nothing),
)
RECORDS.add(
    "nobody-takes-over",
    "the records of the dead stay without an owner",
    (Duties, "_settle_estates", nothing),
)
RECORDS.add(
    "all-take-over",
    "everybody who keeps copies of the dead broker's records claims them",
    (Duties, "_falls_to_us", lambda self, key, held, heirs, age: True),
)


def _heirs_alone(original: Method) -> Method:
    def falls(self: Duties, key: str, held: Held, heirs: tuple[str, ...], age: int) -> bool:
        return self._core.peer.uid in heirs and original(self, key, held, heirs, age)

    return falls


RECORDS.add(
    "only-a-and-c-take-over",
    "nobody but those beside the dead takes its records, though they may have no copies",
    around(Duties, "_falls_to_us", _heirs_alone),
)


def _drop_all(self: FarEstates, held: Held) -> None:
    for key in list(held.keys):
        self._replicas.remove(key)


RECORDS.add(
    "far-copies-dropped",
    "who stands far from a dead broker drops its copies without asking who owns the records",
    (FarEstates, "ask_after", _drop_all),
)


RECORDS.add(
    "epochs-stand-still",
    "who takes a record over claims it under the epoch of the dead",
    (ring.records.duties, "next_claim", claim_of),
)
RECORDS.add(
    "older-claims-win",
    "of two claims the one with the smaller epoch counts",
    *(
        (
            module,
            "outranks",
            lambda entry, owner, other, other_owner: (
                (entry.epoch, entry.place, owner) < (other.epoch, other.place, other_owner)
            ),
        )
        for module in (ring.records.replicas, ring.records.reclaim, ring.records.homes)
    ),
)
RECORDS.add(
    "fences-ignored",
    "who hears of a better claim keeps its own",
    (Replicas, "on_fence", nothing),
    (Backups, "lose", nothing),
)
RECORDS.add(
    "back-as-owner",
    "who was taken for dead owns what it owned before, without asking",
    (Duties, "on_rejoining", nothing),
)
RECORDS.add(
    "claims-not-told-home",
    "claims to records from elsewhere are not told to their homes",
    (Homes, "tell", nothing),
)


def _just_go(self: Membership, turn: Nanos | None) -> None:
    self.go()


RECORDS.add(
    "leaves-at-once",
    "who leaves hands nothing over",
    (Membership, "leave", _just_go),
)


def _gone_at_once(original: Method) -> Method:
    def offer(self: Handover, key: str, *more: Any, **how: Any) -> None:  # noqa: ANN401
        original(self, key, *more, **how)
        self._backups.drop(key)

    return offer


RECORDS.add(
    "gives-before-taken",
    "who offers a record owns it no more, whatever the answer",
    around(Handover, "offer", _gone_at_once),
)


def _unsafe(self: Backups, key: str) -> bool:
    return True


RECORDS.add(
    "taken-before-safe",
    "an offer is answered before the new owner's own backups have the record",
    (Backups, "is_safe", _unsafe),
)
