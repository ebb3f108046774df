"""A result of ours as MCP sends it: text always, structure where the tool promised it, attachments as what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from handrail.core.calls import Attachment, ToolResult, encode_data
from handrail.core.ports import Spill
from handrail.mcp.server.sendable import sendable_text
from handrail.mcp.values import ResourceBody
from handrail.tools.tool import Tool

OUTCOME_KEY = "dev.handrail/outcome"
"""The field of `_meta` that names the outcome of a result that is an error."""
LARGEST = 8 * 1024 * 1024
"""Bytes of all attachments of one result, and of a structure that is fetched back whole."""

_HOW = (
    "A person can allow it with: handrail confirm allow {request}. Send the same call again then, "
    "unchanged, and it runs; do not send it again before."
)
_NO_STRUCTURE = (
    "The tool ran, but its result cannot be sent as the structure that it promises: it is too long, or of another "
    "form; above is what could be sent as text. Do not repeat the call."
)


def output_schema(tool: Tool, *, modern: bool) -> dict[str, Any] | None:
    """What is promised of the structure of results: before 2026-07-28 that could only be an object."""
    schema = None if tool.check_output == "off" else tool.definition.output_schema
    return schema if schema is None or modern or schema.get("type") == "object" else None


async def call_result(
    result: ToolResult, tool: Tool | None, *, modern: bool, spill: Spill | None = None, waits: str | None = None
) -> types.CallToolResult:
    """The answer to a call; `waits` names the question that nobody could be asked, as `handrail confirm` takes it."""
    content: list[types.ContentBlock] = [types.TextContent(text=sendable_text(result.text))]
    if waits is not None:
        content.append(types.TextContent(text=_HOW.format(request=waits)))
    content += attachment_blocks(result.attachments, result.tool_call_id)
    if result.warnings:
        content.append(types.TextContent(text=sendable_text("\n".join(f"Warning: {each}" for each in result.warnings))))
    if result.is_error:
        return types.CallToolResult(content=content, is_error=True, _meta={OUTCOME_KEY: result.outcome})
    promised = tool is not None and output_schema(tool, modern=modern) is not None
    if not promised:
        structure = result.content if isinstance(result.content, dict) else None
        return types.CallToolResult(content=content, structured_content=structure)
    found, structure = await _structure(result, tool, spill)
    if not found:
        content.append(types.TextContent(text=_NO_STRUCTURE))
        return types.CallToolResult(content=content, is_error=True, _meta={OUTCOME_KEY: "ok"})
    return types.CallToolResult(content=content, structured_content=structure)


def passed_result(passed: dict[str, Any], result: ToolResult) -> dict[str, Any]:
    """What a server behind us answered, as it came; what we have to say of it comes after."""
    if not result.warnings:
        return passed
    said = types.TextContent(text=sendable_text("\n".join(f"Warning: {each}" for each in result.warnings)))
    return {**passed, "content": [*passed.get("content", ()), said.model_dump(by_alias=True, exclude_none=True)]}


async def _structure(result: ToolResult, tool: Tool | None, spill: Spill | None) -> tuple[bool, Any]:
    """The value that the output schema describes; of a result that was cut, as it was before."""
    if tool is None or tool.output_validator is None:
        return True, result.content
    if not isinstance(result.content, str):
        is_checked = tool.check_output == "enforce" and not result.withheld  # a handle is no number and no date
        fits = is_checked or not tool.output_validator.problems(result.content)
        return fits, result.content
    if result.spilled is not None and spill is not None and result.spilled.characters <= LARGEST:
        try:
            text, _ = await spill.read(result.spilled.id, 0, result.spilled.characters)
        except (KeyError, OSError):
            return False, None
        string = not tool.output_validator.problems(text)
        whole = text if string else msgspec.json.decode(text)
        return string or not tool.output_validator.problems(whole), whole
    return not tool.output_validator.problems(result.content), result.content


def attachment_blocks(attachments: tuple[Attachment, ...], call: str) -> list[types.ContentBlock]:
    """Images and sounds as such, the rest as embedded resources; what is too large is only named."""
    blocks: list[types.ContentBlock] = []
    room = LARGEST
    for each in attachments:
        if len(each.data) > room:
            size = f"{len(each.data):,} bytes of {each.media_type}"
            blocks.append(
                types.TextContent(text=sendable_text(f"[attachment {each.name!r} left out: {size} are too many]"))
            )
            continue
        room -= len(each.data)
        blocks.append(attachment_block(each, call))
    return blocks


def attachment_block(attachment: Attachment, where: str) -> types.ContentBlock:
    """One attachment. A name that is an address is kept as the address."""
    kind, _, _ = attachment.media_type.partition("/")
    match kind:
        case "image":
            return types.ImageContent(data=encode_data(attachment.data), mime_type=attachment.media_type)
        case "audio":
            return types.AudioContent(data=encode_data(attachment.data), mime_type=attachment.media_type)
    name = attachment.name
    uri = name if "://" in name else f"attachment://{quote(where, safe='')}/{quote(sendable_text(name), safe='')}"
    return types.EmbeddedResource(resource=resource_contents(_as_body(uri, attachment)))


def resource_contents(body: ResourceBody) -> types.TextResourceContents | types.BlobResourceContents:
    kind = body.media_type or None
    if body.text is not None:
        return types.TextResourceContents(uri=body.uri, mime_type=kind, text=sendable_text(body.text))
    return types.BlobResourceContents(uri=body.uri, mime_type=kind, blob=encode_data(body.data or b""))


def _as_body(uri: str, attachment: Attachment) -> ResourceBody:
    try:
        text = attachment.data.decode() if attachment.media_type.startswith("text/") else None
    except UnicodeDecodeError:
        text = None
    data = attachment.data if text is None else None
    return ResourceBody(uri=uri, media_type=attachment.media_type, text=text, data=data)


SIZE = 200
T = TypeVar("T")


def page_of(items: Sequence[T], params: types.PaginatedRequestParams | None) -> tuple[Sequence[T], str | None]:
    """The page that a cursor names, and the cursor of the next."""
    cursor = None if params is None else params.cursor
    start = _number(cursor)
    if start is None or (start and start >= len(items)):
        raise MCPError(types.INVALID_PARAMS, "Unknown cursor; begin again without one")
    end = start + SIZE
    return items[start:end], str(end) if end < len(items) else None


def _number(cursor: str | None) -> int | None:
    """The position that a cursor points to; None if the cursor is not ours."""
    if cursor is None:
        return 0
    return int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 10 else None
