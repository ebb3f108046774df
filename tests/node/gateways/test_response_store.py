"""Responses by their ids: gone on from, read, listed, cancelled and deleted, also after a restart of the node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
from starlette.requests import Request

from handrail import Executor, Principal
from handrail.core.events import ModelEvent, ReasoningDelta, Recorded, RunFinished
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    InvocationMessage,
    ResultMessage,
    SupervisorMessage,
    UserMessage,
)
from handrail.core.model_request import ModelRequest
from handrail.core.redact import Secret
from handrail.journal.journal import SqliteJournal
from handrail.node.bus.request import Caller
from handrail.node.gateways.gateway import GatewayLimits
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import HeldModel, caller_by_bearer_token, finished, scene
from tests.node.gateways.test_confirmation import poster
from tests.node.gateways.test_responses import WEATHER


def said(model: ScriptedModel, at: int) -> list[str]:
    """What the model was shown, in short."""
    found = []
    for message in model.requests[at].messages:
        match message:
            case SupervisorMessage(text=words):
                found.append(f"system {words}")
            case UserMessage():
                found.append(f"user {message.text}")
            case AssistantMessage(text=words):
                found.append(f"assistant {words}".strip())
            case InvocationMessage(call=made):
                found.append(f"call {made.name}")
            case ResultMessage(result=result):
                found.append(f"result {result.content}")
    return found


CONTINUED = [
    "system Then say.",
    "user How warm?",
    "assistant",
    "call add",
    "assistant",
    "call weather",
    "result 3",
    "result rain",
]


def asks_for_the_weather() -> list[list[Any]]:
    return [
        [call("add", a=1, b=2), finished("tool_calls")],
        [call("weather", city="Kleve"), finished("tool_calls")],
    ]


def in_order(messages: list[str]) -> list[str]:
    """Results stand where their calls are in one reply, and after it in another: only what is there counts here."""
    return sorted(messages)


async def go_on(client: openai.AsyncOpenAI, first: Any) -> Any:
    asked = next(item for item in first.output if item.type == "function_call")
    return await client.responses.create(
        model="m",
        previous_response_id=first.id,
        instructions="Then say.",
        input=[{"type": "function_call_output", "call_id": asked.call_id, "output": "rain"}],
        tools=[WEATHER],
    )


async def test_a_request_goes_on_from_an_earlier_response_without_its_instructions() -> None:
    model = ScriptedModel(*asks_for_the_weather(), [text("Rain."), finished()])
    async with scene(model) as there:
        client = there.openai()
        first = await client.responses.create(model="m", input="How warm?", instructions="First look.", tools=[WEATHER])
        second = await go_on(client, first)

    assert second.output_text == "Rain." and second.previous_response_id == first.id
    assert in_order(said(model, 2)) == in_order(CONTINUED)


async def test_after_a_restart_the_journal_has_what_a_request_goes_on_from(tmp_path: Path) -> None:
    before = ScriptedModel(*asks_for_the_weather())
    after = ScriptedModel([text("Rain."), finished()])
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        async with scene(before, journal=journal) as there:
            first: Any = await there.openai().responses.create(
                model="m", input="How warm?", instructions="First look.", tools=[WEATHER]
            )
        async with scene(after, journal=journal) as there:
            client = there.openai()
            again: Any = await client.responses.retrieve(first.id)
            second = await go_on(client, first)

    assert again.output == first.output
    assert (again.status, again.usage, again.instructions) == ("completed", first.usage, "First look.")
    assert again.created_at >= first.created_at  # when the run began, which is when its first entry was written
    assert second.output_text == "Rain."
    assert in_order(said(after, 0)) == in_order(CONTINUED)


class Killed(MemoryJournal):
    """The record of a node that was killed before it could write that its runs have ended."""

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        if not isinstance(event, RunFinished):
            await super().append(event, durable=durable)


async def test_a_response_of_a_node_that_was_killed_is_complete_if_its_last_reply_was() -> None:
    journal, held = Killed(), HeldModel(text("Hel"))
    async with scene(ScriptedModel([text("Hello."), finished()]), journal=journal) as there:
        complete = await there.openai().responses.create(model="m", input="?")
    async with scene(held, journal=journal) as there:
        cut_off = await there.openai().responses.create(model="m", input="?", background=True)
        await held.reached.wait()
        await there.openai().responses.cancel(cut_off.id)
    async with scene(ScriptedModel(), journal=journal) as there:
        client = there.openai()
        first, second = [await client.responses.retrieve(each.id) for each in (complete, cut_off)]

    assert (first.status, first.output) == ("completed", complete.output)
    assert second.status == "failed" and second.error is not None and "cut off" in second.error.message


@pytest.mark.parametrize("journal", [None, MemoryJournal], ids=["memory", "journal"])
async def test_items_that_a_client_only_names_are_put_in(journal: Any) -> None:
    model = ScriptedModel(
        [ReasoningDelta(text="Hm."), text("Let me see."), call("add", a=1, b=2), finished("tool_calls")],
        [text("It is 3."), finished()],
        [text("Yes, 3."), finished()],
    )
    kept = {} if journal is None else {"journal": journal()}
    bounds = GatewayLimits() if journal is None else GatewayLimits(kept=0)
    async with scene(model, bounds=bounds, **kept) as there:
        client = there.openai()
        first = await client.responses.create(model="m", input="1 and 2?")
        named: Any = [{"type": "item_reference", "id": item.id} for item in first.output]
        history: Any = [{"role": "user", "content": "1 and 2?"}, *named, {"role": "user", "content": "Sure?"}]
        await client.responses.create(model="m", input=history)

    assert said(model, 2) == [
        "user 1 and 2?",
        "assistant Let me see.",
        "call add",
        "result 3",
        "assistant It is 3.",
        "user Sure?",
    ]


async def test_an_item_that_a_response_did_not_have_is_not_there() -> None:
    async with scene(ScriptedModel([text("Hello."), finished()])) as there:
        client = there.openai()
        first: Any = await client.responses.create(model="m", input="?")
        named: Any = [{"type": "item_reference", "id": f"{first.output[0].id[:-1]}7"}]
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="m", input=named)


async def test_a_call_of_the_node_that_comes_back_without_its_output_is_put_in_with_it() -> None:
    model = ScriptedModel([call("add", a=1, b=2), finished("tool_calls")], [text("3"), finished()], [text("Yes.")])
    async with scene(model) as there:
        client = there.openai()
        first: Any = await client.responses.create(model="m", input="1 and 2?")
        made = {**first.output[0].to_dict(), "output": None, "error": None}
        history: Any = [{"role": "user", "content": "1 and 2?"}, made, {"role": "user", "content": "Sure?"}]
        await client.responses.create(model="m", input=history)

    assert said(model, 2) == ["user 1 and 2?", "assistant", "call add", "result 3", "user Sure?"]


async def test_a_response_that_is_not_stored_is_not_there() -> None:
    model = ScriptedModel([text("Hello."), finished()])
    async with scene(model, journal=MemoryJournal()) as there:
        client = there.openai()
        reply = await client.responses.create(model="m", input="?", store=False)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(reply.id)
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(model="m", input="?", previous_response_id=reply.id)
        with pytest.raises(openai.NotFoundError):
            named: Any = [{"type": "item_reference", "id": reply.output[0].id}]
            await client.responses.create(model="m", input=named)

    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


async def who(request: Request) -> tuple[Caller, Secret | None]:
    """A door that also knows a token of alice that is not for the tool `add`."""
    if request.headers["authorization"] == "Bearer less":
        return Caller(principal=Principal("alice", ("llm.chat@2.0", "post")), trust="member"), None
    return await caller_by_bearer_token(request)


@pytest.mark.parametrize("kept", [1_000, 0], ids=["memory", "journal"])
async def test_a_response_is_there_for_its_principal_with_a_token_that_may_call_what_it_called(kept: int) -> None:
    model = ScriptedModel([call("add", a=1, b=2), finished("tool_calls")], [text("3"), finished()])
    bounds = GatewayLimits(kept=kept)
    async with scene(model, caller_of=who, journal=MemoryJournal(), bounds=bounds) as there:
        reply = await there.openai().responses.create(model="m", input="?")
        assert (await there.openai().responses.retrieve(reply.id)).output_text == "3"
        for key in ("bob", "less"):
            with pytest.raises(openai.NotFoundError):
                await there.openai(key).responses.retrieve(reply.id)
            with pytest.raises(openai.BadRequestError):
                await there.openai(key).responses.create(model="m", input="?", previous_response_id=reply.id)
        with pytest.raises(openai.PermissionDeniedError):
            await there.openai("nothing").responses.retrieve(reply.id)
        with pytest.raises(openai.AuthenticationError):
            await there.openai("wrong").responses.retrieve(reply.id)


class HeldAfterACall(HeldModel):
    """Calls `add`, and then says something and waits."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if len(request.messages) == 1:
            yield call("add", a=1, b=2)
            yield finished("tool_calls")
            return
        async for event in super().stream(request):
            yield event


