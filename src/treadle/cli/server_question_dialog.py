"""Asks a person, in a terminal, what a server of tools asks back in a call."""

from __future__ import annotations

import click

from treadle.app.tool_servers.form_text import (
    describe_field,
    describe_server_question,
    read_field,
    write_value,
)
from treadle.cli.question_dialog import drop_typed_lines, read_line
from treadle.cli.question_output import print_with_bar
from treadle.server_questions import FormField, FormValue, ServerAnswer, ServerQuestion

_NO = ServerAnswer("decline")


async def answer_server(question: ServerQuestion) -> ServerAnswer:
    """What a person says. The event loop goes on meanwhile.

    Raises:
        click.Abort: the input has ended; nobody answers.
    """
    head, lines = describe_server_question(question)
    click.echo(head, err=True)
    print_with_bar("\n".join((*lines, *map(describe_field, question.fields))))
    drop_typed_lines()
    if question.wants != "form":
        return ServerAnswer("accept") if await _has_yes("Yes (y) or no (n)") else _NO
    if not await _has_yes("Fill it out (y), or not (n)"):
        return _NO
    values: dict[str, FormValue] = {}
    for field in question.fields:
        if (value := await _enter(field)) is not None:
            values[field.name] = value
    return ServerAnswer("accept", values) if await _has_yes("Send it (y), or not (n)") else _NO


async def _has_yes(words: str) -> bool:
    while (said := (await read_line(words)).lower()) not in ("y", "yes", "n", "no"):
        pass
    return said in ("y", "yes")


async def _enter(field: FormField) -> FormValue | None:
    """The value; `None` where it is left out, the default where nothing is entered."""
    label = describe_field(field)
    if field.kind == "choice":
        label += f", one of {', '.join(f'{value} ({shown})' for value, shown in field.choices)}"
    if field.default is not None:
        label += f" [{write_value(field.default)}]"
    while True:
        text = await read_line(label)
        if not text and (field.default is not None or not field.is_required):
            return field.default
        value = read_field(field, text)
        if not (fault := field.find_fault(value)):
            return value
        click.secho(f"{fault}, please", fg="yellow", err=True)
