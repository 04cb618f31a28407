"""Logs go to stderr: coloured for people at a terminal, one JSON object a line otherwise."""

from __future__ import annotations

import logging
import sys

import structlog

from overlay.wording import printable


def configure_logs(level: str) -> None:
    """Set up structured logs from ``level`` on."""
    renderer: structlog.typing.Processor
    formatting: list[structlog.typing.Processor] = []
    if sys.stderr.isatty():
        formatting.append(_escape)
        # Plain: a formatter that shows local variables would show secrets.
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    else:
        formatting.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            *formatting,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _escape(_: object, __: str, row: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape what does not show: others have a word in what is logged of them."""
    return {
        key: printable(value) if isinstance(value, str) else value for key, value in row.items()
    }
