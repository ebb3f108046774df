"""Messages of a conversation as `llm.chat` writes them, both ways.

A call is flat, `{id, name, arguments}`, with its arguments as an object. A result is a
message of the role `tool` whose content is text: that of the result, or its JSON. A
word of the program right after results is a `tool` message too, for a call that has
its result already: that is how the wire says that the limit of calls is reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import BusError
from handrail.core.jsontext import object_or_text
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)

Wire = dict[str, Any]
Pictures = Mapping[str, Media]
"""Pictures by the cid of their blobs."""


def write_messages(messages: Sequence[Message]) -> list[Wire]:
    """A conversation for the wire.

    Raises:
        BusError: It holds what has no name there: bytes that were not put as a blob (`bad_request`).
    """
    found: list[Wire] = []
    answered: str | None = None
    for message in messages:
        match message:
            case UserMessage(content=content):
                found.append({"role": "user", "content": _content(content)})
            case DocumentMessage(name=name, text=text):
                found.append({"role": "user", "content": f"## Document: {name}\n\n{text}"})
            case SupervisorMessage(text=text) if answered is not None:
                found.append({"role": "tool", "tool_call_id": answered, "content": text})
            case SupervisorMessage(text=text):
                found.append({"role": "system", "content": text})
            case AssistantMessage():
                found.append({"role": "assistant", "content": message.text, **write_artefacts(message.artefacts)})
            case InvocationMessage():
                _spoken(found).setdefault("tool_calls", []).append(write_call(message.call, message.artefacts))
            case ResultMessage(result=result):
                found.append(_result(result))
        match message:
            case ResultMessage(result=result):
                answered = result.tool_call_id
            case SupervisorMessage():
                pass
            case _:
                answered = None
    return found


def _spoken(found: list[Wire]) -> Wire:
    """The reply that a call belongs to."""
    if not found or found[-1]["role"] != "assistant":
        found.append({"role": "assistant", "content": ""})
    return found[-1]


def write_call(call: ToolCall, artefacts: tuple[Artefact, ...] = ()) -> Wire:
    """A call with its arguments as an object; what is none stays the text that the model wrote."""
    return {
        "id": call.id,
        "name": call.name,
        "arguments": object_or_text(call.arguments),
        **write_artefacts(artefacts),
    }


def _result(result: ToolResult) -> Wire:
    failed = {"is_error": True} if result.is_error else {}
    return {"role": "tool", "tool_call_id": result.tool_call_id, "content": result.text, **failed}


def _content(content: Sequence[Text | Media]) -> str | list[Wire]:
    if all(isinstance(part, Text) for part in content):
        return "".join(part.text for part in content if isinstance(part, Text))
    return [_part(part) for part in content]


def _part(part: Text | Media) -> Wire:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.url is None or not part.url.startswith("blake3:"):
        raise BusError("bad_request", "a picture goes over the bus by the cid of its blob; put it with blob.put first")
    return {"type": "image", "image_cid": part.url}


def write_artefacts(artefacts: Sequence[Artefact]) -> Wire:
    if not artefacts:
        return {}
    return {"artefacts": [{"provider": each.provider, "data": each.data} for each in artefacts]}


def read_artefacts(said: Mapping[str, Any]) -> tuple[Artefact, ...]:
    return tuple(Artefact(each["provider"], each["data"]) for each in said.get("artefacts", ()))


def pictures_in(messages: Sequence[Wire]) -> list[str]:
    """The cids of the pictures that messages show, each once."""
    parts = (part for message in messages if isinstance(message.get("content"), list) for part in message["content"])
    return list(dict.fromkeys(part["image_cid"] for part in parts if part["type"] == "image"))


def read_messages(messages: Sequence[Wire], pictures: Pictures) -> tuple[Message, ...]:
    """Messages of a body that fits the schema.

    Raises:
        BusError: Roles or ids do not fit together (`bad_request`).
    """
    reading = _MessageParser(pictures)
    for number, message in enumerate(messages):
        reading.take(number, message)
    return tuple(reading.messages)


class _MessageParser:
    def __init__(self, pictures: Pictures) -> None:
        self.messages: list[Message] = []
        self._pictures = pictures
        self._open: dict[str, str] = {}
        """Names of the calls that wait for a result, by id."""
        self._answered: set[str] = set()

    def take(self, number: int, said: Wire) -> None:
        match said["role"]:
            case "system":
                self.messages.append(SupervisorMessage(self._text(number, said)))
            case "user":
                self.messages.append(UserMessage(self._parts(number, said)))
            case "assistant":
                self.messages.append(AssistantMessage(self._text(number, said), artefacts=read_artefacts(said)))
                for call in said.get("tool_calls", ()):
                    self._open[call["id"]] = call["name"]
                    made = ToolCall(call["id"], call["name"], call["arguments"])
                    self.messages.append(InvocationMessage(made, artefacts=read_artefacts(call)))
            case "tool":
                self._result(number, said)

    def _result(self, number: int, said: Wire) -> None:
        id, text = said.get("tool_call_id", ""), self._text(number, said)
        if id in self._open:
            outcome: Any = "failed" if said.get("is_error") else "ok"
            self._answered.add(id)
            self.messages.append(ResultMessage(ToolResult(id, self._open.pop(id), text, outcome)))
        elif id in self._answered:
            self.messages.append(SupervisorMessage(text))
        else:
            raise _wrong(number, f"tool_call_id {id[:80]!r} names no call that was made before it")

    def _text(self, number: int, said: Wire) -> str:
        content = said.get("content")
        if isinstance(content, list):
            if any(part["type"] != "text" for part in content):
                raise _wrong(number, f"only a user shows pictures, not {said['role']!r}")
            return "".join(part["text"] for part in content)
        return content or ""

    def _parts(self, number: int, said: Wire) -> tuple[Text | Media, ...]:
        content = said.get("content")
        if not content:
            raise _wrong(number, "a user's message needs content")
        if isinstance(content, str):
            return (Text(content),)
        return tuple(
            Text(part["text"]) if part["type"] == "text" else self._pictures[part["image_cid"]] for part in content
        )


def _wrong(number: int, why: str) -> BusError:
    return BusError("bad_request", f"input.messages[{number}]: {why}")
