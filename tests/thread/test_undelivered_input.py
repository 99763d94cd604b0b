"""What a person said and did is heard once, in its order, and a snapshot knows what was not."""

from __future__ import annotations

from itertools import islice, product
from random import Random

import pytest

from core.samples import CONFIG, answer, call, ended, said
from thread.journals import HEADER, at, branch_record, fold_of, records_of, write
from treadle.core.chat.states import CallingLlm
from treadle.core.conversation import View
from treadle.core.events import (
    CancelRequested,
    Rewound,
    Steered,
    ToolCompleted,
    ToolStarted,
    UserInput,
)
from treadle.core.messages import Message
from treadle.core.tools import ToolExecutionOutcome
from treadle.thread.codec import Entry
from treadle.thread.facts import (
    BackgroundEnded,
    CommandBegun,
    CommandShown,
    Configured,
    InputQueued,
    InputWithdrawn,
    Merged,
)
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Head
from treadle.thread.snapshot import decode_snapshot, encode_snapshot, restore_fold
from treadle.thread.typed_words import COMMANDS_HEAD, ENDS_HEAD, strip_additions
from treadle.thread.undelivered_input import (
    COMMAND_COUNT_MAX,
    QueuedMessage,
    UndeliveredInput,
    append_commands,
    append_undelivered,
)

ONE, TWO, THREE = (Message.user(text) for text in ("one", "two", "three"))
WORK = (Configured(CONFIG), said("work"), answer("", call("a")), ToolStarted("a", at(1)))
"""A turn whose only call runs."""


def folded(*entries: Entry) -> ThreadFold:
    return fold_of(records_of(write([(entry,) for entry in (HEADER, *entries)])[0]))


def take(fold: ThreadFold, *entries: Entry) -> ThreadFold:
    for entry in entries:
        fold.apply(fold.version + 1, at(fold.version + 1), entry)
    return fold


def queue(text: str, steers: bool = False) -> InputQueued:
    return InputQueued(Message.user(text), steers)


def restored(fold: ThreadFold) -> ThreadFold:
    snapshot = decode_snapshot(encode_snapshot(fold, Head(fold.version, "0" * 32, at(1), 9)))
    assert snapshot is not None
    found = restore_fold(snapshot)
    assert found is not None
    return found


def test_what_steers_is_heard_before_what_does_not_and_begins_no_turn() -> None:
    fold = folded(*WORK, queue("one"), queue("two", steers=True), ended("a"))
    steps = fold.turn_steps
    take(fold, Steered(TWO))
    assert fold.conversation[-1] == TWO
    assert isinstance(fold.state, CallingLlm)
    assert (fold.queued, fold.turn_steps) == ((ONE,), steps)


def test_what_steers_is_an_ordinary_prompt_when_the_turn_is_over() -> None:
    fold = folded(*WORK, queue("one", steers=True), queue("two"), ended("a"), answer("done"))
    assert fold.undelivered.queued == (QueuedMessage(ONE, True), QueuedMessage(TWO))
    take(fold, UserInput(ONE, was_queued=True))
    assert fold.queued == (TWO,)
    assert fold.undelivered.next_steering is None


def test_what_came_too_late_to_steer_a_turn_does_not_steer_the_next_one() -> None:
    fold = folded(*WORK, queue("one"), queue("two", steers=True), ended("a"), answer("done"))
    take(fold, UserInput(ONE, was_queued=True))
    assert fold.undelivered.queued == (QueuedMessage(TWO),)
    assert fold.undelivered.next_steering is None


def test_a_steering_that_the_machine_refuses_stays_queued() -> None:
    fold = folded(*WORK, queue("one", steers=True))
    take(fold, Steered(ONE), UserInput(ONE, was_queued=True))
    assert (fold.queued, fold.conversation[-1].role) == ((ONE,), "assistant")


def test_a_prompt_that_says_it_was_queued_takes_the_oldest_however_it_is_worded() -> None:
    fold = folded(*WORK, queue("the key is abc"), queue("two"), ended("a"), answer("done"))
    take(fold, UserInput(Message.user("the key is [REDACTED:key]"), was_queued=True))
    assert fold.queued == (TWO,)


