"""The option ``--plot FILE``: what a run or a campaign showed, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import click

FORMS = (".svg", ".png")

plot_option = click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.svg|.png",
    help="Draw how long repairs took, as shares of incidents over time.",
)


def check_plot(path: Path | None) -> None:
    """Say what keeps a plot from being drawn, before a long run and not after it.

    Raises:
        ConfigError: the file is of no known form, its folder is not there or takes no files, or
            matplotlib is missing.
    """
    from overlay.errors import ConfigError, MissingExtra
    from sims.unfinished import try_out

    if path is None:
        return
    if path.suffix.lower() not in FORMS:
        raise ConfigError(f"--plot {path}: the file must end in .svg or .png")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no folder {path.parent}; make it first")
    try:
        try_out(path.absolute().parent)
    except OSError as error:
        raise ConfigError(f"--plot {path}: {path.parent}: {error.strerror}") from None
    if find_spec("matplotlib") is None:
        raise MissingExtra("--plot needs the plot extra; in a checkout: pip install '.[plot]'")


def write_plot(title: str, panels: Mapping[str, Mapping[str, Sequence[float]]], path: Path) -> None:
    """Draw and write; a panel for each entry, with a curve for each of its own.

    Raises:
        ConfigError: the file cannot be written, or there is nothing to draw.
    """
    from overlay.errors import ConfigError

    full = {
        name: lines
        for name, curves in panels.items()
        if (lines := {label: values for label, values in curves.items() if values})
    }
    if not full:
        raise ConfigError(f"--plot {path}: nothing to draw, as no failure was repaired")
    from sims.plots.curves import curves
    from sims.plots.drawing import write

    write(curves(title, full), path)
