"""A user with a repository whose models answer on the loopback, in this very process."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from models.loopback import Answer, Loopback, Seen, stream
from models.speakers import SPEAK

KEY: Final = "sk-test-key-0123456789abcdef"


class Speaker(Struct, frozen=True):
    """A model as a run may have it: its wire format, the shape its tools have for it, its name."""

    wire_format: str
    family: str
    model: str

    @property
    def name(self) -> str:
        return f"{self.wire_format}, {self.family} tools"

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]


PATHS: Final = {
    "anthropic-messages": "/messages",
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
}
"""How the address ends at which each format is asked."""
SPEAKERS: Final = (
    Speaker("anthropic-messages", "own", "anthropic:claude-sonnet-5-5"),
    Speaker("openai-chat", "own", "mistral:mistral-medium-3-5"),
    Speaker("openai-responses", "openai", "openai:gpt-6.1-sol"),
    Speaker("openai-chat", "gemini", "gemini:gemini-3.8-flash"),
)


def answer_in_its_format(seen: Seen, *what: Any) -> Answer:
    """What `SPEAK` makes of an answer, for the speaker who was asked."""
    [form] = {one.wire_format for one in SPEAKERS if seen.path.endswith(PATHS[one.wire_format])}
    return stream(SPEAK[form](*what))


@contextmanager
def user_at_repository(top: Path, server: Loopback) -> Iterator[Path]:
    """The folder of a repository with one commit and one change; the environment is a fresh user's.

    Args:
        top: an empty folder for all of it.
        server: where the providers of all speakers are; the user has a key for each.
    """
    home, folder, git = top / "user", top / "loom", top / "gitconfig"
    settings = top / "treadle/config/config.toml"
    for place in (home, folder, settings.parent):
        place.mkdir(parents=True)
    for one in SPEAKERS:
        url = f"{server.url}{'' if one.wire_format == 'anthropic-messages' else '/v1'}"
        with settings.open("a") as file:
            file.write(f'[providers.{one.provider}]\nbase_url = "{url}"\n')
    git.write_text("[user]\n\tname = Ada\n\temail = ada@example.invalid\n")
    before = dict(os.environ)
    os.environ.clear()
    os.environ |= {
        "PATH": before["PATH"],
        "HOME": str(home),
        "TREADLE_HOME": str(top / "treadle"),
        "GIT_CONFIG_GLOBAL": str(git),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"{one.provider.upper()}_API_KEY": KEY for one in SPEAKERS},
    }
    try:
        (folder / "AGENTS.md").write_text("Run the tests with `make test`.\n")
        for command in (
            ("init", "--quiet", "--initial-branch=main"),
            ("add", "--all"),
            ("commit", "--quiet", "--message", "docs: how to test"),
        ):
            subprocess.run(["git", *command], cwd=folder, check=True)
        (folder / "warp.txt").write_text("a thought\n")
        yield folder
    finally:
        os.environ.clear()
        os.environ |= before
        time.tzset()  # whoever was here may have travelled
