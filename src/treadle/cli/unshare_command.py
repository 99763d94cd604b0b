"""`treadle unshare`: end the links to a thread, or support's access to it."""

from __future__ import annotations

import click

from treadle.cli.notices import print_line


@click.command("unshare")
@click.argument("thread", metavar="ID")
@click.option("--link", is_flag=True, help="End its links.")
@click.option("--support", is_flag=True, help="End support's access.")
@click.option("--all", "wants_all", is_flag=True, help="Both.")
def command(thread: str, link: bool, support: bool, wants_all: bool) -> None:
    """End the links to a thread, or support's access; without an option both.

    \b
    treadle unshare 7c1e93f0 --link   the link leads nowhere from now on
    treadle unshare 7c1e93f0 --all    links and support access

    The server does it at once, or nothing is changed: exit code 75 if it cannot be reached. What
    people have read they have read. Who may see the thread besides is for `treadle share ID
    --visibility private`.
    """  # noqa: D301  click reads the backspace
    from treadle.app.stores import open_store
    from treadle.app.sync.share_access import end_access, find_share_target
    from treadle.thread.safe_text import sanitize_text

    wants_all = wants_all or not (link or support)
    store = open_store("treadle unshare")
    # Not even its id leaves; what was shared of it ended when the server's copy was removed.
    target = find_share_target(store, thread)
    ended = end_access(
        store, target, ends_links=link or wants_all, ends_support=support or wants_all
    )
    if ended.problem:
        print_line(f"treadle: not recorded in the thread: {sanitize_text(ended.problem)}", err=True)
    done = []
    if (count := ended.link_count) is not None:
        done.append(f"{count} link{'' if count == 1 else 's'} ended")
    if support or wants_all:
        done.append("support cannot read it")
    print_line(f"{target.thread_id}: {', '.join(done)}", err=True)
