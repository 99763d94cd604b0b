"""What a program does from its first moment on: the modules it imports, the folders it lists.

Python tells its audit hooks; nothing of the program is another one for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_RECORDER: Final = """
import os, sys
_log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def _record(event, arguments):
    if event in ("import", "os.listdir", "os.scandir"):
        os.write(_log, f"{{event}} {{arguments[0]}}\\n".encode())
sys.addaudithook(_record)
"""


class StartRecord:
    """What was recorded so far.

    Args:
        folder: where the recorder is put. Programs with `environment` load it as they start.
    """

    def __init__(self, folder: Path) -> None:
        self._log = folder / "record.log"
        (folder / "sitecustomize.py").write_text(_RECORDER.format(log=str(self._log)))
        self.environment = {"PYTHONPATH": str(folder)}

    def count_listings(self, folder: Path) -> int:
        """How often the names in a folder were read."""
        return sum(self._read().count(f"{how} {folder}") for how in ("os.listdir", "os.scandir"))

    def list_imports(self) -> list[str]:
        """The modules that were looked for, in order; some may not be there."""
        return [line.removeprefix("import ") for line in self._read() if line.startswith("import ")]

    def _read(self) -> list[str]:
        return self._log.read_text().splitlines()
