"""Documents of simple clients: every version as it was sent, and none that is not one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from case_tables import for_every_row
from server.chains import chain, push, row, rows_of, thread_id
from server.people import People
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX, Mark
from treadle.core.llm import Usage
from treadle.server.data import schema
from treadle.server.refusals import Refusal
from treadle.server.threads import threads

ID = thread_id(1)

DOCUMENT: dict[str, Any] = {
    "id": ID,
    "version": 1,
    "created_at": "2026-11-21T09:15:30+01:00",
    "updated_at": "2026-11-21T08:15:30.5Z",
    "last_activity_at": "2026-11-21T08:15:30.500000+00:00",
    "conversation": {
        "messages": [
            {"role": "user", "content": "go\0on"},
            {"role": "assistant", "content": "gladly"},
        ]
    },
    "agent_state": {"kind": "waiting_for_user_input"},
    "workspace_root": "/w",
    "git_branch": "main",
    "git_remote_url": "host/path",
    "git_initial_commit_sha": "c0ffee",
    "git_current_commit_sha": "beef",
    "git_commits": ["c0ffee", "beef"],
    "metadata": {"title": "a\0title", "tags": ["red"]},
    "of_another_program": {"kept": [1, 2.5, None]},
}

USED = [name for name in Usage.__struct_fields__ if name.endswith("_tokens")]


def body_of(**changed: Any) -> bytes:
    found = {**DOCUMENT, **changed}
    return json.dumps({name: value for name, value in found.items() if value != "gone"}).encode()


def put(
    people: People, body: bytes, expected: Mark | int | None = None, name: str = "owner"
) -> tuple[Mark, bytes, bool]:
    with people.writing(name) as context:
        return threads.put_document(context, ID, body, expected)


def get(people: People, version: int | None = None) -> tuple[Mark, bytes]:
    with people.reading() as context:
        return threads.read_document(context, ID, version)


def refused(people: People, body: bytes, expected: Mark | int | None = None) -> Refusal:
    before = [rows_of(people, table) for table in schema.metadata.sorted_tables]
    with pytest.raises(Refusal) as caught:
        put(people, body, expected)
    assert [rows_of(people, table) for table in schema.metadata.sorted_tables] == before
    return caught.value


def test_every_version_is_kept_byte_for_byte(people: People) -> None:
    first, second = body_of(), body_of(version=7, note="\u2028")
    mark, body, is_new = put(people, first)
    assert (mark.seq, body, is_new) == (1, first, True)
    later, body, is_new = put(people, second, 1)
    assert (later.seq, body, is_new) == (7, second, False)
    assert get(people) == (later, second)
    assert get(people, 1) == (mark, first)
    assert get(people, 7) == (later, second)
    with pytest.raises(Refusal) as caught:
        get(people, 2)
    assert caught.value.code is ErrorCode.NOT_FOUND


def test_the_row_says_what_the_document_says(people: People) -> None:
    put(people, body_of())
    found = row(people, schema.threads, id=ID)
    assert (found.kind, found.version, found.message_count) == ("document", 1, 2)
    assert found.title == "a\N{REPLACEMENT CHARACTER}title"
    assert found.created_at == "2026-11-21T08:15:30.000000Z"
    assert found.updated_at == found.last_activity_at == "2026-11-21T08:15:30.500000Z"
    assert json.loads(found.summary)["title"] == "a\0title"
    commits = rows_of(people, schema.thread_commits)
    assert [(one.commit_sha, one.is_initial, one.is_final) for one in commits] == [
        ("beef", False, True),
        ("c0ffee", True, False),
    ]
    put(people, body_of(version=2, git_current_commit_sha="c0ffee"), 1)
    commits = rows_of(people, schema.thread_commits)
    assert [(one.commit_sha, one.is_final) for one in commits] == [
        ("beef", False),
        ("c0ffee", True),
    ]


def test_a_lost_answer_is_given_again(people: People) -> None:
    first = put(people, body_of())
    assert put(people, body_of())[:2] == first[:2]
    second = put(people, body_of(version=2), first[0])
    assert put(people, body_of(version=2), first[0]) == second
    assert len(rows_of(people, schema.changes)) == 2


def test_who_replaces_says_what_he_replaces(people: People) -> None:
    mark, _, _ = put(people, body_of(version=3))
    assert refused(people, body_of(version=4)).code is ErrorCode.PRECONDITION_REQUIRED
    for expected in (2, 4, Mark(3, "0" * 32)):
        refusal = refused(people, body_of(version=4), expected)
        assert refusal.code is ErrorCode.CONFLICT
        assert refusal.problem.server_version == 3
        seq = expected if isinstance(expected, int) else expected.seq
        assert refusal.problem.client_version == seq
    for version in (1, 2, 3):
        same = body_of(version=version, other=1)
        assert refused(people, same, 3).code is ErrorCode.BAD_REQUEST
    put(people, body_of(version=4), mark)


def test_what_is_not_here_cannot_be_replaced(people: People) -> None:
    refusal = refused(people, body_of(), 3)
    assert (refusal.code, refusal.problem.server_version) == (ErrorCode.CONFLICT, 0)


@for_every_row(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xef\xbb\xbf" + body_of(),
        body_of() + body_of(),
        body_of(id=thread_id(2)),
        body_of(id="../../etc/passwd"),
        body_of(version=0),
        body_of(version=-1),
        body_of(version=2**52),
        body_of(version=2**53),
        body_of(version=2**64),
        body_of(version=1.5),
        body_of(version="1"),
        body_of(version=True),
        body_of(conversation="gone"),
        *(
            body_of(conversation={**DOCUMENT["conversation"], "hidden": spans})
            for spans in (
                *([[0, 0]], [[0, 0]] * 20_000, [[1, 0]], [[-1, 1]], [[1, 3]], [[1, 2], [0, 1]]),
                *([[0, 2], [1, 2]], [[5, -9], [2**62, 2**63]]),
            )
        ),
        body_of(conversation={**DOCUMENT["conversation"], "tokens": -1}),
        *(body_of(usage={name: -1}) for name in USED),
        *(body_of(usage={name: 2**53 + 1}) for name in USED),
        body_of(conversation={"messages": [{"role": "oracle", "content": ""}]}),
        body_of(created_at="yesterday"),
        body_of(created_at="2026-11-21T08:15:30"),
        body_of(created_at=7),
        body_of(visibility="unlisted"),
        body_of(git_commits="c0ffee"),
        body_of(more=float("nan")),
        body_of(more=10**30),
        body_of().replace(b"gladly", b"\\ud800"),
        body_of().replace(b"gladly", b"\xff"),
        body_of().replace(b"gladly", b"\0"),
        body_of()[:-1] + b',"version":1}',
        body_of()[:-1] + b',"x":' + b"[" * 70 + b"]" * 70 + b"}",
        body_of()[:-1] + b',"x":' + b"[" * 9000 + b"]" * 9000 + b"}",
        body_of()[:-1] + b',"x":1e999}',
    ],
)
def test_what_is_no_document_is_refused(people: People, body: bytes) -> None:
    assert refused(people, body).code is ErrorCode.BAD_REQUEST


def test_the_greatest_version_of_a_client_can_still_be_made_private(people: People) -> None:
    hidden = {**DOCUMENT["conversation"], "hidden": [[0, 1], [1, 2]]}
    put(people, body_of(version=SEQ_MAX // 2, conversation=hidden, usage={USED[0]: 2**53}))
    with people.writing() as context:
        head = threads.set_visibility(context, ID, None, "private")
    assert head.version == SEQ_MAX // 2 + 1


def test_a_private_document_is_refused(people: People) -> None:
    assert refused(people, body_of(is_private=True)).code is ErrorCode.REFUSED_PRIVATE


def test_documents_and_records_do_not_replace_each_other(people: People) -> None:
    one = chain(1)
    push(people, one)
    assert refused(people, body_of(version=99), one.head.seq).code is ErrorCode.KEPT_AS_RECORDS
    with people.writing() as context:
        threads.purge_thread(context, ID)
    put(people, body_of())
    with pytest.raises(Refusal) as caught:
        push(people, one)
    assert caught.value.code is ErrorCode.CONFLICT


def test_others_hear_what_they_would_hear_of_any_new_thread(people: People) -> None:
    put(people, body_of(visibility="private"))
    for name, code in (("member", ErrorCode.CONFLICT), ("", ErrorCode.UNAUTHORIZED)):
        with pytest.raises(Refusal) as caught:
            put(people, body_of(version=2), 1, name)
        assert caught.value.code is code


def test_visibility_makes_the_next_version(people: People) -> None:
    put(people, body_of())
    with people.writing() as context:
        head = threads.set_visibility(context, ID, 1, "public")
    assert head.version == 2
    mark, body = get(people)
    assert json.loads(body)["visibility"] == "public"
    assert json.loads(body)["of_another_program"] == DOCUMENT["of_another_program"]
    assert Mark(head.version, head.hash) == mark
    assert get(people, 1)[1] == body_of()


def test_a_document_is_put_away_and_brought_back_as_it_is(people: People) -> None:
    put(people, body_of())
    with people.writing() as context:
        assert threads.delete_thread(context, ID, None).is_deleted
        assert threads.delete_thread(context, ID, None).is_deleted
    with pytest.raises(Refusal) as caught:
        get(people)
    assert caught.value.code is ErrorCode.NOT_FOUND
    with people.writing() as context:
        assert not threads.restore_thread(context, ID, 1).is_deleted
    assert get(people)[1] == body_of()
