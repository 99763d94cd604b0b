"""A yes holds for what it was given to: it is bound, narrow, durable, and can be taken back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from runtime.desk import CONFIG, Desk, Model, Toolbox, calls, calls_of, mutate, texts
from treadle import outputs
from treadle.answers import Verdict
from treadle.core.approval import AlwaysAsk, Approved, Grant, Modified, NeverAsk, Question, Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel
from treadle.errors import UsageError
from treadle.outputs import TurnOutcome
from treadle.runtime.session import Session

ASKING = replace(CONFIG, approval=AlwaysAsk())
SCOPE = Scope(kinds=("fire/",), ground="here", content="paper", confined="an oven")


class Scoped(Toolbox):
    """A box whose calls all have one scope, which may change."""

    def __init__(self, scope: Scope | None = SCOPE) -> None:
        super().__init__(burn=mutate("burnt"))
        self.scope = scope

    def scope_of(self, call: ToolCall) -> Scope | None:
        return self.scope


def burning() -> Model:
    return Model(calls("burn"), "done", calls("burn"), "done", calls("burn"), "done")


@pytest.mark.parametrize(
    ("now", "what"),
    [
        (replace(SCOPE, ground="there"), "the folder, the environment or the sandbox"),
        (replace(SCOPE, content="gold"), "the file"),
        (replace(SCOPE, ground="there", content="gold"), "the folder, the environment"),
        (Scope(), "the folder, the environment or the sandbox"),
        (None, "the folder, the environment or the sandbox"),
    ],
    ids=["ground", "content", "both", "nothing is said", "no scope"],
)
@pytest.mark.parametrize("policy", [AlwaysAsk(), NeverAsk()], ids=["asks", "asks no more"])
async def test_a_call_whose_yes_was_given_to_something_else_does_not_run(
    desk: Desk, now: Scope | None, what: str, policy: Any
) -> None:
    session = desk.new(burning(), Scoped(), ASKING)
    assert (await session.turn("go")).outcome is TurnOutcome.APPROVAL
    (question,) = session.questions
    assert question.scope == SCOPE
    desk.crash()
    tools = Scoped(now)
    config = replace(ASKING, approval=policy)
    session = desk.reopen(session.thread_id, Model("done"), tools, config)
    finished = await session.decide({question.call.id: Approved()})
    assert tools.ran == []
    desk.check(session)
    if policy == AlwaysAsk():
        assert finished.outcome is TurnOutcome.APPROVAL
        (again,) = session.questions
        assert what in " ".join(again.reasons)
        assert "has changed since a person allowed this" in " ".join(again.reasons)
        assert (await session.decide({again.call.id: Approved()})).outcome is TurnOutcome.DONE
        assert tools.ran == ["burn"]
        desk.check(session)
        return
    assert finished.outcome is TurnOutcome.DONE
    (told,) = calls_of(session.conversation).values()
    assert f"but {what}" in told
    assert "has changed since; nothing ran" in told


async def test_a_yes_that_still_holds_lets_the_call_run_and_tells_what_held_it(desk: Desk) -> None:
    session = desk.new(burning(), Scoped(), ASKING)
    await session.turn("go")
    (question,) = session.questions
    desk.crash()
    tools = Scoped()
    session = desk.reopen(session.thread_id, Model("done"), tools)
    await session.decide({question.call.id: Approved()})
    assert tools.ran == ["burn"]
    (begun,) = desk.heard.of(outputs.ToolStarted)
    assert begun.confined == "an oven"
    desk.check(session)


async def test_a_changed_call_is_bound_to_what_it_was_changed_to(desk: Desk) -> None:
    tools = Scoped()

    async def approve(_: Question) -> Verdict:
        tools.scope = replace(SCOPE, content="wood")
        return Verdict(Modified("{}"))

    session = desk.new(burning(), tools, ASKING, approve=approve)
    await session.turn("go")
    assert tools.ran == ["burn"]
    desk.check(session)


async def test_what_must_be_asked_about_is_under_a_policy_that_never_asks(desk: Desk) -> None:
    tools = Scoped(replace(SCOPE, must_ask=True))
    session = desk.new(burning(), tools, CONFIG)
    assert (await session.turn("go")).outcome is TurnOutcome.APPROVAL
    assert tools.ran == []
    desk.check(session)


async def test_a_call_that_has_come_to_need_a_yes_when_it_begins_does_not_run(desk: Desk) -> None:
    tools = Scoped()
    calm, is_seen = tools.scope_of, []

    def scope_of(call: ToolCall) -> Scope | None:
        is_seen.append(True)
        return calm(call) if len(is_seen) == 1 else replace(SCOPE, must_ask=True)

    tools.scope_of = scope_of  # type: ignore[method-assign]
    session = desk.new(burning(), tools, CONFIG)
    await session.turn("go")
    assert tools.ran == []
    desk.check(session)


async def test_a_grant_of_a_kind_holds_in_the_next_process_on_its_ground_until_it_is_revoked(
    desk: Desk,
) -> None:
    async def approve(_: Question) -> Verdict:
        return Verdict(Approved(), always=True, kinds=("fire/",))

    session = desk.new(Model(calls("burn"), "done"), Scoped(), ASKING, approve=approve)
    await session.turn("go")
    grant = Grant("burn", RiskLevel.LOW, "fire/", "here")
    assert session.driver.grants == (replace(grant, risk=session.driver.grants[0].risk),)
    await session.close()

    tools = Scoped(replace(SCOPE, kinds=("fire/wood/",), content="other"))
    session = desk.reopen(session.thread_id, burning(), tools, ASKING)
    assert (await session.turn("again")).outcome is TurnOutcome.DONE
    tools.scope = replace(SCOPE, ground="there")
    assert (await session.turn("again")).outcome is TurnOutcome.APPROVAL
    tools.scope = SCOPE
    (question,) = session.questions
    await session.decide({question.call.id: Approved()})

    session.driver.revoke(session.driver.grants[0])
    assert session.driver.grants == ()
    desk.crash()
    session = desk.reopen(session.thread_id, burning(), Scoped())
    assert (await session.turn("again")).outcome is TurnOutcome.APPROVAL
    with pytest.raises(UsageError, match="not allowed for good"):
        session.driver.revoke(grant)
    desk.check(session)


async def test_a_kind_that_the_call_does_not_have_is_not_granted(desk: Desk) -> None:
    session = desk.new(burning(), Scoped(), ASKING)
    await session.turn("go")
    (question,) = session.questions
    for kinds in ({question.call.id: ["water/"]}, {"nobody": ["fire/"]}):
        with pytest.raises(UsageError):
            await session.decide({question.call.id: Approved()}, kinds=kinds)
    assert session.questions == (question,)
    assert session.driver.grants == ()
    assert texts(session.conversation)


async def fork_of_waiting(desk: Desk, tools: Scoped, **rest: Any) -> tuple[Session, Question]:
    """A session on a fork of a thread in which a call waits; folds drop what a yes covered."""
    session = desk.new(burning(), Scoped(), ASKING)
    await session.turn("go")
    await session.close()
    writer = desk.store.fork(session.thread_id, creator="test")
    session = desk.sit(writer, Model("done"), tools, ASKING, **rest)
    (question,) = session.questions
    assert question.scope == Scope()
    return session, question


async def test_a_question_in_a_fork_is_shown_with_what_a_yes_covers_there(desk: Desk) -> None:
    scope = replace(SCOPE, ground="there", reasons=("it burns down the house",))
    asked: list[Question] = []

    async def approve(question: Question) -> Verdict:
        asked.append(question)
        return Verdict(Approved(), always=True, kinds=("fire/",))

    session, _ = await fork_of_waiting(desk, Scoped(scope), approve=approve)
    assert (await session.resume()).outcome is TurnOutcome.DONE
    assert [one.scope for one in asked] == [scope]
    assert [(one.kind, one.ground) for one in session.driver.grants] == [("fire/", "there")]
    desk.check(session)


async def test_a_tool_is_not_granted_in_a_fork_by_a_call_that_is_like_no_other(desk: Desk) -> None:
    tools = Scoped(replace(SCOPE, kinds=()))
    session, question = await fork_of_waiting(desk, tools)
    yes = {question.call.id: Approved()}
    with pytest.raises(UsageError, match="can only be allowed by itself"):
        await session.decide(yes, grant=["burn"])
    tools.scope = SCOPE
    await session.decide(yes, kinds={question.call.id: ["fire/"]})
    assert [one.kind for one in session.driver.grants] == ["fire/"]
    assert tools.ran == ["burn"]
    desk.check(session)


async def test_a_yes_in_a_fork_is_bound_to_what_the_call_is_about_when_it_is_given(
    desk: Desk,
) -> None:
    tools = Scoped()
    session, question = await fork_of_waiting(desk, tools)
    seen = iter([SCOPE])

    def scope_of(call: ToolCall) -> Scope | None:
        return next(seen, replace(SCOPE, content="gold"))

    tools.scope_of = scope_of  # type: ignore[method-assign]
    assert (await session.decide({question.call.id: Approved()})).outcome is TurnOutcome.APPROVAL
    assert tools.ran == []
    (again,) = session.questions
    assert "the file has changed" in " ".join(again.reasons)
