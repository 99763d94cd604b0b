"""One short question to a model, beside the conversation: a commit message, a title."""

from __future__ import annotations

from treadle.core.conversation import Conversation
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmRequest, Usage
from treadle.core.messages import Message
from treadle.runtime.calls import call_model
from treadle.runtime.ports import Provider


async def send_side_request(
    provider: Provider,
    model: str,
    system: str,
    text: str,
    *,
    tokens_max: int,
    silence_s_max: float,
) -> tuple[str, Usage | None]:
    """What the model says, empty if it does not answer; and what that used, if anything.

    Args:
        provider: who answers.
        model: which of its models.
        system: what it is to do.
        text: with what.
        tokens_max: bounds the answer, and the thinking of a model that cannot help it.
        silence_s_max: seconds that it may stay silent.
    """
    request = LlmRequest(
        model=model,
        messages=Conversation([Message.user(text)]),
        system=system,
        max_tokens=tokens_max,
        reasoning="off",
    )
    event = await call_model(provider, request, silence_s_max, lambda _: None)
    if isinstance(event, LlmEvent.Completed):
        return event.response.message.content, event.response.usage
    return "", event.error.usage
