"""The style rules that matter: sizes, names, and what may not stand anywhere."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from house.source import nodes, parsed

pytestmark = pytest.mark.usefixtures("forget_trees")

ROOT: Final = Path(__file__).parent.parent
MODULE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 70
PLACES: Final = ("src", "tests", "bench", "house")
BANNED_NAMES: Final = {"utils", "util", "helpers", "helper", "misc", "common"}
BANNED_WORDS: Final = re.compile(r"\b(?:FIX" + r"ME|TO" + r"DO|XX" + r"X|HA" + r"CK)\b")

TIME_AND_CHANCE: Final = {"time", "random", "uuid", "uuid_utils", "secrets", "datetime"}
MAY_USE: Final = {
    "core/budget.py": {"datetime"},  # reads times that events bring, asks no clock
    "store/id_beginnings.py": {"uuid_utils"},
    "store/local_store.py": {"datetime"},  # the clock of records, the ids of threads
    "store/index/index_update.py": {"time"},  # until when a transaction goes on
    "store/index/usage_rows.py": {"datetime"},  # the day of a record, asks no clock
    "app/sessions/model_list_cache.py": {"datetime"},  # the day on which a list was asked for
    "app/evaluation/result_file.py": {"secrets"},  # the ids of evaluations
    "app/pages/local_site.py": {"secrets"},  # links and cookies
    "app/pages/local_acts.py": {"datetime"},  # until when a request waits
    "pages/act_routes.py": {"secrets"},  # the ids of forms
    "app/remote/acceptance.py": {"datetime"},  # reads times that it is given, asks no clock
    "app/remote/paired_keys.py": {"secrets"},  # pairing codes, names of machines
    # The nonces of statements, until when they hold, and for how long a device waits.
    "app/remote/remote_answers.py": {"datetime", "secrets", "time"},
    "app/sessions/situation.py": {"datetime"},  # the date that an agent is told
    "store/file_replacement.py": {"secrets"},  # names of temporary files
    "platform/shared_sync.py": {"time"},  # how long syncs take
    "store/sqlite_journal_mode.py": {"time"},  # a deadline
    "agent/repositories.py": {"secrets"},  # names of clones
    "agent/schedules.py": {"datetime", "uuid"},  # names; the clock is the queue's
    "fleet/cron.py": {"datetime"},  # times after those that it is given, asks no clock
    "agent/task_lines.py": {"datetime"},  # such a moment in a file, asks no clock
    "agent/job_options.py": {"datetime"},  # the moment at which a job is to begin, asks no clock
    "fleet/job_mark.py": {"datetime"},  # the moment at which a job is to begin, asks no clock
    "fleet/port.py": {"datetime"},  # the moment at which a job is to begin, asks no clock
    "fleet/memory_scheduler.py": {"datetime"},  # whether that has come
    "fleet/procrastinate_scheduler.py": {"datetime"},  # the database's, asks no other clock
    "exchange/times.py": {"datetime"},  # reads the times of other programs, asks no clock
    "store/upkeep/garbage.py": {"datetime"},  # compares times of files and records, asks no clock
    "store_conformance/workers.py": {"time"},  # how long a store takes alone, and a deadline
    "sync/backoff.py": {"datetime"},  # moves times that it is given, asks no clock
    "runtime/turn_timer.py": {"datetime"},  # moves times that events bring, asks no clock
    "workspace/files/loose_objects.py": {"secrets"},  # names of temporary files
    "workspace/files/objects.py": {"time"},  # the dates of commits
    "runtime/performer.py": {"random"},  # the jitter that events carry
    "runtime/session.py": {"secrets"},  # the ids of commands that people run, as facts carry them
    "models/scripted/script.py": {"datetime"},  # what TOML may hold and JSON may not
    "tools/value_types.py": {"datetime"},  # a type that values may have
    "pytest_plugin.py": {"datetime"},  # a clock for tests, which does not ask the time
    "tools/files.py": {"secrets"},  # names of temporary files
    "process/command.py": {"time"},  # deadlines
    "mcp/logins.py": {"time"},  # until when a token holds, as its server counts
    "process/program.py": {"secrets"},  # marks of its own
    "process/termination.py": {"time"},  # rounds in which processes are killed
    "tools/list_files.py": {"time"},  # deadlines
    "sandbox/groups.py": {"secrets", "time"},  # names of groups, deadlines, how old one is
    "sandbox/put_back.py": {"secrets"},  # names of what is put aside
    "models/failures.py": {"time"},  # a server may name the moment to come back
    "server/accounts/times.py": {"datetime"},  # reads the times of requests, asks no clock
    "server/accounts/tokens.py": {"secrets"},  # nobody can guess them
    "server/oidc/attempts.py": {"secrets"},  # nor these
    "server/oidc/provider_client.py": {"time"},  # how long what a provider has said is believed
    "server/http/webhook_sender.py": {
        "datetime"
    },  # the time of a delivery as a number, asks no clock
    "server/webhooks/webhook_settings.py": {"secrets"},  # nobody else can sign
    "app/upkeep/garbage_removal.py": {"datetime"},  # reads the time of the store, asks no clock
    "telemetry/span_fold.py": {"datetime"},  # times of records, read as times
    "app/upkeep/checks.py": {"time"},  # how long a sync takes
    "terminal/chat.py": {"time"},  # the second of two signals
    "app/files/file_names.py": {"time"},  # deadlines, and how long a list of files is fresh
    "terminal/toolkit_application.py": {
        "time"
    },  # frames, and who was typing when a question came up
    "terminal/key_actions.py": {"time"},  # the second of two presses
    "terminal/writer.py": {"time"},  # how long a terminal has read nothing
    "terminal/plain_terminal.py": {"time"},  # how often is told what goes on
    "terminal/chat_startup.py": {"time"},  # the pace of the view
    "app/threads/times.py": {"datetime"},  # `7d` is counted from now, days are those of this place
    "pages/thread_cells.py": {"datetime"},  # how long ago something was is counted from now
    "sync/http_transport.py": {"time"},  # nobody drips for ever
    "app/sync/sync_engine.py": {"random"},  # retries are spread
    "app/sync/continuous_sync.py": {"random"},  # so are those of the stream of changes
    "cli/share_command.py": {"datetime"},  # when a link expires, counted from now
    "cli/device_attributes.py": {"time"},  # how long an answer of the terminal is waited for
    "cli/renderers.py": {"time"},  # the pace of a terminal
    "server/http/logs.py": {"datetime"},  # the times of lines, which the log has taken
    "server/http/request_monitor.py": {
        "secrets",
        "time",
    },  # numbers of requests, how long they take
    "server/http/process.py": {"time"},  # how long a worker has lived
    "server/data/database.py": {"time"},  # how long a transaction has waited for others
    "server/journals/postgres_store.py": {"time"},  # since when the owner is as he was
    "server/journals/writer_lease.py": {"time", "random"},  # when a database is tried again
    "server/http/read_notes.py": {"time"},  # how long an answer waits
    "server/http/services.py": {"time"},  # how fast a caller asks
}
"""Where the program may look at a clock or throw dice, under `src/treadle`, and what for."""

MAY_SLEEP: Final = {
    "src/treadle/process/termination.py",
    "src/treadle/store/index/index_update.py",
    "src/treadle/store/sqlite_journal_mode.py",
}
"""One kills processes in rounds, and the kernel tells nobody when one has stopped; one leaves a
lock to those who ask for it now and then; one waits for a lock on which SQLite does not wait."""

MAY_START: Final = {
    "app/pages/browser.py",  # the person's browser goes on when Treadle ends
    "terminal/external_programs.py",  # they have the terminal, and the person ends them
    "cli/demo/demonstration.py",  # a person's way to run Treadle, and to look at what it did
    "tools/grep.py",  # a program of its own, in whose group what it starts has to stay
}
"""Who imports `subprocess` besides `process/`, where the ways to run a program are."""

NOT_OURS: Final = "src/treadle/cli/demo/project"
"""The small project that the demo mends; its faults are the point of it."""


@cache
def modules() -> tuple[Path, ...]:
    found = [path for name in PLACES for path in (ROOT / name).rglob("*.py")]
    return tuple(sorted(path for path in found if NOT_OURS not in path.as_posix()))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines_of(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(path: Path) -> Iterator[str]:
    """Top-level names of the packages a module imports, anywhere in it."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_there_is_something_to_check() -> None:
    assert len(modules()) > 60
    assert sum(1 for path in modules() for _ in functions(path)) > 500


