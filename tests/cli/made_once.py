"""What the tests of a module begin with, made once for all of them.

A module that imports `place`, `tmp_path` and `once` has one folder for all of its tests: paths
stand in what is made. A fixture that has its work done by `once` does it for the first test; for
each that follows, the folder is as that work had left it, whatever the tests before did.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import Struct

T = TypeVar("T")

Once = Callable[[Callable[[], T]], T]


class Place(Struct):
    """The folder of a module's tests, and by its name what each work left there and returned."""

    folder: Path
    kept: Path
    returned: dict[str, object]

    def empty(self) -> None:
        """As for a first test."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def make(self, name: str, work: Callable[[], T]) -> T:
        """What the work returns, with its files; it is done if it never was."""
        if name in self.returned:
            _copy(self.kept / name, self.folder)
        else:
            self.returned[name] = work()
            _copy(self.folder, self.kept / name)
        return self.returned[name]  # type: ignore[return-value]


def _copy(folder: Path, to: Path) -> None:
    """All of a folder with its times, links and pipes, in the place of what is there."""
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", "--", folder, to], check=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The folder of this module's tests."""
    kept = tmp_path_factory.mktemp("kept")
    return Place(tmp_path_factory.mktemp("place") / "folder", kept, {})


@pytest.fixture
def tmp_path(place: Place) -> Path:
    """Empty; in the same place for each test."""
    place.empty()
    return place.folder


@pytest.fixture
def once(place: Place) -> Callable[[Callable[[], T]], T]:
    """Does the work of a fixture once: by the name of the function that is given."""

    def make(work: Callable[[], T]) -> T:
        return place.make(work.__qualname__, work)

    return make
