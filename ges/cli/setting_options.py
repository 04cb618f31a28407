"""The options of ``chordal serve`` and ``config show``, made from the table of settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import inspect

from ges.errors import WrongValue
from ges.settings.gathering import TABLE, Sources
from ges.settings.setting import Setting
from ges.settings.values import from_text, shown

Command = TypeVar("Command", bound=Callable[..., Any])

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType


class SettingType(ParamType):
    """What may be written for one setting."""

    def __init__(self, setting: Setting) -> None:
        self.name = setting.metavar
        self._setting = setting

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """Return the value.

        Raises:
            click.BadParameter: it is none.
        """
        if not isinstance(value, str):
            return value
        try:
            return from_text(self._setting, value)
        except WrongValue as error:
            self.fail(f"{error}.", param, ctx)


class SettingsCommand(click.Command):
    """A command with an option for each setting; its help lists them by the tables of the file."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command itself, then those of each table."""
        tables = {_parameter(setting): setting.table for setting in TABLE}
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                table = tables.get(parameter.name or "")
                title = "Options" if table is None else f"Settings of [{table}]"
                groups.setdefault(title if table != "" else "Settings", []).append(record)
        for title in sorted(groups, key=lambda title: title != "Options"):
            with formatter.section(title):
                formatter.write_dl(groups[title])


def setting_options(command: Command) -> Command:
    """Add ``--config`` and an option for each setting; the command gets them as ``sources``."""

    def with_sources(config: Path | None, **options: Any) -> Any:  # noqa: ANN401 - as click has it
        flags = {}
        for setting in TABLE:
            value = options.pop(_parameter(setting))
            if setting.is_list:
                value = tuple(dict.fromkeys(each for given in value for each in given)) or None
            if value is not None:
                flags[setting.key] = value
        return command(sources=Sources(config, os.environ, flags), **options)

    with_sources.__doc__ = command.__doc__
    with_sources.__name__ = command.__name__
    made: Any = with_sources
    made.__click_params__ = list(getattr(command, "__click_params__", []))
    for setting in reversed(TABLE):
        made = option(setting)(made)
    done: Command = click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="CHORDAL_CONFIG",
        metavar="FILE",
        help="File of settings, see docs/configuration.md; none is read that is not named.  "
        "[env: CHORDAL_CONFIG]",
    )(made)
    return done


def _parameter(setting: Setting) -> str:
    return setting.key.replace(".", "_")


def option(setting: Setting) -> Callable[[Any], Any]:
    """Return what adds the option of one setting to a command."""
    if isinstance(setting.bare, inspect.BoolType):
        flag = setting.about.flag
        return click.option(
            f"{flag}/--no-{flag.removeprefix('--')}",
            _parameter(setting),
            default=None,
            help=f"{setting.text}  [env: {setting.about.env}]",
        )
    default = shown(setting, setting.default)
    notes = [f"env: {setting.about.env}"]
    if default != "-":
        notes.append(f"default: {default}")
    form = setting.about.form
    alone = form.alone if form is not None else None
    bare: dict[str, Any] = {} if alone is None else {"is_flag": False, "flag_value": alone}
    return click.option(
        setting.about.flag,
        _parameter(setting),
        type=SettingType(setting),
        multiple=setting.is_list,
        metavar=setting.metavar,
        help=f"{setting.text}  [{'; '.join(notes)}]",
        **bare,
    )
