"""What a person sends from an editor, as words and files of a conversation."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TypeAlias

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from handrail.core.errors import UsageError
from handrail.desk.values import AttachedFile

PromptBlock: TypeAlias = (
    TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock
)


def words_and_files(prompt: Sequence[PromptBlock]) -> tuple[str, tuple[AttachedFile, ...]]:
    """The text of a prompt, and what is attached to it. A link is text: whoever wants its content reads it by a tool.

    Raises:
        UsageError: Something in it is not base64.
    """
    words: list[str] = []
    files: list[AttachedFile] = []
    for block in prompt:
        match block:
            case TextContentBlock(text=text):
                words.append(text)
            case ResourceContentBlock(uri=uri, name=name):
                words.append(f"[{name}]({uri})")
            case EmbeddedResourceContentBlock(resource=resource):
                files.append(_embedded(resource))
                words.append(f"[{_name(resource.uri)}]({resource.uri})")
            case ImageContentBlock(data=data, mime_type=kind, uri=uri):
                files.append(AttachedFile(name=_name(uri or "image"), media_type=kind, data=_bytes(data)))
            case AudioContentBlock(data=data, mime_type=kind):
                files.append(AttachedFile(name="audio", media_type=kind, data=_bytes(data)))
    return "".join(words), tuple(files)


def _embedded(resource: TextResourceContents | BlobResourceContents) -> AttachedFile:
    text = isinstance(resource, TextResourceContents)
    data = resource.text.encode() if isinstance(resource, TextResourceContents) else _bytes(resource.blob)
    kind = resource.mime_type or ("text/plain" if text else "application/octet-stream")
    return AttachedFile(name=_name(resource.uri), media_type=kind, data=data)


def _name(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2] or uri


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError(f"a file of the prompt is not base64: {error}") from error
