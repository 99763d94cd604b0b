"""Where spans go, by the environment variables of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from treadle.errors import ConfigError

CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TIMEOUT_S: Final = 10.0
TIMEOUT_S_MAX: Final = 60.0
_OTLP: Final = "OTEL_EXPORTER_OTLP_"
_YES: Final = frozenset(("true", "span_only", "span_and_event"))


class OtlpSettings(Struct, frozen=True):
    """Where a collector is, and what it is told besides.

    An empty URL is a signal that is not sent. `headers` may hold keys: they are shown nowhere.
    `resource` says who reports, `with_content` whether what was said goes along.
    """

    traces_url: str
    metrics_url: str
    traces_headers: Mapping[str, str] = {}
    metrics_headers: Mapping[str, str] = {}
    timeout_s: float = TIMEOUT_S
    resource: Mapping[str, str] = {}
    with_content: bool = False


def read_otlp_settings(environ: Mapping[str, str], url: str = "") -> OtlpSettings | None:
    """What the environment says; `None` if nothing is to be sent.

    Args:
        environ: the environment variables.
        url: of a collector, as in `OTEL_EXPORTER_OTLP_ENDPOINT`, whatever that says.

    Raises:
        ConfigError: a variable has a value that cannot be used.
    """
    if not url and environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    base = url or environ.get(f"{_OTLP}ENDPOINT", "").strip()
    urls = {
        signal: _find_url(environ, signal, base, is_given=bool(url))
        for signal in ("traces", "metrics")
    }
    if not any(urls.values()):
        return None
    if not url and environ.get(f"{_OTLP}PROTOCOL", "").strip().lower() == "grpc":
        raise ConfigError(
            f"{_OTLP}PROTOCOL is grpc; spans are sent over HTTP only",
            hint=f"{_OTLP}PROTOCOL=http/json, and the collector's address for HTTP",
        )
    common = _read_pairs(environ, f"{_OTLP}HEADERS")
    return OtlpSettings(
        urls["traces"],
        urls["metrics"],
        {**common, **_read_pairs(environ, f"{_OTLP}TRACES_HEADERS")},
        {**common, **_read_pairs(environ, f"{_OTLP}METRICS_HEADERS")},
        _read_timeout(environ),
        _read_resource(environ),
        wants_content(environ),
    )


def wants_content(environ: Mapping[str, str]) -> bool:
    """Whether what was said goes along."""
    return environ.get(CONTENT, "").strip().lower() in _YES


def _find_url(environ: Mapping[str, str], signal: str, base: str, *, is_given: bool) -> str:
    name = f"{_OTLP}{signal.upper()}_ENDPOINT"
    url = f"{base.rstrip('/')}/v1/{signal}" if base else ""
    if not is_given:
        if environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() == "none":
            return ""
        url = environ.get(name, "").strip() or url
    if url:
        _check_url(url)
    return url


def _check_url(url: str) -> None:
    """Refuse what no request can be sent to. The address is not shown: it may hold a password."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or not url.isprintable() or " " in url:
        raise ConfigError(
            "the address of the collector is none that spans can be sent to",
            hint="an address like http://localhost:4318",
        )


def _read_pairs(environ: Mapping[str, str], name: str) -> dict[str, str]:
    """`key=value,key2=value2`, percent-encoded. What is wrong is not shown: it may be a key."""
    found: dict[str, str] = {}
    for pair in filter(str.strip, environ.get(name, "").split(",")):
        key, separator, value = pair.partition("=")
        key, value = unquote(key.strip()), unquote(value.strip())
        is_good = bool(separator and key) and (key + value).isprintable()
        if not is_good or (name.endswith("HEADERS") and not (key + value).isascii()):
            raise ConfigError(f"{name} is no list of key=value, with commas between them")
        found[key] = value
    return found


def _read_timeout(environ: Mapping[str, str]) -> float:
    """Milliseconds, as the standard has it."""
    text = environ.get(f"{_OTLP}TIMEOUT", "").strip()
    if not text:
        return TIMEOUT_S
    if not (text.isascii() and text.isdecimal() and int(text[:9])):
        raise ConfigError(f"{_OTLP}TIMEOUT is no number of milliseconds")
    return min(int(text[:9]) / 1000, TIMEOUT_S_MAX)


def _read_resource(environ: Mapping[str, str]) -> dict[str, str]:
    found = {"service.name": "treadle", **_read_pairs(environ, "OTEL_RESOURCE_ATTRIBUTES")}
    if name := environ.get("OTEL_SERVICE_NAME", "").strip():
        found["service.name"] = name
    return found
