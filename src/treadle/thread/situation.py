"""What an agent is told of where and how it works: all when its thread begins, then the news. Pure.

The facts stand in lines at the end of the system prompt, which is recorded and stays as it is. What
is another one later is told behind the next message of the person, in a line that begins as the one
there does. So what a model knows can be read off what it is shown: nothing else is kept, a resumed
thread, a fork and one that went back know it, and what a compaction has left out is told again. In
a task, where nobody says more, it is a note by itself before a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.messages import Message, is_by_person
from treadle.thread.safe_text import sanitize_text
from treadle.thread.typed_words import SITUATION_HEAD

PersonPresence: TypeAlias = Literal["there", "away", "none"]
"""Somebody is asked at once; a call that needs a yes waits for one; or it is refused."""
CommandHold: TypeAlias = Literal["workspace-write", "read-only", "off", "unheld", "refused"]
"""The level of the sandbox; or that nothing can hold commands, after a yes or not at all."""
NetworkAccess: TypeAlias = Literal["on", "ask", "off", "free"]
"""As the setting has it; `free` is that of commands without a sandbox."""

NAME_COUNT_MAX: Final = 10
NAME_LENGTH_MAX: Final = 200
"""Characters of a name that somebody else has given: a branch, a file, a folder."""

_HEAD: Final = (
    "The situation when this thread began. What has changed since is told behind a message of the "
    "person:"
)
_MARK: Final = "- "
_NOTE_HEAD: Final = SITUATION_HEAD.lstrip()
_MODES: Final = {
    "plan": (
        'plan. Look, and propose: a call that would change something is answered with "not in '
        'plan mode". Give your steps with the tool for plans and end your turn; the person then '
        "decides whether they are carried out."
    ),
    "ask": ("ask. A person is asked before a file is changed, and before a command that writes."),
    "auto-edit": (
        "auto-edit. Files are changed unasked; a person is asked before a command that writes."
    ),
    "auto": "auto. Files are changed and commands run unasked.",
}
_PROGRAM_MODE: Final = "that of a program; a call may need a person's yes."
_PEOPLE: Final[dict[PersonPresence, str]] = {
    "there": "there to be asked.",
    "away": "not there: at a call that needs a yes the work stops until somebody gives it.",
    "none": "not there: a call that needs a yes is refused, and the work goes on.",
}
_COMMANDS: Final[dict[CommandHold, str]] = {
    "workspace-write": "a sandbox holds them: with write access they can change this folder.",
    "read-only": "a sandbox holds them, and nothing they do lasts; files cannot be changed.",
    "off": "they run without a sandbox, as the person's own do.",
    "unheld": "nothing can hold them here, so each needs a person's yes.",
    "refused": "nothing can hold them here, so none runs.",
}
_NETWORK: Final[dict[NetworkAccess, str]] = {
    "on": "commands that write have it, and others that ask for it; pages can be fetched.",
    "ask": "a person is asked about each command that asks for it, and each new site.",
    "off": "none.",
    "free": "commands have it.",
}


class AgentSituation(Struct, frozen=True):
    """Where and how an agent works.

    `date` is the local one, `mode` the approval mode; empty for a policy that is none of them.
    `branch` is empty where HEAD is detached, `None` where there is none to name. `commits` says
    whether rounds are committed. The others are told when a thread begins only: `uncommitted` names
    what had changed in the folder then, `None` if nobody looked; `limits` are those of a command,
    in words.
    """

    date: str
    mode: str
    person: PersonPresence
    commands: CommandHold
    network: NetworkAccess
    has_repository: bool
    branch: str | None
    commits: bool
    folder: str = ""
    platform: str = ""
    shell: str = ""
    limits: str = ""
    parallel_max: int = 0
    uncommitted: Sequence[str] | None = None

    @property
    def changing_lines(self) -> tuple[str, ...]:
        """The facts that may become others in the course of a thread."""
        return tuple(_format_lines(self._list_changing()))

    @property
    def text(self) -> str:
        """All facts, as the end of a system prompt."""
        lines = _format_lines(self._list_lasting())
        return "\n".join((_HEAD, *self.changing_lines, *lines))

    def _list_changing(self) -> Iterator[tuple[str, str]]:
        yield "Date", self.date
        yield "Mode", _MODES.get(self.mode, _PROGRAM_MODE)
        yield "Person", _PEOPLE[self.person]
        yield "Commands", _COMMANDS[self.commands]
        yield "Network", _NETWORK[self.network]
        if self.branch is not None:
            yield "Branch", _clean(self.branch) or "none, HEAD is detached"
        if self.commits:
            yield (
                "Commits",
                (
                    "Treadle commits what a round of calls has changed, by itself; changes of the "
                    "person's stay as they are."
                ),
            )
        else:
            why = "" if self.has_repository else ", as this folder is in no git repository"
            yield "Commits", f"Treadle makes none{why}."

    def _list_lasting(self) -> Iterator[tuple[str, str]]:
        if self.uncommitted is not None and self.has_repository:
            yield "Uncommitted, and not yours", _list_names(self.uncommitted)
        yield "Folder", _clean(self.folder)
        yield "Platform", f"{_clean(self.platform)}; commands run in {_clean(self.shell)}"
        yield "Limits of a command", self.limits
        bound = f", {self.parallel_max} at a time" if self.parallel_max else ""
        yield "Calls", f"those of one answer run side by side{bound}."
        yield "End", "the first answer that calls nothing ends the turn; the person reads it then."


def append_news(
    lines: Iterable[str], system_prompt: str, seen: Sequence[Message], message: Message
) -> Message:
    """The message, and behind it the facts that are others than the model was told.

    Args:
        lines: the facts as they are now, `changing_lines` of an `AgentSituation`.
        system_prompt: what stands before the conversation.
        seen: the messages that the model is shown. Costs time in proportion to them.
        message: what is said next.
    """
    news = _list_untold(lines, system_prompt, seen)
    if not news:
        return message
    return replace(message, content="\n".join((message.content + SITUATION_HEAD, *news)))


def describe_news(lines: Iterable[str], system_prompt: str, seen: Sequence[Message]) -> str:
    """The facts that are others than the model was told, as a note; empty if there are none.

    The arguments are those of `append_news`.
    """
    news = _list_untold(lines, system_prompt, seen)
    return "\n".join((_NOTE_HEAD, *news)) if news else ""


def _list_untold(lines: Iterable[str], system_prompt: str, seen: Sequence[Message]) -> list[str]:
    told = _find_told_lines(system_prompt, seen)
    return [line for line in lines if told.get(_label_of(line)) != line]


def strip_situation(system_prompt: str) -> str:
    """A system prompt without the facts at its end."""
    before, head, _ = system_prompt.rpartition(_HEAD)
    return before.rstrip() if head else system_prompt


def strip_news(message: Message) -> Message:
    """A person's message without the facts behind it."""
    if not is_by_person(message) or not _list_news(message):
        return message
    return replace(message, content=message.content.rpartition(SITUATION_HEAD)[0])


