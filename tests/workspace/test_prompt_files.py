"""Skills of the open Agent Skills format, and slash commands: what a file may say, and what not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from treadle.workspace.prompt_files.discovery import (
    ENTRY_COUNT_MAX,
    FILE_SIZE_MAX,
    FRONT_MATTERS_SIZE_MAX,
    FoundPrompts,
    find_prompts,
    list_prompt_folders,
)
from treadle.workspace.prompt_files.front_matter import (
    FRONT_MATTER_SIZE_MAX,
    measure_front_matter,
    parse_markdown_file,
)
from treadle.workspace.prompt_files.prompts import (
    DESCRIPTION_LENGTH_MAX,
    Prompt,
    check_skill_name,
    fill_arguments,
    parse_command,
    parse_skill,
)

EXAMPLES = Path(__file__).parent / "example_skills"
"""Written for these tests, each in a shape that public skills have."""

LEADS_OUT = "it is a link that leads out of the repository"


def skill(head: str, body: str = "Do it.") -> bytes:
    return f"---\n{head}\n---\n\n{body}\n".encode()


def example(name: str) -> Prompt:
    return parse_skill((EXAMPLES / name / "SKILL.md").read_bytes(), name)


# ---- what skills say ---------------------------------------------------------------------------


def test_a_skill_says_what_the_format_has() -> None:
    found = example("invoice-forms")
    assert found.name == "invoice-forms"
    assert found.description.startswith("Use this skill whenever an invoice has to be read, filled")
    assert found.body.startswith("# Invoices\n\n1. Check")
    assert found.license == "Proprietary. LICENSE.txt has complete terms"
    assert found.compatibility == "Requires python3"
    assert found.metadata == {"author": "example-org", "version": "1.0"}
    assert found.allowed_tools == "Bash(python3:*) Read"
    assert (found.is_told, found.remarks) == (True, ())


def test_shapes_of_public_skills_are_read() -> None:
    """Block texts, a text that no YAML reader takes, lists, another folder, CRLF with a mark."""
    manual = example("api-manual")
    assert manual.description.startswith("Reference for the orders API — ids, prices, paging, str")
    assert len(manual.description) == DESCRIPTION_LENGTH_MAX
    assert manual.remarks == ("its description has 1268 characters of 1024: cut",)
    style = example("house-style")
    assert style.description.endswith(
        "Use it when: brand colours, style guides or # headings are asked for."
    )
    assert (style.is_told, style.remarks) == (False, ())
    template = example("template")
    assert (template.name, template.remarks) == (
        "template-skill",
        ("its folder should have its name",),
    )
    notes = example("meeting-notes")
    assert notes.description == "Turns what was said in a meeting into decisions and owners."
    assert notes.allowed_tools == "Read Write"
    assert notes.body == "One line for each decision."


@for_every_row(
    "name, is_good",
    [
        *(
            (one, True)
            for one in ("pdf", "pdf-forms", "a", "1", "x" * 64, "größe", "中文", "a-1-b")
        ),
        *((one, False) for one in ("", "PDF", "Pdf", "-pdf", "pdf-", "pdf--forms", "x" * 65)),
        *((one, False) for one in ("pdf forms", "pdf/forms", "../pdf", "pdf_forms", "a.b", "a\nb")),
        *((one, False) for one in ("\x1b[31m", "a\u202eb", "a\u200bb", "--", "a\u0301")),
    ],
)
def test_names_are_those_of_the_format(name: str, is_good: bool) -> None:
    if is_good:
        check_skill_name(name)
    else:
        with pytest.raises(ValueError, match="name"):
            check_skill_name(name)


@for_every_row(
    "data, reason",
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"Do it.", "no front matter"),
        (b"---\nname: x\n", "has no end"),
        (skill("description: y"), "no name"),
        (skill("name: x"), "no description"),
        (skill("name: x\ndescription: ''"), "no description"),
        (skill("name: x\ndescription: [a, b]"), "no description"),
        (skill("name: ../../etc\ndescription: y"), "its name may have"),
        (skill("name: [x]\ndescription: y"), "no name"),
        (skill("- name: x"), "no mapping"),
        (skill("just words"), "no mapping"),
        (skill("? [a]\n: b"), "no YAML"),
        (skill("name: 'x\ndescription: y"), "no YAML"),
        (skill("name: x\n\tdescription: y"), "no YAML"),
        (skill("name: x\ndescription: !!python/object/apply:os.system [id]"), "no description"),
        (skill("a: &a [x, x]\nb: &b [*a, *a]\nname: x\ndescription: y"), "an alias"),
        (skill("name: &n x\ndescription: *n"), "an alias"),
        (skill("name: x\ndescription: y\nz: " + "{" * 8000), "nested too deep"),
        (skill("name: x\ndescription: y\nz: " + "[" * 60 + "]" * 60), "nested too deep"),
        (skill("name: x\nx: " + "y" * FRONT_MATTER_SIZE_MAX), "more than 16384 characters"),
        (skill('name: x\ndescription: "\\e[31mred"'), "cannot be seen or steer"),
        (skill('name: x\ndescription: "\\a"'), "cannot be seen or steer"),
        (skill("name: x\ndescription: y\u202ez"), "cannot be seen or steer"),
        (skill("name: x\ndescription: y\u200bz"), "cannot be seen or steer"),
        (skill("name: x\ndescription: y\U000e0041z"), "cannot be seen or steer"),
        (skill("name: x\ndescription: y\x1b[2Jz"), "cannot be seen or steer"),
        (skill('name: x\ndescription: "\\ud800"'), "cannot be seen or steer"),
    ],
)
def test_what_is_no_skill_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match="it") as raised:
        parse_skill(data, "x")
    assert reason in str(raised.value), raised.value


def test_values_are_texts_whatever_yaml_would_make_of_them() -> None:
    head = "name: no\ndescription: 2024-99-99\nmetadata: {version: 1.10, yes: off}\nlicense: 0x1F"
    found = parse_skill(skill(head), "no")
    assert (found.name, found.description, found.license) == ("no", "2024-99-99", "0x1F")
    assert found.metadata == {"version": "1.10", "yes": "off"}


def test_what_has_another_type_is_left_out_and_told() -> None:
    found = parse_skill(skill("name: x\ndescription: y\nmetadata: [1]\nlicense: {a: b}"), "x")
    assert (found.metadata, found.license) == ({}, "")
    assert sorted(found.remarks) == [
        "its license is no text, and is not used",
        "its metadata is no mapping of texts, and is not used",
    ]


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_no_bytes_do_more_than_being_refused(head: bytes, body: bytes) -> None:
    for data in (head + body, b"---\n" + head + b"\n---\n" + body):
        for parse in (lambda: parse_skill(data, "x"), lambda: parse_command(data, "x")):  # noqa: B023
            try:
                parse()
            except ValueError:
                continue


def test_a_file_without_front_matter_is_all_body() -> None:
    found = parse_markdown_file(b"# Title\n\n---\n\ntext\n")
    assert (found.fields, found.body) == ({}, "# Title\n\n---\n\ntext")


# ---- what commands say -------------------------------------------------------------------------


def test_a_command_is_a_prompt_and_its_front_matter_is_optional() -> None:
    plain = parse_command(b"# Review the change\n\nBe kind.", "review")
    assert (plain.description, plain.argument_hint) == ("Review the change", "")
    told = parse_command(
        b"---\ndescription: Fix it: now\nargument-hint: [number] [branch]\nmodel: x\n---\nFix $1.",
        "fix",
    )
    assert (told.description, told.argument_hint) == ("Fix it: now", "[number] [branch]")
    assert told.body == "Fix $1."
    assert parse_command(b"---\nargument-hint: [file]\n---\n$1", "x").argument_hint == "[file]"
    assert parse_command(b"Fix $ARGUMENTS.", "fix").argument_hint == "[ARGUMENTS]"


@for_every_row("name", ["Review", "a b", "-a", "a-", "a--b", "ä", "", "a" * 65, "a.b", "a\n"])
def test_names_of_commands_can_be_typed(name: str) -> None:
    with pytest.raises(ValueError, match="a command's name"):
        parse_command(b"text", name)


@for_every_row("data", [b"", b"---\ndescription: x\n---\n", b"  \n"])
def test_a_command_that_says_nothing_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="nothing in it"):
        parse_command(data, "x")


@for_every_row(
    "body, arguments, said",
    [
        ("do it", "", "do it"),
        ("do it", "now", "do it"),
        ("[$ARGUMENTS]", "", "[]"),
        ("[$ARGUMENTS] [$ARGUMENTS]", "a  'b", "[a  'b] [a  'b]"),
        ("$1-$2", "a b c", "a-b"),
        ("$1-$2", "a", "a-"),
        ("$1-$2", "'a b' c", "a b-c"),
        ("$2$1", "x\nrest of a pipe 'with quotes", "x"),
        ("$ARGUMENTS", "x\ny", "x\ny"),
        ("costs $10, $0, $12, $$, $HOME, ${1}", "a", "costs $10, $0, $12, $$, $HOME, ${1}"),
        ("$ARGUMENTS $1", "$2 $ARGUMENTS", "$2 $ARGUMENTS $2"),
        ("$ARGUMENTSX", "a", "$ARGUMENTSX"),
    ],
)
def test_arguments_are_put_in_once(body: str, arguments: str, said: str) -> None:
    assert fill_arguments(parse_command(body.encode(), "x"), arguments) == said


def test_arguments_that_do_not_fit_are_told() -> None:
    with pytest.raises(ValueError, match=r"needs more words: /fix \[ARGUMENTS\]"):
        fill_arguments(parse_command(b"Fix $1", "fix"), "")
    with pytest.raises(ValueError, match="a quote is not closed"):
        fill_arguments(parse_command(b"Fix $1", "fix"), "it's")
    with pytest.raises(ValueError, match=r"60000 times 100000 characters .* too long"):
        fill_arguments(parse_command(b"$1" * 60_000, "fix"), "w" * 100_000)


# ---- where they are ----------------------------------------------------------------------------


class Desk:
    """A repository, a user's settings, and a home."""

    def __init__(self, top: Path) -> None:
        self.root = top / "repo"
        self.config = top / "home" / ".config" / "treadle"
        self.home = top / "home"
        for folder in (self.root / ".git", self.config):
            folder.mkdir(parents=True)

    def write_skill(self, place: Path, name: str, description: str = "Use it.") -> Path:
        path = place / name / "SKILL.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(skill(f"name: {name}\ndescription: {description}"))
        return path

    def write_command(self, place: Path, name: str, text: str = "Do it.") -> Path:
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.md").write_text(text)
        return place / f"{name}.md"

    def find(self, here: Path | None = None) -> FoundPrompts:
        return find_prompts(list_prompt_folders(here or self.root, self.config, self.home))

    def names(self, here: Path | None = None) -> list[tuple[str, str]]:
        return [(one.prompt.name, one.key) for one in self.find(here).files]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_the_nearest_place_of_the_repository_comes_first_and_the_users_last(desk: Desk) -> None:
    sub = desk.root / "a" / "b"
    desk.write_skill(desk.home / ".agents/skills", "mine")
    desk.write_skill(desk.config / "skills", "own")
    desk.write_command(desk.config / "commands", "greet")
    desk.write_skill(desk.root / ".agents/skills", "top")
    desk.write_skill(sub / ".agents/skills", "deep")
    desk.write_skill(desk.root / "other/.agents/skills", "elsewhere")
    desk.write_command(desk.root / ".treadle/commands", "review")
    assert desk.names(sub) == [
        ("review", ".treadle/commands/review.md"),
        ("deep", "a/b/.agents/skills/deep/SKILL.md"),
        ("top", ".agents/skills/top/SKILL.md"),
        ("greet", ""),
        ("own", ""),
        ("mine", ""),
    ]
    assert desk.find(sub).refused == ()


