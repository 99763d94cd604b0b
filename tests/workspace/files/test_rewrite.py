"""Taking a text out of the states of a thread: the chain anew, the old contents gone for good."""

from __future__ import annotations

from case_tables import for_every_row
from treadle.thread.facts import FilesSaved
from treadle.workspace.files.entries import FileEntry
from treadle.workspace.files.rewrite import PACKED, REACHED, rename
from treadle.workspace.files.states import FileStates
from workspace.repo import Repo

ID = "T-01890a5d-ac96-774b-bcce-b302099a8057"
SECRET = b"hunter2"


def without_it(content: bytes) -> bytes:
    return content.replace(SECRET, b"[gone]")


async def chain(states: FileStates, repo: Repo) -> list[FilesSaved]:
    made: list[FilesSaved] = []
    for text in ("clean\n", "hunter2\n", "clean again\n"):
        repo.write("sub/x.txt", text)
        saved = await states.save("after", made[-1] if made else None)
        assert saved is not None
        made.append(saved)
    return made


async def test_a_text_is_taken_out_of_all_states_and_out_of_the_repository(repo: Repo) -> None:
    states = FileStates(repo.path, ID)
    made = await chain(states, repo)
    commits = [one.commit for one in made]
    blob = repo.git("rev-parse", f"{commits[1]}:sub/x.txt")
    head, status = repo.head, repo.short_status
    first = await states.rewrite(commits, without_it)
    again = await states.rewrite(commits, without_it)
    assert first.commits.items() <= again.commits.items()
    assert first.trees.items() <= again.trees.items()
    assert first.commits[commits[0]] == commits[0]
    new = [first.commits[commit] for commit in commits]
    assert repo.git("rev-parse", states.ref) == new[2]
    assert repo.git("rev-parse", f"{new[2]}^", f"{new[1]}^").split() == [new[1], new[0]]
    assert repo.git("show", f"{new[1]}:sub/x.txt") == "[gone]"
    assert repo.git("log", "-1", "--format=%B%ad", new[2]) == repo.git(
        "log", "-1", "--format=%B%ad", commits[2]
    )
    assert first.trees[made[1].tree] == repo.git("rev-parse", f"{new[1]}^{{tree}}")
    assert await states.purge(first) == {}
    for name in (blob, commits[1], commits[2], made[1].tree):
        assert not (repo.path / ".git" / "objects" / name[:2] / name[2:]).exists()
    assert (repo.head, repo.short_status) == (head, status)
    repo.git("fsck", "--strict", "--no-dangling")


async def test_contents_that_something_else_uses_stay_and_are_named(repo: Repo) -> None:
    states = FileStates(repo.path, ID)
    made = await chain(states, repo)
    commits = [one.commit for one in made]
    blob = repo.git("rev-parse", f"{commits[1]}:sub/x.txt")
    repo.write("staged.txt", "hunter2\n")
    repo.git("add", "staged.txt")
    done = await states.rewrite(commits, without_it)
    assert await states.purge(done) == {blob: REACHED}
    assert repo.git("cat-file", "blob", blob) == "hunter2"


async def test_contents_in_a_pack_stay_and_are_named(repo: Repo) -> None:
    states = FileStates(repo.path, ID)
    made = await chain(states, repo)
    commits = [one.commit for one in made]
    blob = repo.git("rev-parse", f"{commits[1]}:sub/x.txt")
    repo.git("gc", "--quiet")
    done = await states.rewrite(commits, without_it)
    assert await states.purge(done) == {blob: PACKED}


async def test_a_chain_without_the_text_and_states_that_are_gone_stay_as_they_are(
    repo: Repo,
) -> None:
    states = FileStates(repo.path, ID)
    assert (await states.rewrite(["0" * 39 + "1"], without_it)).commits == {}
    made = await chain(states, repo)
    done = await states.rewrite([one.commit for one in made], lambda content: content)
    assert all(old == new for old, new in {**done.commits, **done.trees}.items())
    assert await states.purge(done) == {}
    assert repo.git("rev-parse", states.ref) == made[-1].commit


async def test_a_text_is_taken_out_of_names_of_files_and_folders_too(repo: Repo) -> None:
    states = FileStates(repo.path, ID)
    repo.write("hunter2/deep/hunter2.txt", "clean\n")
    repo.write("other/x.txt", "clean\n")
    made = await states.save("after", None)
    assert made is not None
    folder = repo.git("rev-parse", f"{made.commit}:hunter2")
    done = await states.rewrite([made.commit], without_it)
    new = done.commits[made.commit]
    assert (done.contents, done.named, done.left_out) == (frozenset(), {made.tree}, 0)
    names = repo.git("ls-tree", "-r", "--name-only", new).split()
    assert "[gone]/deep/[gone].txt" in names
    assert "other/x.txt" in names
    assert await states.purge(done) == {}
    for name in (made.commit, made.tree, folder):
        assert not (repo.path / ".git" / "objects" / name[:2] / name[2:]).exists()
    repo.git("fsck", "--strict", "--no-dangling")


async def test_trees_with_such_names_that_something_else_uses_are_named(repo: Repo) -> None:
    states = FileStates(repo.path, ID)
    repo.write("hunter2.txt", "clean\n")
    repo.git("add", ".")
    repo.git("commit", "-m", "keep it")
    made = await states.save("after", None)
    assert made is not None
    done = await states.rewrite([made.commit], without_it)
    assert await states.purge(done) == {made.tree: REACHED}


ONE, TWO = FileEntry("100644", "a" * 40), FileEntry("100644", "b" * 40)


@for_every_row(
    "names, kept, lost",
    [
        ({b"a": ONE}, {b"a": ONE}, set()),
        ({b"hunter2": ONE}, {b"[gone]": ONE}, set()),
        ({b"hunter2": ONE, b"[gone]": TWO}, {b"[gone]": TWO}, {b"hunter2"}),
        ({b"hunter2": ONE, b"[gone]/x": TWO}, {b"[gone]/x": TWO}, {b"hunter2"}),
        ({b"hunter2/x": ONE, b"[gone]": TWO}, {b"[gone]": TWO}, {b"hunter2/x"}),
        ({b"hunter2/x": ONE, b"[gone]/y": TWO}, {b"[gone]/x": ONE, b"[gone]/y": TWO}, set()),
        ({b"hunter2/x": ONE, b"hunter2/y": TWO}, {b"[gone]/x": ONE, b"[gone]/y": TWO}, set()),
    ],
)
def test_a_new_name_is_nobody_elses_or_the_file_is_left_out(
    names: dict[bytes, FileEntry], kept: dict[bytes, FileEntry], lost: set[bytes]
) -> None:
    assert rename(names, without_it) == (kept, lost)


@for_every_row("new", [b"", b".", b"..", b".GIT", b"a//b", b"/a", b"a/", b"a\0b"])
def test_a_name_that_git_would_refuse_is_not_given(new: bytes) -> None:
    assert rename({b"x": ONE}, lambda _: new) == ({}, {b"x"})
