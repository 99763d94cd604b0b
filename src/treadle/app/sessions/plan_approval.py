"""Leaving plan mode: what an agent has proposed there, and what is said for a yes to it."""

from __future__ import annotations

from typing import Final

from treadle.core.conversation import Conversation
from treadle.runtime.session import Session
from treadle.thread.plan import AgentPlan, find_proposed_plan

GO_AHEAD: Final = "Yes, carry out this plan."
"""What the person says then; it begins the turn in which it is done."""


def find_waiting_plan(session: Session, mode: str) -> AgentPlan | None:
    """The plan that waits for a person's yes; `None` if none does.

    Nothing waits in other modes, while work is under way, or when the person has said more already.

    Args:
        session: an open conversation.
        mode: the approval mode that holds.
    """
    is_resting = session.is_waiting and not session.queued_inputs and not session.driver.is_running
    conversation = session.conversation
    if mode != "plan" or not is_resting or not isinstance(conversation, Conversation):
        return None
    return find_proposed_plan(conversation)
