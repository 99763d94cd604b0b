"""Setting up a model provider on the command line: which one, its key, its model."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.app.model_setup import ModelSource
    from treadle.config.loader import LoadedSettings


def find_login_target(name: str | None) -> ModelSource | str:
    """What to log in to, which a person chooses if nothing is named.

    Args:
        name: a provider, or the address of a server.

    Returns:
        A source of models, or else the address of a server.

    Raises:
        UsageError: nothing is named and nobody is there, or it is neither.
        NotConfiguredError: the provider is to be a server on this machine, which is not there.
    """
    from treadle.app.model_setup import find_provider
    from treadle.cli.question_dialog import is_interactive
    from treadle.config.loader import load_settings
    from treadle.errors import UsageError

    if name is not None and (":" in name or "/" in name):
        return name
    loaded = load_settings(".", os.environ)
    if name is not None:
        is_host = name not in loaded.catalog.providers and ("." in name or name == "localhost")
        return name if is_host else _find_source(loaded, find_provider(loaded, name))
    if not is_interactive():
        raise UsageError(
            "nobody can be asked what to log in to",
            hint="name it: `treadle login PROVIDER --key-stdin`, or `treadle login URL`",
        )
    return _choose_target(loaded)


def _find_source(loaded: LoadedSettings, provider: str) -> ModelSource:
    """The provider that is named: its key is asked for, also if there is one already."""
    from treadle.app.model_setup import ModelSource, find_model_sources
    from treadle.errors import NotConfiguredError

    entry = loaded.catalog.providers[provider]
    if entry.needs_key:
        return ModelSource("ask", provider, entry.key_env)
    found = asyncio.run(find_model_sources(loaded, os.environ))
    server = next((one for one in found if one.provider == provider), None)
    if server is None:
        raise NotConfiguredError(
            f"nobody answers for {provider} at {entry.url(os.environ)}",
            hint="start it, and load a model",
        )
    return server


def _choose_target(loaded: LoadedSettings) -> ModelSource | str:
    from treadle.app.model_setup import find_model_sources

    found = asyncio.run(find_model_sources(loaded, os.environ))
    width = max(len(one.provider) for one in found)
    rows = [f"{one.provider:<{width}}  {_describe(one)}" for one in found]
    at = _choose("Who answers?", [*rows, "a Treadle server, to sync and share threads"])
    return found[at] if at < len(found) else str(click.prompt("Address of the server", err=True))


def _describe(source: ModelSource) -> str:
    if source.kind == "server":
        return f"{source.place}, {len(source.models)} models"
    return source.place if source.kind == "key" else "paste a key"


def log_in_to_provider(source: ModelSource, *, from_stdin: bool) -> dict[str, str]:
    """Have a provider answer in new threads; its name, its model, and where its key is.

    Raises:
        UsageError: the provider takes no key from here, or nobody is there to be asked.
        NotConfiguredError: what was given is no key, or the provider refuses it.
        DiskError: the disk refused.
    """
    from treadle.app.folders import user_folders
    from treadle.app.model_setup import use_provider
    from treadle.config.loader import load_settings

    model, place = "", source.place if source.kind == "key" else ""
    if source.kind == "ask":
        loaded = load_settings(".", os.environ)
        place = f"key from file {_take_key(loaded, source.provider, from_stdin=from_stdin)}"
    elif source.kind == "server":
        model = _choose_model(source)
    name = use_provider(user_folders(), source, model, folder=".", environ=os.environ)
    return {"provider": source.provider, "model": name, "key": place}


def _take_key(loaded: LoadedSettings, provider: str, *, from_stdin: bool) -> str:
    from treadle.app.folders import user_folders
    from treadle.app.model_setup import check_key, check_takes_key, keep_key
    from treadle.config.saved_keys import KEY_LENGTH_MAX
    from treadle.errors import NotConfiguredError

    check_takes_key(loaded, provider)
    if from_stdin:
        text, origin = sys.stdin.readline(KEY_LENGTH_MAX + 2), "standard input"
    else:
        text, origin = ask_for_secret(f"Key of {provider}", "--key-stdin"), "the terminal"
    checked = asyncio.run(check_key(loaded, provider, text))
    if checked.is_refused:
        raise NotConfiguredError(f"{checked.problem}; it was not kept", hint="copy it once more")
    path = keep_key(user_folders(), loaded, provider, text, origin)
    if checked.problem:
        from treadle.cli.renderers import make_printable

        click.echo(f"not tried: {make_printable(checked.problem)}", err=True)
    variable = loaded.catalog.providers[provider].key_env
    if variable and os.environ.get(variable, "").strip():
        click.echo(f"as long as {variable} is set, its key is used instead", err=True)
    return str(path)


def ask_for_secret(words: str, option: str) -> str:
    """A line that a person types unseen; it stands in no command line: others could see it there.

    Raises:
        UsageError: nobody is there; `option` is the way then.
    """
    from treadle.cli.question_dialog import is_interactive
    from treadle.errors import UsageError

    if not is_interactive():
        kind = words.partition(" ")[0].lower()
        raise UsageError(f"nobody can be asked for the {kind}", hint=f"add {option}")
    return str(click.prompt(words, hide_input=True, err=True))


def _choose_model(server: ModelSource) -> str:
    from treadle.cli.question_dialog import is_interactive
    from treadle.errors import UsageError

    if len(server.models) == 1:
        return server.models[0]
    if not is_interactive():
        raise UsageError(
            f"{server.provider} has several models: {', '.join(server.models)}",
            hint=f"`treadle config set models.default {server.provider}:MODEL` chooses one",
        )
    return server.models[_choose(f"Which model of {server.provider}?", server.models)]


def _choose(title: str, rows: Sequence[str]) -> int:
    """The place of the row that a person names by its number."""
    from treadle.cli.renderers import make_printable

    for at, row in enumerate(rows, 1):
        click.echo(make_printable(f"{at:>3}  {row}"), err=True)
    number = click.prompt(title, type=click.IntRange(1, len(rows)), err=True)
    return int(number) - 1
