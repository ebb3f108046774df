"""Blocking faces for programs without an event loop. Thin: one loop in one thread does the work.

They also work inside a running loop (a notebook, a web handler), because the
loop they wait for is their own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError, Future, wait
from contextlib import AsyncExitStack
from typing import Any, Generic, Self, TypeVar

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import InvalidArguments, ToolError, UsageError
from handrail.core.events import Emit, ignore_event
from handrail.core.usage_checks import check_keyword_names, keyword_names
from handrail.execute.executor import Executor
from handrail.execute.isolation.forked_handler import with_forked_handler
from handrail.execute.policy import Policy
from handrail.tools.registry import RegisteredTools, prepared_tools, registered
from handrail.tools.tool import Tool

__all__ = ["BlockingExecutor", "execute_tool_securely", "execute_tools"]

T = TypeVar("T")


class _RunningWork(Generic[T]):
    """A coroutine in the loop of another thread, and its outcome, which comes when it has really ended.

    `asyncio.run_coroutine_threadsafe` gives a future that is done as soon as it is cancelled, while the coroutine
    still cleans up.
    """

    def __init__(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self.outcome = Future[T]()
        self._work = work
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.set_exception(CancelledError())
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())

    def cancel_and_wait(self) -> None:
        """Cancel it, if it has not ended, and wait until it has."""
        if not self.outcome.done():
            self._loop.call_soon_threadsafe(self._cancel)
            wait([self.outcome])

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class Portal:
    """An event loop in a thread of its own, and a way to wait for what runs there."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()  # a finalizer may close another door in the middle of this
        self._closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="handrail-loop", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it. Ctrl-C here cancels it there, and is raised when it has ended.

        A second Ctrl-C does not wait for the end.

        Raises:
            UsageError: It is closed, or the caller runs in that loop and would wait for itself.
        """
        with self._lock:
            why = self._unusable()
            running = _RunningWork(work, self._loop) if why is None else None
        if running is None:
            work.close()
            raise UsageError(why)
        try:
            return running.outcome.result()
        except BaseException as error:
            if isinstance(error, CancelledError) and self._closing:
                raise UsageError("this was closed before the work had ended") from None
            running.cancel_and_wait()
            raise

    @property
    def closed(self) -> bool:
        """Whether nothing can run there: a child that was forked has the loop of its parent, and not the thread."""
        return self._loop.is_closed() or self._process != os.getpid()

    def is_here(self) -> bool:
        """Whether the caller runs in its loop."""
        return threading.current_thread() is self._thread

    def _unusable(self) -> str | None:
        if self.closed or self._closing:
            return "this is closed; make a new one"
        if self.is_here():
            return "this would wait for itself: inside async code, await the async form instead"
        return None

    def close(self) -> None:
        """Cancel what still runs there, so that nobody waits for it in vain, and stop the loop when it has ended."""
        with self._lock:
            if self.closed or self._closing:
                return
            self._closing = True
            # What was begun before is a task by the time that this runs: callbacks keep their order.
            self._loop.call_soon_threadsafe(self._begin_end)
        self._thread.join()
        self._loop.close()

    def _begin_end(self) -> None:
        self._ending = self._loop.create_task(_cancel_the_others())
        self._ending.add_done_callback(lambda _: self._loop.stop())


_LONGEST_END = 15.0
"""Seconds that cancelled work may take to end."""


async def _cancel_the_others() -> None:
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=_LONGEST_END)


class BlockingExecutor:
    """An `Executor` whose calls block. Ensembles are prepared with it and closed with it.

    with BlockingExecutor([get_weather]) as executor:
        result = executor.invoke(ToolCall("1", "get_weather", {"location": "Lisbon"}))
    """

    def __init__(self, tools: Any, **options: Any) -> None:
        check_keyword_names("BlockingExecutor", options, keyword_names(Executor))
        self._portal = Portal()
        self._lives = AsyncExitStack()
        try:
            self._executor = self._portal.call(_open_executor(tools, options, self._lives))
        except BaseException:
            self._portal.close()
            raise

    def invoke(self, call: ToolCall, context: Context = Context(), emit: Emit = ignore_event) -> ToolResult:
        return self._portal.call(self._executor.invoke(call, context, emit))

    def invoke_all(
        self, calls: Iterable[ToolCall], context: Context = Context(), emit: Emit = ignore_event
    ) -> list[ToolResult]:
        return self._portal.call(self._executor.invoke_all(calls, context, emit))

    def close(self) -> None:
        if self._portal.closed:
            return
        try:
            self._portal.call(_ended(self._executor, self._lives))
        finally:
            self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


async def _open_executor(tools: Any, options: dict[str, Any], lives: AsyncExitStack) -> Executor:
    async with AsyncExitStack() as undo:
        items = (tools,) if isinstance(tools, RegisteredTools) else tools
        executor = Executor(await undo.enter_async_context(prepared_tools(items)), **options)
        lives.push_async_exit(undo.pop_all())
    return executor


async def _ended(executor: Executor, lives: AsyncExitStack) -> None:
    async with lives:
        await executor.aclose()


def execute_tools(
    tool_calls: Iterable[ToolCall], tool_functions: Mapping[str, Callable[..., Any]]
) -> list[dict[str, Any]]:
    """Run calls with the functions of those names; id, name and result of each, in the order of the calls.

    Errors are results. Passing a function approves it: side effects run.
    """
    tools = registered(*(_named(name, function) for name, function in tool_functions.items()))
    with BlockingExecutor(tools, policy=Policy(confirm_side_effects=False)) as executor:
        results = executor.invoke_all(tool_calls)
    return [{"tool_call_id": each.tool_call_id, "name": each.name, "result": _result(each)} for each in results]


def execute_tool_securely(
    func: Callable[..., Any], arguments: Mapping[str, Any], timeout: float = 5, max_output_size: int = 10_000
) -> Any:
    """Run one function on arguments that fit its signature, with limits on time and output.

    It runs in a fork of this process, which is killed when time is up, whatever the function does. What it changes in
    memory is lost with it; only its result comes back, as JSON.

    Raises:
        ToolError: It was refused, failed, or took too long.
        UsageError: This system cannot fork a process.
    """
    policy = Policy(timeout=timeout, max_output=max_output_size, confirm_side_effects=False)
    name = getattr(func, "__name__", "")
    tool = _named(name if name.isidentifier() else "tool", func)
    if tool.isolation not in ("process", "sandbox"):
        tool = with_forked_handler(tool)
    raised: dict[str, Exception] = {}
    with BlockingExecutor([tool], policy=policy) as executor:
        result = executor.invoke(ToolCall("1", tool.name, dict(arguments)), Context(raised=raised))
    if result.error is None:
        return result.content
    if result.outcome == "invalid_arguments":
        raise InvalidArguments(result.error.message.removeprefix("invalid_arguments: "))
    raise ToolError(result.error.code, result.error.message) from raised.get("1")


def _named(name: str, function: Callable[..., Any]) -> Tool:
    if isinstance(function, Tool):
        return function.changed(name=name)
    return Tool.from_function(function, name=name)


def _result(result: ToolResult) -> Any:
    """A result in AbstractLLM's words."""
    match result.outcome:
        case "ok":
            return result.content
        case "unknown_tool":
            return f"Tool {result.name!r} not found"
    return f"Error executing tool: {result.error.message if result.error else result.text}"
