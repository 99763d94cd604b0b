"""What a person typed, of a message that tells a model more than that. Pure."""

from __future__ import annotations

from typing import Final

COMMANDS_HEAD: Final = "\n\n[Before saying this, the person ran commands themselves]"
"""Stands in a message between what a person said and the commands they ran."""

ENDS_HEAD: Final = "\n\n[Since the last message, what ran in the background has ended]"
"""Stands in a message between what a person said and how commands in the background ended."""

EXPANSION_HEAD: Final = "\n\n[The person's words above call this "
"""Stands in a message between `/NAME ARGUMENTS` and the text of the file that it stands for."""

MENTIONS_HEAD: Final = "\n\n[The person's words above name these; so they stood when it was said]"
"""Stands in a message between what a person said and the files that they named with `@`."""

SITUATION_HEAD: Final = "\n\n[Since it was last told, this has changed]"
"""Stands in a message before what is another fact now about where and how the agent works."""


def strip_additions(content: str) -> str:
    """What a person typed of a message, without what they called, named or ran, or news."""
    for head in (SITUATION_HEAD, COMMANDS_HEAD, ENDS_HEAD, EXPANSION_HEAD, MENTIONS_HEAD):
        content = content.partition(head)[0]
    return content
