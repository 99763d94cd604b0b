"""Search over all threads of a server: the same answers on SQLite and on PostgreSQL.

What a word is, which texts fit and which come first is decided here, in Python, once; a database
only keeps lists of words and says which rows hold some of them.
"""

from __future__ import annotations

from treadle.server.search.pending_texts import (
    add_pending_records,
    find_newest_pending,
    has_pending_through,
    index_oldest_pending,
)
from treadle.server.search.ranking import search_threads
from treadle.server.search.text_index import (
    erase_texts,
    index_document,
    index_records,
    rewrite_words,
)

__all__ = [
    "add_pending_records",
    "erase_texts",
    "find_newest_pending",
    "has_pending_through",
    "index_document",
    "index_oldest_pending",
    "index_records",
    "rewrite_words",
    "search_threads",
]
