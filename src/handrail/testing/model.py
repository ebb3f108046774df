"""A model that says what a test wrote."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelError
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import ResultMessage, SupervisorMessage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.run.answers import is_answer_tool

_SHOWN = 300
"""Characters of what a model was told last, in an error."""


class ScriptedModel:
    """Gives one scripted reply per request, in order, and keeps the requests.

    ScriptedModel([call("add", a=1, b=2)], [text("3")])
    ScriptedModel([answer(City("Lisbon"))])
    """

    def __init__(
        self, *replies: Sequence[ModelEvent | ScriptedAnswer], name: str = "scripted", holds_schema: bool = False
    ) -> None:
        """
        Args:
            replies: Each reply of the model: a list of `text(…)`, `call(…)` and `answer(…)`.
            name: The name of the model in records and errors.
            holds_schema: Whether it counts as a service that holds replies to a schema, also beside tools.
        """
        self.name = name
        self._holds_schema = holds_schema
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []

    def holds_to_schema(self, *, tools: bool) -> bool:
        return self._holds_schema

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        if len(self.requests) > len(self._replies):
            raise ModelError(f"the script has {len(self._replies)} replies and was asked for one more{_why(request)}")
        reply = [_event(each, request) for each in self._replies[len(self.requests) - 1]]
        for event in reply:
            yield event
        if not any(isinstance(event, ReplyFinished) for event in reply):
            calls = any(isinstance(event, CallRequested) for event in reply)
            yield ReplyFinished(stop="tool_calls" if calls else "end", model=self.name)


class ScriptedAnswer(Struct, frozen=True):
    """A typed answer, which a scripted model writes in the way that it is asked for one."""

    value: Any


def answer(value: Any) -> ScriptedAnswer:
    """A typed answer, as the model would write it: `answer(City("Lisbon"))`, or its JSON, `answer({"name": "Lisbon"})`.

    It comes as a call or as text, whichever the model was asked for; with text for a prompt without a type.
    """
    return ScriptedAnswer(value)


def text(words: str) -> ModelEvent:
    """Words that the model says, as a piece of a reply."""
    return TextDelta(text=words)


def call(name: str, id: str = "", /, **arguments: Any) -> ModelEvent:
    """A call as a model would write it; without an id the runner gives it one."""
    return CallRequested(call=ToolCall(id, name, arguments))


def _event(said: ModelEvent | ScriptedAnswer, request: ModelRequest) -> ModelEvent:
    if not isinstance(said, ScriptedAnswer):
        return said
    plain = msgspec.to_builtins(said.value, str_keys=True, enc_hook=_as_json)
    takes = next((tool.name for tool in request.tools if is_answer_tool(tool.name)), None)
    if takes is None:
        as_json = request.response_schema is not None or not isinstance(plain, str)
        return TextDelta(text=msgspec.json.encode(plain).decode() if as_json else plain)
    return CallRequested(call=ToolCall("", takes, plain if isinstance(plain, dict) else {"value": plain}))


def _as_json(value: Any) -> Any:
    """What msgspec does not know: a model of pydantic, by the names that it reads, or a value with a text."""
    dump = getattr(value, "model_dump", None)
    return str(value) if dump is None else dump(mode="json", by_alias=True)


def _why(request: ModelRequest) -> str:
    """What the model was told last, which says why it was asked once more."""
    match request.messages[-1:]:
        case (ResultMessage(result=result),):
            said = f"{result.name} {result.outcome}: {result.text}"
        case (UserMessage() | SupervisorMessage() as message,):
            said = message.text
        case _:
            return ""
    return f"; it was told last: {said if len(said) <= _SHOWN else said[:_SHOWN] + '…'}"
