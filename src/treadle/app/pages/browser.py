"""Opens a page in the browser of the person."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from treadle import helper_programs

_OPENERS: Final[Mapping[str, str]] = {"darwin": "open"}
_OPENER: Final = "xdg-open"


def open_browser(link: str, environ: Mapping[str, str]) -> bool:
    """Have the desktop open a link; whether it was asked to.

    Args:
        link: where to.
        environ: of the process: without a desktop there is nobody to ask.
    """
    has_desktop = (
        sys.platform == "darwin" or environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    )
    program = helper_programs.find_program(_OPENERS.get(sys.platform, _OPENER), environ)
    if not has_desktop or program is None:
        return False
    try:
        # A browser that this starts goes on when Treadle ends.
        subprocess.Popen(
            [program, link],
            env=helper_programs.environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    return True
