"""Under which conditions it was measured: figures without them say nothing."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime

import msgspec

from ges.bench.load import Attach
from ges.client import connect
from overlay.release import software_version
from overlay.wording import counted


class BrokerConditions(msgspec.Struct, frozen=True):
    """The broker that clients attach to."""

    url: str
    version: str
    secure_hop: bool  #: clients reach it over TLS
    clients: int  #: attached to it before the measurement
    members: int  #: brokers in its cluster


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The machine, the programs and the brokers."""

    date: str  #: ISO 8601, UTC
    chordal: str
    python: str
    system: str
    processors: int
    load_average: float | None  #: processes that wanted to run, over the last minute, before it
    brokers: tuple[BrokerConditions, ...]

    @property
    def in_words(self) -> list[str]:
        """The same for people, a line each."""
        load = "" if self.load_average is None else f", load {self.load_average:.2f}"
        return [
            f"{self.date}, chordal {self.chordal}, {self.python}, {self.system}, "
            f"{counted(self.processors, 'processor')}{load}",
            *(
                f"broker {each.url}: chordal {each.version}, "
                f"{'TLS' if each.secure_hop else 'plain'}, "
                f"{counted(each.clients, 'other client')}, {each.members} in its cluster"
                for each in self.brokers
            ),
        ]


async def look(*attaches: Attach) -> Conditions:
    """Describe this machine, and ask the brokers.

    Raises:
        ConnectionLost: one does not answer.
    """
    brokers: dict[str, BrokerConditions] = {}
    for attach in dict.fromkeys(attaches):
        async with connect(
            attach.urls,
            identity=attach.identity,
            overlay=attach.overlay,
            timeout=attach.timeout_s,
            token=attach.token,
            reattach=False,
        ) as client:
            found = await client.status()
            brokers[client.broker_url] = BrokerConditions(
                client.broker_url, found.version, client.secure, found.clients - 1, found.members
            )
    average = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Conditions(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        chordal=software_version(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        system=f"{platform.system()} {platform.machine()}",
        processors=os.cpu_count() or 1,
        load_average=None if average is None else round(average, 2),
        brokers=tuple(brokers.values()),
    )