def test_a_module_has_at_most_five_hundred_lines() -> None:
    long = {name_of(path): lines_of(path) for path in modules()}
    assert {name: size for name, size in long.items() if size > MODULE_LINES_MAX} == {}


def test_a_function_has_at_most_seventy_lines() -> None:
    sizes = {
        f"{name_of(path)}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for path in modules()
        for function in functions(path)
    }
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES_MAX} == {}


def test_no_module_is_named_after_nothing_in_particular() -> None:
    parts = {name_of(path): {*path.relative_to(ROOT).with_suffix("").parts} for path in modules()}
    assert {name for name, found in parts.items() if found & BANNED_NAMES} == set()


def test_nothing_is_left_to_be_done_in_a_comment() -> None:
    found = {
        f"{name_of(path)}:{number}"
        for path in modules()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if BANNED_WORDS.search(line)
    }
    assert found == set()


def _sleeps(path: Path) -> bool:
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "time.sleep":
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            return any(alias.name == "sleep" for alias in node.names)
    return False


def test_nobody_sleeps_but_who_has_nothing_to_wait_for() -> None:
    assert {name_of(path) for path in modules() if _sleeps(path)} == MAY_SLEEP


def test_clocks_and_dice_are_where_they_are_expected_and_nowhere_else() -> None:
    source = ROOT / "src" / "treadle"
    used = {
        path.relative_to(source).as_posix(): found
        for path in modules()
        if path.is_relative_to(source) and (found := TIME_AND_CHANCE & {*imported(path)})
    }
    assert used == MAY_USE


