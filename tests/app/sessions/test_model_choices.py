"""The models one can choose from: what is served, within bounds, and what stands in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.loopback import Answer, Loopback, refusal
from treadle.app.sessions import model_choices
from treadle.app.sessions.model_choices import ModelChoice, list_model_choices
from treadle.config.loader import LoadedSettings, load_settings

NOTHING = "http://127.0.0.1:9/v1"
SERVED = refusal(200, {"object": "list", "data": [{"id": "coder:7b"}, {"id": "other"}]})


def settings(tmp_path: Path, ollama: str) -> LoadedSettings:
    """Ollama is here; the other servers of this machine are not."""
    urls = {**dict.fromkeys(("lmstudio", "vllm", "llamacpp"), NOTHING), "ollama": ollama}
    path = tmp_path / "config" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "".join(f'[providers.{name}]\nbase_url = "{url}"\n' for name, url in urls.items())
    )
    return load_settings(tmp_path, {"TREADLE_HOME": str(tmp_path)})


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(model_choices, "LIST_S_MAX", 60.0)


async def test_the_current_model_is_first_then_what_is_served_then_who_lacks_a_key(
    tmp_path: Path,
) -> None:
    async with Loopback(SERVED) as server:
        loaded = settings(tmp_path, f"{server.url}/v1")
        found = await list_model_choices(loaded, "ollama:other", None)
    assert found[0] == ModelChoice("model", "ollama:other", is_current=True)
    assert found.count(ModelChoice("model", "ollama:coder:7b")) == 1
    assert [one.name for one in found].count("ollama:other") == 1
    assert found[1] == ModelChoice("model", "ollama:coder:7b"), "before what needs a key"
    assert {one.name for one in found[2:] if one.lacks_key} > {"opus", "gpt"}
    kinds = [one.kind for one in found]
    assert kinds == sorted(kinds, key=("model", "problem", "key").index)
    keyless = {one.name: one.note for one in found if one.kind == "key"}
    assert "ANTHROPIC_API_KEY" in keyless["anthropic:"]
    assert {one.name for one in found if one.kind == "problem"} >= {"vllm:", "lmstudio:"}


async def test_what_a_provider_elsewhere_served_is_kept_for_the_day_and_in_its_absence(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    async with Loopback(SERVED) as server:
        # As an address of this machine that is not the loopback: it is asked as one elsewhere.
        loaded = settings(tmp_path, server.url.replace("127.0.0.1", "0.0.0.0") + "/v1")
        for _ in range(2):
            found = await list_model_choices(loaded, "", cache)
            assert ModelChoice("model", "ollama:coder:7b") in found
        assert len(server.requests) == 1
        kept = cache / "served-models.json"
        kept.write_text(kept.read_text().replace(model_choices.today(), "2020-01-01"))
        await list_model_choices(loaded, "", cache)
        assert len(server.requests) == 2
    kept.write_text(kept.read_text().replace(model_choices.today(), "2020-01-01"))
    assert ModelChoice("model", "ollama:coder:7b") in await list_model_choices(loaded, "", cache)
    kept.write_text("{ damaged")
    assert ModelChoice("model", "ollama:coder:7b") not in await list_model_choices(
        loaded, "", cache
    )


async def test_nobody_waits_for_a_provider_that_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_choices, "LIST_S_MAX", 0.05)
    async with Loopback(Answer(hangs=True)) as server:
        found = await list_model_choices(settings(tmp_path, f"{server.url}/v1"), "", None)
    (silent,) = [one for one in found if one.name == "ollama:"]
    assert silent.kind == "problem"
