"""`treadle doctor` and `treadle models`: what is well here, what is not, and what to do."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from cli.test_real_models import KEY, Shell, key_of
from lab.mounts import mounted, why_no_mounts
from models.loopback import Answer, Loopback, refusal
from models.speakers import KEYS
from store.shelf import TURN, fill
from treadle.app.upkeep import store_checks
from treadle.app.upkeep.checks import Finding
from treadle.app.upkeep.store_checks import check_store
from treadle.platform.file_systems import find_type_in_proc
from treadle.store.blobs import Blobs
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.codec import encode_entry
from treadle.thread.facts import ThreadCreated
from treadle.thread.record import Head, encode_batch

LISTED = {"data": [{"id": "model-one"}, {"id": "model-two"}], "has_more": False}


@pytest.fixture
def shell(repository: Path, environment: dict[str, str]) -> Shell:
    return Shell(repository, environment)


LOCAL = ("ollama", "vllm", "lmstudio", "llamacpp")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The user's file, not there yet."""
    path = tmp_path / "home" / "config" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def closed_url() -> Iterator[str]:
    """An address at which nobody answers: bound, so that nobody else takes it, and no more."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"


@pytest.fixture
def alone(config: Path, closed_url: str) -> Path:
    """The user's file, by which no server of the developer's machine is asked."""
    config.write_text("".join(f'[providers.{n}]\nbase_url = "{closed_url}"\n' for n in LOCAL))
    return config


async def test_what_a_server_calls_its_models_shows_no_key_and_steers_nothing(
    shell: Shell,
) -> None:
    names = {"data": [{"id": f"k Bearer {KEY}"}, {"id": "a\x1b]0;x\x07\nb"}]}
    async with Loopback(refusal(200, names)) as server:
        done = await shell("models", "openai", **key_of("openai", server))
        as_json = await shell("models", "openai", "--json", **key_of("openai", server))
    assert done.stdout.splitlines()[0] == "openai:k Bearer [REDACTED:openai_api_key]"
    assert len(done.stdout.splitlines()) == 2
    assert "\x1b" not in done.stdout
    assert KEY not in done.stdout + as_json.stdout


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
    for name in ("treadle", "python", "httpx2", "msgspec", "data", "git", "sync", "locks"):
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
    assert (git["status"], git["text"]) == ("warning", "git is not installed")


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


def test_a_broken_setting_is_a_failure_with_file_and_line(treadle: Run, config: Path) -> None:
    config.write_text('max_tokens = 5\nmax_stepps = "many"\n')
    done = treadle("doctor", "--json")
    assert done.returncode == 1
    (found,) = by_name(done.stdout)["settings"]
    assert found["text"].startswith(f"{config}:2: ")


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_provider_with_a_key_is_asked_what_it_offers(shell: Shell, provider: str) -> None:
    async with Loopback(listed()) as server:
        key = key_of(provider, server)
        done = await shell("doctor", "--json", **key)
        (found,) = by_name(done.stdout)["provider"]
        place = f"{provider} at {server.url}{KEYS[provider][2]}"
        told = f"{place}: 2 models; key from environment {KEYS[provider][0]}"
        assert (found["status"], found["text"]) == ("ok", told)
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
    assert done.code == 5
    assert done.stderr == (
        "treadle: anthropic: needs a key: set ANTHROPIC_API_KEY\n"
        "         `treadle login anthropic` keeps one in a file; "
        "`treadle demo` works without a key\n"
    )
    assert server.requests == []


@pytest.mark.usefixtures("alone")
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


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (refusal(401, {"error": {"message": KEY}}), 5, "authentication"),
        (refusal(403, {}), 1, "permission"),
        (refusal(404, {}), 1, "not found"),
        (refusal(200, b"<html>"), 1, "invalid response"),
        (refusal(429, {}), 75, "rate limited"),
        (refusal(500, {}), 75, "server"),
        (refusal(504, {}), 75, "timeout"),
        (refusal(529, {}), 75, "overloaded"),
    ],
)
async def test_the_exit_code_says_why_a_provider_did_not_tell_its_models(
    shell: Shell, answer: Answer, code: int, words: str
) -> None:
    async with Loopback(answer) as server:
        done = await shell("models", "openai", **key_of("openai", server))
        as_json = await shell("models", "openai", "--json", **key_of("openai", server))
        everything = await shell("models", **key_of("openai", server))
    assert (done.code, as_json.code, everything.code) == (code, code, 0)
    assert done.stdout == ""
    first, advice = done.stderr.splitlines()
    assert first.startswith(f"treadle: openai: {words}")
    assert advice.startswith("         ")
    assert json.loads(as_json.stdout)[0]["problem"].startswith(words)
    assert KEY not in done.stderr + as_json.stdout


@pytest.mark.usefixtures("alone")
def test_a_provider_that_cannot_be_reached_may_be_asked_again(treadle: Run) -> None:
    done = treadle("models", "ollama")
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr.startswith("treadle: ollama: network: ")


def test_a_provider_that_may_not_be_asked_is_not_configured(treadle: Run) -> None:
    done = treadle("models", "openai", OPENAI_API_KEY=KEY, TREADLE_LOCAL_ONLY="1")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("treadle: openai: is not on this machine, and local_only")


# ---- which providers count ---------------------------------------------------------------------


@pytest.mark.usefixtures("alone")
def test_a_key_of_a_provider_that_local_only_excludes_is_no_fault(treadle: Run) -> None:
    extra = {"TREADLE_LOCAL_ONLY": "1", "OPENAI_API_KEY": KEY}
    done = treadle("doctor", "--json", TREADLE_MODEL="ollama:any", **extra)
    found = by_name(done.stdout)
    provider = {one["text"].partition(" ")[0]: one for one in found["provider"]}
    assert done.returncode == 0, done.stdout
    assert provider["openai"]["status"] == "ok"
    assert provider["openai"]["text"].endswith(": not asked: local_only")
    assert provider["ollama"]["status"] == "warning"
    assert found["model"][0]["status"] == "ok"


@pytest.mark.parametrize(("named", "code", "status"), [("", 0, "warning"), ("gpt", 1, "failure")])
def test_a_model_that_local_only_excludes_is_a_failure_if_somebody_chose_it(
    treadle: Run, named: str, code: int, status: str
) -> None:
    extra = {"TREADLE_LOCAL_ONLY": "1", "OPENAI_API_KEY": KEY, "TREADLE_MODEL": named}
    done = treadle("doctor", "--json", **extra)
    found = by_name(done.stdout)
    (model,) = found["model"]
    assert (done.returncode, model["status"]) == (code, status)
    assert "openai is not on this machine, and local_only allows no other" in model["text"]
    assert "models.default" in model["advice"]
    assert [one["status"] for one in found["provider"]] == ["ok"]


@pytest.mark.parametrize(
    ("used", "code", "status"), [("groq:any", 1, "failure"), ("ollama:any", 0, "warning")]
)
def test_a_key_that_cannot_be_had_is_a_failure_only_for_the_provider_in_use(
    treadle: Run, alone: Path, tmp_path: Path, used: str, code: int, status: str
) -> None:
    with alone.open("a") as file:
        file.write(f'[providers.groq]\nkey_file = "{tmp_path}/missing"\n')
    done = treadle("doctor", "--json", TREADLE_MODEL=used)
    assert done.returncode == code, done.stdout
    (groq,) = (one for one in by_name(done.stdout)["provider"] if "groq at" in one["text"])
    assert groq["status"] == status
    assert "cannot read the key file" in groq["text"]


def test_a_provider_in_use_without_a_key_is_a_failure(treadle: Run) -> None:
    done = treadle("doctor", "--json", TREADLE_MODEL="groq:any")
    (groq,) = by_name(done.stdout)["provider"]
    assert (done.returncode, groq["status"]) == (1, "failure")
    assert groq["text"].endswith(": needs a key: set GROQ_API_KEY")


def test_the_key_of_a_provider_that_local_only_excludes_is_not_looked_for(
    treadle: Run, config: Path, tmp_path: Path
) -> None:
    config.write_text(f'[providers.groq]\nkey_command = "touch {tmp_path}/ran"\n')
    treadle("models", "groq", TREADLE_LOCAL_ONLY="1")
    treadle("doctor", TREADLE_LOCAL_ONLY="1")
    assert not (tmp_path / "ran").exists()


# ---- a full disk -------------------------------------------------------------------------------


@pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts() or "-")
def test_a_disk_that_is_full_is_a_failure(fresh_treadle: Run, tmp_path: Path) -> None:
    place = tmp_path / "small"
    with ExitStack() as mounts:
        try:
            mounts.enter_context(mounted("tmpfs", "tmpfs", place, "size=64k"))
        except subprocess.CalledProcessError as error:  # root in a container may not
            pytest.skip(f"nothing can be mounted here: {error.stderr.decode().strip()}")
        home = place / "home"
        store = LocalStore(Places(home / "data", home / "state", home / "config"))
        store.create("treadle/0", workspace="/w").close()
        with suppress(OSError):
            (place / "big").write_bytes(bytes(2**20))
        done = fresh_treadle("doctor", "--json", TREADLE_HOME=str(home))
    found = by_name(done.stdout)
    assert (done.returncode, found["disk"][0]["status"]) == (1, "failure")
    advice = {one["advice"] for name in ("disk", "sync", "index") for one in found.get(name, ())}
    assert [one for one in advice if not one.startswith("make room")] == []
    assert {"disk", "sync", "index"} <= found.keys()


# ---- what threads leave --------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """The threads of the commands' home, with one in it."""
    home = tmp_path / "home"
    store = LocalStore(Places(home / "data", home / "state", home / "config"))
    writer = store.create("treadle/0", workspace="/w")
    writer.close()
    return store


