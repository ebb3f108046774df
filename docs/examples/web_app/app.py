"""An assistant of a shop, on the web: a session for each visitor, answers as they are written, refunds after a click.

    pip install 'handrail[web]' fastapi uvicorn
    MODEL=openai:gpt-4.1 python app.py

What was said, and a question that waits for its click, are in the file shop.db: they are there after a restart.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import Cookie, Depends, FastAPI, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel

from handrail import Session, tool
from handrail.ports import Model
from handrail.web import WebSession, WebSessionError, WebSessions, error_response, sse

PAGE = Path(__file__).with_name("page.html")
ORDERS = {"17": "an umbrella, 24.50 €", "18": "a pair of boots, 89.00 €"}


@tool
def find_order(id: str) -> str:
    """Find an order by its number."""
    return ORDERS[id]


@tool(side_effects=True)
def refund(order: str, cents: int) -> str:
    """Refund an order."""
    with Path("refunds.txt").open("a") as file:
        file.write(f"{order} {cents}\n")
    return f"refunded {cents} cents for order {order}"


class Prompt(BaseModel):
    text: str


class Answer(BaseModel):
    allow: bool
    reason: str = ""


async def visitor_session(request: Request, visitor: Annotated[str, Cookie()]) -> WebSession:
    """The session of whoever sent the request. The cookie is a secret, so that only its hash is written down."""
    owner = hashlib.sha256(visitor.encode()).hexdigest()[:32]
    sessions: WebSessions = request.app.state.sessions
    return await sessions.open(f"shop-{owner}", owner=owner, create=True)


VisitorSession = Annotated[WebSession, Depends(visitor_session)]


def create_app(model: Model | str, journal: str) -> FastAPI:
    agent = Session(model, system_prompt="You help customers of a shop.", tools=[find_order, refund], journal=journal)
    sessions = WebSessions(agent)
    app = FastAPI(lifespan=sessions.lifespan)
    app.state.sessions = sessions
    app.add_exception_handler(WebSessionError, error_response)

    @app.get("/")
    async def page(visitor: Annotated[str | None, Cookie()] = None) -> Response:
        response = FileResponse(PAGE, headers={"cache-control": "no-store"})  # no proxy may give its cookie to others
        if visitor is None:
            response.set_cookie("visitor", secrets.token_urlsafe(), httponly=True, samesite="lax")
        return response

    @app.get("/events")
    async def events(session: VisitorSession, request: Request) -> Response:
        return sse(session.events(after=request.headers.get("last-event-id")))

    @app.post("/prompts", status_code=202)
    async def ask(session: VisitorSession, prompt: Prompt) -> None:
        await session.start(prompt.text)

    @app.post("/questions/{question}", status_code=202)
    async def answer(session: VisitorSession, question: str, given: Answer) -> None:
        await session.answer(question, given.allow, reason=given.reason)

    @app.delete("/turn", status_code=202)
    async def stop(session: VisitorSession) -> None:
        await session.cancel()

    return app


if __name__ == "__main__":
    # Streams stay open: without a limit the server would wait for every browser before it ends.
    uvicorn.run(create_app(os.environ.get("MODEL", "local"), "shop.db"), timeout_graceful_shutdown=2)
