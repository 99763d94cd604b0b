"""What stands in an editor and is not saved: read as it is there, kept as the person's."""

from __future__ import annotations

import json
from pathlib import Path

from editors.editor import Editor, editing, provider, says
from models.loopback import Loopback

LOOK = ("call_1", "read_file", {"path": "calc.py"})
FIX = ("call_2", "edit_file", {"path": "calc.py", "edits": [{"old_str": "a - b", "new_str": "0"}]})
DISK = "def add(a, b):\n    return a - b\n"
TYPED = f"# mine\n{DISK}"


def results(server: Loopback) -> str:
    """What the model was told of its calls with the last request."""
    return json.dumps(server.requests[-1].json["messages"])


async def test_what_a_person_has_typed_is_read_saved_before_a_change_and_stays_theirs(
    repository: Path, environment: dict[str, str]
) -> None:
    file = repository / "calc.py"
    editor = Editor({str(file): TYPED})
    answers = says("", LOOK), says("", FIX), says("done")
    async with (
        Loopback(*answers) as server,
        editing(editor, repository, {**environment, **provider(server)}) as process,
    ):
        session = await process.begin(repository)
        await process.say(session, "fix it")
        read = json.dumps(server.requests[1].json["messages"])
        assert "# mine" in read, "as it is in the editor"
        assert "it is not saved" in read
        ((first, saved), (second, written)) = editor.written
        assert (first, saved) == (str(file), TYPED), "saved before the question"
        assert (second, written) == (str(file), TYPED.replace("a - b", "0")), "shown after it"
        assert [one["content"][0]["oldText"] for one in editor.asked] == [TYPED]
        assert file.read_text() == written
        assert "not committed: calc.py had changes of yours" in editor.text()


async def test_what_is_typed_while_a_call_waits_for_a_yes_keeps_it_from_writing(
    repository: Path, environment: dict[str, str]
) -> None:
    file = repository / "calc.py"
    editor = Editor({str(file): DISK.replace("\n", "\r\n")})

    def type_on(_: object) -> str:
        assert editor.files is not None
        editor.files[str(file)] = TYPED
        return "once"

    editor.answer = type_on
    async with (
        Loopback(says("", FIX), says("", LOOK), says("done")) as server,
        editing(editor, repository, {**environment, **provider(server)}) as process,
    ):
        session = await process.begin(repository)
        await process.say(session, "fix it")
        assert editor.written == [], "line ends alone are no change"
        assert "nothing was written" in results(server)
        assert "# mine" in results(server), "and it is read as it is in the editor"
        assert file.read_text() == DISK


async def test_a_person_is_not_asked_about_a_change_of_what_is_not_there(
    repository: Path, environment: dict[str, str]
) -> None:
    editor = Editor({str(repository / "calc.py"): DISK})
    absent = {"path": "calc.py", "edits": [{"old_str": "a * b", "new_str": "0"}]}
    answers = says("", LOOK), says("", ("call_3", "edit_file", absent)), says("done")
    async with (
        Loopback(*answers) as server,
        editing(editor, repository, {**environment, **provider(server)}) as process,
    ):
        session = await process.begin(repository)
        assert await process.say(session, "fix it") == "end_turn"
        assert editor.asked == []
        assert "a * b" in results(server)


async def test_in_plan_mode_nothing_is_saved_and_an_editor_without_files_is_not_asked(
    repository: Path, environment: dict[str, str]
) -> None:
    file = repository / "calc.py"
    for editor, told in ((Editor({str(file): TYPED}), True), (Editor(), False)):
        async with (
            Loopback(says("", LOOK, FIX), says("done")) as server,
            editing(
                editor, repository, {**environment, **provider(server)}, "--approval-mode", "plan"
            ) as process,
        ):
            session = await process.begin(repository)
            await process.say(session, "look")
            assert ("# mine" in results(server)) == told
            assert editor.written == []
            assert file.read_text() == DISK
