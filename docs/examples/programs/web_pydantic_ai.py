"""A shop's help desk for browsers: a session per user, answers as they are written, refunds that the user confirms.

uvicorn web_pydantic_ai:app
"""

import json
from collections.abc import AsyncIterator

from pydantic_ai import (
    Agent,
    AgentRunResultEvent,
    DeferredToolRequests,
    DeferredToolResults,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import InMemoryConversationStore
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

agent = Agent(
    "openai-chat:gpt-4.1",
    instructions="You work for a shop.",
    output_type=[str, DeferredToolRequests],
)
store = InMemoryConversationStore()


@agent.tool_plain
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


@agent.tool_plain(requires_approval=True)
def refund(number: int, cents: int) -> str:
    """Refund an order."""
    return f"Refunded {cents} cents of order {number}."


def sse(**event: object) -> str:
    return f"data: {json.dumps(event)}\n\n"


async def stream(
    conversation: Conversation, prompt: str | None, results: DeferredToolResults | None = None
) -> AsyncIterator[str]:
    async with agent.run_stream_events(prompt, conversation=conversation, deferred_tool_results=results) as events:
        async for event in events:
            match event:
                case (
                    PartStartEvent(part=TextPart(content=piece))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=piece))
                ):
                    yield sse(type="text", text=piece)
                case AgentRunResultEvent(result=result):
                    await store.save(result)
                    if isinstance(result.output, DeferredToolRequests):
                        questions = [
                            {"id": call.tool_call_id, "tool": call.tool_name, "arguments": call.args_as_dict()}
                            for call in result.output.approvals
                        ]
                        yield sse(type="waiting", questions=questions)
                    else:
                        yield sse(type="done", text=result.output)


async def conversation_of(request: Request) -> Conversation:
    user = request.headers["x-user"]  # your sign-in goes here
    return await store.load(user) or Conversation(conversation_id=user)


async def ask(request: Request) -> StreamingResponse:
    conversation, body = await conversation_of(request), await request.json()
    return StreamingResponse(stream(conversation, body["prompt"]), media_type="text/event-stream")


async def answer(request: Request) -> StreamingResponse:
    conversation, body = await conversation_of(request), await request.json()
    results = DeferredToolResults(approvals={body["question"]: body["allow"]})
    return StreamingResponse(stream(conversation, None, results), media_type="text/event-stream")


app = Starlette(routes=[Route("/ask", ask, methods=["POST"]), Route("/answer", answer, methods=["POST"])])
