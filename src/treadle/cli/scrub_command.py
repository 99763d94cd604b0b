"""`treadle scrub`: take a secret that slipped in out of a thread, everywhere."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from treadle.thread.safe_text import legible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treadle.store.local import LocalStore
    from treadle.store.upkeep.scrub import Outcome

LENGTH_MIN: Final = 4
"""Characters of a text that can be taken out; shorter ones stand everywhere."""

AGAIN_COUNT_MAX: Final = 3
"""So often it is taken out again if the server has it again."""

FORGET_COUNT_MAX: Final = 100
"""Of more threads than this only the changed ones are taken out of the index."""

BEYOND: Final = """\
This cannot reach what the model's provider has been sent, commits on branches, files in the
workspace, copies of threads elsewhere (exports, other machines, backups) and blocks that the disk
has not overwritten. Change the secret."""


@click.command("scrub")
@click.argument("thread", metavar="[ID]", required=False)
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--found", is_flag=True, help="All that is found today, in place of TEXT.")
@click.option("--kind", metavar="NAME", help="Its label; by default `scrubbed`.")
@click.option("--all-threads", is_flag=True, help="All threads of this machine, trash included.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def command(
    ctx: click.Context,
    thread: str | None,
    text: str | None,
    found: bool,
    kind: str | None,
    all_threads: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Take TEXT out of a thread: everywhere it is kept, in every form it takes, for good.

    TEXT - is read from stdin, so that it is in no shell history; without TEXT it is asked for.
    --found takes out what holds back an export or a push: values that this machine knows today, and
    tokens that are known by their format, each under its own kind. Nobody has to type them.

    [REDACTED:NAME] stands in its place in the journal, which is chained anew, in blobs, quarantine
    and saved states of files, those of sub-agents too; snapshot and index are made anew. Threads
    that were forked from it are chained anew as well; what they hold themselves is only told.
    Stopped anywhere, it is finished by running it again. Of a thread that is synced, the server's
    copy is replaced; what other machines have sent of it comes first, and is scrubbed too.

    With --all-threads, a thread that has the text where it cannot be taken out, such as in the
    name of a tool, is named and left as it is, and all others are done.

    Exit codes: 0 done, 1 the text was found nowhere, 2 it cannot be taken out, of one thread at
    least, 75 a thread is open, or all is done here but the server's copy may hold it still:
    `treadle sync` replaces that one.

    \b
    treadle scrub 0190 --found
    treadle scrub 0190 - --dry-run < secret.txt
    treadle scrub --all-threads - --kind deploy_key --yes < secret.txt
    """  # noqa: D301  click reads the backspace
    from treadle.app.threads.thread_lookup import every_thread, resolve_anywhere
    from treadle.errors import UsageError
    from treadle.runtime.defaults import own_store
    from treadle.store.upkeep.scrub import scrub

    if all_threads and text is None:
        thread, text = None, thread
    if found and (text is not None or kind is not None):
        raise UsageError(
            "--found says itself what is taken out, and under which kind",
            hint="leave TEXT and --kind out",
        )
    if thread is None and not all_threads:
        raise UsageError("which thread?", hint="give an ID, or --all-threads")
    if not dry_run and not yes and (text == "-" or not _is_somebody_there()):
        raise UsageError(
            "nobody can be asked whether this is meant", hint="add --yes, or --dry-run to look"
        )
    store = own_store("treadle scrub")
    ids = every_thread(store) if all_threads else [resolve_anywhere(store, thread or "")]
    words = "" if found else _read(text)
    redact = _redact_found() if found else _redact(words, kind or "scrubbed")
    sign = partial(_sign, f"{kind or ''}\n{words}")
    work = partial(scrub, store, ids, redact, wants_rest=all_threads, sign=sign)
    ctx.exit(_scrub(store, ids, work, redact, is_rehearsal=dry_run, is_agreed=yes or dry_run))


def _is_somebody_there() -> bool:
    from treadle.cli.ask import is_somebody_there

    return is_somebody_there()


def _read(text: str | None) -> str:
    """The text, from wherever it is to come."""
    from treadle.errors import UsageError

    if text is None:
        if not _is_somebody_there():
            raise UsageError("there is no text", hint="TEXT - reads it from stdin")
        text = str(click.prompt("Text to take out", hide_input=True, err=True))
    elif text == "-":
        data = sys.stdin.buffer.read()
        text = data.decode("utf-8", "surrogateescape")
    else:
        click.echo("the text is in your shell's history now; TEXT - reads it from stdin", err=True)
    if len(text.strip()) < LENGTH_MIN:
        raise UsageError(f"a text of less than {LENGTH_MIN} characters cannot be taken out")
    return text.strip()


def _sign(words: str, salt: bytes) -> bytes:
    """Tells the same scrub again; slow on purpose, as the text must not be guessed by it."""
    from hashlib import scrypt

    data = words.encode("utf-8", "surrogateescape")
    return scrypt(data, salt=salt, n=2**14, r=8, p=1)


def _redact_found() -> Callable[[str], str]:
    """What takes out all secrets that this machine knows today, and all that look like one."""
    from treadle.runtime.defaults import own_redactor

    return own_redactor().redact


def _redact(text: str, kind: str) -> Callable[[str], str]:
    """What takes the text out of a string."""
    from treadle.errors import UsageError
    from treadle.secrets.redaction import Redactor

    redact = Redactor({kind: text}, length_min=LENGTH_MIN, has_shapes=False).redact_cut
    label = redact(text)
    if text in label:
        raise UsageError(
            f"the text is a part of {label}, which would stand in its place",
            hint="choose another --kind",
        )
    return redact


