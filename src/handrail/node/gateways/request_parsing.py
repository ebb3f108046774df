"""A request's JSON as typed values, and what both APIs ask of a conversation."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

import msgspec

from handrail.core.calls import Attachment, ToolResult
from handrail.core.errors import BusError, Outcome
from handrail.core.jsontext import JSONTextError, parse
from handrail.core.messages import Content, InvocationMessage, Media, Message, ResultMessage, Text
from handrail.core.model_request import NamedTool, ToolChoice, ToolOffer
from handrail.node.gateways.request import HandrailExtension

T = TypeVar("T")

_AT = re.compile(r"(?s)(.*) - at `(?:key in )?\$\.?(.*)`")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_DATA = re.compile(r"data:([a-z]+/[a-z0-9.+-]+)(?:;[a-z-]+=[^;,]*)*;base64,", re.ASCII | re.IGNORECASE)
_SEEN = 40
"""Characters of what a client wrote that an error shows."""


def refuse_field(param: str, why: str, **more: Any) -> NoReturn:
    """Raises the `BusError` of a request that is wrong at this place."""
    raise BusError("bad_request", f"{param}: {why}" if param else why, param=param, **more)


def read_json_object(body: bytes, most: int) -> dict[str, Any]:
    """The JSON object that a body is. A `BusError` refuses anything else, and more than `most` bytes."""
    try:
        value = parse(body, max_size=most)
    except JSONTextError as error:
        refuse_field("", f"the body is not JSON that can be read: {error}")
    if not isinstance(value, dict):
        refuse_field("", "the body must be a JSON object")
    return value


def convert_field(value: Any, kind: type[T], within: str = "") -> T:
    """A value as one of this type. A `BusError` says where it is of another form."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        why, path = (found[1], found[2]) if found else (str(error), "")
        refuse_field(".".join(part for part in (within, path) if part), why.replace("`", "")[:200])


_HEADERS = {"tools": "x-handrail-tools", "confirm": "x-handrail-confirm", "run": "x-handrail-run"}

_SWITCHES = {"progress": "x-handrail-progress", "show_calls": "x-handrail-show-calls"}


def extension_of(body: Mapping[str, Any], headers: Mapping[str, str]) -> HandrailExtension:
    """What is asked of the node besides: in the field `handrail`, else in headers.

    Raises:
        BusError: It is of another form.
    """
    said: dict[str, Any] = {key: headers[name] for key, name in _HEADERS.items() if name in headers}
    if said.get("tools") not in (None, "all", "none"):
        said["tools"] = [name.strip() for name in said["tools"].split(",") if name.strip()]
    for key, name in _SWITCHES.items():
        if name in headers:
            said[key] = headers[name].lower() in ("1", "true", "yes")
    field = body.get("handrail")
    if not isinstance(field, dict | None):
        refuse_field("handrail", "expected an object")
    return convert_field({**said, **(field or {})}, HandrailExtension, "handrail")


def check_tools(tools: tuple[ToolOffer, ...], choice: ToolChoice, param: str) -> None:
    """Refuses, with a `BusError`, tools of which a name cannot be one, or is there twice."""
    seen: set[str] = set()
    for at, tool in enumerate(tools):
        if not _NAME.fullmatch(tool.name):
            refuse_field(f"{param}[{at}]", f"{tool.name[:_SEEN]!r} is not a tool name: 1 to 128 of A-Z a-z 0-9 _ -")
        if tool.name in seen:
            refuse_field(f"{param}[{at}]", f"{tool.name!r} is declared twice")
        seen.add(tool.name)
    if isinstance(choice, NamedTool) and not choice.name:
        refuse_field("tool_choice", "names no tool")


def check_answered(messages: tuple[Message, ...], param: str = "messages") -> None:
    """Refuses, with a `BusError`, calls of the assistant that are not followed by their one result each.

    What is open would be called again here.
    """
    waiting: set[str] = set()
    for message in messages:
        match message:
            case InvocationMessage(call=call):
                if call.id in waiting:
                    refuse_field(param, f"two calls of one reply have the id {call.id[:_SEEN]!r}")
                waiting.add(call.id)
            case ResultMessage(result=result):
                if result.tool_call_id not in waiting:
                    refuse_field(
                        param,
                        f"{result.tool_call_id[:_SEEN]!r} has a result, but the reply before does not call it",
                    )
                waiting.discard(result.tool_call_id)
            case _ if waiting:
                break
    if waiting:
        named = ", ".join(sorted(repr(id[:_SEEN]) for id in waiting)[:5])
        refuse_field(param, f"there is no result for the calls {named}; each must follow the reply that made it")


def stop_sequences_of(said: str | list[str] | None, param: str) -> tuple[str, ...]:
    """Texts at which an answer ends.

    Raises:
        BusError: One is empty.
    """
    found = (said,) if isinstance(said, str) else tuple(said or ())
    if "" in found:
        refuse_field(param, "a text to stop at cannot be empty")
    return found


def media_at(url: str, param: str, name: str = "", kind: str = "image/jpeg") -> Media:
    """What an address stands for: bytes in it, or something on the web that the model's service fetches.

    Raises:
        BusError: It is of another kind.
    """
    if found := _DATA.match(url):
        return Media(media_type=found[1].lower(), data=bytes_of(url[found.end() :], param), name=name)
    if not url.startswith(("https://", "http://")):
        refuse_field(param, "expected an http(s) address, or data:TYPE;base64,…")
    return Media(media_type=mimetypes.guess_type(url.partition("?")[0])[0] or kind, url=url, name=name)


def bytes_of(text: str, param: str) -> bytes:
    """The bytes of base64. A `BusError` refuses what is not."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        refuse_field(param, "is not base64")


def sound_of(data: str, form: str, param: str) -> Media:
    return Media(media_type="audio/wav" if form == "wav" else "audio/mpeg", data=bytes_of(data, param))


def result_of(id: str, name: str, parts: Iterable[Content], param: str, outcome: Outcome = "ok") -> ToolResult:
    """The result of a client's own tool, made of what it shows.

    Raises:
        BusError: Something is an address: what a result shows is sent itself.
    """
    texts: list[str] = []
    attached: list[Attachment] = []
    for part in parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif part.data is None:
            refuse_field(param, "an image or a document of a result is sent itself, not as an address")
        else:
            attached.append(Attachment(part.name or "attachment", part.media_type, part.data))
    return ToolResult(id, name, "\n".join(texts), outcome=outcome, attachments=tuple(attached))
