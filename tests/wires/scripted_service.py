"""A service on this machine that plays a scene: it checks what it is asked, and answers from a script in its own wire.

What it expects is what the same scene gave without any wire: the requests that a
`ScriptedModel` was given. Tools are known by their descriptions, since a wire may need other names.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from handrail.core.calls import ToolCall
from handrail.core.events import CallRequested, ModelEvent, TextDelta
from handrail.core.messages import AssistantMessage, InvocationMessage, ResultMessage, UserMessage
from handrail.core.model_request import ModelRequest, NamedTool, ToolOffer
from tests.models.bedrock.botocore_checks import event_bytes
from tests.wires.wire_dialogue import (
    Event,
    Framing,
    OfferedTool,
    ScriptedReply,
    UnderstoodRequest,
    WireCall,
    WireCase,
    WireHttpRequest,
    as_json,
)

KINDS: dict[Framing, str] = {"ndjson": "application/x-ndjson", "aws": "application/vnd.amazon.eventstream"}


@dataclass(slots=True)
class ScenePlay:
    """One scene over one wire, as far as it has come."""

    wire: WireCase
    stream: bool
    expected: list[ModelRequest]
    replies: tuple[list[ModelEvent], ...]
    asked: int = 0
    given: list[str] = field(default_factory=list)
    """Ids of the calls of the last reply."""
    ids: int = 0

    def answer(self, asked: WireHttpRequest) -> list[Event]:
        turn, self.asked = self.asked, self.asked + 1
        assert turn < len(self.replies), "asked once more than the script has replies"
        heard = self.wire.hear(asked)
        self._check(asked, heard, self.expected[turn])
        said = self._said(self.replies[turn], heard.offers)
        self.given = [call.id for call in said.calls]
        return self.wire.write(said, self.stream)

    def _check(self, asked: WireHttpRequest, heard: UnderstoodRequest, expected: ModelRequest) -> None:
        assert heard.streams == self.stream
        if self.wire.key is not None:
            assert any(self.wire.key in value for value in asked.headers.values()), "the key is missing"
        for message in expected.messages:
            assert not isinstance(message, UserMessage) or message.text in heard.words
        if self.wire.prompted:
            _check_text(asked, heard, expected)
        else:
            self._check_offers(heard, expected)
            self._check_calls(heard, expected)

    def _check_offers(self, heard: UnderstoodRequest, expected: ModelRequest) -> None:
        tools, choice = _sayable(expected, self.wire)
        shown = {offer.description: sorted(offer.schema["properties"]) for offer in heard.offers}
        assert shown == {tool.description: sorted(tool.input_schema["properties"]) for tool in tools}
        names = [offer.name for offer in heard.offers]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(self.wire.name_rule, name) for name in names), names
        wanted = f"={_wire_name(choice.name, tools, heard.offers)}" if isinstance(choice, NamedTool) else choice
        assert heard.choice == wanted

    def _check_calls(self, heard: UnderstoodRequest, expected: ModelRequest) -> None:
        if not heard.offers:
            return  # then past calls are told in words
        calls, results = _last_reply(expected)
        made = [(_wire_name(call.name, expected.tools, heard.offers), call.arguments) for call in calls]
        assert [(call.name, call.arguments) for call in heard.calls] == made
        assert [result.id for result in heard.results] == [call.id for call in heard.calls]
        if calls and self.given and self.wire.gives_ids:
            assert [call.id for call in heard.calls] == self.given
        assert len(heard.results) == len(results)
        for got, wanted in zip(heard.results, results, strict=True):
            # Some services take no empty text; then any other will do.
            assert got.content in (wanted.result.content, wanted.result.text) or not wanted.result.text
            assert got.failed in (None, wanted.result.is_error)

    def _said(self, reply: list[ModelEvent], offers: tuple[OfferedTool, ...]) -> ScriptedReply:
        words = "".join(event.text for event in reply if isinstance(event, TextDelta))
        tools = self.expected[0].tools
        calls = [event.call for event in reply if isinstance(event, CallRequested)]
        return ScriptedReply(words, tuple(self._call(call, tools, offers) for call in calls))

    def _call(self, call: ToolCall, tools: Iterable[ToolOffer], offers: tuple[OfferedTool, ...]) -> WireCall:
        assert isinstance(call.arguments, dict)
        name = _wire_name(call.name, tools, offers)
        strict = next((offer.schema for offer in offers if offer.name == name and offer.strict), None)
        self.ids += 1
        arguments = call.arguments if strict is None else _with_nulls(call.arguments, strict, strict)
        return WireCall(self.wire.gives_ids.format(self.ids), name, arguments)


def _sayable(expected: ModelRequest, wire: WireCase) -> tuple[tuple[ToolOffer, ...], Any]:
    """The tools and the choice that a client can at best ask this service for."""
    choice = expected.tool_choice
    match choice:
        case NamedTool(name) if "named" not in wire.choices:
            only = tuple(tool for tool in expected.tools if tool.name == name)
            return only, "required" if "required" in wire.choices else "auto"
        case "none" if "none" not in wire.choices:
            return (), "auto"
        case "required" if "required" not in wire.choices:
            return expected.tools, "auto"
    return expected.tools, choice


def _check_text(asked: WireHttpRequest, heard: UnderstoodRequest, expected: ModelRequest) -> None:
    """The tools, the calls and the results are there to read."""
    words = heard.words.replace("\\u003c", "<")
    match expected.tool_choice:
        case NamedTool(name):
            shown = {name}
        case "none":
            shown = set()
        case _:
            shown = {tool.name for tool in expected.tools}
    for tool in expected.tools:
        assert (tool.description in words) == (tool.name in shown)
        assert all(name in words for name in tool.input_schema["properties"] if tool.name in shown)
    calls, results = _last_reply(expected)
    said = [message["content"] for message in asked.body["messages"] if message["role"] == "assistant"]
    assert all(call.name in said[-1] for call in calls)
    for message in results:
        told = message.result.text
        assert any(form in words for form in (told, as_json(told)[1:-1], as_json(message.result.content)))


def _last_reply(request: ModelRequest) -> tuple[list[ToolCall], list[ResultMessage]]:
    messages = list(request.messages)
    last = max((at for at, message in enumerate(messages) if isinstance(message, AssistantMessage)), default=0)
    rest = messages[last:]
    calls = [message.call for message in rest if isinstance(message, InvocationMessage)]
    return calls, [message for message in rest if isinstance(message, ResultMessage)]


def _wire_name(name: str, tools: Iterable[ToolOffer], offers: Iterable[OfferedTool]) -> str:
    """The name under which the service was shown a tool; of an unknown one, its own."""
    about = next((tool.description for tool in tools if tool.name == name), None)
    return next((offer.name for offer in offers if offer.description == about), name)


def _with_nulls(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """Arguments as a model writes them under a strict schema: what must be there, and may be null, is null."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    match value:
        case dict():
            properties = schema.get("properties", {})
            needed = (key for key in schema.get("required", ()) if key not in value)
            absent = {key: None for key in needed if _may_be_null(properties[key])}
            inside = {key: _with_nulls(item, properties.get(key, {}), root) for key, item in value.items()}
            return inside | absent
        case list():
            return [_with_nulls(item, schema.get("items", {}), root) for item in value]
    return value


