"""What servers of tools ask back in a call is put to the person at an editor that can show it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import (
    AcceptElicitationResponse,
    DeclineElicitationResponse,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
)

from editors.editor import Editor, Process, editing, provider, says
from models.loopback import Loopback, Seen
from treadle.acp.server_forms import can_show, make_mode, read_answer
from treadle.server_questions import FormField, ServerAnswer, ServerQuestion

JUDGE = Path(__file__).parents[1] / "mcp_servers" / "asking_server.py"
GREET = ("call_1", "judge__greet", {})
FORMS = ElicitationCapabilities(form=ElicitationFormCapabilities())


class FormEditor(Editor):
    """An editor that shows forms; what its person says to each is `said`."""

    def __init__(self, said: Any) -> None:
        super().__init__()
        self.said = said
        self.forms: list[dict[str, Any]] = []

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        form = mode.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.forms.append({"message": message, **form})
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.fixture
def judge(environment: dict[str, str]) -> None:
    settings = Path(environment["TREADLE_HOME"]) / "config" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[mcp.judge]\ncommand = "{sys.executable}"\nargs = ["{JUDGE}"]\nwrite = true\n'
    )


def accept(**values: Any) -> AcceptElicitationResponse:
    return AcceptElicitationResponse(action="accept", content=values)


async def ask(editor: Editor, repository: Path, environment: dict[str, str], **can: Any) -> str:
    """What the server's tool gives in a session of this editor."""
    answers = says("", GREET), says("woof"), says("done")
    async with (
        Loopback(*answers) as server,
        editing(editor, repository, {**environment, **provider(server)}, **can) as process,
    ):
        return await greet(process, repository, server)


async def greet(process: Process, repository: Path, server: Loopback) -> str:
    """What the server's tool gives in a session."""
    session = await process.begin(repository)
    assert await process.say(session, "greet") == "end_turn"
    sent = [block for one in server.requests[-1].json["messages"] for block in one["content"]]
    (result,) = (one for one in sent if isinstance(one, dict) and one["type"] == "tool_result")
    return json.dumps(result["content"])


async def test_a_form_is_filled_out_in_the_editor_and_a_model_is_asked_with_a_yes(
    repository: Path, environment: dict[str, str], judge: None
) -> None:
    editor = FormEditor(accept(name="Ann"))
    told = await ask(editor, repository, environment, elicitation=FORMS)
    assert "asked: Ann, woof" in told
    (form,) = editor.forms
    assert form["message"] == "judge: Who?"
    assert form["requestedSchema"]["properties"] == {"name": {"title": "name", "type": "string"}}
    assert form["requestedSchema"]["required"] == ["name"]
    _, wish = editor.asked
    assert wish["title"] == "Let the model answer judge?"
    assert "a wish" in json.dumps(wish["content"])


def is_over(seen: Seen) -> bool:
    """Whether a request is for what comes behind the call."""
    return "tool_result" in json.dumps(seen.json["messages"])


async def test_what_is_no_answer_to_a_form_is_given_to_no_server(
    repository: Path, environment: dict[str, str], judge: None
) -> None:
    no_answers = {
        "no": DeclineElicitationResponse(action="decline"),
        "of another type": accept(name=7),
        "left out": accept(),
        "an error": acp.RequestError(-32603, "no form today"),
    }
    editor, told = FormEditor(None), {}
    async with Loopback(lambda seen: says("done") if is_over(seen) else says("", GREET)) as server:
        environment = {**environment, **provider(server)}
        async with editing(editor, repository, environment, elicitation=FORMS) as process:
            for name, editor.said in no_answers.items():
                told[name] = await greet(process, repository, server)
    assert len(editor.forms) == len(no_answers)
    assert {name: text for name, text in told.items() if "asked: " in text} == {}


async def test_an_editor_that_shows_no_forms_is_asked_nothing_of_the_kind(
    repository: Path, environment: dict[str, str], judge: None
) -> None:
    editor = FormEditor(accept(name="Ann"))
    assert "asked: " not in await ask(editor, repository, environment)
    assert editor.forms == []
    assert len(editor.asked) == 1, "whether the call may run"


def test_every_kind_of_a_field_has_its_words_in_the_protocol() -> None:
    colours = (("r", "Red"), ("g", ""))
    fields = (
        FormField("text", "text", "Name", "of yours", is_required=True, least=1, most=9),
        FormField("integer", "integer", default=3, least=0),
        FormField("number", "number", most=2.5),
        FormField("boolean", "boolean", default=True),
        FormField("choice", "choice", choices=colours),
        FormField("choices", "choices", choices=colours, most=1),
    )
    mode = make_mode(ServerQuestion("s", "form", "Who?", fields), "S", 1)
    schema = mode.model_dump(mode="json", by_alias=True, exclude_none=True)["requestedSchema"]
    options = [{"const": "r", "title": "Red"}, {"const": "g", "title": "g"}]
    assert schema["required"] == ["text"]
    assert schema["properties"] == {
        "text": {
            "type": "string",
            "title": "Name",
            "description": "of yours",
            "minLength": 1,
            "maxLength": 9,
        },
        "integer": {"type": "integer", "title": "integer", "default": 3, "minimum": 0},
        "number": {"type": "number", "title": "number", "maximum": 2.5},
        "boolean": {"type": "boolean", "title": "boolean", "default": True},
        "choice": {"type": "string", "title": "choice", "oneOf": options},
        "choices": {
            "type": "array",
            "title": "choices",
            "items": {"anyOf": options},
            "maxItems": 1,
        },
    }
    visit = ServerQuestion("s", "visit", "Log in", url="https://example.com/login")
    assert str(make_mode(visit, "S", 2).model_dump()["url"]) == "https://example.com/login"
    assert [can_show(visit, one) for one in (None, FORMS)] == [False, False]
    assert read_answer(DeclineElicitationResponse(action="decline")) == ServerAnswer("decline")
