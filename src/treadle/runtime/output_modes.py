"""How answers of a form are asked for: in words, and held to it by their provider where it can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec.structs import replace

from treadle.core.config import AgentConfig
from treadle.core.messages import Message
from treadle.errors import BuildError
from treadle.runtime.ports import Provider

OutputChoice: TypeAlias = Literal["auto", "native", "prompted"]
"""How they are to be asked for. See `AgentOptions`."""
OutputMode: TypeAlias = Literal["text", "prompted", "native"]
"""How an answer was asked for: as text, in a form told in words, in one that its provider held."""

_CHOICES: Final = get_args(OutputChoice)


def check_output_choice(choice: OutputChoice) -> OutputChoice:
    """The same; `BuildError` for what is no way to ask for an answer."""
    if choice not in _CHOICES:
        hint = ", ".join(f'"{one}"' for one in _CHOICES)
        raise BuildError(f"{choice!r} is no output mode", hint=hint)
    return choice


def hold_answers(
    settings: AgentConfig,
    schema: Mapping[str, Any] | None,
    choice: OutputChoice,
    provider: Provider,
    model: str,
) -> AgentConfig:
    """How requests are made so that the provider holds answers to their form, where it is to.

    Args:
        settings: how they are made else.
        schema: of the form; `None` if none is asked for.
        choice: `auto` holds them where the model is known to be held.
        provider: who answers.
        model: the model that is asked.
    """
    if schema is None or choice == "prompted":
        return settings
    if choice == "auto" and not provider.traits(model).native_output:
        return settings
    return replace(settings, native_schema=dict(schema))


def find_output_mode(messages: Sequence[Message]) -> OutputMode:
    """How the last answer of a form was asked for."""
    answers = (message for message in reversed(messages) if message.role == "assistant")
    return "native" if any(one.native_output for one in islice(answers, 1)) else "prompted"
