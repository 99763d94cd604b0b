"""The scripted model is a provider like any other."""

from __future__ import annotations

import asyncio

import pytest

from models.conformance import ProviderConformance
from treadle.models.scripted.provider import ScriptedModel

REPLIES = (
    {"when": {"user": "text"}, "text": "Grüße, 世界! " * 5},
    {"when": {"user": "empty"}, "text": ""},
    {"when": {"user": "call"}, "calls": [{"tool": "list_files"}]},
    {
        "when": {"user": "both"},
        "text": "I will look, and then run it.",
        "calls": [
            {"tool": "read_file", "arguments": {"path": "a/rather/long/path.py", "limit": 10}},
            {"tool": "bash", "arguments_text": '{"command": "ls'},
            {"tool": "bash", "arguments_text": "", "id": "mine"},
        ],
    },
    {"when": {"user": "piecemeal"}, "chunks": ["a", "bc", "def"], "chunk_size": 0},
    {
        "when": {"user": "refuse"},
        "text": "I was about to",
        "error": {"kind": "overloaded"},
        "times": 0,
    },
)
ASKED = ("text", "empty", "call", "both", "piecemeal", "refuse", "nothing that a reply fits")


class TestAScriptedModel(ProviderConformance):
    ASKED = ASKED

    @pytest.fixture
    def provider(self) -> ScriptedModel:
        return ScriptedModel.of(*REPLIES)


class TestAScriptedModelThatTakesItsTime(TestAScriptedModel):
    @pytest.fixture
    def provider(self) -> ScriptedModel:
        slow = [{**reply, "first_delay_s": 1, "delay_s": 1} for reply in REPLIES]
        return ScriptedModel.of(*slow, sleep=lambda _: asyncio.sleep(0))
