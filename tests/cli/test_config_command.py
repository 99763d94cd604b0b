"""`treadle config`: what holds here and why; a project is trusted by somebody or not at all."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Run


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "config" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def project_file(repository: Path) -> Path:
    path = repository / ".treadle" / "config.toml"
    path.parent.mkdir()
    path.write_text("max_steps = 3\n")
    return path


# ---- show --------------------------------------------------------------------------------------


def test_show_lists_every_setting_without_a_file(treadle: Run) -> None:
    done = treadle("config", "show")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for line in (
        'approval_mode = "plan"',
        "max_steps = (not set)",
        "max_tokens = (not set)",
        'providers.openai.key_env = "OPENAI_API_KEY"',
        "providers.ollama.needs_key = false",
    ):
        assert line in lines
    assert any(line.startswith("aliases.opus = ") for line in lines)


def test_show_says_where_each_value_comes_from(treadle: Run, user_file: Path) -> None:
    user_file.write_text("\nmax_tokens = 5\n")
    done = treadle("config", "show", "--origin", TREADLE_MAX_STEPS="7")
    lines = done.stdout.splitlines()
    assert f"max_tokens = 5    # {user_file}:2" in lines
    assert "max_steps = 7    # environment TREADLE_MAX_STEPS" in lines
    assert "auto_commit = true    # default" in lines


def test_show_as_json_has_values_and_origins(treadle: Run, user_file: Path) -> None:
    user_file.write_text('[models]\n"a kind" = "x:y"\n')
    rows = json.loads(treadle("config", "show", "--json").stdout)
    assert rows['models."a kind"'] == {"value": "x:y", "origin": f"{user_file}:2"}
    assert rows["temperature"] == {"value": None, "origin": "default"}


def test_show_shows_no_key_and_no_key_command(treadle: Run, user_file: Path) -> None:
    user_file.write_text('[providers.openai]\nkey_command = "echo hunter2-command"\n')
    for arguments in ([], ["--origin"], ["--json"]):
        done = treadle("config", "show", *arguments, OPENAI_API_KEY="hunter2-variable")
        assert done.returncode == 0
        assert "hunter2" not in done.stdout + done.stderr
        assert "providers.openai.key_command" in done.stdout


def test_show_looks_at_another_folder(treadle: Run, project_file: Path, tmp_path: Path) -> None:
    treadle("config", "trust", "--yes")
    elsewhere = treadle("config", "show", cwd=tmp_path).stdout
    assert "max_steps = (not set)" in elsewhere
    there = treadle("config", "show", "-C", str(project_file.parents[1]), cwd=tmp_path).stdout
    assert "max_steps = 3" in there
    missing = treadle("config", "show", "-C", "nowhere")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "nowhere is no folder" in missing.stderr


def test_a_mistake_is_one_line_and_exit_code_two(treadle: Run, user_file: Path) -> None:
    user_file.write_text('max_step = "many"\n')
    done = treadle("config", "show")
    assert (done.returncode, done.stdout) == (2, "")
    first, hint = done.stderr.splitlines()
    assert first == f"treadle: {user_file}:1: unknown key max_step; did you mean max_steps?"
    assert "docs/configuration.md" in hint


@pytest.mark.parametrize("arguments", [["list"], ["verify"], ["graph"], ["--help"], ["--version"]])
def test_a_broken_file_does_not_stop_what_needs_no_settings(
    treadle: Run, user_file: Path, arguments: list[str]
) -> None:
    user_file.write_text("garbage")
    assert treadle(*arguments).returncode == 0


@pytest.mark.parametrize("arguments", [["--origin"], ["--json"]])
def test_show_ends_quietly_when_nobody_reads_on(
    environment: dict[str, str], repository: Path, arguments: list[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "treadle", "config", "show", *arguments]
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            command, cwd=repository, env=environment, stdout=pipe, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (141, b"")


# ---- trust -------------------------------------------------------------------------------------


def test_a_project_is_told_until_it_is_trusted(treadle: Run, project_file: Path) -> None:
    before = treadle("config", "show")
    assert "max_steps = (not set)" in before.stdout
    assert f"{project_file} is not used: nobody has trusted it yet" in before.stderr
    done = treadle("config", "trust", "--yes")
    assert (done.returncode, done.stdout) == (0, "max_steps = 3\n\n")
    after = treadle("config", "show", "--origin")
    assert f"max_steps = 3    # {project_file}:1" in after.stdout
    assert after.stderr == ""
    project_file.write_text("max_steps = 4\n")
    assert "it changed since it was trusted" in treadle("config", "show").stderr


def test_nobody_can_be_asked_without_a_terminal(treadle: Run, project_file: Path) -> None:
    done = treadle("config", "trust", stdin="y\n")
    assert done.returncode == 2
    assert "treadle config trust --yes" in done.stderr
    assert "max_steps = (not set)" in treadle("config", "show").stdout


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 2), (b"\n", 2), (b"\x04", 130)])
def test_a_person_is_shown_the_file_and_asked(
    treadle: Run,
    environment: dict[str, str],
    project_file: Path,
    answer: bytes,
    code: int,
) -> None:
    terminal, inner = pty.openpty()
    command = [sys.executable, "-m", "treadle", "config", "trust"]
    root = project_file.parents[1]
    with subprocess.Popen(
        command, cwd=root, env=environment, stdin=inner, stdout=inner, stderr=inner
    ) as process:
        os.close(inner)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, answer)
        assert process.wait(timeout=60) == code
    os.close(terminal)
    assert b"max_steps = 3" in shown
    assert ("max_steps = 3" in treadle("config", "show").stdout) == (code == 0)


def test_trust_is_taken_back(treadle: Run, project_file: Path) -> None:
    treadle("config", "trust", "--yes")
    assert treadle("config", "trust", "--remove").returncode == 0
    assert "nobody has trusted it yet" in treadle("config", "show").stderr
    assert "it was not trusted" in treadle("config", "trust", "--remove").stderr


def test_what_a_project_may_not_say_is_not_trusted(treadle: Run, project_file: Path) -> None:
    project_file.write_text('\napproval_mode = "auto"\n')
    done = treadle("config", "trust", "--yes")
    assert done.returncode == 2
    assert f'{project_file}:2: a project\'s file may not set approval_mode = "auto"' in done.stderr
    assert "nobody has trusted it yet" in treadle("config", "show").stderr


def test_a_project_without_settings_has_nothing_to_trust(treadle: Run) -> None:
    done = treadle("config", "trust", "--yes")
    assert done.returncode == 2
    assert "has no .treadle/config.toml" in done.stderr


def test_a_file_cannot_hide_or_rearrange_what_is_shown(treadle: Run, project_file: Path) -> None:
    project_file.write_text("# \x1b[2K\r\u202e\u200b\nmax_steps = 3\n")
    shown = treadle("config", "trust", "--yes").stdout
    assert shown == "# �[2K���\nmax_steps = 3\n\n"


def test_a_link_is_refused_and_stops_nothing(treadle: Run, project_file: Path) -> None:
    project_file.rename(project_file.with_name("other.toml"))
    project_file.symlink_to("other.toml")
    done = treadle("config", "trust", "--yes")
    assert done.returncode == 2
    assert "a symbolic link" in done.stderr
    assert treadle("config", "show").returncode == 0


# ---- set ---------------------------------------------------------------------------------------


def test_what_somebody_has_set_is_shown_first(treadle: Run, user_file: Path) -> None:
    assert "#" not in treadle("config", "show").stdout
    user_file.write_text('read = "ask"\n')
    told = treadle("config", "show", TREADLE_MAX_STEPS="7").stdout
    assert told.startswith('# not as built in\nread = "ask"\nmax_steps = 7\n# as built in\n')
    assert told.count("max_steps") == 1


def test_set_changes_the_users_file_and_says_which_it_is(treadle: Run, user_file: Path) -> None:
    done = treadle("config", "set", "approval_mode", "auto-edit")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f'approval_mode = "auto-edit"    # {user_file}:1\n'
    assert user_file.stat().st_mode & 0o077 == 0
    user_file.write_text("# mine\n" + user_file.read_text())
    treadle("config", "set", "models.default", "sonnet")
    assert user_file.read_text().startswith('# mine\napproval_mode = "auto-edit"\n')
    assert 'models.default = "sonnet"' in treadle("config", "show").stdout


def test_set_says_who_decides_instead(treadle: Run, user_file: Path) -> None:
    done = treadle("config", "set", "max_steps", "5", TREADLE_MAX_STEPS="7")
    assert done.stdout == "max_steps = 7    # environment TREADLE_MAX_STEPS\n"
    assert str(user_file) in done.stderr


def test_set_goes_where_a_link_leads_and_spoils_no_file(
    treadle: Run, user_file: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "dotfiles" / "treadle.toml"
    kept.parent.mkdir()
    kept.write_text("max_steps = 3\n")
    user_file.symlink_to(kept)
    assert treadle("config", "set", "max_steps", "4").returncode == 0
    assert (user_file.is_symlink(), kept.read_text()) == (True, "max_steps = 4\n")
    kept.write_text("max_steps = 4\nbroken = \n")
    done = treadle("config", "set", "max_steps", "5")
    assert done.returncode == 2
    assert f"{user_file}:2" in done.stderr
    assert kept.read_text() == "max_steps = 4\nbroken = \n"


def test_set_takes_no_key_of_a_provider(treadle: Run, user_file: Path) -> None:
    done = treadle("config", "set", "providers.openai.api_key", "sk-hunter2hunter2")
    assert done.returncode == 2
    assert "a key never stands in a file of settings" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert not user_file.exists()
