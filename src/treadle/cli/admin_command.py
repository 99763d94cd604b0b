"""`treadle admin`: the people of a team server, for who runs it.

It works on the database itself, so it needs no token and no server that answers: who has lost the
last admin's token makes another one. Over HTTP the same is under /api/admin.
"""

from __future__ import annotations

import click

from treadle.cli.admin_audit_command import show_audit
from treadle.cli.admin_holds_command import holds
from treadle.cli.admin_identities_command import identities
from treadle.cli.admin_invitations_command import invitations
from treadle.cli.admin_organizations_command import organizations
from treadle.cli.admin_retention_command import retention
from treadle.cli.admin_tokens_command import tokens
from treadle.cli.admin_usage_command import show_usage
from treadle.cli.admin_users_command import users


@click.group("admin")
def command() -> None:
    """Manage the users of a team server, in its database.

    \b
    treadle admin organizations add acme
    treadle admin users add ada --organization acme
    treadle admin tokens add ada --expires 90d      prints the token, this once
    treadle admin users disable ada                 her tokens stop working at once
    """  # noqa: D301  click reads the backspace
    from treadle.cli.extras import require_extra

    require_extra("server")


for _part in (
    *(organizations, users, invitations, identities, tokens, show_usage, show_audit),
    *(holds, retention),
):
    command.add_command(_part)
