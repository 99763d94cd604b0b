"""`treadle config set`: one value in the user's own file."""

from __future__ import annotations

import click

from treadle.cli.options import find_folder, settings_folder_option


@click.command("set")
@click.argument("key")
@click.argument("value")
@settings_folder_option
def command(key: str, value: str, folder: str) -> None:
    """Change a setting in your own file, and say which file that is.

    \b
    treadle config set approval_mode auto-edit
    treadle config set models.default sonnet
    treadle config set providers.ollama.base_url http://localhost:11500/v1
    treadle config set sandbox_writable '["~/.cache/uv"]'

    VALUE is as TOML writes it; a text needs no quotes of its own. What else stands in the file
    stays as it is, comments too.
    """  # noqa: D301  click reads the backspace
    import json
    import os

    from treadle.app.folders import user_folders
    from treadle.app.setting_change import change_setting
    from treadle.cli.renderers import make_printable

    done = change_setting(
        user_folders(), key, value, folder=find_folder(folder), environ=os.environ
    )
    told = make_printable(f"{done.key} = {json.dumps(done.value)}    # {done.origin}")
    click.echo(told)
    if not done.holds:
        click.echo(f"it is in {make_printable(done.path)}, which does not decide here", err=True)
