"""Where the console script begins: `--version` answers before anything heavy is imported."""

from __future__ import annotations

import os
import sys
from typing import Final

_ON_WINDOWS: Final = (
    "Windows itself is not supported; in WSL (`wsl --install`) it works as on Linux"
)
_NOT_CONFIGURED: Final = 5
"""As `treadle.exit_codes` has it, which imports more than there may be."""
_GARBAGE_COUNT: Final = 100_000
"""Objects that are made, and not freed, until garbage is looked for; Python's own number is 700."""


def main() -> None:
    """The console script."""
    if sys.platform == "win32":
        # Nearly all that follows imports what Windows has not: locks, process groups, signals.
        sys.stderr.write(f"treadle: {_ON_WINDOWS}\n")
        sys.exit(_NOT_CONFIGURED)
    if sys.argv[1:] == ["--version"]:
        from treadle.version import __version__

        try:
            sys.stdout.write(f"treadle {__version__}\n")
            sys.stdout.flush()
        except BrokenPipeError:  # nobody reads; at its end the interpreter would try again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        return
    import gc
    import signal

    # What is imported stays, and looking through it for garbage time and again takes a twelfth of
    # the time until the prompt hears keys. What a turn leaves is found a little later.
    gc.set_threshold(_GARBAGE_COUNT)
    # Ctrl+C while this is imported ends it, without telling where it was.
    found = signal.getsignal(signal.SIGINT)
    if found is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from treadle.cli.main import main as run

    signal.signal(signal.SIGINT, found)
    run()
