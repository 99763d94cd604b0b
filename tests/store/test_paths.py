"""Where things live follows the environment, and one variable overrides all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.store.paths import Places


def test_one_variable_moves_everything(tmp_path: Path) -> None:
    places = Places.find({"TREADLE_HOME": str(tmp_path)})
    assert places == Places(*(tmp_path / name for name in ("data", "state", "config", "cache")))


def test_a_relative_home_is_taken_from_here_and_a_tilde_from_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Places.find({"TREADLE_HOME": "here"}).data == tmp_path / "here" / "data"
    assert Places.find({"TREADLE_HOME": "~/t"}).data == tmp_path / "home" / "t" / "data"


def test_without_it_the_xdg_variables_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DATA", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    places = Places.find({})
    assert places.data == tmp_path / "DATA" / "treadle"
    assert places.state == tmp_path / "STATE" / "treadle"
    assert places.config == tmp_path / "CONFIG" / "treadle"


def test_the_environment_of_the_process_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path))
    assert Places.find().data == tmp_path / "data"


def test_an_empty_home_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Places.find({"TREADLE_HOME": ""}).data == tmp_path / "treadle"
