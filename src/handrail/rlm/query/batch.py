"""Many queries at once: what each of them is given, and how they are worked off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from handrail.core.errors import JournalError
from handrail.core.tasks import unwrap_exception_group
from handrail.rlm.query.openai_forms import NEEDS_HANDLER

T = TypeVar("T")


def check_prompts(prompts: Any) -> None:
    """Raise a `ValueError` for prompts that are no list."""
    if not isinstance(prompts, list | tuple):
        raise ValueError(f"Invalid prompts: give a list of them, not {type(prompts).__name__}; for one, use llm_query")


def each_format(formats: Any, count: int) -> Sequence[Any]:
    """One `response_format` for each prompt."""
    if formats is None:
        return [None] * count
    return _as_many("response_formats", formats, count)


def each_tools(tools: Any, handler: Any, count: int) -> list[tuple[Any, Any]]:
    """The tools of each prompt with their handler.

    A list of definitions is for every prompt. A list in which anything is a list or None has one entry for each
    prompt: its definitions, or None for no tools. `tool_handler` is one for all, or a list with one for each.

    Raises:
        ValueError: There are not as many as prompts, or tools have no handler.
    """
    if tools is None:
        return [(None, None)] * count
    if handler is None:
        raise ValueError(NEEDS_HANDLER)
    per_prompt = isinstance(tools, list | tuple) and any(isinstance(each, list | tuple | None) for each in tools)
    mine = _as_many("tools", tools, count) if per_prompt else [tools] * count
    handlers = _as_many("tool_handler", handler, count) if isinstance(handler, list | tuple) else [handler] * count
    if any(some is not None and by is None for some, by in zip(mine, handlers, strict=True)):
        raise ValueError(NEEDS_HANDLER)
    return list(zip(mine, handlers, strict=True))


def _as_many(name: str, given: Any, count: int) -> Sequence[Any]:
    if not isinstance(given, list | tuple) or len(given) != count:
        there = f"{len(given)}" if isinstance(given, list | tuple) else type(given).__name__
        raise ValueError(f"Invalid {name}: give one for each of the {count} prompts, not {there}")
    return given


async def run_all_bounded(count: int, answer: Callable[[int], Awaitable[T]], workers: int) -> list[T]:
    """`answer(0)`, `answer(1)`, … with at most so many at once. Whoever cancels it cancels all of them.

    Raises:
        JournalError: Without a record none may go on.
    """
    numbers = iter(range(count))
    answers: dict[int, T] = {}

    async def work() -> None:
        for number in numbers:
            answers[number] = await answer(number)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(workers, count)):
                group.create_task(work())
    except BaseExceptionGroup as failed:
        raise unwrap_exception_group(failed, JournalError) from None
    return [answers[number] for number in range(count)]
