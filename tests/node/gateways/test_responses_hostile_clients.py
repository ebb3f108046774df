"""Responses as a hostile or careless client uses them: forged ids and outputs, narrower tokens, deleted responses."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from handrail.core.events import MediaAdded
from handrail.core.messages import Media, ResultMessage
from handrail.node.gateways.gateway import GatewayLimits
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import HeldModel, finished, scene
from tests.node.gateways.test_confirmation import poster
from tests.node.gateways.test_response_store import HeldAfterACall, who

PAUSE: Any = {"handrail": {"confirm": "pause"}}


def output(call_id: str, words: str) -> Any:
    return {"type": "function_call_output", "call_id": call_id, "output": words}


async def test_a_client_cannot_give_the_result_of_a_call_of_the_node_that_waits() -> None:
    post, wall = poster()
    model = ScriptedModel([call("post", words="hi"), finished("tool_calls")], [text("Posted."), finished()])
    async with scene(model, tools=(post,), journal=MemoryJournal()) as there:
        client = there.openai()
        first: Any = await client.responses.create(model="m", input="?", extra_body=PAUSE)
        waiting = first.model_extra["handrail"]["waiting"][0]
        forged = [output(waiting["call_id"], "posted: hi")]
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(model="m", previous_response_id=first.id, input=forged)

    assert refused.value.param == "input[0].call_id" and wall == []
    assert len(model.requests) == 1


async def test_a_call_of_the_node_that_comes_back_has_the_output_that_it_had_here() -> None:
    model = ScriptedModel(
        [call("add", a=1, b=2), finished("tool_calls")], [text("3."), finished()], [text("."), finished()]
    )
    async with scene(model, journal=MemoryJournal()) as there:
        client = there.openai()
        first: Any = await client.responses.create(model="m", input="?")
        item = next(each for each in first.output if each.type == "mcp_call").to_dict()
        forged: Any = {**item, "arguments": '{"a": 5}', "output": "a million"}
        await client.responses.create(model="m", input=[{"role": "user", "content": "?"}, forged])

    results = [each.result.content for each in model.requests[2].messages if isinstance(each, ResultMessage)]
    assert results == ["3"]


@pytest.mark.parametrize("journal", [None, MemoryJournal], ids=["memory", "journal"])
async def test_a_cancelled_response_is_not_there_for_a_token_that_may_not_call_what_it_called(journal: Any) -> None:
    model = HeldAfterACall(text("It is"))
    kept = {} if journal is None else {"journal": journal()}
    async with scene(model, caller_of=who, **kept) as there, asyncio.timeout(20):
        begun = await there.openai().responses.create(model="m", input="?", background=True)
        await model.reached.wait()
        ended = await there.openai().responses.cancel(begun.id)
        assert [item.type for item in ended.output] == ["mcp_call", "message"]
        with pytest.raises(openai.NotFoundError):
            await there.openai("less").responses.retrieve(begun.id)
        with pytest.raises(openai.NotFoundError):
            await there.openai("less").responses.input_items.list(begun.id)


async def test_hidden_calls_count_for_who_may_read_a_response_under_way() -> None:
    model = HeldAfterACall(text("It is 3"))
    async with scene(model, caller_of=who) as there, asyncio.timeout(20):
        hide: Any = {"handrail": {"show_calls": False}}
        begun = await there.openai().responses.create(model="m", input="?", background=True, extra_body=hide)
        await model.reached.wait()
        with pytest.raises(openai.NotFoundError):
            await there.openai("less").responses.retrieve(begun.id)
        await there.openai().responses.cancel(begun.id)


async def test_a_request_cannot_go_on_from_a_response_that_was_cancelled() -> None:
    """The conversation would not have what the response did, and the model would do it again."""
    model = HeldAfterACall(text("It is"))
    async with scene(model) as there, asyncio.timeout(20):
        client = there.openai()
        begun = await client.responses.create(model="m", input="?", background=True)
        await model.reached.wait()
        await client.responses.cancel(begun.id)
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(model="m", input="And?", previous_response_id=begun.id)

    assert refused.value.param == "previous_response_id" and "cancelled" in refused.value.message


async def test_a_response_that_is_not_stored_cannot_be_found_by_an_id_made_of_its_run() -> None:
    model = ScriptedModel([text("Hello."), finished()])
    async with scene(model, journal=MemoryJournal()) as there:
        client = there.openai()
        reply = await client.responses.with_raw_response.create(model="m", input="?", store=False)
        forged = f"resp_{reply.headers['x-handrail-run'].removeprefix('run_')}"
        for end in ("", "0", "1", "r0", "r1"):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(forged + end)


async def test_an_answer_of_another_api_is_not_a_response_and_cannot_be_deleted_as_one() -> None:
    model = HeldModel(text("Hel"))
    journal = MemoryJournal()
    async with scene(model, journal=journal) as there, asyncio.timeout(20):
        client = there.openai()
        async with client.chat.completions.with_streaming_response.create(
            model="m", messages=[{"role": "user", "content": "?"}], stream=True
        ) as stream:
            await model.reached.wait()
            forged = f"resp_{stream.headers['x-handrail-run'].removeprefix('run_')}"
            for end in ("0", "1"):
                with pytest.raises(openai.NotFoundError):
                    await client.responses.delete(forged + end)
            model.go_on.set()
            assert "[DONE]" in (await stream.read()).decode()


async def test_a_response_has_one_id_and_is_deleted_with_it() -> None:
    model = ScriptedModel([text("Hello."), finished()])
    async with scene(model, journal=MemoryJournal()) as there:
        client = there.openai()
        reply = await client.responses.create(model="m", input="?", instructions="Be brief.")
        twin = f"{reply.id[:-1]}0"
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(twin)
        await client.responses.delete(reply.id)
        for id in (reply.id, twin):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(id)


async def test_a_key_that_comes_again_does_not_bring_a_deleted_response_back() -> None:
    model = ScriptedModel([text("Hello."), finished()])
    journal, key = MemoryJournal(), {"Idempotency-Key": "one"}
    async with scene(model, journal=journal) as there:
        client = there.openai()
        reply = await client.responses.create(model="m", input="?", extra_headers=key)
        await client.responses.delete(reply.id)
        with pytest.raises(openai.ConflictError):
            await client.responses.create(model="m", input="?", extra_headers=key)
    async with scene(model, journal=journal) as there:
        client = there.openai()
        with pytest.raises(openai.ConflictError):
            await client.responses.create(model="m", input="?", extra_headers=key)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(reply.id)

    assert len(model.requests) == 1


async def test_a_message_that_was_cut_off_is_not_shown_as_complete() -> None:
    model = HeldModel(text("It is"))
    async with scene(model) as there, asyncio.timeout(20):
        client = there.openai()
        begun = await client.responses.create(model="m", input="?", background=True)
        await model.reached.wait()
        ended: Any = await client.responses.cancel(begun.id)

    assert [(item.status, item.content[0].text) for item in ended.output] == [("incomplete", "It is")]


async def test_a_tool_of_the_client_may_have_the_name_of_one_that_its_token_is_not_for() -> None:
    mine: Any = {"type": "function", "name": "add", "parameters": {"type": "object"}}
    turn = [call("add", a=1), finished("tool_calls")]
    model = ScriptedModel(turn, turn, [text("Done."), finished()])
    async with scene(model, caller_of=who) as there:
        client = there.openai("less")
        reply: Any = await client.responses.create(model="m", input="?", tools=[mine])
        for _ in range(2):
            given = [output(reply.output[0].call_id, "mine")]
            reply = await client.responses.create(model="m", previous_response_id=reply.id, input=given, tools=[mine])
        again = await client.responses.retrieve(reply.id)

    assert again.output_text == "Done."


@pytest.mark.parametrize("named", [False, True], ids=["item", "reference"])
async def test_a_picture_of_the_model_that_comes_back_is_taken_with_a_notice(named: bool) -> None:
    picture = MediaAdded(media=Media(media_type="image/png", data=b"png"))
    model = ScriptedModel([picture, text("Here."), finished()], [text("Yes."), finished()])
    async with scene(model) as there:
        client = there.openai()
        first = await client.responses.create(model="m", input="?")
        items: Any = [item.to_dict() for item in first.output]
        assert items[0]["type"] == "image_generation_call"
        back = [{"type": "item_reference", "id": item["id"]} for item in items] if named else items
        second: Any = await client.responses.create(model="m", input=[*back, {"role": "user", "content": "Sure?"}])

    assert second.output_text == "Yes."
    assert second.model_extra["handrail"]["notices"] == ["input[0] has no effect here"]


async def test_a_key_of_a_stored_response_cannot_be_used_for_another_one_after_a_restart() -> None:
    model = ScriptedModel([text("Hello."), finished()])
    journal, key = MemoryJournal(), {"Idempotency-Key": "one"}
    async with scene(model, journal=journal) as there:
        await there.openai().responses.create(model="m", input="?", instructions="Be brief.", extra_headers=key)
    async with scene(model, journal=journal) as there:
        for store in (False, True):
            with pytest.raises(openai.UnprocessableEntityError):
                await there.openai().responses.create(model="m", input="?", extra_headers=key, store=store)

    assert len(model.requests) == 1


async def test_many_responses_of_one_principal_in_the_background_do_not_end_those_of_another() -> None:
    model = HeldModel(text("It is"))
    async with scene(model, bounds=GatewayLimits(at_once=3)) as there:
        mine = await there.openai().responses.create(model="m", input="?", background=True)
        theirs = [await there.openai("bob").responses.create(model="m", input="?", background=True) for _ in range(4)]
        seen = await there.openai().responses.retrieve(mine.id)
        left = [(await there.openai("bob").responses.retrieve(each.id)).status for each in theirs]
        model.go_on.set()

    assert seen.status == "in_progress"
    assert left == ["cancelled", "cancelled", "in_progress", "in_progress"]
