"""Masks in messages what a tool declares as secret, before they are written down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import InvocationMessage, Message, ResultMessage
from handrail.core.redact import mask_field_values
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool


def masked_messages(messages: Iterable[Message], tools: RegisteredTools) -> tuple[Message, ...]:
    """The messages with the secrets of calls masked, and of results that repeat them. Others are left as they are."""
    if not tools.has_secrets:
        return tuple(messages)
    given: dict[str, tuple[Any, Tool]] = {}
    found: list[Message] = []
    for message in messages:
        match message:
            case InvocationMessage(call=call) if call.name in tools and tools.find(call.name).secrets:
                tool = tools.find(call.name)
                given[call.id] = _parsed(call.arguments), tool
                masked = msgspec.structs.replace(call, arguments=tool.masked(call.arguments))
                found.append(msgspec.structs.replace(message, call=masked))
            case ResultMessage(result=result) if result.tool_call_id in given and isinstance(result.content, str):
                arguments, tool = given[result.tool_call_id]
                safe = msgspec.structs.replace(
                    result, content=mask_field_values(result.content, arguments, tool.secrets)
                )
                found.append(msgspec.structs.replace(message, result=safe))
            case _:
                found.append(message)
    return tuple(found)


def _parsed(arguments: dict[str, Any] | str) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return parse_object(arguments)
    except JSONTextError:
        return {}
