"""`sse(session.stream_async(prompt))`: a session of one's own as a response."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from handrail import Session
from handrail.errors import ModelError
from handrail.testing import ScriptedModel, call, text
from handrail.web import WebEvent, WebSessionError, error_response, sse
from tests.polling import until
from tests.web.asgi_browser import Browser
from tests.web.chat_app import GatedModel, find_order, refund

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def app_of(session: Session, **options: Any) -> Starlette:
    async def ask(request: Request) -> Response:
        return sse(session.stream_async((await request.json())["prompt"]), **options)

    return Starlette(routes=[Route("/ask", ask, methods=["POST"])])


async def test_the_stream_of_a_session_is_told_in_the_same_events() -> None:
    calls = [call("find_order", id="17"), call("refund", order="17", cents=1)]
    model = ScriptedModel([text("Look. "), *calls], [text("A.")])
    async with (
        Session(model, tools=[find_order, refund]) as session,
        Browser(app_of(session)).stream("POST", "/ask", {"prompt": "What is order 17?"}) as stream,
    ):
        events = await stream.rest()

    types = [event["type"] for event in events]
    assert sorted(types[:-2]) == ["call", "call", "question", "result", "running", "text"]
    assert types[-2:] == ["text", "done"] and events[-1]["text"] == "A."
    assert [event["n"] for event in events] == [*range(1, len(events) + 1)]


async def test_a_failure_is_the_last_event() -> None:
    async with (
        Session(ScriptedModel()) as session,
        Browser(app_of(session)).stream("POST", "/ask", {"prompt": "Hello"}) as stream,
    ):
        events = await stream.rest()

    assert [(event["type"], event["code"]) for event in events] == [("failed", "model")]
    assert b"script" not in stream.raw


async def test_the_run_goes_on_when_the_browser_leaves() -> None:
    model = GatedModel([text("One. "), text("Two.")])
    async with Session(model) as session:
        async with Browser(app_of(session)).stream("POST", "/ask", {"prompt": "Count."}) as stream:
            await stream.until("text")
        model.gate.set()
        await until(lambda: session.conversation.text == "One. Two.")


async def test_the_run_is_cancelled_when_the_browser_leaves_if_the_application_says_so() -> None:
    model = GatedModel([text("One. "), text("Two.")])
    async with Session(model) as session:
        browser = Browser(app_of(session, cancel_on_disconnect=True))
        async with browser.stream("POST", "/ask", {"prompt": "Count."}) as stream:
            await stream.until("text")
        model.gate.set()
        with pytest.raises(ModelError):  # the script is at its end; nothing of the first turn was kept
            await session.ask_async()

    assert session.conversation.text == ""


async def test_a_browser_that_comes_back_after_the_end_is_told_to_stay_away_and_nothing_is_asked_again() -> None:
    model = ScriptedModel([text("One.")], [text("Two.")])
    async with Session(model) as session:
        browser = Browser(app_of(session))
        async with browser.stream("POST", "/ask", {"prompt": "Count."}) as stream:
            last = (await stream.rest())[-1]
        async with browser.stream("POST", "/ask", {"prompt": "Count."}, last_event=last["n"]) as again:
            assert (again.status, await again.ended()) == (204, b"")

        assert (len(model.requests), session.conversation.text) == (1, "One.")


async def test_other_errors_are_not_told() -> None:
    with pytest.raises(ValueError, match="secret"):
        await error_response(Request({"type": "http"}), ValueError("secret"))
    response = await error_response(Request({"type": "http"}), WebSessionError("No."))
    assert (response.status_code, json.loads(bytes(response.body))) == (400, {"error": "bad_request", "message": "No."})


@given(st.integers(0, 2**53), st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_an_event_is_one_line_of_json_whatever_is_in_it(n: int, data: dict[str, Any]) -> None:
    first, second, *end = WebEvent(n=n, type="text", data=data).to_sse().decode().split("\n")

    assert (first, end) == (f"id: {n}", ["", ""])
    assert json.loads(second.removeprefix("data: ")) == {"type": "text", **data}


def test_sessions_are_kept_without_starlette() -> None:
    code = "import sys, handrail.web as web; web.WebSessions, web.SessionBusy; print('starlette' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
