"""From what is written in a file, a flag or a variable to the value of a setting, and back."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from ges.errors import WrongValue
from ges.settings.setting import Setting, plain
from overlay.errors import ConfigError
from overlay.wording import printable


def from_toml(setting: Setting, written: object, folder: Path | None = None) -> Any:  # noqa: ANN401 - as the setting has it
    """Return the value that a file holds; relative paths start at ``folder``.

    Raises:
        WrongValue: it is none.
    """
    return _value(setting, written, written, strict=True, folder=folder)


def from_text(setting: Setting, text: str) -> Any:  # noqa: ANN401
    """Return the value that a flag or an environment variable holds; commas part lists.

    Raises:
        WrongValue: it is none.
    """
    written = text.replace(",", " ").split() if setting.is_list else text
    return _value(setting, written, text, strict=False)


def _value(
    setting: Setting,
    written: object,
    shown: object,
    *,
    strict: bool,
    folder: Path | None = None,
) -> Any:  # noqa: ANN401
    form = setting.about.form
    try:
        read = form.read(written) if form is not None else written
        value = msgspec.convert(read, setting.type, strict=strict, dec_hook=_decode)
    except (ValueError, msgspec.ValidationError):
        raise WrongValue(f"{_quoted(shown)} is not {wanted(setting)}") from None
    except ConfigError as error:
        raise WrongValue(str(error)) from None
    if isinstance(value, float) and math.isnan(value):
        raise WrongValue(f"{_quoted(shown)} is not {wanted(setting)}")
    if isinstance(value, Path) and folder is not None:
        return folder / value
    return value


def _decode(kind: type, written: Any) -> Any:  # noqa: ANN401 - as msgspec has it
    if kind is Path and isinstance(written, str):
        return Path(written)
    raise NotImplementedError


def _quoted(written: object) -> str:
    return printable(repr(written)) if isinstance(written, str) else printable(str(written))


def wanted(setting: Setting) -> str:
    """Return in words what a value may be, such as ``a whole number from 1 to 4``."""
    if setting.choices:
        return f"one of {', '.join(setting.choices)}"
    form = setting.about.form
    if form is not None:
        bounds = _bounds(setting, form.write)
        return f"{form.wanted},{bounds}" if bounds else form.wanted
    match setting.bare:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number" + _bounds(setting, str)
        case inspect.FloatType():
            return "a number" + _bounds(setting, lambda bound: f"{bound:.10g}")
    return _text_wanted(setting)


def _text_wanted(setting: Setting) -> str:
    return f"a name of {NAME_WORDS}" if setting.key == "name" else "a text"


#: What the pattern of names says.
NAME_WORDS = "1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit"


def _bounds(setting: Setting, write: Any) -> str:  # noqa: ANN401 - a form's function
    held = setting.bare
    ge, gt, le = (getattr(held, name, None) for name in ("ge", "gt", "le"))
    least = f" from {write(ge)}" if ge is not None else ""
    least = f" above {write(gt)}" if gt is not None else least
    if le is None:
        return least
    return f"{least} to {write(le)}" if ge is not None else f"{least}, at most {write(le)}"


def written(setting: Setting, value: Any) -> Any:  # noqa: ANN401
    """Return a value as a file has it, of what TOML and JSON know."""
    form = setting.about.form
    if value is None or form is None or isinstance(value, Path):
        return plain(value)
    return form.write(value)


def shown(setting: Setting, value: Any) -> str:  # noqa: ANN401
    """Return a value for people; ``-`` for none."""
    found = written(setting, value)
    if isinstance(found, list):
        found = ",".join(map(str, found))
    if isinstance(found, float):
        found = f"{found:.10g}"
    return "-" if found is None or found == "" else f"{found}"
