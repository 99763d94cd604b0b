"""The program that uses the application layer: its people, where its notices go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from treadle.answers import Answer, Verdict
from treadle.app.notices import Notify, ignore_notice
from treadle.core.approval import Question
from treadle.runtime.ports import Provider, Tools
from treadle.server_questions import AskPersonForServer


class PersonCallbacks(Struct, frozen=True):
    """Who is asked: about a call that a crash left uncertain, and for a yes to a call.

    `answer_server` is asked what servers of tools ask back; without it they are told that nobody is
    there.
    """

    ask: Callable[[Question], Awaitable[Answer]]
    approve: Callable[[Question], Awaitable[Verdict]]
    answer_server: AskPersonForServer | None = None


def _keep_tools(tools: Tools) -> Tools:
    return tools


def _keep_provider(provider: Provider) -> Provider:
    return provider


class Host(Struct, frozen=True):
    """The program that calls.

    `people` is `None` where nobody can be asked: calls that need a yes wait for one. An editor has
    files of its own, with which `wrap_tools` and `wrap_provider` surround calls and answers.
    """

    people: PersonCallbacks | None = None
    notify: Notify = ignore_notice
    wrap_tools: Callable[[Tools], Tools] = _keep_tools
    wrap_provider: Callable[[Provider], Provider] = _keep_provider
