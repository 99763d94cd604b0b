"""The file of an evaluation: a line for each thing that has happened, durable before the next one.

What is to be run stands in the first line. A case that was begun and has no end was cut by a kill:
it is begun anew, and what it had used counts.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from treadle.app.evaluation.values import CaseResult, EvaluationLimits, EvaluationRequest
from treadle.core.llm import Usage
from treadle.errors import UsageError
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore

_SUFFIX: Final = ".jsonl"
_LOCK_SUFFIX: Final = ".lock"
_ID: Final = re.compile(r"[0-9a-f]{8}")
_PLACE: Final = re.compile(r"eval-([0-9a-f]{8})-\d+")


class Planned(Struct, frozen=True, tag="planned", tag_field="type", omit_defaults=True):
    """What is to be run: the first line."""

    id: str
    at: str
    request: EvaluationRequest
    cases: tuple[str, ...]


class Started(Struct, frozen=True, tag="started", tag_field="type", omit_defaults=True):
    """A process goes on with it, within these limits; `folder` is as in the request."""

    at: str
    limits: EvaluationLimits
    folder: str | None = None


class CaseBegun(Struct, frozen=True, tag="case_begun", tag_field="type"):
    """The thread of a case is there, and nothing was sent yet."""

    case: str
    thread: str


class CaseCut(Struct, frozen=True, tag="case_cut", tag_field="type"):
    """A case that was begun came to no end; so much it had used."""

    case: str
    usage: Usage


class CaseEnded(Struct, frozen=True, tag="case_ended", tag_field="type"):
    """What came of a case."""

    result: CaseResult


Line: TypeAlias = Planned | Started | CaseBegun | CaseCut | CaseEnded

_decode: Final = msgspec.json.Decoder(Line).decode


class ResultFile:
    """An evaluation's file that this process may write. `close` it.

    Args:
        store: where it lies.
        path: the file.
        handle: the file, open for appending.
        lock: the lock that is held.
    """

    def __init__(self, store: LocalStore, path: str, handle: int, lock: int) -> None:
        self._disk = store.folders.disk
        self._path, self._handle, self._lock = path, handle, lock

    def add(self, line: Line) -> None:
        """Make one more line durable. Raises `DiskError`."""
        with convert_os_errors("write", self._path):
            self._disk.write(self._handle, msgspec.json.encode(line) + b"\n")
            self._disk.sync(self._handle)

    def close(self) -> None:
        """Let others write it."""
        self._disk.close(self._handle)
        self._disk.close(self._lock)


def create_file(store: LocalStore, request: EvaluationRequest, cases: Iterable[str]) -> str:
    """A new evaluation, durable when this returns; its id. Raises `DiskError`."""
    disk, folder = store.folders.disk, _folder_of(store)
    evaluation = secrets.token_hex(4)
    path = f"{folder}/{evaluation}{_SUFFIX}"
    planned = Planned(evaluation, store.now(), request, tuple(cases))
    with convert_os_errors("create", path):
        disk.make_folder(folder)
        handle = disk.create(path)
        try:
            disk.write(handle, msgspec.json.encode(planned) + b"\n")
            disk.sync(handle)
        finally:
            disk.close(handle)
        disk.sync_folder(folder)
    return evaluation


@contextmanager
def open_file(store: LocalStore, evaluation: str) -> Generator[ResultFile]:
    """An evaluation for who goes on with it; what a kill has left of a last line is cut.

    Raises:
        UsageError: there is none of this id, or another process is at work on it.
        DiskError: the disk refused.
    """
    disk, path = store.folders.disk, _path_of(store, evaluation)
    with convert_os_errors("open", path):
        lock = disk.lock(path.removesuffix(_SUFFIX) + _LOCK_SUFFIX)
        if lock is None:
            raise UsageError(
                f"another process is at work on evaluation {evaluation}",
                hint="treadle eval list shows how far it is",
            )
        try:
            handle = disk.open_append(path)
            data = disk.read(path)
            if not data.endswith(b"\n"):
                disk.truncate(handle, data.rfind(b"\n") + 1)
        except BaseException:
            disk.close(lock)
            raise
    file = ResultFile(store, path, handle, lock)
    try:
        yield file
    finally:
        file.close()


def read_lines(store: LocalStore, evaluation: str) -> list[Line]:
    """All lines of an evaluation, the first of them `Planned`.

    Raises:
        UsageError: there is none of this id, or its file is damaged.
        DiskError: the disk refused.
    """
    path = _path_of(store, evaluation)
    with convert_os_errors("read", path):
        data = store.folders.disk.read(path)
    whole = data[: data.rfind(b"\n") + 1]
    try:
        lines = [_decode(line) for line in whole.splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is damaged, or of a newer version: {error}") from error
    if not lines or not isinstance(lines[0], Planned):
        raise UsageError(f"{path} does not say what was to be run")
    return lines


def list_ids(store: LocalStore) -> list[str]:
    """The ids of all evaluations. Raises `DiskError`."""
    folder = _folder_of(store)
    with convert_os_errors("list", folder):
        names = store.folders.disk.list(folder, _SUFFIX)
    return [name.removesuffix(_SUFFIX) for name in names]


def list_left_places(store: LocalStore, own: str) -> list[Path]:
    """The worktrees of evaluations at which nobody is at work, and of the own one."""
    disk = store.folders.disk
    found = [
        (one, match[1])
        for one in sorted(Path(store.places.scratch).glob("eval-*"))
        if (match := _PLACE.fullmatch(one.name))
    ]
    return [
        place
        for place, of in found
        if of == own or not disk.is_locked(f"{_folder_of(store)}/{of}{_LOCK_SUFFIX}")
    ]


def place_of(store: LocalStore, evaluation: str, number: int) -> Path:
    """Where the worktree of a case is, counted from 0; no link is in its name.

    Raises:
        UsageError: there is no cache folder.
    """
    if not store.places.scratch:
        raise UsageError("there is no cache folder, in which worktrees could be made")
    return Path(store.places.scratch).resolve() / f"eval-{evaluation}-{number}"


def _folder_of(store: LocalStore) -> str:
    return str(store.places.state / "evaluations")


def _path_of(store: LocalStore, evaluation: str) -> str:
    if not _ID.fullmatch(evaluation) or evaluation not in list_ids(store):
        raise UsageError(
            f"there is no evaluation {evaluation!r}", hint="treadle eval list shows them all"
        )
    return f"{_folder_of(store)}/{evaluation}{_SUFFIX}"
