"""What a query says in OpenAI's words, as ours: prompt, `response_format`, `tools`, `tool_choice`.

Whatever is wrong is a `ValueError`, as the document of these functions has it. Nothing that
is given is changed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import UsageError
from handrail.core.messages import (
    AssistantMessage,
    Content,
    Conversation,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import NamedTool, ToolChoice
from handrail.sessions import tool_forms
from handrail.tools.definition import ToolDefinition

NEEDS_HANDLER = "tool_handler is required when tools are provided"
MOST_TOOLS = 1_000
"""The most tools of one query: each is read, checked and prepared before the model is asked."""


def check_model(model: Any) -> None:
    """Raise a `ValueError` for a model that is not a name."""
    if not isinstance(model, str | None):
        raise ValueError(f"Invalid model: give its name, not {type(model).__name__}")


def conversation_of(prompt: Any) -> Conversation:
    """A question, or messages: system, developer, user, assistant with its `tool_calls`, tool.

    Raises:
        ValueError: It is neither, or a message cannot be read.
    """
    if isinstance(prompt, str):
        return Conversation((UserMessage((Text(prompt),)),))
    if not isinstance(prompt, list) or not all(isinstance(message, Mapping) for message in prompt):
        raise ValueError(f"Invalid prompt type: {_type_of(prompt)}; give text, or a list of messages")
    if not prompt:
        raise ValueError("Invalid prompt: there are no messages in it")
    return Conversation(tuple(_PromptReader().read(prompt)))


def check_pictures(prompts: Any) -> None:
    """Of code in a sandbox. Who serves a model fetches the pictures that it is given by address: so code without a
    network could send anything anywhere.

    Raises:
        ValueError: A picture is an address, or a message cannot be read.
    """
    for prompt in prompts if isinstance(prompts, list) else ():
        if not isinstance(prompt, list):
            continue
        said = (each for each in conversation_of(prompt).messages if isinstance(each, UserMessage))
        parts = (part for each in said for part in each.content)
        if any(isinstance(part, Media) and part.url is not None for part in parts):
            raise ValueError("Invalid prompt: code in a REPL gives pictures as data:TYPE;base64,…, not by address")


def _type_of(prompt: Any) -> str:
    if not isinstance(prompt, list):
        return type(prompt).__name__
    return f"list of {next(type(each).__name__ for each in prompt if not isinstance(each, Mapping))}"


class _PromptReader:
    """Messages in order. A result says only the id of its call, which came before."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        """Names of calls that wait for a result, by id."""

    def read(self, messages: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
        for at, said in enumerate(messages):
            try:
                yield from self._message(said)
            except UsageError as error:
                raise ValueError(f"Invalid prompt: messages[{at}]: {error}") from error
        if self._open:
            raise ValueError(f"Invalid prompt: the call {next(iter(self._open))!r} has no result")

    def _message(self, said: Mapping[str, Any]) -> Iterator[Message]:
        content = said.get("content")
        match said.get("role"):
            case "system" | "developer":
                yield SupervisorMessage(_text(content))
            case "user":
                yield UserMessage(_parts(content))
            case "assistant":
                calls = said.get("tool_calls") or []
                if not isinstance(calls, list):
                    raise UsageError(f"tool_calls is a list of calls, not {type(calls).__name__}")
                yield AssistantMessage(_text(content or ""), stop="tool_calls" if calls else "end")
                yield from map(self._call, calls)
            case "tool":
                id = said.get("tool_call_id")
                if not isinstance(id, str) or id not in self._open:
                    raise UsageError(f"the tool_call_id {id!r} names no call before it that waits for a result")
                yield ResultMessage(ToolResult(id, self._open.pop(id), _text(content)))
            case other:
                raise UsageError(f"the role is system, developer, user, assistant or tool, not {other!r}")

    def _call(self, said: Any) -> InvocationMessage:
        if not isinstance(said, Mapping):
            raise UsageError("a call in tool_calls is an object")
        call = ToolCall.from_dict(said)
        if not call.id or call.id in self._open:
            raise UsageError(f"each call needs an id of its own; {call.name!r} has {call.id!r}")
        self._open[call.id] = call.name
        return InvocationMessage(call)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = _parts(content)
    if not all(isinstance(part, Text) for part in parts):
        raise UsageError("only a user's message may hold more than text")
    return "".join(part.text for part in parts if isinstance(part, Text))


def _parts(content: Any) -> tuple[Content, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list):
        raise UsageError(f"content is text or a list of parts, not {type(content).__name__}")
    return tuple(map(_part, content))


def _part(part: Any) -> Content:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return _picture(url)
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise UsageError(f"a part is text or an image_url, not {kind!r}")


def _picture(url: str) -> Media:
    if url.startswith(("https://", "http://")):
        return Media(media_type="image/jpeg", url=url)
    head, comma, data = url.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        raise UsageError("the url of an image is an http(s) address, or data:TYPE;base64,…")
    try:
        return Media(media_type=head[5:-7].partition(";")[0], data=base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise UsageError("the data of an image is not base64") from error


def schema_of(response_format: Any) -> dict[str, Any] | None:
    """The JSON Schema that an answer must fit.

    Raises:
        ValueError: It is of no form that we know.
    """
    match response_format:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
    raise ValueError(
        "Invalid response_format: give {'type': 'json_object'}, or {'type': 'json_schema', 'json_schema': "
        "{'name': …, 'schema': {…}}}"
    )


def definitions_of(tools: Any) -> tuple[ToolDefinition, ...]:
    """Tools as they are declared in requests, OpenAI's or in any spelling that we read.

    Raises:
        ValueError: One cannot be read, or has the name of another.
    """
    if not isinstance(tools, list | tuple) or not all(isinstance(each, Mapping) for each in tools):
        raise ValueError("Invalid tools: give a list of definitions, each an object")
    if len(tools) > MOST_TOOLS:
        raise ValueError(f"Invalid tools: {len(tools):,} are too many; give {MOST_TOOLS:,} at most")
    try:
        return tool_forms.definitions_of(tools)
    except UsageError as error:
        raise ValueError(f"Invalid tools: {error}") from error


def choice_of(tool_choice: Any, names: Sequence[str]) -> ToolChoice:
    """`auto`, `none`, `required`, the name of a tool, or OpenAI's object with one.

    Raises:
        ValueError: It names a tool that is not given, or there are none.
    """
    try:
        choice = "auto" if tool_choice is None else tool_forms.choice_of(tool_choice)
    except UsageError as error:
        raise ValueError(f"Invalid tool_choice: {error}") from error
    if choice == "required" and not names:
        raise ValueError("Invalid tool_choice: a call is required, and there are no tools")
    if isinstance(choice, NamedTool) and choice.name not in names:
        raise ValueError(
            f"Invalid tool_choice: {choice.name!r} is none of the tools; there are {', '.join(names) or '0'}"
        )
    return choice
