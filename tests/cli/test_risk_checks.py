"""What doctor says of commands here: does one run, and what is less safe than usual?"""

from __future__ import annotations

import os
from pathlib import Path

from cli.conftest import Run
from cli.test_doctor import by_name
from treadle.app.sessions.provider_reachability import ProviderReachability
from treadle.app.upkeep.risk_checks import check_keys, check_settings
from treadle.config.loader import LoadedSettings
from treadle.config.settings import Settings
from treadle.models.catalog import read_defaults


def test_what_is_less_safe_than_usual_is_said(
    treadle: Run, tmp_path: Path, repository: Path, environment: dict[str, str]
) -> None:
    config = tmp_path / "home/config/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        'sandbox = "off"\nnetwork = "on"\napproval_mode = "auto"\nread = "ask"\nlocal_only = true\n'
    )
    path = f"{repository}/bin::{environment['PATH']}"
    told = by_name(treadle("doctor", "--json", PATH=path, PYTHONPATH=f"{repository}/lib").stdout)
    texts = {(name, one["text"]) for name in told for one in told[name] if one["status"] != "ok"}
    expected = [
        ("sandbox", 'sandbox = "off"'),
        ("network", 'network = "on"'),
        ("approval", 'approval_mode = "auto"'),
        ("environment", f"PATH has {repository}/bin:"),
        ("environment", "PATH has an empty entry:"),
        ("environment", f"PYTHONPATH has {repository}/lib:"),
        *([("user", "you are root")] if os.getuid() == 0 else []),
    ]
    assert [one["text"][:12] for one in told["read"]] == ['read = "ask"']
    missing = [
        (name, begin)
        for name, begin in expected
        if not any(name == one and text.startswith(begin) for one, text in texts)
    ]
    assert missing == [], texts
    usual = LoadedSettings(Settings(), read_defaults(), {}, {}, ())
    assert list(check_settings(usual, 1000)) == []
    assert [one.name for one in check_settings(usual, 0)] == ["user"]
    reached = [
        ProviderReachability("far", "http://llm.example/v1", "environment K"),
        ProviderReachability("near", "http://127.0.0.1:8000/v1", "environment K"),
        ProviderReachability("safe", "https://llm.example/v1", "environment K"),
        ProviderReachability("free", "http://llm.example/v1"),
    ]
    (finding,) = check_keys(reached)
    assert "the key of far (environment K) goes to http://llm.example/v1" in finding.text


def test_that_a_kind_of_command_cannot_run_here_is_said(treadle: Run, repository: Path) -> None:
    """What a command would be told, in the same words; with a link nothing can be protected."""
    said = by_name(treadle("doctor", "--json").stdout)["sandbox"][0]
    assert said["status"] == "ok", said
    (repository / ".treadle").symlink_to(repository)
    (found,) = by_name(treadle("doctor", "--json").stdout)["sandbox"]
    assert found["status"] == "warning"
    assert "no command that may write can run" in found["text"]
    assert "symbolic link" in found["text"]
