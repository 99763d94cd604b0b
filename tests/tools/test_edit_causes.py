"""Whatever text is not in whatever file, there is an answer, and it shows lines of that file."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.tools.edit_causes import Missing, find_cause, show_cause
from treadle.tools.shown_lines import LINE_COUNT_MAX, LINE_SIZE_MAX

pieces = st.lists(
    st.sampled_from(
        [
            *(
                "def run(self):",
                "    return 1",
                "\treturn 1",
                "}",
                "",
                "...",
                "# ... existing code",
            ),
            *("12\tdef run(self):", "+    x = 1", "-    x = 1", "> quoted", "```", "\\n", '\\"'),
            *(
                "a\\nb",
                "&lt;b&gt;",
                "<b>",
                "\u2019quoted\u201d",
                "'quoted\"",
                "\u00a0",
                "\x0c",
                "\r",
            ),
        ]
    ),
    max_size=8,
)
texts = pieces.map("\n".join) | st.text(max_size=30)


@settings(max_examples=600, deadline=None)
@given(texts, texts, texts)
def test_there_is_a_cause_and_it_names_lines_that_are_there(text: str, old: str, new: str) -> None:
    missing = Missing(text, old, new)
    cause = find_cause(missing)
    assert cause.words
    lines = text.split("\n")
    shown = show_cause(missing, cause)
    assert all(number >= 1 for number in cause.numbers)
    told = shown.split("\n") if shown else []
    assert len(told) <= LINE_COUNT_MAX
    for line in told:
        number, _, rest = line.partition(": ")
        assert lines[int(number) - 1].removesuffix("\r")[:LINE_SIZE_MAX] == rest[:LINE_SIZE_MAX]


def test_a_long_text_in_a_large_file_is_answered() -> None:
    text = "".join(f"    value_{number} = compute({number})\n" for number in range(30_000))
    old = "".join(f"    value_{number} = compute({number})\n" for number in range(9_000, 11_000))
    cause = find_cause(Missing(text, old.replace("10500)", "ten)"), "x"))
    assert "differs from line 10501" in cause.words
    assert find_cause(Missing(text * 4, old + "x", "y")).words