async def test_a_response_under_way_is_not_there_for_a_token_that_may_not_call_what_it_called() -> None:
    model = HeldAfterACall(text("It is"))
    async with scene(model, caller_of=who) as there, asyncio.timeout(20):
        begun = await there.openai().responses.create(model="m", input="?", background=True)
        await model.reached.wait()
        assert (await there.openai().responses.retrieve(begun.id)).status == "in_progress"
        for key in ("bob", "less"):
            with pytest.raises(openai.NotFoundError):
                await there.openai(key).responses.retrieve(begun.id)
            with pytest.raises(openai.NotFoundError):
                await there.openai(key).responses.cancel(begun.id)
        await there.openai().responses.cancel(begun.id)


@pytest.mark.parametrize("journal", [None, MemoryJournal], ids=["memory", "journal"])
async def test_a_deleted_response_stays_deleted(journal: Any) -> None:
    model = ScriptedModel([text("Hello."), finished()])
    kept = {} if journal is None else {"journal": journal()}
    async with scene(model, **kept) as there:
        client = there.openai()
        reply = await client.responses.create(model="m", input="?")
        await client.responses.delete(reply.id)
        for _ in range(2):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(reply.id)
    async with scene(model, **kept) as there:
        with pytest.raises(openai.NotFoundError):
            await there.openai().responses.retrieve(reply.id)