def examined(store: LocalStore) -> dict[str, Finding]:
    """What is said of the data folder, by name; the last line of each."""
    return {one.name: one for one in check_store(store, store.places)}


def test_with_nothing_wrong_only_room_threads_and_index_are_told(store: LocalStore) -> None:
    (store.places.data / ".treadle-doctor-a8x_").touch()  # of one that was killed
    found = examined(store)
    assert {one.name: one.status for one in found.values()} == {
        "threads": "ok",
        "room": "ok",
        "index": "ok",
    }
    assert found["index"].text.endswith("1 threads in it")


def test_the_index_of_a_newer_version_is_answered_by_an_update(store: LocalStore) -> None:
    examined(store)
    with closing(sqlite3.connect(store.places.data / "index.sqlite")) as database:
        database.execute("PRAGMA user_version = 999")
    found = examined(LocalStore(store.places))["index"]
    assert found.status == "warning"
    assert found.advice.startswith("update this Treadle")


@pytest.mark.parametrize(
    ("folder", "name", "finding", "words"),
    [
        ("quarantine", "T-01900000-0000-7000-8000-000000000001.jsonl.1.a", "quarantine", "gc"),
        ("threads/tmp", "T-01900000-0000-7000-8000-000000000001.00", "drafts", "gc"),
        ("threads", "notes.txt", "strangers", "elsewhere"),
    ],
)
def test_what_is_left_in_a_folder_is_told_with_what_to_do(
    store: LocalStore, folder: str, name: str, finding: str, words: str
) -> None:
    path = store.places.data / folder
    path.mkdir(mode=0o700, exist_ok=True)
    (path / name).write_text("left")
    (path / name).chmod(0o600)
    found = examined(store)
    assert set(found) == {"threads", "room", "index", finding}
    assert found[finding].status == "warning"
    assert words in found[finding].advice


