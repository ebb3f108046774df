"""What travels between nodes: server-sent events, messages over NATS and their parts, frames of `llm.chat`.

The laws: how bytes were cut tells in nothing; parts that were lost, doubled or changed give no payload; what is kept of
the rest has a bound; and what a model is said to have said is whole, or an error of the model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st

from fuzz.law import Target, outcome
from fuzz.mutate import WRONG, cuts, data, pieces_of, values
from handrail.core.errors import BusError, ModelError
from handrail.core.events import CallDelta, CallRequested, ModelEvent, ReplyFinished
from handrail.http import BadHttpAnswer
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.chat.frames import CallIdNaming, ChatFrameReader, ChatFrameWriter, bus_error, done_data
from handrail.node.http.sse_frames import SseFrameDecoder
from handrail.node.nats import messages
from handrail.node.nats.message_parts import PartAssembler, split_payload

# ── server-sent events ───────────────────────────────────────────────────────────────────

STREAM = (
    b'id: 1\nevent: token\ndata: {"text":"h\xc3\xa9"}\n\n: still there\n\n'
    b'id: 2\nevent: done\ndata: {"stop_reason":"end"}\n\n'
)


def _events(value: tuple[bytes, list[int]]) -> None:
    body, places = value
    whole = outcome(lambda: _fed([body]), BadHttpAnswer)
    assert outcome(lambda: _fed(pieces_of(body, places)), BadHttpAnswer) == whole, "how the bytes are cut tells"


def _fed(chunks: Iterable[bytes]) -> list[StreamFrame]:
    events = SseFrameDecoder(200)
    return [frame for chunk in chunks for frame in events.feed(chunk)]


# ── NATS ─────────────────────────────────────────────────────────────────────────────────

ASKED: list[messages.CallerMessage] = [
    messages.NatsRequest(
        ref="r",
        call_id="c",
        capability="bank.pay",
        version="1.0",
        body={"input": {"n": 1}},
        sender="ed25519:x",
        community="home",
        token="hntoken://v1/secret",
        timeout_ms=5000,
        within=(("*",),),
        traceparent="00-1",
        stream=True,
        session_id="s",
    ),
    messages.NatsGo(ref="r", timeout_ms=3, body={}),
    messages.NatsCredit(ref="r", upto=3),
    messages.NatsCancel(ref="r"),
    messages.NatsStatus(ref="r", after=1),
    messages.NatsToolAnswer(ref="r", tool_call_id="t", body={"a": [1]}, is_error=True),
    messages.NatsDescribe(),
]
TOLD: list[messages.WorkerMessage] = [
    messages.NatsAccepted(worker="w", lease_ms=300, retriable=False, waits=True),
    messages.NatsHeartbeat(worker="w", lease_ms=300, seq=4),
    messages.NatsChunk(seq=1, event="token", data={"text": "x"}),
    messages.NatsResult(seq=2, body={"output": {}}),
    messages.NatsFailure(seq=2, error={"error": "timeout", "message": "late"}),
    messages.NatsBusy(worker="w", error={"error": "capacity_exceeded"}),
    messages.NatsUnknownCall(worker="w"),
    messages.NatsDescribed(node_id="n", offers=[{"name": "a.b", "version": "1.0"}]),
    messages.NatsToolAnswerReceipt(error=None),
]


def _asked(body: bytes) -> None:
    found = outcome(lambda: messages.decode_caller_message(body), msgspec.MsgspecError)
    if not isinstance(found, tuple):
        assert messages.decode_caller_message(messages.encode_nats_message(found)) == found


def _told(body: bytes) -> None:
    found = outcome(lambda: messages.decode_worker_message(body), msgspec.MsgspecError)
    if isinstance(found, tuple):
        return
    assert messages.decode_worker_message(messages.encode_nats_message(found)) == found
    if isinstance(found, messages.NatsFailure | messages.NatsBusy):
        error = BusError.from_dict(found.error)
        assert isinstance(error.to_dict(), dict) and error.outcome != "ok"


@cache
def payloads() -> tuple[tuple[bytes, ...], ...]:
    """Two large messages as the parts that they travel in, always with the same names."""
    found = []
    for name in (b"a", b"b"):
        payload = b'{"kind":"' + name * 300 + b'"}'
        parts = [part[:1] + name * 16 + part[17:] for part in split_payload(payload, 120)]
        assert len(parts) > 3
        found.append(tuple(parts))
    return tuple(found)


def _parts(arrived: list[bytes]) -> None:
    now = 0.0
    assembler = PartAssembler(lambda: now, most=4_000)
    whole = {b"".join(part[_HEAD:] for part in parts) for parts in payloads()}
    for part in arrived:
        found = assembler.feed(part)
        assert found is None or found in whole or found == part, "what comes out is what was sent"
    now = 1_000.0
    new = [assembler.feed(part[:1] + b"c" * 16 + part[17:]) for part in payloads()[0]]
    assert new[-1] in whole, "what never came holds nothing up for ever"


_HEAD = 57


@st.composite
def _arrivals(draw: st.DrawFn) -> list[bytes]:
    """Parts of two messages, in turn, with some lost, doubled or changed; and bare heads of many more."""
    found = [part for pair in zip(*payloads(), strict=True) for part in pair]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(found) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                del found[at]
            case 1:
                found.insert(draw(st.integers(0, len(found))), found[at])
            case 2:
                found[at] = draw(data([found[at]]))
            case 3:
                found[at] = found[at][: draw(st.integers(0, _HEAD + 2))]
            case 4:
                many = range(draw(st.sampled_from((3, 60))))
                found[at:at] = [_bare(number) for number in many]
        if not found:
            break
    return found


def _bare(number: int) -> bytes:
    """The first part of a message that never comes, with nothing in it."""
    name = hashlib.sha256(b"%d" % number).digest()[:16]
    return b"\x00" + name + b"\x00\x00\x00\x00" + b"\xff" * 4 + bytes(32)


# ── frames of llm.chat ───────────────────────────────────────────────────────────────────

SAID: list[list[Any]] = [
    [["token", {"text": "Hello"}], ["notice", {"text": "slow"}], ["done", {"stop_reason": "end", "tokens_in": 3}]],
    [
        ["tool_call_delta", {"id": "a", "name": "rag.query", "arguments_delta": '{"q":'}],
        ["tool_call_delta", {"id": "a", "arguments_delta": '"x"}'}],
        ["tool_call", {"id": "a", "name": "rag.query", "arguments": {"q": "x"}, "artefacts": []}],
        ["done", {"stop_reason": "tool_calls", "model": "m", "artefacts": [{"provider": "p", "data": {"x": 1}}]}],
    ],
    [["error", {"error": "rate_limited", "message": "later", "retry_after_ms": 50}]],
]


def _heard(said: Any) -> None:
    frames = [
        StreamFrame(each[0], each[1], number)
        for number, each in enumerate(said if isinstance(said, list) else [], 1)
        if isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) and isinstance(each[1], dict)
    ]
    found = outcome(lambda: _listened(frames), ModelError)
    if isinstance(found, tuple):
        return
    naming, speaking = CallIdNaming(set(), lambda kind: f"{kind}-new"), ChatFrameWriter()
    for event in found:
        msgspec.json.encode(msgspec.to_builtins(event))
        match event:
            case ReplyFinished():
                assert isinstance(event.model, str), "the name of a model is text"
                json.dumps(done_data(event))
            case CallRequested(call=call):
                assert call.name and isinstance(call.id, str)
                list(speaking.frames(naming.named(event)))
            case CallDelta():
                list(speaking.frames(naming.named(event)))


def _listened(frames: Sequence[StreamFrame]) -> list[ModelEvent]:
    hearing = ChatFrameReader()
    try:
        return [event for frame in frames for event in hearing.events(frame)]
    except ModelError as error:
        assert bus_error(error).to_dict()["error"]
        raise


_SENT = [*map(messages.encode_nats_message, ASKED)]
_BACK = [*map(messages.encode_nats_message, TOLD)]
_ODD = (b'"kind":"go"', b"[" * 2_000, b"\\ud800", b"1e400", *map(str.encode, map(json.dumps, WRONG)))
TARGETS = (
    Target(
        "bus-events", st.tuples(data([STREAM], (b"data: {}\n", b"id: 9\n", b"x" * 150)), cuts(len(STREAM))), _events
    ),
    Target(
        "nats-asked", data(_SENT, _ODD) | values([json.loads(each) for each in _SENT]).map(msgspec.json.encode), _asked
    ),
    Target(
        "nats-told", data(_BACK, _ODD) | values([json.loads(each) for each in _BACK]).map(msgspec.json.encode), _told
    ),
    Target("nats-parts", _arrivals(), _parts),
    Target("chat-frames", values(SAID), _heard),
)
