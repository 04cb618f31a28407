"""How a command attaches to its broker, as its options say."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from overlay.wording import printable

if TYPE_CHECKING:
    from ges.client import Client
    from ges.operations.attached import Operator
    from ges.operations.walk import Walk


def tell_waiting(words: str) -> None:
    """Say on stderr for what broker a command waits."""
    click.echo(printable(f"chordal: {words}"), err=True)


@dataclass(frozen=True, slots=True)
class Connection:
    """What ``client_options`` and ``token_option`` have found."""

    urls: str
    identity: Path | None
    overlay: str
    timeout: float
    token: str | None = field(default=None, repr=False)
    on_waiting: Callable[[str], None] = tell_waiting

    def attached(self, **more: Any) -> AbstractAsyncContextManager[Client]:  # noqa: ANN401 - of connect
        """Attach for the length of the block; ``more`` goes to :func:`ges.client.connect`."""
        from ges.client import connect

        known = {
            "identity": self.identity,
            "overlay": self.overlay,
            "token": self.token,
            "timeout": self.timeout,
            "on_waiting": self.on_waiting,
        }
        return connect(self.urls, **(known | more))

    async def walk(self, urls: str | None = None) -> Walk:
        """Walk the ring, from the broker given; ``urls``: from another one."""
        from ges.operations.walk import walk_ring

        return await walk_ring(
            urls or self.urls,
            identity=self.identity,
            overlay=self.overlay,
            timeout_s=self.timeout,
            on_waiting=self.on_waiting,
        )

    @property
    def operator(self) -> Operator:
        """The same for what an operator asks of brokers."""
        from ges.operations.attached import Operator

        known = self.identity, self.overlay, self.timeout, self.token, self.on_waiting
        return Operator(self.urls, *known)