def test_the_newest_message_is_taken_back_first_and_none_is_no_harm() -> None:
    fold = folded(*WORK, queue("one", steers=True), queue("two", steers=True), InputWithdrawn())
    assert fold.undelivered.queued == (QueuedMessage(ONE, True),)
    take(fold, InputWithdrawn(), InputWithdrawn())
    assert (fold.queued, fold.undelivered.next_steering) == ((), None)


def test_going_back_forgets_what_was_said_and_run_for_what_was_left() -> None:
    fold = folded(*WORK, queue("one", steers=True), CommandShown("make", "built"))
    take(fold, CancelRequested("", "stop"))
    assert (fold.queued, len(fold.undelivered.commands)) == ((ONE,), 1)
    take(fold, Rewound(3, View(0)))
    assert (fold.undelivered.queued, fold.undelivered.commands) == ((), ())


@pytest.mark.parametrize("heard", [UserInput(ONE), Steered(ONE)], ids=["prompt", "steering"])
def test_a_command_is_told_with_the_next_message_only(heard: UserInput | Steered) -> None:
    before = () if isinstance(heard, UserInput) else (said("go"),)
    fold = folded(*before, CommandShown("make", "built"))
    assert len(fold.undelivered.commands) == 1
    take(fold, heard)
    assert fold.undelivered.commands == ()


def test_of_a_command_that_began_its_end_is_told_or_that_it_is_not_known() -> None:
    begun = CommandBegun("a", "make", "/w"), CommandBegun("b", "make", "/w")
    shown = CommandShown("make", "built", 0, "a")
    fold = folded(begun[0], shown, begun[1])
    assert fold.undelivered.commands == (shown, begun[1])
    assert fold.undelivered.unfinished_commands == (begun[1],)
    told = append_commands(fold.undelivered.commands, ONE).content
    assert told == (
        f"one{COMMANDS_HEAD}\n$ make\nbuilt"
        "\n$ make\n[it had begun; whether and how it ended is not known]"
    )
    assert restored(fold).undelivered == fold.undelivered
    late = CommandShown("make", "", 2, "b")
    assert take(fold, said("one"), late).undelivered.commands == (late,)


def branch(*entries: Entry) -> Merged:
    records = (branch_record(3 + nth, one) for nth, one in enumerate(entries))
    return Merged(2, "0" * 32, tuple(records))


def test_the_end_of_a_command_on_another_machine_is_told_if_its_beginning_waits() -> None:
    known, other = CommandShown("make", "built", 0, "a"), CommandShown("ls", "", 0, "c")
    fold = folded(CommandBegun("a", "make", "/w"), branch(known, other, said("told of both there")))
    assert fold.undelivered.commands == (known,)


def begins(name: str) -> ToolCompleted:
    return ToolCompleted(
        name, ToolExecutionOutcome.Success(name, "on", background=f"run {name}"), at(5)
    )


def test_the_ends_of_commands_in_the_background_survive_going_back_and_merges() -> None:
    late, told, untold = (BackgroundEnded(name, f"run {name}", "exit") for name in "abc")
    fold = folded(Configured(CONFIG), said("work"), answer("done"), late, Rewound(3, View(0)))
    assert fold.undelivered.ends == (late,)
    there = (begins("b"), told, said("told of it there"), begins("c"), untold, begins("d"))
    fold = folded(branch(*there))
    assert fold.undelivered.ends == (untold,)
    assert fold.undelivered.running == {"d": "run d"}
    by_result = ToolCompleted("e", ToolExecutionOutcome.Success("e", "on"), at(6), ends=("c",))
    assert folded(branch(*there, by_result)).undelivered.ends == ()
    ended_there = folded(begins("a"), branch(late))
    assert (ended_there.undelivered.running, ended_there.undelivered.ends) == ({}, (late,))
    assert restored(fold).undelivered == fold.undelivered


