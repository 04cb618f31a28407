"""``--context``: the broker, and who this client is, by the name of a connection.

A flag is stronger than a context. A context that is named by a flag is stronger than environment
variables; one that ``CHORDAL_CONTEXT`` names is weaker than other variables, as these say one thing
each. A context that was only selected (``chordal context use``) stands in for a broker that nobody
names: where one is named, nothing of it is used, so that no token goes to another broker than the
one it was kept for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

_STRONG = "ges.cli.context_option.strong"  #: in the context of click: beats variables


class ContextOption(click.Option):
    """Looks up the connection before the other options of the command are read."""

    def handle_parse_result(
        self,
        ctx: click.Context,
        opts: Mapping[str, Any],
        args: list[str],
    ) -> tuple[Any, list[str]]:
        """Find which context is meant, and have the other options take what it says.

        Raises:
            ConfigError: there is none of that name, or the file is wrong.
        """
        value, rest = super().handle_parse_result(ctx, opts, args)
        if ctx.resilient_parsing:
            return value, rest
        from ges.settings.contexts import contexts_path, load_contexts

        names_broker = "broker" in opts or bool(os.environ.get("CHORDAL_URL"))
        given = value if isinstance(value, str) else ""  # click has a value of its own for none
        if not given and names_broker:
            return value, rest
        contexts = load_contexts(contexts_path(os.environ))
        name = given or contexts.selected
        if name is None:
            return value, rest
        found = contexts.get(name).options
        if ctx.get_parameter_source(self.name or "") is ParameterSource.COMMANDLINE:
            ctx.meta[_STRONG] = frozenset(found)
        ctx.default_map = {**(ctx.default_map or {}), **found}
        return name, rest


class ConnectionOption(click.Option):
    """An option that a context may say; a variable is weaker than one named by a flag."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return what the variable says, unless the context named says something."""
        return None if self.name in ctx.meta.get(_STRONG, ()) else super().resolve_envvar_value(ctx)


def says_token(ctx: click.Context) -> bool:
    """Say whether the context that a flag names has a token, whatever variables say."""
    return "token" in ctx.meta.get(_STRONG, ())


context_option = click.option(
    "--context",
    cls=ContextOption,
    is_eager=True,
    expose_value=False,
    envvar="CHORDAL_CONTEXT",
    metavar="NAME",
    help="Connection to use, see 'chordal context'.  [env: CHORDAL_CONTEXT]",
)