def test_what_is_no_skill_is_passed_over(desk: Desk) -> None:
    place = desk.root / ".agents/skills"
    (place / "empty").mkdir(parents=True)
    (place / ".hidden").mkdir()
    (place / ".hidden/SKILL.md").write_text("x")
    (place / "README.md").write_text("x")
    (desk.root / ".treadle/commands/deeper").mkdir(parents=True)
    (desk.root / ".treadle/commands/notes.txt").write_text("x")
    assert desk.find() == FoundPrompts()


def test_a_repository_has_so_much_front_matter_and_no_more_is_parsed(desk: Desk) -> None:
    long = "x" * (FRONT_MATTER_SIZE_MAX - 200)
    for number in range(40):
        desk.write_skill(desk.root / ".agents/skills", f"s{number:02}", long)
    desk.write_skill(desk.config / "skills", "own", long)
    found = desk.find()
    count = FRONT_MATTERS_SIZE_MAX // (len(long) + 30)
    assert len(found.files) == count + 1
    assert found.files[-1].prompt.name == "own"
    reason = f"the repository has over {FRONT_MATTERS_SIZE_MAX} bytes of front matter"
    assert [one.reason for one in found.refused] == [reason] * (40 - count)


@for_every_row(
    "data, size",
    [
        (b"", 0),
        (b"---\na: b\n", 0),
        (b"text\n---\na: b\n---\n", 0),
        (b"---\na: b\n---\n", 9),
        (b"---\r\na: b\r\n---  \r\ntext", 11),
        (b"\xef\xbb\xbf---\na: b\n---", 12),
    ],
)
def test_front_matter_is_measured_without_being_parsed(data: bytes, size: int) -> None:
    assert measure_front_matter(data) == size


