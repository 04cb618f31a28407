"""Broken rules of what comes in: frames that are passed on, and held, before they are read."""

from __future__ import annotations

from ges.wire import event_runs, events
from tests.mutants.mutant import Chapter, nothing

FRAMES = Chapter(first="frames")

FRAMES.add(
    "frames-not-read",
    "of an event that comes the header alone is read, and the rest when it is delivered",
    (event_runs, "_check_readers", nothing),
    (event_runs, "attribute_problem", nothing),
)
FRAMES.add(
    "names-and-groups-not-read",
    "whom of all subscribers an event is for is read when it is delivered",
    (event_runs, "_check_readers", nothing),
)
FRAMES.add(
    "attributes-not-read",
    "attributes of events are passed on as they come",
    (event_runs, "attribute_problem", nothing),
)
FRAMES.add(
    "numbers-without-bound",
    "an event may have a number that no message can name",
    (events, "MAX_SEQUENCE", 2**64 - 1),
    (event_runs, "MAX_SEQUENCE", 2**64 - 1),
)
