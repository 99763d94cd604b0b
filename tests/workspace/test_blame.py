"""Whom lines come from: commits, agents that left them uncommitted, or nobody known."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.errors import TreadleError, UsageError
from treadle.workspace import blame as blaming
from treadle.workspace.blame import SavedBy, blame
from treadle.workspace.files.states import FileStates
from treadle.workspace.provenance import Reference
from workspace.repo import TRAILER, Repo

THREAD = "T-01890a5d-ac96-774b-bcce-b302099a8057"
OTHER = "T-01890a5d-ac96-774b-bcce-b302099a8058"

NOBODY = "nobody"


async def whom(path: Path, first: int = 1, last: int | None = None) -> list[str]:
    """Whom each line comes from: a subject, a thread, both, or nobody."""
    found = await blame(path, first, last)
    lines = list[str]()
    for run in found.runs:
        assert run.first == first + len(lines)
        who = [run.commit.subject] if run.commit else []
        who += [run.saved.thread] if run.saved else []
        lines += [" ".join(who) or NOBODY] * (run.last - run.first + 1)
    assert len(lines) == len(found.text)
    return lines


def write(repo: Repo, name: str, *lines: str) -> Path:
    return repo.write(name, "".join(line + "\n" for line in lines))


def commit(repo: Repo, message: str, *, at_s: int | None = None) -> str:
    repo.git("add", "--all")
    extra = {} if at_s is None else {"GIT_COMMITTER_DATE": f"@{at_s} +0000"}
    command = ("git", "commit", "--quiet", "-m", message)
    subprocess.run(command, cwd=repo.path, env={**os.environ, **extra}, check=True)
    return repo.head


def save(repo: Repo, thread: str, moment: str, *, at_s: int = 2_000_000_000) -> str:
    """Keep the files as a state of a thread, the way it is written down."""
    ref = f"refs/treadle/{thread}"
    date = f"@{at_s} +0000"
    index = repo.path / ".git" / "other-index"
    environment = {
        **os.environ,
        "GIT_INDEX_FILE": str(index),
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
    }

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ("git", *arguments), cwd=repo.path, env=environment, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("add", "--all")
    parent = git("rev-parse", "--verify", "--quiet", ref) or git("rev-parse", "--verify", "HEAD")
    message = f"{moment}\n\nTreadle-Thread: {thread}\nTreadle-Moment: {moment}\n"
    follows = ("-p", parent) if parent else ()
    made = git("commit-tree", git("write-tree"), *follows, "-m", message)
    git("update-ref", ref, made)
    index.unlink()
    return made


async def test_a_committed_line_is_its_commits_with_the_threads_of_its_trailers(repo: Repo) -> None:
    path = write(repo, "x", "one", "two", "three")
    commit(repo, "person")
    write(repo, "x", "one", "zwei", "three")
    made = commit(repo, f"agent\n\n{TRAILER}")
    found = await blame(path)
    assert [(run.first, run.last) for run in found.runs] == [(1, 1), (2, 2), (3, 3)]
    run = found.runs[1]
    assert run.commit is not None
    assert (run.commit.hash, run.commit.threads) == (made, (Reference(THREAD, 12),))
    assert (found.name, found.text, found.is_tracked) == ("x", ("one", "zwei", "three"), True)
    assert await whom(path) == ["person", "agent", "person"]


async def test_lines_in_a_row_that_came_the_same_way_are_one_run(repo: Repo) -> None:
    path = write(repo, "x", *"abcdef")
    commit(repo, "person")
    write(repo, "x", *"abCDef")
    runs = (await blame(path)).runs
    assert [(run.first, run.last, run.commit is None) for run in runs] == [
        (1, 2, False),
        (3, 4, True),
        (5, 6, False),
    ]


async def test_a_line_not_committed_is_the_agents_whose_round_brought_it(repo: Repo) -> None:
    path = write(repo, "x", "one")
    commit(repo, "person")
    write(repo, "x", "one", "mine, before")
    save(repo, THREAD, "before")
    write(repo, "x", "one", "mine, before", "the agent's")
    state = save(repo, THREAD, "after")
    write(repo, "x", "one", "mine, before", "the agent's", "mine, after")
    assert await whom(path) == ["person", NOBODY, THREAD, NOBODY]
    (run,) = (await blame(path, 3, 3)).runs
    assert run.saved == SavedBy(state, THREAD)


async def test_every_thread_is_asked_and_what_one_found_there_is_the_others(repo: Repo) -> None:
    path = write(repo, "x", "one")
    commit(repo, "person")
    save(repo, THREAD, "before", at_s=2_000_000_000)
    write(repo, "x", "one", "first")
    save(repo, THREAD, "after", at_s=2_000_000_001)
    save(repo, OTHER, "before", at_s=2_000_000_002)
    write(repo, "x", "one", "first", "second")
    save(repo, OTHER, "after", at_s=2_000_000_003)
    assert await whom(path) == ["person", THREAD, OTHER]


async def test_threads_that_left_the_file_alone_do_not_stand_in_the_way(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blaming, "THREAD_COUNT_MAX", 2)
    path = write(repo, "x", "one")
    commit(repo, "person")
    save(repo, THREAD, "before", at_s=2_000_000_000)
    write(repo, "x", "one", "two")
    save(repo, THREAD, "after", at_s=2_000_000_001)
    state = save(repo, OTHER, "before", at_s=2_000_000_002)
    for number in range(3):
        repo.git("update-ref", f"refs/treadle/{number}", state)
    found = await blame(path)
    assert not found.is_cut
    assert await whom(path) == ["person", THREAD]


async def test_too_many_threads_are_told_and_the_newest_looked_at(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blaming, "THREAD_COUNT_MAX", 2)
    path = write(repo, "x", "one")
    commit(repo, "person")
    for number in range(3):
        write(repo, "x", "one", f"number {number}")
        thread = f"{THREAD[:-4]}{number:04x}"
        save(repo, thread, "after", at_s=2_000_000_000 + number)
    assert not (await blame(path, 2, 2)).is_cut
    assert await whom(path, 2, 2) == [thread]
    write(repo, "x", "one", f"number {number}", "mine")
    assert (await blame(path)).is_cut
    assert await whom(path) == ["person", thread, NOBODY]


async def test_a_fork_goes_on_with_states_of_its_base_that_stay_the_bases(repo: Repo) -> None:
    path = write(repo, "x", "one")
    commit(repo, "person")
    save(repo, THREAD, "before")
    write(repo, "x", "one", "base")
    state = save(repo, THREAD, "after")
    repo.git("update-ref", f"refs/treadle/{OTHER}", state)
    repo.git("update-ref", "-d", f"refs/treadle/{THREAD}")
    write(repo, "x", "one", "base", "fork")
    save(repo, OTHER, "after")
    assert await whom(path) == ["person", THREAD, OTHER]


async def test_what_a_person_committed_of_an_agents_work_is_still_the_agents(repo: Repo) -> None:
    path = write(repo, "x", "one")
    commit(repo, "person", at_s=1_999_999_000)
    save(repo, THREAD, "before")
    write(repo, "x", "one", "the agent's")
    save(repo, THREAD, "after", at_s=2_000_000_000)
    commit(repo, "by hand", at_s=2_000_000_000)
    assert await whom(path) == ["person", f"by hand {THREAD}"]


@pytest.mark.parametrize(
    ("began_s", "who"), [(2_000_000_000, "committed"), (1_999_999_990, f"committed {THREAD}")]
)
async def test_what_an_agent_fetched_is_not_its_own_and_what_it_commits_is(
    repo: Repo, began_s: int, who: str
) -> None:
    save(repo, THREAD, "before", at_s=began_s)
    path = write(repo, "x", "two")
    commit(repo, "committed", at_s=1_999_999_999)
    save(repo, THREAD, "after", at_s=2_000_000_000)
    assert await whom(path) == [who]


async def test_a_trailer_outranks_what_states_say(repo: Repo) -> None:
    path = write(repo, "x", "one")
    save(repo, OTHER, "before")
    write(repo, "x", "two")
    save(repo, OTHER, "after", at_s=1_000)
    commit(repo, f"agent\n\n{TRAILER}")
    assert await whom(path) == ["agent"]


async def test_states_as_they_are_really_kept_tell_the_agents_lines(repo: Repo) -> None:
    states = FileStates(repo.path, THREAD)
    path = write(repo, "docs/x", "mine")
    before = await states.save("before", None)
    write(repo, "docs/x", "mine", "the agent's")
    after = await states.save("after", before)
    assert after is not None, states.problem
    assert await whom(path) == [NOBODY, THREAD]
    (run,) = (await blame(path, 2, 2)).runs
    assert run.saved == SavedBy(after.commit, THREAD)


async def test_a_file_that_git_does_not_track_says_so(repo: Repo) -> None:
    path = write(repo, "new", "a", "b")
    found = await blame(path)
    assert not found.is_tracked
    assert await whom(path) == [NOBODY, NOBODY]
    repo.git("add", "new")
    assert (await blame(path)).is_tracked
    assert await whom(path) == [NOBODY, NOBODY]


async def test_a_repository_without_a_commit_has_lines_of_nobody_and_of_agents(
    tmp_path: Path,
) -> None:
    repo = Repo(tmp_path / "fresh")
    repo.git("init")
    path = write(repo, "x", "a")
    assert await whom(path) == [NOBODY]
    save(repo, THREAD, "before")
    write(repo, "x", "a", "b")
    save(repo, THREAD, "after")
    assert await whom(path) == [NOBODY, THREAD]


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_renamed_file_keeps_its_lines_and_tells_its_old_name(
    repo: Repo, is_committed: bool
) -> None:
    write(repo, "old", *"abcdefgh")
    commit(repo, "person")
    repo.git("mv", "old", "new")
    if is_committed:
        commit(repo, "rename")
    found = await blame(repo.path / "new")
    assert await whom(repo.path / "new") == ["person"] * 8
    assert {run.name for run in found.runs} == {"old"}


@pytest.mark.parametrize("setting", ["true", "input", "false"])
@pytest.mark.parametrize("attribute", ["text=auto", "text eol=crlf", "-text"])
async def test_line_endings_alone_make_a_line_nobodys_else(
    repo: Repo, setting: str, attribute: str
) -> None:
    repo.git("config", "core.autocrlf", setting)
    repo.write(".gitattributes", f"x {attribute}\n")
    path = repo.path / "x"
    path.write_bytes(b"one\r\ntwo\r\n")
    commit(repo, "person")
    save(repo, THREAD, "before")
    path.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await FileStates(repo.path, OTHER).save("before", None)
    save(repo, THREAD, "after")
    path.write_bytes(b"one\r\ntwo\r\nthree\r\nfour\r\n")
    assert await whom(path) == ["person", "person", THREAD, NOBODY]


STRANGE = ["a:b", ":(glob)*", ":/x", "*", "-L", "sp ace", 'quo"te', "t\tab", "grüße", "n\nl", "x:1"]


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("folder", ["", "sub/"])
async def test_a_file_of_any_name_is_meant_and_no_other(repo: Repo, name: str, folder: str) -> None:
    path = write(repo, folder + name, "one")
    write(repo, folder + "decoy", "one")
    commit(repo, "person")
    save(repo, THREAD, "before")
    write(repo, folder + name, "one", "two")
    save(repo, THREAD, "after")
    found = await blame(path)
    assert found.name == folder + name
    assert await whom(path) == ["person", THREAD]


async def test_a_link_leads_to_the_file_that_is_meant(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repo.path / "docs" / "c.md")
    found = await blame(tmp_path / "link")
    assert found.name == "docs/c.md"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError):
        await blame(tmp_path / "loop")


async def test_a_file_in_a_submodule_is_asked_of_the_submodule(repo: Repo, tmp_path: Path) -> None:
    inner = Repo(tmp_path / "inner")
    inner.git("init")
    write(inner, "x", "one")
    commit(inner, "inner")
    repo.git("submodule", "add", str(inner.path), "module")
    commit(repo, "outer")
    found = await blame(repo.path / "module" / "x")
    assert found.name == "x"
    assert await whom(repo.path / "module" / "x") == ["inner"]
    with pytest.raises(UsageError, match="is a folder"):
        await blame(repo.path / "module")


async def test_a_work_tree_beside_the_repository_has_its_own_head(
    repo: Repo, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-b", "side", str(tmp_path / "tree"))
    tree = Repo(tmp_path / "tree")
    path = write(tree, "a.py", "print(1)", "new")
    assert await whom(path) == ["chore: begin", NOBODY]
    commit(tree, "side")
    assert await whom(path) == ["chore: begin", "side"]


async def test_a_shallow_clone_says_that_lines_may_be_older(repo: Repo, tmp_path: Path) -> None:
    write(repo, "x", "one")
    commit(repo, "first")
    write(repo, "x", "one", "two")
    commit(repo, "second")
    write(repo, "x", "one", "two", "three")
    commit(repo, "third")
    repo.git("clone", "--depth=2", f"file://{repo.path}", str(tmp_path / "clone"))
    found = await blame(tmp_path / "clone" / "x")
    assert [(run.first, run.last, run.is_oldest) for run in found.runs] == [
        (1, 2, True),
        (3, 3, False),
    ]
    assert not any(run.is_oldest for run in (await blame(repo.path / "x")).runs)


async def test_a_conflict_being_resolved_keeps_both_sides_lines(repo: Repo) -> None:
    repo.make_conflict()
    path = write(repo, "a.py", "main", "side", "both")
    assert await whom(path) == ["main", "side", NOBODY]


async def test_a_line_beyond_the_end_is_refused_with_what_there_is(repo: Repo) -> None:
    path = write(repo, "x", "a", "b")
    assert await whom(path, 2, 2) == [NOBODY]
    for first, last, said in (
        (3, 3, "has 2 lines: there is no line 3"),
        (1, 3, "there is no line 3"),
        (0, 1, "counted from 1"),
        (2, 1, "counted from 1"),
    ):
        with pytest.raises(UsageError, match=said):
            await blame(path, first, last)


async def test_an_empty_file_has_no_lines_and_one_without_a_last_break_has(repo: Repo) -> None:
    empty = write(repo, "empty")
    assert (await blame(empty)).runs == ()
    with pytest.raises(UsageError, match="has 0 lines"):
        await blame(empty, 1, 1)
    path = repo.write("x", "a\nb")
    assert await whom(path) == [NOBODY, NOBODY]


async def test_what_has_no_lines_is_told_by_name(repo: Repo, tmp_path: Path) -> None:
    (repo.path / "image").write_bytes(b"PNG\0\1")
    outside = tmp_path / "outside"
    outside.write_text("x\n")
    for path, said in (
        (repo.path / "image", "binary"),
        (repo.path / "docs", "is a folder"),
        (repo.path / "nowhere", "there is no file"),
        (repo.path / "docs" / "c.md" / "x", "there is no file"),
        (repo.path / ".git" / "HEAD", "no git repository"),
        (outside, "no git repository"),
        (repo.path / ("x" * 5000), "cannot read"),
        (repo.path / "nu\0l", "cannot read"),
    ):
        with pytest.raises(UsageError, match=said):
            await blame(path)


async def test_a_machine_without_git_is_told(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UsageError, match="git is not installed"):
        await blame(repo.path / "a.py")


async def test_a_damaged_repository_is_gits_failure_and_told_as_such(repo: Repo) -> None:
    tree = repo.git("rev-parse", "HEAD^{tree}")
    (repo.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(TreadleError, match=r"git .* failed"):
        await blame(repo.path / "a.py")


async def test_a_ref_that_is_no_state_is_passed_over(repo: Repo) -> None:
    path = write(repo, "a.py", "print(1)", "new")
    repo.git("update-ref", "refs/treadle/blob", repo.git("rev-parse", "HEAD:a.py"))
    repo.git("update-ref", "refs/treadle/plain", repo.head)
    repo.git("update-ref", "refs/treadle/tree", repo.git("rev-parse", "HEAD^{tree}"))
    assert await whom(path) == ["chore: begin", NOBODY]


def everything(repo: Repo) -> dict[str, tuple[int, bytes]]:
    """Every file of the repository, git's own among them, and when it was written.

    Git gives objects, and an index that is shared, a new time when it meets them again.
    """
    found = dict[str, tuple[int, bytes]]()
    for path in sorted(repo.path.rglob("*")):
        if stat.S_ISREG(path.lstat().st_mode):
            name = str(path.relative_to(repo.path))
            is_met = name.startswith((".git/objects/", ".git/sharedindex."))
            found[name] = 0 if is_met else path.lstat().st_mtime_ns, path.read_bytes()
    return found


@pytest.mark.parametrize("has_split_index", [False, True])
async def test_looking_changes_not_a_byte_of_the_repository(
    repo: Repo, has_split_index: bool
) -> None:
    path = write(repo, "a.py", "print(1)", "staged")
    repo.git("config", "core.splitIndex", str(has_split_index).lower())
    repo.git("add", "a.py")
    save(repo, THREAD, "before")
    write(repo, "a.py", "print(1)", "staged", "dirty")
    save(repo, THREAD, "after")
    write(repo, "new", "x")
    before = everything(repo)
    assert await whom(path) == ["chore: begin", NOBODY, THREAD]
    assert everything(repo) == before


async def test_nothing_that_the_repository_names_is_run(repo: Repo) -> None:
    trap = repo.write(".git/trap", '#!/bin/sh\necho "$0 $@" >> "$(dirname "$0")/ran"\ncat\n')
    trap.chmod(0o755)
    path = write(repo, "a.py", "print(1)", "new")
    save(repo, THREAD, "before")
    write(repo, "a.py", "print(1)", "new", "newer")
    save(repo, THREAD, "after")
    repo.write(".gitattributes", "* filter=trap diff=trap\n")
    for key in (
        *("filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "diff.external"),
        *("diff.trap.textconv", "diff.trap.command", "core.fsmonitor", "core.pager"),
        *("gpg.program", "core.sshCommand", "core.editor"),
    ):
        repo.git("config", key, str(trap))
    for hook in ("post-index-change", "reference-transaction", "pre-commit", "post-checkout"):
        repo.hook(hook, f'echo {hook} >> "{repo.path}/.git/ran"')
    repo.git("config", "log.showSignature", "true")
    repo.git("status", is_ok=False)
    ran = repo.path / ".git" / "ran"
    assert ran.exists()  # the traps work
    ran.unlink()
    assert await whom(path) == ["chore: begin", NOBODY, THREAD]
    assert not ran.exists()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from(["person", "agent"]), st.integers(0, 99), st.booleans()),
        min_size=1,
        max_size=8,
    )
)
async def test_every_line_is_of_whoever_put_it_in(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, int, bool]]
) -> None:
    """People and an agent insert lines by turns, some of them committed."""
    repo = Repo(tmp_path_factory.mktemp("repo"))
    repo.git("init")
    lines, owners = ["line 0"], ["start"]
    path = write(repo, "x", *lines)
    commit(repo, "start", at_s=1_000)
    for number, (who, place, is_committed) in enumerate(edits, 1):
        if who == "agent":
            save(repo, THREAD, "before", at_s=2_000 * number)
        at = place % (len(lines) + 1)
        lines.insert(at, f"line {number}")
        owners.insert(at, THREAD if who == "agent" else NOBODY)
        write(repo, "x", *lines)
        if who == "agent":
            save(repo, THREAD, "after", at_s=2_000 * number + 1)
        if is_committed:
            commit(repo, f"commit {number}", at_s=2_000 * number + 2)
            owners = [
                one if "start" in one or "commit" in one
                else f"commit {number}" if one == NOBODY
                else f"commit {number} {one}"
                for one in owners
            ]  # fmt: skip
    assert await whom(path) == owners
