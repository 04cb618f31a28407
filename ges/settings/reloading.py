"""Which settings change while a broker runs, and which wait for its next start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ges.settings.gathering import TABLE, Gathered, settings_from
from ges.settings.schema import Settings
from ges.settings.setting import Setting
from ges.settings.values import shown


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that is not what it was."""

    setting: Setting
    old: str  #: as the broker runs
    new: str
    place: str  #: whence the new value came

    @property
    def takes_effect(self) -> bool:
        """It takes effect now, and not only when the broker is started again."""
        return self.setting.about.reloads


def changes(running: Settings, found: Gathered) -> Iterator[Change]:
    """Yield what is to be other than it is in a running broker."""
    for setting in TABLE:
        old, new = value_of(running, setting), found.value(setting.key)
        if old != new:
            place = found.found[setting.key].place
            yield Change(setting, shown(setting, old), shown(setting, new), place)


def merged(running: Settings, found: Gathered) -> Settings:
    """Return the settings of a broker that takes of the new ones what can change."""
    return settings_from(
        {
            each.key: found.value(each.key) if each.about.reloads else value_of(running, each)
            for each in TABLE
        }
    )


def value_of(settings: Settings, setting: Setting) -> object:
    """Return the value of one setting."""
    held: object = settings
    for name in setting.key.split("."):
        held = getattr(held, name)
    return held
