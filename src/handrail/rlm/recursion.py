"""`rlm_query` and `rlm_query_batched`: a question that a model works on in a REPL of its own, one level deeper.

Where the depth is used up they ask a model, as `llm_query` does. A child is a run of its own, named after the call, so
asking again takes it up.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from handrail.core.errors import HandrailError, JournalError, LimitExceeded, ModelError, ToolError, describe
from handrail.core.ids import nested_id
from handrail.core.invocation import Invocation
from handrail.rlm.query.asking import failed
from handrail.rlm.query.batch import check_prompts, worked_off
from handrail.rlm.query.forms import conversation_of
from handrail.rlm.repl.tools import RLM_QUERY, RLM_QUERY_BATCHED, VALUE_ERROR, query_tool, run_of, written
from handrail.rlm.values import RLMChatCompletion
from handrail.tools.tool import Tool

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Children of one batch: each has an interpreter."""

Child = Callable[[Any, str | None, str, float | None], Awaitable[RLMChatCompletion]]
"""Works on a prompt: with which model, as which run, and until when on the clock of the loop."""


def recursive_tools(child: Child, at_once: int = AT_ONCE) -> tuple[Tool, Tool]:
    """Both tools."""

    async def rlm_query(invocation: Invocation) -> dict[str, Any]:
        asked = invocation.arguments
        prompt = asked.get("prompt")
        _check(prompt)
        found = await settled(child, prompt, asked.get("model"), run_of(invocation), invocation.context.deadline)
        return written(found)

    async def rlm_query_batched(invocation: Invocation) -> dict[str, Any]:
        asked = invocation.arguments
        prompts, model, run = _checked(asked.get("prompts")), asked.get("model"), run_of(invocation)

        async def work(at: int) -> RLMChatCompletion:
            deadline = invocation.context.deadline
            return await settled(child, prompts[at], model, nested_id(run, str(at)), deadline)

        return {"completions": list(map(written, await worked_off(len(prompts), work, at_once)))}

    return (
        query_tool(RLM_QUERY, "Have a model with a REPL of its own work on a prompt.", rlm_query),
        query_tool(RLM_QUERY_BATCHED, "Have models with REPLs of their own work on prompts.", rlm_query_batched),
    )


async def settled(child: Child, prompt: Any, model: str | None, run: str, deadline: float | None) -> RLMChatCompletion:
    """A completion whatever becomes of the child, but that nothing goes on without a record."""
    nothing = RLMChatCompletion(root_model=model or "", prompt=prompt, response="", run=run)
    try:
        return await child(prompt, model, run, deadline)
    except JournalError:
        raise
    except LimitExceeded as error:
        return failed(nothing, "limit_exceeded", str(error))
    except ModelError as error:
        return failed(nothing, error.code, str(error), error.status)
    except HandrailError as error:
        return failed(nothing, "query_error", str(error))
    except Exception as error:  # a model is anybody's code, and the other children of a batch go on
        logger.exception("a child of a run failed in a way that is not known")
        return failed(nothing, "query_error", describe(error))


def _check(prompt: Any) -> None:
    try:
        conversation_of(prompt)
    except ValueError as error:
        raise ToolError(VALUE_ERROR, str(error)) from error


def _checked(prompts: Any) -> Sequence[Any]:
    try:
        check_prompts(prompts)
    except ValueError as error:
        raise ToolError(VALUE_ERROR, str(error)) from error
    for prompt in prompts:
        _check(prompt)
    found: Sequence[Any] = prompts
    return found