def _scrub(
    store: LocalStore,
    thread_ids: Sequence[str],
    scrub: Callable[..., Outcome],
    redact: Callable[[str], str],
    *,
    is_rehearsal: bool,
    is_agreed: bool,
) -> int:
    """Do it, and tell it; the exit code."""
    from treadle.app.files.file_state_scrub import StateRewriting
    from treadle.cli.server_replacement import fetch_first, replace_on_server
    from treadle.errors import UsageError
    from treadle.exit_codes import DONE, FAILED, TRY_LATER, USAGE
    from treadle.store.upkeep.text_scan import Remains, change_bytes

    found = Remains(store.folders, redact).holding()
    if not is_agreed:
        plan = scrub(is_rehearsal=True)
        _tell(plan, found, is_done=False)
        question = "Take it out? This cannot be undone."
        if not (found or plan.threads):
            if not any(_has_states(store, thread_id) for thread_id in plan.looked_at):
                click.echo("the text was found nowhere", err=True)
                return FAILED
            click.echo("no record and no output of these threads holds the text", err=True)
            question = "Look through the saved states of their files, and take it out there?"
        if not click.confirm(question, err=True):
            raise UsageError("not agreed; nothing was changed")
    is_kept_there = False if is_rehearsal else fetch_first(store, thread_ids)
    states = None if is_rehearsal else StateRewriting(lambda data: change_bytes(data, redact))
    outcome = scrub(is_rehearsal=is_rehearsal, states=states)
    if not is_rehearsal:
        _forget(store, outcome)
    left = found if is_rehearsal else Remains(store.folders, redact).holding()
    _tell(outcome, left, is_done=not is_rehearsal)
    for problem in () if states is None else states.problems:
        click.echo(f"not reached: {legible(problem)}", err=True)
    was_found = bool(found or outcome.threads or (states is not None and states.has_changed))
    if not was_found:
        click.echo("the text was found nowhere", err=True)
        return FAILED
    is_gone = is_rehearsal or replace_on_server(store, [done.thread for done in outcome.threads])
    came_back = _once_more(store, scrub, redact) if is_kept_there else []
    for thread_id in came_back:
        click.echo(
            f"treadle: thread {thread_id} holds it again: other machines go on with it all the "
            "time; scrub it again when they have ended",
            err=True,
        )
    click.echo(BEYOND, err=True)
    if outcome.refused:
        return USAGE
    return DONE if is_gone and not came_back else TRY_LATER


def _once_more(
    store: LocalStore, scrub: Callable[..., Outcome], redact: Callable[[str], str]
) -> list[str]:
    """Take out what came from the server while its copy was replaced; the threads that hold it.

    Another machine may have gone on with a thread meanwhile, and said it again.
    """
    from treadle.app.files.file_state_scrub import StateRewriting
    from treadle.cli.server_replacement import replace_on_server
    from treadle.store.upkeep.text_scan import change_bytes

    for is_last in (*[False] * AGAIN_COUNT_MAX, True):
        found = [one.thread for one in scrub(is_rehearsal=True).threads if one.count]
        if is_last or not found:
            return found
        states = StateRewriting(lambda data: change_bytes(data, redact))
        outcome = scrub(is_rehearsal=False, states=states)
        _forget(store, outcome)
        replace_on_server(store, [done.thread for done in outcome.threads])
    return []


def _has_states(store: LocalStore, thread_id: str) -> bool:
    """Whether states of its files are recorded, or may be."""
    from treadle.app.files.file_history import saved_states
    from treadle.errors import TreadleError

    try:
        return bool(saved_states(store, thread_id))
    except TreadleError:
        return True


def _forget(store: LocalStore, outcome: Outcome) -> None:
    """The index forgets the threads and takes them in again, as they are now."""
    from treadle.store.index.lookup import Index

    changed = {done.thread for done in outcome.threads}
    threads = outcome.looked_at if len(outcome.looked_at) <= FORGET_COUNT_MAX else changed
    index = Index(store, partial(click.echo, err=True))
    try:
        if not index.forget(*threads):
            return
        for thread_id in threads:
            index.update(thread_id)
    finally:
        index.close()


def _tell(outcome: Outcome, holding: Sequence[str], *, is_done: bool) -> None:
    """What was done, or would be, on stdout; what still holds the text, on stderr."""
    for done in outcome.threads:
        words = f"{done.count} records hold it" if done.count else "is chained anew"
        if is_done:
            words = f"{done.count} records changed" if done.count else "chained anew"
        click.echo(f"{done.thread}  {words}")
    if outcome.blob_count:
        click.echo(f"{outcome.blob_count} kept outputs")
    for name, threads in outcome.kept_blobs.items():
        click.echo(f"the output {name} is kept: {', '.join(threads)} has it too", err=True)
    for path in holding:
        click.echo(f"{'still holds it' if is_done else 'holds it'}: {path}", err=True)
    for thread, why in outcome.refused.items():
        verb = "is" if is_done else "would be"
        click.echo(f"thread {thread} {verb} left as it is: {why}", err=True)
    if outcome.refused:
        click.echo("give more of the secret, if there is more of it", err=True)
    elif is_done and holding:
        click.echo("scrub those threads too, or use --all-threads", err=True)
