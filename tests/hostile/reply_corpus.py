"""Replies that real services have sent, or could: each a file that says what is wrong with it and what is right.

    corpus/<wire>/<what-is-wrong>.toml

    wrong = "one sentence"
    source = "where it comes from"
    body = '''the bytes, as text'''      # ␍ and ␊ stand for CR and LF
    ends = "\\r\\n"                       # in place of every line feed
    mark = true                          # a byte order mark goes before
    drop = 1                             # so many bytes are missing at the end
    flip = 40                            # the byte at this place is damaged
    kind = "text/html"                   # the media type, if it is not the wire's
    tools = "hermes"                     # calls are read from text of this format

    [answer]                             # the words, the calls, the stop reason, a word of a notice
    [error]                              # its class, a word of it, and what was given out before it

For Bedrock a line of the body is the JSON of one event, which is framed as Amazon does it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from handrail.core.messages import StopReason
from tests.models.bedrock.botocore_checks import event_bytes

HERE = Path(__file__).parent / "reply_corpus"
WireName = Literal["openai_chat", "openai_responses", "anthropic", "gemini", "ollama", "bedrock"]
WIRES: tuple[WireName, ...] = get_args(WireName)
_KINDS = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}
MARK = b"\xef\xbb\xbf"


class ExpectedCall(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | str
    """As a value, or as exactly this text."""
    id: str | None = None


class ExpectedAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    stop: StopReason
    text: str = ""
    calls: tuple[ExpectedCall, ...] = ()
    notice: str = ""


class ExpectedFailure(Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    says: str
    text: str = ""
    calls: tuple[ExpectedCall, ...] = ()


class CorpusFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the corpus."""

    wrong: str
    source: str
    body: str
    ends: str = "\n"
    mark: bool = False
    drop: int = 0
    flip: int | None = None
    kind: str = ""
    tools: str = ""
    answer: ExpectedAnswer | None = None
    error: ExpectedFailure | None = None


class CorpusStream(Struct, frozen=True):
    wire: WireName
    name: str
    written: CorpusFile
    data: bytes
    """The body of the reply, byte for byte."""

    @property
    def id(self) -> str:
        return f"{self.wire}/{self.name}"

    @property
    def kind(self) -> str:
        return self.written.kind or kind_of(self.wire)


def kind_of(wire: WireName) -> str:
    """The media type of its streams."""
    return _KINDS.get(wire, "text/event-stream")


@cache
def streams() -> tuple[CorpusStream, ...]:
    return tuple(_load(wire, path) for wire in WIRES for path in sorted((HERE / wire).glob("*.toml")))


def of_wires(*wires: WireName) -> list[CorpusStream]:
    return [stream for stream in streams() if stream.wire in wires]


def _load(wire: WireName, path: Path) -> CorpusStream:
    written = msgspec.toml.decode(path.read_bytes(), type=CorpusFile)
    return CorpusStream(wire, path.stem, written, _damaged(written, _framed(wire, written)))


def _framed(wire: WireName, written: CorpusFile) -> bytes:
    if wire == "bedrock" and not written.kind:
        return b"".join(event_bytes(msgspec.json.decode(line)) for line in written.body.splitlines())
    text = written.body.replace("\n", written.ends).replace("␍", "\r").replace("␊", "\n")
    return (MARK if written.mark else b"") + text.encode()


def _damaged(written: CorpusFile, data: bytes) -> bytes:
    if written.flip is not None:
        data = data[: written.flip] + bytes([data[written.flip] ^ 1]) + data[written.flip + 1 :]
    return data[: len(data) - written.drop]
