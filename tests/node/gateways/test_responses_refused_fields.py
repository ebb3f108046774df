"""What a request for a response cannot have is refused in OpenAI's form, with the name of the field."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from handrail.core.errors import RateLimited
from handrail.node.gateways.gateway import GatewayLimits
from handrail.testing.model import ScriptedModel, text
from tests.node.gateways.gateway_server import HeldModel, finished, scene

MCP: Any = {"type": "mcp", "server_label": "x", "server_url": "https://example.org", "require_approval": "never"}
USER: Any = {"role": "user", "content": "?"}


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("conversation", "conv_1", "conversation"),
        ("prompt", {"id": "p"}, "prompt"),
        ("max_tool_calls", 3, "max_tool_calls"),
        ("no_such_field", 1, "no_such_field"),
        ("messages", [USER], "messages"),
        ("top_logprobs", 3, "top_logprobs"),
        ("include", ["message.output_text.logprobs"], "include"),
        ("tools", [MCP], "tools[0].server_url"),
        ("tools", [{"type": "web_search"}], "tools[0].type"),
        ("tools", [{"type": "function"}], "tools[0]"),
        ("tools", [{"type": "function", "name": "add"}], "tools[0]"),
        ("tool_choice", {"type": "function", "name": "none_such"}, "tool_choice"),
        ("tool_choice", {"type": "web_search"}, "tool_choice.type"),
        ("temperature", 3, "temperature"),
        ("metadata", {"a": 1}, "metadata[...]"),
        ("input", "", "input[0].content"),
        ("input", [], "input"),
        ("input", [{"type": "computer_call", "id": "x"}], "input[0].type"),
        ("input", [{"role": "user", "content": [{"type": "input_video"}]}], "input[0].content[0].type"),
        (
            "input",
            [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}],
            "input[0].content[0].file_id",
        ),
        ("input", [USER, {"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}], "input"),
        ("input", [USER, {"type": "function_call_output", "call_id": "c", "output": "x"}], "input"),
        ("previous_response_id", "resp_0123", "previous_response_id"),
        ("handrail", {"nonsense": 1}, "handrail"),
    ],
)
async def test_a_field_that_is_wrong_or_unsupported_is_refused_by_its_name(field: str, value: Any, param: str) -> None:
    model = ScriptedModel()
    async with scene(model) as there, there.http() as http:
        said = await http.post("/v1/responses", json={"model": "m", "input": "?", field: value})

    error = said.json()["error"]
    assert (said.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"] and model.requests == []


async def test_an_mcp_server_that_the_node_does_not_use_is_refused_and_one_that_it_uses_is_not_called_again() -> None:
    model = ScriptedModel([text("ok"), finished()])
    servers = {MCP["server_url"]: {"plus": "add"}}
    async with scene(model) as there:
        with pytest.raises(openai.BadRequestError, match="MCP server"):
            await there.openai().responses.create(model="m", input="?", tools=[MCP])
    async with scene(model, mcp_servers=lambda: servers) as there:
        reply = await there.openai().responses.create(model="m", input="?", tools=[MCP])

    assert "add" in {tool.name for tool in model.requests[0].tools}
    assert reply.tools[0].type == "mcp"


async def test_a_response_in_the_background_must_be_stored() -> None:
    async with scene(ScriptedModel()) as there:
        with pytest.raises(openai.BadRequestError) as refused:
            await there.openai().responses.create(model="m", input="?", background=True, store=False)
    assert refused.value.param == "background"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/responses/resp_none", 404),
        ("DELETE", "/v1/responses/resp_none", 404),
        ("POST", "/v1/responses/resp_none/cancel", 404),
        ("GET", "/v1/responses/resp_none/input_items", 404),
        ("POST", "/v1/conversations", 404),
        ("GET", "/v1/responses", 405),
        ("PUT", "/v1/responses/resp_none", 405),
    ],
)
async def test_what_is_not_there_is_said_in_openais_form(method: str, path: str, status: int) -> None:
    async with scene(ScriptedModel()) as there, there.http() as http:
        said = await http.request(method, path)

    assert said.status_code == status
    error = said.json()["error"]
    assert error["message"] and {"type", "param", "code"} <= set(error)
    assert (status != 405) == ("allow" not in said.headers)


async def test_an_unknown_model_and_a_limit_have_the_statuses_that_clients_know() -> None:
    class Limited:
        name = "m"

        async def stream(self, request: Any) -> Any:
            raise RateLimited("too often", retry_after=2)
            yield

    async with scene(Limited()) as there:
        client = there.openai()
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="other", input="?")
        with pytest.raises(openai.RateLimitError) as limited:
            await client.responses.create(model="m", input="?", stream=True)
        with pytest.raises(openai.AuthenticationError):
            await there.openai("wrong").responses.create(model="m", input="?")
        with pytest.raises(openai.PermissionDeniedError):
            await there.openai("nothing").responses.create(model="m", input="?")
    assert limited.value.response.headers["retry-after"] == "2"


async def test_a_body_that_is_too_long_or_not_json_is_refused() -> None:
    bounds = GatewayLimits(body=100)
    async with scene(ScriptedModel(), bounds=bounds) as there, there.http() as http:
        long = await http.post("/v1/responses", json={"model": "m", "input": "?" * 200})
        form = await http.post("/v1/responses", content=b"{}", headers={"content-type": "text/plain"})

    assert (long.status_code, form.status_code) == (413, 415)
    assert "error" in long.json() and "error" in form.json()


async def test_more_at_once_than_the_node_bears_are_told_to_come_back() -> None:
    model = HeldModel(text("Hello"))
    async with scene(model, bounds=GatewayLimits(at_once=1)) as there:
        client = there.openai()
        stream = await client.responses.create(model="m", input="?", stream=True)
        await model.reached.wait()
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model="m", input="?")
        await stream.close()


async def test_a_query_that_cannot_be_answered_is_refused_by_its_name() -> None:
    model = ScriptedModel([text("Hello."), finished()])
    async with scene(model) as there, there.http() as http:
        id = (await http.post("/v1/responses", json={"model": "m", "input": "?"})).json()["id"]
        for path, param in [
            (f"/v1/responses/{id}?stream=true", "stream"),
            (f"/v1/responses/{id}/input_items?limit=0", "limit"),
            (f"/v1/responses/{id}/input_items?order=up", "order"),
            (f"/v1/responses/{id}/input_items?after=none", "after"),
        ]:
            said = await http.get(path)
            assert (said.status_code, said.json()["error"]["param"]) == (400, param)
