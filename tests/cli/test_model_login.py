"""`treadle login PROVIDER`: a key nobody else reads, which answers from then on and is told of."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from cli.conftest import Run
from models.speakers import SPEAK
from sync.wire_server import Asked, WireServer, reply

KEY = "sk-ant-api03-0123456789abcdefghij"
HELLO = SPEAK["anthropic-messages"]("Hello to you.")


def provider(asked: Asked) -> bytes:
    """Anthropic's API, as far as a key opens it."""
    given = asked.headers.get("x-api-key") or asked.headers["authorization"]
    if given.removeprefix("Bearer ") != KEY:
        why = {"type": "authentication_error", "message": f"this is invalid: {given}"}
        return reply(401, {"type": "error", "error": why})
    if asked.method == "GET":
        return reply(200, {"data": [{"id": "m", "type": "model"}], "has_more": False})
    return reply(200, HELLO, "text/event-stream")


def test_a_key_is_kept_and_answers_and_is_forgotten(
    treadle: Run, environment: dict[str, str]
) -> None:
    kept = Path(environment["TREADLE_HOME"], "config", "keys", "anthropic.key")
    with WireServer(provider) as server:
        place = {"ANTHROPIC_BASE_URL": server.url}
        assert treadle("-p", "x", **place).returncode == 5
        done = treadle("login", "anthropic", "--key-stdin", stdin=f" {KEY}\n", **place)
        assert (done.returncode, done.stdout) == (
            0,
            "new threads use anthropic:claude-sonnet-5-5\n",
        ), done.stderr
        assert done.stderr == f"key from file {kept}\n"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        assert treadle("-p", "say hello", "-q", **place).stdout == "Hello to you.\n"
        told = {one["text"] for one in json.loads(treadle("doctor", "--json", **place).stdout)}
        assert f"anthropic at {server.url}: 1 models; key from file {kept}" in told
        shown = treadle("config", "show", "--origin", **place).stdout
        assert f'providers.anthropic.key_file = "{kept}"    # treadle login' in shown
        assert KEY not in done.stdout + done.stderr + shown + "".join(told)
        assert treadle("logout", "anthropic", **place).returncode == 0
        assert treadle("-p", "x", **place).returncode == 5
    assert not kept.exists()
    again = treadle("logout", "anthropic")
    assert (again.returncode, "no key is kept" in again.stderr) == (2, True)


def test_a_key_that_is_refused_or_none_is_not_kept_nor_told(
    treadle: Run, environment: dict[str, str]
) -> None:
    wrong = "sk-ant-api03-wrong-0123456789"
    with WireServer(provider) as server:
        place = {"ANTHROPIC_BASE_URL": server.url}
        for text in (wrong, "two words", "", "x" * 5000):
            done = treadle("login", "anthropic", "--key-stdin", stdin=f"{text}\n", **place)
            assert (done.returncode, done.stdout) == (5, ""), done.stderr
            assert not text or text not in done.stderr
    assert not Path(environment["TREADLE_HOME"], "config", "keys").exists()


def test_a_key_of_a_provider_that_is_not_reached_is_kept(treadle: Run) -> None:
    with WireServer(reply()) as server:
        place = {"ANTHROPIC_BASE_URL": server.url}
    done = treadle("login", "anthropic", "--key-stdin", "--json", stdin=KEY, **place)
    assert done.returncode == 0
    assert json.loads(done.stdout)["key"].endswith("anthropic.key")
    assert "not tried" in done.stderr


def test_the_environment_wins_and_settings_are_not_overruled(
    treadle: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    with WireServer(provider) as server:
        place = {"ANTHROPIC_BASE_URL": server.url}
        done = treadle(
            "login", "anthropic", "--key-stdin", stdin=KEY, ANTHROPIC_API_KEY="other", **place
        )
        assert "as long as ANTHROPIC_API_KEY is set" in done.stderr
        assert treadle("-p", "x", ANTHROPIC_API_KEY="other", **place).returncode == 5
        assert treadle("-p", "x", **place).returncode == 0
        config = Path(environment["TREADLE_HOME"], "config", "config.toml")
        config.write_text('[providers.anthropic]\nkey_command = "echo x"\n')
        done = treadle("login", "anthropic", "--key-stdin", stdin=KEY, **place)
    assert done.returncode == 2
    assert f"comes from the key_command in {config}:2" in done.stderr


def test_a_key_file_that_others_read_is_refused_with_what_mends_it(
    treadle: Run, environment: dict[str, str]
) -> None:
    with WireServer(provider) as server:
        place = {"ANTHROPIC_BASE_URL": server.url}
        treadle("login", "anthropic", "--key-stdin", stdin=KEY, **place)
        kept = Path(environment["TREADLE_HOME"], "config", "keys", "anthropic.key")
        kept.chmod(0o644)
        done = treadle("-p", "x", **place)
        assert done.returncode == 5
        assert f"chmod 600 {kept}" in done.stderr
        assert len(server.asked) == 1, "the key was not used"
        assert f"chmod 600 {kept}" in treadle("doctor", **place).stdout


def test_a_kept_key_is_taken_out_of_what_is_recorded(
    treadle: Run, environment: dict[str, str], script: object
) -> None:
    from treadle.runtime.defaults import collect_user_secrets

    with WireServer(provider) as server:
        treadle("login", "anthropic", "--key-stdin", stdin=KEY, ANTHROPIC_BASE_URL=server.url)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TREADLE_HOME", environment["TREADLE_HOME"])
        assert collect_user_secrets(Path(os.sep))["anthropic_api_key"] == KEY


def test_a_server_of_this_machine_needs_no_key(treadle: Run, environment: dict[str, str]) -> None:
    models = [{"id": "coder:7b"}]
    with WireServer(lambda _: reply(200, {"data": models})) as server:
        config = Path(environment["TREADLE_HOME"], "config", "config.toml")
        config.parent.mkdir(parents=True)
        config.write_text(f'[providers.ollama]\nbase_url = "{server.url}/v1"\n')
        done = treadle("login", "ollama")
        assert done.stdout == "new threads use ollama:coder:7b\n", done.stderr
        assert config.read_text().endswith('[models]\ndefault = "ollama:coder:7b"\n')
        models.append({"id": "other"})
        done = treadle("login", "ollama")
        assert (done.returncode, "coder:7b, other" in done.stderr) == (2, True)
    assert treadle("login", "ollama").returncode == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nobody can be asked what to log in to"),
        (["antropic"], "did you mean anthropic?"),
        (["anthropic"], "nobody can be asked for the key"),
        (["ollama", "--key-stdin"], "nobody answers for ollama"),
    ],
)
def test_what_cannot_be_set_up_is_told_in_a_line_or_two(
    treadle: Run, environment: dict[str, str], arguments: list[str], words: str
) -> None:
    config = Path(environment["TREADLE_HOME"], "config", "config.toml")
    config.parent.mkdir(parents=True)
    config.write_text('[providers.ollama]\nbase_url = "http://127.0.0.1:9/v1"\n')
    done = treadle("login", *arguments)
    assert done.returncode in (2, 5)
    assert words in done.stderr
    assert len(done.stderr.splitlines()) <= 2
