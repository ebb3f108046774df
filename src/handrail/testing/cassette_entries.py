"""A request, a reply and an output as a cassette has them: plain JSON, without what differs from run to run.

Left out are times, durations, tokens of earlier replies, and random ids: the calls of a conversation are `call_1`,
`call_2` and so on. Secrets are masked. Bytes of a request are told by their hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.calls import Attachment, Output, ToolCall
from handrail.core.errors import (
    Cancelled,
    Denied,
    Forbidden,
    InDoubt,
    LimitReached,
    ModelError,
    Outcome,
    TimedOut,
    ToolError,
)
from handrail.core.events import (
    CallRequested,
    CitationAdded,
    MediaAdded,
    ModelEvent,
    ReasoningDelta,
    ReplyFinished,
    ServiceCallMade,
    TextDelta,
)
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    Citation,
    Content,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    ServiceCall,
    StopReason,
    SupervisorMessage,
    Text,
    Usage,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.core.redact import secret_fields
from handrail.testing.script import ERRORS

Plain = dict[str, Any]
"""A JSON object."""

STAND_IN = "secret-of-the-recording"
"""What a replayed call has in place of a secret that the file does not hold."""

_ERRORS_BY_OUTCOME: Mapping[str, type[ToolError]] = {
    kind.outcome: kind for kind in (Cancelled, Denied, Forbidden, InDoubt, LimitReached, TimedOut)
}
_NOT_SETTINGS = ("messages", "tools", "scratch", "response_nulls")
_REQUEST_FIELDS = tuple(name for name in ModelRequest.__struct_fields__ if name not in _NOT_SETTINGS)
_DEFAULTS = ModelRequest(messages=())


def secrets_of(tools: Sequence[ToolOffer]) -> dict[str, frozenset[str]]:
    """The names of arguments that the schema of each tool declares as secret."""
    found = {tool.name: secret_fields(tool.input_schema) for tool in tools}
    return {name: fields for name, fields in found.items() if fields}


def plain_request(request: ModelRequest) -> Plain:
    """What a model is asked. Its tools are whole here; a file has each of them once."""
    numbers = CallNumbers()
    settings = {
        name: msgspec.to_builtins(getattr(request, name))
        for name in _REQUEST_FIELDS
        if getattr(request, name) != getattr(_DEFAULTS, name)
    }
    tools = {tool.name: _plain_tool(tool) for tool in request.tools}
    messages = [_plain_message(message, numbers) for message in request.messages]
    return {"messages": messages, "tools": tools, **settings}


class CallNumbers:
    """Names calls by their place in a conversation."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, id: str) -> str:
        return self._names.setdefault(id, f"call_{len(self._names) + 1}")


def _plain_tool(tool: ToolOffer) -> Plain:
    flags = {flag: True for flag in ("deferred", "by_program") if getattr(tool, flag)}
    return {"description": tool.description, "input_schema": tool.input_schema, **flags}


def _plain_message(message: Message, numbers: CallNumbers) -> Plain:
    match message:
        case SupervisorMessage(text=text):
            return {"system": text}
        case UserMessage(content=content):
            return {"user": _plain_content(content)}
        case DocumentMessage(name=name, text=text):
            return {"document": name, "text": text}
        case AssistantMessage():
            return {"assistant": message.text, **_plain_extras(message)}
        case InvocationMessage(call=call, artefacts=artefacts):
            return {**plain_call(call, numbers.name(call.id)), **_some(artefacts=_hashed(artefacts))}
        case ResultMessage(result=result):
            failed = {} if result.outcome == "ok" else {"outcome": result.outcome}
            extras = _some(warnings=list(result.warnings), attachments=_hashed(result.attachments))
            named = {"result": numbers.name(result.tool_call_id), "tool": result.name}
            shown = result.content
            if result.spilled is not None and isinstance(shown, str):  # its note says where the whole output lies
                shown = shown.replace(result.spilled.id, f"output of {named['result']}")
            return {**named, **failed, "content": shown, **extras}


def _plain_content(content: tuple[Content, ...]) -> Any:
    if all(isinstance(part, Text) for part in content):
        return "".join(part.text for part in content if isinstance(part, Text))
    return _hashed(content)


def _plain_extras(message: AssistantMessage) -> Plain:
    """What a reply has besides its text and calls."""
    return _some(
        citations=msgspec.to_builtins(message.citations),
        media=_hashed(message.media),
        service_calls=msgspec.to_builtins(message.service_calls),
        artefacts=_hashed(message.artefacts),
    )


def plain_call(call: ToolCall, name: str) -> Plain:
    return {"id": name, "tool": call.name, "arguments": _parsed(call.arguments)}


def _parsed(arguments: dict[str, Any] | str) -> Any:
    """Arguments as an object wherever that is what they are, so that a reader sees them and not their JSON."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return parse_object(arguments)
    except JSONTextError:
        return arguments


def _hashed(values: Sequence[Any]) -> list[Any]:
    """The values as JSON, with the hash of their bytes instead of the bytes."""
    return [_hash_bytes(msgspec.to_builtins(value, builtin_types=(bytes,))) for value in values]


def _hash_bytes(value: Any) -> Any:
    match value:
        case bytes():
            return f"sha256:{hashlib.sha256(value).hexdigest()} ({len(value)} bytes)"
        case dict():
            return {key: _hash_bytes(item) for key, item in value.items()}
        case list() | tuple():
            return [_hash_bytes(item) for item in value]
    return value


def _some(**fields: Any) -> Plain:
    """The fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


