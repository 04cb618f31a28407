"""What ``chordal why`` says of queue groups: which brokers would serve one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from overlay.ids import short
from overlay.wording import counted, printable

if TYPE_CHECKING:
    from ges.operations.explain import Explanation
    from ges.wire.why import WhyGroup

MAX_NAMED = 8  #: brokers in one line


def in_words(found: Explanation, group: WhyGroup) -> str:
    """Return a line about a group."""
    name = "a queue that is not shown" if group.name is None else f"queue {printable(group.name)}"
    if group.units:
        names = ", ".join(group.units[:MAX_NAMED])
        kind = "unit" if len(group.units) == 1 else "one of the units"
        chosen = f"one member gets it, in {kind} {names}, as no broker of this cluster has members"
    elif found.entry.slot in group.nearest:
        chosen = "one member gets it, at this broker"
    elif len(group.nearest) == 1:
        chosen = f"one member gets it, at the nearest broker, {_broker(found, group.nearest[0])}"
    else:
        where = ", ".join(_broker(found, slot) for slot in group.nearest[:MAX_NAMED])
        left = len(group.nearest) - MAX_NAMED
        more = f" and {left} more" if left > 0 else ""
        chosen = f"one member gets it, at one of the nearest brokers, drawn: {where}{more}"
    others = counted(len(group.others), "other broker")
    also = f"; {others} with members" if group.others else ""
    return f"{name} on {shown_filter(group.filter)}: {chosen}{also}"


def as_row(found: Explanation, group: WhyGroup) -> dict[str, Any]:
    """Return a group for machines."""

    def uids(slots: Iterable[int]) -> list[str]:
        return [found.members[slot].uid for slot in slots if slot in found.members]

    return {
        "queue": group.name,
        "filter": group.filter,
        "nearest": uids(group.nearest),
        "others": uids(group.others),
        "units": [*group.units],
    }


def in_queue(name: str | None) -> str:
    """Return the name of a queue behind a filter; nothing if it is in none."""
    return "" if name is None else f" in queue {printable(name)}"


def shown_filter(text: str | None) -> str:
    """Return a filter for people."""
    if text is None:
        return "a filter that is not shown"
    return f"'{text}'" if text else "everything"


def _broker(found: Explanation, slot: int) -> str:
    member = found.members.get(slot)
    return short(member.uid) if member is not None else "one that has gone"