def test_links_of_a_repository_stay_in_it_and_the_users_may_lead_anywhere(desk: Desk) -> None:
    place, outside = desk.root / ".agents/skills", desk.root.parent / "outside"
    desk.write_skill(outside, "far")
    desk.write_skill(desk.root / "docs", "near")
    place.mkdir(parents=True)
    (place / "near").symlink_to("../../docs/near")
    (place / "far").symlink_to(outside / "far")
    (place / "loop").symlink_to("loop")
    (place / "file").mkdir()
    (place / "file/SKILL.md").symlink_to(outside / "far/SKILL.md")
    (place / "gone").mkdir()
    (place / "gone/SKILL.md").symlink_to("nowhere")
    own = desk.config / "skills"
    own.mkdir()
    (own / "far").symlink_to(outside / "far")
    found = desk.find()
    assert [(one.prompt.name, one.key) for one in found.files] == [
        ("near", "docs/near/SKILL.md"),
        ("far", ""),
    ]
    assert found.files[1].folder == outside / "far"
    reasons = {Path(one.path).parent.name: one.reason for one in found.refused}
    assert reasons.pop("gone") == os.strerror(2)
    assert reasons == dict.fromkeys(("far", "file"), LEADS_OUT)


def test_a_place_that_is_a_link_out_of_the_repository_is_refused(desk: Desk) -> None:
    outside = desk.root.parent / "outside"
    desk.write_command(outside, "review")
    (desk.root / ".treadle").mkdir()
    (desk.root / ".treadle/commands").symlink_to(outside)
    found = desk.find()
    assert (found.files, [one.reason for one in found.refused]) == (
        (),
        [LEADS_OUT],
    )


