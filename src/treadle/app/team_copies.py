"""Copies of the server's threads, which others may have written: a fork here, an export."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from treadle.app.exchange.session_import import import_sessions
from treadle.app.exchange.thread_export import ExportedThread, export_thread, refuse_secrets
from treadle.app.notices import Notify, ignore_notice
from treadle.app.sync.team_threads import fetch_team_document, open_team_thread
from treadle.app.threads.forks import ThreadFork, fork_thread
from treadle.errors import UsageError
from treadle.exchange.session_files import TREADLE
from treadle.scratch_folders import scratch_folder
from treadle.store.local_store import LocalStore

_FAILED: Final = "failed"
_EVERY_CALL: Final = ""
"""How the ids of all calls begin: the large outputs of all of them come along."""


def fork_team_thread(
    store: LocalStore,
    thread: str,
    *,
    version: int | None = None,
    turn: int | None = None,
    notify: Notify = ignore_notice,
) -> ThreadFork:
    """Begin a thread here that goes on from one of the server's, which others may have written.

    That one comes here as an import does, with those that it goes on from and its large outputs.
    It stays as it is there, and a sync does not send the copy as long as nobody goes on with that:
    its owner's word about it holds. A copy that is here already is brought up to what the server
    has.

    Args:
        store: whose user is logged in to the server; the fork is made in it.
        thread: the id, or a beginning of it that no other thread has that the user may see.
        version: the version to go on from; by default the newest.
        turn: the turn at whose end to go on.
        notify: gets lines about what could not come along.

    Raises:
        UsageError: the server shows it as one document only, it has gone on differently here, or
            there is no such turn or version.
        UnknownThreadError, AmbiguousThreadError, PrivateThreadError, NotLoggedInError, RemoteError:
            as `open_team_thread`.
        StoreError: the disk refused.
    """
    with (
        scratch_folder() as folder,
        open_team_thread(store, thread, call=_EVERY_CALL, purpose="fork") as found,
    ):
        if found.store is None:
            raise UsageError(
                f"the server shows thread {found.thread_id} as one document, without its records",
                hint="only its owner can go on with it",
            )
        # Secrets that are known here do not leave by what comes here.
        export = export_thread(
            found.store, found.thread_id, "jsonl", notify=notify, with_secrets=True
        )
        file = Path(folder) / "thread.jsonl"
        file.write_bytes(export.data)
        for outcome in import_sessions(store, [str(file)], TREADLE, lender=found.url):
            if outcome.outcome == _FAILED:
                reason = outcome.reason.replace(str(file), found.url)
                raise UsageError(f"nothing was forked: {reason}")
            for problem in outcome.problems:
                notify(problem)
    return fork_thread(store, found.thread_id, version=version, turn=turn, notify=notify)


def export_team_thread(
    store: LocalStore,
    thread: str,
    form: str,
    *,
    version: int | None = None,
    notify: Notify = ignore_notice,
    with_secrets: bool = False,
    force: bool = False,
) -> ExportedThread:
    """A thread as the server has it, in the form that `export_thread` gives; nothing is kept here.

    Args:
        store: whose user is logged in to the server.
        thread: the id, or a beginning of it that no other thread has that the user may see.
        form: see `export_thread`.
        version: by default the last one.
        notify: gets lines about what is left out.
        with_secrets: whether it may hold secrets that this machine knows.
        force: whether it may be private: the user's own, since nobody else sees those.

    Raises:
        UsageError: the server shows it as one document only, which has the form `json` alone.
        HeldBackError: it holds a known secret.
        UnknownThreadError, AmbiguousThreadError, PrivateThreadError, NotLoggedInError, RemoteError:
            as `open_team_thread`.
    """
    call = _EVERY_CALL if form == "jsonl" else None
    with open_team_thread(store, thread, call=call, purpose="export") as found:
        if found.store is not None:
            return export_thread(
                found.store,
                found.thread_id,
                form,
                version=version,
                notify=notify,
                with_secrets=with_secrets,
                force=force,
            )
    if form != "json":
        raise UsageError(
            f"the server shows thread {found.thread_id} as one document, without its records",
            hint="--format json is what it can be exported as",
        )
    got = fetch_team_document(store, found.name, version, purpose="export")
    document = msgspec.json.encode(got)
    if not with_secrets:
        refuse_secrets(found.thread_id, [document])
    return ExportedThread(document)
