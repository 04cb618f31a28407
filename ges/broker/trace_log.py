"""Events that belong to a trace, as the debug log tells of them. Others leave no line.

At the broker where such an event is published, and at each that it comes to, there is one line with
its id, as ``chordal why`` takes it, and its traceparent. Its topic is not told: who reads logs need
not be one who may read events.
"""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger

from ges.wire.event_runs import EventRun
from ges.wire.trace_context import traceparents


class TraceLog:
    """Writes these lines for one broker."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    def note(self, what: str, run: EventRun) -> None:
        """Tell of the events of a run that belong to a trace: ``what`` has become of them."""
        head = run.head
        name = head.publisher.hex()
        for sequence, traceparent in traceparents(run):
            self._log.debug(
                what,
                id=f"{name}:{sequence}",
                link_class=head.link_class.value,
                hops=head.hops,
                traceparent=traceparent,
            )
