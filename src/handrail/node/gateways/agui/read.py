"""The input of an AG-UI run as what is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import ToolCall
from handrail.core.messages import (
    AssistantMessage,
    Content,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.node.gateways.agui import body
from handrail.node.gateways.agui.interrupts import run_of_interrupt
from handrail.node.gateways.request import GatewayAnswer, GatewayRequest, HandrailExtension
from handrail.node.gateways.request_parsing import (
    bytes_of,
    check_answered,
    check_tools,
    convert_field,
    extension_of,
    media_at,
    read_json_object,
    refuse_field,
    result_of,
)

_UNANSWERED = "This call was not carried out: nobody allowed it before the conversation went on."
_KINDS = {
    body.ImagePart: "image/png",
    body.AudioPart: "audio/mpeg",
    body.VideoPart: "video/mp4",
    body.DocumentPart: "application/pdf",
}


def read_agui_request(data: bytes, headers: Mapping[str, str], most: int) -> GatewayRequest:
    """Reads the input of a run.

    Raises:
        BusError: It cannot be answered as it stands (`bad_request`), with the place that is wrong.
    """
    asked = convert_field(read_json_object(data, most), body.RunAgentInput)
    props = asked.forwarded_props or {}
    ours, answers = _resumed(asked.resume or (), _extension(props, headers))
    messages = tuple(_AguiReader(asked.messages).read(goes_on=bool(asked.resume)))
    if not asked.resume:  # else the calls at the end are answered by what is resumed
        check_answered(messages)
    if asked.context:
        messages = (_context(asked.context), *messages)
    tools = tuple(ToolOffer(each.name, each.description, each.parameters or _NOTHING) for each in asked.tools or ())
    check_tools(tools, "auto", "tools")
    model = props.get("model")
    if not isinstance(model, str | None):
        refuse_field("forwardedProps.model", "expected the name of a model")
    return GatewayRequest(
        model=model,
        messages=messages,
        settings=ModelRequest(messages=()),
        tools=tools,
        stream=True,
        usage=True,
        ours=ours,
        answers=answers,
        ignored=("state",) if asked.state else (),
        echo={"threadId": asked.thread_id, "runId": asked.run_id},
    )


_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def _extension(props: Mapping[str, Any], headers: Mapping[str, str]) -> HandrailExtension:
    """A run pauses where a person is asked, unless the client says otherwise: the protocol has interrupts for that."""
    ours = extension_of(props, headers)
    said = props.get("handrail") or {}
    return ours if "confirm" in said or "x-handrail-confirm" in headers else replace(ours, confirm="pause")


def _resumed(
    entries: Sequence[body.ResumeEntry], ours: HandrailExtension
) -> tuple[HandrailExtension, tuple[GatewayAnswer, ...]]:
    """The run that goes on, and what was answered to its questions."""
    runs: set[str] = set()
    answers: list[GatewayAnswer] = []
    for at, entry in enumerate(entries):
        run, request = run_of_interrupt(entry.interrupt_id, f"resume[{at}].interruptId")
        runs.add(run)
        answers.append(GatewayAnswer(request, _allows(entry, f"resume[{at}].payload")))
    if len(runs) > 1:
        refuse_field("resume", "these interrupts are of several runs; resume one of them")
    return (replace(ours, run=runs.pop()), tuple(answers)) if runs else (ours, ())


def _allows(entry: body.ResumeEntry, param: str) -> bool:
    if entry.status == "cancelled":
        return False
    match entry.payload:
        case bool() as allowed:
            return allowed
        case {"approved": bool() as allowed}:
            return allowed
    refuse_field(param, 'expected {"approved": true} or {"approved": false}')


def _context(entries: Sequence[body.ContextEntry]) -> SupervisorMessage:
    lines = [f"{each.description}: {each.value}" for each in entries]
    return SupervisorMessage("\n\n".join(("The application says of itself:", *lines)))


class _AguiReader:
    """Messages in order: a result says only the id of its call, which came before."""

    def __init__(self, messages: Sequence[body.AguiMessage]) -> None:
        self._messages = messages
        self._names: dict[str, str] = {}
        self._open: dict[str, str] = {}
        """Calls without a result, by id: the names of their tools."""

    def read(self, *, goes_on: bool) -> Iterator[Message]:
        """Reads a run's input. With `goes_on`, the calls at the end wait for an answer now, and are left to the resumed
        run."""
        for at, message in enumerate(self._messages):
            param = f"messages[{at}].content"
            match message:
                case body.DeveloperMessage(content=text) | body.SystemMessage(content=text):
                    yield from self._closed()
                    yield SupervisorMessage(text)
                case body.UserSaid(content=content):
                    yield from self._closed()
                    yield UserMessage(tuple(_shown(content, param)))
                case body.AssistantSaid():
                    yield from self._closed()
                    yield from self._assistant(message)
                case body.ToolSaid():
                    yield ResultMessage(self._result(message, param))
        if goes_on:
            return
        yield from self._closed()

    def _closed(self) -> Iterator[Message]:
        """A result for each call that has none: what waited was not carried out."""
        for id, name in self._open.items():
            yield ResultMessage(result_of(id, name, (Text(_UNANSWERED),), "messages", "cancelled"))
        self._open.clear()

    def _assistant(self, message: body.AssistantSaid) -> Iterator[Message]:
        calls = message.tool_calls or []
        yield AssistantMessage(message.content or "", stop="tool_calls" if calls else "end")
        for call in calls:
            name = self._names[call.id] = self._open[call.id] = call.function.name
            yield InvocationMessage(ToolCall(call.id, name, call.function.arguments))

    def _result(self, message: body.ToolSaid, param: str) -> Any:
        id = message.tool_call_id
        self._open.pop(id, None)
        parts = list(_shown(message.content, param))
        if message.error:
            parts.append(Text(message.error))
        return result_of(id, self._names.get(id, ""), parts, param, "failed" if message.error else "ok")


def _shown(content: str | list[body.Part], param: str) -> Iterator[Content]:
    if isinstance(content, str):
        yield Text(content)
        return
    for at, part in enumerate(content):
        here = f"{param}[{at}]"
        match part:
            case body.TextPart(text=text):
                yield Text(text)
            case body.BinaryPart(mime_type=kind, url=url, data=data, filename=name):
                yield _binary(kind, url, data, name or "", here)
            case _:
                yield _media(part.source, _KINDS[type(part)], f"{here}.source")


def _binary(kind: str, url: str | None, data: str | None, name: str, param: str) -> Media:
    if data is not None:
        return Media(media_type=kind, data=bytes_of(data, f"{param}.data"), name=name)
    if url is None:
        refuse_field(param, "expected `data` or `url`")
    return media_at(url, f"{param}.url", name, kind)


def _media(source: body.DataSource | body.UrlSource, kind: str, param: str) -> Media:
    match source:
        case body.DataSource(value=data, mime_type=said):
            return Media(media_type=said, data=bytes_of(data, f"{param}.value"))
        case body.UrlSource(value=url, mime_type=said):
            return media_at(url, f"{param}.value", kind=said or kind)
