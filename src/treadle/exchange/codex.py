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
from treadle.exchange.blocks import shown
from treadle.exchange.lines import (
    Fields,
    Line,
    count_of,
    dump,
    fields_of,
    items_of,
    parse,
    problems_of,
    text_of,
    word,
)
from treadle.exchange.session_builder import Telling
from treadle.exchange.steps import (
    Answered,
    Call,
    Result,
    Said,
    Session,
    Stood,
    Stopped,
    Summed,
    WentBack,
)
from treadle.exchange.times import utc

SOURCE: Final = "codex"
PROVIDER: Final = "openai"

_WRAPPERS: Final = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
)
_INJECTED: Final = (
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

_FROM_IDE: Final = "# Context from my IDE setup:"
_REQUEST: Final = re.compile(r"^## My request for Codex:\s*", re.MULTILINE)
"""What the program's extension puts before a prompt, and what the prompt stands behind."""

_EXIT: Final = re.compile(r"(?:Exit code: |Process exited with code )(-?\d+)")
"""How a result says, in a line of its head, how the command ended."""

_HEAD_LENGTH_MAX: Final = 1_000

_COPIES: Final = frozenset(
    {
        *("user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content"),
        *("agent_reasoning_section_break", "task_started", "task_complete"),
    }
)
"""Events that say again what items say."""

_OUTPUTS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
)


def is_one(fields: Fields) -> bool:
    """Whether a record is one of this program's."""
    if word(fields.get("type")) in _WRAPPERS and "payload" in fields:
        return True
    return {"id", "timestamp", "instructions"} <= fields.keys() or "record_type" in fields


def convert(lines: Iterable[Line], stem: str, faults: Counter[str]) -> list[Session]:
    """The session of a file.

    Args:
        lines: the file.
        stem: the file's name without its end; it ends with the session's id.
        faults: what was wrong with the lines; more is counted here.
    """
    reader = _Reader()
    for line in lines:
        reader.take(line)
    telling = reader.telling
    telling.finish()
    name, provider = reader.name or stem, reader.provider or PROVIDER
    return [telling.session(SOURCE, name, provider, problems_of(faults))]


class _Reader:
    def __init__(self) -> None:
        self.telling = Telling()
        self.name = self.provider = ""
        self._model = ""
        self._answer_count = 0
        self._is_answering = False
        self._total: Any = None
        self._said: list[Said] = []

    def take(self, line: Line) -> None:
        fields = line.fields
        if fields is None:
            self.telling.keep("", line.text)
            return
        at = utc(fields.get("timestamp"))
        self.telling.begin_record(at)
        kind = word(fields.get("type"))
        if kind in _WRAPPERS and "payload" in fields:
            take = _TAKE[kind]
            take(self, at, fields_of(fields.get("payload")), line)
        elif not kind and "timestamp" in fields and "id" in fields:
            self.take_meta(at, fields, line)
        elif fields.get("record_type") != "state":
            self.take_item(at, fields, line)

    def take_meta(self, at: str, fields: Fields, line: Line) -> None:
        """Who it is. A session that goes on from another one has the other's too, after its own."""
        if self.name:
            self.telling.keep(at, line.text)
            return
        self.name = word(fields.get("id"))
        self.telling.folder = word(fields.get("cwd")) or None
        self.telling.version = word(fields.get("cli_version"))
        self.provider = word(fields.get("model_provider"))
        git = fields_of(fields.get("git"))
        names = ("branch", "commit_hash", "repository_url")
        branch, head, remote = (word(git.get(name)) or None for name in names)
        if branch or head or remote:
            self.telling.add(Stood(at, branch, head, remote))

    def take_context(self, _: str, fields: Fields, __: Line) -> None:
        self._model = word(fields.get("model")) or self._model
        self.telling.folder = self.telling.folder or word(fields.get("cwd")) or None

    def take_compaction(self, at: str, fields: Fields, line: Line) -> None:
        summary = word(fields.get("message"))
        if not summary:
            kept = items_of(fields.get("replacement_history"))
            summary = shown(fields_of(kept[-1]).get("content")) if kept else ""
        self._is_answering = False
        if summary:
            self.telling.add(Summed(at, summary))
        else:
            self.telling.keep(at, line.text)

    def take_event(self, at: str, fields: Fields, line: Line) -> None:
        kind = word(fields.get("type"))
        if kind == "turn_aborted":
            self._is_answering = False
            self.telling.add(Stopped(at))
        elif kind == "thread_rolled_back":
            self._go_back(at, count_of(fields.get("num_turns")))
        elif kind == "token_count":
            info = fields_of(fields.get("info"))
            total = info.get("total_token_usage")
            if info and total != self._total:
                self._total = total
                self.telling.spend(str(self._answer_count), usage_of(info.get("last_token_usage")))
        elif kind not in _COPIES:
            self.telling.keep(at, line.text)

    def take_item(self, at: str, item: Fields, line: Line) -> None:
        kind = word(item.get("type"))
        if kind == "message" and item.get("role") == "assistant":
            self._answer(at, shown(item.get("content")))
        elif kind == "message" and item.get("role") == "user":
            self._hear(at, item, line)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            self._answer(at, "", _call(item, kind))
        elif kind in _OUTPUTS:
            self._is_answering = False
            text, is_error = _output(item.get("output"))
            call_id = word(item.get("call_id")) or word(item.get("id"))
            self.telling.add(Result(at, call_id, text, is_error))
        else:
            self.telling.keep(at, line.text)

    def _answer(self, at: str, text: str, *calls: Call) -> None:
        """What comes without a result or a person between is one answer."""
        if not self._is_answering:
            self._answer_count += 1
            self._is_answering = True
        piece = Answered(at, text, calls, self._model)
        self.telling.answer(str(self._answer_count), piece)

    def _hear(self, at: str, item: Fields, line: Line) -> None:
        text = shown(item.get("content"))
        if text.lstrip().startswith(_INJECTED):
            self.telling.keep(at, line.text)
            return
        if text.lstrip().startswith(_FROM_IDE) and (request := _REQUEST.search(text)):
            self.telling.keep(at, line.text)
            text = text[request.end() :]
        if text.strip():
            self._is_answering = False
            said = Said(at, text)
            self._said.append(said)
            self.telling.add(said)

    def _go_back(self, at: str, turn_count: int) -> None:
        """The person took turns back: as many prompts, of those that still stood."""
        self._is_answering = False
        if not turn_count or not self._said:
            return
        first = self._said[-turn_count:][0]
        del self._said[-turn_count:]
        self.telling.add(WentBack(at, first))