_OF_LOOP: Final = re.compile(r"\b(asyncio\.subprocess|(create_)?subprocess_(exec|shell))\b")


def test_programs_are_run_in_one_place() -> None:
    source = ROOT / "src" / "treadle"
    starting = {
        path.relative_to(source).as_posix()
        for path in modules()
        if path.is_relative_to(source)
        and ("subprocess" in {*imported(path)} or _OF_LOOP.search(path.read_text()))
    }
    assert {name for name in starting if not name.startswith("process/")} == MAY_START
    assert {"process/command.py", "process/program.py"} <= starting


def test_no_test_uses_mocks() -> None:
    """The lab plants bugs with the same tool; that is the opposite of a mock."""
    using = {
        name_of(path)
        for path in modules()
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and re.search(r"\bmock\b", ast.unparse(node))
    }
    assert {name for name in using if not name.startswith("tests/lab/")} == set()


def test_every_module_says_in_a_sentence_what_it_is() -> None:
    for path in modules():
        told = ast.get_docstring(parsed(path))
        assert told, name_of(path)
        assert told.partition("\n\n")[0].rstrip().endswith((".", ":", "?")), name_of(path)


def test_the_name_of_every_test_is_a_sentence() -> None:
    for path in modules():
        if not path.name.startswith("test_"):
            continue
        for function in functions(path):
            if function.name.startswith("test_"):
                assert function.name.count("_") >= 3, f"{name_of(path)}: {function.name}"


@pytest.mark.parametrize(
    ("text", "is_bad"),
    [("# TO" + "DO: x", True), ("FIX" + "ME", True), ("todo list", False), ("XXXL", False)],
)
def test_the_check_for_things_left_undone_sees_them(text: str, is_bad: bool) -> None:
    assert bool(BANNED_WORDS.search(text)) == is_bad


def test_what_measures_can_be_imported_as_its_make_targets_do() -> None:
    measures = (path for path in modules() if path.relative_to(ROOT).parts[0] in ("bench", "house"))
    names = [name_of(path).removesuffix(".py").replace("/", ".") for path in measures]
    assert len(names) > 15
    # Programs of other libraries run where those are installed.
    ours = (one for one in names if not one.endswith("call_trace") and "bench.peers." not in one)
    program = f"import {', '.join(ours)}"
    environment = {**os.environ, "PYTHONPATH": "tests"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
