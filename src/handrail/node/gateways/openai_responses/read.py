"""A request to create a response as what is asked. A field that has no meaning here is refused, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from handrail.core.errors import BusError
from handrail.core.messages import SupervisorMessage
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice
from handrail.node.gateways.field_rules import check_fields
from handrail.node.gateways.openai.body import ChatJsonObjectFormat
from handrail.node.gateways.openai.tools import is_mcp_tool, mcp_servers_of, offers_of, without_mcp_tools
from handrail.node.gateways.openai_responses.body import (
    RESPONSE,
    TEXT,
    Item,
    ItemReference,
    MessageItem,
    ResponsesAllowedToolsChoice,
    ResponsesBody,
    ResponsesJsonSchemaFormat,
    ResponsesNamedFunctionChoice,
    ResponsesTextSettings,
)
from handrail.node.gateways.openai_responses.input_items import (
    Earlier,
    ItemReader,
    generated_image_paths,
    responses_named,
    typed_input_items,
)
from handrail.node.gateways.request import EarlierAnswer, GatewayRequest
from handrail.node.gateways.request_parsing import (
    check_answered,
    check_tools,
    convert_field,
    extension_of,
    read_json_object,
    refuse_field,
)

_NOTHING = EarlierAnswer((), {})
_FUNCTION = {"type": "function", "name": "mcp"}


def read_responses_request(data: bytes, headers: Mapping[str, str], most: int) -> GatewayRequest:
    """Reads a request to create a response.

    Raises:
        BusError: The request cannot be answered as it stands (`bad_request`), with the place that is wrong.
    """
    given = read_json_object(data, most)
    tools_said = given.get("tools")
    hints = check_fields(given, RESPONSE)
    servers, more = mcp_servers_of(tools_said)
    body = convert_field({**given, "tools": without_mcp_tools(tools_said, _FUNCTION)}, ResponsesBody)
    hints += more + check_fields(given.get("text") or {}, TEXT, "text.")
    _refuse_values(body)
    items: list[Item] = (
        [MessageItem("user", body.input)] if isinstance(body.input, str) else typed_input_items(body.input or ())
    )
    choice, only = _choice(body)
    tools = offers_of(body.tools or (), tools_said)
    check_tools(tools, choice, "tools")
    asked = GatewayRequest(
        model=body.model,
        messages=(),
        settings=_settings(body),
        tools=tools,
        choice=choice,
        only=only,
        stream=bool(body.stream),
        usage=True,
        store=body.store is not False,
        background=bool(body.background),
        instructions=int(bool(body.instructions)),
        echo=_echo(body, tools_said or ()),
        ours=extension_of(given, headers),
        mcp_servers=servers,
        ignored=hints + generated_image_paths(items),
    )
    return _with_input(asked, body, items)


def _with_input(asked: GatewayRequest, body: ResponsesBody, items: list[Item]) -> GatewayRequest:
    """The request with its messages; if they continue earlier responses, once those are there."""

    def resolve(earlier: Earlier) -> GatewayRequest:
        previous = _answer_of(earlier, body.previous_response_id) if body.previous_response_id else _NOTHING
        messages = ItemReader(earlier, previous.messages, previous.handed).read(items)
        if not messages:
            refuse_field("input", "is empty; say something")
        check_answered(messages, "input")
        if body.instructions:
            messages = (SupervisorMessage(body.instructions), *messages)
        return replace(asked, messages=messages, client_calls=previous.client_calls, references=(), resolve=None)

    named = dict.fromkeys(responses_named(items))
    if body.previous_response_id is None and not any(isinstance(item, ItemReference) for item in items) and not named:
        return resolve({})
    return replace(asked, references=tuple(named), previous=body.previous_response_id, resolve=resolve)


def _answer_of(earlier: Earlier, id: str) -> EarlierAnswer:
    if id not in earlier:
        raise BusError(
            "bad_request",
            f"there is no response {id[:80]!r} to continue; send the conversation itself",
            param="previous_response_id",
            api_details={"code": "previous_response_not_found"},  # the official clients know this case by it
        )
    return earlier[id]


def _refuse_values(body: ResponsesBody) -> None:
    """What would change the form of the answer, and is not available."""
    if "message.output_text.logprobs" in (body.include or ()):
        refuse_field("include", "log probabilities are not given here; leave it out")
    if body.background and body.store is False:
        refuse_field(
            "background", "a response in the background is read by its id, so it must be stored; leave store out"
        )
    if body.previous_response_id == "":
        refuse_field("previous_response_id", "is empty; leave it out")


def _settings(body: ResponsesBody) -> ModelRequest:
    return ModelRequest(
        messages=(),
        parallel=body.parallel_tool_calls is not False,
        max_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        response_schema=_schema(body.text),
    )


def _schema(text: ResponsesTextSettings | None) -> dict[str, Any] | None:
    match text and text.format:
        case ChatJsonObjectFormat():
            return {"type": "object"}
        case ResponsesJsonSchemaFormat(schema=schema):
            return schema or {"type": "object"}
    return None


def _choice(body: ResponsesBody) -> tuple[ToolChoice, tuple[str, ...] | None]:
    """The choice, and the tools that it leaves."""
    match body.tool_choice:
        case ResponsesNamedFunctionChoice(name=name):
            return NamedTool(name), None
        case ResponsesAllowedToolsChoice(tools=tools, mode=mode):
            return mode, tuple(tool.name for tool in tools)
        case word:
            return word or "auto", None


def _echo(body: ResponsesBody, tools: Sequence[Any] = ()) -> dict[str, Any]:
    """What a response repeats of its request, with the defaults that the specification has."""
    reasoning = body.reasoning or {}
    return {
        "background": bool(body.background),
        "frequency_penalty": body.frequency_penalty or 0.0,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": None,
        "metadata": body.metadata or {},
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "presence_penalty": body.presence_penalty or 0.0,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "safety_identifier": body.safety_identifier,
        "service_tier": "default",
        "store": body.store is not False,
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "text": {"format": _form(body.text)},
        "tool_choice": msgspec.to_builtins(body.tool_choice or "auto"),
        "tools": [
            tool if is_mcp_tool(tool) else {"type": "function", **msgspec.to_builtins(read)}
            for tool, read in zip(tools, body.tools or (), strict=False)
        ],
        "top_logprobs": 0,
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "truncation": body.truncation or "disabled",
        "user": body.user,
    }


def _form(text: ResponsesTextSettings | None) -> dict[str, Any]:
    match text and text.format:
        case ResponsesJsonSchemaFormat() as form:
            return {**msgspec.to_builtins(form), "strict": bool(form.strict)}
        case ChatJsonObjectFormat():
            return {"type": "json_object"}
    return {"type": "text"}


UNSAID = _echo(ResponsesBody())
"""What a response repeats whose request is no longer known: the defaults."""
