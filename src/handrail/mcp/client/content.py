"""The result of a remote call as our values: a JSON value or text, and attachments."""

from __future__ import annotations

import base64
import binascii

import mcp_types
import msgspec

from handrail.core.calls import Attachment, Output
from handrail.core.errors import InvalidOutput, ToolError, UsageError

_NOT_BASE64 = "it is not valid base64"


def output_of(result: mcp_types.CallToolResult, *, structured: bool) -> Output:
    """What a call gave. `structured` says that its tool declares a schema for its results.

    The value is the structured content where there is any, and else the text. The
    executor holds it to the schema.

    Raises:
        ToolError: The server says that the tool failed.
        InvalidOutput: A schema was promised and nothing structured came.
    """
    reader = _ResultBlocks()
    has_value = result.structured_content is not None or "structured_content" in result.model_fields_set
    for block in result.content:
        reader.read(block, aside=has_value)
    text = "\n".join(reader.texts)
    if result.is_error:
        value = result.structured_content
        said = text or ("" if value is None else msgspec.json.encode(value).decode())
        raise ToolError("failed", said or "the server says that it failed, and nothing else")
    if structured and not has_value:
        raise InvalidOutput("its server declares a schema for it and sent no structured content")
    value = result.structured_content if has_value else text
    return Output(value, tuple(reader.warnings), tuple(reader.attachments))


class _ResultBlocks:
    """Goes through the blocks of a result once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.attachments: list[Attachment] = []
        self.warnings: list[str] = []

    def read(self, block: mcp_types.ContentBlock, *, aside: bool) -> None:
        """Reads one block. With `aside` the value is elsewhere, and only what that does not say is kept."""
        match block:
            case mcp_types.TextContent():
                self.texts.append(block.text)
            case mcp_types.ImageContent() | mcp_types.AudioContent():
                self._attach(self._name(block.type, block.mime_type), block.mime_type, block.data)
            case mcp_types.ResourceLink():
                if aside:
                    address = block.uri.encode("utf-8", "backslashreplace")
                    self.attachments.append(Attachment(block.name, "text/uri-list", address))
                self.texts.append(link_text(block))
            case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as inner):
                if aside:
                    data = inner.text.encode("utf-8", "backslashreplace")
                    self.attachments.append(Attachment(inner.uri, inner.mime_type or "text/plain", data))
                self.texts.append(f"[resource {inner.uri}]\n{inner.text}")
            case mcp_types.EmbeddedResource(resource=mcp_types.BlobResourceContents() as inner):
                self._attach(inner.uri, inner.mime_type or "application/octet-stream", inner.blob)

    def _name(self, kind: str, media_type: str) -> str:
        subtype = media_type.partition("/")[2]
        suffix = f".{subtype}" if subtype.isascii() and subtype.isalnum() else ""
        return f"{kind}-{len(self.attachments) + 1}{suffix}"

    def _attach(self, name: str, media_type: str, data: str) -> None:
        try:
            self.attachments.append(Attachment(name, media_type, decode_base64(data)))
        except UsageError:
            self.warnings.append(f"{name} was left out: {_NOT_BASE64}")


def link_text(link: mcp_types.Resource) -> str:
    facts = ", ".join(filter(None, (link.mime_type, link.description)))
    return f"[resource {link.uri}] {link.title or link.name}{f' ({facts})' if facts else ''}"


def decode_base64(data: str) -> bytes:
    """Bytes from base64.

    Raises:
        UsageError: It is none.
    """
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(_NOT_BASE64) from None
