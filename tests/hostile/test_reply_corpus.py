"""What holds for the corpus itself."""

from __future__ import annotations

from tests.hostile.reply_corpus import WIRES, of_wires, streams


def test_the_corpus_has_streams_of_every_wire_and_each_says_what_is_right() -> None:
    assert len(streams()) >= 60
    for wire in WIRES:
        assert len(of_wires(wire)) >= 20
    for stream in streams():
        assert (stream.written.answer is None) != (stream.written.error is None), stream.id
        assert stream.written.wrong.endswith(".") and stream.written.source, stream.id
