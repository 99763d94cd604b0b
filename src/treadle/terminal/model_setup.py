"""Has the person choose who answers: from what is on this machine, or with a key that is pasted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from treadle import exit_codes
from treadle.errors import MissingModelError, NotConfiguredError
from treadle.terminal.pickers import filter_rows
from treadle.terminal.ports import ListRow, Terminal

if TYPE_CHECKING:
    from treadle.app.model_setup import ModelSource
    from treadle.errors import TreadleError

_NO_MODEL: Final = "No model is set up yet. Choose who answers; it holds from then on."
_TITLE: Final = "Who answers? (type to search; Esc: later)"
_NOTHING_FOUND: Final = (
    "nothing is called so. Choose first who answers (Ctrl+U shows all again); "
    "a prompt that you typed here comes back then"
)
_DEMO: Final = "demo"
_DEMO_TEXT: Final = "see it work first: 30 seconds, no key, no network"


class PausedQueue(Protocol):
    """What was typed and waits, see `turn_queue.TurnQueue`."""

    def pause(self) -> None: ...  # noqa: D102


class ModelSetupHost(Protocol):
    """What setting up a model asks of its chat, see `chat.Chat`."""

    terminal: Terminal
    code: int

    @property
    def turns(self) -> PausedQueue: ...  # noqa: D102

    @property
    def folder(self) -> str: ...  # noqa: D102

    def notify(self, text: str, style: str = "dim") -> None: ...  # noqa: D102

    def show_error(self, error: TreadleError) -> None: ...  # noqa: D102

    async def run_cli_command(  # noqa: D102
        self, *arguments: str, lets_go: bool = False
    ) -> int: ...


async def find_model(chat: ModelSetupHost, missing: MissingModelError) -> str | None:
    """A model in place of one that cannot answer; the exit code tells whether there is one.

    Raises:
        TreadleError: as `choose_provider`.
    """
    chat.notify(missing.message if missing.provider else _NO_MODEL, "warn")
    found = await choose_provider(chat, missing.provider)
    chat.code = exit_codes.DONE if found else exit_codes.NOT_CONFIGURED
    if not found:  # else a prompt that waits would ask again at once
        chat.turns.pause()
    return found


async def choose_provider(chat: ModelSetupHost, first: str = "") -> str | None:
    """Ask who answers until somebody does; the lasting name of the model, `None` for nobody.

    Args:
        chat: whose terminal asks.
        first: the provider that was asked for; its row is the first.

    Raises:
        TreadleError: the settings cannot be read or written.
    """
    listing = _SourceList(chat, first)
    while True:
        title = "Who answers?" if chat.terminal.is_plain else _TITLE
        picked = await chat.terminal.pick(title, listing.search)
        if picked is None:
            return None
        if picked == _DEMO:
            await chat.run_cli_command("demo")
            continue
        try:
            name = await _use(chat, listing.sources[int(picked)])
        except NotConfiguredError as error:  # what was pasted is no key
            chat.show_error(error)
            continue
        if name is not None:
            if " " in listing.prompt.strip():  # one word was a search
                chat.terminal.fill(listing.prompt)
            return name


class _SourceList:
    """The rows, which are looked for once, in the thread that searches."""

    def __init__(self, chat: ModelSetupHost, first: str) -> None:
        self._folder = chat.folder
        self._first = first
        self.sources: Sequence[ModelSource] = ()
        self.prompt = ""
        """What was typed last that no row has, and may have been meant for the model."""

    def search(self, text: str) -> Sequence[ListRow]:
        """The rows for what was typed."""
        from treadle.app.model_setup import find_model_sources
        from treadle.config.loader import load_settings

        if not self.sources:
            loaded = load_settings(self._folder, os.environ)
            found = asyncio.run(find_model_sources(loaded, os.environ))
            self.sources = sorted(found, key=lambda one: one.provider != self._first)
        rows = [
            ListRow(str(at), one.provider, _describe(one)) for at, one in enumerate(self.sources)
        ]
        ready = sum(one.kind != "ask" or one.provider == self._first for one in self.sources)
        rows.insert(ready, ListRow(_DEMO, _DEMO, _DEMO_TEXT))
        fitting = filter_rows(rows, text)
        if fitting:
            return fitting
        self.prompt = text
        return [ListRow("", _NOTHING_FOUND)]


def _describe(source: ModelSource) -> str:
    if source.kind == "server":
        count = len(source.models)
        return f"{source.place}, {count} model{'s' * (count != 1)}"
    return source.place if source.kind == "key" else "paste a key"


async def _use(chat: ModelSetupHost, source: ModelSource) -> str | None:
    """Have this one answer; `None` if the person has thought better of it, or its key is none."""
    from treadle.app.folders import user_folders
    from treadle.app.model_setup import use_provider

    model = ""
    if source.kind == "server":
        rows = [ListRow(one, one) for one in source.models]
        picked = await chat.terminal.pick(
            f"Which model of {source.provider}?", lambda text: filter_rows(rows, text)
        )
        if picked is None:
            return None
        model = picked
    elif source.kind == "ask" and not await _ask_for_key(chat, source.provider):
        return None
    return await asyncio.to_thread(
        use_provider,
        user_folders(),
        source,
        model,
        folder=chat.folder,
        environ=os.environ,
    )


async def _ask_for_key(chat: ModelSetupHost, provider: str) -> bool:
    """Whether there is a key now. It is never shown, and kept only if it is not refused."""
    from treadle.app.folders import user_folders
    from treadle.app.model_setup import check_key, check_takes_key, keep_key
    from treadle.config.loader import load_settings

    loaded = await asyncio.to_thread(load_settings, chat.folder, os.environ)
    check_takes_key(loaded, provider)
    label = f"Paste the key of {provider} (it is not shown; Esc goes back)"
    text = await chat.terminal.enter_secret(label)
    if not text:
        return False
    chat.notify(f"asking {provider} …")
    checked = await check_key(loaded, provider, text)
    if checked.is_refused:
        chat.notify(f"{checked.problem}; it was not kept", "warn")
        return False
    path = keep_key(user_folders(), loaded, provider, text, "the terminal")
    told = f" ({checked.problem})" if checked.problem else ""
    chat.notify(f"the key is kept in {path}, for you alone{told}", "warn" if told else "good")
    return True
