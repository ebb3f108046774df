"""The order of a session's events over real streams: requested, intended, settled, also for a read that began early."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from handrail import Session, create_llm, tool
from handrail.core.events import CallIntended, CallRequested, CallSettled, Event, TextDelta
from handrail.testing.journal import MemoryJournal
from tests.models.raw_reply_server import RawReplyServer, Reply, serving, sse, streamed

ARGUMENTS = '{"id": "18"}'


def _chat_chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _chat(wait: asyncio.Event) -> list[Reply]:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "find_order", "arguments": ARGUMENTS}}
    first = sse(_chat_chunk(content="Let me look. "), _chat_chunk(tool_calls=[call]))
    last = sse(_chat_chunk("tool_calls"), b"[DONE]")
    return [streamed(first, wait, last), streamed(sse(_chat_chunk(content="Boots."), _chat_chunk("stop"), b"[DONE]"))]


def _named(*events: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: " + event["type"].encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n" for event in events
    )


def _anthropic(wait: asyncio.Event) -> list[Reply]:
    def begin(block: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        message = {"id": "r", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": USAGE}
        return (
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
        )

    def end(stop: str) -> tuple[dict[str, Any], ...]:
        return {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": USAGE}, {"type": "message_stop"}

    use = {"type": "tool_use", "id": "c1", "name": "find_order", "input": {}}
    piece = {"type": "input_json_delta", "partial_json": ARGUMENTS}
    said = {"type": "text_delta", "text": "Boots."}
    stop = {"type": "content_block_stop", "index": 0}
    return [
        streamed(
            _named(*begin(use), {"type": "content_block_delta", "index": 0, "delta": piece}, stop),
            wait,
            _named(*end("tool_use")),
        ),
        streamed(
            _named(
                *begin({"type": "text", "text": ""}),
                {"type": "content_block_delta", "index": 0, "delta": said},
                stop,
                *end("end_turn"),
            )
        ),
    ]


USAGE = {"input_tokens": 1, "output_tokens": 1}
WIRES = {"openai": ("compatible:m", _chat), "anthropic": ("anthropic:m", _anthropic)}


async def _events(server: RawReplyServer, name: str, session_options: dict[str, Any]) -> list[Event]:
    llm = create_llm(name, key="k", base_url=server.url)
    session = Session(llm, **session_options)
    async with asyncio.timeout(30):
        found = [event async for event in session.stream_async("What is order 18?")]
    await session.aclose()
    await llm.aclose()
    return found


def _kinds(events: list[Event]) -> list[str]:
    """The events of calls. Whether the reply ends before or after a read does is nobody's promise."""
    return [type(event).__name__ for event in events if isinstance(event, CallRequested | CallIntended | CallSettled)]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_read_that_ends_while_the_model_speaks_is_requested_before_it_is_intended_and_settled(
    wire: str,
) -> None:
    ran = asyncio.Event()

    @tool
    async def find_order(id: str) -> str:
        ran.set()
        return "a pair of boots"

    name, script = WIRES[wire]
    # The server ends its reply only when the tool has run: the read started while the model spoke.
    async with serving(*script(ran)) as server:
        events = await _events(server, name, {"tools": [find_order]})

    assert _kinds(events) == ["CallRequested", "CallIntended", "CallSettled"]
    assert [event.call.id for event in events if isinstance(event, CallRequested)] == ["c1"]
    assert [event.call_id for event in events if isinstance(event, CallIntended | CallSettled)] == ["c1", "c1"]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)).endswith("Boots.")


async def test_a_call_that_the_model_took_back_is_in_the_record_and_not_in_the_stream() -> None:
    """The arguments seem whole, the read begins, and then more of them comes: it was another call."""
    ran = asyncio.Event()

    @tool
    async def find_order(id: str) -> str:
        ran.set()
        return "a pair of boots"

    def chunk(text: str) -> bytes:
        function = {"name": "find_order", "arguments": text}
        return sse(_chat_chunk(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": function}]))

    journal = MemoryJournal()
    first = streamed(chunk(ARGUMENTS), ran, chunk(" and more"), sse(_chat_chunk("tool_calls"), b"[DONE]"))
    async with serving(first, _chat(ran)[1]) as server:
        events = await _events(server, "compatible:m", {"tools": [find_order], "journal": journal})

    assert _kinds(events) == ["CallRequested", "CallSettled"]
    (settled,) = [event for event in events if isinstance(event, CallSettled)]
    assert settled.outcome == "invalid_arguments"
    assert [type(event).__name__ for event in journal.events if isinstance(event, CallIntended)] == ["CallIntended"]
