"""The title and the description of a proposal: by the thread's model, or plain ones of its commits.

What a model is shown and what it says go through redaction, and so does what a person makes of it:
it is read by whoever may see the forge.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from treadle.app.files.pull_requests import PullRequestPlan, plan_pull_request, read_diff
from treadle.app.notices import Notify, ignore_notice
from treadle.app.sessions.setup import Setup
from treadle.app.threads.thread_search import find_turns
from treadle.core.task.machine import TaskMachine
from treadle.errors import TreadleError, UsageError
from treadle.models.prices.usage_text import describe_usage
from treadle.runtime.defaults import make_user_redactor
from treadle.runtime.side_requests import send_side_request
from treadle.thread.safe_text import sanitize_text

SYSTEM_PROMPT: Final = """\
Write the title and the description of a pull request. You are told what people asked for, the
commits and the changes. First line: the title, imperative mood, under 72 characters. Then an empty
line, then Markdown: what changes for those who use it and why, in a few sentences or a short list,
and what a reviewer should look at. Say how it was tried only if you are told so. Invent nothing.
Answer with title and description and nothing else."""

TITLE_LENGTH_MAX: Final = 120
BODY_LENGTH_MAX: Final = 4_000
"""Characters: forges' programs hand it over in an address."""
TEXT_SIZE_MAX: Final = 8_000
"""Characters of prompts, and of commits, that the model is shown."""
TOKENS_MAX: Final = 2_048
SILENCE_S_MAX: Final = 60.0

_FENCE: Final = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)

Compose = Callable[[str], Awaitable[str]]
"""From what a model is told to what it says; empty if it does not answer."""


class PullRequestText(Struct, frozen=True):
    """A title of one line, and a description in Markdown that may be empty."""

    title: str
    body: str = ""

    @property
    def whole(self) -> str:
        """Both, as they are edited: the title, an empty line, the description."""
        return f"{self.title}\n\n{self.body}".rstrip()


def parse_text(whole: str) -> PullRequestText:
    """What a person or a model wrote: secrets replaced, and what no program can be given as well.

    Raises:
        UsageError: there is no title in it.
    """
    redacted = make_user_redactor().redact(sanitize_text(whole)).strip()
    fenced = _FENCE.match(redacted)
    title, _, body = (fenced[1] if fenced else redacted).strip().partition("\n")
    title = title.lstrip("# ").strip("*\"'` ")
    if not any(map(str.isalnum, title)):
        raise UsageError("the first line is the title, and it is empty")
    return PullRequestText(title[:TITLE_LENGTH_MAX], body.strip()[:BODY_LENGTH_MAX].rstrip())


def make_composer(setup: Setup, model: str | None, notify: Notify) -> Compose:
    """A model as an author.

    Args:
        setup: who opens it.
        model: its name; by default that of the settings.
        notify: told what it used, as no thread counts it: it may be open elsewhere.

    Raises:
        NotConfiguredError: there is none, or it has no key.
        UsageError: there is no such model, or its key cannot be had.
    """
    name = setup.models.resolve_name(model)
    provider = setup.models.open(name)

    async def compose(told: str) -> str:
        said, used = await send_side_request(
            provider,
            name,
            SYSTEM_PROMPT,
            told,
            tokens_max=TOKENS_MAX,
            silence_s_max=SILENCE_S_MAX,
        )
        if used is not None:
            notify(f"written by {name}: {describe_usage(used)}")
        return said

    return compose


async def write_text(
    plan: PullRequestPlan,
    prompts: Sequence[str],
    title: str,
    compose: Compose | None,
    notify: Notify = ignore_notice,
) -> PullRequestText:
    """Title and description of what was planned. Where no model helps they are plain.

    Args:
        plan: what is proposed.
        prompts: what people said in the thread.
        title: of the thread; may be empty.
        compose: the model; `None` for a plain text.
        notify: told if the model wrote nothing of use.
    """
    plain = make_plain_text(plan, title)
    if compose is None:
        return plain
    redact = make_user_redactor().redact
    asked = "\n".join(prompts)[-TEXT_SIZE_MAX:]
    commits = "\n\n".join(f"{one.subject}\n{one.body}".strip() for one in plan.commits)
    told = (
        f"<asked>\n{asked}\n</asked>\n<commits>\n{commits[:TEXT_SIZE_MAX]}\n</commits>\n"
        f"<diff>\n{await read_diff(plan)}\n</diff>"
    )
    try:
        return parse_text(await compose(redact(told)))
    except TreadleError:  # it did not answer, or with nothing that has a title
        notify("the model wrote no description: this one is made of the commits")
        return plain


def make_plain_text(plan: PullRequestPlan, title: str) -> PullRequestText:
    """What the commits say of themselves; the name of the branch, where that is no title."""
    if len(plan.commits) == 1:
        (only,) = plan.commits
        first, body = only.subject, only.body
    else:
        body = "\n".join(f"- {one.subject}" for one in plan.commits)
        first = title.strip().partition("\n")[0] or plan.commits[-1].subject
    if not any(map(str.isalnum, first)):
        first = plan.branch
    return parse_text(f"{first}\n\n{body}")


async def write_proposal(
    setup: Setup,
    thread_id: str | None,
    base: str = "",
    *,
    model: str | None = None,
    notify: Notify = ignore_notice,
) -> tuple[PullRequestPlan, PullRequestText]:
    """What a thread would propose, and the words for it. Nothing is changed or pushed.

    Args:
        setup: of the thread, or of a folder.
        thread_id: the thread; `None` if only the folder's commits are known.
        base: as `plan_pull_request`.
        model: who writes, if not the thread's.
        notify: see `Notify`.

    Raises:
        UsageError: there is nothing to propose, or the thread's folder is gone.
        StoreError: the thread cannot be read.
    """
    title, prompts = "", list[str]()
    if thread_id is not None:
        fold = (await asyncio.to_thread(setup.store.load, thread_id)).fold
        prompts = [
            one.prompt for one in await asyncio.to_thread(find_turns, setup.store, thread_id)
        ]
        title, machine = fold.title() or "", fold.machine
        recorded = machine.config.model_name
        if isinstance(machine, TaskMachine):
            recorded = machine.model_name
        model = model or recorded
    plan = await plan_pull_request(setup.workspace(), title=title, base=base)
    try:
        compose = make_composer(setup, model or None, notify)
    except TreadleError as error:
        notify(f"the description is made of the commits: {error.message}")
        compose = None
    return plan, await write_text(plan, prompts, title, compose, notify)
