"""Does what a machine asks for. Each piece of work ends with the durable event that tells of it."""

from __future__ import annotations

import io
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from treadle import outputs
from treadle.core.actions import (
    AgentAction,
    DisplayError,
    DisplayMessage,
    RequestApproval,
    Shutdown,
    Summarize,
    WaitForInput,
)
from treadle.core.budget import estimate_request_usage
from treadle.core.config import AgentConfig
from treadle.core.events import (
    Compacted,
    CompactionFailed,
    DurableEvent,
    LlmEvent,
    ToolCompleted,
    ToolProgressEvent,
)
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, LlmResponse, Usage
from treadle.core.messages import ToolCall
from treadle.core.task.machine import TaskMachine
from treadle.core.task.request import extract_confidences
from treadle.core.tools import CompletedToolInfo, EffectClass, Outcome, ToolProgress
from treadle.errors import StoreError
from treadle.outputs import Output
from treadle.runtime.calls import (
    StoredOutput,
    call_model,
    find_redaction_refusal,
    prepare_outcome,
    run_call,
    run_hook,
)
from treadle.runtime.ports import LivePublisher, Provider, RedactedStream, Tools, Workspace, Writer
from treadle.runtime.stored_outputs import (
    describe_output_location,
    find_requested_output,
    read_stored_output,
)
from treadle.runtime.stream_redaction import AnswerStreamRedactor
from treadle.thread.facts import GitObserved

Delegate: TypeAlias = Callable[[ToolCall], Coroutine[Any, Any, tuple[Outcome, Usage | None]] | None]
"""(call) -> work that ends with its outcome and what it used of models."""

_PASSIVE_ACTIONS: Final = (WaitForInput, DisplayMessage, DisplayError, RequestApproval, Shutdown)


def is_work(action: AgentAction) -> bool:
    """Whether something is to be done for it that ends with an event."""
    return not isinstance(action, _PASSIVE_ACTIONS)


