"""Sessions of Codex CLI: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl`.

A line is `{timestamp, type, payload}`. What was said stands twice: as `response_item`, in the words
of OpenAI's Responses API, which is read here, and as `event_msg`, for the screen. The older form
has the items alone, without the wrapper, after a first line with `id` and `timestamp`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from treadle.core.llm import Usage
from treadle.exchange.content_blocks import format_content, list_pictures
from treadle.exchange.json_lines import (
    Fields,
    JsonLine,
    as_count,
    as_list,
    as_object,
    as_string,
    dump_json,
    format_problems,
    parse_json,
    to_text,
)
from treadle.exchange.session_builder import SessionBuilder
from treadle.exchange.session_steps import (
    ImportedSession,
    SessionAnswer,
    SessionCall,
    SessionCallResult,
    SessionGitState,
    SessionPrompt,
    SessionRewind,
    SessionStop,
    SessionSummary,
)
from treadle.exchange.times import parse_timestamp

SOURCE: Final = "codex"
PROVIDER: Final = "openai"

_WRAPPERS: Final = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
)
_INJECTED_PREFIXES: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<permissions instructions>",
    "<turn_aborted>",
    "<skill>",
    "<user_shell_command>",
)
"""How texts begin that the program, not the person, put into the person's place."""

_IDE_PREFIX: Final = "# Context from my IDE setup:"
_REQUEST: Final = re.compile(r"^## My request for Codex:\s*", re.MULTILINE)
"""What the program's extension puts before a prompt, and what the prompt stands behind."""

_EXIT: Final = re.compile(r"(?:Exit code: |Process exited with code )(-?\d+)")
"""How a result says, in a line of its head, how the command ended."""

_HEAD_LENGTH_MAX: Final = 1_000

_DUPLICATE_EVENTS: Final = frozenset(
    {
        *("user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content"),
        *("agent_reasoning_section_break", "task_started", "task_complete"),
    }
)
"""Events that say again what items say."""

_OUTPUTS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
)


def is_session_data(fields: Fields) -> bool:
    """Whether a record is one of this program's."""
    if as_string(fields.get("type")) in _WRAPPERS and "payload" in fields:
        return True
    return {"id", "timestamp", "instructions"} <= fields.keys() or "record_type" in fields


def convert_lines(
    lines: Iterable[JsonLine], stem: str, faults: Counter[str]
) -> list[ImportedSession]:
    """The session of a file.

    Args:
        lines: the file.
        stem: the file's name without its end; it ends with the session's id.
        faults: what was wrong with the lines; more is counted here.
    """
    reader = _CodexReader()
    for line in lines:
        reader.add_line(line)
    telling = reader.telling
    telling.join_answers()
    name, provider = reader.name or stem, reader.provider or PROVIDER
    return [telling.build(SOURCE, name, provider, format_problems(faults))]


