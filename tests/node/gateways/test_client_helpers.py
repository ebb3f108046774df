"""What the official clients build on their APIs, against the gateways: parsed answers, and loops that run tools."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from anthropic import beta_async_tool
from pydantic import BaseModel

from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import finished, scene

HELLO: Any = [{"role": "user", "content": "Where?"}]


class City(BaseModel):
    name: str


class Weather(BaseModel):
    """The weather."""

    city: str


def in_two_replies() -> ScriptedModel:
    return ScriptedModel(
        [text("Let me see."), call("add", a=1, b=2), finished("tool_calls")],
        [text('{"name":'), text('"Kleve"}'), finished()],
    )


async def test_an_answer_that_is_to_have_a_form_has_nothing_before_it() -> None:
    async with scene(in_two_replies()) as there:
        reply = await there.openai().chat.completions.parse(model="m", messages=HELLO, response_format=City)
    assert reply.choices[0].message.parsed == City(name="Kleve")

    async with scene(in_two_replies()) as there:
        asking = there.openai().chat.completions.stream(model="m", messages=HELLO, response_format=City)
        async with asking as stream:
            streamed = await stream.get_final_completion()
    assert streamed.choices[0].message.parsed == City(name="Kleve")

    async with scene(in_two_replies()) as there:
        parsed = await there.anthropic().messages.parse(model="m", max_tokens=9, messages=HELLO, output_format=City)
    assert parsed.parsed_output == City(name="Kleve")


async def test_calls_for_the_client_come_without_words_when_the_answer_is_to_have_a_form() -> None:
    model = ScriptedModel([text("Let me see."), call("Weather", city="Kleve"), finished("tool_calls")])
    async with scene(model) as there:
        reply = await there.openai().chat.completions.parse(
            model="m", messages=HELLO, response_format=City, tools=[openai.pydantic_function_tool(Weather)]
        )

    said = reply.choices[0].message
    assert said.content is None and said.parsed is None
    assert [each.function.parsed_arguments for each in said.tool_calls or ()] == [Weather(city="Kleve")]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_loop_of_the_client_runs_its_tools_beside_those_of_the_node(stream: bool) -> None:
    asked: list[str] = []

    @beta_async_tool
    async def weather(city: str) -> str:
        """The weather."""
        asked.append(city)
        return f"rain in {city}"

    model = ScriptedModel(
        [call("add", a=1, b=2), call("weather", city="Kleve"), call("weather", city="Goch"), finished("tool_calls")],
        [text("It rains."), finished()],
    )
    async with scene(model) as there:
        runner: Any = there.anthropic().beta.messages.tool_runner(
            model="m", max_tokens=99, messages=HELLO, tools=[weather], stream=stream
        )
        last = await runner.until_done()

    assert [block.text for block in last.content] == ["It rains."]
    assert sorted(asked) == ["Goch", "Kleve"]
    assert len(model.requests) == 2  # the client's first try, with a thread, was refused before the model was asked
