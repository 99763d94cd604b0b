"""Slash commands about how the agent works: its model, and what it may do unasked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from treadle.app.sessions.limits import MODES
from treadle.terminal.notices import two_column_table
from treadle.terminal.pickers import filter_rows
from treadle.terminal.ports import ListRow, SlashCommand

if TYPE_CHECKING:
    from treadle.app.sessions.model_choices import ModelChoice
    from treadle.app.sessions.setup import Setup
    from treadle.core.approval import Grant
    from treadle.terminal.chat import Chat

_KEY_OF: Final = "key of "
"""Before the name of a provider, in the value of its row."""

_MODE_TEXTS = {
    "plan": "reads only",
    "ask": "asks before it changes a file or runs a command",
    "auto-edit": "asks before it runs a command",
    "auto": "asks nothing",
}


def agent_setting_commands(chat: Chat) -> tuple[SlashCommand, ...]:
    """The commands of this group."""
    return (
        SlashCommand(
            "model",
            "have another model answer",
            partial(_model, chat),
            "[NAME]",
            waits_for_turn=False,
        ),
        SlashCommand(
            "login",
            "set up who answers: a server of this machine, or a key",
            partial(_login, chat),
            "[PROVIDER]",
            waits_for_turn=False,
        ),
        SlashCommand(
            "mode",
            "what the agent may do unasked (Shift+Tab)",
            partial(_mode, chat),
            "[MODE]",
            waits_for_turn=False,
        ),
        SlashCommand(
            "permissions",
            "what was allowed in this thread; take it back",
            partial(_permissions, chat),
            waits_for_turn=False,
        ),
    )


async def _model(chat: Chat, name: str) -> None:
    if not name:
        setup = chat.sessions.setup
        if setup is None:
            chat.notify("the models are not known yet", "warn")
            return
        picked = await _pick_model(chat, setup)
        if picked is None:
            return
        name = picked
    await chat.sessions.choose(model=name)
    chat.refresh_status()
    chat.notify(f"{chat.sessions.model} answers from now on")


async def _login(chat: Chat, provider: str) -> None:
    from treadle.terminal.model_setup import choose_provider

    if (name := await choose_provider(chat, provider)) is not None:
        await _model(chat, name)


async def _pick_model(chat: Chat, setup: Setup) -> str | None:
    """The list is there at once, and takes the keys, while the providers are asked."""
    from treadle.app.sessions.model_choices import list_model_choices

    loop = asyncio.get_running_loop()
    asking = asyncio.ensure_future(
        list_model_choices(setup.loaded, chat.sessions.model, setup.store.places.cache)
    )

    async def rows() -> Sequence[ListRow]:
        return [_model_row(one) for one in await asking]

    def search(text: str) -> Sequence[ListRow]:
        return filter_rows(asyncio.run_coroutine_threadsafe(rows(), loop).result(), text)

    try:
        picked = await chat.terminal.pick("Which model answers?", search)
    finally:
        asking.cancel()
    if picked is None or not picked.startswith(_KEY_OF):
        return picked
    from treadle.terminal.model_setup import choose_provider

    return await choose_provider(chat, picked.removeprefix(_KEY_OF))


def _model_row(choice: ModelChoice) -> ListRow:
    if choice.kind == "key":
        provider = choice.name.removesuffix(":")
        note = f"no key: Enter sets it up ({choice.note})"
        return ListRow(_KEY_OF + provider, provider, note, cells=("",))
    note = "answers now" if choice.is_current else "no key" if choice.lacks_key else ""
    return ListRow(choice.name, choice.name, choice.note, cells=(note,))


async def _mode(chat: Chat, mode: str) -> None:
    if not mode:
        rows = [ListRow(one, one, _MODE_TEXTS[one]) for one in MODES]
        picked = await chat.terminal.pick("Approval mode", lambda text: filter_rows(rows, text))
        if picked is None:
            return
        mode = picked
    if mode not in MODES:
        chat.notify(f"{mode} is no approval mode; there are {', '.join(MODES)}", "warn")
    elif await chat.modes.choose(mode):
        chat.notify(f"approval mode {mode}: {_MODE_TEXTS[mode]}")


async def _permissions(chat: Chat, _: str) -> None:
    sessions = chat.sessions
    grants = () if sessions.session is None else sessions.session.driver.grants
    rows = [
        ("approval mode", f"{sessions.mode}: {_MODE_TEXTS.get(sessions.mode, 'as recorded')}"),
        ("sandbox", sessions.sandbox),
        ("always allowed", "" if grants else "nothing, in this thread"),
    ]
    chat.terminal.commit(two_column_table(rows))
    if not grants:
        return
    lines = [
        ListRow(str(place), _describe_grant(one), "Enter takes it back")
        for place, one in enumerate(grants)
    ]
    picked = await chat.terminal.pick(
        "Always allowed in this thread (Esc leaves it so)",
        lambda text: filter_rows(lines, text),
    )
    if picked is None or sessions.session is None:
        return
    grant = grants[int(picked)]
    sessions.session.driver.revoke(grant)
    chat.notify(f"no longer allowed unasked: {_describe_grant(grant)}")


def _describe_grant(grant: Grant) -> str:
    """A grant in words."""
    what = f"{grant.tool_name}: {grant.kind}" if grant.kind else f"{grant.tool_name}, all calls"
    return f"{what}, up to {grant.risk.name.lower()} risk"
