"""Brokers as they are named in tables: the start of the uid, and the name if there is one.

A name alone would not do: two brokers may have one name, and each says its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from overlay.ids import short

if TYPE_CHECKING:
    from ges.wire.status import Status


def names_of(brokers: Iterable[Status]) -> dict[str, str]:
    """Return the names that brokers have, by uid; those of their neighbours as these told them."""
    found: dict[str, str] = {}
    for status in brokers:
        for link in status.links:
            if link.name:
                found.setdefault(link.uid, link.name)
    found.update({status.uid: status.name for status in brokers if status.name})
    return found


def labelled(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return what names a broker by its uid: ``52d1c2a0``, or ``52d1c2a0 berlin-1``."""

    def label(uid: str) -> str:
        name = names.get(uid)
        return f"{short(uid)} {name}" if name else short(uid)

    return label
