"""The real embedded model, through its public door."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import ModelUnavailable, RequestRefused, UsageError
from handrail.core.events import CallDelta, CallRequested, ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.jsontext import parse_object
from handrail.core.messages import InvocationMessage, ResultMessage, Text, UserMessage
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.models.local.model import LocalModel, arguments_fit, create_local
from handrail.models.local.weights import EngineFiles
from tests.models.local.measured_requests import ALL, CHAT, DESK, ONE, TWO, Case, asked, right

LONG = "Tell me a very long story about a ship."


def say(text: str, **settings: Any) -> ModelRequest:
    return ModelRequest(messages=(UserMessage((Text(text),)),), **settings)


async def reply(model: LocalModel, request: ModelRequest) -> list[ModelEvent]:
    async with asyncio.timeout(120), aclosing(model.stream(request)) as events:
        return [event async for event in events]


def calls_in(events: list[ModelEvent]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, CallRequested)]


def text_in(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def _right(case: Case, events: list[ModelEvent]) -> bool:
    return right(case, [(call.name, parse_object(str(call.arguments))) for call in calls_in(events)])


async def test_it_answers_with_words_and_counts_them(local: LocalModel) -> None:
    events = await reply(local, say("Say hello.", max_tokens=24))
    last = events[-1]
    assert text_in(events)
    assert isinstance(last, ReplyFinished) and last.model == "local"
    assert 0 < last.usage.output_tokens <= 24


async def test_a_call_comes_in_pieces_that_join_to_its_arguments(local: LocalModel) -> None:
    events = await reply(local, say("What's the weather in Paris?", tools=DESK))
    (call,) = calls_in(events)
    pieces = [event for event in events if isinstance(event, CallDelta)]
    assert (call.name, call.arguments) == ("get_weather", '{"location": "Paris"}')
    assert len(pieces) > 2
    assert {piece.call_id for piece in pieces} == {call.id}
    assert "".join(piece.arguments for piece in pieces) == call.arguments
    assert isinstance(events[-1], ReplyFinished) and events[-1].stop == "tool_calls"


@pytest.mark.requirement("hearthnet.backends.grammar")
async def test_every_call_names_an_offered_tool_and_fits_its_schema(local: LocalModel) -> None:
    """Among them some that are offered sixteen tools, of which eight are shown."""
    cases = [*ONE[:6], *ONE[9:13], *(case for case in ONE if case.tools == ALL)][:12]
    fitting = correct = 0
    for case in cases:
        events = await reply(local, asked(case, max_tokens=96))
        offers = {tool.name: tool for tool in case.tools}
        fitting += all(arguments_fit(offers[call.name], call) for call in calls_in(events))
        correct += _right(case, events)
    assert fitting == len(cases)
    assert correct >= len(cases) - 2


HARD: dict[str, tuple[dict[str, Any], str]] = {
    "bounds": ({"level": {"type": "number", "minimum": 100, "maximum": 101}}, "Set the level to 12.5"),
    "pattern": ({"code": {"type": "string", "pattern": "^[A-Z]{3}-\\d{2}$"}}, "Set the code to foo"),
    "choice": ({"mode": {"enum": ["eco_17", "boost_99"]}}, "Set the mode to comfortable"),
    "whole number": ({"count": {"type": "integer"}}, "Set the count to three and a half"),
    "list": ({"tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}}, "Tag it red"),
    "nested": (
        {"box": {"type": "object", "properties": {"wide": {"type": "integer"}}, "required": ["wide"]}},
        "Set the box to 4 wide",
    ),
    "reference": ({"colour": {"$ref": "#/$defs/colour"}}, "Set the colour to green"),
    "anything": ({"value": True}, "Set the value to 7"),
}


@pytest.mark.requirement("hearthnet.backends.grammar")
@pytest.mark.parametrize("kind", HARD)
async def test_arguments_fit_whatever_was_asked_for(local: LocalModel, kind: str) -> None:
    properties, said = HARD[kind]
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "$defs": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    }
    offer = ToolOffer("set_value", "Set a value of the machine", schema)
    choices: tuple[ToolChoice, ...] = ("auto", "required")
    for choice in choices:
        events = await reply(local, say(said, tools=(offer,), tool_choice=choice, max_tokens=128))
        assert all(arguments_fit(offer, call) for call in calls_in(events))
        assert choice == "auto" or len(calls_in(events)) == 1


async def test_several_calls_come_in_one_reply_only_where_they_are_wanted(local: LocalModel) -> None:
    case = TWO[0]
    assert _right(case, await reply(local, asked(case)))
    assert len(calls_in(await reply(local, asked(case, parallel=False)))) == 1


async def test_no_tool_is_called_for_small_talk(local: LocalModel) -> None:
    for case in CHAT[:6]:
        assert calls_in(await reply(local, asked(case, max_tokens=24))) == []


async def test_none_never_calls_and_shows_no_markup(local: LocalModel) -> None:
    events = await reply(local, say("What's the weather in Paris?", tools=DESK, tool_choice="none", max_tokens=32))
    assert calls_in(events) == []
    assert text_in(events) and "<tool_call" not in text_in(events)


async def test_required_calls_also_when_there_is_nothing_to_call_for(local: LocalModel) -> None:
    (call,) = calls_in(await reply(local, say("Hello, how are you?", tools=DESK, tool_choice="required")))
    offers = {tool.name: tool for tool in DESK}
    assert arguments_fit(offers[call.name], call)


async def test_a_named_tool_is_called_whatever_was_asked(local: LocalModel) -> None:
    request = say("What's the weather in Paris?", tools=DESK, tool_choice=NamedTool("add"))
    events = await reply(local, request)
    (call,) = calls_in(events)
    assert call.name == "add" and arguments_fit(DESK[1], call)
    assert len([event for event in events if isinstance(event, CallDelta)]) > 2


async def test_a_named_tool_that_is_not_offered_is_refused(local: LocalModel) -> None:
    with pytest.raises(RequestRefused, match="'nothing'"):
        await reply(local, say("Hi", tools=DESK, tool_choice=NamedTool("nothing")))


async def test_after_a_result_it_says_a_sentence_with_the_fact(local: LocalModel) -> None:
    call = ToolCall("c1", "add", {"a": 17, "b": 25})
    history = (
        UserMessage((Text("What is 17 plus 25?"),)),
        InvocationMessage(call),
        ResultMessage(ToolResult("c1", "add", content="42", outcome="ok")),
    )
    events = await reply(local, ModelRequest(messages=history, tools=DESK))
    assert "42" in text_in(events) and calls_in(events) == []


async def test_a_reply_can_be_held_to_a_schema(local: LocalModel) -> None:
    schema = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"]}
    events = await reply(local, say("How is your mood?", response_schema=schema, max_tokens=48))
    assert parse_object(text_in(events))["mood"] in ("good", "bad")


async def test_a_second_session_does_not_wait_for_the_end_of_the_first(local: LocalModel) -> None:
    speaks = asyncio.Event()

    async def first() -> None:
        async with aclosing(local.stream(say(LONG, max_tokens=2000))) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    speaks.set()

    async with asyncio.timeout(60):
        telling = asyncio.create_task(first())
        await speaks.wait()
        events = await reply(local, say("Hi", max_tokens=2))
        assert isinstance(events[-1], ReplyFinished) and not telling.done()
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def test_a_killed_process_is_replaced_at_the_next_request(local: LocalModel) -> None:
    await reply(local, say("Hi", max_tokens=2))
    before = local.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    events = await reply(local, say("Hi", max_tokens=2))
    assert isinstance(events[-1], ReplyFinished)
    assert local.pid not in (None, before)
    assert any(isinstance(event, Notice) and "loading the weights" in event.text for event in events)


async def test_a_reply_that_was_cut_by_a_kill_is_an_error(local: LocalModel) -> None:
    with pytest.raises(ModelUnavailable, match="signal 9"):
        async with asyncio.timeout(60), aclosing(local.stream(say(LONG, max_tokens=2000))) as events:
            async for event in events:
                if isinstance(event, TextDelta) and local.pid is not None:
                    os.kill(local.pid, signal.SIGKILL)


async def test_a_reply_that_nobody_reads_any_more_stops(files: EngineFiles) -> None:
    """One slot: the next reply can begin only when the last one has stopped, which would take a minute by itself."""
    async with create_local(slots=1, context=8192) as model:
        for _ in range(3):
            async with asyncio.timeout(30), aclosing(model.stream(say(LONG, max_tokens=6000))) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        break
        assert isinstance((await reply(model, say("Hi", max_tokens=2)))[-1], ReplyFinished)


async def test_more_requests_than_may_wait_are_refused(files: EngineFiles) -> None:
    async with create_local(slots=1, queue=1) as model:
        asks = [reply(model, say("Hi", max_tokens=2)) for _ in range(6)]
        done = await asyncio.gather(*asks, return_exceptions=True)
    refused = [each for each in done if isinstance(each, ModelUnavailable)]
    assert refused and "busy" in str(refused[0])
    assert any(isinstance(each, list) for each in done)


async def test_a_conversation_that_is_too_long_is_refused_and_the_next_is_not(local: LocalModel) -> None:
    with pytest.raises(RequestRefused, match="context"):
        await reply(local, say("word " * 6000))
    assert await reply(local, say("Hi", max_tokens=2))


async def test_memory_is_bounded(files: EngineFiles) -> None:
    async with create_local(memory_bytes=300 * 2**20) as model:
        with pytest.raises((RequestRefused, ModelUnavailable)):
            await reply(model, say("Hi", max_tokens=2))


def test_closing_ends_the_process_and_leaves_nothing(files: EngineFiles) -> None:
    model = create_local()
    asyncio.run(reply(model, say("Hi", max_tokens=2)))
    pid = model.pid
    assert pid is not None
    assert _tcp_ports(pid) == []
    (door,) = _doors(pid)
    model.close()
    assert not Path(f"/proc/{pid}").exists()
    assert not door.parent.exists()
    with pytest.raises(UsageError, match="closed"):
        asyncio.run(reply(model, say("Hi")))


def test_one_model_serves_one_event_loop_after_another(local: LocalModel) -> None:
    asyncio.run(reply(local, say("Hi", max_tokens=2)))
    pid = local.pid
    asyncio.run(reply(local, say("Hi", max_tokens=2)))
    assert local.pid == pid


def _tcp_ports(pid: int) -> list[str]:
    """The sockets of a process that listen on a port."""
    inodes = _sockets(pid)
    tables = [Path(f"/proc/{pid}/net/{table}") for table in ("tcp", "tcp6")]
    rows = [row.split() for table in tables if table.exists() for row in table.read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[9] in inodes]


def _doors(pid: int) -> list[Path]:
    """The files at which a process listens. Other models of this machine have theirs."""
    rows = [row.split() for row in Path(f"/proc/{pid}/net/unix").read_text().splitlines()]
    return [Path(row[7]) for row in rows if len(row) == 8 and row[6] in _sockets(pid)]


def _sockets(pid: int) -> set[str]:
    links = map(os.readlink, Path(f"/proc/{pid}/fd").iterdir())
    return {link[8:-1] for link in links if "socket:" in link}


def test_a_model_that_is_forgotten_ends_its_process(files: EngineFiles) -> None:
    model = create_local()
    asyncio.run(reply(model, say("Hi", max_tokens=2)))
    pid = model.pid
    del model
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


PROGRAM = """
import asyncio, os, sys
from handrail.core.messages import Text, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.models.local.model import create_local

async def main():
    model = create_local()
    async for event in model.stream(ModelRequest(messages=(UserMessage((Text("Hi"),)),), max_tokens=2)):
        pass
    print(model.pid, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


def test_the_process_dies_with_a_program_that_is_killed(files: EngineFiles) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    assert _ends(int(done.stdout))


def _ends(pid: int) -> bool:
    """Wait until a process that is not our child has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 20)[0])
    finally:
        os.close(handle)
