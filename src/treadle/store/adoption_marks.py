"""Which threads were made elsewhere: nothing that was allowed in one of those counts here.

A mark stands beside the journal of such a thread and says from which version on it is this user's
own. It stays among the threads when the thread goes to the trash, as locks do.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from treadle.store.file_replacement import replace_file
from treadle.store.folders import ADOPTION_SUFFIX, StoreFolders
from treadle.store.journal import convert_os_errors

_MARK_SIZE_MAX: Final = 4096
_OWN_SERVER_MARK: Final = b"0 mine\n"
_BORROWED: Final = "borrowed"


class Loan(Struct, frozen=True):
    """A server that has a thread as another user's, and the version that was taken from there.

    Without a `url` nobody else has it.
    """

    url: str = ""
    version: int = 0


class AdoptionMarks:
    """The marks of the threads that were taken in.

    Args:
        folders: where they are.
    """

    def __init__(self, folders: StoreFolders) -> None:
        self._folders = folders

    def mark(
        self,
        thread_id: str,
        *,
        is_mine: bool = False,
        loan: Loan = Loan(),  # noqa: B008  frozen
    ) -> None:
        """This thread is made elsewhere; durable when this returns, before its journal is there.

        Args:
            thread_id: the thread.
            is_mine: whether it comes from this user's own server, and not as a file.
            loan: where it is another user's. A version that is not here yet does no harm.

        Raises:
            DiskError: it is not marked, and must not be taken in.
        """
        line = _OWN_SERVER_MARK if is_mine else b"0\n"
        if loan.url:
            line = f"0 {_BORROWED} {loan.version} {loan.url}\n".encode()
        replace_file(self._folders.disk, self._path(thread_id), line)

    def find_loan(self, thread_id: str) -> Loan | None:
        """What was taken from another user's thread of a server, and not gone on with here.

        Raises:
            DiskError: nobody can tell.
        """
        words = (self._read(thread_id) or b"").decode("utf-8", "replace").split(" ", 3)
        if words[:2] != ["0", _BORROWED] or len(words) != 4 or not words[2].isdigit():
            return None
        return Loan(words[3].rstrip("\n"), int(words[2]))

    def is_borrowed(self, thread_id: str, version: int, url: str) -> bool:
        """Whether a server has a thread as another user's, and nothing was added to it here.

        Args:
            thread_id: the thread.
            version: the one that it has here.
            url: the server.

        Raises:
            DiskError: nobody can tell.
        """
        loan = self.find_loan(thread_id)
        return loan is not None and loan.url == url and version <= loan.version

    def mark_updated(self, thread_id: str) -> None:
        """This user's own server has brought more of a thread that is here. Raises as `mark`.

        One that somebody else's file had brought is trusted no more than before.
        """
        self.mark(
            thread_id, is_mine=self.find_own_version(thread_id) != 0 or self.is_mine(thread_id)
        )

    def is_mine(self, thread_id: str) -> bool:
        """Whether a thread that was made elsewhere was this user's there, as their server says.

        A yes that was given there counts no more than any other; what was open may be gone on with.

        Raises:
            DiskError: nobody can tell.
        """
        return self._read(thread_id) == _OWN_SERVER_MARK

    def mark_own(self, thread_id: str, version: int) -> None:
        """From this version on, which is durable, the thread is this user's own.

        Raises:
            DiskError: it counts as made elsewhere still.
        """
        replace_file(self._folders.disk, self._path(thread_id), f"{version}\n".encode())

    def find_own_version(self, thread_id: str) -> int | None:
        """From which version on a thread that was taken in is this user's own; 0: not yet.

        `None` if it was never taken in.

        Raises:
            DiskError: nobody can tell.
        """
        data = self._read(thread_id)
        if data is None:
            return None
        # What cannot be read as a number was not written here, and trusts nobody.
        text = data.strip()
        return int(text) if text.isdigit() else 0

    def _read(self, thread_id: str) -> bytes | None:
        path = self._path(thread_id)
        with convert_os_errors("read", path):
            try:
                return self._folders.disk.read_range(path, 0, _MARK_SIZE_MAX)
            except FileNotFoundError:
                return None

    def is_foreign(self, thread_id: str, version: int | None = None) -> bool:
        """Whether what is recorded up to a version was made elsewhere, not by this user.

        Args:
            thread_id: the thread.
            version: the version; by default the newest.

        Raises:
            DiskError: nobody can tell.
        """
        own_from = self.find_own_version(thread_id)
        if own_from is None:
            return False
        return not own_from or (version is not None and version < own_from)

    def _path(self, thread_id: str) -> str:
        return self._folders.path(thread_id, ADOPTION_SUFFIX)
