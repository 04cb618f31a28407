"""``chordal completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the lines with which SHELL completes chordal's commands and options.

    \b
    bash: put into ~/.bashrc:               eval "$(chordal completion bash)"
    zsh:  put into ~/.zshrc, after compinit: eval "$(chordal completion zsh)"
    fish: chordal completion fish > ~/.config/fish/completions/chordal.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None, "click knows these three"
    root = click.get_current_context().find_root().command
    click.echo(made(root, {}, "chordal", "_CHORDAL_COMPLETE").source())
