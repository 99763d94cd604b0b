"""What is said for what a person typed: their words, and behind them what these stand for."""

from __future__ import annotations

import asyncio
from contextlib import closing

from treadle.app.sessions.prompt_files import expand_prompt, list_prompts
from treadle.app.sessions.prompt_mentions import read_mentions
from treadle.app.sessions.setup import Setup
from treadle.thread.safe_text import sanitize_text
from treadle.tools.paths import Root


async def prepare_prompt(setup: Setup, typed: str, piped: str = "") -> str:
    """The prompt, with the files that `/NAME` and `@FILE` stand for behind it.

    What could not be read is told through the `tell` of the setup's hooks.

    Args:
        setup: of the thread.
        typed: the person's own words.
        piped: what comes behind them from another program; an `@` means nothing there.

    Raises:
        UsageError: there is no such skill or command, or its arguments do not fit.
        AgentError: a hook of the person's is against it; nothing was said.
    """
    said = f"{typed}\n\n{piped}" if typed and piped else typed or piped
    if said.startswith("/"):
        said = expand_prompt(said, list_prompts(setup.workspace(), setup.store.places))
    if "@" in typed:
        said += await asyncio.to_thread(_read_mentions, setup, typed)
    return await setup.hooks.check_prompt(said)


def _read_mentions(setup: Setup, typed: str) -> str:
    """What stands behind a prompt of what it names; the person is told of the rest."""
    folder = setup.workspace()
    with closing(Root(folder, rules=setup.make_sandbox(folder).rules)) as root:
        mentions = read_mentions(typed, root)
    for remark in mentions.remarks:
        setup.hooks.tell(sanitize_text(setup.hooks.redact(remark)))
    return mentions.text
