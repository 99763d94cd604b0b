"""Asks the model for a commit message. What it says is checked by whoever commits."""

from __future__ import annotations

from typing import Final

from treadle.core.llm import Usage
from treadle.runtime.ports import Provider
from treadle.runtime.side_requests import send_side_request

SYSTEM_PROMPT: Final = """\
Write the commit message for this diff in Conventional Commits form (feat, fix, refactor, docs,
style, test, chore). First line: imperative mood, under 72 characters, the primary change only.
Answer with the message and nothing else."""

MESSAGE_TOKENS_MAX: Final = 1024
"""A message needs a tenth of them; a model that cannot help thinking needs the rest."""

SILENCE_S_MAX: Final = 30.0
"""A commit waits this long for a nicer message, not longer: there is a plain one."""


class Composer:
    """From a diff to what the model says; an empty text if it does not answer.

    Args:
        provider: who answers.
        model: which of its models.
    """

    def __init__(self, provider: Provider, model: str) -> None:
        self._provider = provider
        self._model = model
        self._used: Usage | None = None

    async def __call__(self, diff: str) -> str:
        """Ask for the message of a diff."""
        said, usage = await send_side_request(
            self._provider,
            self._model,
            SYSTEM_PROMPT,
            f"<diff>\n{diff}\n</diff>",
            tokens_max=MESSAGE_TOKENS_MAX,
            silence_s_max=SILENCE_S_MAX,
        )
        if usage is not None:
            self._used = usage + (self._used or Usage())
        return said

    def take_usage(self) -> tuple[Usage | None, str]:
        """What was used since this was last asked (`None` if nothing), and of which model."""
        used, self._used = self._used, None
        return used, self._model if used is not None else ""
