"""The slash command about what runs in the background, and the question before it is ended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from treadle.terminal.notices import styled_text, two_column_table
from treadle.terminal.ports import DialogChoice, SlashAction, SlashCommand

if TYPE_CHECKING:
    from treadle.app.sessions.open_threads import Session
    from treadle.terminal.chat import Chat

_LINE_COUNT: Final = 40
"""Lines of the newest output that are shown."""
_LENGTH_MAX: Final = 8000
"""Characters of them: a line may be all that was kept, which is megabytes."""
_STOP: Final = "stop"
_CHOICES: Final = (DialogChoice("y", "yes, stop them"), DialogChoice("n", "no, nothing happens"))


def background_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """The commands of this group."""
    return (
        SlashCommand(
            "tasks",
            "what the agent runs in the background",
            partial(_tasks, chat),
            "[stop] [ID]",
            waits_for_turn=False,
        ),
    )


async def _tasks(chat: Chat, rest: str) -> None:
    session = chat.sessions.session
    running = () if session is None else session.driver.background.running
    if session is None or not running:
        chat.notify("nothing runs in the background")
        return
    first, _, second = rest.partition(" ")
    wanted = second.strip() if first == _STOP else first
    chosen = [one.call_id for one in running if one.call_id == wanted or not wanted]
    if not chosen:
        known = ", ".join(one.call_id for one in running)
        chat.notify(f"{wanted} does not run in the background; there are: {known}", "warn")
    elif first == _STOP:
        await session.driver.background.stop(chosen)
    elif wanted:
        await _show_output(chat, session, wanted)
    else:
        rows = [(one.call_id, f"{one.age_s:.0f} s  {one.command}") for one in running]
        chat.terminal.commit(two_column_table(rows))
        chat.notify("/tasks ID shows what one has printed, /tasks stop [ID] ends it")


async def _show_output(chat: Chat, session: Session, call_id: str) -> None:
    text = (await session.driver.background.read(call_id)).rstrip("\n")
    if not text:
        chat.notify("it has printed nothing so far")
        return
    lines = text.splitlines()
    shown = "\n".join(lines[-_LINE_COUNT:])
    if (more := len(shown) - _LENGTH_MAX) > 0:
        chat.notify(f"[{len(text) - len(shown) + more} characters before these]")
    elif (left_out := len(lines) - _LINE_COUNT) > 0:
        chat.notify(f"[{left_out} lines before these]")
    chat.terminal.commit_soon(styled_text(shown[-_LENGTH_MAX:]))


def ask_before_close(chat: Chat, run: SlashAction) -> SlashAction:
    """The same, once a person has said that what runs in the background may be stopped for it."""

    async def ask_and_run(rest: str) -> None:
        session = chat.sessions.session
        running = () if session is None else session.driver.background.running
        if running:
            told = "".join(f"\n  {one.command}" for one in running)
            question = f"This stops what runs in the background:{told}\nGo on?"
            if await chat.terminal.choose(styled_text(question, "bold"), _CHOICES) != "y":
                return
        await run(rest)

    return ask_and_run
