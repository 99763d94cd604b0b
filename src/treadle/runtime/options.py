"""What a driver works with besides its thread, its model and its tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from treadle.answers import Answer, Verdict
from treadle.core.approval import Question
from treadle.core.config import AgentConfig
from treadle.core.llm import Usage
from treadle.errors import UsageError
from treadle.outputs import Output
from treadle.runtime.ports import (
    FileStateSaver,
    LivePublisher,
    TextRedactor,
    Workspace,
    have_start,
)
from treadle.runtime.subagents import SubAgent
from treadle.server_questions import AskPersonForServer
from treadle.thread.facts import ContextObserved


def _report_no_usage() -> tuple[Usage | None, str]:
    return None, ""


class DriverOptions(Struct, frozen=True):
    """All that can be left out.

    `workspace` knows the folder; without one nothing is observed and no hook runs. `files` keeps
    the files as they were before and after each round that may change them. `context` is where and
    how the agent works, recorded when it is news. `redactor` keeps known secrets out of records and
    requests.

    `ask` is asked about a call that a crash left uncertain; without it the model is told.
    `approve` is asked about a call that needs a yes; without it the call waits, on disk.
    `answer_server` is asked what a server of tools asks back; without it the server is told so.
    `on_output` gets every output as it happens. `live` tells watchers in other processes what is
    being said; it is closed with the driver.

    `hook_usage` says what the post-tools hook has used since it was last asked, and of which model.
    `sub_agents` are tools whose calls are worked on by agents of their own.
    """

    workspace: Workspace | None = None
    files: FileStateSaver | None = None
    context: ContextObserved | None = None
    redactor: TextRedactor | None = None
    ask: Callable[[Question], Awaitable[Answer]] | None = None
    approve: Callable[[Question], Awaitable[Verdict]] | None = None
    answer_server: AskPersonForServer | None = None
    on_output: Callable[[Output], None] | None = None
    live: LivePublisher | None = None
    hook_usage: Callable[[], tuple[Usage | None, str]] = _report_no_usage
    sub_agents: Sequence[SubAgent] = ()


def check_parts(writer: object, provider: object, tools: object) -> None:
    """Raise `UsageError` for what is no thread, no provider or no set of tools, and say what is."""
    rules = (
        (writer, "stage", "thread", "LocalStore.create(...) or LocalStore.open(...) gives one"),
        (provider, "stream", "provider", "AnthropicProvider(), ScriptedModel.of(...), ..."),
        (tools, "execute", "set of tools", "Registry([...]) makes one of functions with @tool"),
    )
    for part, method, noun, hint in rules:
        if not callable(getattr(part, method, None)):
            raise UsageError(f"{part!r} is no {noun}", hint=hint)


def recall_tools(tools: object, config: AgentConfig) -> None:
    """Tell tools that are started later what the thread has recorded of them."""
    if have_start(tools):
        tools.recall(config.tools)