def test_an_output_that_no_thread_names_is_told(store: LocalStore) -> None:
    ref = Blobs(store.folders).keep(b"much")
    os.utime(store.places.data / "blobs" / ref.sha256, (1, 1))
    found = examined(store)["outputs"]
    assert (found.status, found.text) == ("warning", "1 outputs that no thread names, 4 B")


def test_a_thread_that_stopped_in_the_middle_is_told_unless_it_is_in_use(store: LocalStore) -> None:
    writer = store.create("treadle/0", workspace="/w")
    fill(writer, *TURN)
    assert "unfinished" not in examined(store)
    writer.close()
    found = examined(store)["unfinished"]
    assert writer.thread_id in found.text
    assert "treadle resume" in found.advice


def test_a_thread_of_a_newer_treadle_is_a_warning_and_no_damage(store: LocalStore) -> None:
    thread = "T-01900000-0000-7000-8000-00000000000b"
    header = ThreadCreated(99, thread, "chat", "treadle/9")
    data, _ = encode_batch(Head(), store.now(), [encode_entry(header)[1]])
    path = Path(store.folders.threads) / f"{thread}.jsonl"
    path.write_bytes(data)
    path.chmod(0o600)
    found = examined(store)["threads"]
    assert found.status == "warning"
    assert "newer Treadle" in found.text


def test_a_damaged_thread_is_told_with_how_to_save_it(store: LocalStore) -> None:
    writer = store.create("treadle/0", workspace="/w")
    fill(writer, *TURN)
    writer.close()
    path = Path(store.folders.threads) / f"{writer.thread_id}.jsonl"
    path.write_bytes(path.read_bytes().replace(b"git_observed", b"git_obserXed"))
    found = examined(store)["threads"]
    assert found.status == "failure"
    assert f"{writer.thread_id} is corrupt" in found.text
    assert "--salvage" in found.advice


@pytest.mark.parametrize("is_folder_closed", [True, False])
def test_files_that_others_can_read_are_told_unless_nobody_gets_in(
    store: LocalStore, is_folder_closed: bool
) -> None:
    journal = next(Path(store.folders.threads).glob("*.jsonl"))
    journal.chmod(0o644)
    store.places.data.chmod(0o700 if is_folder_closed else 0o755)
    found = examined(store)
    assert ("privacy" in found) is not is_folder_closed
    if not is_folder_closed:
        assert found["privacy"].advice == f"chmod -R go= {store.places.data}"


def test_a_network_file_system_is_told(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    line = f"36 35 98:0 / {tmp_path} rw - nfs4 server:/x rw\n35 1 8:1 / / rw - ext4 /dev/sda rw\n"
    mounts.write_text(line + "garbage\n")
    find_type = lambda path, _: find_type_in_proc(path, mounts)  # noqa: E731
    monkeypatch.setattr(store_checks, "find_type", find_type)
    found = examined(store)["file system"]
    assert (found.status, "nfs4" in found.text) == ("warning", True)
    assert "local disk" in found.advice
    mounts.write_text(line.replace("nfs4", "xfs"))
    assert "file system" not in examined(store)


def test_only_as_much_is_read_as_is_quick(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = store.create("treadle/0", workspace="/w")
    fill(writer, *TURN)
    writer.close()
    size = (Path(store.folders.threads) / f"{writer.thread_id}.jsonl").stat().st_size
    monkeypatch.setattr(store_checks, "SIZE_MAX", size)
    assert examined(store)["threads"].text == "2, the last 1 verified"
    monkeypatch.setattr(store_checks, "SIZE_MAX", size + 10_000)
    assert examined(store)["threads"].text == "2, all verified"
