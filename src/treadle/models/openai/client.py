"""The official OpenAI SDK as a bare client: one key, one address, nothing from the environment.

Left alone, the SDK (3.54) takes the key, the address, the organisation, the project, an
administrator's key and any header from `OPENAI_*` variables, also for an endpoint that is not
OpenAI's, and refuses to send a request without a key, as a model on this machine wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.models.wire.provider import NO_EXTRAS, RequestExtras
from treadle.models.wire.stream import make_client

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NO_KEY: Final = "no-key"
"""What the SDK gets for a key where there is none; it is never sent."""


def make_openai_client(key: str, base_url: str, extras: RequestExtras = NO_EXTRAS) -> AsyncOpenAI:
    """A client for one endpoint, without retries: the conversation machine decides on those.

    Args:
        key: sent as a bearer token; empty for an endpoint without keys.
        base_url: up to the version, `https://api.openai.com/v1`.
        extras: what else goes with every request.
    """
    from openai import AsyncOpenAI  # two seconds that nobody else should wait for

    client = AsyncOpenAI(
        api_key=key or NO_KEY,
        base_url=base_url,
        max_retries=0,
        http_client=make_client(key, base_url),
        default_query=dict(extras.query),
    )
    client.organization = client.project = client.admin_api_key = client.webhook_secret = None
    # no argument takes those of OPENAI_CUSTOM_HEADERS out
    client._custom_headers = dict(extras.headers)
    return client
