"""What a store says to PostgreSQL.

Who holds a thread is one row of `journals`: its epoch goes up whenever somebody else is given the
thread, and every append names the epoch that it was given. An append is one statement: where the
epoch or the size is another one by now it inserts nothing, and no crash comes between its parts.
"""

from __future__ import annotations

from typing import Final

from treadle.server.threads.journal_holds import NOW_MS

REGISTER_WRITER: Final = f"""
    INSERT INTO writers (name, lease_until) VALUES (%(name)s, {NOW_MS} + %(lease_ms)s)
    RETURNING id
"""  # noqa: S608  ours
RENEW_LEASE: Final = f"""
    INSERT INTO writers (id, name, lease_until) OVERRIDING SYSTEM VALUE
    VALUES (%(id)s, %(name)s, {NOW_MS} + %(lease_ms)s)
    ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
"""  # noqa: S608
REMOVE_DEAD_WRITERS: Final = f"""
    DELETE FROM writers WHERE lease_until < {NOW_MS} - 86400000
"""  # noqa: S608
REMOVE_COPIED_BLOBS: Final = f"""
    DELETE FROM journal_blobs AS kept WHERE kept_at < {NOW_MS} - 86400000
        AND EXISTS (
            SELECT FROM blobs JOIN threads ON key = thread_id
            WHERE owner_id = kept.owner_id AND sha256 = kept.sha256
        )
        AND NOT EXISTS (
            SELECT FROM journals WHERE owner_id = kept.owner_id AND ahead_at IS NOT NULL
        )
"""  # noqa: S608
"""Those that stand beside a thread by now; none as long as a record may name it that is not taken
in."""
REMOVE_WRITER: Final = "DELETE FROM writers WHERE id = %(id)s"

INSERT_JOURNAL: Final = """
    INSERT INTO journals (owner_id, id, thread_key, key, epoch, writer_id, seq, size)
    SELECT %(owner)s, %(id)s, CASE WHEN %(is_records)s THEN coalesce(
            (SELECT key FROM threads WHERE owner_id = %(owner)s AND id = %(id)s),
            (SELECT %(id)s || '@' || %(user)s FROM threads WHERE key = %(id)s),
            %(id)s
        ) END, %(key)s::bytea, 1, %(writer)s::bigint, %(seq)s, %(size)s
    WHERE NOT %(is_records)s OR NOT EXISTS (
        SELECT FROM threads WHERE owner_id = %(owner)s AND id = %(id)s AND purged_at IS NULL
    )
    ON CONFLICT DO NOTHING
    RETURNING thread_key, EXISTS (
        SELECT FROM threads WHERE owner_id = %(owner)s AND id = %(id)s
    ) AS was_purged
"""
"""Nothing where another journal has the id or the key. `thread_key` names its thread: by its id,
unless somebody else's is named so; as before if it was purged."""
ADOPT_THREAD: Final = """
    WITH adopted AS (
        UPDATE threads SET has_journal = true
        WHERE owner_id = %(owner)s AND id = %(id)s AND kind = 'records' AND purged_at IS NULL
            AND NOT has_journal
        RETURNING key, version
    )
    INSERT INTO journals (owner_id, id, thread_key, epoch, seq, size)
    SELECT %(owner)s, %(id)s, key, 0, version, 0 FROM adopted ON CONFLICT DO NOTHING
"""
"""What a machine of the owner has pushed becomes a journal when a worker first asks for it."""

LOCK_JOURNAL: Final = """
    SELECT 1 FROM journals WHERE owner_id = %(owner)s AND id = %(id)s FOR UPDATE
"""
"""Said before `TAKE_JOURNAL`, so that this one sees what those who were waited for have done."""
TAKE_JOURNAL: Final = f"""
    WITH its AS (
        SELECT thread_key FROM journals WHERE owner_id = %(owner)s AND id = %(id)s
    ), last AS (
        SELECT seq, hash, at FROM records
        WHERE thread_id = (SELECT thread_key FROM its) ORDER BY seq DESC LIMIT 1
    ), measured AS (
        SELECT CASE WHEN thread_key IS NULL THEN (
            SELECT coalesce(sum(length(body)), 0) FROM journal_pieces
            WHERE owner_id = %(owner)s AND id = %(id)s
        ) ELSE (
            SELECT coalesce(sum(octet_length(line) + 1), 0) FROM records
            WHERE thread_id = thread_key
        ) END AS size FROM its
    )
    UPDATE journals SET epoch = epoch + 1, writer_id = %(writer)s, problem = '',
        seq = coalesce(last.seq, journals.seq), size = measured.size,
        ahead_at = CASE WHEN last.seq > (SELECT version FROM threads WHERE key = thread_key)
            THEN coalesce(ahead_at, {NOW_MS}) END
    FROM measured LEFT JOIN last ON true
    WHERE owner_id = %(owner)s AND id = %(id)s AND (
        writer_id IS NULL
        OR writer_id = %(writer)s
        OR NOT EXISTS (
            SELECT FROM writers
            WHERE writers.id = journals.writer_id AND lease_until > {NOW_MS}
        )
    )
    RETURNING epoch, thread_key IS NOT NULL AS is_records, journals.size, last.seq, last.hash,
        last.at
"""  # noqa: S608
NAME_HOLDER: Final = """
    SELECT name FROM writers WHERE id = (
        SELECT writer_id FROM journals WHERE owner_id = %(owner)s AND id = %(id)s
    )
"""
FREE_JOURNAL: Final = """
    UPDATE journals SET epoch = epoch + 1, writer_id = NULL
    WHERE owner_id = %(owner)s AND id = %(id)s AND epoch = %(epoch)s
"""

