"""Side effects over the gateway: nobody is there to ask, so the answer says which request waits, and for what run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from handrail import Executor, tool
from handrail.core.events import CallIntended, CallSettled, ReplyGiven, RunStarted, ToolsOffered
from handrail.core.messages import ResultMessage
from handrail.execute.rules import Rules
from handrail.journal.journal import SqliteJournal
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import finished, gateway_of, scene, served

HELLO: Any = [{"role": "user", "content": "Post hi"}]
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def poster() -> tuple[Any, list[str]]:
    wall: list[str] = []

    @tool(side_effects=True)
    async def post(words: str) -> str:
        """Put something on the wall."""
        wall.append(words)
        return "done"

    return post, wall


@pytest.mark.parametrize("confirm", ["tell", "pause"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_side_effect_waits_and_runs_once_when_it_is_allowed_and_the_request_repeated(
    tmp_path: Path, confirm: str, stream: bool
) -> None:
    post, wall = poster()
    told = [[text("It waits."), finished()]] if confirm == "tell" else []
    model = ScriptedModel(
        [call("post", words="hi"), finished("tool_calls")], *told, [text("It is posted."), finished()]
    )
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Executor([post], journal=journal) as executor,
        served(gateway_of(model, executor)) as there,
    ):
        client = there.openai()

        async def ask(**ours: str) -> tuple[str, dict[str, Any]]:
            asked: Any = {"model": "m", "messages": HELLO, "extra_body": {"handrail": {"confirm": confirm, **ours}}}
            if not stream:
                reply = await client.chat.completions.create(**asked)
                return reply.choices[0].message.content or "", (reply.model_extra or {}).get("handrail", {})
            chunks = [chunk async for chunk in await client.chat.completions.create(**asked, stream=True)]
            said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            return said, (chunks[-1].model_extra or {}).get("handrail", {})

        said, ours = await ask()
        assert said == ("It waits." if confirm == "tell" else "")
        [waiting] = ours["waiting"]
        assert waiting["tool"] == "post" and wall == []

        async with Executor([post], journal=journal) as person:  # as `handrail confirm allow` does
            await person.answer(ours["run"], waiting["request"], allow=True, by="a person")
        said, ours_now = await ask(run=ours["run"])
        assert await ask(run=ours["run"]) == (said, ours_now)

    assert said == "It is posted." and wall == ["hi"] and "waiting" not in ours_now
    last = model.requests[-1].messages[-1]
    assert isinstance(last, ResultMessage) and last.result.content == "done"


async def test_a_run_resumed_without_a_decision_waits_on_and_another_persons_run_is_not_there() -> None:
    post, wall = poster()
    model = ScriptedModel(*[[call("post", words="hi"), finished("tool_calls")], [text("It waits."), finished()]] * 2)
    async with scene(model, tools=[post], journal=MemoryJournal()) as there:
        reply = await there.openai().chat.completions.create(model="m", messages=HELLO)
        run = (reply.model_extra or {})["handrail"]["run"]
        again: Any = {"handrail": {"run": run, "confirm": "pause"}}
        waits = await there.openai().chat.completions.create(model="m", messages=HELLO, extra_body=again)
        with pytest.raises(openai.NotFoundError, match="no run"):
            await there.openai("bob").chat.completions.create(model="m", messages=HELLO, extra_body=again)
        with pytest.raises(openai.BadRequestError, match="questions of that run"):
            other: Any = [{"role": "user", "content": "Post ho"}]
            await there.openai().chat.completions.create(model="m", messages=other, extra_body=again)

    first, second = ((each.model_extra or {})["handrail"]["waiting"] for each in (reply, waits))
    assert first == second and wall == []


@pytest.mark.parametrize("confirm", ["tell", "pause"])
async def test_a_call_that_waited_beside_one_of_the_clients_is_in_the_history_when_the_client_comes_back(
    confirm: str,
) -> None:
    post, wall = poster()
    model = ScriptedModel(
        [text("Both."), call("post", words="hi"), call("weather"), finished("tool_calls")], [text("Done."), finished()]
    )
    journal = MemoryJournal()
    async with scene(model, tools=[post], journal=journal) as there:
        client = there.openai()

        async def ask(messages: Any, **ours: str) -> Any:
            ours = {"confirm": confirm, **ours}
            return await client.chat.completions.create(
                model="m", messages=messages, tools=[WEATHER], extra_body={"handrail": ours}
            )

        waits = (await ask(HELLO)).model_extra["handrail"]
        async with Executor([post], journal=journal) as person:
            await person.answer(waits["run"], waits["waiting"][0]["request"], allow=True, by="a person")
        reply = (await ask(HELLO, run=waits["run"])).choices[0].message
        result = {"role": "tool", "tool_call_id": reply.tool_calls[0].id, "content": "rain"}
        last = await ask([*HELLO, reply, result])

    assert last.choices[0].message.content == "Done." and wall == ["hi"]
    said = model.requests[-1].messages
    assert [type(message).__name__.removesuffix("Message") for message in said] == [
        *("User", "Assistant", "Invocation", "Invocation", "Result", "Result")
    ]
    assert [each.result.content for each in said if isinstance(each, ResultMessage)] == ["done", "rain"]


async def test_a_standing_rule_speaks_for_a_person() -> None:
    post, wall = poster()
    model = ScriptedModel([call("post", words="hi"), finished("tool_calls")], [text("Posted."), finished()])
    async with scene(model, tools=[post], approver=Rules(["allow post words=hi"])) as there:
        reply = await there.openai().chat.completions.create(model="m", messages=HELLO)

    assert wall == ["hi"] and reply.model_extra == {}


async def test_an_answer_is_recorded_as_any_run_is_and_a_call_of_the_clients_is_not_recorded_as_run() -> None:
    journal = MemoryJournal()
    model = ScriptedModel([call("add", a=1, b=2), call("weather"), finished("tool_calls")])
    async with scene(model, journal=journal) as there:
        raw = await there.openai().chat.completions.with_raw_response.create(model="m", messages=HELLO, tools=[WEATHER])
        events = await journal.history(raw.headers["x-handrail-run"])

    begun = next(event for event in events if isinstance(event, RunStarted))
    assert begun.principal == "alice"
    assert [event.tools for event in events if isinstance(event, ToolsOffered)] == [("add", "post", "weather")]
    assert [len(event.messages or ()) for event in events if isinstance(event, ReplyGiven)] == [3]
    assert [event.tool for event in events if isinstance(event, CallIntended | CallSettled)] == ["add", "add"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_progress_is_told_in_comments_when_it_is_asked_for(path: str) -> None:
    replies = [call("add", a=1, b=2), finished("tool_calls")], [text("3"), finished()]
    body = {"model": "m", "messages": HELLO, "max_tokens": 9, "stream": True}
    async with scene(ScriptedModel(*replies, *replies)) as there, there.http() as client:
        plain = await client.post(path, json=body)
        told = await client.post(path, json={**body, "handrail": {"progress": True}})

    comments = [line for line in told.text.splitlines() if line.startswith(": handrail ")]
    assert [line.split('"')[3] for line in comments] == ["tool_begun", "tool_ended"]
    assert ": handrail" not in plain.text and '"add"' not in plain.text
