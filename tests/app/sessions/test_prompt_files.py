"""Which skills and commands hold, what an agent is told of them, what a person says with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.app.project_trust import read_project_files
from treadle.app.sessions.prompt_files import (
    CATALOGUE_SIZE_MAX,
    PromptFileList,
    describe_prompt_use,
    describe_skills,
    describe_unused_prompts,
    expand_prompt,
    list_prompts,
    list_skill_folders,
)
from treadle.config.project_trust import distrust_project, read_trusted_files, trust_project
from treadle.errors import UsageError
from treadle.store.paths import Places
from treadle.thread.typed_words import EXPANSION_HEAD, strip_additions


class Desk:
    """A user at a repository."""

    def __init__(self, top: Path) -> None:
        self.home, self.root = top / "user", top / "repo"
        self.places = Places.find({"TREADLE_HOME": str(top / "treadle")})
        for folder in (self.home, self.root / ".git", self.places.config):
            folder.mkdir(parents=True)

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def write_skill(self, place: Path, name: str, text: str = "Do it.", more: str = "") -> Path:
        head = f"---\nname: {name}\ndescription: Use it for {name}.\n{more}---\n"
        return self.write(place / name / "SKILL.md", head + text)

    @property
    def ours(self) -> Path:
        return self.root / ".agents/skills"

    @property
    def mine(self) -> Path:
        return self.home / ".agents/skills"

    def trust(self) -> None:
        files = read_project_files(self.root, self.places)
        trust_project(self.places, files.settings, files.prompts)

    def list(self, folder: Path | None = None) -> PromptFileList:
        return list_prompts(folder or self.root, self.places)

    def uses(self) -> list[tuple[str, str]]:
        return [(one.prompt.name, one.use) for one in self.list().prompts]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    found = Desk(tmp_path)
    monkeypatch.setenv("HOME", str(found.home))
    return found


# ---- what is used ------------------------------------------------------------------------------


def test_what_a_repository_brings_along_is_used_once_it_is_trusted(desk: Desk) -> None:
    desk.write_skill(desk.ours, "pdf")
    desk.write(desk.root / ".treadle/commands/review.md", "Review it.")
    desk.write_skill(desk.mine, "mine")
    assert desk.uses() == [("review", "new"), ("pdf", "new"), ("mine", "used")]
    assert "pdf" not in describe_skills(desk.list(), str(desk.root))
    assert describe_unused_prompts(desk.list(), str(desk.root)) == [
        "skills and commands of this repository that are not used, nobody has trusted them yet: "
        "review, pdf; `treadle config trust` looks at them"
    ]
    desk.trust()
    assert desk.uses() == [("review", "used"), ("pdf", "used"), ("mine", "used")]
    desk.write_skill(desk.ours, "pdf", "Do something else.")
    assert desk.uses() == [("review", "used"), ("pdf", "changed"), ("mine", "used")]
    with pytest.raises(UsageError, match=r"/pdf .* is not used: it changed since it was trusted"):
        expand_prompt("/pdf", desk.list())
    desk.write_skill(desk.ours, "pdf")
    assert desk.uses()[1] == ("pdf", "used")
    assert distrust_project(desk.places, desk.root)
    assert not distrust_project(desk.places, desk.root)
    assert desk.uses()[:2] == [("review", "new"), ("pdf", "new")]


def test_what_was_shown_is_trusted_though_the_file_changes_meanwhile(desk: Desk) -> None:
    desk.write_skill(desk.ours, "pdf")
    shown = read_project_files(desk.root, desk.places)
    desk.write_skill(desk.ours, "pdf", "Something else.")
    trust_project(desk.places, shown.settings, shown.prompts)
    assert desk.uses() == [("pdf", "changed")]


def test_trust_is_for_a_file_of_one_project(desk: Desk) -> None:
    """The same bytes elsewhere, and another file with these bytes, were not looked at."""
    path = desk.write_skill(desk.ours, "pdf")
    desk.trust()
    other = desk.root.parent / "other"
    (other / ".git").mkdir(parents=True)
    desk.write(other / ".agents/skills/pdf/SKILL.md", path.read_text())
    assert [one.use for one in desk.list(other).prompts] == ["new"]
    desk.write(desk.root / "sub/.agents/skills/pdf/SKILL.md", path.read_text())
    assert [one.use for one in desk.list(desk.root / "sub").prompts] == ["new", "used"]


def test_a_list_of_trusted_files_of_an_older_program_trusts_no_prompt(desk: Desk) -> None:
    desk.write_skill(desk.ours, "pdf")
    desk.trust()
    path = desk.places.state / "trusted.json"
    path.write_text('{"folders": {"/x": "abc"}}')
    assert read_trusted_files(desk.places).folders == {"/x": "abc"}
    assert desk.uses() == [("pdf", "new")]
    path.write_text('{"folders": {}, "prompts": {"/x": ["abc"]}}')
    assert desk.uses() == [("pdf", "new")]


def test_the_first_of_a_name_is_used_and_an_untrusted_one_takes_no_name(desk: Desk) -> None:
    desk.write_skill(desk.ours, "pdf", "The repository's.")
    desk.write_skill(desk.mine, "pdf", "Mine.")
    desk.write(desk.places.config / "commands/pdf.md", "A command.")
    assert desk.uses() == [("pdf", "new"), ("pdf", "used"), ("pdf", "shadowed")]
    assert "A command." in expand_prompt("/pdf", desk.list())
    desk.trust()
    assert desk.uses() == [("pdf", "used"), ("pdf", "shadowed"), ("pdf", "shadowed")]
    assert "The repository's." in expand_prompt("/pdf", desk.list())
    assert [describe_prompt_use(one, {"pdf"}) for one in desk.list().prompts] == [
        ("of the repository", "not called so: the chat has a command of this name"),
        ("yours", "not used: another one that comes before it has its name"),
        ("yours", "not used: another one that comes before it has its name"),
    ]


# ---- what an agent is told ---------------------------------------------------------------------


def test_an_agent_is_told_names_and_descriptions_and_where_each_is(desk: Desk) -> None:
    desk.write_skill(desk.ours, "pdf", "SECRET BODY")
    desk.write_skill(desk.mine, "mine")
    desk.write_skill(desk.mine, "by-hand", more="disable-model-invocation: true\n")
    desk.write_skill(desk.places.config / "skills", "own")
    desk.write(desk.root / ".treadle/commands/review.md", "Review it.")
    desk.trust()
    told = describe_skills(desk.list(), str(desk.root))
    head, *lines = told.split("\n- ")
    assert head.startswith("Skills are folders of instructions")
    assert lines == [
        "pdf (.agents/skills/pdf/SKILL.md): Use it for pdf.",
        f"own ({desk.places.config}/skills/own/SKILL.md): Use it for own.",
        f"mine ({desk.mine}/mine/SKILL.md): Use it for mine.",
    ]
    assert list_skill_folders(desk.list(), str(desk.root)) == (
        f"{desk.places.config}/skills/own",
        f"{desk.mine}/by-hand",
        f"{desk.mine}/mine",
    )


def test_without_skills_nothing_is_told(desk: Desk) -> None:
    assert describe_skills(desk.list(), str(desk.root)) == ""
    assert describe_unused_prompts(desk.list(), str(desk.root)) == []


def test_descriptions_have_a_size_together_and_people_hear_of_the_rest(desk: Desk) -> None:
    for number in range(40):
        text = f"---\nname: s{number:02}\ndescription: {'x' * 1000}\n---\n"
        desk.write(desk.mine / f"s{number:02}" / "SKILL.md", text)
    told = describe_skills(desk.list(), str(desk.root))
    assert len(told) < CATALOGUE_SIZE_MAX + 1000
    count = told.count("\n- ")
    assert 10 < count < 40
    (notice,) = describe_unused_prompts(desk.list(), str(desk.root))
    assert notice.startswith(f"the agent is not told of {40 - count} of 40 skills")


# ---- what a person says ------------------------------------------------------------------------


def test_a_line_with_a_name_says_the_text_of_its_file_too(desk: Desk) -> None:
    path = desk.write(desk.root / ".treadle/commands/fix.md", "Fix $1 ($ARGUMENTS).")
    desk.write_skill(desk.mine, "pdf", "Read $1 first.")
    desk.trust()
    listed = desk.list()
    assert expand_prompt("/fix 12 now", listed) == (
        f"/fix 12 now\n\n[The person's words above call this prompt, {path}]\nFix 12 (12 now)."
    )
    assert expand_prompt("/pdf a.pdf\nand b.pdf", listed) == (
        "/pdf a.pdf\nand b.pdf\n\n[The person's words above call this skill; its folder is "
        f"{desk.mine}/pdf]\nRead $1 first."
    )
    for text in ("hello", " /fix 12", "/usr/bin is full", "/", "// x", "say /fix", ""):
        assert expand_prompt(text, listed) == text
    with pytest.raises(UsageError, match="there is no skill or command /fox; did you mean /fix"):
        expand_prompt("/fox 12", listed)
    with pytest.raises(UsageError, match=r"/fix: it needs more words: /fix \[ARGUMENTS\]"):
        expand_prompt("/fix", listed)


@given(st.text(), st.text())
def test_of_what_was_said_the_typed_words_are_found_again(typed: str, body: str) -> None:
    if EXPANSION_HEAD not in typed:
        assert strip_additions(f"{typed}{EXPANSION_HEAD}prompt, x]\n{body}") == typed


def test_an_account_without_a_home_has_the_skills_of_the_repository(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing called `~` in the working folder is taken for one."""
    desk.write_skill(desk.root / "~/.agents/skills", "trap")
    desk.write_skill(desk.ours, "pdf")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}["nobody"])
    monkeypatch.chdir(desk.root)
    assert desk.uses() == [("pdf", "new")]
