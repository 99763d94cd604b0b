"""Proposes a thread's commits to a forge: which ones, from which branch, and the page that does it.

Nothing of the person's is touched: no file, no index, no checked-out branch. A branch that has to
be made is a name for the newest commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from treadle import helper_programs
from treadle.errors import UsageError
from treadle.process.program import run_bounded
from treadle.process.result import Bounds, Ran
from treadle.workspace.git import Absent, Repository
from treadle.workspace.hooks import summarize_output
from treadle.workspace.message import count_files, cut_diff
from treadle.workspace.remote import normalise_remote

PUSH_S_MAX: Final = 600.0
PAGE_S_MAX: Final = 60.0
"""Seconds that a forge's program may take to open its page."""
COMMIT_COUNT_MAX: Final = 250
DIFF_READ_MAX: Final = 256 * 1024
BRANCH_LENGTH_MAX: Final = 50

_LOG_SIZE_MAX: Final = 512 * 1024
_USUAL_BASES: Final = ("main", "master", "trunk", "develop")
_TRAILER: Final = re.compile(r"^[A-Za-z-]+: ", re.MULTILINE)


class ProposedCommit(Struct, frozen=True):
    """A commit, the first of its line and the rest of its message without the trailers."""

    sha: str
    subject: str
    body: str = ""


class PullRequestPlan(Struct, frozen=True):
    """What would be proposed: these commits, the oldest first, from `branch` for `base`.

    `is_new` says that the branch is to be made, since the commits stand on the base's own.
    `address` is the remote's as `host/path`; empty if it is none of the network. So many
    `uncommitted` files with changes are no part of it.
    """

    repository: Repository
    remote: str
    address: str
    base: str
    branch: str
    head: str
    commits: tuple[ProposedCommit, ...]
    is_new: bool = False
    uncommitted: int = 0


class OpenedPage(Struct, frozen=True):
    """Where one goes on.

    `program` has opened the page, or `url` has it; both are empty if nobody knows how this forge
    does it. `problem` is why a program that is there has not.
    """

    program: str = ""
    url: str = ""
    problem: str = ""


async def plan_pull_request(folder: str, *, title: str, base: str = "") -> PullRequestPlan:
    """What there is to propose from a folder. Changes nothing, and asks no server.

    Args:
        folder: one of the repository, or of a worktree.
        title: of the thread, for the name of a branch that has to be made.
        base: the branch of the remote that it is for; by default the remote's own.

    Raises:
        UsageError: there is no repository, remote or base, or nothing that the base has not.
    """
    repository = Repository(folder)
    status = await repository.status()
    if isinstance(status, Absent):
        raise UsageError(f"there is nothing to propose: {status.text}")
    if status.head is None:
        raise UsageError("there is nothing to propose: the repository has no commit yet")
    branch = status.branch or ""
    remote, address = await _find_remote(repository, branch)
    base = await _find_base(repository, remote, base)
    span = f"refs/remotes/{remote}/{base}..{status.head}"
    commits = await _list_commits(repository, span)
    if not commits:
        more = f"; there are changes in {count_files(len(status.changes))}"
        raise UsageError(
            f"{remote}/{base} has all commits that are here{more if status.changes else ''}",
            hint="/commit in the chat commits what the agent has changed",
        )
    is_new = branch in ("", base)
    if is_new:
        stem = title or commits[-1].subject
        branch, is_new = await _choose_branch(repository, remote, stem, status.head)
    return PullRequestPlan(
        repository,
        remote,
        address,
        base,
        branch,
        status.head,
        commits,
        is_new,
        len(status.changes),
    )


def describe_uncommitted(plan: PullRequestPlan) -> str:
    """What is no part of it, in words; empty if all is committed."""
    count = plan.uncommitted
    return f"not part of it: {count_files(count)} with changes" if count else ""


