"""A conversation in one stream: its caller answers each `tool_call` frame, and the model goes on.

The runner loops, as everywhere. The tools that it has are the caller's: their handlers
wait for what the caller says. Nothing is checked for the caller here, since the caller
checks its own calls; only a call that names no tool, or is no JSON, is answered here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from handrail.core.context import Context
from handrail.core.errors import InvalidArguments, ProtocolError, ToolError
from handrail.core.events import Event, ModelEvent, ReplyFinished
from handrail.core.ids import NewId
from handrail.core.invocation import Invocation
from handrail.core.messages import AssistantMessage, Conversation
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.core.ports import Model, provider_of, takes_tools
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.models.reply_checks import ReplyChecker
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.wire_codes import REFUSALS
from handrail.node.chat.frames import CallIdNaming, ChatFrameWriter
from handrail.node.services.llm.reply import call_ids_of, reply_response
from handrail.run.limits import Limits
from handrail.run.offering import Offering
from handrail.run.runner import Runner
from handrail.tools.definition import ToolDefinition
from handrail.tools.tool import Tool

_MANY = 1_000_000
_LONGEST = 10_000_000
"""Characters of a result: the caller has bounded what it sends."""
_DAY = 86_400.0
"""Seconds that a caller may think; the deadline of the call comes before."""


async def converse_with(
    model: Model, asked: ModelRequest, request: RouteRequest, iterations: int, new_id: NewId
) -> dict[str, Any]:
    """The response to the last reply, after the frames of all.

    Raises:
        ModelError: The model gave no usable reply.
    """
    policy = Policy(timeout=_DAY, concurrency=_MANY, max_output=_LONGEST, confirm_side_effects=False)
    limits = Limits(iterations=iterations, calls_per_turn=_MANY, same_failure=_MANY, same_answer=_MANY)
    sender = _InteractiveSender(request, {offer.name for offer in asked.tools})
    async with Executor([_tool(offer, sender) for offer in asked.tools], policy=policy, new_id=new_id) as executor:
        runner = Runner(
            _CallerToolsModel(model, asked, new_id),
            executor,
            limits,
            defaults=msgspec.structs.replace(asked, messages=(), tools=(), tool_choice="auto"),
            offering=Offering(most=len(asked.tools) + 1, native=False),
            new_id=new_id,
        )
        context = Context(deadline=request.context.deadline, trace=request.context.trace)
        ended = await runner.run(Conversation(asked.messages), context, sender.send, tool_choice=asked.tool_choice)
    return _response(ended, len(asked.messages))


class _CallerToolsModel:
    """The model, shown the tools as the caller describes them, and held to what it is asked."""

    def __init__(self, model: Model, asked: ModelRequest, new_id: NewId) -> None:
        self.name = model.name
        self.provider = provider_of(model)
        self._model = model
        self._tools = asked.tools
        self._taken = call_ids_of(asked.messages)
        self._new_id = new_id

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        request = msgspec.structs.replace(request, tools=self._tools)
        naming = CallIdNaming(self._taken, self._new_id)
        watch = ReplyChecker(request, takes_tools=takes_tools(self._model))
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                for allowed in watch.see(naming.named(event)):
                    yield allowed
        watch.close()


class _InteractiveSender:
    """Sends what the model says, and hears the answers to its calls."""

    def __init__(self, request: RouteRequest, names: set[str]) -> None:
        self._request = request
        self._names = names
        self._speaking = ChatFrameWriter()
        self._asked: dict[str, asyncio.Event] = {}
        """By the id of a call: set once the caller was asked."""

    async def send(self, event: Event) -> None:
        for name, data in self._speaking.frames(event):
            # The caller is shown every call, as it would be without a socket; what it says to one that is answered
            # here goes nowhere.
            await self._request.send(name, data)
            if name == "tool_call" and data["name"] in self._names and isinstance(data["arguments"], dict):
                self._asked.setdefault(data["id"], asyncio.Event()).set()

    async def answer(self, invocation: Invocation) -> str:
        """What the caller says to a call, as text.

        Raises:
            ToolError: It failed there.
        """
        # A call may begin before its frame has gone out: then the reader is behind.
        await self._asked.setdefault(invocation.id, asyncio.Event()).wait()
        said = await self._request.answer(invocation.id)
        body = said["body"]
        if said.get("is_error") or (isinstance(body, dict) and body.get("error")):
            raise _failure(body)
        return body if isinstance(body, str) else msgspec.json.encode(body).decode()


def _tool(offer: ToolOffer, sender: _InteractiveSender) -> Tool:
    # Each call is the caller's to answer: none is shared, and what it holds is not checked for the caller.
    return Tool(ToolDefinition(offer.name), sender.answer, style="invocation", share=False)


def _failure(body: Any) -> ToolError:
    match body:
        case {"error": "invalid_arguments", "message": str(words)}:
            return InvalidArguments(words.removeprefix("invalid_arguments: "))
        case {"error": str(code), "message": str(words)} if words:
            # What became of it at the caller becomes of it here, so that the model reads the same words.
            return REFUSALS[code](words) if code in REFUSALS else ToolError(code, words)
        case {"error": str(words)}:
            return ToolError(words)
    return ToolError("failed", body if isinstance(body, str) else msgspec.json.encode(body).decode())


def _response(ended: Conversation, before: int) -> dict[str, Any]:
    replies = [message for message in ended.messages[before:] if isinstance(message, AssistantMessage)]
    if not replies:
        raise ProtocolError("the model said nothing")
    last, usage = replies[-1], Conversation(tuple(replies)).usage
    end = ReplyFinished(stop=last.stop, model=last.model, usage=usage, artefacts=last.artefacts)
    found = reply_response(last.text, [], end)
    # The frames of all replies are in one stream: only this says where the last one begins.
    return {**found, "meta": {**found["meta"], "message": found["output"]["message"]}}
