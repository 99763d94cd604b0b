"""What all providers have in common: a name, a key, an address, an endpoint."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from hashlib import sha256
from types import MappingProxyType
from typing import ClassVar, Final, TypeGuard

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.budget import count_request_characters
from treadle.core.events import LlmEvent, ModelEvent
from treadle.core.llm import LlmError, LlmErrorKind, LlmRequest, ModelTraits
from treadle.models.failures import WireError, make_llm_error, redact_key, shorten_to_line
from treadle.models.layout import strip_provider
from treadle.models.model_lists import read_listed_traits
from treadle.models.native_output import (
    OPENAI_RULES,
    SchemaRules,
    fit_native_schema,
    mark_native_output,
)
from treadle.models.prompt_cache import CacheLifetime
from treadle.models.token_counts import get_token_count
from treadle.models.wire.endpoint import ModelEndpoint
from treadle.models.wire.stream import (
    ALIVE,
    Assembler,
    StreamedResponse,
    read_object,
    stream_events,
)

LIST_S_MAX: Final = 10.0
COUNT_S_MAX: Final = 30.0
"""Counts and lists are asked for on the way to something else; nobody waits longer for them."""

_KEY: Final = re.compile(r"[\x21-\x7e]+")


class RequestExtras(Struct, frozen=True):
    """What a person wants to go with every request of a provider, besides the request itself.

    `headers` and `query` are for what an endpoint wants to know (betas, versions), never for keys.
    `cache_lifetime` is how long Anthropic's models keep what they cache.
    """

    headers: Mapping[str, str] = MappingProxyType({})
    query: Mapping[str, str] = MappingProxyType({})
    cache_lifetime: CacheLifetime = "5m"


NO_EXTRAS: Final = RequestExtras()


class WireProvider(ABC):
    """A provider that is asked over HTTP; any number of streams may run at once, on any loop.

    Args:
        key: the API key; empty for an endpoint without keys. No other credential is used.
        name: what the provider is called in a model's name and in records.
        base_url: where the API is.
        traits: what is known of a model, by its name without the provider's; by default nothing.
        extras: what else goes with every request.
    """

    def __init__(
        self,
        key: str,
        *,
        name: str,
        base_url: str,
        traits: Callable[[str], ModelTraits] | None = None,
        extras: RequestExtras = NO_EXTRAS,
    ) -> None:
        self._key = key.strip()
        self._extras = extras
        self._name = name
        self._base_url = base_url
        self._traits = traits
        self._endpoints: dict[AbstractEventLoop, ModelEndpoint] = {}
        self._takes_schema_beside_tools = True
        self._refused_forms: set[bytes] = set()

    _models_path: ClassVar[str] = "/models"
    _fixed_headers: ClassVar[Mapping[str, str]] = MappingProxyType({})
    _schema_rules: ClassVar[SchemaRules] = OPENAI_RULES

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name} at {self._base_url}>"

    @property
    def name(self) -> str:
        """The provider's name, as recorded in the thread."""
        return self._name

    def stream(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream one response; failures are `Error` events, without the key in them."""
        fitted = self._fit_native_schema(request)
        held = fitted.native_schema is not None
        return self._stream_held(fitted) if held else self._stream_once(fitted)

    async def _stream_held(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream an answer that is held to a schema; one without, if the request is refused.

        Which schemas a model and an endpoint take is known to nobody before. What was refused for
        its schema is not asked for again, as long as the process lives.
        """
        refusal: LlmEvent.Error | None = None
        has_begun = False
        async with aclosing(self._stream_once(request)) as events:
            async for event in events:
                if not has_begun and _is_refusal(event):
                    refusal = event
                    break
                has_begun = has_begun or event != ALIVE
                yield mark_native_output(event)
        if refusal is None:
            return
        async with aclosing(self._stream_once(replace(request, native_schema=None))) as events:
            async for event in events:
                if isinstance(event, LlmEvent.Completed):
                    self._refused_forms.add(_make_form_key(request))
                # What is refused all the same was not refused for its schema.
                yield refusal if _is_refusal(event) else event

    async def _stream_once(self, request: LlmRequest) -> AsyncGenerator[ModelEvent, None]:
        assembler = self._make_assembler(request)
        events = stream_events(
            lambda: self._open_stream(request),
            assembler,
            self._name,
            count_request_characters(request),
        )
        async with aclosing(events):
            async for event in events:
                if isinstance(event, LlmEvent.Error):
                    event = LlmEvent.Error(self._redact_key(event.error))
                yield event

    def traits(self, model: str) -> ModelTraits:
        """What is known of a model; its name may begin with the provider's."""
        if self._traits is None:
            return ModelTraits()
        return self._traits(strip_provider(model, self._name))

    async def count_tokens(self, request: LlmRequest) -> int | None:
        """How many tokens the request would be, by the API's own count; `None` if it gives none."""
        try:
            answer = self._open_count(self._fit_native_schema(request))
            if answer is None:
                return None
            return get_token_count(await read_object(answer, COUNT_S_MAX), "input_tokens")
        except Exception:  # noqa: BLE001  whatever went wrong, there is no count
            return None

    async def list_models(self, within_s: float = LIST_S_MAX) -> tuple[str, ...] | LlmError:
        """The names of the models that this key can use, or why they cannot be had in time."""
        is_asked = False
        try:
            asked = self._get_endpoint().get(self._models_path, within_s)
            is_asked = True
            body = await read_object(asked, within_s)
            names = tuple(one["id"] for one in body["data"])
            if not all(isinstance(name, str) for name in names):
                raise WireError(LlmErrorKind.INVALID_RESPONSE, "the list of models makes no sense")
        except Exception as error:  # noqa: BLE001  the border: whatever it is becomes data
            return self._redact_key(make_llm_error(error, self._name, is_asked=is_asked))
        mark = f"[REDACTED:{self._name}_api_key]"
        return tuple(redact_key(shorten_to_line(name), self._key, mark) for name in names)

    async def fetch_traits(self, model: str, within_s: float) -> ModelTraits | None:
        """What the provider's own list says of a model; `None` if it cannot be had in time."""
        try:
            asked = self._get_endpoint().get(self._models_path, within_s)
            body = await read_object(asked, within_s)
        except Exception:  # noqa: BLE001  whatever went wrong, nothing is known from there
            return None
        return read_listed_traits(body.get("data"), strip_provider(model, self._name))

    async def aclose(self) -> None:
        """Free the connections of the running loop."""
        made = self._endpoints.pop(get_running_loop(), None)
        if made is not None:
            await made.aclose()

    def _fit_native_schema(self, request: LlmRequest) -> LlmRequest:
        """The request, which has a schema if the answer is to be held to it."""
        if request.native_schema is None:
            return request
        traits, beside_tools = self.traits(request.model), self._takes_schema_beside_tools
        fitted = fit_native_schema(request, traits, self._schema_rules, beside_tools=beside_tools)
        if fitted.native_schema is None or _make_form_key(fitted) not in self._refused_forms:
            return fitted
        return replace(fitted, native_schema=None)

    def _make_source(self, request: LlmRequest) -> str:
        """What blocks are marked with that only this model understands."""
        return f"{self._name}:{strip_provider(request.model, self._name)}"

    def _get_endpoint(self) -> ModelEndpoint:
        """Made when it is first needed on a loop: connections cannot be used on another one."""
        if self._key and not _KEY.fullmatch(self._key):
            text = "the key holds a character that no key has"
            raise WireError(LlmErrorKind.AUTHENTICATION, text)
        loop = get_running_loop()
        if loop not in self._endpoints:
            for one in [one for one in self._endpoints if one.is_closed()]:
                del self._endpoints[one]  # nobody can close its connections any more
            self._endpoints[loop] = self._make_endpoint()
        return self._endpoints[loop]

    def _redact_key(self, error: LlmError) -> LlmError:
        mark = f"[REDACTED:{self._name}_api_key]"
        return replace(error, message=redact_key(error.message, self._key, mark))

    def _make_endpoint(self) -> ModelEndpoint:
        headers = {**self._fixed_headers, **self._extras.headers}
        return ModelEndpoint(self._key, self._base_url, headers, self._extras.query)

    @abstractmethod
    def _open_stream(self, request: LlmRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send the request, to be streamed."""

    @abstractmethod
    def _make_assembler(self, request: LlmRequest) -> Assembler:
        """A fresh one for the answer."""

    def _open_count(
        self, request: LlmRequest
    ) -> AbstractAsyncContextManager[StreamedResponse] | None:
        """Ask how many tokens the request would be; `None` if the API has no such question."""
        return None


def _is_refusal(event: ModelEvent) -> TypeGuard[LlmEvent.Error]:
    """Whether the provider does not take the request as it is."""
    return isinstance(event, LlmEvent.Error) and event.error.kind is LlmErrorKind.BAD_REQUEST


def _make_form_key(request: LlmRequest) -> bytes:
    """What stands for a model that was to hold to a schema."""
    return sha256(msgspec.json.encode((request.model, request.native_schema))).digest()