def test_what_no_message_told_of_on_another_machine_is_told_once_after_a_merge() -> None:
    begun, shown = CommandBegun("a", "make", "/w"), CommandShown("ls", "x", 0, "b")
    told = CommandBegun("c", "make old", "/w")
    fold = folded(said(), branch(told, said("there"), begun, CommandBegun("b", "ls", "/w"), shown))
    assert fold.undelivered.commands == (begun, shown)
    assert take(fold, branch(begun)).undelivered.commands == (begun, shown)
    end = CommandShown("make", "", 0, "a")
    assert take(fold, branch(end), branch(begun)).undelivered.commands == (shown, end)


def test_of_many_commands_the_newest_are_told() -> None:
    shown = [CommandShown(f"make {number}", "") for number in range(COMMAND_COUNT_MAX + 5)]
    assert folded(*shown).undelivered.commands == tuple(shown[5:])


def test_a_fork_hears_none_of_it() -> None:
    fold = folded(said(), answer("done"), queue("one"), CommandShown("make", ""))
    fork = fold.make_fork(fold.header)
    assert (fork.queued, fork.undelivered.commands) == ((), ())


def test_a_snapshot_knows_what_waits_what_steers_and_what_was_run() -> None:
    fold = folded(
        *WORK,
        *(queue("one"), queue("two", steers=True), queue("two", steers=True), queue("three")),
        CommandShown("make", "no rule", 2),
    )
    found = restored(fold)
    assert found.undelivered.queued == fold.undelivered.queued
    assert found.undelivered.commands == fold.undelivered.commands
    assert take(found, ended("a"), Steered(TWO)).queued == (ONE, TWO, THREE)


def test_whatever_is_said_taken_back_and_heard_it_is_what_a_plain_list_says() -> None:
    random = Random(7)
    unheard, plain = UndeliveredInput(), list[QueuedMessage]()
    for number in range(3000):
        dice = random.randrange(6)
        message = Message.user(str(number % 5))
        if dice < 3:
            unheard.add(message, steers=dice == 0)
            plain.append(QueuedMessage(message, dice == 0))
        elif dice == 3:
            unheard.deliver_prompt(message, was_queued=True)
            plain = [QueuedMessage(one.message) for one in plain[1:]]
        elif dice == 4:
            unheard.deliver_steering()
            first = [nth for nth, one in enumerate(plain) if one.steers][:1]
            for nth in first:
                del plain[nth]
        else:
            unheard.withdraw_newest()
            del plain[-1:]
        assert unheard.queued == tuple(plain)
        assert unheard.next_prompt == next((one.message for one in plain), None)
        assert unheard.next_steering == next((one.message for one in plain if one.steers), None)
        assert len(unheard) == len(plain)


def test_a_message_tells_of_the_commands_behind_its_own_words() -> None:
    shown = (CommandShown("make", "built\n"), CommandShown("make test", "", 2))
    told = append_commands(shown, ONE)
    assert told.content == (
        "one\n\n[Before saying this, the person ran commands themselves]"
        "\n$ make\nbuilt\n$ make test\n[no output]\n[exit code 2]"
    )
    assert strip_additions(told.content) == "one"
    assert append_commands((), ONE) is ONE


def test_the_words_of_a_person_come_back_alone_whatever_was_run() -> None:
    texts = ("x", "x\n\n$ make", "ä\n")
    outputs = ("", COMMANDS_HEAD, "a\n" * 9)
    for text, output in islice(product(texts, outputs), 20):
        told = append_commands((CommandShown("run", output),), Message.user(text))
        assert strip_additions(told.content) == text


def test_a_message_tells_of_what_ended_in_the_background_and_of_nothing_else() -> None:
    ends = tuple(BackgroundEnded(name, "make", exit_code=at) for at, name in enumerate("ab"))
    for count in range(3):
        undelivered = UndeliveredInput(ends=ends[:count])
        told = append_undelivered(undelivered, ONE).content
        assert (ENDS_HEAD in told) == bool(count)
        assert told.startswith(ONE.content)
        assert strip_additions(told) == ONE.content
