"""Blocks as text: Markdown in columns, diffs, questions behind their bar."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.text import Text

from case_tables import for_every_row
from processor_time import slow
from terminal.recording import drawn
from terminal.test_markdown import DOCUMENTS, LINES, split
from treadle.app.threads.call_diffs import FileReader, preview_diff, unified_diff
from treadle.core.approval import (
    AlwaysAsk,
    AskAbove,
    Question,
    Scope,
    ToolBased,
    make_question,
)
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel
from treadle.terminal.block_text import render_blocks
from treadle.terminal.blocks import question as questions
from treadle.terminal.blocks.diffs import count_changed_lines, diff_block
from treadle.terminal.blocks.frames import PrefixedBlock, TrimmedBlock
from treadle.terminal.blocks.markdown import (
    ADDRESSES_SIZE_MAX,
    MARKS_MAX,
    RENDERED_SIZE_MAX,
    MarkdownBlock,
)
from treadle.terminal.blocks.notices import prompt_block
from treadle.terminal.markdown_splitter import PART_LINES_MAX
from treadle.thread.question_text import (
    describe_possible_grant,
    escape_name,
    list_offered_kinds,
)
from treadle.thread.safe_text import sanitize_text


def shown(markup: str, width: int = 80) -> list[str]:
    return drawn(TrimmedBlock(MarkdownBlock(markup)), width=width).splitlines()


def in_pieces(text: str, width: int = 80) -> list[str]:
    """The pieces one by one, an empty line between them, links known from then on."""
    links: dict[str, object] = {}
    lines: list[str] = []
    for piece in split(text, [5]):
        block = MarkdownBlock(piece, links)
        if not block.is_empty:
            lines += [
                *([""] if lines else []),
                *drawn(TrimmedBlock(block), width=width).splitlines(),
            ]
    return lines


@for_every_row("text", DOCUMENTS)
def test_pieces_one_by_one_look_like_the_whole(text: str) -> None:
    assert in_pieces(text) == shown(text)


@given(st.lists(st.sampled_from(LINES), max_size=16))
@settings(max_examples=50, deadline=None)
def test_pieces_of_anything_look_like_the_whole(lines: list[str]) -> None:
    # A link that is defined behind its use is a link in the whole only.
    text = "".join(f"{line}\n" for line in lines if "ref" not in line)
    assert in_pieces(text) == shown(text)


def test_what_is_marked_up_is_told_without_colours() -> None:
    assert shown("## Head\n\ntext\n\n```py\nx = 1\n```\n\n> said\n\n1. one\n2. two\n") == [
        *("## Head", "", "text", "", "  x = 1", "", "▌ said", "", " 1 one", " 2 two"),
    ]


def test_headings_of_all_levels_are_told_apart_by_marks_and_by_looks() -> None:
    marks = [f"{'#' * level} head" for level in range(1, 7)]
    assert shown("\n\n".join(marks))[::2] == marks
    assert shown("head\n===\n\nhead\n---\n")[::2] == marks[:2]
    looks = [drawn(MarkdownBlock(mark), is_colored=True).strip("# \n") for mark in marks]
    assert len({look.split("head")[0].rsplit("\x1b", 1)[1] for look in looks}) == 4
    assert not any("2m" in look.split("# ")[1] for look in looks)  # none of them is dim


def test_a_list_of_tasks_has_boxes() -> None:
    text = "- [ ] to **do**\n- [x] done\n  - [X] within\n- [y] none\n- plain\n"
    assert shown(text) == [
        *(" [ ] to do", " [x] done", "      [x] within", " • [y] none", " • plain")
    ]
    long = f"- [ ] {'word ' * 20}\n"
    assert all(line.startswith("     ") for line in shown(long, 40)[1:])


def test_prose_is_at_most_a_hundred_columns_wide_and_code_and_tables_what_they_need() -> None:
    words = "word " * 100
    for prose in (words, f"# {words}", f"- {words}", f"> {words}", f"{words * 60}"):
        assert max(map(len, shown(prose, 160))) <= 100
        assert max(map(len, shown(prose, 160))) > 90
    wide = "x" * 150
    assert f"  {wide}" in shown(f"```\n{wide}\n```\n", 160)
    assert shown(f"| a |\n|---|\n| {wide} |\n", 160)[-1] == wide


def test_prompts_stand_out_with_colours_and_without() -> None:
    block = prompt_block("fix\nit")
    assert drawn(block).splitlines() == ["> fix", "> it"]
    first, second = drawn(block, is_colored=True).splitlines()
    for line in (first, second):
        assert line.startswith("\x1b[1;7;36m> ")
    assert drawn(MarkdownBlock("**bold** `code`"), is_colored=True).count("\x1b[1;36m") == 0


def test_what_shows_nothing_takes_no_line() -> None:
    assert shown("a\n\n>\n\n> >\n\n- b\n") == ["a", "", " • b"]
    assert MarkdownBlock(">\n").is_empty
    assert MarkdownBlock("[a]: /b\n").is_empty


def test_tags_and_addresses_are_not_lost() -> None:
    text = "a Vec<T> <b>x</b> [words](http://a.b/c) <http://d.e> ![pic](p.png)"
    told = "a Vec<T> <b>x</b> words (http://a.b/c) http://d.e [picture: pic] (p.png)"
    assert shown(text) == [told]
    assert shown("<div>\nx\n</div>") == ["<div> x </div>"]


def test_a_table_loses_nothing_where_it_is_narrow() -> None:
    text = "| name | value |\n|---|---|\n| averyverylongname | another-long-value |\n"
    told = "".join(shown(text, 24)).replace(" ", "").replace("─", "")
    assert sorted(told) == sorted("namevalueaverylongnameanother-long-valuevery")


def test_what_has_no_room_is_shown_as_it_was_written() -> None:
    table = "| a | b | c | d | e |\n|---|---|---|---|---|\n| 1 | 2 | 3 | 4 | 5 |"
    assert shown(table, 20)[-2:] == ["| 1 | 2 | 3 | 4 | 5", "|"]
    deep = "> " * 200 + "the end"
    assert "the end" in " ".join(shown(deep))


@pytest.mark.parametrize(
    ("line", "most"),
    [
        (f"- {'word ' * 15}\n", RENDERED_SIZE_MAX // 78),
        ("- a\n", PART_LINES_MAX),
        ("- `a` *b* [c](d) \\*\n", MARKS_MAX // 9),
    ],
    ids=["size", "lines", "marks"],
)
def test_what_would_take_long_to_lay_out_is_shown_as_it_was_written(line: str, most: int) -> None:
    assert shown(line * most)[0].startswith(" • ")
    assert shown(line * (most + 1))[0].startswith("- ")


def test_lines_have_no_blanks_at_their_end() -> None:
    assert drawn(TrimmedBlock(MarkdownBlock("- a\n\n```\nb\n```\n"))) == " • a\n\n  b\n"


def test_every_line_of_a_block_is_behind_the_bar_however_narrow_it_is() -> None:
    lines = drawn(PrefixedBlock("word " * 30), width=20).splitlines()
    assert len(lines) > 5
    assert all(line.startswith("  │ word") for line in lines)
    assert max(map(len, lines)) <= 20


BEFORE, AFTER = b"a\nb\nc\nd\ne\nf\ng\nh\ni\n", b"a\nb\nc\nd\nE\nf\ng\nh\ni\nj\n"


def test_a_diff_has_the_numbers_of_its_lines_where_there_is_room() -> None:
    diff = unified_diff(BEFORE, AFTER)
    lines = drawn(diff_block(diff)).splitlines()
    assert lines == [
        *(" 2   b", " 3   c", " 4   d", " 5 - e", " 5 + E"),
        *(" 6   f", " 7   g", " 8   h", " 9   i", "10 + j"),
    ]
    assert drawn(diff_block(diff, 30)).splitlines()[3] == "- e"
    assert drawn(diff_block(diff, lines_max=2)).splitlines()[2] == "… 8 more lines (Ctrl+O)"


def test_changes_far_from_each_other_are_apart() -> None:
    old = [f"{n}\n" for n in range(1, 31)]
    new = [*old[:4], "five\n", *old[5:25], *old[26:]]
    lines = drawn(
        diff_block(unified_diff("".join(old).encode(), "".join(new).encode()))
    ).splitlines()
    assert lines[3:5] == [" 5 - 5", " 5 + five"]
    assert "…" in lines[8]
    assert lines[12] == "26 - 26"


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_diff_leads_from_one_content_to_the_other(old: list[str], new: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    place, made = 0, list[str]()
    for line in unified_diff(before.encode(), after.encode()).splitlines():
        if line.startswith("@@"):
            number, count = map(int, line.split()[1][1:].split(","))
            start = number - 1 if count else number
            made += old[place:start]
            place = start
        else:
            assert line[0] == "+" or old[place] == line[1:]
            place += line[0] != "+"
            made += line[1:] if line[0] != "-" else ""
    assert [*made, *old[place:]] == new


def question(name: str, reason: str = "calls need approval", **arguments: object) -> Question:
    call = ToolCall("c1", name, msgspec.json.encode(arguments).decode())
    scope = Scope(reasons=("it pushes by force",), confined="workspace-write, no network")
    return Question(call, RiskLevel.HIGH, reason, scope)


def question_block(
    asked: Question, *, read: FileReader | None = None, is_plain: bool = False
) -> RenderableType:
    """The question, with what the call would change in what is read."""
    diff = preview_diff(asked.call, read)
    return Group(*questions.question_blocks(asked, diff, is_plain=is_plain))


def test_a_question_is_the_command_its_dangers_and_what_would_hold_it() -> None:
    asked = question("bash", command="git push --force", timeout_s=5)
    assert drawn(question_block(asked)).splitlines() == [
        *("bash needs your approval · high risk", "  careful: it pushes by force"),
        *("  │ $ git push --force", "  │ timeout_s: 5", "  calls need approval"),
        "  confined: workspace-write, no network",
    ]


def test_what_would_run_is_the_brightest_of_a_question_and_only_what_is_critical_is_red() -> None:
    asked = question("bash", command="git push --force", timeout_s=5)
    for risk in RiskLevel:
        text = drawn(question_block(replace(asked, risk=risk)), is_colored=True)
        assert "\x1b[1mgit push --force\x1b[0m" in text
        assert text.count("\x1b[1m") == 1
        assert ("\x1b[31m" in text) == (risk is RiskLevel.CRITICAL)
    edit = question("edit_file", path="a.py", edits=[{"old_str": "e", "new_str": "E"}])
    text = drawn(question_block(edit, read=lambda path: BEFORE), is_colored=True)
    for line in ("\x1b[2m5 \x1b[0m\x1b[31m- e\x1b[0m", "\x1b[2m5 \x1b[0m\x1b[32m+ E\x1b[0m"):
        assert line in text


def test_why_it_is_asked_is_one_short_line() -> None:
    policies = (AlwaysAsk(), AskAbove(RiskLevel.LOW), AskAbove(RiskLevel.HIGH), ToolBased({}))
    call = ToolCall("c1", "bash", '{"command": "make"}')
    for policy in policies:
        asked = make_question(policy, call, RiskLevel.LOW, RiskLevel.HIGH, Scope(must_ask=True))
        assert asked is not None
        *_, why = drawn(question_block(asked)).splitlines()
        assert len(why) < 60
        assert "this one" not in why


def test_a_question_about_an_edit_is_its_diff() -> None:
    asked = question("edit_file", path="a.py", edits=[{"old_str": "e", "new_str": "E"}])
    told = drawn(question_block(asked)).splitlines()
    assert told[2:5] == ["  │ path: a.py", "  │ - e", "  │ + E"]
    numbered = drawn(question_block(asked, read=lambda path: BEFORE)).splitlines()
    assert numbered[3:9] == [
        *("  │ 2   b", "  │ 3   c", "  │ 4   d", "  │ 5 - e", "  │ 5 + E", "  │ 6   f")
    ]


def test_an_edit_that_would_fail_is_shown_by_its_arguments() -> None:
    asked = question("edit_file", path="a.py", edits=[{"old_str": "no", "new_str": "E"}])
    assert preview_diff(asked.call, lambda path: BEFORE) == "-no\n+E"
    assert preview_diff(asked.call, lambda path: None) == "-no\n+E"

    def unreadable(path: str) -> bytes | None:
        raise PermissionError

    assert preview_diff(asked.call, unreadable) == "-no\n+E"


@pytest.mark.parametrize("is_plain", [False, True])
def test_no_line_of_a_call_can_pass_for_the_question(is_plain: bool) -> None:
    lie = "x\n  careful: nothing\nbash needs your approval · low risk\r\x1b[1A\u200b\u202e"
    for asked in (
        question("bash", command=lie),
        question("other", note=lie, **{"a\nb": lie}),
        question("write_file", path="a", content=lie),
        question("edit_file", path=lie, edits=[{"old_str": lie, "new_str": "x"}]),
        Question(ToolCall("c", "bash", lie), RiskLevel.HIGH, "why"),
    ):
        text = drawn(question_block(asked, is_plain=is_plain), width=40)
        assert not set(text) & set("\r\x1b\u200b\u202e")
        lines = text.splitlines()
        assert "needs your approval · high risk" in f"{lines[0]} {lines[1]}"
        bar = "  | " if is_plain else "  │ "
        behind = [line.startswith(bar) for line in lines]
        first, count = behind.index(True), sum(behind)
        assert behind == [first <= at < first + count for at in range(len(lines))]
        others = [*lines[2:first], *lines[first + count :]]
        assert not any("needs your" in line or "nothing" in line for line in others)
        assert "U+" in text


def test_a_terminal_of_lines_gets_all_of_a_line_and_all_of_a_command_behind_bars() -> None:
    asked = question("bash", reason=f"why {'and why ' * 30}END", command=f"echo {'y' * 200} && END")
    text = render_blocks((TrimmedBlock(question_block(asked, is_plain=True)),), 80, is_plain=True)
    assert f"  {asked.reason}" in text.splitlines()
    behind = [line.removeprefix("  | ") for line in text.splitlines() if line.startswith("  | ")]
    assert "".join(behind).replace(" ", "") == f"$echo{'y' * 200}&&END"
    assert max(map(len, behind)) <= 80 - len("  | ")


def test_a_long_argument_pushes_no_other_out_of_sight() -> None:
    text = drawn(question_block(question("other", first="x" * 300_000, last="seen")))
    assert "... 200000 more characters" in text
    assert "careful: 200,000 of 300,004 characters are not shown" in text
    assert text.index("last: seen") < text.index("first:")
    asked = question("bash", access="write", command="a\nb", network="n" * 10)
    lines = drawn(question_block(asked)).splitlines()
    assert lines[2:6] == ["  │ access: write", f"  │ network: {'n' * 10}", "  │ $ a", "  │   b"]


UNSEEN = ("\u3164", "\u2800", "\uffa0", "\ufe01", "\U000e0041", "\u200d", "\u00ad")


@pytest.mark.parametrize("hidden", UNSEEN, ids=ascii)
@pytest.mark.parametrize("field", ["command", "path", "content"])
def test_a_question_says_what_cannot_be_seen_in_any_part_of_it(field: str, hidden: str) -> None:
    arguments = {"path": "a.txt", "content": "x", field: f"a{hidden}b"}
    name = "bash" if field == "command" else "write_file"
    text = render_blocks((question_block(question(name, **arguments)),), 100)
    assert hidden not in text
    assert (
        f"careful: it holds characters that cannot be seen, shown as \ufffd: U+{ord(hidden):04X}"
        in text
    )
    assert escape_name(f"a{hidden}") == json.dumps(f"a{hidden}")


def test_a_kind_that_is_not_what_it_seems_is_not_offered() -> None:
    one = question("bash", command="x")
    clean = replace(one, scope=replace(one.scope, kinds=("git log", "ls")))
    assert list_offered_kinds(clean) == ("git log", "ls")
    bad = replace(one, scope=replace(one.scope, kinds=("git log", "l\u3164s")))
    assert list_offered_kinds(bad) == ()
    assert describe_possible_grant(bad) == ""
    assert "careful: it holds characters" in render_blocks((question_block(bad),), 80)


ENTITIES = (
    "pay &#x202e;txt.exe &#x200b; &#13;X &#27;[31m &#x9b;2J [a](u&#x202e;b) ![p&#x202e;](q)\n"
)


@for_every_row(
    "markup",
    [
        ENTITIES,
        f"```x&#x202e;\n{ENTITIES}```\n",
        f"# {ENTITIES}",
        f"- {ENTITIES}",
        "[&#27;]: x&#x202e;\n\n[&#27;]\n",
    ],
)
def test_what_is_named_by_a_number_steers_no_terminal(markup: str) -> None:
    text = re.sub("\x1b\\[[0-9;]*m", "", render_blocks((TrimmedBlock(MarkdownBlock(markup)),), 80))
    assert sanitize_text(text) == text


def test_whatever_a_block_holds_is_legible_when_it_is_printed() -> None:
    text = render_blocks((Text("a\u202eb\x1b]0;x\u2066\u3164"),), 80)
    assert text == "a\ufffdb\ufffd]0;x\ufffd\ufffd\n"


def test_of_a_long_paste_the_beginning_is_shown_again() -> None:
    text = "\n".join(f"line {n}" for n in range(2000))
    lines = drawn(prompt_block(text)).splitlines()
    assert lines[-2:] == ["> line 39", "> … 1,960 more lines (Ctrl+O)"]
    whole = drawn(prompt_block(text, is_whole=True)).splitlines()
    assert (len(whole), whole[-1]) == (2000, "> line 1999")
    wide = drawn(prompt_block("x" * 10_007)).splitlines()
    assert wide[-1] == "> … 7 more characters (Ctrl+O)"


def test_an_address_is_shown_by_its_beginning_and_one_definition_makes_no_flood() -> None:
    markup = f"[a]: http://x/{'u' * 15_000}\n\n" + "[a] " * 900 + "\n"
    text = render_blocks((TrimmedBlock(MarkdownBlock(markup)),), 80)
    assert "http://x/uuu" in text
    assert "more characters" in text.replace("\n", " ")
    assert len(text) < 3 * ADDRESSES_SIZE_MAX
    assert text.count("(…)") > 800


def test_a_long_call_is_shown_whole_and_has_no_yes_for_good() -> None:
    long = question("bash", command="ls " + "x" * 5000)
    long = replace(long, scope=replace(long.scope, kinds=("ls",)))
    assert render_blocks((question_block(long),), 200).count("x") == 5000
    assert list_offered_kinds(long) == ()


def test_many_empty_lines_push_nothing_out_of_sight() -> None:
    text = render_blocks(
        (question_block(question("bash", command="ls" + "\n" * 3900 + "rm -rf x")),), 80
    )
    assert "… 3,899 empty lines" in text
    assert "rm -rf x" in text
    assert len(text.splitlines()) < 12


def test_long_code_is_shown_in_parts_that_look_like_the_whole() -> None:
    lines = [f"x{number} = {number}" for number in range(3000)]
    pieces = split("```python\n" + "\n".join(lines) + "\n```\nend\n", [100])
    assert len(pieces) > 4
    assert max(map(len, pieces)) < 20_000
    told = [line.strip() for piece in pieces for line in shown(piece)]
    assert told == [*lines, "end"]


@for_every_row("line", ["x", "- word *em*\n", "> a\n", "```a`\n*a* "])
def test_what_is_very_long_is_shown_in_bounded_parts_without_loss(line: str) -> None:
    def show(text: str) -> None:
        pieces = split(text, [4000])
        assert max(map(len, pieces)) <= 2 * 20_000 + 1
        assert "".join(pieces).replace("\n", "") == text.replace("\n", "")
        for piece in pieces:
            render_blocks((TrimmedBlock(MarkdownBlock(piece)),), 80)

    assert slow(show, {line: line * (300_000 // len(line))}) == []


@pytest.mark.parametrize(
    ("lines", "shown"),
    [(["y" * 1900] * 60, 60), (["y" * 100] * 4000, 1600), (["y"] * 6000, 2500)],
    ids=["wide", "large", "many"],
)
def test_of_a_very_long_change_the_beginning_is_shown(lines: list[str], shown: int) -> None:
    asked = question("write_file", path="a", content="\n".join([*lines, "end"]))
    text = drawn(question_block(asked))
    assert text.count("│ +") >= shown * 0.6
    assert ("+ end" in text) != ("characters are not shown" in " ".join(text.split()))


@for_every_row(
    "before, after, told",
    [
        (b"a\nb\n", b"a\nb", [" a", "-b", "+b", "\\ no newline at the end"]),
        (b"a\nb", b"a\nb\n", [" a", "-b", "\\ no newline at the end", "+b"]),
        (b"b", b"b\nc\n", ["-b", "\\ no newline at the end", "+b", "+c"]),
        (b"a\nb", b"a\nc", [" a", "-b", "+c"]),
    ],
)
def test_a_newline_at_the_end_is_a_change(before: bytes, after: bytes, told: list[str]) -> None:
    diff = unified_diff(before, after)
    assert diff.split("\n")[1:] == told
    assert count_changed_lines(diff) == (sum(one[0] == "+" for one in told), 1)
    text = drawn(diff_block(diff))
    assert text.count("    (no newline at the end)\n") == ("\\ no newline at the end" in told)


def test_a_new_file_is_shown_as_its_lines() -> None:
    assert unified_diff(None, b"a").split("\n")[1:] == ["+a"]


CODE = "".join(f"{'' if n % 7 == 0 else f'  _y_ = __z__[{n}]  # *{n}*'}\n" for n in range(600))


@for_every_row("after", ["", "\n", "- next\n", "\n- next\n\n  in it\n"])
def test_a_list_with_long_code_is_shown_as_it_was_written_to_its_end(after: str) -> None:
    text = f"- item\n\n  ```py\n{CODE}  ```\n{after}\nwords _after_\n\n```py\nx = 1\n```\n"
    lines = in_pieces(text)
    for line in CODE.splitlines():
        assert line in lines
    assert lines.count("  ```") == 1
    assert lines[-3:] == ["words after", "", "  x = 1"]
    pieces = [piece for piece in split(text, [5]) if "_y_" in piece]
    assert max(piece.count("\n") for piece in pieces) <= PART_LINES_MAX + 1


@pytest.mark.parametrize("count", [PART_LINES_MAX - 1, PART_LINES_MAX, PART_LINES_MAX + 1])
def test_what_is_below_a_long_list_is_laid_out_wherever_the_list_was_cut(count: int) -> None:
    lines = in_pieces("- item\n" + "  words\n" * (count - 1) + "\nbelow **it**\n")
    assert lines[-2:] == ["", "below it"]
