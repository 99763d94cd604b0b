"""What is said of failures holds no secret, and all the rest of it."""

from __future__ import annotations

import logging
import random

import pytest

from token_samples import TOKENS, secret_of
from treadle.cli.log_redaction import configure_logging, redact_for_log, report_exception

TOKEN = TOKENS["github_token"](random.Random(4))
MARK = "[REDACTED:github_token]"


def test_lines_of_the_log_and_their_tracebacks_hold_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level = root.level
    try:
        configure_logging(logging.INFO)
        logging.getLogger("treadle.x").info("it is %s", TOKEN)
        try:
            raise ValueError(f"no {TOKEN}")
        except ValueError:
            logging.getLogger("treadle.x").exception("failed")
        logging.getLogger("treadle.x").debug("not said")
    finally:
        root.setLevel(level)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        f"treadle.x: it is {MARK}",
        "treadle.x: failed",
        "Traceback (most recent call last):",
    ]
    assert lines[-1] == f"ValueError: no {MARK}"
    assert secret_of(TOKEN) not in "".join(lines)


def test_the_last_words_hold_none(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise RuntimeError(f"{TOKEN} \x1b[2J")
    except RuntimeError as error:
        report_exception(RuntimeError, error, error.__traceback__)
    told = capsys.readouterr().err
    assert told.splitlines()[-1] == f"RuntimeError: {MARK} �[2J"
    assert secret_of(TOKEN) not in told


def test_a_text_without_secrets_is_said_as_it_is() -> None:
    assert redact_for_log("no thread 0190\n") == "no thread 0190\n"