def _call(item: Fields, kind: str) -> Call:
    call_id = word(item.get("call_id")) or word(item.get("id"))
    if kind == "local_shell_call":
        return Call(call_id, "local_shell", dump(fields_of(item.get("action"))))
    if kind == "custom_tool_call":
        return Call(call_id, word(item.get("name")), dump({"input": item.get("input")}))
    return Call(call_id, word(item.get("name")), text_of(item.get("arguments")))


def _output(output: Any) -> tuple[str, bool]:
    """The text of a result, and whether it failed: text, blocks, or JSON text with both in it."""
    if isinstance(output, str) and output.startswith('{"output":'):
        try:
            output = parse(output)
        except ValueError:
            return output, False
    if isinstance(output, dict) and ("output" in output or "content" in output):
        metadata = fields_of(output.get("metadata"))
        is_error = output.get("success") is False or count_of(metadata.get("exit_code")) > 0
        return shown(output.get("output", output.get("content"))), is_error
    text = shown(output)
    return text, _says_failed(text)


def _says_failed(text: str) -> bool:
    """Newer results are text whose first lines say how the command ended, before `Output:`."""
    for line in text[:_HEAD_LENGTH_MAX].split("\n"):
        if line.startswith("Output:"):
            break
        if found := _EXIT.fullmatch(line.strip()):
            return found[1] != "0"
    return False


def usage_of(value: Any) -> Usage:
    """What an answer used, as OpenAI counts: tokens of the cache are among the others."""
    fields = fields_of(value)
    read, out = count_of(fields.get("input_tokens")), count_of(fields.get("output_tokens"))
    return Usage(
        read,
        out,
        cache_read_tokens=count_of(fields.get("cached_input_tokens")),
        reasoning_tokens=count_of(fields.get("reasoning_output_tokens")),
        unpriced_tokens=read + out,
    )


_TAKE: Final[Mapping[str, Callable[[_Reader, str, Fields, Line], None]]] = {
    "session_meta": _Reader.take_meta,
    "turn_context": _Reader.take_context,
    "response_item": _Reader.take_item,
    "event_msg": _Reader.take_event,
    "compacted": _Reader.take_compaction,
}
