"""What vendors, gateways and clouds put around the name of a model, and how it is taken off. Pure.

`anthropic/claude-sonnet-4.5`, `us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `claude-sonnet-4-5`
and `claude-sonnet-4-5-latest` are one model, under the names of OpenRouter, Bedrock and its maker.
"""

from __future__ import annotations

import re
from typing import Final

_STEPS: Final = (
    (re.compile(r"^ft:([^:]+).*$"), r"\1"),  # OpenAI's `ft:gpt-4o-2024-08-06:acme::abc123`
    (re.compile(r"^.*/"), ""),  # `openai/`, `accounts/fireworks/models/`
    (re.compile(r"^(?:[a-z-]+\.){1,2}(?=[a-z])"), ""),  # Bedrock's `us.anthropic.`
    (re.compile(r"(?:-v\d+)?:\d+$"), ""),  # Bedrock's `-v1:0`
    (re.compile(r":[a-z]+$"), ""),  # OpenRouter's `:free`, Ollama's `:latest`
    (re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$"), ""),
    # Claude's version stood before its kind for a while, and does with some gateways still.
    (re.compile(r"^claude-([4-9])[.-](\d)-([a-z]+)"), r"claude-\3-\1-\2"),
    (re.compile(r"^claude-([4-9])-([a-z]+)"), r"claude-\2-\1"),
    (re.compile(r"^(claude-.*\d)\.(?=\d)"), r"\1-"),
)


def family_name(model: str) -> str:
    """A model's name as its maker has it, without date: what rows of the catalog begin with."""
    name = model.lower()
    for pattern, instead in _STEPS:
        name = pattern.sub(instead, name)
    return name
