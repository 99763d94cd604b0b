"""Good streams, damaged at random."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from models.hostile.formats import RECORDED, Format

_NASTY: Final = (
    *(b"\0", b"\xff", b"\n", b"\r", b"\n\n", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\"),
    *(b"null", b"NaN", b"-1", b"1e999", b"[DONE]", b"\\ud800", b"\xe2\x80\xa8", b"\xef\xbb\xbf"),
    *(b"event: error\n", b"data: [DONE]\n\n", b"data: {}\n\n", b": x\n", b'"index": 1', b"true"),
)


def _places() -> st.SearchStrategy[float]:
    return st.floats(0, 1, exclude_max=True)


def changes() -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Some changes: what is done, where (parts of the whole), and with what."""
    one = st.one_of(
        st.tuples(st.sampled_from(["drop", "double", "swap"]), _places(), _places()),
        st.tuples(st.just("lose"), _places(), st.integers(1, 40)),
        st.tuples(st.just("repeat"), _places(), st.integers(1, 40)),
        st.tuples(st.just("flip"), _places(), st.integers(1, 255)),
        st.tuples(st.just("insert"), _places(), st.sampled_from(_NASTY)),
        st.tuples(st.just("splice"), _places(), _places(), st.integers(0, 99)),
    )
    return st.lists(one, min_size=1, max_size=6)


def damaged(wire: Format, data: bytes, done: list[tuple[Any, ...]]) -> bytes:
    """The stream after all changes."""
    for change in done:
        data = _changed(wire, data, change) if data else data
    return data


def _changed(wire: Format, data: bytes, change: tuple[Any, ...]) -> bytes:
    what, where, how, *rest = change
    at = int(where * len(data))
    if what in {"drop", "double", "swap"}:
        events = data.split(b"\n\n")
        one, other = int(where * len(events)), int(how * len(events))
        if what == "drop":
            del events[one]
        elif what == "double":
            events.insert(other, events[one])
        else:
            events[one], events[other] = events[other], events[one]
        return b"\n\n".join(events)
    if what == "lose":
        return data[:at] + data[at + how :]
    if what == "repeat":
        return data[:at] + data[at : at + how] + data[at:]
    if what == "flip":
        return data[:at] + bytes([data[at] ^ how]) + data[at + 1 :]
    if what == "insert":
        return data[:at] + how + data[at:]
    others = [other for (name, _), other in RECORDED.items() if name == wire.name]
    other = others[rest[0] % len(others)]
    return data[:at] + other[int(how * len(other)) :]
