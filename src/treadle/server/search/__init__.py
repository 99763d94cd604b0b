"""Search over all threads of a server: the same answers on SQLite and on PostgreSQL.

What a word is, which texts fit and which come first is decided here, in Python, once; a database
only keeps lists of words and says which rows hold some of them.
"""

from __future__ import annotations

from treadle.server.search.pending_texts import index_later, index_some, is_pending, newest_pending
from treadle.server.search.ranking import find
from treadle.server.search.text_index import forget, index, index_document

__all__ = [
    "find",
    "forget",
    "index",
    "index_document",
    "index_later",
    "index_some",
    "is_pending",
    "newest_pending",
]
