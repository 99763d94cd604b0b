"""Everything in this folder runs in a machine to throw away: see `machine.py`.

A test that is about to run here is run by another pytest, in such a machine; what it reports is
reported here. There are at most two of them for each worker: one of root's, one of nobody's, for
tests marked `as_nobody`. Who is not root has one, of their own.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

from escapes.machine import NOBODY, Machine, find_unshare, is_inside

HERE: Final = Path(__file__).parent
FDS: Final = "TREADLE_TEST_MACHINE_FDS"
OUTSIDE: Final = "test_machine.py"
"""What looks at the machine from the outside."""
TEST_S_MAX: Final = 100
START_S_MAX: Final = 60.0
IS_CAPABLE: Final = os.getuid() == 0 and shutil.which("bwrap") is not None
"""Whether everything can run here: then nothing may be skipped."""

_machines: Final[dict[int, Runner]] = {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "as_nobody: runs as the user nobody, if root runs the tests")
    if FDS in os.environ:
        assert is_inside()
        config.pluginmanager.register(Inner())


def pytest_unconfigure() -> None:
    while _machines:
        _machines.popitem()[1].close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if is_inside() or item.path.parent != HERE or item.path.name == OUTSIDE:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in run_inside(item, nextitem):
        forbid_skip(report)
        item.ihook.pytest_runtest_logreport(report=report)
    tear_down(item, nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def tear_down(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End here what a test before has left for others of its folder, if no other comes.

    Else the next one finds it and fails. There is no public way to it.
    """
    call = pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(nextitem),
        when="teardown",
        reraise=(KeyboardInterrupt,),
    )
    if call.excinfo:
        report = pytest.TestReport.from_item_and_call(item, call)
        item.ihook.pytest_runtest_logreport(report=report)


def forbid_skip(report: pytest.TestReport) -> None:
    """Make a failure of it if a test is skipped where it could run."""
    if IS_CAPABLE and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"it was skipped, though all that it needs is here: {report.longrepr}"


def user_of(item: pytest.Item | None) -> int:
    is_nobody = item is not None and item.get_closest_marker("as_nobody") and os.getuid() == 0
    return NOBODY if is_nobody else os.getuid()


def run_inside(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """What came of a test."""
    user = user_of(item)
    if user not in _machines:
        _machines[user] = Runner(item.config, user)
    stays = nextitem is not None and nextitem.path == item.path and user_of(nextitem) == user
    following = nextitem.nodeid if nextitem is not None and stays else ""
    try:
        return [as_report(item.config, data) for data in _machines[user].run(item, following)]
    except (OSError, ValueError, TimeoutError) as error:
        words = f"the machine is lost: {error!r}\n{_machines.pop(user).close()}"
        return [
            pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call", duration=0)
        ]


def as_report(config: pytest.Config, data: dict[str, Any]) -> pytest.TestReport:
    report = config.hook.pytest_report_from_serializable(config=config, data=data)
    assert isinstance(report, pytest.TestReport)
    if isinstance(report.longrepr, list):
        report.longrepr = tuple(report.longrepr)
    return report


class Runner:
    """A pytest in a machine, as somebody."""

    def __init__(self, config: pytest.Config, user: int) -> None:
        asked, self._asking = os.pipe()
        self._told, telling = os.pipe()
        env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        unshare = find_unshare()
        assert unshare, "unshare, of util-linux, makes the machine in which all this runs"
        options = ["-n", "0", "-m", "", "--rootdir", str(config.rootpath)]
        options += ["-p", "no:cacheprovider", "--timeout", str(TEST_S_MAX)]
        self._machine: Final = Machine(
            [sys.executable, "-m", "pytest", *options, str(HERE)],
            cwd=str(config.rootpath),
            env={**env, FDS: f"{asked} {telling}", "PYTHONDONTWRITEBYTECODE": "1"},
            user=user,
            fds=(asked, telling),
        )
        os.close(asked)
        os.close(telling)
        self._buffer = b""
        self._is_up = False

    def run(self, item: pytest.Item, following: str) -> list[dict[str, Any]]:
        """The reports of a test.

        Raises:
            OSError, ValueError, TimeoutError: the machine does not answer.
        """
        if not self._is_up:
            self._answer(START_S_MAX)
            self._is_up = True
        os.write(self._asking, json.dumps([item.nodeid, following]).encode() + b"\n")
        found: list[dict[str, Any]] = self._answer(TEST_S_MAX + 15)
        return found

    def _answer(self, time_s: float) -> Any:
        ends = time.monotonic() + time_s
        while b"\n" not in self._buffer:
            if not select.select([self._told], [], [], max(0.0, ends - time.monotonic()))[0]:
                raise TimeoutError("it says nothing")
            part = os.read(self._told, 1 << 20)
            if not part:
                raise OSError("it has ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def close(self) -> str:
        os.close(self._asking)
        os.close(self._told)
        return self._machine.close()


class Inner:
    """Runs in a machine what is asked for."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        asked, telling = map(int, os.environ.pop(FDS).split())
        for fd in asked, telling:
            os.set_inheritable(fd, False)
        items = {item.nodeid: item for item in session.items}
        tell(telling, sorted(items)[:1])
        for nodeid, following in lines_of(asked):
            reports = runtestprotocol(items[nodeid], log=False, nextitem=items.get(following))
            to_data = session.config.hook.pytest_report_to_serializable
            tell(telling, [to_data(config=session.config, report=report) for report in reports])
        return True


def tell(fd: int, what: object) -> None:
    data = json.dumps(what, default=str).encode() + b"\n"
    while data:
        data = data[os.write(fd, data) :]


def lines_of(fd: int) -> Iterator[list[str]]:
    with open(fd, "rb") as file:
        for line in file:
            yield json.loads(line)
