"""What the engine is asked for one request, and what holds the reply to its form.

auto        llama.cpp's own grammar, which begins where the model opens a call
required    our grammar: one call, of any tool that is shown
named       our grammar: one call, of that tool
none        no tool is shown, and the opening of a call cannot be written
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.errors import RequestRefused
from handrail.core.model_request import ModelRequest, NamedTool, ToolOffer
from handrail.models.codec import Codec
from handrail.models.local.forced_grammar import may_escape_grammar, one_call_grammar, without_boolean_schemas

NO_CALL = 'root ::= ([^<] | "<" [^t])*'
_LONGEST = 512
"""Tokens of a reply, unless the request says otherwise. A small model may go on for ever."""


class EnginePlan(Struct, frozen=True):
    request: ModelRequest
    """The request as the codec sees it: with the tools that are shown."""
    body: dict[str, Any]
    forced: bool
    """The reply is one call, written as text under our grammar."""
    held: bool
    """Calls are given out only when they were checked: the engine's grammar does not hold them to all of a schema."""
    notices: tuple[str, ...]


def plan_request(request: ModelRequest, shown: tuple[ToolOffer, ...], codec: Codec, model: str) -> EnginePlan:
    """Plans what the engine is asked, and what holds its reply to its form.

    Raises:
        RequestRefused: A tool is wanted that is not offered.
    """
    choice = request.tool_choice
    if choice == "required" or isinstance(choice, NamedTool):
        if not shown:
            wanted = f"the tool {choice.name!r}" if isinstance(choice, NamedTool) else "a tool"
            raise RequestRefused(f"tool_choice wants a call of {wanted}, which is not offered; offer it too")
        return _forced(request, shown, codec, model)
    if choice == "none" or not shown:
        return _silent(request, codec, model)
    seen = replace(request, tools=shown)
    body, notices = _body(seen, codec, model)
    body["tools"] = [_usable(tool) for tool in body["tools"]]
    body["parallel_tool_calls"] = request.parallel
    held = any(may_escape_grammar(tool.input_schema) for tool in shown)
    return EnginePlan(seen, body, False, held, notices)


def _forced(request: ModelRequest, shown: tuple[ToolOffer, ...], codec: Codec, model: str) -> EnginePlan:
    seen = replace(request, tools=shown, tool_choice="auto", response_schema=None)
    body, notices = _body(seen, codec, model)
    body.pop("parallel_tool_calls", None)
    body["grammar"] = one_call_grammar([tool["function"] for tool in body["tools"]])
    # The prompt still shows the tools; only the engine's own grammar is off, which would not go with ours.
    body["tool_choice"] = "none"
    return EnginePlan(seen, body, True, False, notices)


def _silent(request: ModelRequest, codec: Codec, model: str) -> EnginePlan:
    seen = replace(request, tools=(), tool_choice="auto")
    body, notices = _body(seen, codec, model)
    if request.tools and request.response_schema is None:
        body["grammar"] = NO_CALL
    return EnginePlan(seen, body, False, False, notices)


def _body(request: ModelRequest, codec: Codec, model: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    wire = codec.encode(request, model, stream=True)
    body = {"temperature": 0.0, "max_tokens": _LONGEST} | wire.body
    body["stream_options"] = {"include_usage": True}
    return body, wire.notices


def _usable(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    return {**tool, "function": {**function, "parameters": without_boolean_schemas(function["parameters"])}}
