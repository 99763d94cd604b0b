"""A tip is told when it fits, once a session, and not to who has used the thing or heard enough."""

from __future__ import annotations

from pathlib import Path

from treadle.app.feature_tips import SESSIONS_MAX, TIPS, TipChooser, mark_used, read_history
from treadle.core.tools import ToolExecutionOutcome
from treadle.outputs import HookFinished, Output, ToolFinished, TurnStarted
from treadle.store.paths import Places

BEGIN = TurnStarted("T-1", "go")
COMMITTED = HookFinished(action_taken=True, note="committed")


def call(tool: str) -> ToolFinished:
    return ToolFinished("c1", tool, ToolExecutionOutcome.Success("c1", "done"))


LOOKED, EDITED = call("read_file"), call("edit_file")
TURNS: list[tuple[tuple[Output, ...], tuple[str, ...]]] = [
    ((), ()),
    ((LOOKED,), ()),
    ((LOOKED, LOOKED, LOOKED), ("resume",)),
    ((EDITED,), ("rewind",)),
    ((EDITED, COMMITTED), ("rewind", "blame")),
    ((LOOKED, LOOKED, EDITED, COMMITTED), ("rewind", "blame", "resume")),
    ((HookFinished(action_taken=False, note="nothing"),), ()),
]
"""What happens in a turn, and what of it may be told, the first one first."""


def places(folder: Path) -> Places:
    (folder / "state").mkdir(exist_ok=True)
    return Places(folder / "data", folder / "state", folder / "config")


def turn(chooser: TipChooser, happened: tuple[Output, ...]) -> str:
    for output in (BEGIN, *happened):
        chooser.observe(output)
    return chooser.choose()


def test_the_first_tip_that_fits_a_turn_is_told_each_once_a_session(tmp_path: Path) -> None:
    wrong = []
    for at, (happened, fitting) in enumerate(TURNS):
        folder = tmp_path / str(at)
        folder.mkdir()
        chooser = TipChooser(places(folder))
        told = [turn(chooser, happened) for _ in range(len(TIPS) + 1)]
        wanted = [TIPS[name] for name in fitting]  # type: ignore[index]
        if [one for one in told if one] != wanted or told[: len(wanted)] != wanted:
            wrong.append((happened, told))
    assert wrong == []


def test_a_turn_in_which_nothing_happens_tells_nothing_of_the_one_before(tmp_path: Path) -> None:
    chooser = TipChooser(places(tmp_path))
    assert turn(chooser, (EDITED,)) == TIPS["rewind"]
    assert turn(chooser, ()) == ""
    assert chooser.choose() == ""


def test_what_was_used_or_told_often_is_told_no_more(tmp_path: Path) -> None:
    home = places(tmp_path)
    for _ in range(SESSIONS_MAX):
        assert turn(TipChooser(home), (EDITED,)) == TIPS["rewind"]
    assert turn(TipChooser(home), (EDITED,)) == ""
    assert turn(TipChooser(home), (COMMITTED,)) == TIPS["blame"]
    mark_used(home, "blame")
    assert turn(TipChooser(home), (COMMITTED,)) == ""
    assert read_history(home).used == {"blame"}


def test_nothing_is_made_for_who_has_nothing_and_a_damaged_file_harms_nobody(
    tmp_path: Path,
) -> None:
    nowhere = Places(tmp_path / "data", tmp_path / "none" / "state", tmp_path / "config")
    mark_used(nowhere, "blame")
    assert not (tmp_path / "none").exists()
    home = places(tmp_path)
    for damage in (b"{", b"[1]", b'{"used": 5}', b"\xff"):
        (home.state / "tips.json").write_bytes(damage)
        assert turn(TipChooser(home), (EDITED,)) == TIPS["rewind"]
    (home.state / "tips.json").unlink()
    (home.state / "tips.json").mkdir()
    assert turn(TipChooser(home), (EDITED,)) == TIPS["rewind"], "the disk refuses to keep it"