async def _find_remote(repository: Repository, branch: str) -> tuple[str, str]:
    """The remote that a push of the branch means, and its address."""
    ran = await repository.read("remote")
    names = ran.out.decode("utf-8", "replace").split("\n")[:-1]
    # Settings can name one so that git takes it for an option.
    names = [name for name in names if not name.startswith("-")]
    if not names:
        raise UsageError(
            "the repository has no remote to propose anything to",
            hint="git remote add origin URL, then git fetch",
        )
    wanted = [
        await _read_setting(repository, key)
        for key in (f"branch.{branch}.pushRemote", "remote.pushDefault", f"branch.{branch}.remote")
    ]
    remote = next((one for one in (*wanted, "origin") if one in names), names[0])
    url = await repository.read("remote", "get-url", remote)
    return remote, normalise_remote(url.out.decode("utf-8", "replace").strip()) or ""


async def _read_setting(repository: Repository, key: str) -> str:
    ran = await repository.read("config", "--get", key)
    return ran.out.decode("utf-8", "replace").strip()


async def _find_base(repository: Repository, remote: str, wanted: str) -> str:
    """The branch of the remote that is proposed to, as far as the last fetch knows it."""
    if wanted and wanted != "HEAD":
        candidates: Sequence[str] = (wanted,)
    else:
        head = await repository.read("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD")
        named = head.out.decode("utf-8", "replace").strip()
        candidates = (named.removeprefix(f"refs/remotes/{remote}/"), *_USUAL_BASES)
    for name in filter(None, candidates):
        if await _find_ref(repository, f"refs/remotes/{remote}/{name}"):
            return name
    what = f"branch {wanted} of {remote}" if wanted else f"main branch of {remote}"
    raise UsageError(f"no {what} is known here", hint=f"git fetch {remote}; --base NAME names it")


async def _find_ref(repository: Repository, name: str) -> str:
    """What a ref of exactly this name leads to, and no expression about one; empty if none is."""
    ran = await repository.read("show-ref", "--verify", "--hash", "--", name)
    return ran.out.decode().strip() if ran.status == 0 else ""


async def _list_commits(repository: Repository, span: str) -> tuple[ProposedCommit, ...]:
    ran = await repository.read(
        *(
            "log",
            "--reverse",
            f"--max-count={COMMIT_COUNT_MAX}",
            "--no-merges",
            "--no-show-signature",
        ),
        *("--format=%H%x00%s%x00%b%x1e", span),
        out_size_max=_LOG_SIZE_MAX,
    )
    if ran.status != 0:
        raise UsageError(f"git cannot tell what is new: {summarize_output(ran)}")
    told = ran.out.decode("utf-8", "replace").split("\x1e")
    parts = (one.strip("\n").split("\0") for one in told)
    return tuple(
        ProposedCommit(sha, subject, _strip_trailers(body))
        for sha, subject, body in (one for one in parts if len(one) == 3)
    )


def _strip_trailers(body: str) -> str:
    """Without its last paragraph, if that holds trailers alone."""
    text, _, last = body.strip().rpartition("\n\n")
    lines = last.splitlines()
    return text if lines and all(_TRAILER.match(line) for line in lines) else body.strip()


async def _choose_branch(
    repository: Repository, remote: str, title: str, head: str
) -> tuple[str, bool]:
    """A name of the words of the title, and whether there is no such branch yet.

    It is one that neither the repository nor the remote has, or has for this very commit: it was
    proposed before, or somebody broke off.
    """
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    stem = words[:BRANCH_LENGTH_MAX].strip("-") or "changes"
    name, number = stem, 1
    while True:
        here = await _find_ref(repository, f"refs/heads/{name}")
        there = await _find_ref(repository, f"refs/remotes/{remote}/{name}")
        if {here, there} <= {"", head}:
            return name, not here
        number += 1
        name = f"{stem}-{number}"


async def read_diff(plan: PullRequestPlan) -> str:
    """A summary and the patch of what would be proposed, cut to what a model is shown."""
    ran = await plan.repository.read(
        *("diff", "--patch-with-stat", "--no-color", "--no-ext-diff", "--no-textconv"),
        f"refs/remotes/{plan.remote}/{plan.base}...{plan.head}",
        out_size_max=DIFF_READ_MAX,
    )
    return cut_diff(ran.out.decode("utf-8", "replace"), ran.out_size) if ran.status == 0 else ""


