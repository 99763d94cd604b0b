"""Sessions of Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`.

A line is a record with `type`, `uuid`, `parentUuid`, `timestamp`, `sessionId`, `cwd`, `version`,
`gitBranch`. One answer of the model comes in several lines with one `message.id`, a line for each
block; results stand in lines of type `user`. Records of sub-agents (`isSidechain`) stand among the
others or in a file of their own, and become threads of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from treadle.core.llm import Usage
from treadle.exchange.blocks import shown, texts
from treadle.exchange.lines import (
    Fields,
    Line,
    count_of,
    dump,
    fields_of,
    parse,
    problems_of,
    word,
)
from treadle.exchange.steps import (
    Answered,
    Call,
    Failed,
    Parent,
    Result,
    Said,
    Session,
    Stopped,
    Summed,
    Titled,
)
from treadle.exchange.telling import Telling
from treadle.exchange.times import utc

SOURCE: Final = "claude-code"
PROVIDER: Final = "anthropic"

KINDS: Final = frozenset(
    {"user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation"}
)
"""The types of records by which a file is known."""

_SUB_AGENTS: Final = frozenset({"Task", "Agent"})
"""The tools that start one."""

_STOPPED: Final = "[Request interrupted by user"
_LOCAL: Final = "<local-command-"
_SYNTHETIC: Final = "<synthetic>"
"""The model of answers that the program wrote itself."""


def is_one(fields: Fields) -> bool:
    """Whether a record is one of this program's."""
    if fields.get("type") not in KINDS:
        return False
    return bool({"sessionId", "leafUuid", "parentUuid", "snapshot"} & fields.keys())


def convert(lines: Iterable[Line], stem: str, faults: Counter[str]) -> list[Session]:
    """The sessions of a file: its own, then those of its sub-agents.

    Args:
        lines: the file.
        stem: the file's name without its end, which is the session's id.
        faults: what was wrong with the lines; more is counted here.
    """
    reader = _Reader()
    for line in lines:
        reader.take(line, faults)
    return reader.sessions(stem, faults)


