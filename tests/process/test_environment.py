"""What a command finds in its environment, and what not."""

from __future__ import annotations

import pytest

from treadle.process.environment import clean_environment


def test_credentials_and_pagers_stay_out_of_the_environment() -> None:
    environment = {
        "PATH": "/bin",
        "HOME": "/root",
        "PAGER": "less",
        "TERM": "xterm",
        "ANTHROPIC_API_KEY": "x",
        "github_token": "x",
        "AWS_SECRET_ACCESS": "x",
        "PGPASSWORD": "x",
        "MYSQL_PASSWD": "x",
        "GOOGLE_APPLICATION_CREDENTIALS": "x",
    }
    assert clean_environment(environment) == {
        "PATH": "/bin",
        "HOME": "/root",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "PAGER": "cat",
        "PYTHONUNBUFFERED": "1",
        "TERM": "dumb",
    }


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "LD_DEBUG_OUTPUT"),
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "BASH_FUNC_ls%%"),
    ],
)
def test_what_runs_in_every_program_stays_out_of_the_environment(name: str) -> None:
    assert name not in clean_environment({name: "x"})
