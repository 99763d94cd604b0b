"""Takes a secret that slipped in out of threads, everywhere a user has them: here, on the server.

First `plan_scrub`, for a person who is asked; then `scrub_threads` for what this machine keeps,
and `replace_server_copies` for what the server has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from hashlib import scrypt
from typing import Final

from msgspec import Struct

from treadle.app.files.file_history import list_saved_states
from treadle.app.files.file_state_scrub import FileStateRewriter
from treadle.app.notices import Notify, ignore_notice
from treadle.app.sync.server_copies import fetch_before_scrub, replace_copies
from treadle.errors import TreadleError, UsageError
from treadle.runtime.defaults import make_user_redactor
from treadle.secrets.redaction import Redactor
from treadle.store.index.lookup import Index
from treadle.store.local_store import LocalStore
from treadle.store.upkeep.interrupted_operations import Sign
from treadle.store.upkeep.scrub import ScrubResult, scrub
from treadle.store.upkeep.text_scan import Redact, TextScanner, redact_bytes

LENGTH_MIN: Final = 4
"""Characters of a text that can be taken out; shorter ones stand everywhere."""

RETRY_COUNT_MAX: Final = 3
"""So often it is taken out again if the server has it again."""

FORGET_COUNT_MAX: Final = 100
"""Of more threads than this only the changed ones are taken out of the index."""


class ScrubJob(Struct, frozen=True, kw_only=True):
    """What is to be taken out of which threads.

    `redact` takes it out of a string; `sign` tells the same scrub again. With `has_rest`, a thread
    out of which it cannot be taken stays as it is, and all others are done. `fetch` takes in what
    other machines have sent; whether a server may have copies. `replace` has these replaced by what
    the threads are now; whether all are. `notify` gets what the index has to say for people.
    """

    store: LocalStore
    threads: Sequence[str]
    redact: Redact
    sign: Sign
    has_rest: bool = False
    fetch: Callable[[LocalStore, Sequence[str]], bool] = lambda store, ids: (
        fetch_before_scrub(store, ids).has_copies
    )
    replace: Callable[[LocalStore, Sequence[str]], bool] = lambda store, ids: (
        replace_copies(store, ids).is_complete
    )
    notify: Notify = ignore_notice

    def run(self, states: FileStateRewriter | None) -> ScrubResult:
        """Do it; without states of files, only find what would be done. Raises as `scrub` does."""
        return scrub(
            self.store,
            self.threads,
            self.redact,
            is_rehearsal=states is None,
            states=states,
            wants_rest=self.has_rest,
            sign=self.sign,
        )

    def find_files(self) -> tuple[str, ...]:
        """The files of this machine's store that hold it."""
        return tuple(TextScanner(self.store.folders, self.redact).find_files())

    def make_state_rewriter(self) -> FileStateRewriter:
        """Takes it out of states of files."""
        return FileStateRewriter(partial(redact_bytes, redact=self.redact))


class ScrubReport(Struct, frozen=True):
    """What was done here, or would be, and the files that hold the text (still).

    `was_found` is whether anything held it, states of files too if those were rewritten. `problems`
    are states that were not reached. `has_copies` is whether a server may have copies.
    """

    outcome: ScrubResult
    files: tuple[str, ...]
    was_found: bool
    problems: tuple[str, ...] = ()
    has_copies: bool = False


class ServerScrubReport(Struct, frozen=True):
    """Whether no server is known to hold the text; the threads that hold it again here."""

    is_gone: bool
    came_back: tuple[str, ...]


def make_redaction(text: str | None = None, kind: str | None = None) -> tuple[Redact, Sign]:
    """What takes a text out of a string, and what tells the same scrub again.

    Args:
        text: the text; without it all secrets that this machine knows today, and all that look so.
        kind: the label that stands in its place; by default `scrubbed`.

    Raises:
        UsageError: the text is too short, or a part of its label.
    """
    sign = partial(sign_text, f"{kind or ''}\n{text or ''}")
    if text is None:
        return make_user_redactor().redact, sign
    if len(text) < LENGTH_MIN:
        raise UsageError(f"a text of less than {LENGTH_MIN} characters cannot be taken out")
    words = {kind or "scrubbed": text}
    redact = Redactor(words, length_min=LENGTH_MIN, has_shapes=False).redact_cut
    label = redact(text)
    if text in label:
        raise UsageError(
            f"the text is a part of {label}, which would stand in its place",
            hint="choose another --kind",
        )
    return redact, sign


def sign_text(words: str, salt: bytes) -> bytes:
    """Tells the same scrub again; slow on purpose, as the text must not be guessed by it."""
    data = words.encode("utf-8", "surrogateescape")
    return scrypt(data, salt=salt, n=2**14, r=8, p=1)


def plan_scrub(job: ScrubJob) -> ScrubReport:
    """What would be done; nothing is changed. States of files are not looked through.

    Raises:
        UsageError: there is no such thread, or the text is a part of how a thread is written.
        StoreError: a thread cannot be read.
    """
    files = job.find_files()
    outcome = job.run(None)
    return ScrubReport(outcome, files, bool(files or outcome.threads))


def has_states(job: ScrubJob, plan: ScrubReport) -> bool:
    """Whether states of files are recorded in the threads of a plan, or may be."""

    def may_have(thread_id: str) -> bool:
        try:
            return bool(list_saved_states(job.store, thread_id))
        except TreadleError:
            return True

    return any(may_have(thread_id) for thread_id in plan.outcome.looked_at)


def scrub_threads(job: ScrubJob, plan: ScrubReport | None = None) -> ScrubReport:
    """Take the text out of all that this machine keeps, after what other machines have sent.

    Safe to be stopped anywhere and done again. `plan` is what a person has agreed to, if asked.

    Raises:
        UsageError: as `plan_scrub`; nothing was changed.
        ThreadBusyError: a thread is open elsewhere; nothing was changed.
        DiskError: what was done so far stands; do it again.
    """
    found = job.find_files() if plan is None else plan.files
    has_copies = job.fetch(job.store, job.threads)
    states = job.make_state_rewriter()
    outcome = job.run(states)
    _update_index(job, outcome)
    was_found = bool(found or outcome.threads or states.has_changed)
    return ScrubReport(outcome, job.find_files(), was_found, tuple(states.problems), has_copies)


def replace_server_copies(job: ScrubJob, done: ScrubReport) -> ServerScrubReport:
    """Have the server's copies replaced, and take out here what came from there meanwhile.

    Another machine may have gone on with a thread meanwhile, and said it again. Raises as
    `scrub_threads`.
    """
    is_gone = job.replace(job.store, [one.thread for one in done.outcome.threads])
    return ServerScrubReport(is_gone, _repeat_scrub(job) if done.has_copies else ())


def _repeat_scrub(job: ScrubJob) -> tuple[str, ...]:
    for is_last in (*[False] * RETRY_COUNT_MAX, True):
        found = tuple(one.thread for one in job.run(None).threads if one.count)
        if is_last or not found:
            return found
        outcome = job.run(job.make_state_rewriter())
        _update_index(job, outcome)
        job.replace(job.store, [one.thread for one in outcome.threads])
    return ()


def _update_index(job: ScrubJob, outcome: ScrubResult) -> None:
    """The index forgets the threads and takes them in again, as they are now."""
    changed = {done.thread for done in outcome.threads}
    threads = outcome.looked_at if len(outcome.looked_at) <= FORGET_COUNT_MAX else changed
    with closing(Index(job.store, job.notify)) as index:
        if not index.erase(*threads):
            return
        for thread_id in threads:
            index.update(thread_id)
