"""`subscriptions/listen` with tasks in it: the client hears of each change of a task, and need not ask."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import ExitStack
from typing import Any, cast

import mcp_types as types
from mcp.server.subscriptions import ListenHandler, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY as SUBSCRIPTION,
    ServerEvent,
    event_matches,
    event_to_notification,
)
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from handrail.mcp.server.caller import Request, owner_of
from handrail.mcp.server.definition import McpServerDefinition
from handrail.mcp.server.tasks.extension import require_tasks, task_notification
from handrail.mcp.server.tasks.store import ServerTask, TaskStore

_MOST_IDS = 100
_MOST_STREAMS = 256
_BACKLOG = 1_024
"""Notices that wait for a client that does not read. Beyond them its stream is ended."""


class TaskSubscriptions:
    """Serves the streams that name tasks; the others are the library's."""

    def __init__(
        self, served: McpServerDefinition, tasks: TaskStore, bus: SubscriptionBus, otherwise: ListenHandler
    ) -> None:
        self._served = served
        self._tasks = tasks
        self._bus = bus
        self._otherwise = otherwise
        self._open: set[_TaskStream] = set()

    async def __call__(
        self, request: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        ids = (params.notifications.model_extra or {}).get("taskIds")
        if not ids:
            return await self._otherwise(request, params)
        require_tasks(request)
        if not isinstance(ids, list) or len(ids) > _MOST_IDS or not all(isinstance(id, str) for id in ids):
            raise MCPError(INVALID_PARAMS, f"taskIds is a list of at most {_MOST_IDS} ids")
        if len(self._open) >= _MOST_STREAMS:
            raise MCPError(INTERNAL_ERROR, "too many streams are open")
        owner = owner_of(self._served, request)
        found = [task for id in dict.fromkeys(ids) if (task := self._tasks.find(id, owner)) is not None]
        stream = _TaskStream(request, params.notifications, found)
        self._open.add(stream)
        try:
            return await stream.serve(self._bus)
        finally:
            self._open.discard(stream)

    def close(self) -> None:
        """End every stream in good order."""
        self._otherwise.close()
        for stream in tuple(self._open):
            stream.end()


class _TaskStream:
    """One client that listens."""

    def __init__(self, request: Request, wanted: types.SubscriptionFilter, tasks: list[ServerTask]) -> None:
        self._request = request
        self._meta = {SUBSCRIPTION: request.request_id}
        self._tasks = tasks
        self._filter = types.SubscriptionFilter(
            tools_list_changed=wanted.tools_list_changed or None,
            prompts_list_changed=wanted.prompts_list_changed or None,
            resources_list_changed=wanted.resources_list_changed or None,
            resource_subscriptions=wanted.resource_subscriptions or None,
        )
        self._uris = frozenset(self._filter.resource_subscriptions or ())
        self._events: deque[ServerEvent] = deque()
        self._changed: dict[str, ServerTask] = {}
        self._news = asyncio.Event()
        self._over = False

    def end(self) -> None:
        self._over = True
        self._news.set()

    async def serve(self, bus: SubscriptionBus) -> types.SubscriptionsListenResult:
        with ExitStack() as stack:
            stack.callback(bus.subscribe(self._hear))
            for task in self._tasks:
                stack.callback(task.watch(lambda task=task: self._moved(task)))  # type: ignore[misc]  # its default
            await self._acknowledge()
            while not self._over:
                await self._news.wait()
                self._news.clear()
                await self._tell()
        return types.SubscriptionsListenResult(_meta=self._meta)

    async def _acknowledge(self) -> None:
        honoured = {**self._filter.model_dump(by_alias=True, exclude_none=True), "taskIds": [t.id for t in self._tasks]}
        await self._send(
            types.SubscriptionsAcknowledgedNotification(
                params=types.SubscriptionsAcknowledgedNotificationParams(
                    notifications=types.SubscriptionFilter.model_validate(honoured), _meta=self._meta
                )
            )
        )

    async def _tell(self) -> None:
        while self._events:
            await self._send(event_to_notification(self._events.popleft(), self._meta))
        while self._changed:
            _, task = self._changed.popitem()
            await self._send(task_notification(task, self._request.request_id))

    async def _send(self, message: Any) -> None:
        await self._request.session.send_notification(
            cast(types.ServerNotification, message), related_request_id=self._request.request_id
        )

    def _hear(self, event: ServerEvent) -> None:
        if event_matches(self._filter, self._uris, event):
            self._events.append(event)
            self._over = self._over or len(self._events) > _BACKLOG
            self._news.set()

    def _moved(self, task: ServerTask) -> None:
        self._changed[task.id] = task
        self._news.set()
