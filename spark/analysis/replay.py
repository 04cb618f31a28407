"""The command that shows a simulated run again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import count, takewhile

import msgspec

from overlay.errors import ConfigError
from overlay.trace_schema import Source
from sims.campaign.cells import quoted
from sims.scenarios import library
from sims.scenarios.files import parse
from sims.scenarios.inputs import without_mark
from sims.scenarios.schema import Ring
from spark.analysis.groups import Group, settings

#: Parameter of an experiment that is no scenario in a file -> its option.
_OPTIONS = {
    "crash_share": "--crash-share",
    "crash_mode": "--crash-mode",
    "chords": "--chords",
    "gap_rule": "--gaps",
}
_ITEM = re.compile(r"(.+)\.\d+")  #: the key of an item of a list
_BROKERS = ("chords", "gap_rule")  #: of these, those that are settings of brokers


def command(group: Group, n: int | None, seed: int | None) -> str | None:
    """Return the command, or None for what nobody can run again: a live broker.

    Of a scenario in a file of the user's, the name of the file is a guess: the data do not say
    where it was.
    """
    if group.source != Source.SIMULATOR or n is None or seed is None:
        return None
    own = settings(group.parameters)
    head = f"chordal sim run {{}} --nodes {n} --seed {seed}"
    if any(key in own for key in _OPTIONS):
        given = [f"{_OPTIONS[key]} {quoted(own[key])}" for key in sorted(own) if key in _OPTIONS]
        words = [head.format(group.scenario), f"--profile {quoted(group.profile)}", *given]
        return " ".join(words)
    try:
        usual = _told(group.scenario)
    except ConfigError:
        return head.format(quoted(f"{group.scenario}.toml"))
    own = {key: without_mark(key, value) for key, value in own.items() if key != "version"}
    own["profile"] = group.profile
    changes = _changes(own, usual)
    return " ".join([head.format(quoted(group.scenario)), *changes])


#: Parameters of an experiment that is no scenario in a file, as they usually are.
_USUAL = {"crash_share": "0.05", "crash_mode": "power", "chords": "rank", "gap_rule": "widest"}


@cache
def usual(scenario: str) -> Mapping[str, str]:
    """Return what the settings of a scenario are if nobody changes them.

    Of a scenario that is not in the library, these are the settings of the ring.
    """
    try:
        return {**_USUAL, **_told(scenario)}
    except ConfigError:
        ring = settings(msgspec.json.encode({"ring": Ring()}).decode())
        return {**_USUAL, **ring}


def departures(group: Group) -> int:
    """Return how many settings of a group's brokers are not the usual ones."""
    known = usual(group.scenario)
    own = settings(group.parameters)
    told = {key: value for key, value in own.items() if key.startswith("ring.") or key in _BROKERS}
    return sum(value not in (known.get(key), "null") for key, value in told.items())


def _told(name: str) -> Mapping[str, str]:
    scenario = parse(library.find(name))
    return settings(msgspec.json.encode(scenario).decode())


def _changes(own: Mapping[str, str], usual: Mapping[str, str]) -> Iterable[str]:
    lists: dict[str, None] = {}
    for key in sorted(own):
        if own[key] == usual.get(key) or own[key] == "null":
            continue
        if item := _ITEM.fullmatch(key):
            lists[item[1]] = None
        else:
            yield f"--set {quoted(f'{key}={own[key]}')}"
    for name in lists:  # whole: the file may have fewer items, or none
        found = (own.get(f"{name}.{at}") for at in count())
        items = ",".join(_toml(value) for value in takewhile(lambda each: each is not None, found))
        yield f"--set {quoted(f'{name}=[{items}]')}"


def _toml(value: str | None) -> str:
    try:
        return str(float(value or ""))
    except ValueError:
        return json.dumps(value)
