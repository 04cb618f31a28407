"""Groups: runs that differ in nothing but size and seed, and the settings that tell them apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from overlay.trace_schema import Source


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that differ in nothing but size and seed, and may be compared across sizes."""

    source: str
    scenario: str
    profile: str
    parameters: str | None  #: of a simulated run; None for live ones, which are one group

    def __str__(self) -> str:
        return self.named(settings(self.parameters))

    def columns(self) -> dict[str, Any]:
        """Return the columns that all rows of the group have."""
        return {name: getattr(self, name) for name in Group.__struct_fields__}

    def named(self, keys: Iterable[str]) -> str:
        """Return its name with the settings ``keys`` in it, and no others."""
        place = [] if self.source == Source.SIMULATOR else [self.source]
        own = settings(self.parameters)
        told = [f"{key} {own[key]}" for key in keys if key in own]
        return ", ".join([self.scenario, self.profile, *place, *(part.strip() for part in told)])


class Grouped(msgspec.Struct, frozen=True, kw_only=True):
    """A row that belongs to a group."""

    source: str
    scenario: str
    profile: str
    parameters: str | None

    @property
    def group(self) -> Group:
        """The group the row belongs to."""
        return Group(
            source=self.source,
            scenario=self.scenario,
            profile=self.profile,
            parameters=self.parameters,
        )


def settings(parameters: str | None) -> dict[str, str]:
    """Return the settings in a run's parameters, nested ones with dots: ``faults.0.share``.

    A text that is no JSON object is one setting without a name.
    """
    if parameters is None:
        return {}
    try:
        found = msgspec.json.decode(parameters, type=dict)
    except msgspec.MsgspecError:
        return {"": parameters}
    return dict(_flat("", found))


def _flat(path: str, value: object) -> Iterable[tuple[str, str]]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _flat(f"{path}.{key}" if path else str(key), inner)
        case list():
            for at, inner in enumerate(value):
                yield from _flat(f"{path}.{at}", inner)
        case str():
            yield path, value
        case _:
            yield path, msgspec.json.encode(value).decode()


def names(groups: Iterable[Group]) -> dict[Group, str]:
    """Return a short name for each group: what all groups have in common is not said.

    Of a scenario that is there with one group only, no settings are needed.
    """
    found = list(groups)
    by_scenario: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for group in found:
        by_scenario.setdefault((group.source, group.scenario), []).append(
            settings(group.parameters)
        )
    told = {}
    for group in found:
        alike = by_scenario[group.source, group.scenario]
        keys = [
            key
            for key in dict.fromkeys(key for one in alike for key in one)
            if len({one.get(key) for one in alike}) > 1
        ]
        told[group] = group.named(keys)
    return told
