"""Text: every graph is read back as itself, and no text does worse than a ParseError."""

from __future__ import annotations

from hypothesis import strategies as st

from fuzz.search import search
from porism.base.errors import ParseError
from porism.ir.text.serialization import parse, to_text
from tests import graphs


def round_trip(data: st.DataObject) -> None:
    root = data.draw(graphs.any_graphs())
    assert parse(to_text(root)) is root


def damaged(data: st.DataObject) -> None:
    """A text with a piece cut out, repeated or replaced."""
    text = to_text(data.draw(graphs.any_graphs()))
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(begin + 40, len(text))))
        piece = data.draw(st.one_of(st.just(""), st.just(text[begin:end] * 2), st.text(max_size=8)))
        text = text[:begin] + piece + text[end:]
    try:
        root = parse(text)
    except ParseError:
        return
    assert parse(to_text(root)) is root


PROPERTIES = {"round trip": round_trip, "damaged": damaged}

if __name__ == "__main__":
    search("text", PROPERTIES, __doc__ or "")
