"""The real command, killed and hindered from outside: it says so by its exit code, and goes on."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from lab.command import DONE, KILLED, TRY_LATER, USAGE, Command
from lab.kills import failing, killing
from lab.layers import SEED
from lab.shim import Arming
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places


@pytest.fixture
def fresh(shim_library: Path, fast_folder: Path) -> Iterator[Command]:
    numbers = iter(range(10_000))
    return (Command(shim_library, fast_folder / str(number)) for number in numbers)


def kinds_of(command: Command, folder: Path) -> str:
    """The calls of an undisturbed first turn."""
    path = folder / "kinds"
    status, said = command.work_on(CRASH_KINDS=str(path))
    assert (status, "It is done." in said) == (DONE, True), said
    assert command.effects.read_text() == "ran\n"
    return path.read_text()


def hinder(fresh: Iterator[Command], armings: list[Arming]) -> list[str]:
    """The first turn so armed, then a second process; what is wrong."""
    found = []
    for arming in armings:
        command = next(fresh)
        status, said = command.work_on(arming, CRASH_KINDS=str(command.work / "kinds"))
        expected = (DONE, TRY_LATER) if arming.number else (KILLED,)
        if status == DONE and arming.at > len((command.work / "kinds").read_text()):
            expected = (DONE,)  # what is shown live had ended before it was written
        if status not in expected or "Traceback" in said:
            found.append(f"{arming}: ended with {status}: {said}")
        elif status == DONE and "It is done." not in said:
            found.append(f"{arming}: done, but not said: {said}")
        found += [f"{arming}: then {text}" for text in command.go_on()]
    return found


Pick = Callable[[str], Iterator[Arming]]


@pytest.mark.parametrize("pick", [killing, failing])
def test_a_disturbed_command_tells_by_its_exit_code_and_the_next_one_goes_on(
    pick: Pick, fresh: Iterator[Command], tmp_path: Path
) -> None:
    armings = list(pick(kinds_of(next(fresh), tmp_path)))
    assert len(armings) > 40
    assert hinder(fresh, Random(SEED).sample(armings, 4)) == []


def test_a_thread_whose_id_was_told_has_its_prompt_and_can_be_resumed_without_more(
    fresh: Iterator[Command], tmp_path: Path
) -> None:
    """Killed at each call from the journal's making to what is recorded before the request."""
    kinds = kinds_of(next(fresh), tmp_path)
    made = kinds.index("cws")
    window = range(made + 1, kinds.index("ws", made + 3) + 3)
    kills = [one for one in killing(kinds) if one.at in window and one.mode != "after"]
    wrong, told = list[str](), 0
    for arming in kills:
        command = next(fresh)
        status, said = command.work_on(arming)
        threads = sorted((command.home / "data/threads").glob("T-*.jsonl"))
        named = re.findall(r"thread (T-[0-9a-f-]+)", said)
        told += len(named)
        if status != KILLED or len(threads) < len(named):
            wrong.append(f"{arming}: {status}: {said}")
        for thread in threads:
            status, said = command.run("resume", thread.stem)
            was_told = thread.stem in named
            if status != DONE or "It is done." not in said:
                # Half of the write may have come to the disk; nobody was told of it.
                is_plain = status == USAGE and re.search("is empty|no intact record", said)
                wrong += [] if is_plain and not was_told else [f"{arming}: then {status}: {said}"]
    assert wrong == []
    assert told


def test_an_empty_thread_says_so_and_is_not_what_minus_c_goes_on_with(
    fresh: Iterator[Command],
) -> None:
    command = next(fresh)
    assert command.work_on()[0] == DONE
    places = Places.find({"TREADLE_HOME": str(command.home)})
    work = str(command.work)
    with closing(LocalStore(places).create("an older treadle", workspace=work)) as empty:
        thread = empty.thread_id
    model = f"scripted:{command.home.parent / 'hello.toml'}"
    status, said = command.run("resume", thread, "-m", model)
    assert (status, f"thread {thread} is empty" in said) == (USAGE, True), said
    assert f"treadle resume {thread} -p PROMPT" in said
    status, said = command.run("-c", "-p", "go on", "-m", model)
    assert (status, thread in said) == (DONE, False), said


@pytest.mark.torture
@pytest.mark.parametrize("pick", [killing, failing])
def test_a_command_can_be_disturbed_at_any_call(
    pick: Pick, fresh: Iterator[Command], tmp_path: Path
) -> None:
    assert hinder(fresh, list(pick(kinds_of(next(fresh), tmp_path)))) == []


def test_a_full_disk_ends_the_command_with_75_and_names_the_file(
    fresh: Iterator[Command], tmp_path: Path
) -> None:
    kinds = kinds_of(next(fresh), tmp_path)
    command = next(fresh)
    arming = Arming(fail_from=kinds.index("w") + 2, number=errno.ENOSPC)
    status, said = command.work_on(arming)
    assert status == TRY_LATER
    assert ".jsonl" in said
    assert "No space left" in said
    assert command.go_on() == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=errno.errorcode.get)
def test_settings_that_cannot_be_read_just_now_are_no_mistake_of_the_person(
    fresh: Iterator[Command], number: int
) -> None:
    command = next(fresh)
    status, said = command.work_on(Arming(fail_at=1, number=number))
    assert status == TRY_LATER
    assert "config.toml" in said
    assert command.go_on() == []
