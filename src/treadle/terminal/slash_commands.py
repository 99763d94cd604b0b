"""The slash commands of a chat: its own, and the skills and prompts that people have in files."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from treadle.terminal.notices import styled_text
from treadle.terminal.ports import SlashCommand, Terminal, TurnQueueEntry
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from treadle.app.sessions.prompt_files import PromptFileList
    from treadle.app.sessions.setup import Setup

_WORDS_LENGTH_MAX: Final = 100
"""Characters of a skill's description in lists."""


class TurnAdder(Protocol):
    """Takes what is typed in its order, see `turn_queue.TurnQueue`."""

    def add_prompt(self, text: str, *, steers: bool) -> None: ...  # noqa: D102

    def add_command(self, typed: TurnQueueEntry) -> None: ...  # noqa: D102


class SlashCommandHost(Protocol):
    """What slash commands ask of their chat, see `chat.Chat`."""

    terminal: Terminal

    @property
    def turns(self) -> TurnAdder: ...  # noqa: D102

    async def find_prompts(self) -> None: ...  # noqa: D102

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None: ...  # noqa: D102

    def begin_switch(self) -> None: ...  # noqa: D102

    def end_switch(self) -> None: ...  # noqa: D102

    def notify(self, text: str, style: str = "dim") -> None: ...  # noqa: D102


class SlashCommands:
    """What `/NAME` does.

    Args:
        chat: whose it is.

    `own` are those of the chat itself, which are set when it begins; `all` those there are, in the
    order of /help. `listed` is what was found in files; `None` while that is not known yet.
    """

    def __init__(self, chat: SlashCommandHost) -> None:
        self._chat = chat
        self.own: tuple[SlashCommand, ...] = ()
        self.all: tuple[SlashCommand, ...] = ()
        self.listed: PromptFileList | None = None
        self._of_servers: tuple[SlashCommand, ...] = ()

    def set_own(self, commands: tuple[SlashCommand, ...]) -> None:
        """Take those of the chat itself."""
        self.own = self.all = commands
        if self.listed is not None:
            self.set_prompts(self.listed)

    def complete_in(self, terminal: Terminal) -> None:
        """Have the terminal complete them from now on."""
        terminal.commands = self.all

    def set_prompts(self, listed: PromptFileList, setup: Setup | None = None) -> None:
        """Take what was found in files, and the prompts that servers have said by now.

        A command of the chat's own wins over a file.
        """
        self.listed = listed
        if setup is not None:
            self._of_servers = _list_server_prompts(setup)
        names = {name for one in self.own for name in one.names}
        found = [one.prompt for one in listed.used if one.prompt.name not in names]
        self.all = (
            *self.own,
            *(
                SlashCommand(
                    prompt.name,
                    sanitize_text(prompt.description)[:_WORDS_LENGTH_MAX],
                    _say_nothing,
                    sanitize_text(prompt.argument_hint),
                    is_prompt=True,
                )
                for prompt in found
            ),
            *self._of_servers,
        )

    def run(self, text: str, *, steers: bool) -> None:
        """Do what a line says that begins with a slash.

        Args:
            text: the line.
            steers: whether a prompt is heard in the turn that is running.
        """
        chat = self._chat
        name, *rest = text[1:].split(maxsplit=1)
        found = next((one for one in self.all if name in one.names), None)
        arguments = rest[0] if rest else ""
        if found is None and self.listed is None:
            chat.run_in_background(self._run_when_known(text, steers=steers))
        elif found is None and ":" in name:  # a server's, which may not have been started yet
            chat.turns.add_prompt(text, steers=steers)
        elif found is None:
            self._echo(text)
            self._tell_unknown(name)
        elif found.is_prompt:
            chat.turns.add_prompt(text, steers=steers)
        elif arguments and not found.argument:  # `/undo 7` would take back another turn than meant
            self._echo(text)
            chat.notify(f"/{name} takes nothing behind it; nothing was done", "warn")
        elif found.waits_for_turn:
            if found.is_switch:
                chat.begin_switch()
            over = chat.end_switch if found.is_switch else _do_nothing
            work: Callable[[], Coroutine[Any, Any, None]]
            work = partial(self._run_command, text, found, arguments, over)
            chat.turns.add_command(TurnQueueEntry(text, work=work, dropped=over))
        else:
            chat.run_in_background(self._run_command(text, found, arguments, _do_nothing))

    async def _run_when_known(self, text: str, *, steers: bool) -> None:
        """The same once the files were looked at, which is moments after the first drawing."""
        await self._chat.find_prompts()
        if self.listed is not None:
            self.run(text, steers=steers)

    async def _run_command(
        self, text: str, command: SlashCommand, rest: str, over: Callable[[], None]
    ) -> None:
        try:
            self._echo(text)
            await command.run(rest)
        finally:
            over()

    def _echo(self, text: str) -> None:
        """Show what was typed, as prompts are shown, apart from what stands above."""
        terminal = self._chat.terminal
        if not terminal.is_plain:  # there the line still stands as it was entered
            terminal.commit("", styled_text("> ", "accent").append(sanitize_text(text)))

    def _tell_unknown(self, name: str) -> None:
        from treadle.app.command_meanings import suggest_slash_command

        advice = suggest_slash_command(name, [n for one in self.all for n in one.names])
        told = f"there is no /{name}{advice}; /help lists what there is"
        if self.listed is not None and any(one.prompt.name == name for one in self.listed.prompts):
            told = (
                f"/{name} is not used: nobody has trusted it as it is now; /skills trust shows it"
            )
        self._chat.notify(told, "warn")


def _do_nothing() -> None:
    pass


async def _say_nothing(_: str) -> None:
    """What is said of a prompt is its text."""


def _list_server_prompts(setup: Setup) -> tuple[SlashCommand, ...]:
    """The prompts that servers have said by now, `/SERVER:PROMPT`."""
    return tuple(
        SlashCommand(
            one.title,
            one.description,
            _say_nothing,
            one.hint,
            is_prompt=True,
            complete=partial(setup.servers.complete_argument, one) if one.arguments else None,
        )
        for one in setup.servers.prompts
    )
