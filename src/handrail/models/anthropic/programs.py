"""Programs that call tools, in containers of the service.

The model writes code for the service's tool `code_execution`. A call that the code makes comes as a `tool_use` block
with a `caller`, and is answered by a user message that holds nothing but results. The request with the answer names
the container in which the code waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from handrail.core.messages import AssistantMessage, InvocationMessage, Message
from handrail.models.history import AssistantTurn, ResultTurn, Turn

CONTAINER = "container"
"""The type under which a reply keeps its container among its blocks. It is no block of the service's."""


def caller_of(message: InvocationMessage) -> dict[str, Any]:
    """The program that made a call, as the service wants it back; nothing if the model made it."""
    if not message.artefacts:
        return {}
    return next((artefact.data for artefact in message.artefacts if "caller" in artefact.data), {})


def container_of(messages: tuple[Message, ...]) -> str | None:
    """The container of the latest reply that has one, unless it had expired when the last message was said."""
    for message in reversed(messages):
        for artefact in reversed(message.artefacts if isinstance(message, AssistantMessage) else ()):
            match artefact.data:
                case {"block": {"type": kind, "id": str(id), **rest}} if kind == CONTAINER:
                    return id if _is_open(rest.get("expires_at"), messages[-1].at) else None
    return None


def _is_open(expires: Any, now: int) -> bool:
    try:
        return not now or now < datetime.fromisoformat(str(expires)).timestamp() * 1000
    except ValueError:
        return True


def unfinished_program_end(history: Sequence[Turn], at: int) -> list[dict[str, Any]]:
    """Where words follow the results of a program's calls, the end of that program: only results may answer them.

    The program would go on with the results and nothing else. So it is told as one that the service had to end.
    """
    if at < 2 or isinstance(history[at], (ResultTurn, AssistantTurn)):
        return []
    match history[at - 2 : at]:
        case [AssistantTurn(calls=calls), ResultTurn()]:
            callers = dict.fromkeys(caller_of(call).get("caller", {}).get("tool_id") for call in calls)
            error = {"type": "code_execution_tool_result_error", "error_code": "unavailable"}
            return [{"type": "code_execution_tool_result", "tool_use_id": id, "content": error} for id in callers if id]
    return []