class ReplyEntry:
    """Collects the events of one reply, for the file. Notices and failed attempts are left out: they tell of the day
    of the recording, as that a model was loaded first."""

    def __init__(self, request: ModelRequest) -> None:
        self._numbers = CallNumbers()
        for message in request.messages:
            _plain_message(message, self._numbers)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[Plain] = []
        self._parts: dict[str, list[Any]] = {"citations": [], "media": [], "service_calls": []}
        self._end: Plain = {}

    def take(self, event: ModelEvent) -> None:
        match event:
            case TextDelta(text=piece):
                self._text.append(piece)
            case ReasoningDelta(text=piece):
                self._reasoning.append(piece)
            case CallRequested(call=call, artefacts=artefacts):
                # A model may use an id twice, and may give none: each call of a reply is a call of its own.
                name = self._numbers.name(f"\0{len(self._calls)}")
                self._calls.append({**plain_call(call, name), **_some(artefacts=msgspec.to_builtins(artefacts))})
            case CitationAdded(citation=citation):
                self._parts["citations"].append(msgspec.to_builtins(citation))
            case MediaAdded(media=media):
                self._parts["media"].append(msgspec.to_builtins(media))
            case ServiceCallMade(call=made):
                self._parts["service_calls"].append(msgspec.to_builtins(made))
            case ReplyFinished(stop=stop, model=model, usage=usage, artefacts=artefacts):
                told = _some(usage=msgspec.to_builtins(usage), artefacts=msgspec.to_builtins(artefacts))
                self._end = {"stop": stop, "model": model, **told}

    def fail(self, error: ModelError) -> None:
        self._end = {"error": error.code, "message": str(error)}

    def plain(self) -> Plain:
        said = _some(reasoning="".join(self._reasoning), text="".join(self._text), calls=self._calls, **self._parts)
        return {**said, **self._end}


class _CallPart(Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    tool: str
    arguments: dict[str, Any] | str
    artefacts: tuple[Artefact, ...] = ()


class ReplyParts(Struct, frozen=True, forbid_unknown_fields=True):
    """A reply as the file has it: with `stop` it ended, with `error` it did not."""

    reasoning: str = ""
    text: str = ""
    calls: tuple[_CallPart, ...] = ()
    citations: tuple[Citation, ...] = ()
    media: tuple[Media, ...] = ()
    service_calls: tuple[ServiceCall, ...] = ()
    stop: StopReason = "end"
    model: str = ""
    usage: Usage = Usage()
    artefacts: tuple[Artefact, ...] = ()
    error: str | None = None
    message: str = ""


def replayed_reply(reply: Plain, secrets: Mapping[str, frozenset[str]]) -> tuple[list[ModelEvent], ModelError | None]:
    """The events of a recorded reply, its text in one piece, and what it ended with, if it failed.

    Raises:
        msgspec.ValidationError: It is no reply.
    """
    parts = msgspec.convert(reply, ReplyParts)
    events: list[ModelEvent] = [ServiceCallMade(call=made) for made in parts.service_calls]
    events += [ReasoningDelta(text=parts.reasoning)] if parts.reasoning else []
    events += [TextDelta(text=parts.text)] if parts.text else []
    events += [CitationAdded(citation=citation) for citation in parts.citations]
    events += [MediaAdded(media=media) for media in parts.media]
    for call in parts.calls:
        arguments = with_stand_ins(call.arguments, secrets.get(call.tool, frozenset()))
        events.append(CallRequested(call=ToolCall(call.id, call.tool, arguments), artefacts=call.artefacts))
    if parts.error is not None:
        return events, ERRORS.get(parts.error, ModelError)(parts.message)
    end = ReplyFinished(stop=parts.stop, model=parts.model, usage=parts.usage, artefacts=parts.artefacts)
    return [*events, end], None


def with_stand_ins(arguments: dict[str, Any] | str, names: frozenset[str]) -> Any:
    """Arguments that a tool takes although the secrets of these names are not known."""
    parsed = _parsed(arguments)
    return _fill(parsed, names) if names and isinstance(parsed, dict) else arguments


def _fill(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {key: STAND_IN if key in names else _fill(item, names) for key, item in value.items()}
    return [_fill(item, names) for item in value] if isinstance(value, list) else value


def reply_as_messages(reply: Plain) -> list[Plain]:
    """A reply as the requests after it have it: what the requests of one conversation share is written once."""
    kept: Plain = {name: reply[name] for name in ("citations", "service_calls", "artefacts") if name in reply}
    media = _hashed(msgspec.convert(reply.get("media", []), list[Media]))
    return [{"assistant": reply.get("text", ""), **kept, **_some(media=media)}, *reply.get("calls", ())]


def plain_output(output: Output) -> Plain:
    extras = _some(warnings=list(output.warnings), attachments=msgspec.to_builtins(output.attachments))
    return {"output": output.output, **extras}


def plain_failure(error: ToolError) -> Plain:
    return {"error": {"outcome": error.outcome, "code": error.code, "message": error.message}}


class _FailurePart(Struct, frozen=True, forbid_unknown_fields=True):
    outcome: Outcome
    code: str
    message: str


class OutputParts(Struct, frozen=True):
    """What came of a call, as the file has it."""

    output: Any = None
    warnings: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    error: _FailurePart | None = None


def replayed_output(entry: Plain) -> Output:
    """What a recorded call returned.

    Raises:
        ToolError: The recorded call failed.
        msgspec.ValidationError: It is no entry of a call.
    """
    parts = msgspec.convert(entry, OutputParts)
    if parts.error is None:
        return Output(parts.output, parts.warnings, parts.attachments)
    kind = _ERRORS_BY_OUTCOME.get(parts.error.outcome)
    raise ToolError(parts.error.code, parts.error.message) if kind is None else kind(parts.error.message)
