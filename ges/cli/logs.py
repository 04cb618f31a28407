"""Logs go to stderr: coloured for people at a terminal, one JSON object a line otherwise.

Level and format can change while a broker runs. A logger that is bound keeps the processors that
were there as it was bound, so these never change: they ask one object what is in force.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from ges.settings.schema import LogFormat, LogLevel
from overlay.wording import printable

_LEVELS = logging.getLevelNamesMapping()


class Logs:
    """What is logged, and how it is written."""

    def __init__(self, level: str, form: str, name: str = "") -> None:
        self._name = name
        self._least = 0
        self._steps: tuple[Processor, ...] = ()
        self.change(level, form)

    def change(self, level: str, form: str) -> None:
        """Log from ``level`` on in the :class:`~ges.settings.schema.LogFormat` ``form``."""
        self._least = _LEVELS[LogLevel(level).upper()]
        self._steps = _steps(LogFormat(form))

    def pass_on(self, _: WrappedLogger, method: str, row: EventDict) -> EventDict:
        """Drop what is less severe than what is logged, and put the name to the rest.

        Raises:
            structlog.DropEvent: it is.
        """
        name = "ERROR" if method == "exception" else method.upper()
        if _LEVELS.get(name, logging.CRITICAL) < self._least:
            raise structlog.DropEvent
        if self._name:
            row.setdefault("name", self._name)
        return row

    def write(self, logger: WrappedLogger, method: str, row: EventDict) -> str:
        """Return the line."""
        done: object = row
        for step in self._steps:
            assert isinstance(done, dict)
            done = step(logger, method, done)
        return str(done)


def configure_logs(level: str, form: str = LogFormat.AUTO, name: str = "") -> Logs:
    """Set up structured logs from ``level`` on, each line with the broker's name if it has one."""
    logs = Logs(level, form, name)
    structlog.configure(
        processors=[
            logs.pass_on,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            logs.write,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    return logs


def _steps(form: LogFormat) -> tuple[Processor, ...]:
    if form is LogFormat.AUTO and sys.stderr.isatty():
        # Plain: a formatter that shows local variables would show secrets.
        plain = structlog.dev.plain_traceback
        return (_escape, structlog.dev.ConsoleRenderer(exception_formatter=plain))
    if form is LogFormat.KEY_VALUE:
        first = ["timestamp", "level", "event"]
        return (
            structlog.processors.format_exc_info,
            _escape,
            structlog.processors.LogfmtRenderer(key_order=first, drop_missing=True),
        )
    return (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())


def _escape(_: object, __: str, row: EventDict) -> EventDict:
    """Escape what does not show: others have a word in what is logged of them."""
    return {
        key: printable(value) if isinstance(value, str) else value for key, value in row.items()
    }