def test_what_is_hidden_from_tools_is_not_reached_by_a_link(desk: Desk) -> None:
    secret = desk.write_command(desk.home / ".ssh", "key", "PRIVATE")
    own = desk.config / "commands"
    own.mkdir()
    (own / "show.md").symlink_to(secret)
    desk.write_command(own, "greet")
    folders = list_prompt_folders(desk.root, desk.config, desk.home)
    found = find_prompts(folders, lambda path: desk.home in path.parents)
    assert [one.prompt.name for one in found.files] == ["greet"]
    assert [one.reason for one in found.refused] == ["it is a link to what is hidden from tools"]


def test_files_that_would_hold_up_or_flood_are_refused(desk: Desk) -> None:
    place = desk.root / ".agents/skills"
    for name in ("pipe", "folder", "large", "unreadable"):
        (place / name).mkdir(parents=True)
    os.mkfifo(place / "pipe/SKILL.md")
    (place / "folder/SKILL.md").mkdir()
    (place / "large/SKILL.md").write_bytes(b"x" * (FILE_SIZE_MAX + 1))
    (place / "\x1b[2Jbad").mkdir()
    (place / "\x1b[2Jbad/SKILL.md").write_text("x")
    desk.write_skill(place, "good")
    found = desk.find()
    assert [one.prompt.name for one in found.files] == ["good"]
    reasons = {Path(one.path).parent.name: one.reason for one in found.refused}
    assert reasons == {
        "pipe": "it is no regular file",
        "folder": os.strerror(21),
        "large": "it has more than 131072 bytes",
        "�[2Jbad": "it has no front matter with a name and a description",
    }


def test_a_folder_with_very_many_gives_the_first_and_says_so(desk: Desk) -> None:
    place = desk.root / ".treadle/commands"
    for number in range(ENTRY_COUNT_MAX + 1):
        desk.write_command(place, f"c{number:03}")
    found = desk.find()
    assert len(found.files) == ENTRY_COUNT_MAX
    assert [one.reason for one in found.refused] == ["of its 201 commands the first 200 are used"]


def test_a_home_in_the_working_folder_is_the_repositorys_and_nothing_counts_twice(
    desk: Desk,
) -> None:
    """An agent may have written there what would hold in the next thread."""
    desk.write_skill(desk.home / ".agents/skills", "mine")
    (desk.home / ".git").mkdir()
    assert desk.names(desk.home) == [("mine", ".agents/skills/mine/SKILL.md")]
