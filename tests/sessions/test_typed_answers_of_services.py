"""How each service is asked for a typed answer: by its own schemas for replies where it has them, else by a tool."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest

from handrail import Session, create_llm
from handrail.models.codec import WireRequest
from handrail.models.transport import Endpoint
from handrail.models.wire_events import WireEvent
from tests.sessions.test_create import NATIVE, PLACES, WIRES
from tests.sessions.wire_replies import CALLS, OBJECT, TEXTS


@dataclass(frozen=True)
class Place:
    location: str


class Obliging:
    """A service that answers as it is asked: by a call of `final_answer`, or with JSON."""

    def __init__(self, wire: str) -> None:
        self._call = json.loads(json.dumps(CALLS[wire]).replace("get_weather", "final_answer"))
        self._text = json.loads(json.dumps(TEXTS[wire]).replace('"Hello"', json.dumps(json.dumps(OBJECT))))
        self.bodies: list[str] = []

    async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        self.bodies.append(json.dumps(request.body, default=str))
        yield WireEvent(self._call if self.asks_for_call else self._text)

    @property
    def asks_for_call(self) -> bool:
        return "final_answer" in self.bodies[-1]

    async def aclose(self) -> None:
        pass


def look(location: str) -> str:
    """Look at a place."""
    return location


@pytest.mark.parametrize("tools", [(), (look,)], ids=["alone", "beside a tool"])
@pytest.mark.parametrize("name", NATIVE)
def test_every_service_gives_a_typed_answer(name: str, tools: Any) -> None:
    service = Obliging(WIRES.get(name, "chat"))
    llm = create_llm(name, model="m-1", key="k", transport=service, stream=False, **PLACES.get(name, {}))
    with llm, Session(llm, tools=tools) as session:
        assert session.ask("Where?", returns=Place).value == Place("Paris")

    assert len(service.bodies) == 1
    assert '"location"' in service.bodies[0]


@pytest.mark.parametrize(
    ("model", "roles"),
    [
        ("mistral:mistral-large", ["user", "assistant", "tool", "assistant", "user"]),
        ("vllm:m", ["user", "assistant", "tool", "user"]),
    ],
)
def test_the_next_prompt_after_an_answer_by_a_call_is_one_that_the_service_takes(model: str, roles: list[str]) -> None:
    service = Obliging("chat")
    with create_llm(model, key="k", transport=service, stream=False) as llm, Session(llm, tools=[look]) as session:
        session.ask("Where?", returns=Place)
        session.ask("And now?", returns=Place)

    assert [message["role"] for message in json.loads(service.bodies[1])["messages"]] == roles


def asked_by_call(model: str, tools: Any = (), **options: Any) -> bool:
    name = model.partition(":")[0]
    service = Obliging(WIRES.get(name, "chat"))
    with (
        create_llm(model, key="k", transport=service, stream=False, **options) as llm,
        Session(llm, tools=tools) as session,
    ):
        session.ask("Where?", returns=Place)
    return service.asks_for_call


@pytest.mark.parametrize(
    "model", ["openai:gpt-5", "openai-responses:gpt-5", "anthropic:claude-sonnet-4-5", "gemini:gemini-3-pro"]
)
def test_a_service_that_holds_replies_to_schemas_beside_tools_is_asked_by_one(model: str) -> None:
    assert not asked_by_call(model)
    assert not asked_by_call(model, [look])


@pytest.mark.parametrize("model", ["gemini:gemini-2.5-pro", "ollama:qwen3", "cohere:command-a", "vllm:m"])
def test_a_service_that_does_so_only_without_tools_is_asked_by_a_call_beside_them(model: str) -> None:
    assert not asked_by_call(model)
    assert asked_by_call(model, [look])


@pytest.mark.parametrize("model", ["deepseek:deepseek-chat", "anthropic:claude-3-haiku", "bedrock:amazon.nova-pro"])
def test_a_service_that_never_does_is_asked_by_a_call(model: str) -> None:
    assert asked_by_call(model)
    assert asked_by_call(model, [look])


def test_a_model_that_takes_no_tools_is_asked_for_json_in_words() -> None:
    service = Obliging("chat")
    llm = create_llm("deepseek:deepseek-chat", key="k", tools="none", transport=service, stream=False)
    with llm, Session(llm) as session:
        assert session.ask("Where?", returns=Place).value == Place("Paris")
    assert "Reply with JSON only" in service.bodies[0]


def test_calls_that_are_text_and_a_reply_by_a_schema_are_not_asked_for_at_once() -> None:
    service = Obliging("chat")
    llm = create_llm("openai:gpt-x", key="k", tools="prompted:hermes", transport=service, stream=False)
    with llm, Session(llm) as session:
        session.ask("Where?", returns=Place)
    assert "json_schema" in service.bodies[0]
    with llm, Session(llm, tools=[look]) as session:
        session.ask("Where?", returns=Place)
    assert "json_schema" not in service.bodies[-1] and "final_answer" in service.bodies[-1]
