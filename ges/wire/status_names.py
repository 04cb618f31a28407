"""A broker's status as JSON, with names: on the wire it is an array."""

from __future__ import annotations

import msgspec

from ges.wire.status import Status
from ring.wire.messages import Member


def named(status: Status) -> dict[str, object]:
    """Return what a broker says of itself, ready to be written as JSON."""
    names = {name: getattr(status, name) for name in status.__struct_fields__}
    del names["more"]  # it is whole
    names["member"] = None if status.member is None else _member(status.member)
    for name in ("left", "right", "chords"):
        names[name] = [_member(member) for member in names[name]]
    found: dict[str, object] = msgspec.to_builtins(names)
    return found


def _member(member: Member) -> dict[str, object]:
    return {
        "uid": member.uid,
        "incarnation": member.incarnation,
        "url": member.peer.url,
        "ring_id": member.ring_id,
    }