async def test_the_input_of_a_response_is_listed_in_pages() -> None:
    model = ScriptedModel([text("Hello."), finished()])
    parts: Any = [
        {"type": "input_text", "text": "b"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
    ]
    history: Any = [
        {"role": "user", "content": "a"},
        {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "rain"},
        {"role": "user", "content": parts},
    ]
    async with scene(model) as there:
        client = there.openai()
        reply = await client.responses.create(model="m", input=history, instructions="Be brief.")
        page = await client.responses.input_items.list(reply.id, limit=3, order="asc")
        listed = [item async for item in page]
        newest: Any = await client.responses.input_items.list(reply.id, limit=1)

    assert [item.type for item in listed] == ["message", "function_call", "function_call_output", "message"]
    assert newest.data[0].content[1].image_url == parts[1]["image_url"]


async def test_a_response_in_the_background_is_read_when_it_is_there() -> None:
    model = HeldModel(text("Hello."))
    async with scene(model) as there, asyncio.timeout(20):
        client = there.openai()
        begun = await client.responses.create(model="m", input="?", background=True)
        await model.reached.wait()
        meanwhile = await client.responses.retrieve(begun.id)
        model.go_on.set()
        done = meanwhile
        while done.status == "in_progress":
            done = await client.responses.retrieve(begun.id)

    assert begun.status == meanwhile.status == "in_progress"
    assert (done.status, done.output_text, done.background) == ("completed", "Hello.", True)


async def test_a_response_in_the_background_can_be_cancelled_and_then_stays_so() -> None:
    model = HeldModel(text("Hello."))
    async with scene(model) as there, asyncio.timeout(20):
        client = there.openai()
        begun = await client.responses.create(model="m", input="?", background=True)
        await model.reached.wait()
        first = await client.responses.cancel(begun.id)
        second = await client.responses.cancel(begun.id)
        await model.dropped.wait()

    assert first.status == second.status == "cancelled"


async def test_a_request_with_a_key_that_comes_again_gets_the_same_response() -> None:
    model = ScriptedModel([text("Once."), finished()])
    async with scene(model) as there:
        client = there.openai()
        key = {"Idempotency-Key": "order-17"}
        one = await client.responses.create(model="m", input="?", extra_headers=key)
        two = await client.responses.create(model="m", input="?", extra_headers=key)
        with pytest.raises(openai.UnprocessableEntityError):
            await client.responses.create(model="m", input="other", extra_headers=key)

    assert one == two and len(model.requests) == 1


async def test_after_a_restart_a_key_gets_the_response_that_is_on_record() -> None:
    journal, key = MemoryJournal(), {"Idempotency-Key": "order-17"}
    model = ScriptedModel([call("add", a=1, b=2), finished("tool_calls")], [text("3"), finished()])
    async with scene(model, journal=journal) as there:
        one = await there.openai().responses.create(model="m", input="?", extra_headers=key)
    async with scene(ScriptedModel(), journal=journal) as there:
        two = await there.openai().responses.create(model="m", input="?", extra_headers=key)

    assert (one.id, one.output) == (two.id, two.output)


async def test_a_side_effect_that_waited_is_shown_with_its_result_when_its_run_is_taken_up(tmp_path: Path) -> None:
    post, wall = poster()
    model = ScriptedModel([call("post", words="hi"), finished("tool_calls")], [text("Posted."), finished()])
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        scene(model, tools=(post,), journal=journal) as there,
    ):
        client = there.openai()
        pause: Any = {"handrail": {"confirm": "pause"}}
        first: Any = await client.responses.create(model="m", input="?", extra_body=pause)
        waiting = first.model_extra["handrail"]
        assert [(item.type, item.status) for item in first.output] == [("mcp_call", "incomplete")]
        request = waiting["waiting"][0]["request"]
        async with Executor([post], journal=journal) as person:
            await person.answer(waiting["run"], request, allow=True, by="alice")
            person.runs.let_go(waiting["run"])
        again: Any = {"handrail": {"run": waiting["run"], "confirm": "pause"}}
        stream = await client.responses.create(model="m", input="?", extra_body=again, stream=True)
        last: Any = [event async for event in stream][-1]

    assert wall == ["hi"]
    assert last.response.id == first.id
    assert [(item.type, item.status) for item in last.response.output] == [
        ("mcp_call", "completed"),
        ("message", "completed"),
    ]


async def test_what_a_service_wants_back_goes_back_when_a_request_goes_on_from_a_response() -> None:
    signature = Artefact("somebody", {"signature": "abc"})
    ends: Any = finished("tool_calls")
    model = ScriptedModel(
        [call("weather", city="Kleve"), msgspec.structs.replace(ends, artefacts=(signature,))],
        [text("Rain."), finished()],
    )
    async with scene(model) as there:
        client = there.openai()
        first = await client.responses.create(model="m", input="How warm?", tools=[WEATHER])
        await go_on(client, first)

    replies = [each for each in model.requests[1].messages if isinstance(each, AssistantMessage)]
    assert replies[0].artefacts == (signature,)
