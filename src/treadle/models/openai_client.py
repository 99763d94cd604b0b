"""The official OpenAI SDK as a bare client: one key, one address, nothing from the environment.

Left alone, the SDK (3.54) takes the key, the address, the organisation, the project, an
administrator's key and any header from `OPENAI_*` variables, also for an endpoint that is not
OpenAI's, and refuses to send a request without a key, as a model on this machine wants it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treadle.core.llm import LlmError
from treadle.models.wire import make_client

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

NO_KEY: Final = "no-key"
"""What the SDK gets for a key where there is none; it is never sent."""

SECRET_LENGTH_MIN: Final = 8
"""A shorter key is a word (`ollama`), as servers without keys let one write; it hides nothing."""

REDACTED_KEY: Final = "[REDACTED:api_key]"

_MASKED: Final = re.compile(r"[\w-]*[*•]{3,}[\w-]*")
"""A key as endpoints echo it: `sk-pr*******9fQA`."""


def make_openai_client(key: str, base_url: str) -> AsyncOpenAI:
    """A client for one endpoint, without retries: the conversation machine decides on those.

    Args:
        key: sent as a bearer token; empty for an endpoint without keys.
        base_url: up to the version, `https://api.openai.com/v1`.
    """
    from openai import AsyncOpenAI  # a second that nobody else should wait for

    http_client = make_client()
    if not key:
        hooks = http_client.event_hooks
        http_client.event_hooks = {**hooks, "request": [*hooks["request"], _drop_key]}
    client = AsyncOpenAI(
        api_key=key or NO_KEY,
        base_url=base_url,
        max_retries=0,
        http_client=http_client,
    )
    client.organization = client.project = client.admin_api_key = client.webhook_secret = None
    client._custom_headers = {}  # those of OPENAI_CUSTOM_HEADERS; no argument turns them off
    return client


async def _drop_key(request: httpx2.Request) -> None:
    request.headers.pop("authorization", None)


def without_key(error: LlmError, key: str) -> LlmError:
    """The error without the key, which some endpoints repeat whole, in part or half masked."""
    text = _MASKED.sub(REDACTED_KEY, error.message)
    if len(key) >= SECRET_LENGTH_MIN:
        text = _without_parts(text, key)
    return LlmError(error.kind, text, error.retry_after_s, error.usage)


def _without_parts(text: str, key: str) -> str:
    """Replace every run of `SECRET_LENGTH_MIN` characters or more that stands in the key."""
    said: list[str] = []
    start = 0
    while start < len(text):
        end = start + SECRET_LENGTH_MIN
        if text[start:end] not in key or end > len(text):
            said.append(text[start])
            start += 1
            continue
        while end < len(text) and text[start : end + 1] in key:
            end += 1
        said.append(REDACTED_KEY)
        start = end
    return "".join(said)
