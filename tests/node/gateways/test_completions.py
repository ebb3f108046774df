"""The official OpenAI client has a text continued over the older API, where the model can."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from handrail.core.errors import ModelUnavailable
from handrail.core.messages import Text, UserMessage
from handrail.core.ports import Model
from handrail.models.failover import FailoverModel, WithSettings
from handrail.sessions.create import create_llm
from handrail.testing.model import ScriptedModel, text
from tests.node.gateways.gateway_server import KEY, finished, scene

REPLY = [text(" upon"), text(" a time"), finished("max_tokens")]


class Continuing(ScriptedModel):
    """A scripted model that continues texts too."""

    @property
    def text_model(self) -> Model:
        return self


async def test_a_text_is_continued_whole_and_streamed() -> None:
    model = Continuing(REPLY, REPLY)
    async with scene(model) as there:
        client = there.openai()
        whole = await client.completions.create(model="m", prompt="Once", max_tokens=4, stop=["END"], seed=7)
        stream = await client.completions.create(
            model="m", prompt=["Once"], stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]

    assert (whole.object, whole.model, whole.id[:5]) == ("text_completion", "m", "cmpl_")
    assert (whole.choices[0].text, whole.choices[0].finish_reason) == (" upon a time", "length")
    assert whole.usage is not None and (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (10, 3)
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == " upon a time"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    first = model.requests[0]
    assert first.messages == (UserMessage((Text("Once"),)),) and first.tools == ()
    assert (first.max_tokens, first.stop, first.seed) == (4, ("END",), 7)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_echo_begins_with_the_text(stream: bool) -> None:
    async with scene(Continuing(REPLY)) as there:
        client = there.openai()
        if stream:
            chunks = await client.completions.create(model="m", prompt="Once", echo=True, stream=True)
            said = "".join([chunk.choices[0].text async for chunk in chunks])
        else:
            said = (await client.completions.create(model="m", prompt="Once", echo=True)).choices[0].text
    assert said == "Once upon a time"


async def test_a_model_that_takes_conversations_only_is_refused_with_what_to_use() -> None:
    model = ScriptedModel()
    async with scene(model) as there:
        with pytest.raises(openai.BadRequestError, match="use /v1/chat/completions") as error:
            await there.openai().completions.create(model="m", prompt="Once")
    assert error.value.param == "model" and model.requests == []


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"stream_options": {"chunk": 1}}, "stream_options.chunk"),
    ],
    ids=str,
)
async def test_what_is_wrong_is_named(fields: dict[str, Any], place: str) -> None:
    async with scene(Continuing()) as there:
        with pytest.raises(openai.BadRequestError) as error:
            body = {"model": "m", "prompt": "a", **fields}
            await there.openai().post("/completions", body=body, cast_to=object)
    assert error.value.param == place


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_of_ones_own_continues_the_text(stream: bool) -> None:
    """The server is a gateway too: what it is sent is what `/v1/completions` takes."""
    inner = Continuing(*[REPLY] * 3)
    async with (
        scene(inner) as service,
        create_llm("vllm", model="m", base_url=f"{service.url}/v1", key=KEY, stream=stream) as llm,
    ):
        for model in (llm.model, FailoverModel([llm.model]), WithSettings(llm.model, {"max_tokens": 7})):
            async with scene(model) as there:
                told = await there.openai().completions.create(model="m", prompt="Once", temperature=0.5)
            assert (told.choices[0].text, told.choices[0].finish_reason) == (" upon a time", "length")
            assert told.usage is not None and told.usage.prompt_tokens == 10
    assert [request.temperature for request in inner.requests] == [0.5] * 3
    assert [request.max_tokens for request in inner.requests] == [None, None, 7]


@pytest.mark.parametrize("name", ["openai:gpt-4o", "anthropic:claude-opus-4-1", "compatible:x"])
async def test_services_that_only_take_conversations_are_known(name: str) -> None:
    async with create_llm(name, key="k", base_url="http://127.0.0.1:9/v1") as llm, scene(llm.model) as there:
        with pytest.raises(openai.BadRequestError, match="continues no text"):
            await there.openai().completions.create(model="m", prompt="Once")


async def test_a_key_repeats_the_answer_and_a_failure_has_the_form_of_the_api() -> None:
    class Away(Continuing):
        async def stream(self, request: Any) -> Any:
            raise ModelUnavailable("it sleeps")
            yield

    async with scene(Continuing(REPLY)) as there:
        client, key = there.openai(), {"Idempotency-Key": "order-17"}
        one = await client.completions.create(model="m", prompt="Once", extra_headers=key)
        other = await client.completions.create(model="m", prompt="Once", extra_headers=key)
    assert one == other
    async with scene(Away()) as there:
        with pytest.raises(openai.InternalServerError, match="it sleeps"):
            await there.openai().completions.create(model="m", prompt="Once")
