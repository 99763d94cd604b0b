"""Does what a machine asks for. Each piece of work ends with the durable event that tells of it."""

from __future__ import annotations

import io
import random
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from treadle import outputs
from treadle.core.actions import Summarize
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
from treadle.core.machine import Machine
from treadle.core.messages import Attachment, ToolCall, describe_left_out
from treadle.core.repeated_calls import add_repeat_note, append_note
from treadle.core.task.machine import TaskMachine
from treadle.core.task.request import extract_confidences
from treadle.core.tools import (
    Access,
    CompletedToolInfo,
    EffectClass,
    Outcome,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.errors import StoreError
from treadle.runtime.attachment_contents import AttachmentContents
from treadle.runtime.background_calls import BackgroundCalls
from treadle.runtime.calls import (
    CallLimit,
    Delta,
    StoredOutput,
    call_model,
    find_call_limit,
    find_redaction_refusal,
    prepare_outcome,
    run_call,
    run_hook,
)
from treadle.runtime.fail_closed_redaction import make_fail_closed_streams
from treadle.runtime.options import DriverOptions
from treadle.runtime.ports import Provider, Tools
from treadle.runtime.recovery import find_effect
from treadle.runtime.refused_calls import end_refused_call, list_sightings, look_ahead
from treadle.runtime.server_answers import ServerAnswers
from treadle.runtime.stored_outputs import (
    describe_output_location,
    find_requested_output,
    read_stored_output,
)
from treadle.runtime.stream_redaction import AnswerStreamRedactor
from treadle.runtime.sub_agent_calls import SubAgentCalls
from treadle.runtime.thread_journal import ThreadJournal
from treadle.thread.facts import GitObserved
from treadle.thread.plan import append_forgotten_plan
from treadle.thread.undelivered_input import describe_end


class Performer:
    """Calls the model, the tools and the hook for a driver.

    Args:
        journal: the thread; its machine is told of what is not stored (deltas, progress).
        provider: who answers.
        tools: who runs calls.
        options: of the driver: the workspace, the redactor, who is told.
        sub_agents: who works on their calls.
        background: who looks after commands that go on when their call has its result.
        find_fault: why an answer does not have the form that was asked for; empty if it has.
    """

    def __init__(
        self,
        journal: ThreadJournal,
        provider: Provider,
        tools: Tools,
        options: DriverOptions,
        sub_agents: SubAgentCalls,
        background: BackgroundCalls,
        find_fault: Callable[[str], str] | None,
    ) -> None:
        self._journal = journal
        self.provider = provider
        self.tools = tools
        self.workspace = options.workspace
        streams = getattr(options.redactor, "stream", None)
        streams = make_fail_closed_streams(streams) if streams is not None else None
        self._stream_redactor = AnswerStreamRedactor(streams, journal.emit, options.live)
        self._hook_usage = options.hook_usage
        self._find_form_fault = find_fault
        self._sub_agents = sub_agents
        self._background = background
        self._partial_text = io.StringIO()
        self.server_answers: ServerAnswers  # ask the model by way of this, so they come later
        self._contents = AttachmentContents(
            journal.read_kept, lambda text: journal.emit(outputs.Notice(text))
        )

    @property
    def _config(self) -> AgentConfig:
        return self._journal.machine.config

    @property
    def _redact(self) -> Callable[[str], str]:
        return self._journal.redact or str

    def take_partial_text(self) -> str:
        """What the model had said of an answer that did not end; it is forgotten then."""
        text, self._partial_text = self._partial_text.getvalue(), io.StringIO()
        return text

    async def call_model(self, request: LlmRequest) -> DurableEvent:
        """Send a request; the answer, or why there is none."""
        self.take_partial_text()
        self._stream_redactor.begin(self._journal.fold.version)
        try:
            event = await self._send(request, self._on_delta)
        finally:
            self._stream_redactor.end()
        self.take_partial_text()
        at = self._journal.now()
        if isinstance(event, LlmEvent.Error):
            return replace(event, jitter=random.random(), at=at)  # noqa: S311  spreads retries only
        response = event.response
        if response.usage is None:
            response = replace(response, usage=estimate_request_usage(request, response.message))
        calls = _resolve_calls(self._journal.machine, response)
        risks = tuple(map(self.tools.risk_of, calls))
        scopes = tuple(one.scope for one in look_ahead(self._journal, self.tools, calls))
        return replace(
            event,
            response=response,
            at=at,
            risks=risks if any(risks) else (),
            fault=self._find_fault(response),
            scopes=scopes if any(scope is not None for scope in scopes) else (),
        )

    async def _send(
        self, request: LlmRequest, on_delta: Callable[[Delta], None]
    ) -> LlmEvent.Completed | LlmEvent.Error:
        """Send it with the bytes of what its messages show; without what its provider refuses."""
        limit_s = self._config.llm_timeout_s
        if not request.messages.has_attachments:
            return await call_model(self.provider, request, limit_s, on_delta)
        full = await self._contents.add_to(request, self.provider.traits(request.model))
        event = await call_model(self.provider, full, limit_s, on_delta)
        if isinstance(event, LlmEvent.Completed):
            self._contents.note_answer(full)
            return event
        if (less := self._contents.leave_out_new(full, event.error)) is None:
            return event
        again = await call_model(self.provider, less, limit_s, on_delta)
        if isinstance(again, LlmEvent.Completed):
            self._contents.note_answer(less, full, event.error.message)
            return again
        # One that is refused all the same was not refused for what it shows.
        return event if again.error.kind is event.error.kind else again

    def _find_fault(self, response: LlmResponse) -> str:
        if self._find_form_fault is None or response.tool_calls:
            return ""
        return self._find_form_fault(response.message.content)

    def _on_delta(self, event: Delta) -> None:
        self._journal.machine.handle_event(event)
        if isinstance(event, LlmEvent.TextDelta):
            self._partial_text.write(event.content)
            self._stream_redactor.add(outputs.TextDelta, event.content)
        elif isinstance(event, LlmEvent.ThinkingDelta) and event.content:
            self._stream_redactor.add(outputs.ThinkingDelta, event.content)

    async def summarize(self, action: Summarize) -> DurableEvent:
        """Have the model write a summary; what it used counts, whether it is of use or not."""
        event = await self._send(action.request, lambda _: None)
        at = self._journal.now()
        if isinstance(event, LlmEvent.Error):
            return CompactionFailed(event.error, at)
        response, text = event.response, event.response.message.content.strip()
        used = response.usage or estimate_request_usage(action.request, response.message)
        if not text:
            why = "the model wrote no summary"
            error = LlmError(LlmErrorKind.INVALID_RESPONSE, why, usage=used)
            return CompactionFailed(error, at)
        model = action.request.model
        text = append_forgotten_plan(self._journal.fold.conversation, action.through, text)
        return Compacted(action.through, text, at, used, model, action.words)

    async def send_beside(self, request: LlmRequest) -> LlmEvent.Completed | LlmEvent.Error:
        """Ask the model something beside the conversation."""
        return await self._send(request, lambda _: None)

    async def run_call(self, call: ToolCall, *, is_refused: bool = False) -> DurableEvent:
        """Run one call to its end.

        Args:
            call: what runs.
            is_refused: whether its tool refused it when it began, so that nobody was asked.
        """

        def on_progress(progress: ToolProgress) -> None:
            event = ToolProgressEvent(call.id, progress, self._journal.now())
            self._journal.machine.handle_event(event)
            if progress.message:
                progress = replace(progress, message=self._redact(progress.message))
            self._journal.emit(outputs.ToolProgressed(call.id, progress))

        ended = await end_refused_call(self._journal, self.tools, call) if is_refused else None
        delegated = None if ended else self._sub_agents.delegate(call, on_progress)
        if delegated is not None:
            outcome, used = await delegated
            outcome = await prepare_outcome(outcome, call.id, self._redact, self._store_output)
            return ToolCompleted(call.id, outcome, self._journal.now(), used)
        key = f"{self._journal.writer.thread_id}:{call.id}"
        usage: Usage | None = None
        status = next((one for its, one in self._journal.machine.round if its.id == call.id), None)
        is_outward = getattr(status, "access", UNSET) is Access.NETWORK
        reads = status is not None and find_effect(status, self._config) is EffectClass.READ
        refused = ended
        if refused is None and (is_outward or not reads):
            refused = find_redaction_refusal(call, self._redact if is_outward else str)
        wanted = None if refused else find_requested_output(self._config, call)
        if wanted is not None:
            said = self._journal.machine.conversation
            running = self._background.commands.find(wanted)
            live = None if running is None else (await running.read()).encode()
            outcome = await read_stored_output(self._journal.writer, said, call, wanted, live)
        elif refused is None:
            limit = CallLimit(find_call_limit(self._config, call))
            sightings, background = list_sightings(self._journal), self._background.commands
            with self.server_answers.serve(self.tools, call, limit) as used_beside:
                outcome = await run_call(
                    self.tools, call, key, limit, on_progress, sightings, background
                )
            usage = used_beside()
        else:
            outcome = refused
        outcome = await self._keep_shown(outcome)
        outcome = await prepare_outcome(outcome, call.id, self._redact, self._store_output)
        outcome = add_repeat_note(self._journal.machine.conversation, call, outcome)
        ends = self._background.take_ends()
        for end in ends:
            outcome = append_note(outcome, f"\n{describe_end(end)}")
        told = tuple(end.call_id for end in ends)
        return ToolCompleted(call.id, outcome, self._journal.now(), usage, ends=told)

    async def _keep_shown(self, outcome: Outcome) -> Outcome:
        """The outcome with the attachments whose bytes are kept now, before a record names them."""
        if not isinstance(outcome, ToolExecutionOutcome.Success) or not outcome.attachments:
            return outcome
        kept: list[Attachment] = []
        lost: list[Attachment] = []
        for one in outcome.attachments:
            try:
                data = outcome.contents.get(one.blob.sha256, b"")
                is_same = await self._journal.keep(data) == one.blob
            except StoreError as error:
                is_same = False
                self._journal.emit(outputs.Notice(f"{one.name} was not kept: {error.message}"))
            (kept if is_same else lost).append(one)
        if lost:
            line = describe_left_out(lost, "it could not be kept")
            outcome = replace(outcome, output=f"{outcome.output}\n{line}")
        return replace(outcome, attachments=tuple(kept))

    async def _store_output(self, call_id: str, data: bytes) -> StoredOutput | None:
        """Keep a long output whole, before anything is recorded that names it.

        Head and tail are in the message in any case, so that a full disk does not end the turn.
        """
        try:
            blob = await self._journal.keep(data)
        except StoreError as error:
            why = f"a long output was not kept whole: {error.message}"
            self._journal.emit(outputs.Notice(why))
            return None

        def describe(line: int | None) -> str:
            thread_id = self._journal.writer.thread_id
            where = describe_output_location(self._config, thread_id, call_id, line)
            return f"; the whole output is kept: {where}"

        return StoredOutput(blob, describe)

    async def run_hook(
        self,
        completed: tuple[CompletedToolInfo, ...],
        before: GitObserved | None,
        observe: Callable[[GitObserved | None], Awaitable[GitObserved | None]],
        *,
        is_whole: bool,
    ) -> DurableEvent:
        """Run the post-tools hook, then look at the folder again, unless the hook has."""
        assert self.workspace is not None  # the loop answers for a folder that is not there
        fold = self._journal.fold
        # A commit travels where the repository is pushed to, and no id of a private thread may.
        trailer = "" if fold.is_private else f"Treadle-Thread: {fold.header.thread}@{fold.version}"
        event, observed = await run_hook(
            self.workspace, completed, before, is_whole=is_whole, trailer=trailer
        )
        await observe(observed)
        usage, model = self._hook_usage()
        return replace(event, usage=usage, model=model, at=self._journal.now())


def _resolve_calls(machine: Machine[Any], response: LlmResponse) -> tuple[ToolCall, ...]:
    calls = response.tool_calls
    if isinstance(machine, TaskMachine):
        calls, _ = extract_confidences(calls, machine.memory, machine.config)
    return calls
