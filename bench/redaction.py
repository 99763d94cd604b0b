"""How fast texts are looked through for secrets: those known by their format, and a few values."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from bench.report import Row, at_least, at_most, median_s
from treadle.secrets.redaction import Redactor

SIZE = 4_000_000
TIMES = 5
VALUES = 10
SMALL = 500
"""Characters of a record as most are."""

RECORDS = 2_000


def measure() -> list[Row]:
    """Megabytes a second over the code of the standard library, which holds no secrets."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = "".join(file.read_text("utf-8", "replace") for file in files)[:SIZE]
    known = {f"key_{number}": f"Zx9Rv{number}B47Hq2LmN0Ty6" for number in range(VALUES)}
    rows: list[Row] = []
    for name, secrets in (("", {}), (f" and {VALUES} known values", known)):
        redact = Redactor(secrets).redact
        rate = len(text) / 1e6 / median_s(lambda redact=redact: redact(text), TIMES)
        rows.append(at_least(f"secrets looked for: formats{name}", rate, "MB/s", 40))
    redact = Redactor(known).redact
    small = text[: SMALL * RECORDS]
    records = [small[place : place + SMALL] for place in range(0, len(small), SMALL)]
    each_us = median_s(lambda: [redact(one) for one in records], TIMES) / RECORDS * 1e6
    return [*rows, at_most(f"  a text of {SMALL} characters", each_us, "us", 20)]
