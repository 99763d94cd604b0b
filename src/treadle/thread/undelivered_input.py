"""What a person said and did that the model was not told of yet. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.messages import Message
from treadle.thread.facts import CommandBegun, CommandShown
from treadle.thread.typed_words import COMMANDS_HEAD

COMMAND_COUNT_MAX: Final = 20
"""Of the commands that a person ran so many are told, the newest; all stay in the journal."""

UserCommand: TypeAlias = CommandBegun | CommandShown
"""A command of a person: how it ended, or, where that is not known, that it began."""


class QueuedMessage(Struct, frozen=True, omit_defaults=True):
    """A message that waits to be heard: when the turn is over, or before the next request.

    One that `steers` is heard before the next request of the turn during which it was said; if none
    comes, it is a prompt like the others.
    """

    message: Message
    steers: bool = False


class UndeliveredInput:
    """The messages that wait, oldest first, and the commands that the next message tells of.

    Args:
        queued: what waits already.
        commands: what the next message tells of already.

    Each change costs the same, however much waits.
    """

    __slots__ = ("_next", "_steering", "_waiting", "commands")

    def __init__(
        self, queued: Iterable[QueuedMessage] = (), commands: Iterable[UserCommand] = ()
    ) -> None:
        self._waiting: OrderedDict[int, Message] = OrderedDict()
        self._steering: deque[int] = deque()
        """Which of them steer, oldest first."""
        self._next = 0
        for one in queued:
            self.add(one.message, steers=one.steers)
        self.commands = tuple(commands)

    @property
    def queued(self) -> tuple[QueuedMessage, ...]:
        """All that waits; costs time in proportion to it."""
        steering = set(self._steering)
        return tuple(QueuedMessage(one, key in steering) for key, one in self._waiting.items())

    def __len__(self) -> int:
        return len(self._waiting)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UndeliveredInput):
            return NotImplemented
        return (self.queued, self.commands) == (other.queued, other.commands)

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def next_prompt(self) -> Message | None:
        """What is heard next when the turn is over."""
        return next(iter(self._waiting.values()), None)

    @property
    def next_steering(self) -> Message | None:
        """What is heard before the next request."""
        return self._waiting[self._steering[0]] if self._steering else None

    def add(self, message: Message, *, steers: bool = False) -> None:
        """One more waits."""
        self._waiting[self._next] = message
        if steers:
            self._steering.append(self._next)
        self._next += 1

    @property
    def unfinished_commands(self) -> tuple[CommandBegun, ...]:
        """The commands of which it is not known how they ended."""
        return tuple(one for one in self.commands if isinstance(one, CommandBegun))

    def add_command(self, command: UserCommand) -> None:
        """The next message tells of this command too; its end stands for its beginning."""
        same = [one for one in self.commands if command.id and one.id == command.id]
        if isinstance(command, CommandBegun) and same:
            return
        kept = (one for one in self.commands if one not in same)
        self.commands = (*kept, command)[-COMMAND_COUNT_MAX:]

    def merge_commands(
        self, ended: Iterable[CommandShown], undelivered: Iterable[UserCommand]
    ) -> None:
        """What another branch knows: how some ended, and those that no message told of there."""
        begun = {one.id for one in self.unfinished_commands}
        for command in (*(one for one in ended if one.id in begun), *undelivered):
            self.add_command(command)

    def withdraw_newest(self) -> None:
        """The newest is taken back."""
        if self._waiting:
            key, _ = self._waiting.popitem()
            if self._steering and self._steering[-1] == key:
                self._steering.pop()

    def deliver_prompt(self, message: Message, *, was_queued: bool) -> None:
        """A turn has begun with a message: it was the oldest, if it says so or is the same.

        What was to steer an earlier turn and came too late steers none: it waits for its own.
        """
        self.commands = ()
        self._steering.clear()
        if self._waiting and (was_queued or self.next_prompt == message):
            self._waiting.popitem(last=False)

    def deliver_steering(self) -> None:
        """The oldest message that steers was heard."""
        self.commands = ()
        if self._steering:
            del self._waiting[self._steering.popleft()]

    def clear(self) -> None:
        """None of it is to be heard."""
        self._waiting.clear()
        self._steering.clear()
        self.commands = ()


def append_commands(commands: Iterable[UserCommand], message: Message) -> Message:
    """What the model is told: the message, and behind it the commands that a person ran.

    The person's own words come first, so that titles, lists and searches show them. Each command
    stands on a line of its own behind `$ `, with the exit code where it is not 0, and what it
    printed follows; `[no output]` says that it printed nothing. Of one whose end is not known, that
    is said instead.
    """
    told = [_format_command(command) for command in commands]
    if not told:
        return message
    return replace(message, content="".join((message.content, COMMANDS_HEAD, *told)))


def _format_command(command: UserCommand) -> str:
    if isinstance(command, CommandBegun):
        return f"\n$ {command.command}\n[it had begun; whether and how it ended is not known]"
    failed = f"\n[exit code {command.exit_code}]" if command.exit_code else ""
    return f"\n$ {command.command}\n{command.output.rstrip() or '[no output]'}{failed}"
