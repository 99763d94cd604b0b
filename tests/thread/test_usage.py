"""What a thread used: every request once, in the sum the same as the fold says."""

from __future__ import annotations

import json
from decimal import Decimal

from treadle.core.config import AgentConfig
from treadle.core.events import LlmEvent, PostToolsHookCompleted, UserInput
from treadle.core.llm import LlmError, LlmErrorKind, LlmResponse, Usage
from treadle.core.messages import Message
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.facts import (
    FORMAT_VERSION,
    BranchRecord,
    Configured,
    Merged,
    Renamed,
    ThreadCreated,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.usage import UsageEntry, list_usage, sum_usage_by_turn

ENTRIES: list[Entry] = [
    ThreadCreated(FORMAT_VERSION, "T-1", "chat", "test"),
    Configured(AgentConfig("a:one")),
    UserInput(Message.user("go")),
    LlmEvent.Error(LlmError(LlmErrorKind.CUT_STREAM, usage=Usage(1, unpriced_tokens=1))),
    LlmEvent.Error(LlmError(LlmErrorKind.NETWORK)),
    LlmEvent.Completed(LlmResponse(Message.assistant("x"), Usage(10, 2, cost_usd=Decimal("0.5")))),
    PostToolsHookCompleted(True, "committed", Usage(3, 1), "a:small"),
    Configured(AgentConfig("a:two")),
    UserInput(Message.user("more")),
    LlmEvent.Completed(LlmResponse(Message.assistant("y"))),
    LlmEvent.Completed(LlmResponse(Message.assistant("z"), Usage(20, 4))),
]
RECORDS = [(seq, f"at {seq}", entry) for seq, entry in enumerate(ENTRIES, 1)]


def test_each_use_of_a_model_is_told_with_its_turn_its_model_and_its_purpose() -> None:
    assert list(list_usage(RECORDS)) == [
        UsageEntry(4, "at 4", 1, "failed request", "a:one", Usage(1, unpriced_tokens=1)),
        UsageEntry(6, "at 6", 1, "answer", "a:one", Usage(10, 2, cost_usd=Decimal("0.5"))),
        UsageEntry(7, "at 7", 1, "commit message", "a:small", Usage(3, 1)),
        UsageEntry(11, "at 11", 2, "answer", "a:two", Usage(20, 4)),
    ]


def test_the_turns_add_up_to_what_the_fold_says_of_the_thread() -> None:
    header = ENTRIES[0]
    assert isinstance(header, ThreadCreated)
    fold = ThreadFold(header)
    for record in RECORDS:
        fold.apply(*record)
    turns = sum_usage_by_turn(list_usage(RECORDS))
    assert set(turns) == {1, 2}
    assert turns[1] + turns[2] == fold.usage
    assert turns[2] == fold.turn_usage


def test_what_was_merged_is_told_once_and_is_of_no_turn() -> None:
    theirs: list[Entry] = [
        UserInput(Message.user("there")),
        LlmEvent.Completed(LlmResponse(Message.assistant("w"), Usage(7, 3))),
        Renamed("Weft", "model", Usage(2, 1), "a:small"),
    ]
    branch = tuple(
        BranchRecord(seq, "then", f"{seq:032x}", json.loads(encode_entry(entry)[1]))
        for seq, entry in enumerate(theirs, 9)
    )
    records = [*RECORDS, (12, "at 12", Merged(8, "0" * 32, branch, host="desktop"))]
    header = ENTRIES[0]
    assert isinstance(header, ThreadCreated)
    fold = ThreadFold(header)
    for record in records:
        fold.apply(*record)
    found = list(list_usage(records))
    assert found[-1] == UsageEntry(12, "at 12", 2, "merged", "", Usage(9, 4))
    assert sum((one.usage for one in found), Usage()) == fold.usage
    assert sum_usage_by_turn(found) == sum_usage_by_turn(list_usage(RECORDS))
