"""A server that uses everything that the protocol has: `reference_server.py stdio`, or `http`, which prints its port.

What it is sent is written to the file that REFERENCE_HEARD names, a line for each request and notification.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import mcp_types as types
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError

warnings.simplefilter("ignore")  # logging, sampling and roots are of the past, but servers use them

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
ICONS = [types.Icon(src="https://shop.example/icon.png", mime_type="image/png", sizes=["48x48"])]
SKILLS = "io.modelcontextprotocol/skills"
NUMBERS = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
ANY: dict[str, Any] = {"type": "object", "properties": {}}
PAGE = 2

Context = Any
Tools = dict[str, tuple[types.Tool, Callable[[Context, Any], Awaitable[Any]]]]
TOOLS: Tools = {}
bus = InMemorySubscriptionBus()
more_resources: list[types.Resource] = []


def tool(name: str, schema: dict[str, Any] = ANY, **facts: Any) -> Callable[[Any], Any]:
    def register(act: Any) -> Any:
        hints = facts.pop("annotations", types.ToolAnnotations(read_only_hint=True, open_world_hint=False))
        listed = types.Tool(name=name, description=f"Does {name}.", input_schema=schema, annotations=hints, **facts)
        TOOLS[name] = listed, act
        return act

    return register


def text(words: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)], **more)


@tool("plain", title="Plain text", icons=ICONS)
async def plain(ctx: Context, params: Any) -> Any:
    return text("three\nlines\nof text", _meta={"shop.example/trace": "abc"})


@tool(
    "sums",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}}},
    title="A sum",
    output_schema=NUMBERS,
    annotations=types.ToolAnnotations(
        title="Sums up", read_only_hint=True, idempotent_hint=True, open_world_hint=False
    ),
    _meta={"ui": {"resourceUri": "ui://shop/sum.html", "visibility": ["model", "app"]}, "shop.example/tier": 2},
)
async def sums(ctx: Context, params: Any) -> Any:
    arguments = params.arguments or {}
    if not isinstance(arguments.get("a"), int):
        return text("a is no number", is_error=True)
    total = arguments["a"] + arguments.get("b", 2)
    words = types.TextContent(
        text=f"The sum is {total}.", annotations=types.Annotations(audience=["user"], priority=0.5)
    )
    return types.CallToolResult(content=[words], structured_content={"sum": total})


@tool("structure")
async def structure(ctx: Context, params: Any) -> Any:
    return types.CallToolResult(content=[], structured_content={"no": "schema", "list": [1, 2.5, None, True]})


@tool("blocks")
async def blocks(ctx: Context, params: Any) -> Any:
    note = types.TextResourceContents(uri="note://1", mime_type="text/markdown", text="# One", _meta={"page": 1})
    return types.CallToolResult(
        content=[
            types.ImageContent(data=PICTURE, mime_type="image/png", annotations=types.Annotations(priority=1.0)),
            types.AudioContent(data=PICTURE, mime_type="audio/wav"),
            types.ResourceLink(uri="note://2", name="two", title="The second", mime_type="text/plain", size=3),
            types.EmbeddedResource(resource=note, _meta={"shop.example/kind": "note"}),
            types.EmbeddedResource(resource=types.BlobResourceContents(uri="note://3", blob=PICTURE)),
            types.TextContent(text="last"),
        ]
    )


@tool("fails")
async def fails(ctx: Context, params: Any) -> Any:
    return text("There is no such order.", is_error=True, structured_content={"code": 404})


@tool("refuses")
async def refuses(ctx: Context, params: Any) -> Any:
    raise MCPError(-32050, "Not on Sundays", {"day": "Sunday"})


@tool("progresses")
async def progresses(ctx: Context, params: Any) -> Any:
    await ctx.session.report_progress(1, 3, "one of three")
    await ctx.session.report_progress(2.5, 3)
    await ctx.session.report_progress(3, 3, "done")
    return text("progressed")


@tool("logs")
async def logs(ctx: Context, params: Any) -> Any:
    for level in ("debug", "warning", "error"):
        await ctx.session.send_log_message(level, {"said": level}, "shop", related_request_id=ctx.request_id)
    return text("logged")


@tool("changes", annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=False))
async def changes(ctx: Context, params: Any) -> Any:
    """Lists change, and one resource does."""
    more_resources.append(types.Resource(uri=f"note://more/{len(more_resources)}", name="more"))
    session = ctx.session
    if modern(ctx):
        for event in (ResourcesListChanged(), PromptsListChanged(), ResourceUpdated("note://1")):
            await bus.publish(event)
    else:
        await session.send_resource_list_changed()
        await session.send_prompt_list_changed()
        await session.send_resource_updated("note://1")
    return text("changed")


@tool("echoes_meta")
async def echoes_meta(ctx: Context, params: Any) -> Any:
    meta = {name: value for name, value in (ctx.params.get("_meta") or {}).items() if name.startswith("shop.example/")}
    return text(json.dumps(meta))


@tool("waits")
async def waits(ctx: Context, params: Any) -> Any:
    await asyncio.get_running_loop().create_future()


def question(method: str) -> Any:
    match method:
        case "elicit":
            form = {"type": "object", "properties": {"size": {"type": "integer", "title": "Size", "minimum": 1}}}
            asked = types.ElicitRequestFormParams(
                message="Which size?", requested_schema=form, _meta=cast(Any, {"shop": 1})
            )
            return types.ElicitRequest(params=asked)
        case "visit":
            address = types.ElicitRequestURLParams(
                message="Sign in", url="https://shop.example/in", elicitation_id="e1"
            )
            return types.ElicitRequest(params=address)
        case "sample":
            said = types.SamplingMessage(role="user", content=types.TextContent(text="Name a colour."))
            prefer = types.ModelPreferences(hints=[types.ModelHint(name="small")], speed_priority=0.9)
            wanted = types.CreateMessageRequestParams(
                messages=[said], max_tokens=7, system_prompt="Be brief.", model_preferences=prefer, temperature=0.1
            )
            return types.CreateMessageRequest(params=wanted)
    return types.ListRootsRequest()


ANSWERS: dict[str, Any] = {
    "elicit": types.ElicitResult,
    "visit": types.ElicitResult,
    "sample": types.CreateMessageResult,
    "roots": types.ListRootsResult,
}


def asking(name: str) -> None:
    @tool(f"asks_{name}")
    async def ask(ctx: Context, params: Any) -> Any:
        if modern(ctx):
            if not params.input_responses:
                return types.InputRequiredResult(input_requests={"q": question(name)}, request_state="begun")
            got = params.input_responses["q"]
        else:
            got = await ctx.session.send_request(question(name), ANSWERS[name], metadata=related(ctx))
        return text(got.model_dump_json(by_alias=True, exclude_none=True))


for each in ANSWERS:
    asking(each)


def related(ctx: Context) -> Any:
    from mcp.shared.message import ServerMessageMetadata

    return ServerMessageMetadata(related_request_id=ctx.request_id)


def modern(ctx: Context) -> bool:
    return bool(ctx.protocol_version >= "2026")


# ── what is not a tool ───────────────────────────────────────────────────────────────


async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[listed for listed, _ in TOOLS.values()])


async def call_tool(ctx: Context, params: Any) -> Any:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return await TOOLS[params.name][1](ctx, params)


def pages(items: list[Any], params: Any) -> tuple[list[Any], str | None]:
    start = int(params.cursor) if params and params.cursor else 0
    end = start + PAGE
    return items[start:end], str(end) if end < len(items) else None


async def list_resources(ctx: Context, params: Any) -> types.ListResourcesResult:
    everything = [
        types.Resource(uri="note://1", name="one", title="The first", mime_type="text/markdown", size=5, icons=ICONS),
        types.Resource(uri="note://picture", name="picture", mime_type="image/png", _meta={"shop.example/wide": True}),
        types.Resource(uri="ui://shop/sum.html", name="sum", mime_type="text/html;profile=mcp-app"),
        *more_resources,
    ]
    shown, following = pages(everything, params)
    return types.ListResourcesResult(
        resources=shown, next_cursor=following, _meta={"shop.example/count": len(everything)}
    )


async def list_templates(ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template="note://{id}", name="note", title="Any note", icons=ICONS)
    return types.ListResourceTemplatesResult(resource_templates=[template])


CONTENTS: dict[str, types.TextResourceContents | types.BlobResourceContents] = {
    "note://1": types.TextResourceContents(uri="note://1", mime_type="text/markdown", text="# One", _meta={"page": 1}),
    "note://picture": types.BlobResourceContents(uri="note://picture", mime_type="image/png", blob=PICTURE),
    "ui://shop/sum.html": types.TextResourceContents(
        uri="ui://shop/sum.html",
        mime_type="text/html;profile=mcp-app",
        text="<p>sum</p>",
        _meta={"ui": {"csp": {"connectDomains": []}}},
    ),
    "skill://sums/SKILL.md": types.TextResourceContents(uri="skill://sums/SKILL.md", text="---\nname: sums\n---\nAdd."),
}


async def read_resource(ctx: Context, params: Any) -> types.ReadResourceResult:
    if params.uri not in CONTENTS:
        raise MCPError(-32002, "Resource not found", {"uri": params.uri})
    await ctx.session.report_progress(1, 1, "read")
    return types.ReadResourceResult(contents=[CONTENTS[params.uri]], _meta={"shop.example/read": 1})


async def list_prompts(ctx: Context, params: Any) -> types.ListPromptsResult:
    argument = types.PromptArgument(name="style", title="Style", description="How.", required=True)
    listed = types.Prompt(name="greet", title="Greeting", description="Greets.", arguments=[argument], icons=ICONS)
    return types.ListPromptsResult(prompts=[listed, types.Prompt(name="asks", _meta={"shop.example/slow": False})])


async def get_prompt(ctx: Context, params: Any) -> Any:
    if params.name == "asks":
        if modern(ctx) and not params.input_responses:
            return types.InputRequiredResult(input_requests={"q": question("elicit")}, request_state="prompt")
        if modern(ctx):
            got = params.input_responses["q"]
        else:
            got = await ctx.session.send_request(question("elicit"), types.ElicitResult, metadata=related(ctx))
        said = got.model_dump_json(by_alias=True, exclude_none=True)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=types.TextContent(text=said))])
    if params.name != "greet":
        raise MCPError(types.INVALID_PARAMS, "Unknown prompt")
    link = types.ResourceLink(uri="note://1", name="one")
    return types.GetPromptResult(
        description="A greeting",
        messages=[
            types.PromptMessage(role="user", content=types.TextContent(text=f"Greet {params.arguments['style']}.")),
            types.PromptMessage(role="assistant", content=types.ImageContent(data=PICTURE, mime_type="image/png")),
            types.PromptMessage(role="user", content=link),
        ],
    )


async def complete(ctx: Context, params: Any) -> types.CompleteResult:
    what = getattr(params.ref, "name", None) or getattr(params.ref, "uri", None)
    others = params.context.arguments if params.context else {}
    values = [f"{what}:{params.argument.value}", *sorted(others or {})]
    return types.CompleteResult(completion=types.Completion(values=values, total=20, has_more=True))


async def nothing(ctx: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def skills(ctx: Context, params: Any) -> dict[str, Any]:
    listed = {
        "uri": "skill://sums/SKILL.md",
        "frontmatter": {"name": "sums", "description": "Adds."},
        "digest": "sha256:0",
    }
    if ctx.method == "skills/list":
        return {"skills": [listed], "ttlMs": 60_000, "cacheScope": "public"}
    return {"skill": {**listed, "resources": [{"uri": "skill://sums/SKILL.md"}]}}


def note(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(f"{line}\n")


async def heard(ctx: Context, call_next: Any) -> Any:
    file = os.environ.get("REFERENCE_HEARD")
    if file:
        note(Path(file), json.dumps([ctx.method, ctx.params and dict(ctx.params)], default=dict))
    return await call_next(ctx)


async def noticed(ctx: Context, params: Any) -> None:
    """Roots changed."""


class Reference(Server[Any]):
    def create_initialization_options(self, *args: Any, **options: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(True, True, True))


def made() -> Server[Any]:
    server: Server[Any] = Reference(
        "reference",
        version="1.2.3",
        title="The reference",
        instructions="Ask for sums.",
        website_url="https://shop.example",
        icons=ICONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=nothing,
        on_roots_list_changed=noticed,
    )
    server.extensions = {SKILLS: {"directoryRead": True}}
    for method in ("skills/list", "skills/get"):
        server.add_request_handler(method, types.RequestParams, skills)
    server.middleware.append(heard)
    return server


async def serve_stdio() -> None:
    from mcp.server.stdio import stdio_server

    server = made()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http() -> None:
    import uvicorn

    door = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{door.getsockname()[1]}\n")
    sys.stdout.flush()
    app = made().streamable_http_app(host="127.0.0.1")
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[door])


if __name__ == "__main__":
    asyncio.run(serve_http() if sys.argv[1] == "http" else serve_stdio())
