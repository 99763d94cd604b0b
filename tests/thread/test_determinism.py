"""The same events give the same actions, journal and snapshot, byte for byte, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent


def output(hash_seed: str) -> bytes:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, TESTS / "thread" / "scripted_program.py"],
        env=environment,
        capture_output=True,
        check=True,
    ).stdout


def test_two_processes_with_other_hash_seeds_come_to_the_same_bytes() -> None:
    one, other = output("0"), output("1")
    assert len(one) > 50_000
    assert one == other
