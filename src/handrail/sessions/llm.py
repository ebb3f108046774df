"""A model to talk to: `llm.generate(prompt, tools=[...])` gives text, or the calls that the model asks for.

It asks once and runs nothing. `Session` runs the loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, TypedDict, Unpack, cast

from handrail.core.errors import InvalidAnswer, InvalidArguments, ProtocolError, UsageError
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.interception import stream_reply
from handrail.core.messages import Content, Conversation
from handrail.core.model_request import ModelRequest, ToolChoice
from handrail.core.ports import Model
from handrail.core.usage_checks import check_keyword_names, check_model, nearest_name_hint
from handrail.sessions.blocking import Closable, LazyPortal
from handrail.sessions.tool_forms import choice_of, offers_of
from handrail.sessions.tool_requests import RequestedCall, ToolCallRequest
from handrail.tools.answer_type import AnswerType

Prompt = str | Conversation | Iterable[str | Content]
"""Words; words and images; or everything that was said so far."""


class RequestSettings(TypedDict, total=False):
    """What a request may say besides its messages and tools, as fields of `ModelRequest`."""

    parallel: bool
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: tuple[str, ...]
    seed: int | None
    response_schema: dict[str, Any] | None
    extra: dict[str, Any]
    builtin_tools: tuple[dict[str, Any], ...]


class CallSettings(RequestSettings, total=False):
    """The same, as callers give them."""

    builtin: Iterable[Mapping[str, Any]]
    """Tools that the service runs itself, each as the service documents it. A request has them as `builtin_tools`."""


class LLM(Closable):
    """A model with the settings of its requests, blocking and async."""

    def __init__(self, model: Model, **settings: Unpack[CallSettings]) -> None:
        check_model(model)
        check_keyword_names("LLM", settings, CallSettings.__annotations__)
        self.model = model
        self.settings: RequestSettings = _checked(settings)
        self.portal: LazyPortal = LazyPortal()
        self.valid: tuple[tuple[str, ...], ...] = ()
        """Lists of patterns, as `io:read_*`; each must cover a tool for it to be valid for this model."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def defaults(self) -> ModelRequest:
        """What every request has besides its messages and tools."""
        return ModelRequest(messages=(), **self.settings)

    def generate(
        self,
        prompt: Prompt,
        tools: Iterable[Any] | None = None,
        tool_choice: ToolChoice | Mapping[str, Any] | str = "auto",
        system_prompt: str | None = None,
        **settings: Unpack[CallSettings],
    ) -> str | ToolCallRequest:
        """The text of the reply, or a `ToolCallRequest` if the model asks for tools. Works inside a running loop too.

        Raises:
            ModelError: The service failed, or said something unreadable.
            InvalidAnswer: The text does not fit the `response_schema`.
        """
        return self.portal.call(self.generate_async(prompt, tools, tool_choice, system_prompt, **settings))

    async def generate_async(
        self,
        prompt: Prompt,
        tools: Iterable[Any] | None = None,
        tool_choice: ToolChoice | Mapping[str, Any] | str = "auto",
        system_prompt: str | None = None,
        **settings: Unpack[CallSettings],
    ) -> str | ToolCallRequest:
        """`generate` for async code, with the same arguments."""
        text: list[str] = []
        calls: list[RequestedCall] = []
        finished = False
        async with aclosing(self.stream_async(prompt, tools, tool_choice, system_prompt, **settings)) as events:
            async for event in events:
                match event:
                    case TextDelta(text=piece):
                        text.append(piece)
                    case CallRequested(call=call):
                        calls.append(RequestedCall.of(call))
                    case ReplyFinished():
                        finished = True
        if not finished:
            raise ProtocolError(f"the reply of {self.name!r} was cut off")
        said = "".join(text)
        if calls:
            return ToolCallRequest(said, calls)
        if (schema := {**self.settings, **settings}.get("response_schema")) is not None:
            _check_reply(said, cast("dict[str, Any]", schema))
        return said

    def stream(
        self,
        prompt: Prompt,
        tools: Iterable[Any] | None = None,
        tool_choice: ToolChoice | Mapping[str, Any] | str = "auto",
        system_prompt: str | None = None,
        **settings: Unpack[CallSettings],
    ) -> Iterator[ModelEvent]:
        """The reply as it arrives: pieces of text, calls, `ReplyFinished` last."""
        return self.portal.iterate(self.stream_async(prompt, tools, tool_choice, system_prompt, **settings))

    async def stream_async(
        self,
        prompt: Prompt,
        tools: Iterable[Any] | None = None,
        tool_choice: ToolChoice | Mapping[str, Any] | str = "auto",
        system_prompt: str | None = None,
        **settings: Unpack[CallSettings],
    ) -> AsyncGenerator[ModelEvent, None]:
        """Ask once, and give the events of the reply as they come. Nothing is run or checked."""
        request = ModelRequest(
            messages=conversation_of(prompt, system_prompt).messages,
            tools=offers_of(tools or ()),
            tool_choice=choice_of(tool_choice),
            **_checked({**self.settings, **settings}),
        )
        async with aclosing(stream_reply(self.model, request)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """Let go of connections or processes that the model holds. The blocking forms use `close()`."""
        if (close := getattr(self.model, "aclose", None)) is not None:
            await close()


def conversation_of(prompt: Prompt, system_prompt: str | None = None) -> Conversation:
    """A conversation that begins with the system prompt and ends with this."""
    begun = Conversation() if system_prompt is None else Conversation().supervised(system_prompt)
    match prompt:
        case Conversation():
            return begun.add(*prompt.messages)
        case str():
            return begun.say(prompt)
    return begun.say(*prompt)


def _checked(settings: Mapping[str, Any]) -> RequestSettings:
    unknown = sorted(settings.keys() - CallSettings.__annotations__.keys())
    if unknown:
        near = nearest_name_hint(unknown[0], CallSettings.__annotations__)
        raise UsageError(f"{unknown[0]!r} is not a setting of a request{near}; give others as extra={{...}}")
    checked = dict(settings)
    if "builtin" in checked:
        checked["builtin_tools"] = _builtin(checked.pop("builtin"))
    return cast(RequestSettings, checked)


def _builtin(tools: Any) -> tuple[dict[str, Any], ...]:
    given = () if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable) else tuple(tools)
    if tools and not (given and all(isinstance(tool, Mapping) for tool in given)):
        raise UsageError("builtin is a list of tools as the service documents them: [{'type': 'web_search'}]")
    return tuple(dict(tool) for tool in given)


def _check_reply(text: str, schema: dict[str, Any]) -> None:
    """
    Raises:
        InvalidAnswer: The text is not JSON by the schema.
    """
    try:
        AnswerType.of_schema(schema).read_text(text)
    except InvalidArguments as error:
        raise InvalidAnswer(error.problems, text) from error