def _may_be_null(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type", ())
    return "null" in ([kinds] if isinstance(kinds, str) else kinds) or any(map(_may_be_null, schema.get("anyOf", ())))


@dataclass(slots=True)
class ScriptedService:
    """Where the plays are given: the wire's name is the first part of every address."""

    url: str = ""
    play: ScenePlay | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        play = self.play
        assert play is not None
        path = request.raw_path.removeprefix(f"/{play.wire.name}{play.wire.root}")
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            events = play.answer(WireHttpRequest(path, headers, json.loads(await request.read())))
        except Exception as wrong:  # the client is told, and so is the test
            return web.json_response(
                {"error": {"message": f"{type(wrong).__name__}: {wrong} ({_place(wrong)})"}}, status=400
            )
        if not play.stream:
            return web.json_response(events[0])
        return await _streamed(request, play.wire.framing, events)


def _place(wrong: Exception) -> str:
    last = traceback.extract_tb(wrong.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno} {last.line}"


async def _streamed(request: web.Request, framing: Framing, events: list[Event]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": KINDS.get(framing, "text/event-stream")})
    await response.prepare(request)
    for event in events:
        await response.write(frame(framing, event))
    if framing == "done-sse":
        await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def frame(framing: Framing, event: Event) -> bytes:
    match framing:
        case "aws":
            return event_bytes(event)
        case "ndjson":
            return f"{as_json(event)}\n".encode()
        case "named-sse":
            return f"event: {event['type']}\ndata: {as_json(event)}\n\n".encode()
    return f"data: {as_json(event)}\n\n".encode()


@asynccontextmanager
async def serving() -> AsyncIterator[ScriptedService]:
    service = ScriptedService()
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/{path:.*}", service.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield service
    finally:
        await runner.cleanup()
