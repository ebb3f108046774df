"""`llm_query` and `llm_query_batched` as functions of the library, for programs without a REPL."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from handrail.core.ports import Journal, Model
from handrail.models.failover import WithSettings
from handrail.rlm.query.handler_tools import ToolHandler
from handrail.rlm.query.queries import Queries
from handrail.rlm.query.sentinel import answer_of
from handrail.rlm.values import Prompt
from handrail.sessions.create import create_llm
from handrail.sessions.llm import LLM


async def llm_query(
    prompt: Prompt,
    model: str | Model | LLM | None = None,
    response_format: dict[str, Any] | None = None,
    tools: list[dict[str, Any]] | None = None,
    tool_handler: ToolHandler | None = None,
    *,
    tool_choice: str | dict[str, Any] | None = None,
    max_iterations: int | None = None,
    queries: Queries | None = None,
    journal: Journal | None = None,
) -> str:
    """Ask a model; with tools, until it answers without calling one. An error is text: `__LLM_ERROR__|type|status|…`.

    `model` is one that was made, or the name of one as `create_llm` takes it: `"openai:gpt-5"`. With `queries` it is
    the name of one of theirs, or None, and what they have is used. The handler is called as `tool_handler(name,
    arguments)`, plain or async, for one call after the other, and may return any JSON.

    Raises:
        ValueError: Tools have no handler, or something that was given cannot be read.
        UsageError: There is no such model.
        JournalError: The record cannot be kept.
    """
    async with _asking(model, queries, journal) as (asking, name):
        completion = await asking.query(
            prompt,
            name,
            response_format,
            tools,
            tool_handler,
            tool_choice=tool_choice,
            max_iterations=max_iterations,
        )
    return answer_of(completion)


async def llm_query_batched(
    prompts: list[Prompt],
    model: str | Model | LLM | None = None,
    response_formats: list[dict[str, Any] | None] | None = None,
    tools: list[dict[str, Any]] | list[list[dict[str, Any]] | None] | None = None,
    tool_handler: ToolHandler | list[ToolHandler | None] | None = None,
    *,
    tool_choice: str | dict[str, Any] | None = None,
    max_iterations: int | None = None,
    queries: Queries | None = None,
    journal: Journal | None = None,
) -> list[str]:
    """Ask about each prompt on its own, several at once; the answers are in the order of the prompts.

    A list of definitions as `tools` is for all prompts; a list of such lists (or None) has those of each. Where one
    query fails, its answer is an error, and the others have theirs. The rest is as for `llm_query`.

    Raises:
        ValueError: Tools have no handler, or something that was given cannot be read. Then nothing is asked.
        UsageError: There is no such model.
        JournalError: The record cannot be kept.
    """
    async with _asking(model, queries, journal) as (asking, name):
        completions = await asking.batched(
            prompts,
            name,
            response_formats,
            tools,
            tool_handler,
            tool_choice=tool_choice,
            max_iterations=max_iterations,
        )
    return list(map(answer_of, completions))


@asynccontextmanager
async def _asking(
    model: str | Model | LLM | None, queries: Queries | None, journal: Journal | None
) -> AsyncGenerator[tuple[Queries, str | None], None]:
    if queries is not None:
        if not isinstance(model, str | None) or journal is not None:
            raise ValueError("queries have their models and their journal; name one of the models, or none")
        yield queries, model
        return
    if model is None:
        raise ValueError("model is required: one that was made, or a name as create_llm takes it, or give queries=")
    asked = model_of(model)
    try:
        async with Queries({}, asked, journal=journal) as own:
            yield own, None
    finally:
        if isinstance(model, str) and (close := getattr(asked, "aclose", None)) is not None:
            await close()


def model_of(model: str | Model | LLM) -> Model:
    """A model by its name, or as it was made: with its settings.

    Raises:
        UsageError: There is no such model.
    """
    made = create_llm(model) if isinstance(model, str) else model
    if not isinstance(made, LLM):
        return made
    return WithSettings(made.model, made.settings) if made.settings else made.model
