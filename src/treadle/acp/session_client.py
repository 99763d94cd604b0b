"""The editor as one of its sessions sees it: what is shown, in order, and what is asked."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

from acp.exceptions import RequestError
from acp.schema import (
    AllowedOutcome,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ElicitationCapabilities,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ToolCallUpdate,
)
from pydantic import ValidationError

from treadle.acp import protocol_updates
from treadle.acp.server_forms import can_show, make_mode, read_answer
from treadle.acp.session_options import list_options
from treadle.app.editors.editor_session import EditorSession
from treadle.app.editors.live_updates import make_remark
from treadle.app.editors.person_questions import PersonQuestion
from treadle.app.editors.session_updates import (
    CallBegun,
    CallChanged,
    CommandPrinted,
    ContextUsed,
    MessagePicture,
    MessageText,
    ModeChosen,
    ModelChosen,
    PlanTold,
    SessionUpdate,
    TitleChosen,
)
from treadle.app.editors.unsaved_files import EditorFiles
from treadle.server_questions import ServerAnswer, ServerQuestion

FILE_S_MAX: Final = 10.0
"""An editor that says nothing of a file for so long has nothing to say of it."""
_NO_ANSWER: Final = (ConnectionError, RequestError, TimeoutError, ValidationError)
PRINTED_LENGTH_MAX: Final = 64_000
"""Characters that a command has printed and that wait for an editor that does not read."""

Queued: TypeAlias = "SessionUpdate | Any"


class Connection(Protocol):
    """What is asked of the editor; `acp` has it."""

    async def session_update(self, session_id: str, update: Any) -> None:
        """Send an update. Raises `ConnectionError` if nobody is there."""
        ...

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        """Ask. Raises `ConnectionError`, and `RequestError` if the editor cannot ask."""
        ...

    async def read_text_file(self, session_id: str, path: str) -> ReadTextFileResponse:
        """What the editor has of a file. Raises likewise."""
        ...

    async def write_text_file(self, session_id: str, path: str, content: str) -> object:
        """Have the editor put this into a file. Raises likewise."""
        ...

    async def create_elicitation(self, message: str, mode: Any) -> Any:
        """Ask for a form, or for a visit. Raises as `request_permission`."""
        ...


class SessionClient:
    """Sends what a session shows, one update after the other.

    Args:
        connection: to the editor.
        shows_terminals: whether the editor shows the output of commands in terminals.
        reads_files: whether it says what it has of a file.
        writes_files: whether it takes what is in a file.
        forms: which questions of servers it shows; `None` if none.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        shows_terminals: bool = False,
        reads_files: bool = False,
        writes_files: bool = False,
        forms: ElicitationCapabilities | None = None,
    ) -> None:
        self._connection = connection
        self._shows_terminals = shows_terminals
        self._reads_files, self._writes_files = reads_files, writes_files
        self._forms, self._form_count = forms, 0
        self._queue: deque[Queued] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._is_held = True
        self.session: EditorSession | None = None
        """Whose client this is."""
        self.folder = ""

    def show(self, update: SessionUpdate) -> None:
        """See `EditorClient`."""
        last = self._queue[-1] if self._queue else None
        if (joined := _join(last, update)) is not None:
            self._queue[-1] = joined
        else:
            self.send(update)

    def send(self, update: Queued) -> None:
        """Send an update, or a value of the protocol, behind what waits."""
        self._queue.append(update)
        self._start_sending()

    def release(self) -> None:
        """The editor knows the session by now: from here on updates are sent."""
        self._is_held = False
        self._start_sending()

    async def flush(self) -> None:
        """Wait until everything is sent."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    async def ask(self, question: PersonQuestion) -> str | None:
        """See `EditorClient`. If the editor has gone, nobody answers: the question stays open."""
        await self.flush()
        call = question.call
        assert self.session is not None
        asked = ToolCallUpdate(
            tool_call_id=call.call_id,
            title=call.title,
            kind=call.kind,
            status="pending",
            content=protocol_updates.describe_call(call) or None,
            locations=protocol_updates.list_places(call) or None,
            raw_input=call.arguments,
        )
        options = [
            PermissionOption(option_id=one.id, name=one.words, kind=one.kind)
            for one in question.options
        ]
        try:
            answer = await self._connection.request_permission(
                self.session.thread_id, asked, options
            )
        except ConnectionError:
            await asyncio.get_running_loop().create_future()
        except (RequestError, ValidationError) as error:
            self.show(make_remark(f"the editor gave no answer that can be understood: {error}"))
            return None
        outcome = answer.outcome
        return outcome.option_id if isinstance(outcome, AllowedOutcome) else None

    @property
    def shows_forms(self) -> bool:
        """See `EditorClient`."""
        return self._forms is not None

    async def answer_server(self, question: ServerQuestion) -> ServerAnswer | None:
        """See `EditorClient`."""
        if not can_show(question, self._forms):
            return None
        await self.flush()
        assert self.session is not None
        self._form_count += 1
        words = f"{question.server}: {question.text}"
        try:
            mode = make_mode(question, self.session.thread_id, self._form_count)
            return read_answer(await self._connection.create_elicitation(words, mode))
        except ConnectionError:
            return None
        except (RequestError, ValueError) as error:
            self.show(make_remark(f"the editor gave no answer that can be understood: {error}"))
            return None

    def _start_sending(self) -> None:
        if self._queue and self._sending is None and not self._is_held:
            self._sending = asyncio.ensure_future(self._send_all())

    @property
    def files(self) -> EditorFiles | None:
        """See `EditorClient`."""
        return self if self._reads_files or self._writes_files else None

    async def read_text(self, path: str) -> str | None:
        """See `EditorFiles`."""
        if not self._reads_files or self.session is None:
            return None
        with suppress(*_NO_ANSWER):
            reading = self._connection.read_text_file(self.session.thread_id, path)
            return (await asyncio.wait_for(reading, FILE_S_MAX)).content
        return None

    async def write_text(self, path: str, text: str) -> bool:
        """See `EditorFiles`."""
        if not self._writes_files or self.session is None:
            return False
        with suppress(*_NO_ANSWER):
            writing = self._connection.write_text_file(self.session.thread_id, path, text)
            await asyncio.wait_for(writing, FILE_S_MAX)
            return True
        return False

    async def _send_all(self) -> None:
        """Runs until nothing waits. What nobody reads any more is dropped."""
        try:
            while self._queue:
                for made in self._make_updates(self._queue.popleft()):
                    assert self.session is not None
                    await self._connection.session_update(self.session.thread_id, made)
        except ConnectionError:
            self._queue.clear()
        finally:
            self._sending = None

    def _make_updates(self, update: Queued) -> tuple[Any, ...]:
        """An update as the protocol has it."""
        in_terminal = self._shows_terminals
        match update:
            case MessageText() | MessagePicture():
                return (protocol_updates.make_message(update),)
            case CallBegun():
                begun = protocol_updates.begin_call(
                    update, self.folder, shows_terminals=in_terminal
                )
                return (begun,)
            case CallChanged():
                return (protocol_updates.change_call(update, shows_terminals=in_terminal),)
            case CommandPrinted():
                return (protocol_updates.print_output(update, shows_terminals=in_terminal),)
            case PlanTold():
                return (protocol_updates.make_plan(update),)
            case ContextUsed():
                return (protocol_updates.make_usage(update),)
            case TitleChosen():
                return (protocol_updates.make_title(update),)
            case ModeChosen():
                chosen = CurrentModeUpdate(
                    session_update="current_mode_update", current_mode_id=update.mode
                )
                return (chosen, self._make_options())
            case ModelChosen():
                return (self._make_options(),)
            case _:
                return (update,)

    def _make_options(self) -> ConfigOptionUpdate:
        assert self.session is not None
        return ConfigOptionUpdate(
            session_update="config_option_update", config_options=list_options(self.session)
        )


def _join(last: Queued, update: SessionUpdate) -> SessionUpdate | None:
    """One update that says what both say, of which the first is not sent yet."""
    if isinstance(last, MessageText) and isinstance(update, MessageText):
        if last.author == update.author:
            return MessageText(last.author, last.text + update.text)
    elif (
        isinstance(last, CommandPrinted)
        and isinstance(update, CommandPrinted)
        and last.call_id == update.call_id
    ):
        text = (last.text + update.text)[-PRINTED_LENGTH_MAX:]
        return CommandPrinted(last.call_id, text, update.so_far, update.is_command)
    return None
