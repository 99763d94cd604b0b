"""What a command finds in its environment, and what not."""

from __future__ import annotations

from case_tables import for_every_row
from treadle.process.environment import clean_environment


def test_credentials_pagers_and_editors_stay_out_of_the_environment() -> None:
    environment = {
        "PATH": "/bin",
        "HOME": "/root",
        "PAGER": "less",
        "EDITOR": "code --wait",
        "GIT_EDITOR": "vim",
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


@for_every_row(
    "name",
    [
        *("LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "LD_DEBUG_OUTPUT"),
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "BASH_FUNC_ls%%"),
    ],
)
def test_what_runs_in_every_program_stays_out_of_the_environment(name: str) -> None:
    assert name not in clean_environment({name: "x"})
