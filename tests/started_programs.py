"""What a program does from its first moment on: what it imports, lists and searches for garbage.

Python tells its finders, audit hooks and callbacks; nothing of the program is another one for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_RECORDER: Final = """
import gc, os, sys
_log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def _record(*words):
    os.write(_log, (" ".join(map(str, words)) + "\\n").encode())
def _record_listing(event, arguments):
    if event in ("os.listdir", "os.scandir"):
        _record(event, arguments[0])
sys.addaudithook(_record_listing)
class _Finder:
    def find_spec(name, *_):  # an audit hook does not hear of `importlib.import_module`
        _record("import", name)
sys.meta_path.insert(0, _Finder)
def _record_search(phase, info):
    if phase == "start":
        count = sum(len(gc.get_objects(young)) for young in range(info["generation"] + 1))
        _record("search", count)
gc.callbacks.append(_record_search)
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

    def list_searches(self, module: str) -> list[int]:
        """Of each search for garbage since a module was imported: among how many objects."""
        lines = self._read()
        later = lines[lines.index(f"import {module}") :]
        return [int(line.removeprefix("search ")) for line in later if line.startswith("search ")]

    def _read(self) -> list[str]:
        return self._log.read_text().splitlines()
