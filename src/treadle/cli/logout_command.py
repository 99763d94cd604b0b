"""`treadle logout`: forget the server, and make the token worthless."""

from __future__ import annotations

import click


@click.command("logout")
@click.option("--keep-token", is_flag=True, help="Leave the token valid: it is used elsewhere too.")
def command(keep_token: bool) -> None:
    """Log out: the token is revoked at the server, and its file is removed.

    The file is removed in any case. If the server cannot be reached, the token stays valid, and
    that is said. Threads stay as they are, here and there.
    """
    from treadle.cli.render import printable
    from treadle.errors import NotLoggedInError, TreadleError, UsageError
    from treadle.store.places import Places
    from treadle.sync.client import HttpRemote
    from treadle.sync.credentials import find_account, remove_account

    places = Places.find()
    try:
        # What a variable says is nobody's to remove here, and no login made it.
        account = find_account(places, {})
    except NotLoggedInError:
        account = None
    if account is None and not places.remote.exists():
        raise UsageError("this machine is logged in to no server")
    said = "the token could not be read, and stays valid until its administrator revokes it"
    if account is not None and keep_token:
        said = f"the token stays valid at {account.url}"
    elif account is not None:
        try:
            with HttpRemote(account) as remote:
                is_revoked = remote.revoke_own_token()
            said = f"the token is worthless now at {account.url}"
            if not is_revoked:
                said = f"the token stays valid at {account.url}: several there have its name"
        except NotLoggedInError:
            said = f"the token was no longer valid at {account.url}"
        except TreadleError as error:
            said = f"the token stays valid: {error.message}"
    remove_account(places)
    click.echo(printable(f"logged out; {said}"), err=True)
