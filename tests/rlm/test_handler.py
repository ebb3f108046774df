"""The socket at which code asks models: what reaches the model, and every client that is not what it should be."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import ModelUnavailable, RateLimited, UsageError
from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import Usage, UserMessage
from handrail.core.model_request import ModelRequest, NamedTool
from handrail.http.request_guard import RequestMemory
from handrail.rlm.query.queries import Queries
from handrail.rlm.socket.connection import HandlerConnection, HandlerLimits
from handrail.rlm.socket.handler import LMHandler
from handrail.rlm.socket.socket_model import events_of
from handrail.rlm.socket.wire import Address, ask, response_of, send_lm_request
from handrail.rlm.values import LMRequest, LMResponse
from handrail.testing.model import ScriptedModel, call, text

STATS = {
    "type": "function",
    "function": {
        "name": "get_stats",
        "description": "Statistics of a question.",
        "parameters": {"type": "object", "properties": {"q": {"type": "integer"}}, "required": ["q"]},
    },
}


class Echo:
    """Says back what it was asked last; fails at what it is told to."""

    def __init__(self, name: str = "echo") -> None:
        self.name = name
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.asked.append(request)
        [*_, last] = request.messages
        words = last.text if isinstance(last, UserMessage) else ""
        if words == "fail":
            raise RateLimited("slow down", status=429)
        if words == "break":
            raise ZeroDivisionError("sk-proj-" + "a1B2" * 10)
        yield TextDelta(text=f"{self.name}: {words}")
        yield ReplyFinished(stop="end", model=self.name, usage=Usage(input_tokens=3, output_tokens=2, cost=0.25))


class Endless:
    """Begins to think and never ends, until it is let go of."""

    name = "endless"

    def __init__(self) -> None:
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        yield TextDelta(text="never")


def echo(**options: Any) -> Queries:
    return Queries({}, Echo(), **options)


def packed(message: Any) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


async def exchanged(address: Address, *pieces: bytes, count: int | None = None, end: bool = False) -> list[LMResponse]:
    """What the handler says to these bytes: so many answers, or everything until it hangs up."""
    assert isinstance(address, tuple)
    reader, writer = await asyncio.open_connection(*address)
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    if end:
        writer.write_eof()
    found: list[LMResponse] = []
    try:
        async with asyncio.timeout(20):
            while len(found) != count and (head := await reader.read(1)):
                length = int.from_bytes(head + await reader.readexactly(3), "big")
                found.append(response_of(await reader.readexactly(length)))
    finally:
        writer.transport.abort()
    return found


# ── what reaches the model ───────────────────────────────────────────────────────────────


async def test_one_prompt_has_one_answer_with_its_usage() -> None:
    async with LMHandler(echo()) as handler:
        response = await ask(handler.address, LMRequest(prompt="hello", depth=0))

    assert response.success and not response.is_batched
    found = response.chat_completion
    assert found is not None
    assert (found.root_model, found.prompt, found.response, found.tool_calls) == ("echo", "hello", "echo: hello", None)
    usage = found.usage_summary
    assert (usage.total_calls, usage.total_input_tokens, usage.total_cost) == (1, 3, 0.25)


async def test_a_batch_keeps_its_order_and_a_failure_to_its_slot() -> None:
    async with LMHandler(echo(concurrency=2)) as handler:
        response = await ask(handler.address, LMRequest(prompts=["a", "fail", "c", "break", "e"]))

    found = response.chat_completions or []
    assert [each.response for each in found] == ["echo: a", "", "echo: c", "", "echo: e"]
    assert [(each.error_type, each.status_code) for each in found][:2] == [(None, None), ("rate_limited", 429)]
    assert found[1].error == "slow down" and found[3].error is not None
    assert "a1B2" not in found[3].error


async def test_a_failed_query_is_the_error_of_the_response_and_of_its_completion() -> None:
    async with LMHandler(echo()) as handler:
        response = await ask(handler.address, LMRequest(prompt="fail"))

    assert response.error == "slow down"
    assert response.chat_completion is not None
    assert (response.chat_completion.error_type, response.chat_completion.status_code) == ("rate_limited", 429)


async def test_an_empty_batch_has_no_answers() -> None:
    async with LMHandler(echo()) as handler:
        assert (await ask(handler.address, LMRequest(prompts=[]))).chat_completions == []


async def test_a_model_is_chosen_by_name_and_else_by_depth() -> None:
    queries = Queries({"named": Echo("named")}, Echo("root"), sub=Echo("sub"))
    async with LMHandler(queries) as handler:
        asked = [
            LMRequest(prompt="x", model="named", depth=1),
            LMRequest(prompt="x", depth=1),
            LMRequest(prompt="x", depth=0),
            LMRequest(prompt="x"),
        ]
        found = [await ask(handler.address, each) for each in asked]

    assert [(each.chat_completion or fail()).root_model for each in found] == ["named", "sub", "root", "root"]


def fail() -> Any:
    raise AssertionError("there is no completion")


@pytest.mark.requirement("rlm.socket")
async def test_tools_and_their_choice_reach_the_model_and_its_calls_come_back_tagged() -> None:
    model = ScriptedModel([text("Let me see."), call("get_stats", "c1", q=3)])
    choice = {"type": "function", "function": {"name": "get_stats"}}
    async with LMHandler(Queries({}, model)) as handler:
        response = await ask(handler.address, LMRequest(prompt="?", tools=[STATS], tool_choice=choice))

    [request] = model.requests
    assert [offer.name for offer in request.tools] == ["get_stats"]
    assert request.tools[0].input_schema["required"] == ["q"]
    assert request.tool_choice == NamedTool("get_stats")
    found = response.chat_completion or fail()
    assert found.tool_calls == [{"id": "c1", "name": "get_stats", "arguments": {"q": 3}}]
    assert json.loads(found.response) == {"tool_calls": found.tool_calls, "content": "Let me see."}


@pytest.mark.requirement("rlm.socket")
async def test_a_final_answer_that_mentions_tool_calls_has_no_tag() -> None:
    words = json.dumps({"tool_calls": [{"id": "1", "name": "get_stats", "arguments": {"q": 1}}], "content": None})
    async with LMHandler(Queries({}, ScriptedModel([text(words)]))) as handler:
        response = await ask(handler.address, LMRequest(prompt="?", tools=[STATS]))

    found = response.chat_completion or fail()
    assert (found.response, found.tool_calls) == (words, None)
    assert response.metadata == {"tagged": True}


async def test_a_batch_may_have_tools_too() -> None:
    model = ScriptedModel([call("get_stats", "c1", q=1)], [text("plain")])
    async with LMHandler(Queries({}, model)) as handler:
        response = await ask(handler.address, LMRequest(prompts=["a", "b"], tools=[STATS]))

    found = response.chat_completions or fail()
    assert sorted(len(each.tool_calls or ()) for each in found) == [0, 1]


async def test_a_conversation_with_calls_and_results_is_understood() -> None:
    model = ScriptedModel([text("4.2 on average")])
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "get_stats", "arguments": '{"q": 3}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"avg": 4.2}'},
    ]
    async with LMHandler(Queries({}, model)) as handler:
        response = await ask(handler.address, LMRequest(prompt=messages, tools=[STATS]))

    assert (response.chat_completion or fail()).response == "4.2 on average"
    assert [type(each).__name__ for each in model.requests[0].messages] == [
        "SupervisorMessage",
        "UserMessage",
        "AssistantMessage",
        "InvocationMessage",
        "ResultMessage",
    ]


async def test_the_form_of_an_answer_reaches_the_model() -> None:
    model = ScriptedModel([text("{}")], [text("{}")], [text("{}")])
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "title": "T"}}}
    async with LMHandler(Queries({}, model)) as handler:
        await ask(handler.address, LMRequest(prompt="?", response_format=form))
        await ask(handler.address, LMRequest(prompts=["?", "!"], response_formats=[form, None]))

    schemas = [(each.response_schema or {}).get("title") for each in model.requests]
    assert schemas[0] == "T" and sorted(map(str, schemas[1:])) == ["None", "T"]


async def test_on_request_is_told_of_what_came_over_the_socket() -> None:
    told: list[tuple[Any, str]] = []

    def on_request(request: LMRequest, response: LMResponse) -> None:
        told.append((request.prompt, (response.chat_completion or fail()).response))

    async with LMHandler(echo(on_request=on_request)) as handler:
        await ask(handler.address, LMRequest(prompt="one"))
        await ask(handler.address, LMRequest(prompts=["two"]))

    assert told == [("one", "echo: one"), ("two", "echo: two")]


# ── clients that are not what they should be ─────────────────────────────────────────────

WRONG = {
    "no JSON": (packed(b"GET / HTTP/1.1"), "not an LMRequest"),
    "no text": (packed(b"\xff\xfe"), "not an LMRequest"),
    "a list": (packed([1]), "object"),
    "null": (packed(None), "object"),
    "nothing": (packed(b""), "not an LMRequest"),
    "no prompt": (packed({"depth": 1}), "Missing 'prompt'"),
    "a prompt that is a number": (packed({"prompt": 3}), "prompt"),
    "a depth that is a text": (packed({"prompt": "x", "depth": "1"}), "depth"),
    "prompts of the wrong kind": (packed({"prompts": ["a", 2]}), "prompts"),
    "messages without a role": (packed({"prompt": [{"content": "x"}]}), "role"),
    "tools of the wrong kind": (packed({"prompt": "x", "tools": {"a": 1}}), "tools"),
    "a tool without a name": (packed({"prompt": "x", "tools": [{"type": "function"}]}), "tools"),
    "a choice of a tool that is not there": (
        packed({"prompt": "x", "tool_choice": "other", "tools": [STATS]}),
        "other",
    ),
    "nothing but depth": (packed(b'{"prompt":' + b"[" * 100_000), "not an LMRequest"),
}


@pytest.mark.parametrize(("said", "why"), WRONG.values(), ids=WRONG)
async def test_a_wrong_request_is_answered_with_why_and_the_next_is_answered(said: bytes, why: str) -> None:
    async with LMHandler(echo()) as handler:
        wrong, right = await exchanged(handler.address, said, packed({"prompt": "hi", "depth": 0}), count=2)

    assert wrong.chat_completion is None and why in (wrong.error or "")
    assert (right.chat_completion or fail()).response == "echo: hi"


async def test_a_length_beyond_the_limit_is_refused_before_it_is_read() -> None:
    async with LMHandler(echo(), limits=HandlerLimits(frame_bytes=1_000)) as handler:
        [refused] = await exchanged(handler.address, b"\xff\xff\xff\xff")
        assert "at most 1000" in (refused.error or "")
        [refused] = await exchanged(handler.address, struct.pack(">I", 1_001) + b"x" * 4_000_000)
        assert "at most 1000" in (refused.error or "")
        assert (await ask(handler.address, LMRequest(prompt="x"))).success


async def test_an_answer_beyond_the_limit_is_an_answer_that_says_so() -> None:
    model = ScriptedModel([text("y" * 2_000)])
    async with LMHandler(Queries({}, model), limits=HandlerLimits(frame_bytes=1_000)) as handler:
        response = await ask(handler.address, LMRequest(prompt="x"))
    assert "cannot be sent" in (response.error or "") and response.chat_completion is None


async def test_all_requests_together_have_a_bound_and_small_ones_still_get_in() -> None:
    limits = HandlerLimits(held_bytes=300_000, arrival_seconds=20)
    async with LMHandler(echo(), limits=limits) as handler:
        assert isinstance(handler.address, tuple)
        reader, writer = await asyncio.open_connection(*handler.address)
        writer.write(struct.pack(">I", 400_000) + b" " * 300_000)  # held, and never finished
        await writer.drain()
        [refused] = await exchanged(handler.address, packed({"prompt": "x" * 200_000}))
        small = await ask(handler.address, LMRequest(prompt="small"))
        writer.transport.abort()
        del reader

    assert "too much" in (refused.error or "")
    assert small.success


async def test_a_request_that_trickles_in_is_not_waited_for() -> None:
    async with LMHandler(echo(), limits=HandlerLimits(arrival_seconds=0.1)) as handler:
        [refused] = await exchanged(handler.address, packed({"prompt": "x"})[:7])
    assert "did not arrive within 0.1 s" in (refused.error or "")


async def test_a_length_may_arrive_byte_by_byte() -> None:
    whole = packed({"prompt": "x", "depth": 0})
    async with LMHandler(echo()) as handler:
        [answer] = await exchanged(handler.address, *(bytes([each]) for each in whole), count=1)
    assert answer.success


async def test_a_client_that_says_nothing_is_dropped() -> None:
    async with LMHandler(echo(), limits=HandlerLimits(idle_seconds=0.05)) as handler:
        assert await exchanged(handler.address) == []


@pytest.mark.parametrize("said", [b"", b"\0\0", packed({"prompt": "x"})[:-1]], ids=["at once", "early", "late"])
async def test_a_client_that_breaks_off_leaves_nothing_behind(said: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with LMHandler(echo()) as handler:
            await exchanged(handler.address, said, end=True)
            assert (await ask(handler.address, LMRequest(prompt="x"))).success
    assert caplog.text == ""


async def test_several_requests_on_one_connection_are_answered_in_order() -> None:
    asked = [packed({"prompt": str(number), "depth": 0}) for number in range(5)]
    async with LMHandler(echo()) as handler:
        at_once = await exchanged(handler.address, b"".join(asked), count=5)
        one_by_one = await exchanged(handler.address, *asked, count=5)

    expected = [f"echo: {number}" for number in range(5)]
    assert [(each.chat_completion or fail()).response for each in at_once] == expected
    assert [(each.chat_completion or fail()).response for each in one_by_one] == expected


async def test_a_client_that_hangs_up_cancels_its_query() -> None:
    model = Endless()
    async with LMHandler(Queries({}, model)) as handler, asyncio.timeout(20):
        asking = asyncio.create_task(ask(handler.address, LMRequest(prompt="x")))
        await model.begun.wait()
        asking.cancel()
        await model.cancelled.wait()
        await asyncio.gather(asking, return_exceptions=True)


async def test_closing_the_handler_cancels_what_is_asked_and_listens_no_more() -> None:
    model = Endless()
    async with asyncio.timeout(20):
        async with LMHandler(Queries({}, model)) as handler:
            address = handler.address
            asking = asyncio.create_task(ask(address, LMRequest(prompt="x")))
            await model.begun.wait()
        assert model.cancelled.is_set()
        with pytest.raises(ModelUnavailable):
            await asking
        with pytest.raises(ModelUnavailable, match="cannot be reached"):
            await ask(address, LMRequest(prompt="x"))
    with pytest.raises(UsageError, match="not listening"):
        _ = handler.address


async def test_the_longest_idle_connection_makes_room_for_another() -> None:
    limits = HandlerLimits(connections=2, grace_seconds=0)
    async with LMHandler(echo(), limits=limits) as handler, asyncio.timeout(20):
        assert isinstance(handler.address, tuple)
        idle = [await asyncio.open_connection(*handler.address) for _ in range(2)]
        assert (await ask(handler.address, LMRequest(prompt="x"))).success
        assert await idle[0][0].read() == b""
        idle[1][1].write(packed({"prompt": "still here", "depth": 0}))
        assert len(await idle[1][0].readexactly(4)) == 4
        for _, writer in idle:
            writer.transport.abort()


async def test_when_all_connections_are_busy_the_next_is_told_so() -> None:
    model = Endless()
    async with LMHandler(Queries({}, model), limits=HandlerLimits(connections=1)) as handler, asyncio.timeout(20):
        asking = asyncio.create_task(ask(handler.address, LMRequest(prompt="x")))
        await model.begun.wait()
        [refused] = await exchanged(handler.address)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert "too many connections" in (refused.error or "")


async def test_one_that_has_just_come_keeps_its_place_and_the_next_is_told_even_if_it_says_much() -> None:
    limits = HandlerLimits(connections=1, grace_seconds=600)
    async with LMHandler(echo(), limits=limits) as handler, asyncio.timeout(20):
        assert isinstance(handler.address, tuple)
        reader, writer = await asyncio.open_connection(*handler.address)
        refused = await ask(handler.address, LMRequest(prompt="x" * 10_000_000))
        with pytest.raises(RateLimited, match="too many connections"):
            list(events_of(refused))
        writer.write(packed({"prompt": "still here", "depth": 0}))
        assert len(await reader.readexactly(4)) == 4
        writer.transport.abort()


async def test_of_many_that_come_at_once_none_is_forgotten() -> None:
    limits = HandlerLimits(connections=1, grace_seconds=0)
    async with LMHandler(echo(), limits=limits) as handler, asyncio.timeout(20):
        assert isinstance(handler.address, tuple)
        with ExitStack() as opened:  # without a turn of the loop between them: they are accepted one after another
            clients = [opened.enter_context(socket.create_connection(handler.address, 10)) for _ in range(20)]
            assert [await asyncio.to_thread(_ends, client) for client in clients[:-1]] == [True] * 19


def _ends(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


async def test_a_client_that_asked_twice_and_hangs_up_cancels_its_query() -> None:
    model = Endless()
    async with LMHandler(Queries({}, model)) as handler, asyncio.timeout(20):
        assert isinstance(handler.address, tuple)
        _, writer = await asyncio.open_connection(*handler.address)
        writer.write(packed({"prompt": "a"}))
        await model.begun.wait()
        writer.write(packed({"prompt": "b"}))
        await writer.drain()
        writer.close()
        await model.cancelled.wait()


async def test_a_client_that_does_not_take_its_answer_is_not_waited_for() -> None:
    taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def arrived(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = HandlerConnection(reader, writer, HandlerLimits(departure_seconds=0.1), RequestMemory(1_000).place())
        taken.set_result(await peer.send(LMResponse(error="y" * 30_000_000)))
        peer.abort()

    async with await asyncio.start_server(arrived, "127.0.0.1", 0) as server, asyncio.timeout(20):
        with socket.create_connection(server.sockets[0].getsockname()):
            assert await taken is False


# ── who may ask ──────────────────────────────────────────────────────────────────────────


async def test_a_secret_is_asked_for_and_seen_by_nobody_else() -> None:
    told: list[LMRequest] = []
    queries = echo(on_request=lambda request, response: told.append(request))
    async with LMHandler(queries, secret="open sesame") as handler:
        for wrong in (None, "", "open sesam", "\u00e9"):
            refused = await ask(handler.address, LMRequest(prompt="x"), secret=wrong)
            assert "secret" in (refused.error or "") and "sesame" not in (refused.error or "")
        odd = LMRequest(prompt="x", metadata={"secret": ["open sesame"]})
        assert not (await ask(handler.address, odd)).success
        assert told == []
        assert (await ask(handler.address, LMRequest(prompt="x"), secret="open sesame")).success
        assert (await ask(handler.address, LMRequest(prompts=["y"]), secret="open sesame")).success

    assert "sesame" not in str(told)


async def test_a_unix_socket_is_for_its_owner_and_is_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "lm.sock"
    async with LMHandler(echo(), path=path) as handler:
        assert handler.address == path
        assert path.stat().st_mode & 0o777 == 0o600
        assert (await ask(path, LMRequest(prompt="x"))).success
        blocking = await asyncio.to_thread(send_lm_request, str(path), LMRequest(prompt="y"), 20)
        assert (blocking.chat_completion or fail()).response == "echo: y"
        with pytest.raises(UsageError, match="choose another path"):
            await LMHandler(echo(), path=path).start()
    assert not path.exists()


async def test_a_unix_socket_that_another_made_in_its_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "lm.sock"
    async with LMHandler(echo(), path=path):
        path.rename(tmp_path / "aside")
        path.write_text("somebody else's")
    assert path.read_text() == "somebody else's"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org", ""])
def test_no_other_machine_can_ask_unless_there_is_a_secret(host: str) -> None:
    with pytest.raises(UsageError, match="other machines"):
        LMHandler(echo(), host)
    LMHandler(echo(), host, secret="x")


async def test_a_port_that_is_taken_is_said() -> None:
    async with LMHandler(echo()) as handler:
        assert isinstance(handler.address, tuple)
        with pytest.raises(UsageError, match="cannot listen"):
            await LMHandler(echo(), *handler.address).start()


def test_without_an_event_loop_it_serves_from_a_thread_of_its_own() -> None:
    with LMHandler(echo()) as handler:
        address = handler.address
        many = send_lm_request(address, LMRequest(prompts=["a", "fail"]), 20)
        one = send_lm_request(address, LMRequest(prompt="b"), 20, depth=1)
    assert [each.error for each in many.chat_completions or ()] == [None, "slow down"]
    assert (one.chat_completion or fail()).response == "echo: b"
    assert not send_lm_request(address, LMRequest(prompt="b"), 20).success
