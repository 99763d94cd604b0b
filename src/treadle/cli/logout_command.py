"""`treadle logout`: forget the server, and make the token worthless."""

from __future__ import annotations

import click


@click.command("logout")
@click.option("--keep-token", is_flag=True, help="Leave the token valid: it is used elsewhere too.")
@click.pass_context
def command(ctx: click.Context, keep_token: bool) -> None:
    """Log out: the token is revoked at the server, and its file is removed.

    \b
    treadle logout

    The file is removed in any case. If the server cannot be reached, the token stays valid: that is
    said, with who can revoke it, and the exit code is 1. Threads stay as they are, here and there.
    """  # noqa: D301  click reads the backspace
    from treadle import exit_codes
    from treadle.app.stores import open_store
    from treadle.app.sync.server_login import log_out
    from treadle.cli.renderers import make_printable

    done = log_out(open_store(), keeps_token=keep_token)
    words = {
        "revoked": f"the token is worthless now at {done.url}",
        "expired": f"the token was no longer valid at {done.url}",
        "left": f"the token stays valid at {done.url}",
        "not revoked": f"the token stays valid: {done.problem}; {_REVOCATION_HINT}",
        "unreadable": f"the token could not be read, and stays valid: {_REVOCATION_HINT}",
    }
    click.echo(make_printable(f"logged out; {words[done.token]}"), err=True)
    is_failed = done.token in ("not revoked", "unreadable") and not keep_token
    ctx.exit(exit_codes.FAILED if is_failed else exit_codes.DONE)


_REVOCATION_HINT = (
    "whoever runs the server can revoke it: `treadle admin tokens list --user NAME`, then "
    "`treadle admin tokens revoke NUMBER`"
)
