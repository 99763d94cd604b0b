"""Asks the model for a commit message. What it says is checked by whoever commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest
from treadle.core.messages import Message
from treadle.runtime.calls import call_model
from treadle.runtime.ports import Provider

SYSTEM_PROMPT: Final = """\
Write the commit message for this diff in Conventional Commits form (feat, fix, refactor, docs,
style, test, chore). First line: imperative mood, under 72 characters, the primary change only.
Answer with the message and nothing else."""

MESSAGE_TOKENS_MAX: Final = 256
SILENCE_S_MAX: Final = 30.0
"""A commit waits this long for a nicer message, not longer: there is a plain one."""


def make_composer(provider: Provider, config: AgentConfig) -> Callable[[str], Awaitable[str]]:
    """A function from a diff to what the model says; an empty text if it does not answer."""

    async def compose(diff: str) -> str:
        request = LlmRequest(
            model=config.model_name,
            messages=Conversation([Message.user(f"<diff>\n{diff}\n</diff>")]),
            system=SYSTEM_PROMPT,
            max_tokens=MESSAGE_TOKENS_MAX,
        )
        event = await call_model(provider, request, SILENCE_S_MAX, lambda _: None)
        return event.response.message.content if isinstance(event, LlmEvent.Completed) else ""

    return compose
