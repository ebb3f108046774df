"""A shop's help desk for browsers: a session per user, answers as they are written, refunds that the user confirms.

uvicorn web_handrail:app
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from handrail import Session, tool
from handrail.web import WebSession, WebSessionError, WebSessions, error_response, sse


@tool
def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


@tool(side_effects=True)
def refund(number: int, cents: int) -> str:
    """Refund an order."""
    return f"Refunded {cents} cents of order {number}."


shop = Session("openai:gpt-4.1", system_prompt="You work for a shop.", tools=[find_order, refund])
sessions = WebSessions(shop, answer_within=0)


async def session_of(request: Request) -> WebSession:
    user = request.headers["x-user"]  # your sign-in goes here
    return await sessions.open(user, owner=user, create=True)


async def ask(request: Request) -> Response:
    session, body = await session_of(request), await request.json()
    return sse(await session.start(body["prompt"]))


async def answer(request: Request) -> Response:
    session, body = await session_of(request), await request.json()
    return sse(await session.answer(body["question"], body["allow"]))


app = Starlette(
    routes=[Route("/ask", ask, methods=["POST"]), Route("/answer", answer, methods=["POST"])],
    exception_handlers={WebSessionError: error_response},
    lifespan=sessions.lifespan,
)
