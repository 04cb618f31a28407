"""What came over a link is handed over: messages to the machine, other frames to the layer above.

Good-byes and acknowledgements concern the link itself. Pure: the driver reads the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Generic

from overlay.errors import ProtocolError
from overlay.links.acknowledgements import Acknowledgements
from overlay.links.keeping import L
from overlay.machine import Closed, Input, LinkMessage, MessageReceived
from overlay.queues.resend import Ack, Resume
from overlay.wire.codec import FrameRun, MessageCodec
from overlay.wire.frames import CONTROL
from overlay.wire.greetings import Goodbye


class Taking(Generic[L]):
    """Hands over what comes over the links of one broker."""

    def __init__(
        self,
        codec: MessageCodec,
        acknowledgements: Acknowledgements[L],
        *,
        on_frames: Callable[[L, FrameRun], Iterable[None]],
        give: Callable[[Input], None],
    ) -> None:
        """``on_frames``: takes frames that are no control messages, step by step."""
        self._codec = codec
        self._acknowledgements = acknowledgements
        self._on_frames = on_frames
        self._give = give

    def steps(self, link: L, runs: list[FrameRun]) -> Generator[None, None, Closed | None]:
        """Hand over what has come; behind a good-bye there are acknowledgements alone.

        Returns:
            Why the other end says good-bye; None: it does not.

        Raises:
            ProtocolError: something makes no sense.
        """
        link_class = link.link_class
        goodbye: Closed | None = None
        for run in runs:
            if run.kind != CONTROL:
                if goodbye is None:
                    yield from self._on_frames(link, run)
                continue
            for body in run.bodies():
                message = self._codec.decode(body)
                if isinstance(message, Goodbye):
                    goodbye = goodbye or message.reason
                    continue
                if goodbye is not None and not isinstance(message, Ack):
                    continue
                if isinstance(message, Ack | Resume):
                    self._acknowledgements.hear(link, message)
                    continue
                if not link_class.is_base and not isinstance(message, LinkMessage):
                    raise ProtocolError(f"{type(message).__name__} on a link for events")
                self._give(MessageReceived(link.peer.uid, message, link_class))
                yield
        return goodbye

    def acknowledged(self, link: L, runs: list[FrameRun]) -> None:
        """Both ends have parted: take what the other one says of how much has come there."""
        for run in runs:
            for body in run.bodies() if run.kind == CONTROL else ():
                if isinstance(message := self._codec.decode(body), Ack):
                    self._acknowledgements.hear(link, message)
