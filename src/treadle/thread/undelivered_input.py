"""What a person said and did that the model was not told of yet. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.events import ToolCompleted
from treadle.core.messages import Message
from treadle.thread.facts import BackgroundEnded, CommandBegun, CommandShown
from treadle.thread.typed_words import COMMANDS_HEAD, ENDS_HEAD

COMMAND_COUNT_MAX: Final = 20
"""Of the commands that a person ran so many are told, the newest; all stay in the journal."""

UserCommand: TypeAlias = CommandBegun | CommandShown
"""A command of a person: how it ended, or, where that is not known, that it began."""


END_COUNT_MAX: Final = 20
"""Of the commands that ended in the background so many are told at once, the newest."""


class QueuedMessage(Struct, frozen=True, omit_defaults=True):
    """A message that waits to be heard: when the turn is over, or before the next request.

    One that `steers` is heard before the next request of the turn during which it was said; if none
    comes, it is a prompt like the others.
    """

    message: Message
    steers: bool = False


class UndeliveredInput:
    """The messages that wait, oldest first, and the commands that the next message tells of.

    What ended in the background is told by the next message too, or by a result before that.

    Args:
        queued: what waits already.
        commands: what the next message tells of already.
        running: the commands in the background, by the calls that began them.
        ends: what ended in the background, and was not told yet.

    Each change costs the same, however much waits.
    """

    __slots__ = ("_next", "_steering", "_waiting", "commands", "ends", "running")

    def __init__(
        self,
        queued: Iterable[QueuedMessage] = (),
        commands: Iterable[UserCommand] = (),
        running: Mapping[str, str] = MappingProxyType({}),
        ends: Iterable[BackgroundEnded] = (),
    ) -> None:
        self._waiting: OrderedDict[int, Message] = OrderedDict()
        self._steering: deque[int] = deque()
        """Which of them steer, oldest first."""
        self._next = 0
        for one in queued:
            self.add(one.message, steers=one.steers)
        self.commands = tuple(commands)
        self.ends = tuple(ends)
        self.running = dict(running)

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
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("queued", "commands", "running", "ends")
        )

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

    def follow_result(self, event: ToolCompleted) -> None:
        """A result has begun a command in the background, or told of some that ended there."""
        command = getattr(event.outcome, "background", "")
        if command:
            self.running[event.call_id] = command
        if event.ends:
            self.ends = tuple(one for one in self.ends if one.call_id not in event.ends)

    def add_end(self, end: BackgroundEnded) -> None:
        """The next result or message tells that this has ended in the background."""
        self.running.pop(end.call_id, None)
        self.ends = (*self.ends, end)[-END_COUNT_MAX:]

    def merge_background(self, running: Mapping[str, str], ends: Iterable[BackgroundEnded]) -> None:
        """What another branch has begun and not ended, and the ends that were not told there."""
        self.running |= running
        for end in ends:
            self.add_end(end)

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
        self.forget_told()
        self._steering.clear()
        if self._waiting and (was_queued or self.next_prompt == message):
            self._waiting.popitem(last=False)

    def deliver_steering(self) -> None:
        """The oldest message that steers was heard."""
        self.forget_told()
        if self._steering:
            del self._waiting[self._steering.popleft()]

    def forget_told(self) -> None:
        """A message has told of all commands, the person's and those in the background."""
        self.commands, self.ends = (), ()

    def clear(self) -> None:
        """None of what a person said and did is to be heard.

        How commands in the background ended still is: these go on, whatever one goes back to.
        """
        self._waiting.clear()
        self._steering.clear()
        self.commands = ()


def append_undelivered(undelivered: UndeliveredInput, message: Message) -> Message:
    """What the model is told: the message, and behind it what it does not know yet.

    That is what ended in the background, and the commands that the person ran.
    """
    told = append_commands(undelivered.commands, message)
    if not undelivered.ends:
        return told
    ends = "".join(f"\n{describe_end(one)}" for one in undelivered.ends)
    return replace(told, content=f"{told.content}{ENDS_HEAD}{ends}")


def describe_end(end: BackgroundEnded) -> str:
    """How a command in the background ended, as the model is told."""
    how = {
        "exit": f"ended with exit code {end.exit_code}",
        "timeout": "was stopped: its time was over",
        "stopped": "was stopped",
        "session": "was stopped when the session ended",
        "unknown": "was running when its session died: whether and how it ended is not known",
    }[end.how]
    head = f"[the command in the background {end.call_id} {how}: {end.command}]"
    return f"{head}\n{end.output}".rstrip()


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
