"""A model behind the socket of an LM handler, ours or that of `rlms`: in a `Runner` it gives the whole tool loop.

Calls are read from the tag `tool_calls` and from nowhere else. A handler that does not say that it sets the tag is an
old one, which puts its calls into the text; then, and only if tools were offered, a text that is nothing but
well-formed calls of those tools is taken for what it says.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused, UsageError
from handrail.core.events import CallRequested, ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.framing import FRAME_LIMIT
from handrail.core.jsontext import JSONTextError, parse
from handrail.core.messages import Usage
from handrail.core.model_request import ModelRequest
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.profiles import Profile
from handrail.models.reply_checks import ReplyChecker
from handrail.models.shared_encoding import names_of
from handrail.models.tool_names import OPENAI_NAMES, NameMap
from handrail.rlm.socket.wire import TIMEOUT, Address, ask
from handrail.rlm.values import LMRequest, LMResponse, Prompt, RLMChatCompletion, UsageSummary

_CODEC = OpenAIChatCodec(profile=Profile())
_SENT = frozenset({"model", "messages", "tools", "tool_choice", "response_format", "parallel_tool_calls"})
"""What of a body the protocol has a place for, or can do without."""
_ERRORS: Mapping[str, type[ModelError]] = {
    kind.code: kind for kind in (RateLimited, ModelUnavailable, RequestRefused, ProtocolError)
}


class SocketModel:
    """A `Model`. Its text comes in one piece, because the protocol has no streaming."""

    def __init__(
        self,
        address: Address,
        model: str | None = None,
        *,
        depth: int = 0,
        secret: str | None = None,
        timeout: float = TIMEOUT,
        limit: int = FRAME_LIMIT,
    ) -> None:
        self.name: str = model or "socket"
        self._address = address
        self._model = model
        self._depth = depth
        """By which a handler chooses between its models when none is named."""
        self._secret = secret
        self._timeout = timeout
        self._limit = limit

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        body, notices = _written(request)
        for notice in notices:
            yield Notice(text=notice)
        asked = LMRequest(
            prompt=_prompt(body["messages"]),
            model=self._model,
            depth=self._depth,
            tools=body.get("tools"),
            tool_choice=body.get("tool_choice"),
            response_format=body.get("response_format"),
        )
        response = await ask(self._address, asked, self._timeout, secret=self._secret, limit=self._limit)
        offered = names_of(request.tools, OPENAI_NAMES) if asked.tools else None
        watch = ReplyChecker(request)
        for event in events_of(response, offered):
            for allowed in watch.see(event):
                yield allowed


def events_of(response: LMResponse, offered: NameMap | None = None) -> Iterator[ModelEvent]:
    """The reply that a response is, to a request with these tools or with none.

    Raises:
        ModelError: It is the error of a model, or cannot be read.
    """
    completion = _completion(response)
    text, calls = _words_and_calls(completion, _is_tagged(response), offered)
    if text:
        yield TextDelta(text=text)
    for call in calls:
        yield CallRequested(call=call)
    yield ReplyFinished(
        stop="tool_calls" if calls else "end", model=completion.root_model, usage=_usage(completion.usage_summary)
    )


def _written(request: ModelRequest) -> tuple[dict[str, Any], tuple[str, ...]]:
    wire = _CODEC.encode(request, "", stream=False)
    unsent = ", ".join(sorted(wire.body.keys() - _SENT))
    lost = (f"the socket protocol has no place for: {unsent}",) if unsent else ()
    return wire.body, (*wire.notices, *lost)


def _prompt(messages: list[dict[str, Any]]) -> Prompt:
    """A single question goes as the text that every handler takes."""
    match messages:
        case [{"role": "user", "content": str(text)}]:
            return text
    return messages


def _completion(response: LMResponse) -> RLMChatCompletion:
    found = response.chat_completion
    if found is not None and found.error is not None:
        raise _ERRORS.get(found.error_type or "", ModelError)(found.error, status=found.status_code)
    if response.error is not None:
        raise _error(response.metadata)(response.error)
    if found is None:
        raise ProtocolError("the handler answered one prompt with a list")
    return found


def _error(metadata: Mapping[str, Any] | None) -> type[ModelError]:
    kind = (metadata or {}).get("error_type")
    return _ERRORS.get(kind, ModelError) if isinstance(kind, str) else ModelError


def _is_tagged(response: LMResponse) -> bool:
    """Whether the handler marks calls as calls, so that a text is a text, whatever it looks like."""
    return response.metadata is not None and response.metadata.get("tagged") is True


def _words_and_calls(
    completion: RLMChatCompletion, tagged: bool, offered: NameMap | None
) -> tuple[str, list[ToolCall]]:
    """The words and the calls of a reply."""
    if completion.tool_calls is not None:
        calls = [_call(each, offered) for each in completion.tool_calls]
        told = _calls_in_text(completion.response)
        return completion.response if told is None else _words(told), calls
    if tagged or offered is None:
        return completion.response, []
    told = _calls_in_text(completion.response)
    if told is None or not _only_calls(told, offered):
        return completion.response, []
    return _words(told), [_call(each, offered) for each in told["tool_calls"]]


def _calls_in_text(text: str) -> dict[str, Any] | None:
    """The form in which calls stand in the text: `{"tool_calls": […], "content": …}`."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        told = parse(text, max_size=FRAME_LIMIT)
    except JSONTextError:
        return None
    return told if isinstance(told, dict) and isinstance(told.get("tool_calls"), list) else None


def _only_calls(told: Mapping[str, Any], offered: NameMap) -> bool:
    calls = told["tool_calls"]
    return bool(calls) and told.keys() <= {"tool_calls", "content"} and all(_is_call(each, offered) for each in calls)


def _is_call(said: Any, offered: NameMap) -> bool:
    match said:
        case {"name": str(name), "arguments": dict()} | {"function": {"name": str(name), "arguments": str()}}:
            return name in offered.ours
    return False


def _call(said: Mapping[str, Any], offered: NameMap | None) -> ToolCall:
    try:
        call = ToolCall.from_dict(said)
    except UsageError as error:
        raise ProtocolError(f"the handler gave a call that cannot be read: {error}") from error
    return ToolCall(call.id, offered.from_wire(call.name) if offered else call.name, call.arguments)


def _words(told: Mapping[str, Any]) -> str:
    content = told.get("content")
    return content if isinstance(content, str) else ""


def _usage(summary: UsageSummary) -> Usage:
    return Usage(
        input_tokens=summary.total_input_tokens, output_tokens=summary.total_output_tokens, cost=summary.total_cost
    )
