"""`treadle export`: threads for people, programs and other machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.made_once import Once
from cli.made_once import once as once
from cli.made_once import place as place
from cli.made_once import tmp_path as tmp_path
from cli.test_run import HELLO
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.facts import Annotated

FORMATS = ("json", "jsonl", "markdown", "html")


@pytest.fixture
def thread(treadle: Run, script: Callable[[str], str], once: Once[str]) -> str:
    """The id of a thread with one turn."""

    def make() -> str:
        assert treadle("-p", "hello there", "-m", script(HELLO)).returncode == 0
        [line] = json.loads(treadle("list", "--json").stdout)
        return str(line["id"])

    return once(make)


@pytest.fixture
def store(environment: dict[str, str]) -> LocalStore:
    return LocalStore(Places.find(environment))


def journal(environment: dict[str, str], thread: str) -> Path:
    return Path(environment["TREADLE_HOME"]) / "data" / "threads" / f"{thread}.jsonl"


def test_each_format_goes_to_stdout_and_nothing_else_does(
    treadle: Run, thread: str, environment: dict[str, str]
) -> None:
    shown = json.loads(treadle("show", thread, "--json").stdout)
    assert json.loads(treadle("export", thread, "--format", "json").stdout) == shown
    whole = journal(environment, thread).read_text()
    assert treadle("export", thread, "--format", "jsonl").stdout == whole
    markdown = treadle("export", thread)
    assert (markdown.returncode, markdown.stderr) == (0, "")
    assert markdown.stdout.startswith("# hello there\n")
    assert "> hello there" in markdown.stdout
    page = treadle("export", thread, "--format", "html", "-o", "-").stdout
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_is_for_its_user_alone_and_never_replaced_unasked(
    treadle: Run, thread: str, form: str, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    done = treadle("export", thread, "--format", form, "-o", str(target))
    assert (done.returncode, done.stdout) == (0, "")
    assert target.read_text() == treadle("export", thread, "--format", form).stdout
    assert target.stat().st_mode & 0o777 == 0o600
    target.write_text("mine")
    again = treadle("export", thread, "--format", form, "-o", str(target))
    assert (again.returncode, target.read_text()) == (2, "mine")
    assert "--force replaces it" in again.stderr
    forced = treadle("export", thread, "--format", form, "-o", str(target), "--force")
    assert forced.returncode == 0
    assert target.read_text() != "mine"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".out")]


@pytest.mark.parametrize("target", ["nowhere/out", "."])
def test_a_place_where_no_file_can_be_is_refused(treadle: Run, thread: str, target: str) -> None:
    assert treadle("export", thread, "-o", target).returncode == 2


def test_a_thread_is_exported_as_it_stood_at_a_version(
    treadle: Run, thread: str, environment: dict[str, str]
) -> None:
    first = journal(environment, thread).read_text().splitlines(keepends=True)[0]
    assert treadle("export", thread, "--format", "jsonl", "--version", "1").stdout == first
    assert "> hello" not in treadle("export", thread, "--version", "1").stdout
    none = treadle("export", thread, "--version", "999")
    assert (none.returncode, none.stdout) == (2, "")


@pytest.mark.parametrize("form", FORMATS)
def test_what_holds_a_known_secret_is_held_back(
    treadle: Run, script: Callable[[str], str], form: str
) -> None:
    key = {"SOME_API_KEY": "zq81-xyzzy-4711-plugh"}
    treadle("-p", f"use {key['SOME_API_KEY']}", "-m", script(HELLO))
    [line] = json.loads(treadle("list", "--json").stdout)
    thread = line["id"]
    assert treadle("export", thread, "--format", form).returncode == 0
    held = treadle("export", thread, "--format", form, **key)
    assert (held.returncode, held.stdout) == (1, "")
    assert "secrets stand in thread" in held.stderr
    assert f"treadle scrub {thread} --found" in held.stderr
    forced = treadle("export", thread, "--format", form, "--with-secrets", **key)
    assert forced.returncode == 0
    assert key["SOME_API_KEY"] in forced.stdout


def test_a_private_thread_leaves_this_machine_only_by_force(
    treadle: Run, script: Callable[[str], str]
) -> None:
    treadle("-p", "hush", "-m", script(HELLO), "--private")
    [line] = json.loads(treadle("list", "--json").stdout)
    for form in FORMATS:
        refused = treadle("export", line["id"], "--format", form)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "--force exports it" in refused.stderr
        done = treadle("export", line["id"], "--format", form, "--force")
        assert done.returncode == 0
        assert "this thread is private" in done.stderr


def test_what_a_thread_is_now_says_whether_it_is_private_at_every_version(
    treadle: Run, script: Callable[[str], str], thread: str
) -> None:
    first = ("export", thread, "--format", "jsonl", "--version", "1")
    assert treadle(*first).returncode == 0
    assert treadle("private", thread).returncode == 0
    held = treadle(*first)
    assert (held.returncode, held.stdout) == (1, "")
    assert treadle("private", thread, "--off", "--yes").returncode == 0
    for form in FORMATS:
        done = treadle("export", thread, "--format", form)
        assert (done.returncode, done.stderr) == (0, "")
    assert treadle("-p", "hush", "-m", script(HELLO), "--private").returncode == 0
    hushed = json.loads(treadle("list", "--json").stdout)[0]["id"]
    early = ("export", hushed, "--format", "jsonl", "--version", "1")
    assert treadle(*early).returncode == 1
    assert treadle("private", hushed, "--off", "--yes").returncode == 0
    assert treadle(*early).returncode == 0, "its header still says that it began so"


def test_a_torn_end_is_left_out_and_told(
    treadle: Run, thread: str, environment: dict[str, str]
) -> None:
    path = journal(environment, thread)
    whole = path.read_text()
    with path.open("a") as file:
        file.write('{"seq":99,"at":"2026')
    done = treadle("export", thread, "--format", "jsonl")
    assert (done.returncode, done.stdout) == (0, whole)
    assert "left out: 20 bytes of an unfinished write" in done.stderr


def test_a_damaged_thread_exports_its_intact_part_and_fails(
    treadle: Run, thread: str, environment: dict[str, str]
) -> None:
    path = journal(environment, thread)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[2].replace("a", "b", 1), *lines[3:]]))
    path.with_suffix(".json").unlink(missing_ok=True)
    for form in ("jsonl", "markdown", "html"):
        done = treadle("export", thread, "--format", form)
        assert done.returncode == 1
        assert "the thread is damaged" in done.stderr
        assert done.stdout
    assert treadle("export", thread, "--format", "jsonl").stdout == "".join(lines[:2])
    assert treadle("export", thread, "--format", "json").returncode == 1


def test_a_fork_takes_along_what_it_goes_on_from(
    treadle: Run, thread: str, store: LocalStore, tmp_path: Path
) -> None:
    fork = store.fork(thread, creator="treadle/0.1.0", first=[Annotated("mine")])
    fork.close()
    told = treadle("export", fork.thread_id).stdout
    assert "> hello there" in told
    assert f"{fork.thread_id} goes on from here" in told
    target = tmp_path / "fork.jsonl"
    treadle("export", fork.thread_id, "--format", "jsonl", "-o", str(target))
    elsewhere = {"TREADLE_HOME": str(tmp_path / "elsewhere")}
    taken = json.loads(treadle("import", str(target), "--json", **elsewhere).stdout)
    assert [one["thread"] for one in taken] == [thread, fork.thread_id]
    documents = [
        json.loads(treadle("show", fork.thread_id, "--json", **place).stdout)
        for place in ({}, elsewhere)
    ]
    assert documents[0] == documents[1]
    assert treadle("verify", **elsewhere).returncode == 0


def test_nothing_is_exported_of_a_fork_whose_base_is_gone(
    treadle: Run, thread: str, store: LocalStore, environment: dict[str, str]
) -> None:
    fork = store.fork(thread, creator="treadle/0.1.0", first=[Annotated("mine")])
    fork.close()
    for path in journal(environment, thread).parent.glob(f"{thread}.*"):
        path.unlink()
    for form in ("jsonl", "markdown", "html"):
        done = treadle("export", fork.thread_id, "--format", form)
        assert (done.returncode, done.stdout) == (1, ""), form
        assert "what it was forked from is gone" in done.stderr


def test_a_thread_that_is_not_there_is_a_mistake_of_the_caller(treadle: Run) -> None:
    assert treadle("export", "T-0").returncode == 2


def test_a_link_that_leads_nowhere_is_in_the_way_like_a_file(
    treadle: Run, thread: str, tmp_path: Path
) -> None:
    link = tmp_path / "link.md"
    link.symlink_to("nowhere")
    done = treadle("export", thread, "-o", str(link))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"treadle: {link} is there already\n         --force replaces it\n"
    assert treadle("export", thread, "-o", str(link), "--force").returncode == 0
    assert link.is_file()
    assert not link.is_symlink()


def test_a_file_may_have_the_longest_name_there_is(
    treadle: Run, thread: str, tmp_path: Path
) -> None:
    target = tmp_path / ("x" * 255)
    assert treadle("export", thread, "-o", str(target)).returncode == 0
    assert target.is_file()
