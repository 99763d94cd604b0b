"""`treadle config`: what is set and where it comes from; who trusts a project's settings."""

from __future__ import annotations

from pathlib import Path

import click

_FOLDER = click.option(
    "-C",
    "--cwd",
    "folder",
    metavar="FOLDER",
    type=click.Path(),
    default=".",
    help="Look there instead of here.",
)


@click.group("config")
def command() -> None:
    """Show the settings, or trust those of a project.

    \b
    treadle config show --origin       what holds here, and why
    treadle config trust               look at this project's settings, and use them
    """  # noqa: D301  click reads the backspace


@command.command("show")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object, with origins.")
@_FOLDER
def show(origin: bool, as_json: bool, folder: str) -> None:
    """Show every setting that holds in this folder. Keys are not shown.

    Your own settings belong in $XDG_CONFIG_HOME/treadle/config.toml, which is
    ~/.config/treadle/config.toml on most machines; docs/configuration.md describes them.
    """
    import json
    import os

    from treadle.cli.renderers import make_printable
    from treadle.config.loader import load_settings

    loaded = load_settings(_find_folder(folder), os.environ)
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
    for key, value in loaded.values.items():
        told = "(not set)" if value is None else json.dumps(value)
        where = f"    # {make_printable(loaded.origins[key])}" if origin else ""
        click.echo(f"{key} = {told}{where}")


@command.command("trust")
@_FOLDER
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--remove", is_flag=True, help="Trust this project no longer.")
def trust(folder: str, yes: bool, remove: bool) -> None:
    """Show this project's settings, and use them from now on.

    A project's .treadle/config.toml is not read before its user has looked at it; when it changes,
    it is to be looked at again.
    """
    import os

    from treadle.app.stores import user_folders
    from treadle.cli.question_dialog import is_interactive
    from treadle.config import project_file
    from treadle.config.loader import check_project_file
    from treadle.errors import UsageError

    places = user_folders()
    if remove:
        was_known = project_file.distrust_project(places, _find_folder(folder))
        click.echo("trusted no longer" if was_known else "it was not trusted", err=True)
        return
    file = project_file.find_project_file(_find_folder(folder))
    if file is None:
        root = project_file.find_project_root(_find_folder(folder))
        raise UsageError(f"{root} has no {project_file.FOLDER_NAME}/{project_file.FILE_NAME}")
    click.echo(f"{_mark_invisible(str(file.path))}:\n", err=True)
    click.echo(_mark_invisible(file.data.decode("utf-8", "replace")))
    check_project_file(file, os.environ)
    if not yes:
        if not is_interactive():
            raise UsageError(
                "nobody is there to say whether these settings are trusted",
                hint="look at them, then run `treadle config trust --yes`",
            )
        if not click.confirm("Use these settings in this project?", err=True):
            raise UsageError("not trusted; nothing was changed")
    project_file.trust_project_file(places, file)
    click.echo("trusted; `treadle config trust --remove` takes it back", err=True)


def _find_folder(folder: str) -> Path:
    from treadle.errors import UsageError

    path = Path(folder).expanduser()
    if not path.is_dir():
        raise UsageError(f"{path} is no folder", hint="-C takes the folder of a project")
    return path


def _mark_invisible(text: str) -> str:
    """The text with a mark for each character that would hide or rearrange others."""
    mark = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() or c in "\n\t" else mark for c in text)
