"""The root of the ``chordal`` command: finds sub-commands, and turns errors into messages.

Sub-commands are loaded when they are asked for. Packages above this one register theirs as entry
points of the group ``chordal.commands``, so that nothing here imports them.

Exit codes: 0 done, 1 it did not work, 2 the command line or what it names is wrong,
70 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import click

from overlay.errors import ChordalError, ConfigError
from overlay.wording import printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: name -> (module, attribute, what it does)
COMMANDS = {
    "serve": ("ges.cli.serve", "serve", "Start a broker; it joins the ring by itself."),
    "pub": ("ges.cli.pub", "pub", "Publish events."),
    "sub": ("ges.cli.sub", "sub", "Print events as they come."),
    "request": ("ges.cli.request", "request", "Ask, and print the reply."),
    "reply": ("ges.cli.reply", "reply", "Answer requests."),
    "ping": ("ges.cli.ping", "ping", "Time round trips to each broker, by class."),
    "ring": ("ges.cli.ring", "ring", "Walk the ring, print it, check it."),
    "units": ("ges.cli.units", "units", "Show the tree of units, check it; let one join another."),
    "status": ("ges.cli.status", "status", "Show one broker."),
    "metrics": ("ges.cli.metrics", "metrics", "Counters of one broker, for Prometheus."),
    "graph": ("ges.cli.graph", "graph", "Show all links of the overlay, with their weights."),
    "why": ("ges.cli.why", "why", "Say where an event would go, and why."),
    "clients": ("ges.cli.clients", "clients", "List who is attached where, with rates."),
    "kick": ("ges.cli.clients", "kick", "Cut off a client."),
    "drain": ("ges.cli.drain", "drain", "Have a broker leave, after its clients."),
    "drill": ("ges.cli.drill", "drill", "Break a live ring within limits, and measure."),
    "top": ("ges.cli.top", "top", "Watch brokers and links with their rates."),
    "bench": ("ges.cli.bench", "bench", "Measure how fast events go, and how long they take."),
    "identity": ("ges.cli.identity", "identity", "Authority and certificates of an overlay."),
    "token": ("ges.cli.token", "token", "Tokens of clients."),
    "access": ("ges.cli.access", "access", "Check rules of who may publish and subscribe."),
    "config": ("ges.cli.config", "config", "Show what a broker is set to, and why."),
    "context": ("ges.cli.context", "context", "Name connections, and use them by name."),
    "completion": ("ges.cli.completion", "completion", "Let your shell complete the command."),
    "demo": ("ges.cli.demo", "demo", "See the main job done, end to end, in about a minute."),
}

#: What the packages above do, for the help page, without importing them.
_HELP = {
    "sim": "Experiments on failures, in virtual time.",
    "recovery": "Recovery times across experiments, with Spark.",
}


#: Codes of what is no :class:`ChordalError`.
USAGE, NO_MEMORY, SYSTEM, INTERNAL = "usage", "no-memory", "system", "internal"

_OUTPUT_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, those of packages above ``ges`` last."""
        return [*COMMANDS, *sorted(e.name for e in entry_points(group="chordal.commands"))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it; None if there is none of that name."""
        if cmd_name in COMMANDS:
            module, attribute, _ = COMMANDS[cmd_name]
            command = getattr(importlib.import_module(module), attribute)
        else:
            found = entry_points(group="chordal.commands", name=cmd_name)
            if not found:
                return None
            command = next(iter(found)).load()
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what completes a word, without importing the commands."""
        from click.shell_completion import CompletionItem

        texts = self._texts()
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=texts.get(name)) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    @staticmethod
    def _texts() -> dict[str, str]:
        return {name: text for name, (_, _, text) in COMMANDS.items()} | _HELP

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; that nobody reads its output any more is no failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_stdout()
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with what each is for, without importing them."""
        texts = self._texts()
        with formatter.section("Commands"):
            formatter.write_dl([(n, texts.get(n, "")) for n in self.list_commands(ctx)])


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from overlay.release import software_version

        click.echo(f"chordal {software_version()}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
def cli() -> None:
    """An event middleware whose brokers organise themselves."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its code; no traceback reaches a user."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    _open_closed_streams()
    try:
        result = cli.main(arguments, prog_name="chordal", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Abort:
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        _tell_error(_usage(error), USAGE)
        return error.exit_code
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:  # noqa: BLE001 - the last stop
        return _explain(error)


def _explain(error: BaseException) -> int:
    from ges.errors import SettingsError

    if isinstance(error, BaseExceptionGroup):
        codes = [_explain(inner) for inner in _leaves(error)]
        return max(codes, default=1)
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, BrokenPipeError):
        _discard_stdout()
        return 0
    if isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno == errno.ENOMEM
    ):
        _tell_error("there is not enough memory", NO_MEMORY)
        return 1
    if isinstance(error, OSError) and error.errno is not None:  # the system's, and no bug of ours
        _tell_error(_operating_fault(error), SYSTEM)
        return 1
    if isinstance(error, SettingsError):
        for mistake in error.mistakes:
            _tell_error(mistake, error.code)
        return 2
    if isinstance(error, ChordalError):
        _tell_error(str(error), error.code)
        return 2 if isinstance(error, ConfigError) else 1
    if os.environ.get("CHORDAL_DEBUG"):
        raise error
    bug = "this is a bug of chordal; CHORDAL_DEBUG=1 shows where"
    _tell(f"internal error: {type(error).__name__}: {error}; {bug}", INTERNAL)
    return 70


def _tell_error(text: str, code: str) -> None:
    _tell(f"error: {text}", code)


def _tell(text: str, code: str) -> None:
    """Say on one line what is wrong, and with which code docs/errors.md explains it."""
    line = " ".join(text.split()) if "\n" in text else text
    click.echo(f"chordal: {printable(line)} [{code}]", err=True)


def _usage(error: click.ClickException) -> str:
    """Return what is wrong with the command line, and where it is said how it is right."""
    text = " ".join(error.format_message().split()).removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{text}; see '{context.command_path} --help'" if context is not None else text


def _operating_fault(error: OSError) -> str:
    """Return what the system does not do for us, such as writing to a disk that is full."""
    name = f"{error.filename}" if error.filename is not None else ""
    if error.errno not in _OUTPUT_FAILED:
        return f"{name}: {error.strerror}" if name else f"{error.strerror}"
    if not name:
        _discard_stdout()
    return f"cannot write {name or 'the output'}: {error.strerror}"


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: dict[str, BaseException] = {}
    for inner in group.exceptions:
        parts = _leaves(inner) if isinstance(inner, BaseExceptionGroup) else [inner]
        found.update({repr(part): part for part in parts})
    return list(found.values())


def _discard_stdout() -> None:
    """The reader of our output has gone; keep the interpreter from complaining as it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """Give a command that was started without them somewhere to write to."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as we run
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


if __name__ == "__main__":
    main()
