"""The form that the answer of a task must have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from treadle.errors import UsageError
from treadle.runtime.answer_form import AnswerForm


def read_answer_schema(path: str) -> dict[str, Any]:
    """The schema in a file, checked before anything is made or sent.

    Raises:
        UsageError: there is no such file, or no JSON schema in it.
    """
    try:
        schema = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON file: {error}") from error
    if not isinstance(schema, dict):
        raise UsageError(f"{path} holds no JSON schema: it must be a JSON object")
    try:
        AnswerForm.of_schema(schema)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from error
    return schema
