"""What a real process did to its files, call by call, played again on the model disk.

So the real `Disk` is judged by the weakest file system as well: real ones forgive what it forgets.
"""

from __future__ import annotations

from lab.model_disk import ModelDisk
from lab.script import ROOT
from lab.suites import Cut, Recorder
from lab.world import Note, World, read_notes


class Replay:
    """A trace, as the cuts it allows.

    Args:
        trace: what `crash_trace` wrote.
        root: the folder of the store in it.
    """

    def __init__(self, trace: bytes, root: str) -> None:
        self._root = root
        self._disk = ModelDisk()
        self._disk.make_folder(ROOT)
        self._world = World()
        self._handles: dict[str, int] = {}
        recorder = Recorder(self._disk, self._world)
        while trace:
            line, _, trace = trace.partition(b"\n")
            kind, path, to, size = line.decode().split("\t")
            length = int(size) if kind in "wn" else 0
            self._take(kind, self._placed(path), self._placed(to), trace[:length], int(size))
            trace = trace[length:]
        self.cuts: list[Cut] = recorder.cuts
        self.notes: list[Note] = self._world.notes
        self.pending_count_max = self._disk.pending_count_max

    def _placed(self, path: str) -> str:
        return path.replace(self._root, ROOT, 1)

    def _take(self, kind: str, path: str, to: str, data: bytes, size: int) -> None:
        disk = self._disk
        if kind == "n":
            self._world.note(read_notes(data)[0])
        elif kind == "m":
            disk.mkdir(path)
        elif kind == "c":
            self._handles[path] = disk.create(path)
        elif kind == "w":
            disk.write(self._handles[path], data)
        elif kind == "s":
            disk.sync(self._handles[path])
        elif kind == "d":
            disk.sync_folder(path)
        elif kind == "t":
            disk.truncate(self._handles[path], size)
        elif kind == "u":
            disk.unlink(path)
        elif kind == "r":
            disk.rename(path, to)
            self._handles[to] = self._handles.pop(path)