APPEND_RECORDS: Final = f"""
    WITH held AS (
        UPDATE journals SET seq = %(last)s, size = size + %(grown)s,
            ahead_at = coalesce(ahead_at, {NOW_MS})
        WHERE owner_id = %(owner)s AND id = %(id)s AND epoch = %(epoch)s AND size = %(size)s
        RETURNING thread_key
    )
    INSERT INTO records (thread_id, seq, hash, at, line)
    SELECT held.thread_key, added.* FROM held, unnest(
        %(seqs)s::bigint[], %(hashes)s::text[], %(times)s::text[], %(lines)s::text[]
    ) AS added
"""  # noqa: S608
APPEND_PIECE: Final = """
    WITH held AS (
        UPDATE journals SET size = size + %(grown)s
        WHERE owner_id = %(owner)s AND id = %(id)s AND epoch = %(epoch)s AND size = %(size)s
        RETURNING owner_id
    )
    INSERT INTO journal_pieces (owner_id, id, start, body)
    SELECT owner_id, %(id)s, %(size)s, %(body)s FROM held
"""
FIND_OWN_BEGINNING: Final = """
    SELECT 1 FROM journals WHERE owner_id = %(owner)s AND id = %(id)s
        AND (%(writer)s::bigint IS NULL OR (writer_id = %(writer)s::bigint AND epoch = 1))
"""
"""What this process has begun, though it has not heard so; somebody may have taken by now what was
not to be held."""
INSERT_PIECE: Final = """
    INSERT INTO journal_pieces (owner_id, id, start, body)
    VALUES (%(owner)s, %(id)s, 0, %(body)s)
"""
CUT_PIECES: Final = """
    WITH held AS (
        UPDATE journals SET size = %(cut)s
        WHERE owner_id = %(owner)s AND id = %(id)s AND epoch = %(epoch)s
        RETURNING owner_id
    ), gone AS (
        DELETE FROM journal_pieces USING held
        WHERE journal_pieces.owner_id = held.owner_id AND id = %(id)s AND start >= %(cut)s
    ), shorter AS (
        UPDATE journal_pieces SET body = substring(body FOR (%(cut)s - start)::int) FROM held
        WHERE journal_pieces.owner_id = held.owner_id AND id = %(id)s
            AND start < %(cut)s AND start + length(body) > %(cut)s
    )
    SELECT owner_id FROM held
"""

HAS_RECORD: Final = """
    SELECT 1 FROM records JOIN journals ON thread_key = thread_id
    WHERE owner_id = %(owner)s AND id = %(id)s AND records.seq = %(last)s
        AND records.hash = %(hash)s
"""
HAS_PIECE: Final = """
    SELECT 1 FROM journal_pieces JOIN journals USING (owner_id, id)
    WHERE owner_id = %(owner)s AND id = %(id)s AND start = %(size)s AND body = %(body)s
        AND epoch = %(epoch)s
"""

FIND_THREAD: Final = """
    SELECT 1 FROM threads
    WHERE owner_id = %(owner)s AND id = %(id)s AND kind = 'records' AND purged_at IS NULL
    UNION ALL
    SELECT 1 FROM journals
    WHERE owner_id = %(owner)s AND id = %(id)s AND thread_key IS NULL
"""
LIST_IDS: Final = """
    SELECT id FROM threads
    WHERE owner_id = %(owner)s AND kind = 'records' AND deleted_at IS NULL AND purged_at IS NULL
    UNION ALL
    SELECT id FROM journals WHERE owner_id = %(owner)s AND thread_key IS NULL
"""
FIND_KEY: Final = "SELECT id FROM journals WHERE owner_id = %(owner)s AND key = %(key)s"
READ_FROM_START: Final = """
    SELECT seq, records.hash, line, threads.key FROM threads
    JOIN records ON thread_id = threads.key
    WHERE owner_id = %(owner)s AND id = %(id)s AND kind = 'records' AND purged_at IS NULL
    ORDER BY seq LIMIT %(count)s
"""
READ_RECORDS: Final = """
    SELECT seq, hash, line FROM records
    WHERE thread_id = %(thread_key)s AND seq >= %(first)s ORDER BY seq LIMIT %(count)s
"""
READ_NEW_RECORDS: Final = """
    SELECT added.seq, added.hash, added.line FROM threads
    JOIN records AS known ON known.thread_id = threads.key
        AND known.seq = %(seq)s AND known.hash = %(hash)s
    LEFT JOIN records AS added ON added.thread_id = threads.key AND added.seq > %(seq)s
    WHERE owner_id = %(owner)s AND threads.id = %(id)s AND kind = 'records' AND purged_at IS NULL
    ORDER BY added.seq LIMIT %(count)s
"""
"""For who has read up to a record; no row at all where that one is not there any more."""
READ_PIECE: Final = """
    SELECT start, body FROM journal_pieces
    WHERE owner_id = %(owner)s AND id = %(id)s AND start + length(body) > %(start)s
    ORDER BY start LIMIT 1
"""

KEEP_BLOB: Final = f"""
    INSERT INTO journal_blobs (owner_id, sha256, kept_at, body)
    VALUES (%(owner)s, %(name)s, {NOW_MS}, %(body)s)
    ON CONFLICT (owner_id, sha256) DO UPDATE SET kept_at = excluded.kept_at
"""  # noqa: S608
LOAD_BLOB: Final = """
    SELECT body FROM journal_blobs WHERE owner_id = %(owner)s AND sha256 = %(name)s
    UNION ALL
    SELECT body FROM blobs JOIN threads ON key = thread_id
    WHERE owner_id = %(owner)s AND sha256 = %(name)s
    LIMIT 1
"""
