"""Thread ids become file names; nothing else than an id may pass for one."""

from __future__ import annotations

from case_tables import for_every_row
from thread.journals import ID
from treadle.thread.ids import PREFIX, is_thread_id


def test_a_whole_id_is_one() -> None:
    assert is_thread_id(ID)
    assert ID.startswith(PREFIX)


@for_every_row(
    "text",
    [
        "",
        PREFIX,
        ID[:-1],
        ID + "0",
        ID + "\n",
        ID + "\0",
        "\n" + ID,
        ID.upper(),
        ID.removeprefix(PREFIX),
        ID.replace("-", "_"),
        ID.replace("a", "\uff41"),
        ID.replace("0", "\u0660"),
        "../../x",
        f"../{ID}",
        f"{ID}/../x",
        f"{ID}.jsonl",
        "T-" + "." * 36,
    ],
)
def test_anything_else_is_none(text: str) -> None:
    assert not is_thread_id(text)
