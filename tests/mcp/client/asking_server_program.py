"""A server, made with the official package, whose one tool asks its host for what its arguments say.

    python curious.py           over its standard input and output
    python curious.py --http    over HTTP; the first line that it writes is its port

In the handshake era it asks in mid-call; in the stateless one it answers `input_required`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

REQUESTS: dict[str, type[types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest]] = {
    "elicitation/create": types.ElicitRequest,
    "sampling/createMessage": types.CreateMessageRequest,
    "roots/list": types.ListRootsRequest,
}
RESULTS: dict[str, type[types.Result]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


async def list_tools(
    context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    how = {name: {"type": "boolean"} for name in ("for_ever", "apart")}
    schema = {"type": "object", "properties": {"question": {"type": "object"}, **how}}
    hints = types.ToolAnnotations(read_only_hint=True)
    return types.ListToolsResult(tools=[types.Tool(name="ask", input_schema=schema, annotations=hints)])


async def call_tool(
    context: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    arguments = params.arguments or {}
    if "question" not in arguments:
        return said(announced(context))
    asked = arguments["question"]
    request = REQUESTS[asked["method"]].model_validate(asked)
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        if params.input_responses and not arguments.get("for_ever"):
            return said(plain(params.input_responses["q"]))
        return types.InputRequiredResult(input_requests={"q": request}, request_state="sealed")
    # Over HTTP what belongs to a call goes on its stream; what does not, on one of its own.
    part_of_call = None if arguments.get("apart") else ServerMessageMetadata(related_request_id=context.request_id)
    answer = await context.session.send_request(request, RESULTS[asked["method"]], metadata=part_of_call)
    return said(plain(answer))


def announced(context: ServerRequestContext[Any]) -> Any:
    capabilities = context.session.client_capabilities
    return None if capabilities is None else plain(capabilities)


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def said(value: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=json.dumps(value))])


async def main() -> None:
    server: Server[Any] = Server("curious", on_list_tools=list_tools, on_call_tool=call_tool)
    if "--http" in sys.argv:
        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)  # noqa: T201
        await uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).serve([listening])
        return
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
