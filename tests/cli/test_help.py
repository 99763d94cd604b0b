"""Help fits a screen, all of it is reached from there, and a prompt is told from a command."""

from __future__ import annotations

from pathlib import Path

import treadle as treadle_package
from cli.conftest import Run
from cli.test_run import HELLO, Script
from treadle.cli.help_page import GROUPS, HELP
from treadle.cli.main import COMMANDS


def test_help_fits_a_small_screen_and_names_commands_that_are_there() -> None:
    lines = HELP.splitlines()
    assert len(lines) <= 23, "24 rows, and the shell's prompt"
    assert max(map(len, lines)) <= 80
    first = next(at for at, line in enumerate(lines) if line.startswith("Work"))
    named = {line[at:].split()[0] for line in lines[first : first + 9] for at in (9, 46)}
    assert len(named) == 18
    assert named <= set(COMMANDS)


def test_every_command_stands_in_one_group() -> None:
    folder = Path(treadle_package.__file__).parent / "cli"
    files = {path.name.removesuffix("_command.py") for path in folder.glob("*_command.py")}
    parts = {
        "admin_audit",
        "admin_holds",
        "admin_identities",
        "admin_invitations",
        "admin_organizations",
        "admin_retention",
        "admin_tokens",
        "admin_usage",
        "admin_users",
        "config_set",
        "fleet_limit",
        "fleet_schedule",
        "remote_words",
        "remote_start",
    }
    parts |= {"mcp_login", "mcp_serve", "mcp_servers", "mcp_settings", "fleet_task"}
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(files - parts)


def test_one_screen_leads_to_all_of_it(treadle: Run) -> None:
    assert treadle("--help").stdout == treadle("help").stdout == treadle("-h").stdout == HELP
    everything = treadle("help", "--all").stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in everything] == []
    assert everything.index("\nWork:") < everything.index("\nThreads:") < everything.index("Set up")
    assert treadle("help", "rewind").stdout == treadle("rewind", "--help").stdout
    assert "treadle rewind [OPTIONS] ID\n" in treadle("help", "rewind").stdout.replace(
        "python -m ", ""
    )


def test_a_prompt_among_the_options_is_one_turn_where_nobody_can_talk(
    treadle: Run, script: Script
) -> None:
    model = script(HELLO)
    for arguments in (
        ("say hello", "-m", model),
        ("-m", model, "say hello"),
        ("say hello", "-m", model, "--private"),
        ("-m", model, "--", "list"),
        ("-m", model, "--", "-x is what?"),
    ):
        done = treadle(*arguments)
        assert (done.returncode, done.stdout) == (0, "Hello to you.\n"), done.stderr
    assert treadle("review", "-m", model).returncode == 2, "one word may be a mistyped command"


def test_what_is_quiet_says_the_answer_and_what_went_wrong(treadle: Run, script: Script) -> None:
    done = treadle("-q", "-p", "x", "-m", script(HELLO))
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello to you.\n", "")
    assert "unfinished" not in treadle("-q", "say hello", "-m", script(HELLO)).stderr
    broken = script('[[replies]]\nerror = { kind = "bad_request", message = "so it goes" }\n')
    failed = treadle("-q", "-p", "x", "-m", broken)
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    assert "so it goes" in failed.stderr
    task = treadle("run", "-q", "say hello", "-m", script(HELLO))
    assert (task.stdout, task.stderr) == ("Hello to you.\n", "")
