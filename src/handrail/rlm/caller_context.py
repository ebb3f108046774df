"""On whose behalf a run asks, and as part of which larger piece of work: what its calls hand down to the runs below."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from handrail.core.calls import Problem, ToolCall, ToolResult
from handrail.core.context import Context, Principal
from handrail.core.errors import Outcome
from handrail.core.ports import Tracer
from handrail.rlm.query.single_query import WAITING
from handrail.rlm.values import RLMChatCompletion

RLM_CALL = "rlm"
"""What a completion is called in a trace: beside `rlm_query`, which is the same for a child."""
_OUTCOMES: dict[str, Outcome] = {WAITING: "needs_confirmation", "limit_exceeded": "limit"}


def caller_of_child_run(context: Context) -> Context:
    """For a run that a call of code begins: the same caller, with no more rights, in a place of its own."""
    return replace(context, run="", deadline=None, depth=0, model=None, held=())


def caller_of_query(context: Context) -> Context:
    """For a question to a model. Its tools are handlers of the code that asks, and what those may do in the world is
    judged where they do it: the rights of the caller are for that, and not for the names that the code gave them."""
    return Context(principal=Principal(context.principal.id), trace=context.trace)


async def trace_completion(
    tracer: Tracer | None, run: str, context: Context, ask: Callable[[Context], Awaitable[RLMChatCompletion]]
) -> RLMChatCompletion:
    """One completion as one span, so that what makes its REPL ready is in the same tree as the rest."""
    if tracer is None:
        return await ask(context)
    with tracer.call(ToolCall(run, RLM_CALL, {}), context) as span:
        completion = await ask(replace(context, trace=span.parent))
        span.settled(_result(completion), RLM_CALL)
        return completion


def _result(completion: RLMChatCompletion) -> ToolResult:
    if completion.error is None:
        return ToolResult(completion.run, RLM_CALL, completion.response)
    kind = completion.error_type or "failed"
    problem = Problem(kind, completion.error)
    return ToolResult(completion.run, RLM_CALL, completion.response, _OUTCOMES.get(kind, "failed"), error=problem)
