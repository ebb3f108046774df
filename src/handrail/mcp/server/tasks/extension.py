"""The methods of the tasks extension, and how a task looks on the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY as SUBSCRIPTION
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import BaseModel, Field

from handrail.mcp.server.caller import Request, is_modern, owner_of
from handrail.mcp.server.definition import McpServerDefinition
from handrail.mcp.server.question_wire import EXTENSION, declared_capabilities, input_requests_of
from handrail.mcp.server.sendable import sendable_text
from handrail.mcp.server.tasks.store import ServerTask, TaskStore, protocol_time


class TaskParams(types.RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any] = Field(default_factory=dict)


class TaskNotification(BaseModel):
    """`notifications/tasks`, which the SDK does not know."""

    method: str = "notifications/tasks"
    params: dict[str, Any]


def install_tasks(server: Server[Any], served: McpServerDefinition, tasks: TaskStore) -> None:
    """Let a server answer for tasks, and say that it does."""

    def bound(act: Callable[[ServerTask, Any], dict[str, Any]]) -> Callable[[Request, Any], Awaitable[dict[str, Any]]]:
        async def handle(request: Request, params: TaskParams) -> dict[str, Any]:
            require_tasks(request)
            check_task_header(request, params.task_id)
            task = tasks.find(params.task_id, owner_of(served, request))
            if task is None:
                raise MCPError(INVALID_PARAMS, "Failed to retrieve task: there is no such task, or not any more")
            return act(task, params)

        return handle

    for method, params, act in (
        ("tasks/get", TaskParams, lambda task, params: task_details(task)),
        ("tasks/update", UpdateParams, _update),
        ("tasks/cancel", TaskParams, _cancel),
    ):
        server.add_request_handler(method, params, bound(act))
    server.extensions = {**(server.extensions or {}), EXTENSION: {}}


def _update(task: ServerTask, params: UpdateParams) -> dict[str, Any]:
    task.give(params.input_responses)
    return {"resultType": "complete"}


def _cancel(task: ServerTask, params: TaskParams) -> dict[str, Any]:
    task.cancel()
    return {"resultType": "complete"}


def require_tasks(request: Request) -> None:
    """Refuses clients that do not say, in the request itself, that they know tasks."""
    if not is_modern(request):
        raise MCPError(METHOD_NOT_FOUND, "Method not found")
    if "tasks" not in declared_capabilities(request):
        raise unknown_task()


def unknown_task() -> MCPError:
    return MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"this needs a client that declares the extension {EXTENSION}",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


def check_task_header(request: Request, task_id: str) -> None:
    """The header by which requests for one task find the way to one server says the same as the body."""
    headers = getattr(request.request, "headers", None)
    said = None if headers is None else headers.get(MCP_NAME_HEADER)
    if said is not None and decode_header_value(said) != task_id:
        raise MCPError(HEADER_MISMATCH, "Mcp-Name and params.taskId are not the same")


def task_created(task: ServerTask) -> dict[str, Any]:
    """The result of a call that became a task."""
    return {"resultType": "task", **_common(task)}


def task_details(task: ServerTask) -> dict[str, Any]:
    """Everything that is known of a task."""
    return {"resultType": "complete", **_common(task), **_by_status(task)}


def _common(task: ServerTask) -> dict[str, Any]:
    said: dict[str, Any] = {
        "taskId": task.id,
        "status": task.status,
        "createdAt": protocol_time(task.created),
        "lastUpdatedAt": protocol_time(task.updated),
        "ttlMs": task.ttl_ms,
        "pollIntervalMs": task.poll_ms,
    }
    return {**said, "statusMessage": sendable_text(task.note)} if task.note else said


def _by_status(task: ServerTask) -> dict[str, Any]:
    if task.open:
        requests = input_requests_of(task.open)
        return {
            "inputRequests": {
                key: request.model_dump(by_alias=True, mode="json", exclude_none=True)
                for key, request in requests.items()
            }
        }
    if task.ended is None or task.ended.cancelled:
        return {}
    if task.ended.error is not None:
        return {"error": task.ended.error}
    return {"result": task.ended.result or {}}


def task_notification(task: ServerTask, subscription: Any) -> TaskNotification:
    told = {key: value for key, value in task_details(task).items() if key != "resultType"}
    return TaskNotification(params={**told, "_meta": {SUBSCRIPTION: subscription}})
