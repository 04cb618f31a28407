"""Keeps a running broker's rules and tokens as their files are, and applies them."""

from __future__ import annotations

from pathlib import Path

import trio
from structlog.typing import FilteringBoundLogger as Log

from ges.access.admission import Admission
from ges.errors import AccessError, TokenError
from ges.sessions.clients import Clients
from overlay.links.counted_log import CountedLog
from overlay.machine import Refused
from overlay.net.transport import Wire
from overlay.wire.greetings import Refusal

NO_IDENTITY = (
    "this broker links only to brokers that show an identity of its authority; "
    "start the caller with --identity DIR and --require-identity"
)
TOKEN_SECONDS = 1.0  #: between two looks at the file of tokens


class AccessWatch:
    """Who may come to one broker, while files change that say so."""

    def __init__(
        self,
        admission: Admission,
        clients: Clients,
        counted_log: CountedLog,
        log: Log,
        *,
        certified_only: bool,
    ) -> None:
        """``certified_only``: brokers without a certificate may not link to this one."""
        self._admission = admission
        self._clients = clients
        self._counted_log = counted_log
        self._log = log
        self._certified_only = certified_only

    async def reload(self, access: Path | None, tokens: Path | None) -> None:
        """Read access rules and tokens again; where a file is wrong, what was in force stays so.

        ``access``, ``tokens``: where they are now.
        """
        self._admission.look_at(access, tokens)
        try:
            if self._admission.read_rules_again():
                await self._clients.apply_rules()
                self._log.info("access rules read again")
        except AccessError as error:
            self._log.error("wrong access rules, the earlier ones stay in force", why=str(error))
        self._read_tokens()

    async def watch_tokens(self) -> None:
        """Let tokens that are issued, revoked or expire take effect while the broker runs."""
        while True:
            await trio.sleep(TOKEN_SECONDS)
            self._read_tokens()
            self._clients.check_tokens()

    def judge_broker(self, wire: Wire) -> Refusal | None:
        """Return why the rules let no broker at the other end link to this one, or None."""
        if self._certified_only and wire.identity is None:
            self._counted_log.note(
                "brokers_without_identity", "broker refused, it shows no identity", host=wire.remote
            )
            return Refusal(Refused.NOT_AUTHENTICATED, NO_IDENTITY)
        if self._admission.admits_broker(wire.remote):
            return None
        self._counted_log.note("brokers_denied", "broker refused by the rules", host=wire.remote)
        return Refusal(
            Refused.NOT_AUTHENTICATED,
            f"the access rules let no broker at {wire.remote} link to this one",
        )

    def _read_tokens(self) -> None:
        try:
            if self._admission.read_tokens_again():
                self._log.info("tokens read again")
        except TokenError as error:
            self._log.error("wrong tokens, the earlier ones stay in force", why=str(error))
