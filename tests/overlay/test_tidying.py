"""Memory of daily work is used again, and memory of many connections given back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc alone")

_SCRIPT = """
import resource, sys
from overlay.tidying import give_back, keep_some

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


def test_pages_of_what_was_read_are_used_again() -> None:
    faults, _ = run("keep")
    assert faults < 100
    usual, _ = run("leave")
    assert usual > 500, "as it would be otherwise: one for each page of 4 MiB or so"


def test_what_many_connections_held_is_given_back_all_the_same() -> None:
    _, given_back = run("keep")
    assert given_back > 70
