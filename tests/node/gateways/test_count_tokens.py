"""The official Anthropic client is told how many tokens a request has."""

from __future__ import annotations

import base64
from typing import Any

import anthropic
import pytest
from hypothesis import given, strategies as st

from handrail.core.messages import Text as Words, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.models.failover import FailoverModel, WithSettings
from handrail.node.gateways.token_count import estimated_tokens
from handrail.sessions.create import create_llm
from handrail.testing.model import ScriptedModel
from tests.node.gateways.gateway_server import KEY, add, post, scene

HELLO: Any = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {"name": "weather", "description": "What the sky does.", "input_schema": {"type": "object"}}


async def test_a_count_has_everything_that_the_model_would_read() -> None:
    model = ScriptedModel()
    dot = base64.b64encode(b"\x89PNG").decode()
    image: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": dot}}
    async with scene(model, tools=[]) as there:
        count = there.anthropic().messages.count_tokens
        plain = await count(model="m", messages=HELLO)
        longer = await count(model="m", messages=[{"role": "user", "content": "Hello, " * 100}])
        system = await count(model="m", messages=HELLO, system="Be brief.")
        tools = await count(model="m", messages=HELLO, tools=[WEATHER])
        picture = await count(model="m", messages=[{"role": "user", "content": [image]}])
        beta = await there.anthropic().beta.messages.count_tokens(model="m", messages=HELLO, betas=["x"])
    async with scene(model, tools=[add, post]) as there:
        with_ours = await there.anthropic().messages.count_tokens(model="m", messages=HELLO)
        without = await there.anthropic().messages.count_tokens(
            model="m", messages=HELLO, extra_body={"handrail": {"tools": "none"}}
        )

    assert 1 <= plain.input_tokens == beta.input_tokens == without.input_tokens < 20
    assert 100 <= longer.input_tokens <= 300
    assert all(each.input_tokens > plain.input_tokens for each in (system, tools, with_ours))
    assert picture.input_tokens > 1000
    assert "estimate" in (plain.model_extra or {})["handrail"]["notices"][0]
    assert model.requests == []


async def test_a_service_that_counts_is_asked_and_its_count_is_given() -> None:
    """The service is a gateway too: what it counts is what the official API would be sent."""
    given: Any = {"model": "m", "messages": HELLO, "system": "Be brief.", "tools": [WEATHER]}
    async with (
        scene(ScriptedModel(), tools=[]) as service,
        create_llm("anthropic", model="m", base_url=service.url, key=KEY) as llm,
    ):
        for model in (llm.model, FailoverModel([llm.model]), WithSettings(llm.model, {"max_tokens": 7})):
            async with scene(model, tools=[add]) as there:
                told = await there.anthropic().messages.count_tokens(**given)
                other = await there.anthropic().messages.count_tokens(model="m", messages=HELLO)
            assert told.model_extra == {} and told.input_tokens > other.input_tokens > 1


async def test_a_service_that_speaks_the_api_and_does_not_count_is_not_asked_in_vain() -> None:
    async with scene(ScriptedModel(), tools=[]) as service:
        uncounted = create_llm("anthropic", model="m", base_url=f"{service.url}/v1/other", key=KEY)
        async with uncounted as llm, scene(llm.model, tools=[]) as there:
            told = await there.anthropic().messages.count_tokens(model="m", messages=HELLO)
        locked = create_llm("anthropic", model="m", base_url=service.url, key="bad")
        async with locked as llm, scene(llm.model, tools=[]) as there:
            with pytest.raises(anthropic.InternalServerError):
                await there.anthropic().messages.count_tokens(model="m", messages=HELLO)

    assert "estimate" in (told.model_extra or {})["handrail"]["notices"][0]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"messages": []}, "messages"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"stream": True}, "stream"),
        ({"temperature": 0.5}, "temperature"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ],
    ids=str,
)
async def test_what_is_wrong_is_named_in_the_form_of_the_api(fields: dict[str, Any], place: str) -> None:
    async with scene(ScriptedModel()) as there:
        with pytest.raises(anthropic.BadRequestError) as error:
            body = {"model": "m", "messages": HELLO, **fields}
            await there.anthropic().post("/v1/messages/count_tokens", body=body, cast_to=object)
    said: Any = error.value.body
    assert said["error"]["type"] == "invalid_request_error" and said["error"]["message"].startswith(f"{place}: ")


async def test_a_token_or_a_model_that_is_not_good_is_refused_as_for_an_answer() -> None:
    async with scene(ScriptedModel()) as there:
        with pytest.raises(anthropic.NotFoundError):
            await there.anthropic().messages.count_tokens(model="other", messages=HELLO)
        with pytest.raises(anthropic.PermissionDeniedError):
            await there.anthropic("nothing").messages.count_tokens(model="m", messages=HELLO)
        with pytest.raises(anthropic.AuthenticationError):
            await there.anthropic("nobody").messages.count_tokens(model="m", messages=HELLO)


@given(st.text(), st.text())
def test_more_text_never_has_fewer_tokens(one: str, more: str) -> None:
    def tokens(text: str) -> int:
        return estimated_tokens(ModelRequest(messages=(UserMessage((Words(text),)),)))

    assert 0 < tokens(one) <= tokens(one + more) <= tokens(one) + tokens(more)
