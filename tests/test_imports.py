"""What the pure layers may name, what `import treadle` costs, and that the core touches nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import grimp

from case_tables import for_every_row

TESTS: Final = Path(__file__).parent

PURE: Final = {
    *("__future__", "collections", "enum", "functools", "msgspec", "operator", "types", "typing"),
}
ALLOWED: Final = {
    "treadle.errors": {"__future__", "collections", "errno"},
    "treadle.mermaid": PURE,
    "treadle.core": PURE,
    "treadle.core.llm": PURE | {"decimal"},
    "treadle.core.media": PURE | {"hashlib", "re", "struct", "zlib"},
    "treadle.core.budget": PURE | {"datetime", "decimal"},
    "treadle.core.chat.machine": PURE | {"logging"},
    "treadle.core.task.machine": PURE | {"logging"},
    "treadle.telemetry": PURE | {"bisect", "contextlib"},
    "treadle.telemetry.span_fold": PURE | {"datetime"},
    "treadle.telemetry.spans": PURE | {"hashlib"},
    "treadle.thread": PURE,
    "treadle.thread.codec": PURE | {"re"},
    "treadle.thread.commits": PURE | {"re"},
    "treadle.thread.ids": PURE | {"re"},
    "treadle.thread.safe_text": PURE | {"re"},
    "treadle.thread.question_digest": PURE | {"hashlib"},
    "treadle.thread.question_text": PURE | {"json", "re"},
    "treadle.thread.record": PURE | {"hashlib", "re"},
    "treadle.thread.snapshot": PURE | {"hashlib"},
}
"""By the longest name that fits. An allow-list, because nobody thinks of forbidding `pickle`."""

DIRECTION: Final = {
    "treadle.errors": set[str](),
    "treadle.mermaid": set[str](),
    "treadle.core": {"treadle.core", "treadle.errors", "treadle.mermaid"},
    "treadle.thread": {"treadle.core", "treadle.errors", "treadle.thread"},
    "treadle.telemetry": {
        *("treadle.core", "treadle.telemetry", "treadle.thread", "treadle.version"),
    },
}

HEAVY: Final = {
    *("asyncio", "sqlite3", "socket", "ssl", "subprocess", "click", "msgspec", "platformdirs"),
    *("uuid_utils", "importlib.metadata", "logging", "http", "email", "inspect", "dataclasses"),
    *("json", "random", "hashlib", "tempfile", "unittest", "concurrent", "multiprocessing"),
}


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("treadle", include_external_packages=True)


def fitting(module: str) -> str:
    return max((name for name in ALLOWED if f"{module}.".startswith(f"{name}.")), key=len)


def pure_modules() -> list[str]:
    return sorted(
        module
        for module in graph().modules
        if any(f"{module}.".startswith(f"{n}.") for n in ALLOWED)
    )


def test_there_are_pure_modules_to_check() -> None:
    assert len(pure_modules()) > 25


@for_every_row("module", pure_modules())
def test_a_pure_module_names_what_it_may_and_nothing_else(module: str) -> None:
    named = {
        name
        for name in graph().find_modules_directly_imported_by(module)
        if not name.startswith("treadle")
    }
    assert named <= ALLOWED[fitting(module)]


@for_every_row("module", pure_modules())
def test_the_pure_layers_import_downwards_only(module: str) -> None:
    layer = ".".join(module.split(".")[:2])
    for name in graph().find_modules_directly_imported_by(module):
        if name.startswith("treadle"):
            assert ".".join(name.split(".")[:2]) in DIRECTION[layer]


def test_no_permission_is_left_over() -> None:
    used: dict[str, set[str]] = {name: set() for name in ALLOWED}
    for module in pure_modules():
        used[fitting(module)] |= graph().find_modules_directly_imported_by(module)
    assert "logging" in used["treadle.core.chat.machine"]
    assert "re" in used["treadle.thread.ids"]
    assert {"re", "hashlib"} <= used["treadle.thread.record"]
    assert "hashlib" in used["treadle.thread.snapshot"]
    assert {*ALLOWED} == {fitting(module) for module in pure_modules()}


def python(*arguments: str | Path) -> str:
    """What a Python program prints; it can import the tests."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def loaded_by(statement: str) -> set[str]:
    """The modules that a statement loads in a bare interpreter, beyond those of its start."""
    program = (
        f"import sys; before = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    )
    return set(python("-I", "-c", program).split())


def test_importing_treadle_loads_nothing_heavy() -> None:
    loaded = loaded_by("import treadle")
    assert "treadle" in loaded
    assert {name for name in loaded if name.split(".")[0] in HEAVY or name in HEAVY} == set()
    assert {name for name in loaded if name.startswith("treadle")} == {
        "treadle",
        "treadle.version",
    }


def test_importing_the_pure_layers_loads_no_adapter_and_no_event_loop() -> None:
    loaded = loaded_by("import treadle.thread.snapshot, treadle.core.chat.table")
    foreign = {"asyncio", "sqlite3", "socket", "subprocess", "click", "platformdirs", "random"}
    assert loaded & foreign == set()
    layers = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("treadle.")}
    layers_expected = {"core", "errors", "mermaid", "thread", "version"}
    assert layers == {f"treadle.{name}" for name in layers_expected}


def test_a_session_of_the_pure_core_touches_nothing_outside() -> None:
    """No file, socket, process or import, from the first event to the snapshot."""
    program = TESTS / "thread" / "scripted_program.py"
    assert python(program, "--audit") == ""


def test_the_audit_sees_a_door_that_is_opened() -> None:
    program = (
        "import logging, sys\n"
        "logging.NullHandler.handle = lambda *_: open(sys.executable, 'rb').close()\n"
        "from thread.scripted_program import audited\n"
        "print(audited(1))\n"
    )
    assert "open (" in python("-c", program)
