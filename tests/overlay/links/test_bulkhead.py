"""What is no bug is not called one: the machine lacks something, and the log says what."""

from __future__ import annotations

import errno
import os
from collections import Counter

import pytest
import structlog
import trio
import trio.testing

from overlay.errors import ConfigError
from overlay.links.bulkhead import Bulkhead, lack
from overlay.links.counted_log import CountedLog


@pytest.mark.parametrize(
    ("error", "mend"),
    [
        (MemoryError(), "give the broker more"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "make room"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "ulimit -n"),
    ],
)
async def test_a_shortage_is_named_with_its_mend_and_is_no_bug(error: Exception, mend: str) -> None:
    counters: Counter[str] = Counter()

    async def fail(_: object) -> None:
        raise error

    with structlog.testing.capture_logs() as lines:
        log = structlog.get_logger()
        bulkhead = Bulkhead(counters, log, CountedLog(counters, log, lambda: 0), trio.sleep)
        for _ in range(1000):
            await bulkhead.contain(fail, None)
    assert counters == {"resource_shortages": 1000}
    told = [line for line in lines if line["log_level"] != "debug"]
    assert len(told) == 1, "a full disk does not fill the log"
    assert mend in told[0]["why"]


async def test_what_is_neither_is_a_bug() -> None:
    counters: Counter[str] = Counter()

    async def fail(_: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    with structlog.testing.capture_logs() as lines:
        log = structlog.get_logger()
        bulkhead = Bulkhead(counters, log, CountedLog(counters, log, lambda: 0), trio.sleep)
        await bulkhead.contain(fail, None)
    assert counters == {"internal_errors": 1}
    assert lines[0]["event"].startswith("BUG:")


def test_what_the_machine_lacks_is_seen_in_a_group_if_nothing_else_is_there() -> None:
    short = ExceptionGroup("tasks", [MemoryError(), ExceptionGroup("more", [MemoryError()])])
    assert "no memory left" in (lack(short) or "")
    assert lack(ExceptionGroup("tasks", [MemoryError(), KeyError("a bug")])) is None


async def test_a_timer_whose_step_fails_pauses_and_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    counters: Counter[str] = Counter()
    begun: list[float] = []

    async def run() -> None:
        begun.append(trio.current_time())
        if len(begun) < 4:
            raise KeyError("a step")
        await trio.sleep_forever()

    with structlog.testing.capture_logs() as lines:
        log = structlog.get_logger()
        bulkhead = Bulkhead(counters, log, CountedLog(counters, log, lambda: 0), trio.sleep)
        with trio.move_on_after(60):
            await bulkhead.keep(run)
    assert counters == {"internal_errors": 3}
    assert [at - begun[0] for at in begun] == [0, 1, 2, 3], "it does not spin"
    assert sum(line["event"].startswith("BUG:") for line in lines) == 3


async def test_what_is_foreseen_of_a_timer_passes() -> None:
    counters: Counter[str] = Counter()
    log = structlog.get_logger()
    bulkhead = Bulkhead(counters, log, CountedLog(counters, log, lambda: 0), trio.sleep)

    async def run() -> None:
        raise ExceptionGroup("tasks", [ConfigError("no such file")])

    with pytest.raises(ExceptionGroup):
        await bulkhead.keep(run, ConfigError)
    assert not counters
