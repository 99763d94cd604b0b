"""The layers lie on one another in their order, and every value knows where it comes from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.conftest import Desk
from treadle.config.loader import ENVIRONMENT, load_settings
from treadle.config.settings import Settings
from treadle.errors import ConfigError
from treadle.models.catalog import make_catalog, read_defaults


def test_without_anything_the_defaults_hold(desk: Desk) -> None:
    loaded = desk.load()
    assert loaded.settings == Settings()
    assert loaded.catalog == make_catalog(read_defaults())
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.notices == ()


def test_each_layer_lies_on_those_before_it(desk: Desk) -> None:
    key = "models.default"
    desk.write_user('[models]\ndefault = "user:m"\nother = "user:o"\n')
    loaded = [desk.load()]
    desk.write_project('\n[models]\ndefault = "project:m"\n')
    loaded.append(desk.load())
    loaded.append(desk.load(TREADLE_MODEL="environment:m"))
    origin = [one.origins[key] for one in loaded]
    assert [one.settings.models["default"] for one in loaded] == [
        "user:m",
        "project:m",
        "environment:m",
    ]
    assert origin == [
        f"{desk.user_file}:2",
        f"{desk.project_file}:3",
        "environment TREADLE_MODEL",
    ]
    assert all(one.settings.models["other"] == "user:o" for one in loaded)
    assert loaded[-1].values[key] == "environment:m"


def test_a_file_changes_only_the_fields_it_gives_of_a_built_in_provider(desk: Desk) -> None:
    desk.write_user('[providers.openai]\nbase_url = "https://proxy.invalid/v1"\n')
    loaded = desk.load()
    entry = loaded.catalog.providers["openai"]
    assert entry.base_url == "https://proxy.invalid/v1"
    assert (entry.api, entry.key_env) == ("openai-responses", "OPENAI_API_KEY")
    assert loaded.origins["providers.openai.base_url"] == f"{desk.user_file}:2"
    assert loaded.origins["providers.openai.api"] == "default"


def test_a_key_command_is_not_among_the_values_that_are_told(desk: Desk) -> None:
    desk.write_user('[providers.openai]\nkey_command = "echo hunter2"\n')
    loaded = desk.load()
    assert loaded.catalog.providers["openai"].key_command == "echo hunter2"
    assert "hunter2" not in str(dict(loaded.values))


def test_every_variable_sets_what_it_says(desk: Desk) -> None:
    texts = {
        "TREADLE_MODEL": "a:b",
        "TREADLE_APPROVAL_MODE": "auto",
        "TREADLE_AUTO_COMMIT": "0",
        "TREADLE_MAX_STEPS": " 5\n",
        "TREADLE_MAX_TOKENS": "6",
        "TREADLE_COMPACT_AT": "10000",
        "TREADLE_TEMPERATURE": "0.5",
        "TREADLE_REASONING": "off",
        "TREADLE_WEB_SEARCH": "1",
        "TREADLE_LOCAL_ONLY": "True",
        "TREADLE_SYNC": "manual",
        "TREADLE_SANDBOX": "off",
        "TREADLE_NETWORK": "on",
        "TREADLE_READ": "ask",
        "TREADLE_KEYS": "vim",
        "TREADLE_THEME": "light",
        "TREADLE_NOTIFY": "false",
        "TREADLE_REMOTE": "steer",
        "TREADLE_REMOTE_CRITICAL": "1",
    }
    assert texts.keys() == ENVIRONMENT.keys()
    loaded = desk.load(**texts)
    expected = Settings(
        "auto",
        False,
        5,
        6,
        0.5,
        "off",
        True,
        "manual",
        {"default": "a:b"},
        sandbox="off",
        network="on",
        read="ask",
        compact_at=10_000,
        web_search=True,
        keys="vim",
        theme="light",
        notify=False,
        remote="steer",
        remote_critical=True,
    )
    assert loaded.settings == expected
    for variable, (path, _) in ENVIRONMENT.items():
        assert loaded.origins[".".join(path)] == f"environment {variable}"


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_an_empty_variable_is_none(desk: Desk, text: str) -> None:
    assert desk.load(**dict.fromkeys(ENVIRONMENT, text)).settings == Settings()


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("TREADLE_MAX_STEPS", "many", "max_steps must be a whole number of at least 1 and at most"),
        ("TREADLE_MAX_STEPS", "0", "not 0"),
        ("TREADLE_MAX_STEPS", "1" * 5000, 'not "1'),
        ("TREADLE_TEMPERATURE", "nan", "not NaN"),
        ("TREADLE_AUTO_COMMIT", "maybe", 'auto_commit must be true or false, not "maybe"'),
        ("TREADLE_APPROVAL_MODE", "yolo", '"auto-edit" or "auto", not "yolo"'),
        ("TREADLE_MODEL", "a\x1b[31m", "must be the name of a model"),
    ],
)
def test_a_bad_variable_is_named(desk: Desk, variable: str, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        desk.load(**{variable: text})
    assert raised.value.message.startswith(f"{variable}: ")
    assert told in raised.value.message
    assert "\x1b" not in raised.value.message


def test_only_a_provider_elsewhere_is_excluded_and_only_by_local_only(desk: Desk) -> None:
    assert desk.load().find_exclusion("openai", {}) is None
    loaded = desk.load(TREADLE_LOCAL_ONLY="1")
    error = loaded.find_exclusion("openai", {})
    assert error is not None
    assert error.message == "openai is not on this machine, and local_only allows no other"
    assert "local_only = false" in error.hint
    assert loaded.find_exclusion("ollama", {}) is None
    assert loaded.find_exclusion("openai", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}) is None


def test_a_variable_that_moves_a_provider_is_told_as_its_address(desk: Desk) -> None:
    loaded = desk.load(OPENAI_BASE_URL="https://proxy.invalid/v1")
    key = "providers.openai.base_url"
    assert loaded.values[key] == "https://proxy.invalid/v1"
    assert loaded.origins[key] == "environment OPENAI_BASE_URL"


def test_a_variable_that_holds_no_address_stops_only_its_provider(desk: Desk) -> None:
    loaded = desk.load(OPENAI_BASE_URL="https://user:hunter2@proxy.invalid")
    (notice,) = loaded.notices
    assert "the provider openai cannot be used: OPENAI_BASE_URL" in notice
    assert "hunter2" not in f"{notice}{dict(loaded.values)}"


# ---- files in the way --------------------------------------------------------------------------


def refusal(desk: Desk) -> str:
    with pytest.raises(ConfigError) as raised:
        desk.load()
    return raised.value.message


def test_a_folder_in_the_place_of_the_file_is_told(desk: Desk) -> None:
    desk.user_file.mkdir()
    assert refusal(desk).startswith(f"cannot read {desk.user_file}: ")


def test_a_fifo_or_a_device_is_not_waited_for(desk: Desk) -> None:
    os.mkfifo(desk.user_file)
    assert refusal(desk) == f"cannot read {desk.user_file}: it is no plain file"
    desk.user_file.unlink()
    desk.user_file.symlink_to("/dev/zero")
    assert refusal(desk) == f"cannot read {desk.user_file}: it is no plain file"


def test_a_huge_file_is_refused(desk: Desk) -> None:
    desk.user_file.write_bytes(b"#" * 1024 * 1024)
    assert desk.load().settings == Settings()
    desk.user_file.write_bytes(b"#" * (1024 * 1024 + 1))
    assert refusal(desk).endswith("it is larger than 1048576 bytes")


def test_a_link_that_leads_nowhere_or_in_a_circle(desk: Desk) -> None:
    desk.user_file.symlink_to("nowhere")
    assert desk.load().settings == Settings()
    desk.user_file.unlink()
    desk.user_file.symlink_to(desk.user_file)
    assert refusal(desk).startswith(f"cannot read {desk.user_file}: ")


def test_the_file_of_a_user_may_be_a_link(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "dotfile").write_text("max_steps = 3\n")
    desk.user_file.symlink_to(tmp_path / "dotfile")
    assert desk.load().settings.max_steps == 3


def test_a_file_that_its_user_may_not_read_is_told(desk: Desk) -> None:
    """In a process without privileges: root may read everything."""
    desk.write_user("max_steps = 3\n")
    desk.user_file.chmod(0)
    program = (
        "import os, sys\n"
        "from treadle.config.plain_file import read_plain_file\n"
        "from pathlib import Path\n"
        "if os.getuid() == 0:\n    os.setresuid(65534, 65534, 65534)\n"
        "try:\n    read_plain_file(Path(sys.argv[1]), 10)\n"
        "except PermissionError:\n    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, desk.user_file], capture_output=True, text=True
    )
    assert done.stdout == "refused\n"


def test_a_home_that_is_a_file_holds_no_settings(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    loaded = load_settings(tmp_path, {"TREADLE_HOME": str(tmp_path / "home")})
    assert loaded.settings == Settings()


def test_the_place_of_the_user_file_follows_the_xdg_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "treadle").mkdir()
    (tmp_path / "treadle" / "config.toml").write_text("max_steps = 3\n")
    assert load_settings(tmp_path, {}).settings.max_steps == 3
