"""What the processes of clients are told, and what they say, a line of JSON each."""

from __future__ import annotations

import struct
from enum import StrEnum

import msgspec

from ges.bench.ges22.plan import Cell
from ges.bench.ges22.samples import Sample

#: Begins a payload: when the event was published, in ns since 1970, and the number of its cell.
STAMP = struct.Struct(">QI")


class Role(StrEnum):
    """What the clients of one process do."""

    PUBLISH = "publish"
    MEASURE = "measure"
    CROWD = "crowd"  #: they take what they get, and count it


class Place(msgspec.Struct, frozen=True):
    """Clients at one broker."""

    broker: int  #: its number
    url: str
    clients: int
    wants: dict[int, int]  #: by match rate, the value of the fourth tag


class Order(msgspec.Struct, frozen=True):
    """What one process is to do."""

    role: Role
    places: tuple[Place, ...]


class Begin(msgspec.Struct, frozen=True, tag=True):
    """Forget what has come; events of this cell are published next."""

    cell: Cell


class Publish(msgspec.Struct, frozen=True, tag=True):
    """Publish the events of a cell for so long."""

    cell: Cell
    seconds: float


class Published(msgspec.Struct, frozen=True, tag=True):
    """So many events were published, of the first value, the second and so on."""

    by_value: tuple[int, ...]
    per_s: float


class End(msgspec.Struct, frozen=True, tag=True):
    """Say what has come, once all has, or nothing does any more, or after the limit."""

    by_value: tuple[int, ...]
    quiet_s: float
    limit_s: float


class Samples(msgspec.Struct, frozen=True, tag=True):
    """What has come to measuring subscribers."""

    samples: tuple[Sample, ...]


class Counted(msgspec.Struct, frozen=True, tag=True):
    """What has come to the others."""

    received: int
    expected: int


Told = Begin | Publish | End
Said = Published | Samples | Counted
