"""What is not there below `/v1/` is said in the form of the client's own API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import anthropic
import openai
import pytest
from hypothesis import given, strategies as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from handrail import Executor
from handrail.testing.model import ScriptedModel
from tests.node.gateways.gateway_server import gateway_of, scene
from tests.node.gateways.test_gateway_on_node import node


async def test_a_path_that_is_not_there_is_not_found_in_the_form_of_the_client() -> None:
    async with scene(ScriptedModel()) as there:
        with pytest.raises(openai.NotFoundError, match="nothing at /v1/batches") as of_openai:
            await there.openai().batches.list()
        with pytest.raises(openai.NotFoundError, match="nothing at /v1/files/file_1"):
            await there.openai().files.retrieve("file_1")
        with pytest.raises(anthropic.NotFoundError, match="nothing at /v1/messages/batches") as of_anthropic:
            await there.anthropic().messages.batches.list()
        with pytest.raises(anthropic.NotFoundError, match="nothing at /v1/skills"):
            await there.anthropic().beta.skills.list()

    assert (of_openai.value.type, of_openai.value.code) == ("not_found_error", "not_found")
    body: object = of_anthropic.value.body
    assert isinstance(body, dict) and body["type"] == "error" and body["error"]["type"] == "not_found_error"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("DELETE", "/v1/models/m", "GET, HEAD"),
        ("PUT", "/v1/messages", "POST"),
        ("OPTIONS", "/v1/models", "GET, HEAD"),
    ],
)
async def test_a_method_that_a_path_does_not_take_is_refused_with_those_that_it_takes(
    method: str, path: str, allowed: str
) -> None:
    async with scene(ScriptedModel()) as there, there.http() as client:
        answer = await client.request(method, path)

    assert answer.status_code == 405 and answer.headers["allow"] == allowed
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and path in error["message"]
    assert ("param" in error) == (path != "/v1/messages")


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=20), st.booleans())
def test_any_path_below_v1_is_answered_in_the_form_of_an_api(path: str, of_anthropic: bool) -> None:
    app = Starlette(routes=gateway_of(ScriptedModel(), Executor([])).routes())
    headers = {"anthropic-version": "2023-06-01"} if of_anthropic else {}
    answer = TestClient(app).patch(f"/v1/no/{quote(path)}", headers=headers)

    assert answer.status_code in (404, 405)
    said = answer.json()
    assert said["error"]["type"] in ("not_found_error", "invalid_request_error")
    assert ("request_id" in said) == of_anthropic


async def test_what_is_refused_before_the_routes_has_the_form_of_the_client_too() -> None:
    """A body that nobody known sends, one that is too large, and a host that the node does not go by."""
    said: Any = [{"role": "user", "content": "x" * 300_000}]
    large: Any = [{"role": "user", "content": "x" * 17_000_000}]
    async with node(ScriptedModel()) as (made, there, _):
        key = made.token("llm.chat@2.0")
        with pytest.raises(openai.AuthenticationError, match="this is not a token") as stranger:
            await there.openai("bad").chat.completions.create(model="m", messages=said)
        with pytest.raises(openai.APIStatusError, match="a request may have") as too_large:
            await there.openai(key).chat.completions.create(model="m", messages=large)
        with pytest.raises(anthropic.AuthenticationError) as other:
            await there.anthropic("bad").messages.create(model="m", max_tokens=9, messages=said)
        async with there.http(key) as http:
            answers = [
                await http.get("/v1/models", headers={"host": "evil.example"}),
                await http.get("/v1/models", headers={"origin": "https://evil.example"}),
            ]
            outside = await http.get("/nothing")

    assert (stranger.value.type, too_large.value.status_code) == ("authentication_error", 413)
    body: Any = other.value.body
    assert (body["type"], body["error"]["type"]) == ("error", "authentication_error")
    assert [each.status_code for each in answers] == [421, 403]
    assert all(each.json()["error"]["message"] for each in answers)
    assert outside.json()["error"] == "not_found"
