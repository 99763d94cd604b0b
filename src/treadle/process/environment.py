"""The environment that a command gets: no credentials, no code that others put in, no prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from treadle.secrets.environment import without_credentials

_STARTS_MORE: Final = re.compile(
    r"LD_PRELOAD|LD_AUDIT|LD_DEBUG\w*|BASH_ENV|ENV|PROMPT_COMMAND|BASH_FUNC_.*"
)
"""What would run, or be said, in each program that a command starts, and was not asked about."""
_PLAIN: Final[Mapping[str, str]] = {
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "false",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "PYTHONUNBUFFERED": "1",
    "TERM": "dumb",
    "VISUAL": "false",
}
"""No pager, no prompt, no editor, no colour: nobody sits at this terminal.

Git takes the message that it would have shown in an editor (`--amend`, `merge`, `rebase
--continue`), and where there is none (`commit`) it stops. It is not let through where a list says
what is done (`rebase -i`): what was to be changed in it would be done unchanged.
"""


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for commands: without credentials, with nothing that waits for a person.

    What puts code into every program (`LD_PRELOAD`, `BASH_ENV`) stays out too.
    """
    kept = without_credentials(environment).items()
    return {**{name: value for name, value in kept if not _STARTS_MORE.fullmatch(name)}, **_PLAIN}
