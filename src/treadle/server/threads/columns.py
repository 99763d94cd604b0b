"""What the row of a thread says about it, so that lists and filters need not fold.

Never believed from a client: all of it comes from the fold, or from a document that was checked.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from treadle.thread.document import GitFields, Thread, ThreadSummary
from treadle.thread.fold import ThreadFold
from treadle.thread.ids import is_thread_id

_COMMIT: Final = re.compile(r"[0-9a-f]{4,64}", re.ASCII)

LISTED_TEXT_SIZE_MAX: Final = 600
LISTED_TEXTS_SIZE_MAX: Final = 4096
"""Bytes of JSON that a text, and tags or commits together, may take in a line of a list: with its
twelve texts a line has at most 16 KiB."""

INDEXED_SIZE_MAX: Final = 1000
"""Bytes of a text in an index; PostgreSQL takes 2704, and half of a pair of columns is ours."""


def make_fold_columns(fold: ThreadFold) -> dict[str, Any]:
    """The columns that follow from the records of a thread."""
    summary = fold.summary()
    return {
        **_make_columns(summary, fold.git),
        "treadle_version": _replace_nul(fold.header.creator),
    }


def make_document_columns(document: Thread, times: tuple[str, str, str]) -> dict[str, Any]:
    """The columns that follow from a document.

    Args:
        document: it was checked.
        times: when it was created, updated and last worked on, in the form of records.
    """
    summary = make_summary(document, times)
    git = GitFields(**{name: getattr(document, name) for name in GitFields.__struct_fields__})
    return {
        **_make_columns(summary, git),
        "treadle_version": _replace_nul(document.treadle_version),
    }


def make_summary(document: Thread, times: tuple[str, str, str]) -> ThreadSummary:
    """A document's line in a list."""
    state = document.agent_state
    return ThreadSummary(
        id=document.id,
        version=document.version,
        created_at=times[0],
        updated_at=times[1],
        last_activity_at=times[2],
        title=document.metadata.title,
        state=state.kind,
        message_count=len(document.conversation.messages),
        workspace_root=document.workspace_root,
        git_branch=document.git_branch,
        git_remote_url=document.git_remote_url,
        git_initial_commit_sha=document.git_initial_commit_sha,
        git_current_commit_sha=document.git_current_commit_sha,
        git_commits=document.git_commits,
        provider=document.provider,
        model=document.model,
        visibility=document.visibility,
        questions=len(state.questions),
        forked_from=None if document.forked_from is None else document.forked_from.thread,
        imported_from=document.imported_from,
        tags=document.metadata.tags,
        is_pinned=document.metadata.is_pinned,
        open_calls=len(state.pending_tool_calls),
        is_trashed=document.is_trashed,
    )


def _make_columns(summary: ThreadSummary, git: GitFields) -> dict[str, Any]:
    return {
        "version": summary.version,
        "created_at": summary.created_at,
        "updated_at": summary.updated_at,
        "last_activity_at": summary.last_activity_at,
        "visibility": summary.visibility,
        "title": _replace_nul(summary.title),
        "tags": msgspec.json.encode(summary.tags).decode(),
        "is_pinned": summary.is_pinned,
        "machine": summary.machine,
        "agent_state_kind": _replace_nul(summary.state),
        "message_count": summary.message_count,
        "workspace_root": truncate_for_index(summary.workspace_root),
        "provider": _replace_nul(summary.provider),
        "model": _replace_nul(summary.model),
        "parent": summary.parent if is_thread_id(summary.parent or "") else None,
        "forked_from": summary.forked_from if is_thread_id(summary.forked_from or "") else None,
        "git_branch": _replace_nul(git.git_branch),
        "git_initial_branch": _replace_nul(git.git_initial_branch),
        "git_initial_commit_sha": parse_commit(git.git_initial_commit_sha),
        "git_current_commit_sha": parse_commit(git.git_current_commit_sha),
        "git_start_dirty": git.git_start_dirty,
        "git_end_dirty": git.git_end_dirty,
        "summary": msgspec.json.encode(shorten_summary(summary)).decode(),
    }


_EMPTY_COLUMNS: Final = (
    *("title", "workspace_root", "provider", "model", "treadle_version", "parent", "forked_from"),
    *("repo_id", "git_branch", "git_initial_branch", "git_initial_commit_sha"),
    *("git_current_commit_sha", "git_start_dirty", "git_end_dirty"),
)

PURGED_COLUMNS: Final[dict[str, Any]] = {
    **dict.fromkeys(_EMPTY_COLUMNS),
    "tags": "[]",
    "is_pinned": False,
    "agent_state_kind": "",
    "summary": "{}",
    "message_count": 0,
    "size": 0,
    "is_shared_with_support": False,
    "has_journal": False,
    "visibility": "private",
}
"""What the row of a thread says when all that was said in it is gone."""


def shorten_summary(summary: ThreadSummary) -> ThreadSummary:
    """A thread's line in a list, cut to a size that two hundred of them may have.

    Of tags the first stay, of commits the last.
    """
    cut: dict[str, Any] = {}
    for name in ThreadSummary.__struct_fields__:
        value = getattr(summary, name)
        cut[name] = _truncate(value) if isinstance(value, str) else value
    cut["tags"] = _select_first(summary.tags)
    cut["git_commits"] = _select_first(summary.git_commits[::-1])[::-1]
    return ThreadSummary(**cut)


def _truncate(text: str) -> str:
    """The beginning of a text, or all of it."""
    if len(text) * 6 <= LISTED_TEXT_SIZE_MAX:  # a character has at most 6 bytes in JSON
        return text
    text = text[:LISTED_TEXT_SIZE_MAX]
    while len(msgspec.json.encode(text)) > LISTED_TEXT_SIZE_MAX:
        text = text[: len(text) * 3 // 4]
    return text


def _select_first(texts: tuple[str, ...]) -> tuple[str, ...]:
    """As many of the texts as fit, whole ones only."""
    size = 0
    for count, text in enumerate(texts):
        size += len(text) if len(text) > LISTED_TEXTS_SIZE_MAX else len(msgspec.json.encode(text))
        size += 1
        if size > LISTED_TEXTS_SIZE_MAX:
            return texts[:count]
    return texts


def parse_commit(text: str | None) -> str | None:
    """A commit's name, if that is what the text is."""
    return text if text is not None and _COMMIT.fullmatch(text) else None


def truncate_for_index(text: str | None) -> str | None:
    """A text cut to what an index takes."""
    text = _replace_nul(text)
    if text is None or len(text) * 4 <= INDEXED_SIZE_MAX:
        return text
    return text.encode()[:INDEXED_SIZE_MAX].decode(errors="ignore")


def _replace_nul(text: str | None) -> str | None:
    """PostgreSQL keeps no NUL in a text, and JSON may spell one."""
    return None if text is None else text.replace("\0", "\N{REPLACEMENT CHARACTER}")
