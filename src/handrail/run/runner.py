"""The runner: the only thing that loops. It pushes events, so streaming and not are the same code."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.events import CallRequested, Emit, TextDelta, ignore
from handrail.core.ids import new_id
from handrail.core.messages import AssistantMessage, Conversation, ModelRequest, ResultMessage, ToolOffer, UserMessage
from handrail.core.ports import Model
from handrail.execute.executor import Executor

LIMIT_REACHED = "The limit of tool calls is reached; give your final answer now, without further calls."


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    iterations: int = 6
    """Turns in which the model may call tools; after them it is asked once more, for an answer."""


class Runner:
    """A model, an executor and their limits."""

    def __init__(self, model: Model, executor: Executor, limits: Limits = Limits()) -> None:
        self._model = model
        self._executor = executor
        self._limits = limits
        self._offers = tuple(
            ToolOffer(tool.name, tool.description, tool.input_schema) for tool in executor.tools.definitions
        )

    async def run(self, conversation: Conversation, context: Context = Context(), emit: Emit = ignore) -> Conversation:
        """Go on until the model calls no tool: the conversation with everything that was said and done."""
        for _ in range(self._limits.iterations):
            reply = await self._ask(conversation, self._offers, context, emit)
            conversation = conversation.add(reply)
            if not reply.calls:
                return conversation
            results = await self._executor.invoke_all(reply.calls, context, emit)
            conversation = conversation.add(ResultMessage(tuple(results)))
        conversation = conversation.add(UserMessage(LIMIT_REACHED))
        reply = await self._ask(conversation, (), context, emit)
        return conversation.add(msgspec.structs.replace(reply, calls=()))

    async def _ask(
        self, conversation: Conversation, offers: tuple[ToolOffer, ...], context: Context, emit: Emit
    ) -> AssistantMessage:
        await self._executor.offered(context, tuple(offer.name for offer in offers), emit)
        request = ModelRequest(conversation.messages, offers, "auto" if offers else "none")
        text: list[str] = []
        calls: list[ToolCall] = []
        taken = _ids(conversation)
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                await emit(event)
                match event:
                    case TextDelta(text=piece):
                        text.append(piece)
                    case CallRequested(call=call):
                        calls.append(_with_own_id(call, taken))
        return AssistantMessage("".join(text), tuple(calls))


def _ids(conversation: Conversation) -> set[str]:
    replies = (message for message in conversation.messages if isinstance(message, AssistantMessage))
    return {call.id for reply in replies for call in reply.calls}


def _with_own_id(call: ToolCall, taken: set[str]) -> ToolCall:
    """Some models reuse ids. Here an id names one call of a run."""
    if not call.id or call.id in taken:
        call = msgspec.structs.replace(call, id=new_id("call"))
    taken.add(call.id)
    return call
