"""`treadle rewind`: go back to an earlier place of a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from treadle.cli.json_output import print_json
from treadle.cli.notices import print_line, print_notice
from treadle.cli.options import folder_option

if TYPE_CHECKING:
    from treadle.app.files.rewind import RewindResult


@click.command("rewind")
@click.argument("thread", metavar="ID")
@click.option(
    "--version",
    type=click.IntRange(min=1),
    help="Back to this version, or to the last place before it where nothing was open.",
)
@click.option(
    "--turn", type=click.IntRange(min=0), help="Back to the end of this turn; 0: before the first."
)
@click.option("--of", metavar="ID", default="", help="The version is one of what it forked from.")
@click.option("--files", "wants_files", is_flag=True, help="Put back the files it changed since.")
@click.option(
    "--force", is_flag=True, help="With --files: also those that somebody else changed as well."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="What was done, as a JSON object.")
@folder_option
def command(
    thread: str,
    version: int | None,
    turn: int | None,
    of: str,
    wants_files: bool,
    force: bool,
    dry_run: bool,
    as_json: bool,
    cwd: str | None,
) -> None:
    """Go back in a conversation, by default to where its last turn began.

    \b
    treadle rewind ID                    take back the last turn
    treadle rewind ID --turn 2 --files   to the end of turn 2, and its files with it
    treadle rewind ID --version 31       to version 31; so one comes back from a rewind, too
    treadle rewind FORK --version 9 --of ID   to before it was forked from ID

    Nothing is deleted: the messages stay in the thread, the model is not shown them any more. Work
    that is unfinished is given up. With --files, the files that the agent changed since then
    become what they were before; what you changed stays. If you changed the same files nothing at
    all is done, unless with --force. Files that git ignores are never touched.
    """  # noqa: D301  click reads the backspace
    if version is not None and turn is not None:
        raise click.UsageError("--version and --turn name different places: give one of them")
    if force and not wants_files:
        raise click.UsageError("--force goes with --files")
    if cwd is not None and not wants_files:
        raise click.UsageError("-C goes with --files: it says where they are now")
    from treadle.app.files.rewind import RewindRequest, rewind_thread
    from treadle.app.stores import open_store

    request = RewindRequest(version, turn, wants_files, force, dry_run, cwd, of)
    done = asyncio.run(rewind_thread(open_store(), thread, request, notify=print_notice))
    if as_json:
        print_json(done)
    else:
        _show_result(done, of, wants_files=wants_files)


def _show_result(done: RewindResult, of: str, *, wants_files: bool) -> None:
    from treadle.app.files.name_text import format_name, format_names

    first = f"a place in {of}" if of else "before the first prompt"
    place = f"the end of turn {done.turn}" if done.turn else first
    verb = "would go" if done.dry_run else "went"
    print_line(f"{done.thread} {verb} back to {place} (version {done.version})")
    for count, words in (
        (done.messages_hidden, "no longer in view"),
        (done.messages_shown_again, "in view again"),
    ):
        if count:
            click.echo(f"{count} message{'s' if count > 1 else ''} {words}")
    for one in done.files:
        click.echo(f"{one.what}: {format_name(one.path)}")
    if wants_files and not done.files:
        print_notice("no file had to be put back")
    if done.dry_run and done.conflicts:
        print_notice(f"changed by others too, so --force is needed: {format_names(done.conflicts)}")
    if done.gap:
        print_notice(done.gap + ("; so --force is needed" if done.dry_run else ""))
    if done.left:
        left = format_names(done.left)
        print_notice(f"left as they are (ignored, not kept, or in the way): {left}")
    if done.back:
        more = " --files" if wants_files else ""
        print_notice(f"to come back: treadle rewind {done.thread} --version {done.back}{more}")
