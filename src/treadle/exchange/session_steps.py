"""What happened in a session of another program, in words that fit all of them. Values only."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from treadle.core.llm import Usage


class SessionPrompt(Struct, frozen=True):
    """A person said something; `at` is a UTC string as records have it, empty if nobody knows.

    `pictures` are the bytes of pictures and documents that they showed with it.
    """

    at: str
    text: str
    pictures: tuple[bytes, ...] = ()


class SessionCall(Struct, frozen=True):
    """A call in an answer; `arguments_json` is JSON text, or whatever else the model wrote."""

    id: str
    tool_name: str
    arguments_json: str


class SessionAnswer(Struct, frozen=True):
    """A model's answer: `model` is its name, empty if nobody knows."""

    at: str
    text: str
    calls: tuple[SessionCall, ...] = ()
    model: str = ""
    usage: Usage | None = None


class SessionCallResult(Struct, frozen=True):
    """What came of a call. `is_error` if the program said that it failed.

    `pictures` are the bytes of pictures and documents that the model was shown with it.
    """

    at: str
    call_id: str
    text: str
    is_error: bool = False
    pictures: tuple[bytes, ...] = ()


class SessionFailure(Struct, frozen=True):
    """A request was not answered; the program said why."""

    at: str
    reason: str


class SessionStop(Struct, frozen=True):
    """A person stopped the turn."""

    at: str


class SessionRewind(Struct, frozen=True):
    """A person took back what one said in the step `before`, and all that came after it."""

    at: str
    before: SessionPrompt


class SessionSummary(Struct, frozen=True):
    """A summary took the place of what was said so far in what the model was shown."""

    at: str
    summary: str


class SessionGitState(Struct, frozen=True):
    """How the repository stood; `remote` is a URL as git has it, maybe with credentials."""

    at: str
    branch: str | None = None
    head: str | None = None
    remote: str | None = None


class SessionTitle(Struct, frozen=True):
    """The session got a title, by a model unless `by_person`."""

    at: str
    title: str
    by_person: bool = False


class SessionForeignRecord(Struct, frozen=True):
    """A record that has no counterpart here, as its text was."""

    at: str
    text: str


SessionStep: TypeAlias = (
    SessionPrompt
    | SessionAnswer
    | SessionCallResult
    | SessionFailure
    | SessionStop
    | SessionRewind
    | SessionSummary
    | SessionGitState
    | SessionTitle
    | SessionForeignRecord
)


class SessionParent(Struct, frozen=True):
    """Of a sub-agent's session: the session and, where known, the call it worked for.

    `started_at` is empty where the file does not say when that session began.
    """

    name: str
    started_at: str
    call_id: str | None = None


class ImportedSession(Struct, frozen=True):
    """A session of another program, as its file tells it, in the order of the file.

    `source` is the program, `name` the session's id there, `version` the program's. `provider` is
    what the program's models are called after here. `record_count` counts what of the file belongs
    to it, so that one that has grown is known. `problems` says what was not as it should be.
    """

    source: str
    name: str
    version: str
    provider: str
    folder: str | None
    started_at: str
    steps: tuple[SessionStep, ...]
    record_count: int
    problems: tuple[str, ...] = ()
    parent: SessionParent | None = None
