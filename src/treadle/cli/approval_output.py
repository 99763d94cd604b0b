"""What a thread waits for, and what is allowed for the rest of it: shown, or taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from treadle.cli.json_output import print_json
from treadle.cli.notices import print_line


def handle_grants(thread: str, call: str | None, answers: Sequence[str], **given: Any) -> None:
    """Show what is allowed for the rest of the thread, or take some of it back."""
    if call is not None or answers or given["always"] or (given["grants"] and given["revoke"]):
        raise click.UsageError("--grants and --revoke answer nothing: give one of them, by itself")
    if given["revoke"] is None:
        _show_grants(thread, as_json=given["as_json"])
        return
    if given["as_json"]:
        raise click.UsageError("--json goes with --grants, not with --revoke")
    from treadle.app.threads.grants import revoke_grant
    from treadle.cli.host import open_command_store

    what = given["revoke"]
    fold = revoke_grant(open_command_store(), thread, what)
    print_line(f"{what} is not allowed unasked in {fold.header.thread} any more", err=True)


def _show_grants(thread: str, *, as_json: bool) -> None:
    """Each grant that holds here in a line: the tool, the kind, the highest risk it is for.

    What was allowed in a thread that was made elsewhere does not hold: it has a line of its own.
    """
    from treadle.app.threads.grants import grant_name, read_grants
    from treadle.cli.host import open_command_store

    found = read_grants(open_command_store(), thread)
    if found.elsewhere:
        names = ", ".join(map(grant_name, found.elsewhere))
        click.echo(f"allowed elsewhere, and not here, where nobody has said so: {names}", err=True)
    if as_json:
        print_json(found.grants)
        return
    for grant in found.grants:
        click.echo(f"{grant_name(grant)}, up to {grant.risk.name.lower()} risk")
    text = "nothing is allowed for the rest of this thread"
    if found.grants:
        text = f"to take one back: treadle approve {found.thread} --revoke WHAT"
    print_line(text, err=True)


def show_waiting_calls(thread: str, call: str | None, *, as_json: bool) -> None:
    """What a thread waits for, and how to answer; changes nothing."""
    from treadle.app.sessions.approvals import read_waiting_calls
    from treadle.cli.host import make_host, open_command_store
    from treadle.cli.question_output import show_pending_questions

    found = read_waiting_calls(open_command_store(), thread, call=call, host=make_host())
    if as_json:
        print_json(found.questions)
        return
    show_pending_questions(found.thread, found.questions, err=False)
    if found.refused_tool:
        mode = f"the mode here, {found.mode}, leaves {found.refused_tool} out"
        click.echo(f"a yes needs --approval-mode ask: {mode}")
