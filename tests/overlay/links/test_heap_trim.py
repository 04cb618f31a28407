"""Memory of daily work is used again, and memory of many connections given back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
import trio
from trio.testing import MockClock

from overlay.links import heap_trim
from overlay.links.heap_trim import TIDY_AFTER, HeapTrim
from tests.helpers.stations import Overlay

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc alone")

_SCRIPT = """
import resource, sys
from overlay.links.heap_trim import give_back, keep_some

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

if sys.argv[1] == "keep":
    keep_some()
for _ in range(20):  # what was read waits for an acknowledgement, and is forgotten
    before = faults()
    read = [b"x" * 262_144 for _ in range(16)]
    del read
print(faults() - before)
crowd = [b"x" * 10_000 for _ in range(10_000)]
full = resident()
kept = crowd[::1_000]  # between what is freed, some is in use
del crowd
give_back()
print((full - resident()) >> 20)
"""


def run(mode: str) -> tuple[int, int]:
    """Return page faults in one round of reading 4 MiB, and MiB given back of 95."""
    command = [sys.executable, "-c", _SCRIPT, mode]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    faults, given_back = map(int, done.stdout.split())
    return faults, given_back


@glibc
def test_pages_of_what_was_read_are_used_again() -> None:
    faults, _ = run("keep")
    assert faults < 100
    usual, _ = run("leave")
    assert usual > 500, "as it would be otherwise: one for each page of 4 MiB or so"


@glibc
def test_what_many_connections_held_is_given_back_all_the_same() -> None:
    _, given_back = run("keep")
    assert given_back > 70


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When memory was given back, in seconds; nothing is done to the memory of the tests."""
    times: list[float] = []
    monkeypatch.setattr(heap_trim, "keep_some", lambda: None)
    monkeypatch.setattr(heap_trim, "give_back", lambda: times.append(trio.current_time()))
    return times


async def test_after_many_ends_it_is_tidied_up_once_and_not_before(
    autojump_clock: MockClock, nursery: trio.Nursery, given_back: list[float]
) -> None:
    tidier = HeapTrim()
    nursery.start_soon(tidier.run)
    for rounds in (1, 2):
        for _ in range(TIDY_AFTER - 1):
            tidier.note_end()
        await trio.sleep(100)
        assert len(given_back) == rounds - 1
        last = trio.current_time()
        for _ in range(5):  # others end at about the same time
            tidier.note_end()
            await trio.sleep(0.1)
        await trio.sleep(100)
        assert len(given_back) == rounds
        assert 1 < given_back[-1] - last < 3


async def test_a_broker_tidies_up_when_many_have_hung_up(
    overlay: Overlay, autojump_clock: MockClock, given_back: list[float]
) -> None:
    a = await overlay.station("a")
    for _ in range(TIDY_AFTER - 1):
        await (await overlay.dial(a)).aclose()
    await trio.sleep(100)
    assert given_back == []
    await (await overlay.dial(a)).aclose()
    await trio.sleep(100)
    assert len(given_back) == 1
