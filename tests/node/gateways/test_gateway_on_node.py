"""The gateway on a whole node: real tokens, its door, its guards, and the end of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from starlette.requests import Request

from handrail import Executor
from handrail.core.events import ModelEvent
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.core.redact import Secret
from handrail.node.bus.request import Caller
from handrail.node.capability_bus import CapabilityBus
from handrail.node.gateways.openapi import PATHS
from handrail.node.server.authentication import caller_of
from handrail.node.server.lifecycle import NodeLifecycle
from handrail.node.server.node import NodeServer, ServerLimits
from handrail.node.server.serving import serve
from handrail.node.tokens.admission import TokenAdmission
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import issue
from handrail.node.tokens.token_store import TokenStore
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import HeldModel, ServedGateway, add, finished, gateway_of, post

HELLO: Any = [{"role": "user", "content": "Hello"}]


class Node:
    def __init__(self) -> None:
        self.identity = Identity.new()
        self.store = TokenStore()
        self.admission = TokenAdmission(node_id=self.identity.node_id, store=self.store)

    def token(self, *capabilities: str, **limits: Any) -> Secret:
        return issue(self.identity, self.store, Scope.of(capabilities, **limits))[1]


@asynccontextmanager
async def node(model: Model) -> AsyncIterator[tuple[Node, ServedGateway, asyncio.Task[None]]]:
    made, life = Node(), NodeLifecycle()
    servers: list[NodeServer] = []

    async def who(request: Request) -> tuple[Caller, Secret | None]:
        return caller_of(servers[0], request.headers)

    async with (
        CapabilityBus(node_id=made.identity.node_id, admission=made.admission) as bus,
        Executor([add, post]) as executor,
    ):
        gateway = gateway_of(
            model,
            executor,
            caller_of=who,
            admission=made.admission,
            identify=made.admission.identify,
            life=life,
        )
        servers.append(NodeServer(bus=bus, gateways=gateway.routes(), life=life, limits=ServerLimits(grace=0.1)))
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(servers[0], ready=address.set_result))
        there = ServedGateway(await address)
        try:
            yield made, there, serving
        finally:
            await there.close()
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
            made.store.close()


async def test_a_token_of_the_node_opens_every_api_and_only_the_tools_that_it_names() -> None:
    replies = [call("add", a=1, b=2), finished("tool_calls")], [text("3"), finished()]
    model = ScriptedModel(*replies, *replies, *replies)
    async with node(model) as (made, there, _):
        key = made.token("llm.chat@2.0", "tool.add@1.0")
        one = await there.openai(key).chat.completions.create(model="m", messages=HELLO)
        other: Any = await there.anthropic(key).messages.create(model="m", max_tokens=9, messages=HELLO)
        third = await there.openai(key).responses.create(model="m", input="?")
        again = await there.openai(key).responses.retrieve(third.id)
        models = await there.anthropic(key).models.list()

    assert third.output_text == again.output_text == "3"
    assert one.choices[0].message.content == other.content[0].text == "3"
    assert [tool.name for tool in model.requests[0].tools] == ["add"]
    assert [each.id for each in models.data] == ["m"]


async def test_a_token_for_everything_opens_every_tool() -> None:
    model = ScriptedModel([text("ok"), finished()])
    async with node(model) as (made, there, _):
        await there.openai(made.token("*")).chat.completions.create(model="m", messages=HELLO)

    assert [tool.name for tool in model.requests[0].tools] == ["add", "post"]


async def test_tokens_that_are_not_good_for_it_are_refused_as_clients_expect() -> None:
    async with node(ScriptedModel([text("once"), finished()])) as (made, there, _):
        with pytest.raises(openai.AuthenticationError):
            await there.openai("hntoken://v1/no.such.token").chat.completions.create(model="m", messages=HELLO)
        with pytest.raises(openai.AuthenticationError):
            await there.openai("hntoken://v1/no.such.token").models.list()
        with pytest.raises(anthropic.PermissionDeniedError):
            narrow = made.token("rag.query@1.0")
            await there.anthropic(narrow).messages.create(model="m", max_tokens=9, messages=HELLO)
        with pytest.raises(openai.PermissionDeniedError):
            other = made.token("llm.chat@2.0", params_constraints={"model": ["another"]})
            await there.openai(other).chat.completions.create(model="m", messages=HELLO)
        often = there.openai(made.token("llm.chat@2.0", rate_limit_per_minute=1))
        await often.chat.completions.create(model="m", messages=HELLO)
        with pytest.raises(openai.RateLimitError) as limited:
            await often.chat.completions.create(model="m", messages=HELLO)
        assert int(limited.value.response.headers["retry-after"]) > 0


class Echo:
    """A model that always has an answer, and first calls what it must."""

    name = "m"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if request.tool_choice != "auto" and request.tool_choice != "none":
            yield call(request.tools[0].name if request.tools else "none")
            yield finished("tool_calls")
            return
        yield text("ok")
        yield finished()


SETTINGS = """
# Which models and tools there are, and that calls have results, is nothing that OpenAPI can say.
checks.positive_data_acceptance.enabled = false
"""


@pytest.mark.slow
async def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    described = {"openapi": "3.1.0", "info": {"title": "gateways", "version": "1"}, "paths": PATHS}
    (tmp_path / "openapi.json").write_text(json.dumps(described))
    async with node(Echo()) as (made, there, _):
        token = made.token("llm.chat@2.0", "tool.add@1.0")
        tester = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).with_name("schemathesis")), "run", "openapi.json", "--url", there.url),
            *("-H", f"Authorization: Bearer {token}", "--seed", "1"),
            *("--phases", "coverage", "--no-color"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await tester.communicate()
    assert tester.returncode == 0, said.decode()


async def test_when_the_node_ends_an_answer_on_its_way_is_ended_and_its_client_told() -> None:
    model = HeldModel(text("Hello"))
    async with node(model) as (made, there, serving):
        client = there.openai(made.token("llm.chat@2.0"))
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        async with asyncio.timeout(20):
            await model.reached.wait()
            serving.cancel()
            with pytest.raises(openai.APIError, match="shut down"):
                async for _ in stream:
                    pass
            await model.dropped.wait()


@asynccontextmanager
async def open_node(model: Model) -> AsyncIterator[ServedGateway]:
    """A node that asks nobody on this machine for a token, with the gateways."""
    servers: list[NodeServer] = []

    async def who(request: Request) -> tuple[Caller, Secret | None]:
        return caller_of(servers[0], request.headers)

    async with CapabilityBus() as bus, Executor([post]) as executor:
        routes = gateway_of(model, executor, caller_of=who).routes()
        servers.append(NodeServer(bus=bus, gateways=routes, token_required=False, limits=ServerLimits(grace=0.1)))
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(servers[0], ready=address.set_result))
        try:
            yield ServedGateway(await address)
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


FORMS = ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data", None]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("form", FORMS)
async def test_what_a_foreign_page_can_send_without_being_asked_runs_nothing(path: str, form: str | None) -> None:
    """A browser sends these types from any page to any address, and asks for leave only for others."""
    model = ScriptedModel([call("post", words="hello"), finished("tool_calls")], [text("Posted."), finished()])
    words = {"input": HELLO} if path == "/v1/responses" else {"max_tokens": 10, "messages": HELLO}
    asked = json.dumps({"model": "m", **words})
    async with open_node(model) as there, httpx2.AsyncClient(base_url=there.url) as http:
        for origin in ({}, {"origin": "http://localhost:1"}, {"origin": "https://evil.example"}):
            headers = {**origin, **({} if form is None else {"content-type": form})}
            said = await http.post(path, content=asked, headers=headers)
            assert said.status_code == (403 if "evil" in str(origin) else 415)
        preflight = {"origin": "http://localhost:1", "access-control-request-method": "POST"}
        leave = await http.options(path, headers={**preflight, "access-control-request-headers": "content-type"})
    assert "access-control-allow-origin" not in leave.headers
    assert model.requests == []


async def test_json_by_any_spelling_of_its_type_is_taken() -> None:
    model = ScriptedModel([text("Hello."), finished()], [text("Hello."), finished()])
    asked = json.dumps({"model": "m", "messages": HELLO})
    async with open_node(model) as there, httpx2.AsyncClient(base_url=there.url) as http:
        for form in ("application/json", "Application/JSON; charset=utf-8"):
            assert (await http.post("/v1/chat/completions", content=asked, headers={"content-type": form})).is_success
