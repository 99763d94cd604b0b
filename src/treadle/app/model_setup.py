"""Setting up who answers: what there is on this machine, keys that a person gives, the choice.

A face shows `find_model_sources`, asks for a key where the source is one, and calls `use_provider`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from treadle.app.local_servers import find_local_servers
from treadle.app.sessions.providers import Models, make_provider
from treadle.app.setting_change import change_setting
from treadle.config.keys import make_key
from treadle.config.loader import LoadedSettings, load_settings
from treadle.config.saved_keys import SAVED_ORIGIN, list_saved_keys, remove_key, save_key
from treadle.core.llm import LlmError, LlmErrorKind
from treadle.errors import ConfigError, TreadleError, UsageError
from treadle.models.catalog import suggest_name
from treadle.store.paths import Places

OTHER_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "gemini": ("GOOGLE_API_KEY",),
    "huggingface": ("HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_API_KEY"),
    "moonshot": ("KIMI_API_KEY",),
    "zai": ("ZHIPUAI_API_KEY", "GLM_API_KEY"),
}
"""What else the variable of a provider's key is called by other programs."""

KEY_CHECK_S_MAX: Final = 10.0
"""A provider that does not answer within so long says nothing of a key."""


class ModelSource(Struct, frozen=True):
    """One way to have a model answer.

    `kind` is `server` (on this machine, without a key; `models` are its models), `key` (a key is
    there, `place` says where) or `ask` (a person has to give one). `variable` is one that the
    settings do not name yet, in which the key is.
    """

    kind: Literal["server", "key", "ask"]
    provider: str
    place: str
    models: tuple[str, ...] = ()
    variable: str = ""


class KeyCheck(Struct, frozen=True):
    """What a provider says of a key. If it does not refuse it, `problem` may say it was silent."""

    is_refused: bool
    problem: str = ""


async def find_model_sources(
    loaded: LoadedSettings, environ: Mapping[str, str]
) -> tuple[ModelSource, ...]:
    """Everything that could answer, what is ready first. Nothing is sent off this machine.

    Args:
        loaded: the settings that hold.
        environ: the environment, where keys may be.
    """
    servers = [
        ModelSource("server", one.provider, one.address, one.models)
        for one in await find_local_servers(loaded, environ)
    ]
    ready, asked = [], []
    for name, entry in loaded.catalog.providers.items():
        if not entry.needs_key or loaded.find_exclusion(name, environ) is not None:
            continue
        others = (one for one in OTHER_VARIABLES.get(name, ()) if environ.get(one, "").strip())
        if place := _find_key_place(loaded, name, environ):
            ready.append(ModelSource("key", name, place))
        elif variable := next(others, ""):
            place = f"key from environment {variable}"
            ready.append(ModelSource("key", name, place, variable=variable))
        elif entry.default_model:
            asked.append(ModelSource("ask", name, entry.key_env))
    return (*servers, *ready, *asked)


def _find_key_place(loaded: LoadedSettings, provider: str, environ: Mapping[str, str]) -> str:
    """Where the key of a provider is, in words; empty if there is none. No command is run."""
    entry = loaded.catalog.providers[provider]
    if entry.key_env and environ.get(entry.key_env, "").strip():
        return f"key from environment {entry.key_env}"
    if entry.key_command and not entry.key_file:
        return "key from a command of the settings"
    return f"key from file {entry.key_file}" if entry.key_file else ""


def find_provider(loaded: LoadedSettings, name: str) -> str:
    """The provider of this name.

    Raises:
        UsageError: there is none.
    """
    known = loaded.catalog.providers
    if name not in known:
        raise UsageError(
            f"there is no provider {name!r}{suggest_name(name, known)}",
            hint=f"known: {', '.join(known)}; or the address of a Treadle server",
        )
    return name


def check_takes_key(loaded: LoadedSettings, provider: str) -> None:
    """See that a key which is kept for a provider would be used.

    Raises:
        UsageError: it needs none, or the settings say that its key is elsewhere.
    """
    entry = loaded.catalog.providers[provider]
    if not entry.needs_key:
        raise UsageError(f"{provider} needs no key", hint=f"`treadle -m {provider}:MODEL`")
    for setting in ("key_file", "key_command"):
        origin = loaded.origins.get(f"providers.{provider}.{setting}", SAVED_ORIGIN)
        if origin != SAVED_ORIGIN:
            raise UsageError(
                f"the key of {provider} comes from the {setting} in {origin}",
                hint="put the key there, or take that line out",
            )


async def check_key(loaded: LoadedSettings, provider: str, text: str) -> KeyCheck:
    """Ask a provider for its models with a key, within `KEY_CHECK_S_MAX`.

    Raises:
        NotConfiguredError: the text is no key; it is not shown.
        UsageError: a variable holds no base URL.
    """
    key = make_key(text, "what was entered")
    entry = loaded.catalog.providers[provider]
    client = make_provider(provider, entry, key.value, loaded)
    try:
        async with asyncio.timeout(KEY_CHECK_S_MAX):
            answer = await client.list_models()
    except TimeoutError:
        return KeyCheck(is_refused=False, problem=f"{provider} does not answer")
    finally:
        await client.aclose()
    if not isinstance(answer, LlmError):
        return KeyCheck(is_refused=False)
    if answer.kind is LlmErrorKind.AUTHENTICATION:  # in whose words a part of the key may stand
        return KeyCheck(is_refused=True, problem=f"{provider} does not take this key")
    told = answer.text.removeprefix("LLM error: ").replace(key.value, "[REDACTED]")
    return KeyCheck(is_refused=False, problem=told)


def keep_key(places: Places, loaded: LoadedSettings, provider: str, text: str, origin: str) -> Path:
    """Keep a key in a file that nobody else can read; the file.

    Raises:
        UsageError: as `check_takes_key`.
        NotConfiguredError: the text is no key; it is not shown.
        DiskError: the disk refused.
    """
    check_takes_key(loaded, provider)
    return save_key(places, provider, text, origin)


def use_provider(
    places: Places,
    source: ModelSource,
    model: str,
    *,
    folder: str | Path,
    environ: Mapping[str, str],
) -> str:
    """Have a provider answer in new threads, from now on; the lasting name of the model.

    The setting `models.default` is changed if new threads would have another one, `key_env` if the
    key is in a variable that the settings do not name.

    Args:
        places: the folders of the user.
        source: one of `find_model_sources`; if it was one to `ask` for, its key is kept by now.
        model: one of its models; empty for its default.
        folder: where it is asked what holds.
        environ: the environment.

    Raises:
        NotConfiguredError: the provider has no default model, and none was named.
        ConfigError: the user's file is not valid.
        DiskError: the disk refused.
    """
    provider = source.provider
    if source.variable:
        key = f"providers.{provider}.key_env"
        change_setting(places, key, source.variable, folder=folder, environ=environ)
    loaded = load_settings(folder, environ)
    name = loaded.catalog.resolve(f"{provider}:{model}").name
    try:
        present = Models(loaded).resolve_name(None)
    except ConfigError:
        raise
    except TreadleError:
        present = ""
    if present != name:
        wanted = name if model else provider
        change_setting(places, "models.default", wanted, folder=folder, environ=environ)
    return name


def forget_key(places: Places, provider: str) -> bool:
    """Remove the key that is kept for a provider; whether there was one.

    Raises:
        UsageError: it is no name of a provider.
        DiskError: the disk refused.
    """
    return remove_key(places, provider)


def list_kept_keys(places: Places) -> tuple[str, ...]:
    """The providers for which a key is kept."""
    return tuple(list_saved_keys(places))
