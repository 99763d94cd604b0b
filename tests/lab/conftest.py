"""Where the shim is compiled and the driver runs."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.kills import Workshop
from lab.layers import SEED
from lab.shim import DriverProcess, compile_shim, compiler
from lab.suites import Report

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux":
        pytest.skip("the crash shim is preloaded as Linux does it")
    if compiler() is None:
        pytest.skip("no C compiler: the crash shim cannot be built")
    return compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: what is killed here never loses its pages."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="treadle-lab-", dir=MEMORY))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def driver_process(shim_library: Path) -> Iterator[DriverProcess]:
    driver = DriverProcess(shim_library)
    yield driver
    driver.close()


@pytest.fixture
def workshop(driver_process: DriverProcess, fast_folder: Path) -> Workshop:
    return Workshop(driver_process, fast_folder)


@pytest.fixture
def clean(record_property: Callable[[str, object], None]) -> Callable[[str, Report], None]:
    """Says what a suite did, with its seed, and that it found nothing."""

    def check(name: str, report: Report) -> None:
        line = report.say(f"{name} (seed {SEED})")
        print(line)  # noqa: T201  shown when the test fails, or with -rP
        record_property("lab", line)
        assert report.run_count + report.checked_count > 0
        assert report.violations == []

    return check
