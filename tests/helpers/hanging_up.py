"""What listens where a broker should: it greets a client as a broker does, and hangs up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ges.wire.client_messages import CLIENT_CODEC, Alternates, Attached
from overlay.wire.frames import PROTOCOL_VERSION

PAUSE_SECONDS = 0.05  #: in which what it is sent comes, and is not answered


@contextmanager
def hanging_up(*, reads: bool = True, names_itself: bool = True) -> Iterator[str]:
    """Listen in a thread for the length of the block, and yield the URL.

    ``reads``: it takes what a client says before it hangs up, so that the connection ends in good
    order. ``names_itself``: it is its own alternate.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"chordal://127.0.0.1:{listener.getsockname()[1]}"
        told = CLIENT_CODEC.encode(Attached("b" * 32, url, False, PROTOCOL_VERSION, "anyone"))
        if names_itself:
            told += CLIENT_CODEC.encode(Alternates((url,)))

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(told)
                    if reads:
                        connection.settimeout(PAUSE_SECONDS)
                        while connection.recv(65536):
                            pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield url
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        thread.join()
