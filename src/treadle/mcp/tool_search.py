"""Tools of servers that a model looks for, where to list them all would fill its window.

Then two tools stand for all of them: one that finds tools by words and tells what each takes, and
one that calls one. What a call may do, and who is asked about it, is what holds for the tool that
it names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from treadle.core.approval import Scope
from treadle.core.messages import ToolCall
from treadle.core.sightings import Sightings
from treadle.core.tools import (
    Access,
    EffectClass,
    Outcome,
    RiskLevel,
    ToolDefinition,
    ToolError,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolProgress,
)
from treadle.mcp.tool_set import McpTools, parse_arguments
from treadle.server_questions import AnswerServer
from treadle.tool_failure import ToolFailure
from treadle.tools.background import BackgroundCommands
from treadle.tools.tool_return import make_success

SHARE_MAX: Final = 0.1
"""Of what a model reads: more than that is not spent on listing tools."""
WINDOW_UNKNOWN: Final = 200_000
"""Tokens that a model reads of which nobody knows how many it does."""
CHARACTERS_OF_TOKEN: Final = 4
FOUND_COUNT_MAX: Final = 8
"""Tools that are told of at once."""
NAMED_COUNT_MAX: Final = 300
"""Names that are told where nothing was found."""

SEARCH: Final = "search_tools"
CALL: Final = "call_tool"

_WORD: Final = re.compile(r"[a-z0-9]+")


class SearchedTools:
    """The runtime's `Tools` port, `StartedTools` too: those of another, and how they are found.

    Args:
        tools: a program's tools, and those of servers.
        window: how many tokens the model reads; 0 if that is not known.
    """

    def __init__(self, tools: McpTools, window: int) -> None:
        self._tools: Final = tools
        self._size_max: Final = (window or WINDOW_UNKNOWN) * CHARACTERS_OF_TOKEN * SHARE_MAX
        self._was_searched = False
        """Whether the thread was begun so: then it stays so, or its prefix would change."""
        names = ", ".join(one.server.name for one in tools.servers)
        self._own: Final = (
            ToolDefinition(
                SEARCH,
                f"Find tools of these servers, which are too many to be listed: {names}. Tells "
                f"what each takes; {CALL} calls it. Without words it names all.",
                _make_schema({"words": {"type": "string", "description": "What it should do."}}),
                EffectClass.READ,
                RiskLevel.LOW,
            ),
            ToolDefinition(
                CALL,
                f"Call a tool that {SEARCH} has found.",
                _make_schema(
                    {"name": {"type": "string"}, "arguments": {"type": "object"}},
                    required=["name", "arguments"],
                ),
                EffectClass.MUTATE,
                RiskLevel.LOW,
            ),
        )

    def recall(self, recorded: Sequence[ToolDefinition]) -> None:
        """See `StartedTools`."""
        self._was_searched = any(one.name == SEARCH for one in recorded)
        self._tools.recall(recorded)

    def answer_with(self, thread: str, answer: AnswerServer) -> None:
        """See `AskingTools`."""
        self._tools.answer_with(thread, answer)

    async def prepare(self) -> Sequence[str]:
        """See `StartedTools`."""
        return await self._tools.prepare()

    def definitions(self) -> Sequence[ToolDefinition]:
        """See `Tools`."""
        own, theirs = self._tools.list_parts()
        if self._was_searched or self._is_too_much(theirs):
            return (*own, *self._own)
        return (*own, *theirs)

    def risk_of(self, call: ToolCall) -> RiskLevel | None:
        """See `Tools`: that of the tool that is named."""
        named = self._find_named(call)
        if named is not None:
            return named.risk if named.risk > RiskLevel.LOW else None
        return None if self._is_own(call) else self._tools.risk_of(call)

    def scope_of(self, call: ToolCall) -> Scope | None:
        """See `Tools`; a yes for the thread is for the tool that is named."""
        named = self._find_named(call)
        if named is not None:
            access = Access.READ if named.effect is EffectClass.READ else Access.WRITE
            return Scope(kinds=(named.name,), access=access)
        return None if self._is_own(call) else self._tools.scope_of(call)

    def refusal_of(
        self, call: ToolCall, sightings: Sightings | None = None, *, explains: bool = False
    ) -> ToolExecutionOutcome.Error | None:
        """See `CheckedTools`."""
        if not self._is_own(call):
            return self._tools.refusal_of(call, sightings, explains=explains)
        try:
            self._read_call(call) if call.tool_name == CALL else _read_words(call)
        except ToolFailure as failure:
            return ToolExecutionOutcome.Error(call.id, ToolError(failure.kind, failure.message))
        return None

    async def execute(
        self,
        call: ToolCall,
        *,
        key: str,
        progress: Callable[[ToolProgress], None],
        sightings: Sightings | None = None,
        background: BackgroundCommands | None = None,
    ) -> Outcome:
        """See `Tools`."""
        if self._is_own(call):
            try:
                if call.tool_name == SEARCH:
                    return make_success(call, self._search(_read_words(call)))
                call = self._read_call(call)
            except ToolFailure as failure:
                return ToolExecutionOutcome.Error(call.id, ToolError(failure.kind, failure.message))
        return await self._tools.execute(
            call, key=key, progress=progress, sightings=sightings, background=background
        )

    def _is_own(self, call: ToolCall) -> bool:
        """Whether it is one of the two; a tool of the program that is called so is not."""
        own, _ = self._tools.list_parts()
        return call.tool_name in (SEARCH, CALL) and all(one.name != call.tool_name for one in own)

    def _is_too_much(self, theirs: Sequence[ToolDefinition]) -> bool:
        size = sum(
            len(one.name) + len(one.description) + len(json.dumps(one.input_schema))
            for one in theirs
        )
        return size > self._size_max

    def _find_named(self, call: ToolCall) -> ToolDefinition | None:
        """The tool that a call names; `None` if it names none, and will be refused."""
        if call.tool_name != CALL or not self._is_own(call):
            return None
        try:
            name = self._read_call(call).tool_name
        except ToolFailure:
            return None
        _, theirs = self._tools.list_parts()
        return next((one for one in theirs if one.name == name), None)

    def _read_call(self, call: ToolCall) -> ToolCall:
        """The call of the tool that is named.

        Raises:
            ToolFailure: there is none, or the arguments are none.
        """
        given = parse_arguments(call)
        name, arguments = given.get("name"), given.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise ToolFailure(
                ToolErrorKind.INVALID_ARGUMENTS,
                f'{CALL} takes {{"name": ..., "arguments": {{...}}}}',
            )
        _, theirs = self._tools.list_parts()
        if all(one.name != name for one in theirs):
            raise ToolFailure(ToolErrorKind.NOT_FOUND, f"{name}; {SEARCH} finds those there are")
        return ToolCall(call.id, name, json.dumps(arguments))

    def _search(self, words: str) -> str:
        """The tools that fit best, with what each takes; all names where none does."""
        _, theirs = self._tools.list_parts()
        wanted = set(_WORD.findall(words.lower()))
        ranked = [(_rate(one, wanted), one) for one in theirs]
        best = sorted((row for row in ranked if row[0]), key=lambda row: (-row[0], row[1].name))
        if not best:
            names = [one.name for one in theirs[:NAMED_COUNT_MAX]]
            more = ["..."] if len(theirs) > NAMED_COUNT_MAX else []
            said = "no tool has these words; there are: " if wanted else "there are: "
            return said + ", ".join([*names, *more]) if names else "the servers have no tools now"
        told = [
            f"{one.name}\n{one.description}\narguments: {json.dumps(one.input_schema)}"
            for _, one in best[:FOUND_COUNT_MAX]
        ]
        rest = [one.name for _, one in best[FOUND_COUNT_MAX:NAMED_COUNT_MAX]]
        return "\n\n".join([*told, *([f"also: {', '.join(rest)}"] if rest else [])])


def _rate(one: ToolDefinition, wanted: set[str]) -> int:
    """How well a tool fits: words in its name count more than those in its description."""
    name = set(_WORD.findall(one.name.lower()))
    described = set(_WORD.findall(one.description.lower()))
    return 3 * len(wanted & name) + len(wanted & described)


def _read_words(call: ToolCall) -> str:
    words = parse_arguments(call).get("words", "")
    if not isinstance(words, str):
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "`words` is no text")
    return words


def _make_schema(properties: dict[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required]}
