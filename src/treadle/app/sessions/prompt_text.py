"""What is said for what a person typed: their words, and behind them what these stand for."""

from __future__ import annotations

import asyncio
from contextlib import closing

from msgspec import Struct
from msgspec.structs import replace

from treadle.app.files.hidden_paths import make_hidden_check
from treadle.app.sessions.prompt_files import expand_prompt, list_prompts
from treadle.app.sessions.prompt_mentions import Mentions, read_mentions
from treadle.app.sessions.setup import Setup
from treadle.core.messages import Attachment, SeenFile
from treadle.store.blobs import Blobs
from treadle.thread.safe_text import sanitize_text
from treadle.thread.typed_words import EXPANSION_HEAD
from treadle.tools.paths import Root
from treadle.tools.tool_return import attach_file


class PreparedPrompt(Struct, frozen=True):
    """A prompt as it is said, and what is shown with it; the bytes of that are kept already.

    `seen` are the files that stand in it.
    """

    text: str
    attachments: tuple[Attachment, ...] = ()
    seen: tuple[SeenFile, ...] = ()


async def prepare_prompt(
    setup: Setup, typed: str, piped: str = "", *, has_drops: bool = False
) -> PreparedPrompt:
    """The prompt, with what `/NAME`, `/SERVER:PROMPT` and `@FILE` stand for behind it.

    What could not be read is told through the `tell` of the setup's hooks. Bytes are kept before
    this returns, so that a record can name them; if none does, `gc` removes them.

    Args:
        setup: of the thread.
        typed: the person's own words.
        piped: what comes behind them from another program; an `@` means nothing there.
        has_drops: whether a terminal types the paths of files that are dropped into it.

    Raises:
        UsageError: there is no such skill, command or prompt, or its arguments do not fit.
        AgentError: a hook of the person's is against it; nothing was said.
        DiskError: the bytes of a picture cannot be kept; nothing was said.
    """
    said = f"{typed}\n\n{piped}" if typed and piped else typed or piped
    called = await setup.servers.say_prompt(said)
    if called is not None:
        title, told = called
        said = f"{said}{EXPANSION_HEAD}prompt of the server of tools, {title}]\n{told.output}"
    elif said.startswith("/"):
        said = expand_prompt(said, list_prompts(setup.workspace(), setup.store.places))
    mentions = Mentions()
    if "@" in typed or (has_drops and "/" in typed):
        mentions = await asyncio.to_thread(_read_mentions, setup, typed, has_drops)
        said += mentions.text
    said = await setup.hooks.check_prompt(said)
    blobs = Blobs(setup.store.folders)
    shown = () if called is None else called[1].shown
    for data in (*(one.data for one in shown), *mentions.contents):
        await asyncio.to_thread(blobs.keep, data)
    seen = mentions.seen
    if setup.hooks.redact(mentions.text) != mentions.text:
        # Nothing is kept by which a short secret could be guessed.
        seen = tuple(replace(one, lines="") for one in seen)
    return PreparedPrompt(said, (*map(attach_file, shown), *mentions.shown), seen)


async def prepare_task_prompt(setup: Setup, typed: str, piped: str) -> PreparedPrompt:
    """`prepare_prompt` for whoever runs it in an event loop of its own, which ends then."""
    try:
        return await prepare_prompt(setup, typed, piped)
    finally:  # a connection is of the loop that has opened it
        await setup.servers.aclose()


def _read_mentions(setup: Setup, typed: str, has_drops: bool) -> Mentions:
    """What stands behind a prompt of what it names; the person is told of the rest."""
    folder = setup.workspace()
    hides = make_hidden_check("/", setup.store.places) if has_drops else None
    with closing(Root(folder, rules=setup.make_sandbox(folder).rules)) as root:
        mentions = read_mentions(typed, root, hides)
    for remark in mentions.remarks:
        setup.hooks.tell(sanitize_text(setup.hooks.redact(remark)))
    return mentions