class Performer:
    """The hands of a driver.

    Args:
        writer: the thread; told only of what is not stored (deltas, progress).
        provider: who answers.
        tools: who runs calls.
        workspace: who knows the folder, if there is one.
        redact: replaces secrets, if somebody can.
        streams: makes what takes them out of a text that comes in pieces, if somebody can.
        hook_usage: what the post-tools hook has used since it was last asked, and of which model.
        fault_of: why an answer does not have the form that was asked for; empty if it has.
        delegate: works on the calls of sub-agents; `None` for every other call.
        emit: tells people.
        live: tells those who watch from another process what is being said, if anybody can.
    """

    def __init__(
        self,
        writer: Writer,
        provider: Provider,
        tools: Tools,
        *,
        workspace: Workspace | None,
        redact: Callable[[str], str] | None,
        streams: Callable[[], RedactedStream] | None = None,
        hook_usage: Callable[[], tuple[Usage | None, str]],
        fault_of: Callable[[str], str] | None,
        delegate: Delegate,
        emit: Callable[[Output], None],
        live: LivePublisher | None = None,
    ) -> None:
        self._writer = writer
        self.provider = provider
        self.tools = tools
        self.workspace = workspace
        self._redact = redact
        self._stream_redactor = AnswerStreamRedactor(streams, emit, live)
        self._hook_usage = hook_usage
        self._fault_of = fault_of
        self._delegate = delegate
        self._emit = emit
        self._partial_text = io.StringIO()

    @property
    def _config(self) -> AgentConfig:
        return self._writer.fold.machine.config

    def take_partial_text(self) -> str:
        """What the model had said of an answer that did not end; it is forgotten then."""
        text, self._partial_text = self._partial_text.getvalue(), io.StringIO()
        return text

    async def call_model(self, request: LlmRequest) -> DurableEvent:
        """Send a request; the answer, or why there is none."""
        self.take_partial_text()
        self._stream_redactor.begin(self._writer.fold.version)
        limit_s = self._config.llm_timeout_s
        try:
            event = await call_model(self.provider, request, limit_s, self._on_delta)
        finally:
            self._stream_redactor.end()
        self.take_partial_text()
        at = self._writer.now()
        if isinstance(event, LlmEvent.Error):
            return replace(event, jitter=random.random(), at=at)  # noqa: S311  spreads retries only
        response = event.response
        if response.usage is None:
            response = replace(response, usage=estimate_request_usage(request, response.message))
        calls = self._resolve_calls(response)
        risks = tuple(map(self.tools.risk_of, calls))
        scopes = tuple(map(self.tools.scope_of, calls))
        return replace(
            event,
            response=response,
            at=at,
            risks=risks if any(risks) else (),
            fault=self._find_fault(response),
            scopes=scopes if any(scope is not None for scope in scopes) else (),
        )

    def _resolve_calls(self, response: LlmResponse) -> tuple[ToolCall, ...]:
        calls, machine = response.tool_calls, self._writer.fold.machine
        if isinstance(machine, TaskMachine):
            calls, _ = extract_confidences(calls, machine.memory, machine.config)
        return calls

    def _find_fault(self, response: LlmResponse) -> str:
        if self._fault_of is None or response.tool_calls:
            return ""
        return self._fault_of(response.message.content)

    def _on_delta(
        self, event: LlmEvent.TextDelta | LlmEvent.ThinkingDelta | LlmEvent.ToolCallDelta
    ) -> None:
        self._writer.fold.machine.handle_event(event)
        if isinstance(event, LlmEvent.TextDelta):
            self._partial_text.write(event.content)
            self._stream_redactor.add(outputs.TextDelta, event.content)
        elif isinstance(event, LlmEvent.ThinkingDelta) and event.content:
            self._stream_redactor.add(outputs.ThinkingDelta, event.content)

    async def summarize(self, action: Summarize) -> DurableEvent:
        """Have the model write a summary; what it used counts, whether it is of use or not."""
        limit_s = self._config.llm_timeout_s
        event = await call_model(self.provider, action.request, limit_s, lambda _: None)
        at = self._writer.now()
        if isinstance(event, LlmEvent.Error):
            return CompactionFailed(event.error, at)
        response, text = event.response, event.response.message.content.strip()
        used = response.usage or estimate_request_usage(action.request, response.message)
        if not text:
            why = "the model wrote no summary"
            error = LlmError(LlmErrorKind.INVALID_RESPONSE, why, usage=used)
            return CompactionFailed(error, at)
        model = action.request.model
        return Compacted(action.through, text, at, used, model, action.words)

    async def run_call(self, call: ToolCall) -> DurableEvent:
        """Run one call to its end."""

        def on_progress(progress: ToolProgress) -> None:
            event = ToolProgressEvent(call.id, progress, self._writer.now())
            self._writer.fold.machine.handle_event(event)
            if self._redact is not None and progress.message:
                progress = replace(progress, message=self._redact(progress.message))
            self._emit(outputs.ToolProgressed(call.id, progress))

        delegated = self._delegate(call)
        if delegated is not None:
            outcome, usage = await delegated
            outcome = prepare_outcome(outcome, call.id, self._redact or str, self._store_output)
            return ToolCompleted(call.id, outcome, self._writer.now(), usage)
        key = f"{self._writer.thread_id}:{call.id}"
        limit_s = self._config.tool_timeout_s
        reads = self._config.effect_of(call.tool_name) is EffectClass.READ
        refused = None if reads else find_redaction_refusal(call)
        if (wanted := find_requested_output(self._config, call)) is not None:
            outcome = read_stored_output(self._writer, call, wanted)
        elif refused is None:
            outcome = await run_call(self.tools, call, key, limit_s, on_progress)
        else:
            outcome = refused
        outcome = prepare_outcome(outcome, call.id, self._redact or str, self._store_output)
        return ToolCompleted(call.id, outcome, self._writer.now())

    def _store_output(self, call_id: str, data: bytes) -> StoredOutput | None:
        """Keep a long output whole, before anything is recorded that names it.

        Head and tail are in the message in any case, so that a full disk does not end the turn.
        """
        try:
            blob = self._writer.keep(data)
        except StoreError as error:
            why = f"a long output was not kept whole: {error.message}"
            self._emit(outputs.Notice(why))
            return None
        where = describe_output_location(self._config, self._writer.thread_id, call_id)
        return StoredOutput(blob, f"; the whole output is kept: {where}")

    async def run_hook(
        self,
        completed: tuple[CompletedToolInfo, ...],
        before: GitObserved | None,
        observe: Callable[[], Awaitable[GitObserved | None]],
        *,
        is_whole: bool,
    ) -> DurableEvent:
        """Run the post-tools hook, then look at the folder again."""
        assert self.workspace is not None  # the loop answers for a folder that is not there
        fold = self._writer.fold
        # A commit travels where the repository is pushed to, and no id of a private thread may.
        trailer = "" if fold.is_private else f"Treadle-Thread: {fold.header.thread}@{fold.version}"
        event = await run_hook(
            self.workspace, completed, before, is_whole=is_whole, trailer=trailer
        )
        await observe()
        usage, model = self._hook_usage()
        return replace(event, usage=usage, model=model, at=self._writer.now())