class _Reader:
    def __init__(self) -> None:
        self._main = Telling()
        self._aside: dict[str, Telling] = {}
        self._root_of: dict[str, str] = {}
        self._names: list[str] = []
        self._summaries: dict[str, str] = {}
        self._title: Titled | None = None

    def take(self, line: Line, faults: Counter[str]) -> None:
        fields = line.fields
        if fields is None:
            self._main.keep("", line.text)
            return
        uuid, at = word(fields.get("uuid")), utc(fields.get("timestamp"))
        if uuid and uuid in self._root_of:
            faults["repeated"] += 1
            return
        if uuid:
            self._root_of[uuid] = self._root_of.get(word(fields.get("parentUuid")), uuid)
        telling = self._telling_of(fields, uuid)
        telling.begin_record(at)
        telling.folder = telling.folder or word(fields.get("cwd")) or None
        telling.version = word(fields.get("version")) or telling.version
        name = word(fields.get("sessionId"))
        if name and name not in self._names:
            self._names.append(name)
        branch = word(fields.get("gitBranch"))
        if branch != "HEAD":
            telling.stand(at, branch)
        take = _TAKE.get(word(fields.get("type")))
        if take is None:
            telling.keep(at, line.text)
        else:
            take(self, telling, at, line)

    def _telling_of(self, fields: Fields, uuid: str) -> Telling:
        if fields.get("isSidechain") is not True:
            return self._main
        key = word(fields.get("agentId")) or self._root_of.get(uuid, "")
        return self._aside.setdefault(key, Telling())

    def take_user(self, telling: Telling, at: str, line: Line) -> None:
        fields = fields_of(line.fields)
        rest = []
        for block in texts(fields_of(fields.get("message")).get("content")):
            part = fields_of(block)
            if part.get("type") == "tool_result":
                is_error = part.get("is_error") is True
                call_id = word(part.get("tool_use_id"))
                telling.add(Result(at, call_id, shown(part.get("content")), is_error))
            else:
                rest.append(block)
        text = shown(rest)
        if not text:
            return
        if fields.get("isCompactSummary") is True:
            telling.add(Summed(at, text))
        elif fields.get("isMeta") is True or text.startswith(_LOCAL):
            telling.keep(at, line.text)
        elif text.startswith(_STOPPED):
            telling.add(Stopped(at))
        else:
            telling.add(Said(at, text))

    def take_assistant(self, telling: Telling, at: str, line: Line) -> None:
        fields = fields_of(line.fields)
        message = fields_of(fields.get("message"))
        if fields.get("isApiErrorMessage") is True:
            telling.add(Failed(at, shown(message.get("content"))))
            return
        if message.get("model") == _SYNTHETIC:
            telling.keep(at, line.text)
            return
        said: list[str] = []
        calls: list[Call] = []
        for block in texts(message.get("content")):
            part = fields_of(block)
            if part.get("type") == "text":
                said.append(word(part.get("text")))
            elif part.get("type") == "tool_use":
                arguments = dump(part.get("input", {}))
                calls.append(Call(word(part.get("id")), word(part.get("name")), arguments))
            else:
                telling.keep(at, dump(block))
        text = "\n\n".join(filter(None, said))
        model, usage = word(message.get("model")), usage_of(message.get("usage"))
        piece = Answered(at, text, tuple(calls), model, usage)
        telling.answer(word(message.get("id")), piece)

    def take_system(self, telling: Telling, at: str, line: Line) -> None:
        if fields_of(line.fields).get("subtype") != "compact_boundary":
            telling.keep(at, line.text)

    def take_summary(self, _: Telling, __: str, line: Line) -> None:
        """A title; the older program put those of other sessions into a file too."""
        fields = fields_of(line.fields)
        self._summaries[word(fields.get("leafUuid"))] = word(fields.get("summary"))

    def take_title(self, _: Telling, at: str, line: Line) -> None:
        fields = fields_of(line.fields)
        given = word(fields.get("customTitle"))
        title = given or word(fields.get("aiTitle"))
        if title and (given or self._title is None or not self._title.by_person):
            self._title = Titled(at, title, bool(given))

    def sessions(self, stem: str, faults: Counter[str]) -> list[Session]:
        name = stem if stem in self._names or not self._names else self._names[0]
        found = []
        for leaf, summary in self._summaries.items():
            if leaf in self._root_of and summary and self._title is None:
                self._title = Titled("", summary)
        if self._title is not None:
            self._main.add(self._title)
        problems = problems_of(faults)
        is_whole = any(map(_is_talk, self._main.steps))
        if is_whole or not self._aside:
            found.append(_session(self._main, name, problems))
            problems = ()
        calls = self._main.calls_of(_SUB_AGENTS)
        works_for = {word(_arguments(call).get("prompt")): call.id for call in calls}
        for key, telling in self._aside.items():
            prompt = next((step.text for step in telling.steps if isinstance(step, Said)), "")
            call = works_for.get(prompt) if prompt else None
            parent = Parent(name, self._main.started_at, call) if is_whole else None
            found.append(_session(telling, f"{name}/{key}", problems, parent))
            problems = ()
        return found


def _session(
    telling: Telling,
    name: str,
    problems: tuple[str, ...],
    parent: Parent | None = None,
) -> Session:
    return Session(
        SOURCE,
        name,
        telling.version,
        PROVIDER,
        telling.folder,
        telling.started_at,
        tuple(telling.steps),
        telling.record_count,
        problems,
        parent,
    )


def _is_talk(step: object) -> bool:
    return isinstance(step, Said | Answered)


def _arguments(call: Call) -> Fields:
    try:
        return fields_of(parse(call.arguments_json))
    except ValueError:
        return {}


def usage_of(value: Any) -> Usage | None:
    """What an answer used, as Anthropic counts: tokens of the cache stand beside the others."""
    fields = fields_of(value)
    if not fields:
        return None
    written = count_of(fields.get("cache_creation_input_tokens"))
    read = count_of(fields.get("cache_read_input_tokens"))
    fresh, out = count_of(fields.get("input_tokens")), count_of(fields.get("output_tokens"))
    total = fresh + written + read
    return Usage(
        total, out, cache_read_tokens=read, cache_write_tokens=written, unpriced_tokens=total + out
    )


_TAKE: Final[Mapping[str, Callable[[_Reader, Telling, str, Line], None]]] = {
    "user": _Reader.take_user,
    "assistant": _Reader.take_assistant,
    "system": _Reader.take_system,
    "summary": _Reader.take_summary,
    "custom-title": _Reader.take_title,
    "ai-title": _Reader.take_title,
}
"""What becomes of a record, by its type; one that is not here is kept as it is."""