async def push_branch(plan: PullRequestPlan) -> None:
    """Make the branch if it is to be made, and push what was planned. No hook of a push runs.

    Raises:
        UsageError: git or the remote refuses; what was made here is taken back.
    """
    repository = plan.repository
    if plan.is_new:
        made = await repository.change(
            *("branch", "--no-track", plan.branch, plan.head), timeout_s=PAGE_S_MAX
        )
        _refuse_failure(made, f"the branch {plan.branch} cannot be made")
    name = f"{plan.head}:refs/heads/{plan.branch}"
    ran = await repository.change("push", plan.remote, name, timeout_s=PUSH_S_MAX)
    if ran.status != 0 and plan.is_new:
        await repository.change("branch", "-D", plan.branch, timeout_s=PAGE_S_MAX)
    _refuse_failure(ran, f"{plan.remote} has not taken {plan.branch}")
    await repository.change(
        *("branch", f"--set-upstream-to={plan.remote}/{plan.branch}", plan.branch),
        timeout_s=PAGE_S_MAX,
    )


def _refuse_failure(ran: Ran, what: str) -> None:
    if ran.status != 0:
        raise UsageError(
            f"{what}: {summarize_output(ran)}",
            hint="where git has to ask for a password, push by yourself first: git push",
        )


class _Forge(Struct, frozen=True):
    """A kind of forge: what its hosts are called, its program, and its page for a proposal."""

    words: tuple[str, ...]
    page: str
    command: tuple[str, ...] = ()


_FORGES: Final = (
    _Forge(
        ("github",),
        "compare/{base}...{branch}?expand=1",
        (
            *("gh", "pr", "create", "--web", "--head={branch}", "--base={base}"),
            *("--title={title}", "--body={body}"),
        ),
    ),
    _Forge(
        ("gitlab",),
        "-/merge_requests/new?merge_request%5Bsource_branch%5D={branch}"
        "&merge_request%5Btarget_branch%5D={base}",
        (
            *("glab", "mr", "create", "--web", "--source-branch={branch}"),
            *("--target-branch={base}", "--title={title}", "--description={body}"),
        ),
    ),
    _Forge(("bitbucket",), "pull-requests/new?source={branch}&dest={base}"),
    _Forge(("codeberg", "gitea", "forgejo"), "compare/{base}...{branch}"),
)


async def open_page(plan: PullRequestPlan, title: str, body: str) -> OpenedPage:
    """Have the forge's program open its page for the proposal; without it, say which page it is.

    Args:
        plan: what was pushed.
        title: of the proposal.
        body: its description.
    """
    host = plan.address.partition("/")[0]
    forge = next((one for one in _FORGES if any(word in host for word in one.words)), None)
    if forge is None:
        return OpenedPage()
    page = forge.page.format(base=quote(plan.base), branch=quote(plan.branch))
    url = f"https://{plan.address}/{page}"
    program = helper_programs.find_program(forge.command[0]) if forge.command else None
    if program is None:
        return OpenedPage(url=url)
    given = {"base": plan.base, "branch": plan.branch, "title": title, "body": body}
    words = (program, *(word.format_map(given) for word in forge.command[1:]))
    bounds = Bounds(PAGE_S_MAX, DIFF_READ_MAX)
    folder = plan.repository.folder
    try:
        ran = await run_bounded(words, folder, helper_programs.environment(), bounds)
    except OSError as error:
        return OpenedPage(url=url, problem=f"{forge.command[0]}: {error.strerror}")
    if ran.status != 0:
        return OpenedPage(url=url, problem=f"{forge.command[0]}: {summarize_output(ran)}")
    return OpenedPage(forge.command[0])


def describe_page(page: OpenedPage) -> list[str]:
    """What became of the page, in lines for people; its address is not among them."""
    told = [f"{page.program} has opened its page"] if page.program else []
    if page.problem:
        told.append(f"no page was opened: {page.problem}")
    if page.url:
        told.append("propose it there:")
    elif not page.program:
        told.append("this forge is not known here: propose it on its own page")
    return told