class _CodexReader:
    def __init__(self) -> None:
        self.telling = SessionBuilder()
        self.name = self.provider = ""
        self._model = ""
        self._answer_count = 0
        self._is_answering = False
        self._total: Any = None
        self._said: list[SessionPrompt] = []

    def add_line(self, line: JsonLine) -> None:
        fields = line.fields
        if fields is None:
            self.telling.add_foreign("", line.text)
            return
        at = parse_timestamp(fields.get("timestamp"))
        self.telling.begin_record(at)
        kind = as_string(fields.get("type"))
        if kind in _WRAPPERS and "payload" in fields:
            take = _HANDLERS[kind]
            take(self, at, as_object(fields.get("payload")), line)
        elif not kind and "timestamp" in fields and "id" in fields:
            self.add_metadata(at, fields, line)
        elif fields.get("record_type") != "state":
            self.add_item(at, fields, line)

    def add_metadata(self, at: str, fields: Fields, line: JsonLine) -> None:
        """Who it is. A session that goes on from another one has the other's too, after its own."""
        if self.name:
            self.telling.add_foreign(at, line.text)
            return
        self.name = as_string(fields.get("id"))
        self.telling.folder = as_string(fields.get("cwd")) or None
        self.telling.version = as_string(fields.get("cli_version"))
        self.provider = as_string(fields.get("model_provider"))
        git = as_object(fields.get("git"))
        names = ("branch", "commit_hash", "repository_url")
        branch, head, remote = (as_string(git.get(name)) or None for name in names)
        if branch or head or remote:
            self.telling.add_step(SessionGitState(at, branch, head, remote))

    def add_context(self, _: str, fields: Fields, __: JsonLine) -> None:
        self._model = as_string(fields.get("model")) or self._model
        self.telling.folder = self.telling.folder or as_string(fields.get("cwd")) or None

    def add_compaction(self, at: str, fields: Fields, line: JsonLine) -> None:
        summary = as_string(fields.get("message"))
        if not summary:
            kept = as_list(fields.get("replacement_history"))
            summary = format_content(as_object(kept[-1]).get("content")) if kept else ""
        self._is_answering = False
        if summary:
            self.telling.add_step(SessionSummary(at, summary))
        else:
            self.telling.add_foreign(at, line.text)

    def add_event(self, at: str, fields: Fields, line: JsonLine) -> None:
        kind = as_string(fields.get("type"))
        if kind == "turn_aborted":
            self._is_answering = False
            self.telling.add_step(SessionStop(at))
        elif kind == "thread_rolled_back":
            self._add_rewind(at, as_count(fields.get("num_turns")))
        elif kind == "token_count":
            info = as_object(fields.get("info"))
            total = info.get("total_token_usage")
            if info and total != self._total:
                self._total = total
                self.telling.add_usage(
                    str(self._answer_count), parse_usage(info.get("last_token_usage"))
                )
        elif kind not in _DUPLICATE_EVENTS:
            self.telling.add_foreign(at, line.text)

    def add_item(self, at: str, item: Fields, line: JsonLine) -> None:
        kind = as_string(item.get("type"))
        if kind == "message" and item.get("role") == "assistant":
            self._add_answer(at, format_content(item.get("content")))
        elif kind == "message" and item.get("role") == "user":
            self._add_prompt(at, item, line)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            self._add_answer(at, "", _make_call(item, kind))
        elif kind in _OUTPUTS:
            self._is_answering = False
            text, is_error = _parse_output(item.get("output"))
            call_id = as_string(item.get("call_id")) or as_string(item.get("id"))
            shown = _list_output_pictures(item.get("output"))
            self.telling.add_step(SessionCallResult(at, call_id, text, is_error, shown))
        else:
            self.telling.add_foreign(at, line.text)

    def _add_answer(self, at: str, text: str, *calls: SessionCall) -> None:
        """What comes without a result or a person between is one answer."""
        if not self._is_answering:
            self._answer_count += 1
            self._is_answering = True
        piece = SessionAnswer(at, text, calls, self._model)
        self.telling.add_answer(str(self._answer_count), piece)

    def _add_prompt(self, at: str, item: Fields, line: JsonLine) -> None:
        text = format_content(item.get("content"))
        if text.lstrip().startswith(_INJECTED_PREFIXES):
            self.telling.add_foreign(at, line.text)
            return
        if text.lstrip().startswith(_IDE_PREFIX) and (request := _REQUEST.search(text)):
            self.telling.add_foreign(at, line.text)
            text = text[request.end() :]
        if text.strip():
            self._is_answering = False
            said = SessionPrompt(at, text, list_pictures(item.get("content")))
            self._said.append(said)
            self.telling.add_step(said)

    def _add_rewind(self, at: str, turn_count: int) -> None:
        """The person took turns back: as many prompts, of those that still stood."""
        self._is_answering = False
        if not turn_count or not self._said:
            return
        first = self._said[-turn_count:][0]
        del self._said[-turn_count:]
        self.telling.add_step(SessionRewind(at, first))


def _make_call(item: Fields, kind: str) -> SessionCall:
    call_id = as_string(item.get("call_id")) or as_string(item.get("id"))
    if kind == "local_shell_call":
        return SessionCall(call_id, "local_shell", dump_json(as_object(item.get("action"))))
    if kind == "custom_tool_call":
        return SessionCall(
            call_id, as_string(item.get("name")), dump_json({"input": item.get("input")})
        )
    return SessionCall(call_id, as_string(item.get("name")), to_text(item.get("arguments")))


def _parse_output(output: Any) -> tuple[str, bool]:
    """The text of a result, and whether it failed: text, blocks, or JSON text with both in it."""
    if isinstance(output, str) and output.startswith('{"output":'):
        try:
            output = parse_json(output)
        except ValueError:
            return output, False
    if isinstance(output, dict) and ("output" in output or "content" in output):
        metadata = as_object(output.get("metadata"))
        is_error = output.get("success") is False or as_count(metadata.get("exit_code")) > 0
        return format_content(output.get("output", output.get("content"))), is_error
    text = format_content(output)
    return text, _has_failed(text)


def _list_output_pictures(output: Any) -> tuple[bytes, ...]:
    if isinstance(output, dict) and ("output" in output or "content" in output):
        output = output.get("output", output.get("content"))
    return list_pictures(output)


def _has_failed(text: str) -> bool:
    """Newer results are text whose first lines say how the command ended, before `Output:`."""
    for line in text[:_HEAD_LENGTH_MAX].split("\n"):
        if line.startswith("Output:"):
            break
        if found := _EXIT.fullmatch(line.strip()):
            return found[1] != "0"
    return False


def parse_usage(value: Any) -> Usage:
    """What an answer used, as OpenAI counts: tokens of the cache are among the others."""
    fields = as_object(value)
    read, out = as_count(fields.get("input_tokens")), as_count(fields.get("output_tokens"))
    return Usage(
        read,
        out,
        cache_read_tokens=as_count(fields.get("cached_input_tokens")),
        reasoning_tokens=as_count(fields.get("reasoning_output_tokens")),
        unpriced_tokens=read + out,
    )


_HANDLERS: Final[Mapping[str, Callable[[_CodexReader, str, Fields, JsonLine], None]]] = {
    "session_meta": _CodexReader.add_metadata,
    "turn_context": _CodexReader.add_context,
    "response_item": _CodexReader.add_item,
    "event_msg": _CodexReader.add_event,
    "compacted": _CodexReader.add_compaction,
}
