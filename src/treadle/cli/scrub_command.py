"""`treadle scrub`: take a secret that slipped in out of a thread, everywhere."""

from __future__ import annotations

import sys
from functools import partial

import click


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
    treadle scrub 7c1e93f0 --found
    treadle scrub 7c1e93f0 - --dry-run < secret.txt
    treadle scrub --all-threads - --kind deploy_key --yes < secret.txt
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.threads.thread_lookup import list_all_ids, resolve_anywhere
    from treadle.app.upkeep.thread_scrub import ScrubJob, make_redaction
    from treadle.cli.question_dialog import is_interactive
    from treadle.cli.scrub_report import run_scrub, show_plan
    from treadle.cli.server_copies import fetch_from_server, replace_on_server
    from treadle.errors import UsageError

    if all_threads and text is None:
        thread, text = None, thread
    if found and (text is not None or kind is not None):
        raise UsageError(
            "--found says itself what is taken out, and under which kind",
            hint="leave TEXT and --kind out",
        )
    if thread is None and not all_threads:
        raise UsageError("which thread?", hint="give an ID, or --all-threads")
    if not dry_run and not yes and (text == "-" or not is_interactive()):
        raise UsageError(
            "nobody can be asked whether this is meant", hint="add --yes, or --dry-run to look"
        )
    store = open_store("treadle scrub")
    ids = list_all_ids(store) if all_threads else [resolve_anywhere(store, thread or "")]
    redact, sign = make_redaction(None if found else _read_text(text), kind)
    job = ScrubJob(
        store=store,
        threads=ids,
        redact=redact,
        sign=sign,
        has_rest=all_threads,
        fetch=fetch_from_server,
        replace=replace_on_server,
        notify=partial(click.echo, err=True),
    )
    ctx.exit(show_plan(job) if dry_run else run_scrub(job, is_agreed=yes))


def _read_text(text: str | None) -> str:
    """The text, from wherever it is to come."""
    from treadle.cli.question_dialog import is_interactive
    from treadle.errors import UsageError

    if text is None:
        if not is_interactive():
            raise UsageError("there is no text", hint="TEXT - reads it from stdin")
        text = str(click.prompt("Text to take out", hide_input=True, err=True))
    elif text == "-":
        data = sys.stdin.buffer.read()
        text = data.decode("utf-8", "surrogateescape")
    else:
        click.echo("the text is in your shell's history now; TEXT - reads it from stdin", err=True)
    return text.strip()
