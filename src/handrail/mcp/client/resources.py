"""The resources and prompts of a server, in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mcp_types
from mcp.shared.exceptions import MCPError

from handrail.core.messages import AssistantMessage, Content, Media, Message, Text, UserMessage
from handrail.mcp.client.content import decode_base64, link_text
from handrail.mcp.client.tool_listing import read_all_pages
from handrail.mcp.values import McpBounds, RemotePrompt, RemoteResource, ResourceBody

if TYPE_CHECKING:
    from mcp import Client


async def read_resources(client: Client, server: str, bounds: McpBounds) -> list[RemoteResource]:
    """Every resource that a server lists, then every template."""
    if client.server_capabilities.resources is None:
        return []
    plain = await read_all_pages(
        "resources",
        server,
        bounds,
        lambda cursor: client.list_resources(cursor=cursor, cache_mode="bypass"),
        lambda page: (_resource(each, each.uri, size=each.size) for each in page.resources),
    )
    try:
        templates = await read_all_pages(
            "resource templates",
            server,
            bounds,
            lambda cursor: client.list_resource_templates(cursor=cursor, cache_mode="bypass"),
            lambda page: (_resource(each, each.uri_template, template=True) for each in page.resource_templates),
        )
    except MCPError as error:
        if error.code != mcp_types.METHOD_NOT_FOUND:
            raise
        templates = []  # a server with resources need not know what a template is
    return plain + templates


async def read_resource(client: Client, uri: str) -> list[ResourceBody]:
    got = await client.read_resource(uri, cache_mode="bypass")
    return [_body(each) for each in got.contents]


async def read_prompts(client: Client, server: str, bounds: McpBounds) -> list[RemotePrompt]:
    if client.server_capabilities.prompts is None:
        return []
    return await read_all_pages(
        "prompts",
        server,
        bounds,
        lambda cursor: client.list_prompts(cursor=cursor, cache_mode="bypass"),
        lambda page: map(_prompt, page.prompts),
    )


async def read_prompt(client: Client, name: str, arguments: Mapping[str, str]) -> tuple[Message, ...]:
    """A prompt, filled in, as messages of a conversation."""
    got = await client.get_prompt(name, dict(arguments) or None)
    return tuple(map(_message, got.messages))


def _resource(each: mcp_types.Resource | mcp_types.ResourceTemplate, uri: str, **more: Any) -> RemoteResource:
    name, description, media_type = each.title or each.name, each.description or "", each.mime_type or ""
    return RemoteResource(uri=uri, name=name, description=description, media_type=media_type, **more)


def _body(each: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> ResourceBody:
    kind = each.mime_type or ""
    if isinstance(each, mcp_types.TextResourceContents):
        return ResourceBody(uri=each.uri, media_type=kind, text=each.text)
    return ResourceBody(uri=each.uri, media_type=kind, data=decode_base64(each.blob))


def _prompt(each: mcp_types.Prompt) -> RemotePrompt:
    arguments = tuple((part.name, part.description or "", bool(part.required)) for part in each.arguments or ())
    return RemotePrompt(name=each.name, description=each.description or each.title or "", arguments=arguments)


def _message(message: mcp_types.PromptMessage) -> Message:
    part = _content(message.content)
    if message.role == "user":
        return UserMessage((part,))
    return AssistantMessage(part.text if isinstance(part, Text) else f"({part.media_type} {part.name})".strip())


def _content(block: mcp_types.ContentBlock) -> Content:
    match block:
        case mcp_types.TextContent():
            return Text(block.text)
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return Media(media_type=block.mime_type, data=decode_base64(block.data))
        case mcp_types.ResourceLink():
            return Text(link_text(block))
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as inner):
            return Text(f"[resource {inner.uri}]\n{inner.text}")
    body = _body(block.resource)
    return Media(media_type=body.media_type or "application/octet-stream", data=body.data, name=body.uri)