def is_news(message: Message) -> bool:
    """Whether it is a note of facts that have changed, and nothing else."""
    return not is_by_person(message) and bool(_list_news(message))


def _find_told_lines(system_prompt: str, seen: Sequence[Message]) -> dict[str, str]:
    """The newest line of each fact, by its label."""
    told: dict[str, str] = {}
    _, head, begun = system_prompt.rpartition(_HEAD)
    if head:
        told.update((_label_of(line), line) for line in begun.split("\n"))
    for message in seen:
        told.update((_label_of(line), line) for line in _list_news(message))
    return told


def _list_news(message: Message) -> list[str]:
    """The facts behind a message; those that stand in a file or an output in it are none."""
    text = _find_news_text(message)
    if SITUATION_HEAD not in text:
        return []
    lines = text.rpartition(SITUATION_HEAD)[2].split("\n")[1:]
    return lines if all(line.startswith(_MARK) for line in lines) else []


def _find_news_text(message: Message) -> str:
    """In what news may stand, under their head: a person's words, or a note that begins so."""
    if is_by_person(message):
        return message.content
    is_note = message.role == "user" and message.content.startswith(f"{_NOTE_HEAD}\n")
    return f"\n\n{message.content}" if is_note else ""


def _label_of(line: str) -> str:
    return line.partition(":")[0]


def _format_lines(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    return (f"{_MARK}{label}: {words}" for label, words in facts)


def _list_names(names: Sequence[str]) -> str:
    shown = ", ".join(_clean(name) for name in names[:NAME_COUNT_MAX])
    more = len(names) - NAME_COUNT_MAX
    return f"{shown} and {more} more" if more > 0 else shown or "nothing"


def _clean(name: str) -> str:
    """A name in one line, however it was chosen."""
    name = sanitize_text(name).replace("\n", "\N{REPLACEMENT CHARACTER}")
    return name if len(name) <= NAME_LENGTH_MAX else f"{name[:NAME_LENGTH_MAX]}..."
