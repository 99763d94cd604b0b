"""`treadle doctor` and `treadle models`: what is well here, what is not, and what to do."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from cli.test_real_models import KEY, Shell, key_of
from models.loopback import Answer, Loopback, refusal

LISTED = {"data": [{"id": "model-one"}, {"id": "model-two"}], "has_more": False}


@pytest.fixture
def shell(repository: Path, environment: dict[str, str]) -> Shell:
    return Shell(repository, environment)


def listed() -> Answer:
    return refusal(200, {"object": "list", **LISTED})


def by_name(stdout: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(stdout):
        found.setdefault(one["name"], []).append(one)
    return found


def test_on_a_healthy_machine_nothing_has_failed_and_nothing_is_left_over(
    treadle: Run, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = treadle("doctor", "--json")
    assert done.returncode == 0, done.stdout
    found = by_name(done.stdout)
    for name in ("treadle", "python", "anthropic", "openai", "data", "git", "sync", "locks"):
        assert [one["status"] for one in found[name]] == ["ok"], name
    (model,) = found["model"]
    assert model["status"] == "warning"
    assert "ANTHROPIC_API_KEY" in model["text"]
    assert sorted(tmp_path.rglob("*")) == before


def test_each_line_for_people_that_is_not_ok_says_what_to_do(treadle: Run) -> None:
    lines = treadle("doctor").stdout.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(("warning", "failure")):
            assert below.startswith(" " * 23)


def test_a_folder_that_others_can_read_is_a_warning_with_the_command_that_mends_it(
    treadle: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "home" / "data"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    (data,) = by_name(treadle("doctor", "--json").stdout)["data"]
    assert (data["status"], data["advice"]) == ("warning", f"chmod 700 {folder}")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_home_that_is_a_file_is_a_failure(treadle: Run, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    done = treadle("doctor", "--json")
    assert done.returncode == 1
    (data,) = by_name(done.stdout)["data"]
    assert data["status"] == "failure"
    assert str(tmp_path / "home") in data["text"]


def test_without_git_it_says_so(treadle: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (git,) = by_name(treadle("doctor", "--json", PATH=str(tmp_path / "bin")).stdout)["git"]
    assert (git["status"], git["text"]) == ("warning", "not found")


def test_a_damaged_thread_is_a_failure_that_names_it(
    treadle: Run, script: Any, tmp_path: Path
) -> None:
    model = script('[[replies]]\ntext = "Hello."\n')
    for _ in range(2):
        treadle("-p", "x", "-m", model)
    (found,) = by_name(treadle("doctor", "--json").stdout)["threads"]
    assert found == {"name": "threads", "status": "ok", "text": "2, all verified"}
    journal = next((tmp_path / "home" / "data" / "threads").glob("*.jsonl"))
    journal.write_bytes(journal.read_bytes().replace(b"thread_created", b"thread_creaXed", 1))
    done = treadle("doctor", "--json")
    assert done.returncode == 1
    (found,) = by_name(done.stdout)["threads"]
    assert journal.stem in found["text"]


def test_a_broken_setting_is_a_failure_with_file_and_line(treadle: Run, tmp_path: Path) -> None:
    config = tmp_path / "home" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('max_tokens = 5\nmax_stepps = "many"\n')
    done = treadle("doctor", "--json")
    assert done.returncode == 1
    (found,) = by_name(done.stdout)["settings"]
    assert found["text"].startswith(f"{config}:2: ")


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_provider_with_a_key_is_asked_what_it_offers(shell: Shell, provider: str) -> None:
    async with Loopback(listed()) as server:
        key = key_of(provider, server)
        done = await shell("doctor", "--json", **key)
        (found,) = by_name(done.stdout)["provider"]
        assert (found["status"], found["text"]) == (
            "ok",
            f"{provider} at {server.url}{'' if provider == 'anthropic' else '/v1'}: 2 models",
        )
        shown = await shell("models", provider, **key)
        assert shown.stdout == f"{provider}:model-one\n{provider}:model-two\n"
        everything = await shell("models", **key)
    assert f"key from environment {provider.upper()}_API_KEY" in everything.stdout
    assert f"new threads use {provider}:" in everything.stdout
    assert KEY not in done.stdout + shown.stdout + everything.stdout
    assert {seen.path.partition("?")[0] for seen in server.requests} == {"/v1/models"}
    assert KEY in "".join(server.requests[0].headers.values())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal(401, {"error": {"type": "authentication_error", "message": KEY}}), "authentic"),
        (refusal(200, b"<html>a page</html>"), "invalid response"),
        (refusal(200, b'{"data": 7}'), "invalid response"),
        (refusal(500, b""), "server"),
        (refusal(200, b"x" * 9_000_000), "invalid response"),
    ],
)
async def test_a_provider_that_does_not_answer_is_a_warning_without_the_key(
    shell: Shell, answer: Answer, words: str
) -> None:
    async with Loopback(answer) as server:
        done = await shell("doctor", "--json", **key_of("openai", server))
    (found,) = by_name(done.stdout)["provider"]
    assert (done.code, found["status"]) == (0, "warning")
    assert words in found["text"]
    assert KEY not in done.stdout


async def test_nothing_is_sent_to_a_provider_without_a_key(shell: Shell) -> None:
    async with Loopback(listed()) as server:
        done = await shell("models", "anthropic", ANTHROPIC_BASE_URL=server.url)
    assert done.code == 2
    assert "set ANTHROPIC_API_KEY" in done.stderr
    assert server.requests == []


async def test_models_as_json_tells_each_provider(shell: Shell) -> None:
    async with Loopback(listed()) as server:
        done = await shell("models", "--json", **key_of("anthropic", server))
    found = {one["provider"]: one for one in json.loads(done.stdout)}
    assert found["anthropic"]["models"] == ["model-one", "model-two"]
    assert (found["openai"]["is_ready"], found["openai"]["models"]) == (False, None)
    assert found["ollama"]["is_ready"]
    assert found["ollama"]["problem"].startswith("network: ")


def test_an_unknown_provider_is_named_with_those_that_are_known(treadle: Run) -> None:
    done = treadle("models", "nobody")
    assert done.returncode == 2
    assert "anthropic, openai" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small file system")
def test_a_disk_that_is_full_is_a_failure(treadle: Run, tmp_path: Path) -> None:
    import subprocess

    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], check=True)
    try:
        done = treadle("doctor", "--json", TREADLE_HOME=str(place / "home"))
    finally:
        subprocess.run(["umount", str(place)], check=True)
    (disk,) = by_name(done.stdout)["disk"]
    assert (done.returncode, disk["status"]) == (1, "failure")
