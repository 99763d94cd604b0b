"""Every error Treadle raises on purpose.

Each class says who is at fault, what is unchanged, and what to do next. Failures of tools and of
models are not here: they are data that the agent sees (`ToolError`, `LlmError` in `treadle.core`).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence


class TreadleError(Exception):
    """Root of the tree.

    Args:
        message: what happened, in one sentence that names the party at fault.
        hint: what to do next; may be empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(TreadleError):
    """The caller asked for something that cannot be; nothing was changed. Ask differently."""


class UnknownThreadError(UsageError):
    """No thread has this id or prefix; nothing was created."""


_CANDIDATES_SHOWN_MAX = 20
"""Threads that an error names."""


class AmbiguousThreadError(UsageError):
    """The ids of several threads begin or end so; give more of the id.

    Args:
        prefix: what was asked for.
        candidates: the full ids that match, newest first.
    """

    def __init__(self, prefix: str, candidates: Sequence[str]) -> None:
        more = len(candidates) - _CANDIDATES_SHOWN_MAX
        shown = [*candidates[:_CANDIDATES_SHOWN_MAX], *[f"and {more} more"] * (more > 0)]
        super().__init__(
            f"{prefix!r} means {len(candidates)} threads: {', '.join(shown)}",
            hint="name one of them by what stands there",
        )
        self.candidates = tuple(candidates)


class ScriptError(UsageError):
    """The script of a scripted model is not valid; the message names the file and the place."""


class ConfigError(UsageError):
    """A setting is not valid; the message names the file and line, or the variable."""


class NotConfiguredError(TreadleError):
    """Something must be set up first (a model, a key); the hint says what."""


class MissingModelError(NotConfiguredError):
    """No model can answer yet; `treadle login` sets one up.

    Args:
        message: what is missing.
        hint: what to do next.
        provider: whose key is missing; empty if no model was chosen.
    """

    def __init__(self, message: str, *, hint: str = "", provider: str = "") -> None:
        super().__init__(message, hint=hint)
        self.provider = provider


class StoreError(TreadleError):
    """This machine's disk, or another process, stands in the way; everything saved is intact."""


_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class DiskError(StoreError):
    """The operating system refused a file operation.

    The writer that met it is finished: its thread is opened again from disk once the cause is
    gone. Everything acknowledged before is intact.

    Args:
        operation: what was tried (`write`, `sync`, `rename`, ...).
        path: the file.
        cause: the operating system's error.
        needed: how many bytes the operation would have taken; 0 if that is not known.
    """

    def __init__(self, operation: str, path: str, cause: OSError, needed: int = 0) -> None:
        room = f" ({needed} bytes are needed)" if needed and cause.errno in _NO_ROOM else ""
        super().__init__(
            f"cannot {operation} {path}: {cause.strerror or cause}{room}",
            hint="everything saved before is intact; mend the cause and resume the thread",
        )
        self.operation = operation
        self.path = path
        self.errno = cause.errno
        self.needed = needed


class ThreadBusyError(StoreError):
    """Another process has this thread open for writing, or this one has it open already.

    Args:
        thread_id: the thread.
        holder: which process, in words; empty if that is not known.
        is_own: whether it is this process.
    """

    def __init__(self, thread_id: str, holder: str = "", *, is_own: bool = False) -> None:
        where = "this process already" if is_own else "another process"
        free = "when that process ends"
        if is_own:
            free = "when it is closed there (`async with`; generators: contextlib.aclosing)"
        super().__init__(
            f"thread {thread_id} is open in {where}" + (f": {holder}" if holder else ""),
            hint=f"`treadle watch {thread_id}` follows it; it is free {free}",
        )
        self.thread_id = thread_id
        self.holder = holder


class StaleWriterError(StoreError):
    """The journal on disk is not as this writer left it: somebody else wrote. Open it again."""


class DamagedJournalError(StoreError):
    """Acknowledged records are damaged; the thread is readable up to the damage, nothing is cut.

    Args:
        path: the journal.
        offset: the byte at which the damage begins.
        reason: what is wrong there.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {offset}: {reason}",
            hint="`treadle show` reads what stands before it; `treadle verify` says how much",
        )
        self.path = path
        self.offset = offset


class StorageBusyError(StoreError):
    """Another process moves or removes threads; nothing was changed. Wait for it."""


class MissingBlobError(TreadleError):
    """A large output that was kept beside its thread is gone, or not what it was.

    The message in the thread still has its beginning and its end.
    """


class ReadOnlyThreadError(StoreError):
    """The thread can be shown but not continued; the message says why."""


class FileStateError(TreadleError):
    """A state of the workspace's files cannot be had here; the message says why.

    The repository, or who removed the state from it, is at fault; no file was changed.
    """


class RemoteError(TreadleError):
    """A server stands in the way; this machine's threads are as they were."""


