"""`treadle completion`: what a shell needs to complete commands, options and ids of threads."""

from __future__ import annotations

from typing import Final

import click

SHELLS: Final = ("bash", "zsh", "fish")
COMPLETION_VARIABLE: Final = "_TREADLE_COMPLETE"
"""Set by the shell when it asks what could stand at the cursor."""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the lines that make SHELL complete treadle's commands, options and thread ids.

    \b
    eval "$(treadle completion bash)"       in ~/.bashrc; bash 4.4 or newer
    eval "$(treadle completion zsh)"        in ~/.zshrc, behind compinit
    treadle completion fish | source        in ~/.config/fish/config.fish

    An id is completed from the threads of this machine, those of this folder first; after TAB fish
    and zsh show their titles.
    """  # noqa: D301  click reads the backspace
    from click.shell_completion import ShellComplete, get_completion_class

    from treadle.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    # That of bash asks the first `bash` in PATH for its version: a command may have put it there.
    click.echo(ShellComplete.source(kind(cli, {}, "treadle", COMPLETION_VARIABLE)))
