"""What goes wrong is said in the form of each API, with the status that its clients know what to do with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from handrail import Policy, tool
from handrail.core.errors import LimitExceeded, ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.events import ModelEvent, TextDelta
from handrail.core.model_request import ModelRequest
from handrail.node.gateways.gateway import GatewayLimits
from handrail.node.gateways.openapi import PATHS
from handrail.node.server.lifecycle import NodeLifecycle
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import HeldModel, ServedGateway, finished, scene

HELLO: Any = [{"role": "user", "content": "Hello"}]
CHAT = {"model": "m", "messages": HELLO}
MESSAGES = {"model": "m", "messages": HELLO, "max_tokens": 9}
BODIES = {"/v1/chat/completions": CHAT, "/v1/messages": MESSAGES}
BOTH = pytest.mark.parametrize("path", BODIES)


class Failing:
    """A model that says some words and then fails."""

    name = "m"

    def __init__(self, error: Exception, *words: str) -> None:
        self._error = error
        self._words = words

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for word in self._words:
            yield TextDelta(text=word)
        raise self._error


async def ask_both(there: ServedGateway, **more: Any) -> tuple[openai.APIStatusError, anthropic.APIStatusError]:
    with pytest.raises(openai.APIStatusError) as one:
        await there.openai().chat.completions.create(model="m", messages=HELLO, **more)
    with pytest.raises(anthropic.APIStatusError) as other:
        await there.anthropic().messages.create(model="m", max_tokens=9, messages=HELLO, **more)
    return one.value, other.value


@pytest.mark.parametrize(
    ("error", "statuses", "kinds"),
    [
        (RateLimited("slow down", retry_after=1.5), (429, 429), ("rate_limit_error", "rate_limit_error")),
        (ModelUnavailable("away"), (503, 529), ("server_error", "overloaded_error")),
        (RequestRefused("too long", status=400), (400, 400), ("invalid_request_error", "invalid_request_error")),
        (RequestRefused("wrong key sk-1", status=401), (502, 502), ("server_error", "api_error")),
        (ProtocolError("garbled"), (502, 502), ("server_error", "api_error")),
        (ModelError("odd"), (502, 502), ("server_error", "api_error")),
        (LimitExceeded("tokens", 9), (500, 500), ("server_error", "api_error")),
        (ZeroDivisionError("secret place"), (500, 500), ("server_error", "api_error")),
    ],
)
async def test_what_fails_before_the_first_text_has_its_own_status(
    error: Exception, statuses: tuple[int, int], kinds: tuple[str, str]
) -> None:
    async with scene(Failing(error)) as there:
        streamed = [each.status_code for each in await ask_both(there, stream=True)]
        one, other = await ask_both(there)

    assert tuple(streamed) == statuses

    assert (one.status_code, other.status_code) == statuses
    assert one.type == kinds[0]
    assert isinstance(other.body, dict) and other.body["error"]["type"] == kinds[1]
    if isinstance(error, RateLimited):
        assert one.response.headers["retry-after"] == "2" and other.response.headers["retry-after-ms"] == "1500"
    lasts = isinstance(error, LimitExceeded) or "key" in str(error)
    assert (one.response.headers.get("x-should-retry") == "false") == lasts
    if isinstance(error, ZeroDivisionError) or "key" in str(error):
        assert str(error) not in one.message and str(error) not in other.message


async def test_what_fails_in_mid_stream_is_the_last_thing_of_the_stream() -> None:
    said: list[str] = []
    async with scene(Failing(ModelUnavailable("away"), "Hel", "lo")) as there:
        with pytest.raises(openai.APIError, match="away"):
            async for chunk in await there.openai().chat.completions.create(model="m", messages=HELLO, stream=True):
                said.append(chunk.choices[0].delta.content or "")
        with pytest.raises(anthropic.APIError, match="away"):
            async with there.anthropic().messages.stream(model="m", max_tokens=9, messages=HELLO) as stream:
                said += [piece async for piece in stream.text_stream]

    assert said == ["", "Hel", "lo"]


async def test_a_client_is_not_told_to_repeat_what_has_changed_something() -> None:
    model = ScriptedModel([call("note"), finished("tool_calls")], [call("note"), finished("tool_calls")])

    @tool(side_effects=True)
    async def note() -> str:
        return "noted"

    async with scene(model, tools=[note], policy=Policy(confirm_side_effects=False)) as there, there.http() as client:
        answer = await client.post("/v1/chat/completions", json=CHAT)

    assert answer.status_code == 502 and answer.headers["x-should-retry"] == "false"


async def test_a_request_without_a_good_token_is_refused_before_it_is_read() -> None:
    async with scene(ScriptedModel()) as there:
        with pytest.raises(openai.AuthenticationError):
            await there.openai("wrong").chat.completions.create(model="m", messages=HELLO)
        with pytest.raises(anthropic.AuthenticationError):
            await there.anthropic("wrong").messages.create(model="m", max_tokens=9, messages=HELLO)
        with pytest.raises(openai.AuthenticationError):
            await there.openai("wrong").models.list()


async def test_a_token_without_the_right_to_chat_is_refused() -> None:
    async with scene(ScriptedModel()) as there:
        with pytest.raises(openai.PermissionDeniedError, match=r"llm\.chat@2\.0"):
            await there.openai("nothing").chat.completions.create(model="m", messages=HELLO)
        with pytest.raises(anthropic.PermissionDeniedError):
            await there.anthropic("nothing").messages.create(model="m", max_tokens=9, messages=HELLO)


async def test_a_model_that_is_not_there_is_not_found() -> None:
    async with scene(ScriptedModel()) as there:
        with pytest.raises(openai.NotFoundError, match="no model 'other'"):
            await there.openai().chat.completions.create(model="other", messages=HELLO)
        with pytest.raises(anthropic.NotFoundError, match="no model 'other'"):
            await there.anthropic().messages.create(model="other", max_tokens=9, messages=HELLO)


CALLED = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": "{}"}}]}
USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "add", "input": {}}]}
WRONG: list[tuple[str, dict[str, Any], str | None]] = [
    ("/v1/chat/completions", {"messages": []}, "messages"),
    ("/v1/chat/completions", {"messages": "hi"}, "messages"),
    ("/v1/chat/completions", {"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "x"}]}]},
        "messages[0].content[0].type",
    ),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/x"}}]}]},
        "messages[0].content[0].image_url.url",
    ),
    ("/v1/chat/completions", {"messages": [*HELLO, CALLED]}, "messages"),
    ("/v1/chat/completions", {"messages": [*HELLO, CALLED, *HELLO]}, "messages"),
    ("/v1/chat/completions", {"messages": [{"role": "tool", "tool_call_id": "c", "content": ""}]}, "messages"),
    (
        "/v1/chat/completions",
        {"messages": [*HELLO, {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, *HELLO]},
        "messages[1].function_call",
    ),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    (
        "/v1/chat/completions",
        {"messages": [*HELLO, {"role": "assistant", "audio": {"id": "a"}}, *HELLO]},
        "messages[1].audio",
    ),
    ("/v1/chat/completions", {"stop": ""}, "stop"),
    ("/v1/chat/completions", {"stop": ["a", ""]}, "stop"),
    ("/v1/messages", {"stop_sequences": [""]}, "stop_sequences"),
    ("/v1/chat/completions", {"n": 2}, "n"),
    ("/v1/chat/completions", {"temperature": 3}, "temperature"),
    ("/v1/chat/completions", {"max_tokens": 0}, "max_tokens"),
    ("/v1/chat/completions", {"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0]"),
    ("/v1/chat/completions", {"tools": [{"type": "function", "function": {"name": "x"}}] * 2}, "tools[1]"),
    ("/v1/chat/completions", {"tool_choice": "maybe"}, "tool_choice"),
    ("/v1/chat/completions", {"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
    ("/v1/chat/completions", {"functions": []}, "functions"),
    ("/v1/chat/completions", {"logprobs": True}, "logprobs"),
    ("/v1/chat/completions", {"handrail": {"tools": 7}}, "handrail.tools"),
    ("/v1/chat/completions", {"handrail": {"tool": "all"}}, "handrail"),
    ("/v1/chat/completions", {"handrail": "all"}, "handrail"),
    ("/v1/messages", {"messages": []}, "messages"),
    ("/v1/messages", {"max_tokens": None}, "max_tokens"),
    ("/v1/messages", {"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ("/v1/messages", {"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    ("/v1/messages", {"messages": [*HELLO, USED]}, "messages"),
    (
        "/v1/messages",
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}]},
        "messages",
    ),
    ("/v1/messages", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0]"),
    ("/v1/messages", {"tool_choice": {"type": "tool"}}, "tool_choice"),
    ("/v1/messages", {"stop_sequences": "END"}, "stop_sequences"),
]


async def test_what_is_wrong_in_a_request_is_named_by_its_place() -> None:
    async with scene(ScriptedModel()) as there, there.http() as client:
        for path, change, place in WRONG:
            answer = await client.post(path, json={**BODIES[path], **change})
            assert answer.status_code == 400, (change, answer.text)
            error = answer.json()["error"]
            assert error["type"] == "invalid_request_error"
            assert place is not None and place in error["message"], (change, error)
            if path == "/v1/chat/completions":
                assert error["param"].startswith(place), (change, error)


NO_JSON = [
    b"",
    b"[]",
    b"null",
    b"{",
    b'{"a":1,"a":2}',
    b"\xff",
    b"[" * 100_000,
    b'{"n":' + b"9" * 500 + b"}",
    b'"\\ud800"',
]


AS_JSON = {"content-type": "application/json"}


async def test_what_is_no_json_is_refused_in_the_form_of_the_api() -> None:
    async with scene(ScriptedModel()) as there, there.http() as client:
        for path in BODIES:
            for body in NO_JSON:
                answer = await client.post(path, content=body, headers=AS_JSON)
                assert answer.status_code == 400, body[:20]
                assert answer.json()["error"]["type"] == "invalid_request_error"


@BOTH
async def test_a_body_that_is_too_long_is_refused(path: str) -> None:
    async with scene(ScriptedModel(), bounds=GatewayLimits(body=100)) as there, there.http() as client:
        answer = await client.post(path, json={**BODIES[path], "user": "x" * 200})

    assert answer.status_code == 413


@BOTH
@pytest.mark.parametrize("stream", [False, True])
async def test_when_the_client_goes_away_the_run_ends(path: str, stream: bool) -> None:
    model = HeldModel(text("Hello"))
    async with scene(model) as there, there.http() as client:
        asking = asyncio.create_task(client.post(path, json={**BODIES[path], "stream": stream}))
        async with asyncio.timeout(10):
            await model.reached.wait()
            asking.cancel()
            await model.dropped.wait()


async def test_when_the_client_goes_away_a_tool_that_is_at_work_ends_too() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    model = ScriptedModel([call("wait"), finished("tool_calls")])
    async with scene(model, tools=[wait]) as there, there.http() as client:
        asking = asyncio.create_task(client.post("/v1/messages", json={**MESSAGES, "stream": True}))
        async with asyncio.timeout(10):
            await begun.wait()
            asking.cancel()
            await ended.wait()


class Endless:
    """A model that never stops speaking."""

    name = "m"

    def __init__(self) -> None:
        self.dropped = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            while True:
                yield TextDelta(text="x" * 1000)
                await asyncio.sleep(0)
        finally:
            self.dropped.set()


async def test_a_client_that_takes_nothing_is_given_up() -> None:
    model = Endless()
    body = json.dumps({**CHAT, "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer bob\r\ncontent-length: {len(body)}"
    head += "\r\ncontent-type: application/json"
    async with scene(model, bounds=GatewayLimits(write_seconds=0.1)) as there:
        port = int(there.url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(f"{head}\r\n\r\n".encode() + body)
        async with asyncio.timeout(10):
            await model.dropped.wait()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_who_comes_when_it_is_full_is_told_to_come_back() -> None:
    model = HeldModel()
    async with scene(model, bounds=GatewayLimits(at_once=1)) as there, there.http() as client:
        first = asyncio.create_task(client.post("/v1/messages", json=MESSAGES))
        async with asyncio.timeout(10):
            await model.reached.wait()
            full = await client.post("/v1/chat/completions", json=CHAT)
            model.go_on.set()
            await first
            after = await client.post("/v1/chat/completions", json=CHAT)

    assert full.status_code == 429 and full.headers["retry-after"] == "1"
    assert (first.result().status_code, after.status_code) == (200, 200)


@BOTH
async def test_a_client_that_waits_hears_that_somebody_is_there(path: str) -> None:
    model = HeldModel()
    heard = b""
    async with (
        scene(model, bounds=GatewayLimits(keep_alive=0.02)) as there,
        there.http() as client,
        client.stream("POST", path, json={**BODIES[path], "stream": True}) as answer,
        asyncio.timeout(10),
    ):
        async for piece in answer.aiter_raw():
            heard += piece
            if heard.count(b"still there") + heard.count(b"event: ping") > 2:
                model.go_on.set()

    assert heard.endswith((b"data: [DONE]\n\n", b'data: {"type":"message_stop"}\n\n'))


@pytest.mark.parametrize("stream", [False, True])
async def test_when_the_node_ends_its_clients_are_told(stream: bool) -> None:
    model, life = HeldModel(*([text("Hello")] if stream else [])), NodeLifecycle()
    async with scene(model, life=life) as there, there.http() as client:

        async def ask() -> httpx2.Response:
            with life.request():  # as the node counts them
                return await client.post("/v1/messages", json={**MESSAGES, "stream": stream})

        asking = asyncio.create_task(ask())
        async with asyncio.timeout(10):
            await model.reached.wait()
            assert life.under_way == 1
            await life.drain(0.0)
            answer = await asking

    assert answer.status_code == (200 if stream else 529)
    assert "overloaded_error" in answer.text or "api_error" in answer.text
    assert life.under_way == 0


def test_the_description_of_the_gateways_stands_by_itself_and_says_what_is_read() -> None:
    written = json.dumps(PATHS)
    body = PATHS["/v1/messages"]["post"]["requestBody"]["content"]["application/json"]["schema"]

    assert "$ref" not in written and "$defs" not in written
    assert set(body["required"]) == {"max_tokens", "messages"} and "handrail" in body["properties"]
    assert '"title": {"anyOf"' in written  # a field of that name, not the name of a type
