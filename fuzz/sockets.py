"""What code asks models over a socket, what it is told, and the trajectories that are kept of it.

The laws: how bytes were cut tells in nothing; no frame is longer than it may be; a request or an answer that is not one
is an error of its own kind; what was read can be written and read again; a reply ends once, and has calls only if it
is tagged or was offered tools; and of a trajectory each line counts or is said to be lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from fuzz.law import Target, outcome
from fuzz.mutate import WRONG, cuts, data, pieces_of, values
from handrail.core.errors import ModelError, ProtocolError, UsageError
from handrail.core.events import CallRequested, ReplyFinished
from handrail.core.framing import FrameError, FrameSplitter, length_prefixed
from handrail.models.tool_names import OPENAI_NAMES, NameMap
from handrail.rlm.record.trajectory import RLMLogger, parse_trajectory
from handrail.rlm.socket.connection import framed_response
from handrail.rlm.socket.socket_model import events_of
from handrail.rlm.socket.wire import request_of, response_of
from handrail.rlm.values import (
    CodeBlock,
    LMRequest,
    LMResponse,
    REPLResult,
    RLMChatCompletion,
    RLMIteration,
    RLMMetadata,
)

_MOST = 2_000
_TOOL: dict[str, Any] = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
_CALL: dict[str, Any] = {"id": "c", "name": "add", "arguments": {"a": 1}}
REQUESTS: list[dict[str, Any]] = [
    LMRequest(prompt="why?", model="m", depth=1, tools=[_TOOL], tool_choice="auto").to_dict(),
    LMRequest(prompts=["a", [{"role": "user", "content": "b"}]], response_formats=[None, {}], depth=0).to_dict(),
]
_DONE = RLMChatCompletion(root_model="m", prompt="why?", response="because", execution_time=0.5, run="run_1")
_LEGACY = RLMChatCompletion("m", "?", json.dumps({"tool_calls": [_CALL], "content": None}))
RESPONSES: list[dict[str, Any]] = [
    LMResponse(chat_completion=_DONE, metadata={"tagged": True}).to_dict(),
    LMResponse(chat_completion=_LEGACY).to_dict(),
    LMResponse(chat_completion=RLMChatCompletion("m", "?", "", tool_calls=[_CALL])).to_dict(),
    LMResponse(error="no", chat_completion=RLMChatCompletion("m", "?", "", error="no", error_type="x")).to_dict(),
    LMResponse(chat_completions=[_DONE, _LEGACY]).to_dict(),
]
_OFFERED = NameMap.of(["add"], OPENAI_NAMES)


def _frames(value: tuple[bytes, list[int]]) -> None:
    body, places = value
    whole = outcome(lambda: _fed([body]), FrameError)
    assert outcome(lambda: _fed(pieces_of(body, places)), FrameError) == whole, "how the bytes are cut tells"
    if isinstance(whole, list):
        assert all(len(each) <= _MOST for each in whole)


def _fed(chunks: Iterable[bytes]) -> list[bytes]:
    frames = FrameSplitter(_MOST)
    return [body for chunk in chunks for body in frames.feed(chunk)]


def _request(body: bytes) -> None:
    found = outcome(lambda: request_of(body), UsageError)
    if isinstance(found, LMRequest):
        [again] = FrameSplitter().feed(length_prefixed(found.to_dict()))
        assert request_of(again) == found


def _response(body: bytes) -> None:
    found = outcome(lambda: response_of(body), ProtocolError)
    if not isinstance(found, LMResponse):
        return
    [again] = FrameSplitter().feed(framed_response(found, 10**6))
    assert response_of(again) == found
    for offered in (None, _OFFERED):
        events = outcome(lambda offered=offered: list(events_of(found, offered)), ModelError)  # type: ignore[misc]
        if isinstance(events, tuple):
            continue
        assert [isinstance(event, ReplyFinished) for event in events] == [False] * (len(events) - 1) + [True]
        called = any(isinstance(event, CallRequested) for event in events)
        assert not called or offered or (found.chat_completion is not None and found.chat_completion.tool_calls)


def trajectory() -> bytes:
    logger = RLMLogger()
    logger.log_metadata(RLMMetadata(root_model="m", max_depth=1, max_iterations=3, backend="openai"))
    block = CodeBlock(code="print(1)", result=REPLResult(stdout="1", rlm_calls=[_DONE]))
    logger.log(RLMIteration(prompt="why?", response="so", code_blocks=[block]))
    kept = logger.get_trajectory() or {}
    begun = {"type": "metadata", "timestamp": "2026-01-01T00:00:00", **kept["run_metadata"]}
    return b"".join(json.dumps(each).encode() + b"\n" for each in (begun, *kept["iterations"]))


def _read(body: bytes) -> None:
    lines = body.splitlines(keepends=True)
    found = parse_trajectory(lines)
    spoken = sum(not line.isspace() for line in lines)
    assert len(found.iterations) + len(found.notes) <= spoken
    assert found.iterations or found.notes or found.metadata or not spoken, "what was passed over is said"


_SENT = [json.dumps(each).encode() for each in REQUESTS]
_BACK = [json.dumps(each).encode() for each in RESPONSES]
_FRAMED = [b"".join(map(length_prefixed, REQUESTS)), length_prefixed(RESPONSES[0]), b"\0\0\0\0", b"\xff\xff\xff\xff{}"]
_ODD = (b"[" * 2_000, b"\\ud800", b"1e400", *map(str.encode, map(json.dumps, WRONG)))
TARGETS = (
    Target("lm-frames", st.tuples(data(_FRAMED), cuts(len(_FRAMED[0]))), _frames),
    Target("lm-requests", data(_SENT, _ODD) | values(REQUESTS).map(lambda each: json.dumps(each).encode()), _request),
    Target(
        "lm-responses", data(_BACK, _ODD) | values(RESPONSES).map(lambda each: json.dumps(each).encode()), _response
    ),
    Target("trajectories", data([trajectory()], _ODD), _read),
)
