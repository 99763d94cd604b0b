"""A project's settings count once its user has looked at them, and never widen what is allowed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from case_tables import for_every_row
from config.conftest import Desk
from treadle.config.loader import check_project_file
from treadle.config.project_file import (
    find_project_file,
    find_project_root,
)
from treadle.config.project_trust import distrust_project, find_trust_state, trust_project
from treadle.config.settings import ApprovalMode, Settings
from treadle.errors import ConfigError, DiskError, StoreError

OWN = '[providers.mine]\napi = "openai-chat"\nbase_url = "http://localhost:1/v1"\n'


# ---- where it is -------------------------------------------------------------------------------


def test_the_root_is_the_nearest_folder_with_a_git_entry(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    assert find_project_root(deep) == deep
    (tmp_path / ".git").mkdir()
    assert find_project_root(deep) == tmp_path
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere\n")
    assert find_project_root(deep) == tmp_path / "a"


def test_a_link_to_a_folder_of_a_project_leads_to_the_project(desk: Desk, tmp_path: Path) -> None:
    (desk.project / "sub").mkdir()
    (tmp_path / "link").symlink_to(desk.project / "sub")
    assert find_project_root(tmp_path / "link") == desk.project


def test_settings_hold_in_every_folder_of_the_project(desk: Desk) -> None:
    desk.write_project("max_steps = 3\n")
    desk.project = desk.project / "deep" / "er"
    desk.project.mkdir(parents=True)
    assert desk.load().settings.max_steps == 3


# ---- who trusts it -----------------------------------------------------------------------------


def test_a_file_that_nobody_has_looked_at_is_not_used_and_not_even_parsed(desk: Desk) -> None:
    desk.write_project("garbage", is_trusted=False)
    loaded = desk.load()
    assert loaded.settings == Settings()
    assert loaded.notices == (
        f"{desk.project_file} is not used: nobody has trusted it yet; "
        "`treadle config trust` looks at it",
    )


def test_a_trusted_file_is_used_without_a_word(desk: Desk) -> None:
    desk.write_project("max_steps = 3\n")
    loaded = desk.load()
    assert (loaded.settings.max_steps, loaded.notices) == (3, ())


def test_a_file_that_changed_is_trusted_no_longer_until_it_is_as_it_was(desk: Desk) -> None:
    desk.write_project("max_steps = 3\n")
    desk.write_project("max_steps = 4\n", is_trusted=False)
    loaded = desk.load()
    assert loaded.settings == Settings()
    assert "it changed since it was trusted" in loaded.notices[0]
    desk.write_project("max_steps = 3\n", is_trusted=False)
    assert desk.load().settings.max_steps == 3


def test_the_same_bytes_in_another_project_are_not_trusted(desk: Desk, tmp_path: Path) -> None:
    desk.write_project("max_steps = 3\n")
    other = tmp_path / "other"
    (other / ".treadle").mkdir(parents=True)
    (other / ".treadle" / "config.toml").write_text("max_steps = 3\n")
    desk.project = other
    assert desk.load().settings == Settings()


def test_what_was_shown_is_trusted_though_the_file_changes_meanwhile(desk: Desk) -> None:
    desk.write_project("max_steps = 3\n", is_trusted=False)
    shown = find_project_file(desk.project)
    desk.write_project("max_steps = 4\n", is_trusted=False)
    assert shown is not None
    trust_project(desk.places, shown)
    assert desk.load().settings == Settings()


def test_trust_can_be_taken_back(desk: Desk) -> None:
    desk.write_project("max_steps = 3\n")
    assert distrust_project(desk.places, desk.project)
    assert not distrust_project(desk.places, desk.project)
    assert "nobody has trusted it" in desk.load().notices[0]


def test_the_list_of_trusted_folders_is_private_and_whole(desk: Desk, tmp_path: Path) -> None:
    desk.write_project("max_steps = 3\n")
    listed = desk.places.state / "trusted.json"
    assert stat.S_IMODE(listed.stat().st_mode) == 0o600
    assert stat.S_IMODE(listed.parent.stat().st_mode) == 0o700
    assert [path for path in listed.parent.rglob("*") if path.is_file()] == [listed]
    other = tmp_path / os.fsdecode(b"stra\xffnge")
    (other / ".treadle").mkdir(parents=True)
    (other / ".treadle" / "config.toml").write_text("")
    file = find_project_file(other)
    assert file is not None
    trust_project(desk.places, file)
    assert find_trust_state(desk.places, file) == "trusted"
    assert desk.load().settings.max_steps == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"folders": 3}', "\xff", "[" * 100_000])
def test_a_damaged_list_trusts_nobody_and_can_be_made_anew(desk: Desk, text: str) -> None:
    desk.write_project("max_steps = 3\n")
    listed = desk.places.state / "trusted.json"
    listed.write_text(text, encoding="latin-1")
    assert desk.load().settings == Settings()
    desk.write_project("max_steps = 3\n")
    assert desk.load().settings.max_steps == 3
    assert json.loads(listed.read_text())["folders"].keys() == {str(desk.project)}


def fail_to_read(path: Path) -> None:
    """Have every reading of it end with EIO, as on a failing disk; what was there is beside it."""
    if path.exists():
        path.rename(path.with_suffix(".kept"))
    path.symlink_to("/proc/self/mem")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that fails when read")
def test_a_list_that_the_disk_fails_to_read_is_left_alone(desk: Desk) -> None:
    desk.write_project("max_steps = 3\n")
    file = find_project_file(desk.project)
    assert file is not None
    listed = desk.places.state / "trusted.json"
    fail_to_read(listed)
    for use in (
        lambda: trust_project(desk.places, file),
        lambda: distrust_project(desk.places, desk.project),
        desk.load,
    ):
        with pytest.raises(DiskError, match=r"cannot read .*trusted\.json: Input/output error"):
            use()
    listed.with_suffix(".kept").rename(listed)
    assert desk.load().settings.max_steps == 3


def test_a_list_that_cannot_be_written_is_an_error(desk: Desk) -> None:
    desk.places.state.write_text("in the way")
    desk.write_project("", is_trusted=False)
    file = find_project_file(desk.project)
    assert file is not None
    with pytest.raises(StoreError, match=r"cannot write .*trusted\.json"):
        trust_project(desk.places, file)


# ---- what stands there -------------------------------------------------------------------------


def test_a_link_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    desk.write_project("max_steps = 3\n")
    (tmp_path / "copy").write_bytes(desk.project_file.read_bytes())
    desk.project_file.unlink()
    desk.project_file.symlink_to(tmp_path / "copy")
    loaded = desk.load()
    assert loaded.settings == Settings()
    assert loaded.notices == (f"cannot read {desk.project_file}: a symbolic link; it is not used",)
    with pytest.raises(ConfigError, match="a symbolic link"):
        find_project_file(desk.project)


def test_a_link_in_the_place_of_the_folder_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    desk.write_project("max_steps = 3\n")
    desk.project_file.parent.rename(tmp_path / "moved")
    desk.project_file.parent.symlink_to(tmp_path / "moved")
    assert desk.load().settings == Settings()
    assert "a symbolic link" in desk.load().notices[0]


def test_a_fifo_or_a_folder_is_told_and_stops_nothing(desk: Desk) -> None:
    os.mkfifo(desk.project_file)
    assert "no plain file; it is not used" in desk.load().notices[0]
    desk.project_file.unlink()
    desk.project_file.mkdir()
    assert "it is not used" in desk.load().notices[0]


def test_a_project_with_a_file_in_the_place_of_the_folder_has_no_settings(desk: Desk) -> None:
    desk.project_file.parent.rmdir()
    desk.project_file.parent.write_text("")
    assert find_project_file(desk.project) is None
    assert desk.load().notices == ()


# ---- what it may say ---------------------------------------------------------------------------


@for_every_row(
    "text, line, told",
    [
        ('approval_mode = "auto"\n', 1, 'may not set approval_mode = "auto"'),
        ("\nlocal_only = false\n", 2, "may not set local_only = false"),
        ("web_search = true\n", 1, "may not set web_search = true"),
        ("auto_commit = true\n", 1, "may not set auto_commit = true"),
        ('sandbox = "read-only"\n', 1, "may not set sandbox"),
        ('network = "off"\n', 1, "may not set network"),
        ('read = "ask"\n', 1, "may not set read"),
        ('sandbox_writable = ["/"]\n', 1, "may not set sandbox_writable"),
        ('sandbox_readable = ["/"]\n', 1, "may not set sandbox_readable"),
        ('sync = "auto"\n', 1, 'may not set sync = "auto"'),
        ('[providers.openai]\nbase_url = "https://evil.invalid"\n', 1, "providers.openai"),
        ('[providers.anthropic]\ndefault_model = "m"\n', 1, "its key would go elsewhere"),
        ('[providers.users]\nprices = "x"\n', 1, "may not change providers.users"),
        ("[providers.openai]\n", 1, "may not change providers.openai"),
        (f'{OWN}needs_key = false\nkey_env = "OPENAI_API_KEY"\n', 5, "may not set key_env"),
        (f'{OWN}needs_key = false\nkey_file = "/etc/passwd"\n', 5, "may not set key_file"),
        (f'{OWN}needs_key = false\nkey_command = "rm -r ."\n', 5, "may not set key_command"),
        (f'{OWN}needs_key = false\nbase_url_env = "X"\n', 5, "may not set base_url_env"),
        ('[providers.openai.headers]\nx = "y"\n', 1, "its key would go elsewhere"),
        ('[providers.openai]\nquery = { to = "x" }\n', 1, "its key would go elsewhere"),
        (OWN, 1, "providers.mine needs `needs_key = false`"),
        (f"{OWN}needs_key = true\n", 1, "providers.mine needs `needs_key = false`"),
        (
            '[hooks.mine]\non = "before_turn"\ncommand = "rm -r ."\n',
            1,
            "may not set hooks.mine",
        ),
        ("max_steps = 11\n", 1, "may not raise max_steps above its user's 10"),
        ("max_tokens = 1001\n", 1, "may not raise max_tokens above its user's 1000"),
        ("compact_at = 90001\n", 1, "may not raise compact_at above its user's 90000"),
        ("max_steps = 0\n", 1, "max_steps must be a whole number"),
        ("garbage", 1, "not valid TOML"),
    ],
)
def test_a_trusted_file_may_not_widen_what_its_user_allowed(
    desk: Desk, text: str, line: int, told: str
) -> None:
    users = OWN.replace("mine", "users")
    bounds = "max_steps = 10\nmax_tokens = 1000\ncompact_at = 90000\n"
    desk.write_user(f"{bounds}local_only = false\n{users}")
    desk.write_project(text)
    with pytest.raises(ConfigError) as raised:
        desk.load()
    assert raised.value.message.startswith(f"{desk.project_file}:{line}: ")
    assert told in raised.value.message


MODES = ("plan", "ask", "auto-edit", "auto")


@for_every_row("users", [None, *MODES])
@for_every_row("projects", MODES)
def test_a_projects_approval_mode_holds_unless_it_is_wider_than_its_users(
    desk: Desk, users: ApprovalMode | None, projects: ApprovalMode
) -> None:
    desk.write_user("" if users is None else f'approval_mode = "{users}"\n')
    desk.write_project(f'\napproval_mode = "{projects}"\n')
    if MODES.index(projects) <= MODES.index(users or "plan"):
        assert desk.load().settings.approval_mode == projects
        return
    with pytest.raises(ConfigError) as raised:
        desk.load()
    assert raised.value.message == (
        f'{desk.project_file}:2: a project\'s file may not set approval_mode = "{projects}": what '
        f'the agent may do is for its user to say, whose own mode is "{users or "plan"}"'
    )


def test_a_variable_of_the_user_decides_over_what_a_project_narrowed(desk: Desk) -> None:
    desk.write_user('approval_mode = "auto"\n')
    desk.write_project('approval_mode = "plan"\n')
    mode = desk.load(TREADLE_APPROVAL_MODE="auto-edit").settings.approval_mode
    assert mode == "auto-edit"


def test_a_mode_that_does_not_exist_is_told_as_such(desk: Desk) -> None:
    desk.write_project('approval_mode = "yolo"\n')
    with pytest.raises(ConfigError, match='approval_mode must be "plan", "ask"'):
        desk.load()


def test_a_trusted_file_may_narrow_and_name_and_add_a_provider_without_a_key(desk: Desk) -> None:
    desk.write_user('approval_mode = "auto"\nmax_steps = 10\n')
    desk.write_project(
        'approval_mode = "plan"\nauto_commit = false\nlocal_only = true\nmax_steps = 9\n'
        'max_tokens = 50000\n[models]\ndefault = "mine:m"\n[aliases]\nopus = "mine:o"\n'
        f"{OWN}needs_key = false\n"
    )
    loaded = desk.load()
    assert loaded.settings == Settings(
        "plan", False, 9, 50_000, local_only=True, models={"default": "mine:m"}
    )
    assert loaded.catalog.is_local("mine", {})
    assert loaded.catalog.resolve("opus").name == "mine:o"


def test_a_file_is_checked_before_it_is_trusted(desk: Desk) -> None:
    desk.write_project('approval_mode = "auto"\n', is_trusted=False)
    file = find_project_file(desk.project)
    assert file is not None
    with pytest.raises(ConfigError, match="may not set approval_mode"):
        check_project_file(file, desk.environ)
