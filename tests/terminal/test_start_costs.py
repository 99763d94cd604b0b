"""What a start does before the person is heard, and before a request leaves: what it must."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from cli.conftest import Run
from cli.test_model_wiring import configure
from cli.test_real_models import Shell
from cli.test_start import begun
from models.loopback import Loopback, stream
from models.speakers import SPEAK
from started_programs import StartRecord
from terminal.harness import BACKSPACE, Screen
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.terminal.idle_imports import MODULES

HEARD: Final = "treadle.terminal.layout"
"""The last module but styles that is imported before the input hears keys."""

LATER: Final = (
    "treadle.app.sessions.setup",
    "treadle.app.stores",
    "treadle.models.wire",
    "treadle.runtime",
    "treadle.sandbox",
    "treadle.secrets",
    "treadle.store.index",
    "treadle.store.local_store",
    "treadle.thread.fold",
    "treadle.tools",
    "treadle.workspace.git",
)
"""What each chat imports, and none before its input hears keys: it takes longer than all else."""

NEVER_AT_A_START: Final = (
    "anthropic",
    "openai",
    "pydantic",
    "genai_prices",
    "jsonschema",
    "justhtml",
    "PIL",
    "treadle.server",
    "treadle.sync.client",
    "jinja2",
)

SEARCHED_MAX: Final = 60_000
"""Objects among which garbage is looked for at a time; keys wait meanwhile."""


@pytest.fixture
def record(tmp_path: Path) -> StartRecord:
    folder = tmp_path / "recorder"
    folder.mkdir()
    return StartRecord(folder)


@pytest.fixture
def shell(repository: Path, environment: dict[str, str]) -> Shell:
    return Shell(repository, environment)


@pytest.fixture
def store(environment: dict[str, str], repository: Path) -> LocalStore:
    """Threads of this folder and of another; work on one here was stopped."""
    store = LocalStore(Places.find(environment))
    for folder in (repository, repository.parent):
        begun(store, folder)
    return store


def test_a_turn_looks_once_at_the_threads_and_imports_what_it_needs(
    fresh_treadle: Run, store: LocalStore, repository: Path, record: StartRecord, model: str
) -> None:
    done = fresh_treadle("-p", "hello", "-m", model, cwd=repository, **record.environment)
    assert (done.returncode, done.stdout) == (0, "Hello there.\n")
    assert "is unfinished here" in done.stderr
    imported = record.list_imports()
    assert [one for one in (*NEVER_AT_A_START, "rich", "prompt_toolkit") if one in imported] == []
    assert record.count_listings(Path(store.folders.threads)) == 1
    assert record.count_listings(Path(store.folders.trash)) == 0


async def test_a_request_leaves_without_the_sdks_of_the_providers(
    shell: Shell, record: StartRecord
) -> None:
    shell.environment.update(record.environment)
    wrong = []
    for api, url in (("anthropic-messages", ""), ("openai-chat", "/v1"), ("openai-responses", "")):
        async with Loopback(stream(SPEAK[api]("Hello there.", ()))) as server:
            settings = f'[providers.one]\napi = "{api}"\nbase_url = "{server.url}{url}"\n'
            settings += 'needs_key = false\n[model_traits."one:*"]\ncontext_tokens_max = 100_000\n'
            configure(shell.environment, settings)
            done = await shell("-p", "hello", "-m", "one:big")
            wrong += [] if done.stdout == "Hello there.\n" else [(api, done)]
    imported = {name.partition(".")[0] for name in record.list_imports()}
    assert (wrong, imported & {"anthropic", "openai", "jsonschema", "rich"}) == ([], set())


def test_a_chat_looks_once_at_the_threads_and_hears_keys_before_what_is_heavy(
    environment: dict[str, str],
    store: LocalStore,
    repository: Path,
    record: StartRecord,
    model: str,
) -> None:
    command = [sys.executable, "-P", "-m", "treadle", "-m", model]
    with Screen(command, cwd=repository, env={**environment, **record.environment}) as screen:
        screen.wait_for("1 unfinished: /resume")
        screen.type("\x04")
        assert screen.wait_for_end() == 0
    imported = record.list_imports()
    heard = imported.index(HEARD)
    early = [one for one in LATER if one in imported[:heard]]
    assert (early, [one for one in LATER if one not in imported]) == ([], [])
    assert [one for one in NEVER_AT_A_START if one in imported] == []
    assert record.count_listings(Path(store.folders.threads)) == 1
    assert record.count_listings(Path(store.folders.trash)) == 0


def test_a_chat_imports_what_an_answer_needs_while_keys_are_heard(
    environment: dict[str, str], repository: Path, record: StartRecord, model: str
) -> None:
    command = [sys.executable, "-P", "-m", "treadle", "-m", model]
    with Screen(command, cwd=repository, env={**environment, **record.environment}) as screen:
        screen.wait_for("a new thread")
        while MODULES[-1] not in (before := record.list_imports()):
            screen.type("x")
            screen.wait_for("> x")
            screen.type(BACKSPACE)
            screen.wait_until_gone("> x")
        screen.type("hello\r")
        screen.wait_for("Hello there.")
        screen.type("\x04")
        assert screen.wait_for_end() == 0
    late = {name.partition(".")[0] for name in record.list_imports()[len(before) :]}
    assert late & {"markdown_it", "pygments", "rich"} == set()
    assert max(record.list_searches(HEARD)) <= SEARCHED_MAX
