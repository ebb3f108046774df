"""MCP servers that a client names: those of the node are used, and no other."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
from anthropic.types.beta import (
    beta_mcp_tool_config_param,
    beta_mcp_toolset_param,
    beta_request_mcp_server_tool_configuration_param,
    beta_request_mcp_server_url_definition_param,
)
from anthropic.types.beta.beta_tool_param import BetaToolParam
from hypothesis import given, strategies as st
from openai.types.responses.tool_param import Mcp, McpAllowedToolsMcpToolFilter
from openai.types.shared_params import FunctionDefinition, response_format_json_schema

from handrail import tool
from handrail.node.gateways.answer_plan import choose_server_tools
from handrail.node.gateways.anthropic.body import TOOL
from handrail.node.gateways.anthropic.mcp_toolset import MCP_SERVER, TOOL_CONFIGURATION, TOOLSET, TOOLSET_CONFIG
from handrail.node.gateways.field_rules import FieldTable
from handrail.node.gateways.openai.body import FUNCTION, JSON_SCHEMA
from handrail.node.gateways.openai.tools import ALLOWED_TOOLS, MCP_TOOL
from handrail.node.gateways.request import NamedMcpServer
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import add, finished, scene

HELLO: Any = [{"role": "user", "content": "Hello"}]
WIKI = "https://mcp.example/wiki"


@tool
def wiki_search(words: str) -> str:
    """Search the wiki."""
    return f"found {words}"


@tool
def wiki_edit(page: str) -> str:
    """Edit the wiki."""
    return f"edited {page}"


SERVERS = {WIKI: {"search": "wiki_search", "edit": "wiki_edit"}}
REPLY = [text("Hello."), finished()]


def known() -> dict[str, dict[str, str]]:
    return SERVERS


def with_wiki(model: ScriptedModel) -> Any:
    return scene(model, tools=[add, wiki_search, wiki_edit], mcp_servers=known)


def server(url: str = WIKI, **more: Any) -> Any:
    return {"type": "url", "name": "wiki", "url": url, **more}


def toolset(**more: Any) -> Any:
    return {"type": "mcp_toolset", "mcp_server_name": "wiki", **more}


def mcp(url: str = WIKI, **more: Any) -> Any:
    return {"type": "mcp", "server_label": "wiki", "server_url": url, **more}


async def test_a_server_that_the_node_does_not_use_is_refused_and_nobody_connects_to_it() -> None:
    model = ScriptedModel()
    async with with_wiki(model) as there:
        with pytest.raises(anthropic.BadRequestError, match=r"mcp_servers\[0\]\.url: this node does not use an MCP"):
            await there.anthropic().beta.messages.create(
                model="m",
                max_tokens=9,
                messages=HELLO,
                mcp_servers=[server("http://169.254.169.254/mcp")],
                tools=[toolset()],
                betas=["mcp-client-2025-11-20"],
            )
        with pytest.raises(anthropic.BadRequestError, match=r"mcp_servers\[0\]\.url: "):
            await there.anthropic().beta.messages.count_tokens(
                model="m", messages=HELLO, mcp_servers=[server("https://other.example")]
            )
        with pytest.raises(openai.BadRequestError, match="this node does not use an MCP server") as error:
            await there.openai().chat.completions.create(
                model="m", messages=HELLO, tools=[mcp("https://other.example")]
            )
    assert error.value.param == "tools[0].server_url" and model.requests == []


@pytest.mark.parametrize("url", [WIKI, f"{WIKI}/", "HTTPS://MCP.example:443/wiki"])
async def test_a_server_that_the_node_uses_may_be_named_and_its_tools_run_here(url: str) -> None:
    reply = [call("wiki_search", words="boats"), finished("tool_calls")], [text("Two."), finished()]
    model = ScriptedModel(*reply, *reply)
    async with with_wiki(model) as there:
        one: Any = await there.anthropic().beta.messages.create(
            model="m", max_tokens=9, messages=HELLO, mcp_servers=[server(url)], tools=[toolset()]
        )
        other = await there.openai().chat.completions.create(model="m", messages=HELLO, tools=[mcp(url)])

    assert one.content[0].text == other.choices[0].message.content == "Two."
    assert [each.name for each in model.requests[0].tools] == ["add", "wiki_search", "wiki_edit"]


CHOICES: list[tuple[Any, Any, list[str]]] = [
    (server(tool_configuration={"allowed_tools": ["search"]}), None, ["add", "wiki_search"]),
    (server(tool_configuration={"enabled": False}), None, ["add"]),
    (server(), toolset(default_config={"enabled": False}, configs={"edit": {"enabled": True}}), ["add", "wiki_edit"]),
    (server(), toolset(configs={"edit": {"enabled": False}}), ["add", "wiki_search"]),
]


@pytest.mark.parametrize(("named", "chosen", "offered"), CHOICES)
async def test_a_client_of_anthropic_chooses_among_the_tools_of_a_server(
    named: Any, chosen: Any, offered: list[str]
) -> None:
    model = ScriptedModel(REPLY)
    async with with_wiki(model) as there:
        await there.anthropic().beta.messages.create(
            model="m", max_tokens=9, messages=HELLO, mcp_servers=[named], tools=[chosen] if chosen else []
        )
    assert [each.name for each in model.requests[0].tools] == offered


@pytest.mark.parametrize("allowed", [["search"], {"tool_names": ["search"]}])
async def test_a_client_of_openai_chooses_among_the_tools_of_a_server(allowed: Any) -> None:
    model = ScriptedModel(REPLY, REPLY)
    weather: Any = {"type": "function", "function": {"name": "weather"}}
    async with with_wiki(model) as there:
        client = there.openai()
        tools: Any = [mcp(allowed_tools=allowed, require_approval="never"), weather]
        await client.chat.completions.create(model="m", messages=HELLO, tools=tools)
        only: Any = {"handrail": {"tools": "none"}}
        await client.chat.completions.create(model="m", messages=HELLO, tools=tools, extra_body=only)
    assert [each.name for each in model.requests[0].tools] == ["add", "wiki_search", "weather"]
    assert [each.name for each in model.requests[1].tools] == ["wiki_search", "weather"]


WRONG_MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"mcp_servers": [server(authorization_token="t")]}, "mcp_servers[0].authorization_token"),
    ({"mcp_servers": [server(tool_configuration={"allowed_tools": ["fly"]})]}, "mcp_servers[0].url"),
    ({"mcp_servers": [server(tool_configuration={"x": 1})]}, "mcp_servers[0].tool_configuration.x"),
    ({"mcp_servers": [server(type="stdio")]}, "mcp_servers[0].type"),
    ({"mcp_servers": [server(), server()]}, "mcp_servers[1].name"),
    ({"mcp_servers": ["wiki"]}, "mcp_servers[0]"),
    ({"tools": [toolset()]}, "tools[0].mcp_server_name"),
    ({"mcp_servers": [server()], "tools": [toolset(), toolset()]}, "tools[1].mcp_server_name"),
    ({"mcp_servers": [server()], "tools": [toolset(tools=[])]}, "tools[0].tools"),
    ({"mcp_servers": [server()], "tools": [toolset(configs={"edit": 1})]}, "tools[0].configs"),
    ({"tools": [{"name": "w", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]}]}, "tools[0].a"),
    ({"tools": [{"name": "w", "input_schema": {}, "colour": "red"}]}, "tools[0].colour"),
]
WRONG_CHAT: list[tuple[Any, str]] = [
    (mcp(authorization="t"), "tools[0].authorization"),
    (mcp(headers={"x": "y"}), "tools[0].headers"),
    (mcp(require_approval="always"), "tools[0].require_approval"),
    (mcp(allowed_tools={"read_only": True}), "tools[0].allowed_tools.read_only"),
    ({"type": "mcp", "server_label": "d", "connector_id": "connector_dropbox"}, "tools[0].connector_id"),
    ({"type": "mcp", "server_label": "d"}, "tools[0].server_url"),
    ({"type": "custom", "custom": {"name": "x"}}, "tools[0].type"),
    ({"type": "web_search"}, "tools[0].type"),
    ({"type": "function", "function": {"name": "w", "colour": "red"}}, "tools[0].function.colour"),
]


@pytest.mark.parametrize(("fields", "place"), WRONG_MESSAGES, ids=str)
async def test_what_a_client_of_anthropic_cannot_have_is_named(fields: dict[str, Any], place: str) -> None:
    async with with_wiki(ScriptedModel()) as there:
        with pytest.raises(anthropic.BadRequestError) as error:
            body = {"model": "m", "max_tokens": 9, "messages": HELLO, **fields}
            await there.anthropic().post("/v1/messages", body=body, cast_to=object)
    said: Any = error.value.body
    assert said["error"]["message"].startswith(place)


@pytest.mark.parametrize(("item", "place"), WRONG_CHAT, ids=str)
async def test_what_a_client_of_openai_cannot_have_is_named(item: Any, place: str) -> None:
    async with with_wiki(ScriptedModel()) as there:
        with pytest.raises(openai.BadRequestError) as error:
            await there.openai().chat.completions.create(model="m", messages=HELLO, tools=[item])
    assert error.value.param == place


async def test_a_server_none_of_whose_tools_the_token_covers_is_forbidden() -> None:
    async with with_wiki(ScriptedModel()) as there:
        with pytest.raises(anthropic.PermissionDeniedError, match="none of the tools of this MCP server"):
            await there.anthropic("narrow").beta.messages.create(
                model="m", max_tokens=9, messages=HELLO, mcp_servers=[server()]
            )


PARTS: list[tuple[Any, FieldTable]] = [
    (Mcp, MCP_TOOL),
    (McpAllowedToolsMcpToolFilter, ALLOWED_TOOLS),
    (FunctionDefinition, FUNCTION),
    (response_format_json_schema.JSONSchema, JSON_SCHEMA),
    (BetaToolParam, TOOL),
    (beta_request_mcp_server_url_definition_param.BetaRequestMCPServerURLDefinitionParam, MCP_SERVER),
    (
        beta_request_mcp_server_tool_configuration_param.BetaRequestMCPServerToolConfigurationParam,
        TOOL_CONFIGURATION,
    ),
    (beta_mcp_toolset_param.BetaMCPToolsetParam, TOOLSET),
    (beta_mcp_tool_config_param.BetaMCPToolConfigParam, TOOLSET_CONFIG),
]


@pytest.mark.parametrize(("kind", "table"), PARTS, ids=lambda each: getattr(each, "__name__", ""))
def test_every_field_of_a_tool_that_the_official_clients_declare_has_a_rule(kind: Any, table: FieldTable) -> None:
    assert {*kind.__required_keys__, *kind.__optional_keys__} == set(table)


names = st.frozensets(st.sampled_from(["search", "edit"]))


@given(st.none() | names, names)
def test_each_tool_of_a_named_server_is_wanted_or_left_out(allowed: frozenset[str] | None, off: frozenset[str]) -> None:
    chosen = choose_server_tools([NamedMcpServer(place="p", url=WIKI, allowed=allowed, left_out=off)], SERVERS)

    assert chosen.wanted | chosen.left_out == {"wiki_search", "wiki_edit"}
    assert not chosen.wanted & chosen.left_out
    assert chosen.wanted == {f"wiki_{name}" for name in (allowed if allowed is not None else {"search", "edit"}) - off}
