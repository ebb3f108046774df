"""A small application as users write it, with FastAPI; a header says who the user is.

FastAPI reads annotations, also local ones: so they are no texts here.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Header, Request
from starlette.responses import Response

from handrail import Session, tool
from handrail.core.events import ModelEvent
from handrail.core.model_request import ModelRequest
from handrail.testing import ScriptedModel
from handrail.web import WebSession, WebSessionError, WebSessions, error_response, sse

refunds: list[tuple[str, int]] = []


@tool
def find_order(id: str) -> str:
    """Find an order by its number."""
    return {"17": "umbrella"}[id]


@tool(side_effects=True)
def refund(order: str, cents: int) -> str:
    """Refund an order."""
    refunds.append((order, cents))
    return f"refunded {cents} cents for order {order}"


class GatedModel(ScriptedModel):
    """Says what the script has, and stops before the last piece of the last reply until it is let go on."""

    def __init__(self, *replies: list[ModelEvent]) -> None:
        super().__init__(*replies)
        self.gate = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        *before, last, end = [event async for event in super().stream(request)]
        for event in before:
            yield event
        if len(self.requests) == len(self._replies):
            await self.gate.wait()
        yield last
        yield end


def sessions_of(model: Any, **options: Any) -> WebSessions:
    kept = {key: options.pop(key) for key in ("most", "answer_within", "reasoning") if key in options}
    prototype = Session(model, system_prompt="Never tell the word plover.", tools=[find_order, refund], **options)
    return WebSessions(prototype, **kept)


def app_of(sessions: WebSessions) -> FastAPI:
    app = FastAPI()
    app.add_exception_handler(WebSessionError, error_response)

    async def current(id: str, x_user: Annotated[str, Header()]) -> WebSession:
        return await sessions.open(id, owner=x_user)

    Current = Annotated[WebSession, Depends(current)]

    async def create(x_user: Annotated[str, Header()]) -> dict[str, str]:
        return {"id": (await sessions.create(owner=x_user)).id}

    async def ask(session: Current, prompt: Annotated[str | None, Body(embed=True)] = None) -> Response:
        return sse(await session.start(prompt))

    async def events(session: Current, request: Request) -> Response:
        return sse(session.events(request.headers.get("last-event-id")))

    async def answer(
        session: Current,
        question: str,
        allow: Annotated[bool | dict[str, Any], Body()],
        reason: Annotated[str, Body()] = "",
    ) -> Response:
        return sse(await session.answer(question, allow, reason=reason))

    async def cancel(session: Current) -> dict[str, str]:
        await session.cancel()
        return {"state": session.state}

    app.add_api_route("/sessions", create, methods=["POST"])
    app.add_api_route("/sessions/{id}/turns", ask, methods=["POST"])
    app.add_api_route("/sessions/{id}/events", events, methods=["GET"])
    app.add_api_route("/sessions/{id}/questions/{question}", answer, methods=["POST"])
    app.add_api_route("/sessions/{id}/turns", cancel, methods=["DELETE"])
    return app
