"""The command that shows a simulated run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from overlay.errors import ConfigError
from overlay.trace_schema import Source
from sims.campaign.cells import quoted
from sims.scenarios import library
from sims.scenarios.files import parse
from spark.analysis.groups import Group, settings

#: Parameter of an experiment that is no scenario in a file -> its option.
_OPTIONS = {
    "crash_share": "--crash-share",
    "crash_mode": "--crash-mode",
    "chords": "--chords",
    "gap_rule": "--gaps",
}


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
    own["profile"] = group.profile
    changes = _changes(own, usual)
    return " ".join([head.format(quoted(group.scenario)), *changes])


def _told(name: str) -> Mapping[str, str]:
    scenario = parse(library.find(name))
    return settings(msgspec.json.encode(scenario).decode())


def _changes(own: Mapping[str, str], usual: Mapping[str, str]) -> Iterable[str]:
    for key in sorted(own):
        if own[key] != usual.get(key) and own[key] != "null":
            yield f"--set {quoted(f'{key}={own[key]}')}"