class RemoteUnavailableError(RemoteError):
    """The server cannot be reached, or asks to come back later. What waits is sent then.

    Args:
        message: what happened.
        hint: what to do next.
        retry_after_s: when the server says to come back; `None` if it does not.
    """

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class RemoteBrokenError(RemoteUnavailableError):
    """The server began to answer and broke off. It may be there for all else."""


class RemoteRefusedError(RemoteError):
    """The server says no, and would say it again: ask differently.

    Args:
        message: what it said.
        hint: what to do next.
        code: the code of its answer, as `api/error_codes.py` has them; empty if it gave none.
        status: the HTTP status; 0 if there was none.
    """

    def __init__(self, message: str, *, hint: str = "", code: str = "", status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.status = status


class RemoteConflictError(RemoteRefusedError):
    """The thread on the server is not where this machine thought; nothing was changed there.

    Args:
        message: what the server said.
        seq: the last record the server has; 0 if it has none.
        hash: that record's hash.
    """

    def __init__(self, message: str, *, seq: int, hash: str) -> None:  # noqa: A002  its name
        super().__init__(message, code="conflict", status=409)
        self.seq = seq
        self.hash = hash


class NotLoggedInError(NotConfiguredError):
    """No server is known to this machine, or it does not know this user: `treadle login URL`."""


class HeldBackError(TreadleError):
    """What was to leave this machine holds a secret it knows; nothing has left."""


class PrivateThreadError(HeldBackError):
    """The thread may not leave this machine, and did not: it, or what it hangs on, is private."""


class SecretFoundError(HeldBackError):
    """What was to leave holds what looks like a secret; nothing has left.

    Args:
        message: what was to leave, and what was found.
        hint: what to do next.
        found: what was found, in words that hold none of it.
    """

    def __init__(self, message: str, *, hint: str = "", found: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.found = tuple(found)


class BuildError(UsageError):
    """An agent cannot be built like this; the message names the state or the part at fault."""


class AgentError(TreadleError):
    """A task could not be brought to an answer; its thread is intact and says how far it got."""


class AgentFailed(AgentError):  # noqa: N818  the source document's name, as those below
    """The task ended in the state `Error`; the message is the agent's own."""


class BudgetExceeded(AgentFailed):
    """The task was stopped by a limit: steps, tokens, cost or time. Raise it and start anew."""


class ApprovalNeeded(AgentError):  # noqa: N818
    """A call waits for a person's yes. It is durable: answer it, from any process, and go on.

    Args:
        thread_id: the thread that waits.
        calls: a line about each call.
    """

    def __init__(self, thread_id: str, calls: Sequence[str]) -> None:
        super().__init__(
            f"thread {thread_id} waits for approval of: {'; '.join(calls)}",
            hint="say yes or no, in this process or another: approve() or reject() of the open "
            "task or thread, decide() of its engine",
        )
        self.thread_id = thread_id


class HandlerFailed(AgentError):  # noqa: N818
    """The handler of a custom state failed; the state stands, and runs again when it is resumed.

    Args:
        state: whose handler it was.
        fault: what it raised, in a line.
        details: where, as Python tells it; recorded in the thread.
        count: how often in a row, if that is why it did not run by itself.
    """

    def __init__(self, state: str, fault: str, details: str = "", count: int = 0) -> None:
        often = f"; {count} times in a row, so it does not run by itself" if count else ""
        again = "call retry()" if count else "resume the thread"
        super().__init__(
            f"the handler of {state} failed: {fault}{often}",
            hint=f"mend the program and {again}: the state runs again",
        )
        self.state = state
        self.fault = fault
        self.details = details


class InvalidTransition(AgentError):  # noqa: N818
    """The table has no row for what a handler said has happened; nothing has moved.

    Args:
        state: where the machine stands.
        event: what the handler said.
    """

    def __init__(self, state: str, event: str) -> None:
        super().__init__(
            f"the transition table has no row for the event {str(event)!r} in the state "
            f"{str(state)!r}",
            hint="the handler of that state is at fault, or a transition was forgotten",
        )
        self.state = state
        self.event = event


class NoHandlerForState(AgentError):  # noqa: N818
    """The graph leads to a state whose handler this program does not have; nothing has moved."""


class OwnershipViolation(AgentError):  # noqa: N818
    """A handler wrote a field of memory that its state does not own; nothing has moved.

    Args:
        state: whose handler it was.
        field: what it wrote.
        owners: the states that may.
    """

    def __init__(self, state: str, field: str, owners: Sequence[str]) -> None:
        may = ", ".join(map(str, owners)) or "no state"
        super().__init__(
            f"the handler of {str(state)!r} wrote memory.{field}, which it does not own",
            hint=f"{field} is written by: {may}",
        )
        self.state = state
        self.field = field


class InternalError(TreadleError):
    """A bug in Treadle; please report it with the message."""
