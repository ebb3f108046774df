"""An `LMRequest` from elsewhere as queries, and their completions as an `LMResponse` that every client understands.

With tools, one reply of the model is asked for, and its calls are the client's to run. They are tagged: `tool_calls`
of the completion holds them, and `metadata.tagged` of the response says that it would. For clients that know no tag
they also stand in the text, as `{"tool_calls": […], "content": …}`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from handrail.core.errors import UsageError
from handrail.rlm.query.batch import run_all_bounded
from handrail.rlm.query.queries import Queries
from handrail.rlm.values import LMRequest, LMResponse, RLMChatCompletion

_AT_ONCE = 16


async def answered(queries: Queries, request: LMRequest) -> LMResponse:
    """
    Raises:
        ValueError: It cannot be asked as it is.
        UsageError: It asks for nothing.
        JournalError: The record cannot be kept.
    """
    if request.is_batched or (request.prompts is not None and request.prompt is None):
        return LMResponse(chat_completions=await _batch(queries, request), metadata={"tagged": True})
    if request.prompt is None:
        raise UsageError("Missing 'prompt' or 'prompts' in request.")
    found = await _one(queries, request, request.prompt, request.response_format)
    # Clients look for a failure here, and find its kind in the completion.
    return LMResponse(error=found.error, chat_completion=found, metadata={"tagged": True})


async def _one(queries: Queries, request: LMRequest, prompt: Any, form: Any) -> RLMChatCompletion:
    model, depth = request.model, request.depth
    if request.tools is None:
        return await queries.query(prompt, model, form, tool_choice=request.tool_choice, depth=depth)
    choice = request.tool_choice
    return _twofold(await queries.turn(prompt, model, form, request.tools, tool_choice=choice, depth=depth))


async def _batch(queries: Queries, request: LMRequest) -> list[RLMChatCompletion]:
    prompts = request.prompts or []
    forms = request.response_formats or [request.response_format] * len(prompts)
    if request.tools is None:
        return await queries.batched(prompts, request.model, forms, depth=request.depth)
    if len(forms) != len(prompts):
        raise ValueError(f"Invalid response_formats: give one for each of the {len(prompts)} prompts, not {len(forms)}")
    return await run_all_bounded(len(prompts), lambda at: _one(queries, request, prompts[at], forms[at]), _AT_ONCE)


def _twofold(found: RLMChatCompletion) -> RLMChatCompletion:
    """A reply with calls as those read it who look at its text."""
    if not found.tool_calls:
        return found
    told = {"tool_calls": found.tool_calls, "content": found.response or None}
    return msgspec.structs.replace(found, response=msgspec.json.encode(told).decode())
