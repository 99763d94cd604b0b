"""The collector that the environment names, looked at without importing what sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treadle.app.telemetry.turn_exporter import TurnExporter

CLOSE_S_MAX: Final = 2.0
"""Seconds that the end of a command, or of a program, waits for a collector."""

_ENDPOINTS: Final = tuple(f"OTEL_EXPORTER_OTLP_{part}ENDPOINT" for part in ("", "TRACES_"))


def make_turn_exporter(
    environ: Mapping[str, str], on_problem: Callable[[str], None] = lambda _: None
) -> TurnExporter | None:
    """Who sends the turns that end; `None` if the environment asks for nothing.

    Args:
        environ: the environment variables.
        on_problem: see `TurnExporter`.

    Raises:
        ConfigError: a variable has a value that cannot be used.
    """
    if not any(map(environ.get, _ENDPOINTS)):
        return None
    from treadle.app.telemetry.otlp_settings import read_otlp_settings
    from treadle.app.telemetry.turn_exporter import TurnExporter

    settings = read_otlp_settings(environ)
    return None if settings is None else TurnExporter(settings, on_problem)
