"""`rlm_query` and `rlm_query_batched`: a question that a model works on in a REPL of its own, one level deeper.

Where the depth is used up they ask a model, as `llm_query` does. A child is a run of its own, named after the call, so
asking again takes it up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from handrail.core.context import Context
from handrail.core.errors import JournalError
from handrail.core.ids import nested_id
from handrail.core.invocation import Invocation
from handrail.rlm.query.batch import check_prompts, run_all_bounded
from handrail.rlm.query.openai_forms import check_model, check_pictures, conversation_of
from handrail.rlm.query.single_query import completion_of_error
from handrail.rlm.repl.query_tools import (
    RLM_QUERY,
    RLM_QUERY_BATCHED,
    batch_result,
    check_waiting,
    completion_result,
    query_call,
    query_tool,
    run_of,
)
from handrail.rlm.values import RLMChatCompletion
from handrail.tools.tool import Tool

AT_ONCE = 4
"""Children of one batch: each has an interpreter."""

Child = Callable[[Any, str | None, str, Context], Awaitable[RLMChatCompletion]]
"""Works on a prompt: with which model, as which run, and for the call that has this context."""


def recursive_tools(child: Child, at_once: int = AT_ONCE) -> tuple[Tool, Tool]:
    """Both tools."""

    async def rlm_query(invocation: Invocation) -> dict[str, Any]:
        asked = invocation.arguments
        prompt, model = asked.get("prompt"), asked.get("model")
        with query_call():
            _check(model, prompt)
            found = await settle_child(child, prompt, model, run_of(invocation), invocation.context)
        check_waiting(found)
        return completion_result(found)

    async def rlm_query_batched(invocation: Invocation) -> dict[str, Any]:
        asked = invocation.arguments
        model, run = asked.get("model"), run_of(invocation)
        prompts: Any = asked.get("prompts")

        async def work(at: int) -> RLMChatCompletion:
            return await settle_child(child, prompts[at], model, nested_id(run, str(at)), invocation.context)

        with query_call():
            check_prompts(prompts)
            _check(model, *prompts)
            return batch_result(await run_all_bounded(len(prompts), work, at_once))

    return (
        query_tool(RLM_QUERY, "Have a model with a REPL of its own work on a prompt.", rlm_query),
        query_tool(RLM_QUERY_BATCHED, "Have models with REPLs of their own work on prompts.", rlm_query_batched),
    )


async def settle_child(child: Child, prompt: Any, model: str | None, run: str, context: Context) -> RLMChatCompletion:
    """A completion whatever becomes of the child, but that nothing goes on without a record."""
    nothing = RLMChatCompletion(root_model=model or "", prompt=prompt, response="", run=run)
    try:
        return await child(prompt, model, run, context)
    except JournalError:
        raise
    except Exception as error:  # the other children of a batch go on
        return completion_of_error(nothing, error)


def _check(model: Any, *prompts: Any) -> None:
    check_model(model)
    for prompt in prompts:
        conversation_of(prompt)
    check_pictures(list(prompts))
