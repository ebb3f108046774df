"""`llm_query` and `llm_query_batched` as tools of a run's executor: code in a REPL calls them like any other.

They change nothing, so a call that was cut off is made again: its queries are runs of their own, named after the
call, and are taken up where they were. What they answer is whole completions, so that the record has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from handrail.core.context import Context, Principal
from handrail.core.errors import ToolError
from handrail.core.ids import nested_id
from handrail.core.invocation import Invocation
from handrail.rlm.query.handler_tools import DAY
from handrail.rlm.query.openai_forms import check_pictures
from handrail.rlm.query.queries import Queries
from handrail.rlm.query.single_query import WAITING
from handrail.rlm.repl.handler_channel import CellCutOff, Channels, HandlerChannel
from handrail.rlm.values import RLMChatCompletion
from handrail.run.code.callers import CallWaitsForPerson
from handrail.tools.definition import ToolDefinition
from handrail.tools.tool import Tool

LLM_QUERY = "llm_query"
LLM_QUERY_BATCHED = "llm_query_batched"
RLM_QUERY = "rlm_query"
RLM_QUERY_BATCHED = "rlm_query_batched"
QUERIES = (LLM_QUERY, LLM_QUERY_BATCHED, RLM_QUERY, RLM_QUERY_BATCHED)

VALUE_ERROR = "value_error"
"""The code of a refusal that is a `ValueError` in the REPL."""
MAX_OUTPUT = 2**40
"""Characters: code reads the answers, and it can hold more than a window."""

_OPTIONS = ("model", "tools", "tool_choice", "max_iterations")


def query_tools(queries: Queries, channels: Channels, depth: int = 1) -> tuple[Tool, Tool]:
    """Both tools. `channels` has the handlers of the queries that come from cells, which are at this depth."""

    def options(invocation: Invocation, channel: HandlerChannel | None) -> dict[str, Any]:
        asked = {name: invocation.arguments[name] for name in _OPTIONS if name in invocation.arguments}
        run, context = run_of(invocation), caller_of_query(invocation.context)
        return {**asked, "tool_handler": channel, "depth": depth, "run": run, "context": context}

    async def llm_query(invocation: Invocation) -> dict[str, Any]:
        asked, channel = invocation.arguments, channels.get(invocation.id)
        prompt, form = asked.get("prompt"), asked.get("response_format")
        with query_call(channel):
            check_pictures([prompt])
            completion = await queries.query(prompt, response_format=form, **options(invocation, channel))
        check_waiting(completion)
        return completion_result(completion)

    async def llm_query_batched(invocation: Invocation) -> dict[str, Any]:
        asked, channel = invocation.arguments, channels.get(invocation.id)
        prompts, forms = asked.get("prompts"), asked.get("response_formats")
        if channel is not None:
            channel.of_batch(run_of(invocation))
        with query_call(channel):
            check_pictures(prompts)
            completions = await queries.batched(prompts, response_formats=forms, **options(invocation, channel))
        return batch_result(completions)

    return (
        query_tool(LLM_QUERY, "Ask a model.", llm_query),
        query_tool(LLM_QUERY_BATCHED, "Ask a model about each of many prompts, some at once.", llm_query_batched),
    )


def query_tool(name: str, description: str, handler: Any) -> Tool:
    """A tool that asks models: never answered from memory, run again after a crash, and not cut."""
    definition = ToolDefinition(name, description, {"type": "object"}, timeout=DAY, untrusted=True)
    return Tool(
        definition,
        handler,
        style="invocation",
        isolation="loop",
        share=False,
        replays=True,
        max_output=MAX_OUTPUT,
    )


def run_of(invocation: Invocation) -> str:
    """The run of a query: named after the call, so that asking again takes it up."""
    return nested_id(invocation.context.run, invocation.id) if invocation.context.run else invocation.id


@contextmanager
def query_call(channel: HandlerChannel | None = None) -> Iterator[None]:
    """Around asking models. Whoever goes away meanwhile leaves the call without an end: made again, it goes on with the
    answers that there are. Not if its own code has left the query behind.

    Raises:
        CellCutOff: In the place of the cancellation.
        ToolError: In the place of a `ValueError`, which is one in the REPL too.
    """
    try:
        yield
    except asyncio.CancelledError:
        if channel is not None and not channel.is_paused:
            raise
        raise CellCutOff from None
    except ValueError as error:
        raise ToolError(VALUE_ERROR, str(error)) from error


def check_waiting(*completions: RLMChatCompletion) -> None:
    """Raise `CallWaitsForPerson` if one of them waits for a person: then whoever asked waits too."""
    for each in completions:
        if each.error_type == WAITING:
            raise CallWaitsForPerson(f"a call of {each.run!r}, which it began, waits for a person's approval")


def completion_result(completion: RLMChatCompletion) -> dict[str, Any]:
    """A completion as a tool's result. Its prompt is among the arguments, and not written twice."""
    said = completion.to_dict()
    del said["prompt"]
    return said


def batch_result(completions: list[RLMChatCompletion]) -> dict[str, Any]:
    """The completions of a batch as a tool's result, unless one of them waits."""
    check_waiting(*completions)
    return {"completions": list(map(completion_result, completions))}


def completions_of(arguments: dict[str, Any], content: Any) -> list[RLMChatCompletion]:
    """The completions in what a tool of `QUERIES` answered, one or many."""
    if "completions" not in content:
        return [RLMChatCompletion.from_dict({**content, "prompt": arguments.get("prompt")})]
    prompts = arguments.get("prompts") or ()
    return [
        RLMChatCompletion.from_dict({**each, "prompt": prompt})
        for each, prompt in zip(content["completions"], prompts, strict=True)
    ]


def caller_of_child_run(context: Context) -> Context:
    """The caller of a run that a call of code begins: the same caller, with no more rights, in a place of its own."""
    return replace(context, run="", deadline=None, depth=0, model=None, held=(), budget=None, words_reader=None)


def caller_of_query(context: Context) -> Context:
    """For a question to a model. Its tools are handlers of the code that asks, and what those may do in the world is
    judged where they do it: the rights of the caller are for that, and not for the names that the code gave them."""
    return Context(principal=Principal(context.principal.id), trace=context.trace)
