"""What an editor can ask of this program: the methods of the protocol, each a call of `app`."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from acp import PROTOCOL_VERSION
from acp.exceptions import RequestError
from acp.schema import (
    AgentCapabilities,
    AudioContentBlock,
    AuthMethodAgent,
    BlobResourceContents,
    ClientCapabilities,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResourceContentBlock,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    TerminalAuthMethod,
    TextContentBlock,
)

from treadle.acp.session_client import Connection, SessionClient
from treadle.acp.session_options import (
    MODE_OPTION,
    MODEL_OPTION,
    list_commands,
    list_modes,
    list_options,
)
from treadle.app.editors.editor_session import EditorSession
from treadle.app.editors.held_thread import EditorChoice
from treadle.app.editors.live_updates import make_remark
from treadle.app.editors.prompt_blocks import (
    PromptBlock,
    PromptDocument,
    PromptLink,
    PromptPicture,
    PromptText,
)
from treadle.app.editors.session_list import list_sessions
from treadle.app.sessions.limits import MODES
from treadle.app.stores import Store
from treadle.errors import MissingModelError, TreadleError, UnknownThreadError, UsageError
from treadle.version import __version__

INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002

LOGIN: Final = "treadle-login"
LOGIN_TEXT: Final = (
    "Run `treadle login` in a terminal, or set the variable of a provider's key "
    "(ANTHROPIC_API_KEY, OPENAI_API_KEY, ...) where the editor starts treadle."
)
_CODES: Final[tuple[tuple[type[TreadleError], int], ...]] = (
    (MissingModelError, AUTH_REQUIRED),
    (UnknownThreadError, NOT_FOUND),
    (UsageError, INVALID_PARAMS),
    (TreadleError, INTERNAL_ERROR),
)
"""The first row whose class fits decides."""


class TreadleAgent:
    """Answers the requests of one editor; `acp` calls these methods by their names.

    Args:
        store: the threads of this user.
        choice: what was chosen for all sessions.
        redact: takes secrets out of what is said of an error.
    """

    def __init__(self, store: Store, choice: EditorChoice, redact: Callable[[str], str]) -> None:
        self._store = store
        self._choice = choice
        self._redact = redact
        self._connection: Connection | None = None
        self._sessions: dict[str, tuple[EditorSession, SessionClient]] = {}
        self._opening = asyncio.Lock()
        """Held while a session comes or goes, so that none is opened twice."""
        self._offered = ClientCapabilities()

    def on_connect(self, conn: Connection) -> None:
        """The editor is there."""
        self._connection = conn

    # ---- before there is a session -------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        """What both can do. Of the protocol there is one version, which is what it answers."""
        wanted = client_capabilities or ClientCapabilities()
        self._offered = wanted
        methods: list[Any] = [
            AuthMethodAgent(id=LOGIN, name="Treadle login", description=LOGIN_TEXT)
        ]
        if wanted.auth is not None and wanted.auth.terminal:
            methods = [
                TerminalAuthMethod(
                    type="terminal",
                    id=LOGIN,
                    name="Treadle login",
                    description="Choose who answers, and give a key if one is needed.",
                    args=["login"],
                )
            ]
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="treadle", title="Treadle", version=__version__),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=McpCapabilities(),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
            auth_methods=methods,
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        """Nothing is sent here: a session that is begun next looks for a key."""
        if method_id != LOGIN:
            raise RequestError(INVALID_PARAMS, f"there is no method {method_id!r}, only {LOGIN}")

    # ---- sessions ------------------------------------------------------------------------------

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> NewSessionResponse:
        """Begin a thread; it is durable when this answers."""
        with self._errors():
            session, client = self._make_session(cwd)
            await session.begin()
        self._sessions[session.thread_id] = session, client
        self._greet(session, client, mcp_servers)
        return NewSessionResponse(
            session_id=session.thread_id,
            modes=list_modes(session),
            config_options=list_options(session),
        )

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> LoadSessionResponse:
        """Tell all of a thread; what was left unfinished in it goes on behind the answer."""
        session = await self._take_up(cwd, session_id, mcp_servers, tells_history=True)
        return LoadSessionResponse(modes=list_modes(session), config_options=list_options(session))

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> ResumeSessionResponse:
        """The same, for an editor that has the history."""
        session = await self._take_up(cwd, session_id, mcp_servers, tells_history=False)
        return ResumeSessionResponse(
            modes=list_modes(session), config_options=list_options(session)
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        """The conversations of a folder, or all."""
        with self._errors():
            page = await asyncio.to_thread(list_sessions, self._store, cwd, cursor)
        sessions = [
            SessionInfo(
                session_id=one.id,
                cwd=one.folder,
                title=one.title or None,
                updated_at=one.updated_at,
            )
            for one in page.sessions
        ]
        return ListSessionsResponse(sessions=sessions, next_cursor=page.cursor)

    async def close_session(self, session_id: str, **_: Any) -> None:
        """Free a thread; what runs in it stays unfinished, to be resumed."""
        session, client = self._find(session_id)
        with self._errors():
            async with self._opening:
                await session.close()
                self._sessions.pop(session_id, None)
        await client.flush()

    # ---- in a session --------------------------------------------------------------------------

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> PromptResponse:
        """Say something, and answer when the agent waits again and all that it did is told."""
        session, client = self._find(session_id)
        with self._errors():
            blocks = [make_block(one) for one in prompt]
            stop = await session.prompt(blocks)
        await client.flush()
        return PromptResponse(stop_reason=stop)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End what is running; nobody hears what is said against it."""
        if (known := self._sessions.get(session_id)) is not None:
            known[0].cancel()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> None:
        """Have another approval mode, at once."""
        await self._choose(session_id, MODE_OPTION, mode_id)

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        """Have another approval mode or model, at once."""
        session = await self._choose(session_id, config_id, value)
        return SetSessionConfigOptionResponse(config_options=list_options(session))

    async def close(self) -> None:
        """Free all threads: the editor has gone, or this program is to end."""
        async with self._opening:
            ending = (session.close() for session, _ in self._sessions.values())
            await asyncio.gather(*ending, return_exceptions=True)

    # ---- what these are made of ----------------------------------------------------------------

    def _make_session(self, folder: str) -> tuple[EditorSession, SessionClient]:
        _check_folder(folder)
        assert self._connection is not None
        offered, files = self._offered, self._offered.fs
        client = SessionClient(
            self._connection,
            shows_terminals=bool((offered.field_meta or {}).get("terminal_output")),
            reads_files=files is not None and bool(files.read_text_file),
            writes_files=files is not None and bool(files.write_text_file),
            forms=offered.elicitation,
        )
        client.folder = folder
        client.session = EditorSession(self._store, folder, client, self._choice)
        return client.session, client

    async def _take_up(
        self,
        folder: str,
        session_id: str,
        mcp_servers: Sequence[Any] | None,
        *,
        tells_history: bool,
    ) -> EditorSession:
        with self._errors():
            _check_folder(folder)
            async with self._opening:
                known = self._sessions.get(session_id)
                if known is not None:
                    _check_same_folder(known[1].folder, folder)
                session, client = known or self._make_session(folder)
                client.release()
                try:
                    await session.load(session_id, tells_history=tells_history)
                except BaseException:
                    if known is None:
                        await session.close()
                    raise
                self._sessions[session_id] = session, client
        await client.flush()
        self._greet(session, client, mcp_servers)
        return session

    def _greet(
        self, session: EditorSession, client: SessionClient, mcp_servers: Sequence[Any] | None
    ) -> None:
        """Tell what else there is, once the answer has been sent that names the session."""

        def greet() -> None:
            client.release()
            with suppress(TreadleError):  # the machine fails to read what the user trusts
                client.send(list_commands(session))
            if mcp_servers:
                names = ", ".join(str(one.name) for one in mcp_servers)
                words = f"not used, as `treadle mcp add` names servers for Treadle: {names}"
                client.show(make_remark(words))
            session.go_on()

        # The answer of a handler is on its way as soon as it returns; this comes behind that.
        asyncio.get_running_loop().call_soon(greet)

    def _find(self, session_id: str) -> tuple[EditorSession, SessionClient]:
        if (found := self._sessions.get(session_id)) is None:
            raise RequestError(NOT_FOUND, f"no session {session_id!r} is open here: load it first")
        return found

    async def _choose(self, session_id: str, option: str, value: str | bool) -> EditorSession:
        session, client = self._find(session_id)
        with self._errors():
            if option == MODEL_OPTION and value and isinstance(value, str):
                await session.choose(model=value)
            elif option == MODE_OPTION and value in MODES:
                await session.choose(mode=value)  # type: ignore[arg-type]
            else:
                raise UsageError(f"there is no {option} {value!r}")
        await client.flush()
        return session

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What goes wrong, as the protocol says it: what it was, and the next step."""
        try:
            yield
        except TreadleError as error:
            code = next(code for kind, code in _CODES if isinstance(error, kind))
            words = f"{error.message}\n{error.hint}" if error.hint else error.message
            raise RequestError(code, self._redact(words)) from error


def _check_folder(folder: str) -> None:
    if not Path(folder).is_absolute():
        raise UsageError(f"cwd has to be an absolute path, and is {folder!r}")
    if not Path(folder).is_dir():
        raise UsageError(f"cwd is no folder: {folder!r}", hint="open one that is there")


def _check_same_folder(held: str, folder: str) -> None:
    if Path(held).resolve() != Path(folder).resolve():
        raise UsageError(f"this session is open in {held}", hint="close it there first")


def make_block(block: Any) -> PromptBlock:
    """A part of a prompt.

    Raises:
        UsageError: it is of a kind that was not offered, or holds no base64.
    """
    match block:
        case TextContentBlock():
            return PromptText(block.text)
        case ResourceContentBlock():
            return PromptLink(block.uri, block.name)
        case ImageContentBlock():
            return PromptPicture(_decode(block.data), _name_picture(block.uri))
        case EmbeddedResourceContentBlock():
            resource = block.resource
            if isinstance(resource, BlobResourceContents):
                return PromptDocument(resource.uri, _decode(resource.blob))
            return PromptDocument(resource.uri, resource.text)
        case AudioContentBlock():
            raise UsageError("treadle hears nothing: sound was not offered")
        case _:
            raise UsageError("a part of the prompt is of a kind that nobody knows here")


def _decode(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:  # also of what is no ASCII
        raise UsageError(f"a part of the prompt is no base64: {error}") from error


def _name_picture(uri: str | None) -> str:
    return (uri or "").rpartition("/")[2] or "picture"
