"""The threads behind commits: what a trailer is, what a range is, and that nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.errors import UsageError
from treadle.workspace.provenance import Commit, Reference, list_commits, named_threads
from workspace.repo import TRAILER, Repo

THREAD = "T-01890a5d-ac96-774b-bcce-b302099a8057"
OTHER = "T-01890a5d-ac96-774b-bcce-b302099a8058"


@for_every_row(
    "message, found",
    [
        (f"fix\n\n{TRAILER}", [(THREAD, 12)]),
        (f"fix\n\n{TRAILER}\n", [(THREAD, 12)]),
        (f"fix\r\n\r\n{TRAILER}\r\n", [(THREAD, 12)]),
        (f"fix\n\nTreadle-Thread: {THREAD}", [(THREAD, None)]),
        (f"fix\n\ntreadle-thread:{THREAD.upper()}@3", [(THREAD, 3)]),
        (f"squash\n\n    {TRAILER}\n\n    more\n\n    Treadle-Thread: {OTHER}@1\n\nSigned-off: x",
         [(THREAD, 12), (OTHER, 1)]),
        (f"x\n\n{TRAILER}\n{TRAILER}\nTreadle-Thread: {THREAD}@13", [(THREAD, 12), (THREAD, 13)]),
        ("", []),
        (f"see {TRAILER}", []),
        (f"{TRAILER} is why", []),
        ("Treadle-Thread: T-1@2", []),
        (f"Treadle-Thread: {THREAD}0@2", []),
        (f"Treadle-Thread: {THREAD}@", []),
        (f"Treadle-Thread: {THREAD}@{'9' * 5000}", []),
    ],
)  # fmt: skip
def test_a_trailer_is_a_line_of_its_own_that_names_a_thread(
    message: str, found: list[tuple[str, int | None]]
) -> None:
    assert named_threads(message) == tuple(Reference(*one) for one in found)


@given(st.lists(st.sampled_from([TRAILER, OTHER, "Treadle-Thread: ", "\n", " ", "\t", "x", "@"])))
def test_a_line_of_a_message_counts_if_nothing_else_stands_in_it(parts: list[str]) -> None:
    message = "".join(parts)
    lines = {" ".join(line.split()) for line in message.split("\n")}
    wanted = {TRAILER: Reference(THREAD, 12), f"Treadle-Thread: {OTHER}": Reference(OTHER)}
    assert {*named_threads(message)} == {one for line, one in wanted.items() if line in lines}


def commit(repo: Repo, name: str, message: str) -> str:
    repo.write(name, message)
    repo.git("add", name)
    repo.git("commit", "-m", message)
    return repo.head


async def listed(repo: Repo, span: str | None = None, count_max: int = 100) -> list[Commit]:
    return (await list_commits(repo.path, span, count_max))[0]


async def test_commits_come_newest_first_with_what_their_trailers_name(repo: Repo) -> None:
    begin = repo.head
    made = commit(repo, "d.py", f"fix: d\n\nwhy\n\n{TRAILER}")
    new, old = await listed(repo)
    assert (new.hash, new.subject, new.author, new.parents) == (made, "fix: d", "Ada", (begin,))
    assert new.threads == (Reference(THREAD, 12),)
    assert (old.hash, old.subject, old.parents, old.threads) == (begin, "chore: begin", (), ())


async def test_a_range_is_what_git_takes_for_one(repo: Repo) -> None:
    begin = repo.head
    made = [commit(repo, name, name) for name in "xyz"]
    repo.git("branch", "side", made[0])
    spans = {
        f"{begin}..": [*reversed(made)],
        f"{made[0]}..{made[1]}": [made[1]],
        "side..": [made[2], made[1]],
        "side...HEAD": [made[2], made[1]],
        "HEAD~1..": [made[2]],
        "side": [made[0], begin],
        "HEAD..": [],
        ":/y": [made[1], made[0], begin],
    }
    for span, wanted in spans.items():
        assert [one.hash for one in await listed(repo, span)] == wanted, span


async def test_a_limit_says_whether_there_is_more(repo: Repo) -> None:
    commit(repo, "x", "x")
    for count, has_more in ((1, True), (2, False), (3, False)):
        found, more = await list_commits(repo.path, None, count)
        assert (len(found), more) == (min(count, 2), has_more)


@for_every_row(
    "span",
    [
        "--output=stolen",
        "-O",
        "--all",
        "--exec-path",
        "-",
        "",
        "nope..",
        "a\0b",
        "HEAD --output=stolen",
        "a.py",
        "0" * 40,
        "HEAD\n--output=stolen",
    ],
)
async def test_what_is_no_range_is_refused_and_taken_for_no_option(repo: Repo, span: str) -> None:
    with pytest.raises(UsageError, match="range of commits"):
        await listed(repo, span)
    assert not (repo.path / "stolen").exists()


async def test_a_merge_has_two_parents_and_both_sides_are_listed(repo: Repo) -> None:
    repo.git("checkout", "-b", "side")
    side = commit(repo, "s", f"side\n\n{TRAILER}")
    repo.git("checkout", "main")
    main = commit(repo, "m", "main")
    repo.git("merge", "--no-ff", "-m", "merge", "side")
    merge, *rest = await listed(repo)
    assert merge.parents == (main, side)
    assert merge.threads == ()
    assert {one.hash: bool(one.threads) for one in rest[:2]} == {main: False, side: True}


async def test_a_message_in_another_encoding_is_read(repo: Repo) -> None:
    repo.git("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "--allow-empty", "-m", "x")
    repo.git("commit", "--allow-empty", "-m", "Grüße\n\nSchöne")
    assert [one.subject for one in await listed(repo)] == ["Grüße", "x", "chore: begin"]


async def test_a_repository_without_commits_has_none(tmp_path: Path) -> None:
    empty = Repo(tmp_path / "empty")
    empty.git("init")
    assert await list_commits(empty.path, None, 10) == ([], False)
    with pytest.raises(UsageError, match="no range"):
        await listed(empty, "HEAD..")


async def test_a_folder_without_a_repository_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no git repository"):
        await list_commits(tmp_path, None, 10)
    with pytest.raises(UsageError, match="gone"):
        await list_commits(tmp_path / "nowhere", None, 10)


async def test_a_machine_without_git_is_told(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UsageError, match="git is not installed"):
        await listed(repo)


async def test_no_signature_is_checked_by_a_program_of_the_repository(repo: Repo) -> None:
    trap = repo.write("trap", "#!/bin/sh\ntouch ran\n")
    trap.chmod(0o755)
    repo.git("config", "log.showSignature", "true")
    repo.git("config", "gpg.program", str(trap))
    body = repo.git("cat-file", "commit", "HEAD")
    head, _, message = body.partition("\n\n")
    signed = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n"
    (repo.path / "signed").write_text(signed + message)
    name = repo.git("hash-object", "-t", "commit", "-w", "signed")
    repo.git("log", "-1", name)
    assert (repo.path / "ran").exists()  # the trap works
    (repo.path / "ran").unlink()
    assert [one.hash for one in await listed(repo, name)] == [name]
    assert not (repo.path / "ran").exists()
