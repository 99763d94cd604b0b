"""Asks a cheap model what a conversation is to be called."""

from __future__ import annotations

import re
from typing import Final

from treadle.runtime.ports import Provider
from treadle.runtime.side_requests import send_side_request
from treadle.thread.facts import Renamed
from treadle.thread.metadata import TITLE_LENGTH_MAX

SYSTEM_PROMPT: Final = """\
Give the conversation that begins with this prompt a title: three to seven words that say what it is
about, in the language of the prompt, without quotes and without a full stop. Do not answer the
prompt. Say the title and nothing else."""

PROMPT_LENGTH_MAX: Final = 4_000
"""Characters of the prompt that a title is made from."""

TITLE_TOKENS_MAX: Final = 512
"""A title needs twenty of them; a model that cannot help thinking needs the rest."""

SILENCE_S_MAX: Final = 10.0
"""Nobody waits longer for a title: there is the first line of the prompt."""


_THOUGHTS: Final = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
"""Some models think aloud whatever they are told."""


class Titler:
    """From a prompt to what is recorded of its title.

    Args:
        provider: who answers.
        model: which of its models.
    """

    def __init__(self, provider: Provider, model: str) -> None:
        self._provider = provider
        self._model = model

    async def __call__(self, prompt: str) -> Renamed | None:
        """The title; an empty one if the model said nothing of use, but used something.

        `None` if nothing came of it at all.
        """
        said, used = await send_side_request(
            self._provider,
            self._model,
            SYSTEM_PROMPT,
            prompt[:PROMPT_LENGTH_MAX],
            tokens_max=TITLE_TOKENS_MAX,
            silence_s_max=SILENCE_S_MAX,
        )
        lines = _THOUGHTS.sub("", said).strip().splitlines()
        line = "".join(filter(str.isprintable, lines[0])) if lines else ""
        title = line.strip().strip("\"'`*#“”„«»").strip().rstrip(".")[:TITLE_LENGTH_MAX]
        return Renamed(title, "model", used, self._model) if title or used is not None else None
