"""`treadle config`: what is set and where it comes from; who trusts a project's settings."""

from __future__ import annotations

import click

from treadle.cli.config_set_command import command as set_command
from treadle.cli.options import find_folder, settings_folder_option


@click.group("config")
def command() -> None:
    """Show and change the settings, or trust what a project brings along.

    \b
    treadle config set models.default sonnet
    treadle config show --origin       what holds here, and why
    treadle config trust               look at this project's settings, and use them
    """  # noqa: D301  click reads the backspace


@command.command("show")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object, with origins.")
@settings_folder_option
def show(origin: bool, as_json: bool, folder: str) -> None:
    """Show every setting that holds in this folder, those that somebody has set first.

    Keys are not shown.

    Your own settings belong in $XDG_CONFIG_HOME/treadle/config.toml, which is
    ~/.config/treadle/config.toml on most machines; docs/configuration.md describes them.
    """
    import json
    import os

    from treadle.cli.renderers import make_printable
    from treadle.config.loader import load_settings

    loaded = load_settings(find_folder(folder), os.environ)
    for notice in loaded.notices:
        click.echo(f"treadle: {make_printable(notice)}", err=True)
    if as_json:
        rows = {
            key: {"value": value, "origin": loaded.origins[key]}
            for key, value in loaded.values.items()
        }
        from treadle.cli.json_output import print_json

        print_json(rows)
        return
    changed = loaded.list_changed()
    rest = [key for key in loaded.values if key not in changed]
    for title, keys in (("not as built in", changed), ("as built in", rest)):
        if changed and keys:
            click.echo(f"# {title}")
        for key in keys:
            told = "(not set)" if loaded.values[key] is None else json.dumps(loaded.values[key])
            where = f"    # {make_printable(loaded.origins[key])}" if origin else ""
            click.echo(f"{key} = {told}{where}")


@command.command("trust")
@settings_folder_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--remove", is_flag=True, help="Trust this project no longer.")
def trust(folder: str, yes: bool, remove: bool) -> None:
    """Show this project's settings, servers, skills and commands, and use them from now on.

    Nothing of a project's .treadle/config.toml, .mcp.json, .agents/skills and .treadle/commands is
    used before its user has looked at it; what changes is to be looked at again.
    """
    import os

    from treadle.app.folders import user_folders
    from treadle.app.project_trust import read_project_files
    from treadle.cli.question_dialog import is_interactive
    from treadle.config.loader import check_project_file
    from treadle.config.project_trust import distrust_project, trust_project
    from treadle.errors import UsageError

    places = user_folders()
    if remove:
        was_known = distrust_project(places, find_folder(folder))
        click.echo("trusted no longer" if was_known else "it was not trusted", err=True)
        return
    files = read_project_files(find_folder(folder), places)
    for path, text in files.contents:
        click.echo(f"{path}:\n", err=True)
        click.echo(text)
    for one in filter(None, (files.settings, files.servers)):
        check_project_file(one, os.environ)
    if (files.settings, files.servers, files.prompts) == (None, None, ()):
        click.echo("its skills and commands are trusted already", err=True)
        return
    if not yes:
        if not is_interactive():
            raise UsageError(
                "nobody is there to say whether this is trusted",
                hint="look at it, then run `treadle config trust --yes`",
            )
        from treadle.terminal.keyboard_modes import asking_keyboard

        with asking_keyboard():
            is_used = click.confirm("Use this in this project?", err=True)
        if not is_used:
            raise UsageError("not trusted; nothing was changed")
    trust_project(places, files.settings, files.prompts, files.servers)
    click.echo("trusted; `treadle config trust --remove` takes it back", err=True)


command.add_command(set_command)
