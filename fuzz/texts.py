"""Replies as text in every prompted format; JSON, grammars of calls; and frames between processes.

The laws of a format: text, thoughts and calls, or a `ProtocolError`; how the text was
cut tells in nothing; and what the token limit cut off gives no call of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from fuzz.law import Target, outcome
from fuzz.mutate import cuts, data, pieces_of, texts, values
from handrail.core.errors import InvalidSchema, UsageError
from handrail.core.framing import FrameError, FrameSplitter, length_prefixed
from handrail.core.jsontext import JSONTextError, parse, parse_object
from handrail.core.model_request import ToolOffer
from handrail.execute.repair import repair_arguments
from handrail.models.grammar.call_grammar import tool_call_grammar
from handrail.models.local.forced_grammar import CLOSING, MIDDLE, OPENING, ForcedCall
from handrail.models.local.wire import (
    EngineAsk,
    EngineCancel,
    EngineChunk,
    EngineFailed,
    EngineReady,
    read_frame_from_child,
    read_frame_to_child,
)
from handrail.models.prompted.call_shapes import CLOSES
from handrail.models.prompted.format_marks import marks_of_format
from handrail.models.prompted.formats import FORMATS
from handrail.tools.schema.validator import Validator
from tests.hostile.prompted_corpus import replies
from tests.hostile.prompted_outcomes import PromptedOutcome, read_prompted

REPLIES = [reply.written.reply for reply in replies()]
WORDS = (*CLOSES, "<think>", "</think>", "<parameter=q>", "</parameter>", "<arg_key>q</arg_key><arg_value>", "search")
DOCUMENTS = ('{"a": [1, 2.5, -3e4, null, true, "x\\n\\u00e9"]}', '{"q": "tea"}', "[[[]]]", '{"a": {"b": {"c": ""}}}')
SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {"q": {"type": "string", "minLength": 1, "pattern": "^[a-z]+(x|y)*$"}, "n": {"type": "integer"}},
        "required": ["q"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {
            "to": {"$ref": "#/$defs/who"},
            "how": {"enum": ["a", 1, None]},
            "each": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"const": "x"}]}, "maxItems": 3},
        },
        "$defs": {"who": {"type": ["string", "null"], "maxLength": 9}},
    },
]


def _format(format: str) -> Target:
    inputs = st.tuples(texts(REPLIES, (*marks_of_format(format).shapes, *WORDS)), cuts())

    def law(value: tuple[str, list[int]]) -> None:
        text, places = value
        whole = read_prompted(format, [text])
        assert read_prompted(format, pieces_of(text, places)) == whole, "how a text is cut tells in what comes of it"
        _check_calls(whole)
        limited = read_prompted(format, [text[: max(places, default=0)]], cut=True)
        assert limited.calls == whole.calls[: len(limited.calls)], "what the token limit cut gives a call of its own"

    return Target(f"text-{format}", inputs, law)


def _check_calls(found: PromptedOutcome) -> None:
    for name, arguments in found.calls:
        assert isinstance(name, str) and name.strip(), "a call has a name"
        assert isinstance(arguments, str)


def _json(text: str) -> None:
    found = outcome(lambda: parse(text), JSONTextError)
    outcome(lambda: parse_object(text), JSONTextError)
    raw = outcome(lambda: parse(text.encode(errors="surrogatepass")), JSONTextError)
    if not isinstance(found, tuple):
        assert found == raw, "text and bytes are one value"
        assert json.loads(text) == found, "Python's own reader sees another value"


def _repair(text: str) -> None:
    found = repair_arguments(text)
    if found is not None:
        assert isinstance(found[0], dict)
        assert parse_object(json.dumps(found[0])) == found[0], "what was repaired is JSON"


def _grammar(schema: Any) -> None:
    """Only schemas that can be used at all are ever offered."""
    if isinstance(outcome(lambda: Validator(schema, "it"), InvalidSchema), Validator):
        offer = ToolOffer("search", "", schema)
        outcome(lambda: str(tool_call_grammar([offer], "hermes")), UsageError)


def _frames(value: tuple[bytes, list[int]]) -> None:
    stream, places = value

    def bodies(chunks: list[bytes]) -> list[bytes]:
        found = FrameSplitter(limit=4096)
        return [body for chunk in chunks for body in found.feed(chunk)]

    whole = outcome(lambda: bodies([stream]), FrameError)
    assert outcome(lambda: bodies(pieces_of(stream, places)), FrameError) == whole
    for body in whole if isinstance(whole, list) else ():
        _message(body)


def _message(body: bytes) -> None:
    for read in (read_frame_to_child, read_frame_from_child):
        _read(read, body)


def _read(read: Callable[[bytes], Any], body: bytes) -> None:
    outcome(lambda: read(body), FrameError)


def _forced(value: tuple[str, list[int]]) -> None:
    text, places = value

    def told(pieces: list[str]) -> tuple[str, str]:
        call, name, arguments = ForcedCall(), "", ""
        chunks = [{"id": "1", "choices": [{"delta": {"content": piece}}]} for piece in pieces]
        for chunk in [*chunks, {"id": "1", "choices": [{"delta": {}, "finish_reason": "stop"}]}]:
            for out in call.feed(chunk):
                for delta in out["choices"][0]["delta"].get("tool_calls", ()):
                    name += delta["function"].get("name", "")
                    arguments += delta["function"]["arguments"]
        return name, arguments

    assert told(pieces_of(text, places)) == told([text])


_MESSAGES = b"".join(
    map(
        length_prefixed,
        (
            EngineAsk(1, {"messages": []}),
            EngineCancel(1),
            EngineReady(),
            EngineChunk(1, {"choices": []}),
            EngineFailed(1, "busy", "why"),
        ),
    )
)
TARGETS = (
    *map(_format, sorted(FORMATS)),
    Target("json", texts(DOCUMENTS), _json),
    Target("repair", texts([*DOCUMENTS, "```json\n{'a': “x”,}\n```"]), _repair),
    Target("grammar", values(SCHEMAS), _grammar),
    Target("process-frames", st.tuples(data([_MESSAGES, _MESSAGES[4:]]), cuts()), _frames),
    Target("process-messages", data([bytes(body) for body in FrameSplitter().feed(_MESSAGES)]), _message),
    Target("forced-call", st.tuples(texts([f'{OPENING}search{MIDDLE}{{"q": "tea"}}{CLOSING}']), cuts()), _forced),
)
