"""The person of the lab: what they say to a question depends on the place of the call in its round.

What they say is noted before anybody hears it; what a process does without having heard it counts
as done without it.
"""

from __future__ import annotations

from typing import Final

from lab.world import Agreed, Denied, World
from treadle.answers import Verdict
from treadle.core.approval import NO_SCOPE, Approved, Decision, Modified, Question, Rejected

REFUSED_PLACE: Final = 3
MODIFIED_PLACE: Final = 4
MODIFIED: Final = '{"how": "with care"}'


class Person:
    """Says no to the fourth call of a round, changes the fifth, and says yes to the others.

    Args:
        world: is told what they say.
        thread: where they are asked.
    """

    def __init__(self, world: World, thread: str) -> None:
        self._world = world
        self._thread = thread

    def decide(self, question: Question) -> Decision:
        """What they say to a question as it is shown to them."""
        call, scope, world = question.call, question.scope, self._world
        place = int(call.id.rpartition("-")[2])
        if place == REFUSED_PLACE:
            world.note(Denied(self._thread, call.id))
            return Rejected("not this one")
        is_modified = place == MODIFIED_PLACE and call.arguments_json != MODIFIED
        arguments = MODIFIED if is_modified else call.arguments_json
        shown: tuple[str, str] = (scope.ground, scope.content)
        if is_modified or scope == NO_SCOPE:  # it is looked at as it is now
            shown = (world.place.ground, world.place.content)
        world.note(Agreed(self._thread, call.id, arguments, *shown))
        return Modified(arguments) if is_modified else Approved()

    async def approve(self, question: Question) -> Verdict:
        """`decide` for a process that can ask them."""
        return Verdict(self.decide(question))
