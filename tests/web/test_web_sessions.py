"""Sessions of a web application, as its browsers see them."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail import LLM, Agent, Invocation, Secret, Session, tool
from handrail.confirm import Rules
from handrail.core.events import ModelEvent, Recorded
from handrail.errors import UsageError
from handrail.events import ConfirmationAnswered
from handrail.journal import JournalReader, SqliteJournal, erase
from handrail.messages import AssistantMessage, UserMessage
from handrail.testing import ScriptedModel, call, text
from handrail.web import SessionBusy, SessionNotFound, TooManySessions, WebEvent, WebSessionError, WebSessions
from tests.polling import until
from tests.web.asgi_browser import Browser, BrowserStream
from tests.web.chat_app import GatedModel, app_of, refund, refunds, sessions_of

REFUND = call("refund", order="17", cents=2450)


@pytest.fixture(autouse=True)
async def no_refunds() -> AsyncIterator[None]:
    refunds.clear()
    yield


async def begun(browser: Browser) -> str:
    status, body = await browser.ask("POST", "/sessions")
    assert status == 200
    found: str = body["id"]
    return found


async def told(browser: Browser, path: str, body: Any) -> list[dict[str, Any]]:
    async with browser.stream("POST", path, body) as stream:
        assert stream.status == 200, await stream.ended()
        return await stream.rest()


def without_ids(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key not in ("n", "id")} for event in events]


async def until_type(events: AsyncIterator[WebEvent], type: str) -> WebEvent:
    return await anext(event async for event in events if event.type == type)


async def test_an_answer_is_streamed_as_numbered_events() -> None:
    model = ScriptedModel([text("Let me look. "), call("find_order", id="17")], [text("An umbrella.")])
    async with sessions_of(model) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "What is order 17?"}) as stream:
            events = await stream.rest()

    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert without_ids(events) == [
        {"type": "prompt", "text": "What is order 17?"},
        {"type": "text", "text": "Let me look. "},
        {"type": "call", "tool": "find_order"},
        {"type": "running", "tool": "find_order", "arguments": {"id": "17"}},
        {"type": "result", "tool": "find_order", "outcome": "ok", "text": "umbrella"},
        {"type": "text", "text": "An umbrella."},
        {"type": "done", "text": "An umbrella."},
    ]
    numbers = [event["n"] for event in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_a_stream_has_its_end_whatever_characters_a_model_writes() -> None:
    model = ScriptedModel([call("find_order", "c\ud800", id="17"), call("\udfff", "d")], [text("An \ud800.")])
    async with sessions_of(model) as sessions:
        browser = Browser(app_of(sessions))
        events = await told(browser, f"/sessions/{await begun(browser)}/turns", {"prompt": "What is order 17?"})

    results = {(event["id"], event["tool"]) for event in events if event["type"] == "result"}
    assert results == {("c?", "find_order"), ("d", "?")}
    assert (events[-1]["type"], events[-1]["text"]) == ("done", "An ?.")


async def test_half_an_emoji_in_a_prompt_does_not_spoil_the_session() -> None:
    model = ScriptedModel([text("Hello.")])
    async with sessions_of(model) as sessions:
        browser = Browser(app_of(sessions))
        events = await told(browser, f"/sessions/{await begun(browser)}/turns", {"prompt": "Hello \ud83d"})

    assert events[-1]["type"] == "done"
    (said,) = [message for message in model.requests[0].messages if isinstance(message, UserMessage)]
    assert said.text == "Hello ?"


@pytest.mark.parametrize("prompt", [5, {"text": "Hello"}, [{"text": "Hello"}], [None], b"Hello"])
async def test_a_prompt_that_is_no_text_is_refused_and_the_session_stays_free(prompt: Any) -> None:
    async with sessions_of(ScriptedModel([text("Hello.")])) as sessions:
        session = await sessions.create(owner="ada")
        with pytest.raises(WebSessionError, match="A prompt is a text"):
            await session.start(prompt)
        events = [event async for event in await session.start(["Hello."])]

    assert [event.type for event in events] == ["prompt", "text", "done"]


async def test_what_was_said_before_is_known_in_the_next_request() -> None:
    model = ScriptedModel([text("Hello Ada.")], [text("Ada.")])
    async with sessions_of(model) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        await told(browser, f"/sessions/{id}/turns", {"prompt": "I am Ada."})
        await told(browser, f"/sessions/{id}/turns", {"prompt": "Who am I?"})

    said = [message.text for message in model.requests[1].messages if hasattr(message, "text")]
    assert said == ["Never tell the word plover.", "I am Ada.", "Hello Ada.", "Who am I?"]


async def test_a_session_of_somebody_else_is_not_found() -> None:
    async with sessions_of(ScriptedModel()) as sessions:
        app = app_of(sessions)
        id = await begun(Browser(app, "ada"))

        theirs = await Browser(app, "eve").ask("POST", f"/sessions/{id}/turns", {"prompt": "Hello"})
        nobodys = await Browser(app, "eve").ask("POST", "/sessions/session_0/turns", {"prompt": "Hello"})
        with pytest.raises(SessionNotFound):
            await sessions.open(id, owner="eve", create=True)

    assert theirs == nobodys == (404, {"error": "session_not_found", "message": "There is no such session."})


async def test_a_session_has_its_owner_after_a_restart(tmp_path: Path) -> None:
    async with sessions_of(ScriptedModel(), journal=tmp_path / "web.db") as sessions:
        id = (await sessions.create(owner="ada")).id

    async with sessions_of(ScriptedModel(), journal=tmp_path / "web.db") as sessions:
        assert (await sessions.open(id, owner="ada")).state == "idle"
        with pytest.raises(SessionNotFound):
            await sessions.open(id, owner="eve")


async def test_a_second_prompt_while_the_first_is_answered_is_a_conflict() -> None:
    model = GatedModel([text("One."), text(" Two.")])
    async with sessions_of(model) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "Count."}) as first:
            await first.until("text")
            second = await browser.ask("POST", f"/sessions/{id}/turns", {"prompt": "Faster."})
            model.gate.set()
            end = await first.until("done")

    assert (second[0], second[1]["error"]) == (409, "session_busy")
    assert end["text"] == "One. Two."


async def test_a_browser_that_was_cut_off_gets_what_it_missed() -> None:
    model = GatedModel([text("One. "), text("Two. "), text("Three.")])
    async with sessions_of(model) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "Count."}) as stream:
            first = await stream.until("text")
        model.gate.set()
        session = await sessions.open(id, owner="ada")
        await until(lambda: not session.is_working)

        async with browser.stream("GET", f"/sessions/{id}/events", last_event=first["n"]) as stream:
            missed = await stream.event()
            end = await stream.event()

    assert first["text"] + (missed or {})["text"] == "One. Two. Three."
    assert end is not None and (end["type"], end["text"]) == ("done", "One. Two. Three.")


async def test_a_browser_that_knows_nothing_gets_a_snapshot_first() -> None:
    model = GatedModel([call("find_order", id="17")], [text("An "), text("umbrella.")])
    async with sessions_of(model) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "What is order 17?"}) as first:
            await first.until("text")
            async with browser.stream("GET", f"/sessions/{id}/events", last_event=12) as second:
                shown = await second.event()
                model.gate.set()
                rest = [await second.event(), await second.event()]

    assert shown is not None
    assert (shown["type"], shown["state"], shown["text"], shown["questions"]) == ("snapshot", "working", "An ", [])
    assert without_ids(shown["messages"]) == [
        {"role": "user", "text": "What is order 17?"},
        {"role": "call", "tool": "find_order", "arguments": {"id": "17"}},
        {"role": "result", "tool": "find_order", "outcome": "ok", "text": "umbrella"},
    ]
    assert [event and event["type"] for event in rest] == ["text", "done"]


async def test_a_stream_that_has_nothing_to_say_is_kept_alive() -> None:
    from handrail.web import sse

    async with sessions_of(ScriptedModel()) as sessions:
        session = await sessions.create(owner="ada")
        response = sse(session.events(), keep_alive=0.01)
        async with Browser(response).stream("GET", "/") as stream:
            blocks = [await stream.block() for _ in range(4)]

    assert blocks[0] == "retry: 1000"
    assert blocks[2:] == [": still there"] * 2


# ── confirmation ─────────────────────────────────────────────────────────────────────


async def asked(stream: BrowserStream) -> dict[str, Any]:
    question = await stream.until("question")
    assert (question["tool"], question["arguments"]) == ("refund", {"order": "17", "cents": 2450})
    assert question["description"] == "Refund an order."
    return question


@pytest.mark.parametrize(
    ("answer", "done", "result"),
    [
        ({"allow": True}, [("17", 2450)], "refunded 2450 cents for order 17"),
        ({"allow": {"order": "17", "cents": 5}}, [("17", 5)], "refunded 5 cents for order 17"),
        ({"allow": False, "reason": "too much"}, [], "This was denied."),
    ],
)
async def test_a_call_is_confirmed_from_another_request(
    answer: dict[str, Any], done: list[tuple[str, int]], result: str
) -> None:
    model = ScriptedModel([REFUND], [text("That is all.")])
    async with sessions_of(model) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "Refund order 17."}) as stream:
            question = await asked(stream)
            assert (refunds, (await sessions.open(id, owner="ada")).state) == ([], "waiting")
            events = await told(browser, f"/sessions/{id}/questions/{question['id']}", answer)
            first = await stream.rest()
            again = await browser.ask("POST", f"/sessions/{id}/questions/{question['id']}", answer)

    assert refunds == done
    assert [event["text"] for event in events if event["type"] == "result"] == [result]
    assert (events[-1]["type"], events[-1]["text"]) == ("done", "That is all.")
    assert first == events
    assert (again[0], again[1]["error"]) == (409, "question_closed")
    if "reason" in answer:
        assert "ada denied the call to 'refund': too much" in str(model.requests[1].messages)


async def test_arguments_that_do_not_fit_are_refused_and_the_question_stays_open() -> None:
    async with sessions_of(ScriptedModel([REFUND], [text("Done.")])) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "Refund order 17."}) as stream:
            path = f"/sessions/{id}/questions/{(await asked(stream))['id']}"
            status, body = await browser.ask("POST", path, {"allow": {"order": "17", "cents": "many"}})
            await told(browser, path, {"allow": True})

    assert (status, body["error"], "cents" in body["message"]) == (400, "bad_request", True)
    assert refunds == [("17", 2450)]


@pytest.mark.parametrize("allow", ["yes", None, 1, [True]])
async def test_an_answer_that_is_none_is_refused_and_the_question_stays_open(allow: Any) -> None:
    async with sessions_of(ScriptedModel([REFUND], [text("Done.")]), answer_within=0) as sessions:
        session = await sessions.create(owner="ada")
        *_, paused = [event async for event in await session.start("Refund order 17.")]
        (question,) = paused.data["questions"]

        with pytest.raises(WebSessionError, match="true, false, or an object"):
            await session.answer(question["id"], allow)
        with pytest.raises(WebSessionError, match="a reason is a text"):
            await session.answer(question["id"], False, reason=5)  # type: ignore[arg-type]  # as a request may have it
        *_, ended = [event async for event in await session.answer(question["id"], True)]

    assert (ended.type, refunds) == ("done", [("17", 2450)])


async def test_a_user_cannot_answer_the_question_of_another() -> None:
    async with sessions_of(ScriptedModel([REFUND], [text("Done.")])) as sessions:
        app = app_of(sessions)
        ada, eve = Browser(app, "ada"), Browser(app, "eve")
        id, hers = await begun(ada), await begun(eve)
        async with ada.stream("POST", f"/sessions/{id}/turns", {"prompt": "Refund order 17."}) as stream:
            question = (await asked(stream))["id"]
            in_adas = await eve.ask("POST", f"/sessions/{id}/questions/{question}", {"allow": True})
            in_hers = await eve.ask("POST", f"/sessions/{hers}/questions/{question}", {"allow": True})

    assert (in_adas[0], in_hers[0], refunds) == (404, 409, [])


async def test_a_turn_pauses_when_nobody_answers_and_goes_on_when_somebody_does() -> None:
    async with sessions_of(ScriptedModel([REFUND], [text("Done.")]), answer_within=0) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        events = await told(browser, f"/sessions/{id}/turns", {"prompt": "Refund order 17."})
        question = events[-1]["questions"][0]
        rest = await told(browser, f"/sessions/{id}/questions/{question['id']}", {"allow": True})

    assert (events[-1]["type"], question["arguments"]) == ("waiting", {"order": "17", "cents": 2450})
    assert [event["type"] for event in rest] == ["answered", "running", "result", "text", "done"]
    assert refunds == [("17", 2450)]


@pytest.mark.parametrize("answer", [True, {"order": "17", "cents": 5}])
async def test_a_question_is_found_and_answered_after_a_restart(tmp_path: Path, answer: Any) -> None:
    journal = tmp_path / "web.db"
    async with sessions_of(ScriptedModel([REFUND]), journal=journal, answer_within=0) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        await told(browser, f"/sessions/{id}/turns", {"prompt": "Refund order 17."})

    async with sessions_of(ScriptedModel([text("Done.")]), journal=journal) as sessions:
        browser = Browser(app_of(sessions))
        async with browser.stream("GET", f"/sessions/{id}/events") as stream:
            shown = await stream.event()
            assert shown is not None and shown["state"] == "waiting"
            (question,) = shown["questions"]
            events = await told(browser, f"/sessions/{id}/questions/{question['id']}", {"allow": answer})
            followed = [await stream.event() for _ in events]

    assert (question["tool"], question["description"]) == ("refund", "Refund an order.")
    assert refunds == [("17", 2450 if answer is True else 5)]
    assert events[-1]["type"] == "done" and followed == events
    with JournalReader(journal) as reader:
        assert [event.by for event in reader.events(id) if isinstance(event, ConfirmationAnswered)] == ["ada"]


async def test_the_end_of_the_program_leaves_a_question_open(tmp_path: Path) -> None:
    journal = tmp_path / "web.db"
    sessions = sessions_of(ScriptedModel([REFUND]), journal=journal)
    session = await sessions.create(owner="ada")
    events = await session.start("Refund order 17.")
    async for event in events:
        if event.type == "question":
            break
    await sessions.aclose()

    async with sessions_of(ScriptedModel([text("Done.")]), journal=journal) as sessions:
        session = await sessions.open(session.id, owner="ada")
        (question,) = session.questions
        ended = [event async for event in await session.answer(question["id"], True)]

    assert (refunds, ended[-1].type) == ([("17", 2450)], "done")


async def test_two_questions_are_answered_one_after_the_other_after_a_restart(tmp_path: Path) -> None:
    journal = tmp_path / "web.db"
    both = [REFUND, call("refund", order="18", cents=1)]
    async with sessions_of(ScriptedModel(both), journal=journal, answer_within=0) as sessions:
        session = await sessions.create(owner="ada")
        _ = [event async for event in await session.start("Refund both.")]

    async with sessions_of(ScriptedModel([text("Done.")]), journal=journal, answer_within=0) as sessions:
        session = await sessions.open(session.id, owner="ada")
        first, second = [question["id"] for question in session.questions]
        events = [event async for event in await session.answer(second, True)]
        assert (refunds, events[-1].type) == ([("18", 1)], "waiting")
        events = [event async for event in await session.answer(first, False)]

    assert (refunds, events[-1].type) == ([("18", 1)], "done")


async def test_of_two_answers_at_once_after_a_pause_the_second_may_be_given_again() -> None:
    model = ScriptedModel([call("refund", order="1", cents=1), call("refund", order="2", cents=2)], [text("Done.")])
    async with sessions_of(model, answer_within=0) as sessions:
        session = await sessions.create(owner="ada")
        _ = [event async for event in await session.start("Refund both.")]
        first, second = (question["id"] for question in session.questions)

        events, refused = await asyncio.gather(
            session.answer(first, True), session.answer(second, True), return_exceptions=True
        )
        assert isinstance(refused, SessionBusy) and not isinstance(events, BaseException)
        assert [event.type async for event in events][-1] == "waiting"
        assert [event.type async for event in await session.answer(second, True)][-1] == "done"

    assert refunds == [("1", 1), ("2", 2)]


async def test_a_new_prompt_withdraws_what_waits() -> None:
    async with sessions_of(ScriptedModel([REFUND], [text("As you like.")]), answer_within=0) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        await told(browser, f"/sessions/{id}/turns", {"prompt": "Refund order 17."})
        events = await told(browser, f"/sessions/{id}/turns", {"prompt": "Rather not."})

    assert [event["type"] for event in events] == ["answered", "prompt", "text", "done"]
    assert (events[0]["decision"], refunds) == ("withdrawn", [])


async def test_an_approver_of_the_application_decides_first() -> None:
    model = ScriptedModel([REFUND], [call("refund", order="18", cents=1)], [text("Done.")])
    async with sessions_of(model, approver=Rules(["allow refund order=17"]), answer_within=0) as sessions:
        session = await sessions.create(owner="ada")
        events = [event async for event in await session.start("Refund both.")]

    assert refunds == [("17", 2450)]
    assert [event.data["arguments"] for event in events if event.type == "question"] == [{"order": "18", "cents": 1}]


async def test_tools_get_what_belongs_to_the_user() -> None:
    @tool
    def whose(given: Invocation[str]) -> str:
        """Tell whose session it is."""
        return f"that of {given.deps}"

    model = ScriptedModel([call("whose")], [text("A.")], [call("whose")], [text("B.")])
    async with WebSessions(Session(model, tools=[whose], deps_type=str), deps=str.upper) as sessions:
        told = []
        for user in ("ada", "eve"):
            session = await sessions.create(owner=user)
            told += [event.data["text"] async for event in await session.start("Whose?") if event.type == "result"]

    assert told == ["that of ADA", "that of EVE"]
    with pytest.raises(UsageError, match="deps"):
        WebSessions(Session(model, tools=[whose], deps_type=str))


def clerk_of(*replies: list[ModelEvent]) -> Agent:
    return Agent(ScriptedModel(*replies), name="clerk", description="Refunds orders.", tools=[refund])


async def test_the_user_is_asked_about_a_call_of_an_agent_below() -> None:
    clerk = clerk_of([REFUND], [text("It is refunded.")])
    model = ScriptedModel([call("clerk", prompt="Refund order 17.")], [text("Done.")])
    async with WebSessions(Session(model, tools=[clerk.as_tool()])) as sessions:
        session = await sessions.create(owner="ada")
        types = []
        async for event in await session.start("Refund order 17."):
            types.append(event.type)
            if event.type == "question":
                assert event.data["arguments"] == {"order": "17", "cents": 2450}
                await session.answer(event.data["id"], True)

    assert types == ["prompt", "call", "running", "question", "answered", "result", "text", "done"]
    assert refunds == [("17", 2450)]


async def test_a_question_of_an_agent_below_is_found_after_a_restart(tmp_path: Path) -> None:
    journal, asking = tmp_path / "web.db", [call("clerk", prompt="Refund order 17.")]
    prototype = Session(ScriptedModel(asking), tools=[clerk_of([REFUND]).as_tool()], journal=journal)
    async with WebSessions(prototype, answer_within=0) as sessions:
        session = await sessions.create(owner="ada")
        events = [event async for event in await session.start("Refund order 17.")]
        assert [question["tool"] for question in events[-1].data["questions"]] == ["refund"]

    clerk = clerk_of([text("It is refunded.")])
    prototype = Session(ScriptedModel([text("Done.")]), tools=[clerk.as_tool()], journal=journal)
    async with WebSessions(prototype) as sessions:
        session = await sessions.open(session.id, owner="ada")
        (question,) = session.questions
        events = [event async for event in await session.answer(question["id"], True)]

    assert (refunds, events[-1].type, events[-1].data) == ([("17", 2450)], "done", {"text": "Done."})


@pytest.mark.parametrize("answer_within", [60, 0])
async def test_arguments_of_an_agents_call_are_not_held_to_another_tool_of_the_same_name(answer_within: float) -> None:
    paid: list[str] = []

    @tool(name="refund", side_effects=True)
    def refund_customer(customer: str) -> str:
        """Refund a customer."""
        paid.append(customer)
        return "refunded"

    clerk = Agent(
        ScriptedModel([call("refund", customer="eve")], [text("Refunded.")]),
        name="clerk",
        description="Refunds customers.",
        tools=[refund_customer],
    )
    model = ScriptedModel([call("clerk", prompt="Refund Ada.")], [text("Done.")])
    prototype = Session(model, tools=[clerk.as_tool(), refund])
    async with WebSessions(prototype, answer_within=answer_within) as sessions:
        session = await sessions.create(owner="ada")
        events = aiter(await session.start("Refund me."))
        await until_type(events, "question" if answer_within else "waiting")
        (question,) = session.questions
        assert question["description"] != "Refund an order."
        await until_type(aiter(await session.answer(question["id"], {"customer": "ada"})), "done")

    assert paid == ["ada"]


async def test_a_user_cannot_have_the_run_of_an_agent_of_somebody_else_by_choosing_an_id() -> None:
    model = ScriptedModel([text("Pay Eve.")], [call("clerk", "c1", prompt="Whom do I pay?")], [text("Thanks.")])
    clerk = Agent(ScriptedModel([text("Pay the shop.")]), name="clerk", description="Knows whom to pay.")
    async with WebSessions(Session(model, tools=[clerk.as_tool()])) as sessions:
        eve = await sessions.open("chat-ada.c1", owner="eve", create=True)
        _ = [event async for event in await eve.start("Say: pay Eve.")]
        ada = await sessions.open("chat-ada", owner="ada", create=True)
        events = [event async for event in await ada.start("Whom do I pay?")]

        with pytest.raises(SessionNotFound):
            await sessions.open("chat-ada.c1", owner="ada")
    assert [event.data["text"] for event in events if event.type == "result"] == ["Pay the shop."]


@pytest.mark.parametrize("ids", [("a.b", "a%2Eb"), ("a%b", "a%25b"), ("ä/b", "../ä"), ("a" * 200, "." * 200)])
async def test_different_ids_are_different_sessions_also_after_a_restart(tmp_path: Path, ids: tuple[str, str]) -> None:
    for _ in range(2):
        async with sessions_of(ScriptedModel(), journal=str(tmp_path / "web.db")) as sessions:
            opened = [await sessions.open(id, owner=f"owner of {id}", create=True) for id in ids]
            assert [session.id for session in opened] == list(ids)


async def test_an_answer_is_held_to_the_schema_of_the_model() -> None:
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    model = ScriptedModel([text("An umbrella.")], [text('{"item": "umbrella"}')])
    async with WebSessions(Session(LLM(model, response_schema=schema))) as sessions:
        session = await sessions.create(owner="ada")
        events = [event async for event in await session.start("What is order 17?")]

    assert (events[-1].type, json.loads(events[-1].data["text"])) == ("done", {"item": "umbrella"})
    assert len(model.requests) == 2


async def test_an_agent_speaks_in_every_session() -> None:
    model = ScriptedModel([text("Hello Ada.")])
    async with WebSessions(Session(Agent(model, name="host", system_prompt="Be kind."))) as sessions:
        session = await sessions.create(owner="ada")
        events = [event async for event in await session.start("I am Ada.")]

    assert events[-1].data == {"text": "Hello Ada."}
    assert [getattr(each, "text", "") for each in model.requests[0].messages] == ["Be kind.", "I am Ada."]


# ── several processes ────────────────────────────────────────────────────────────────


async def test_another_process_is_refused_while_a_turn_is_under_way_and_may_answer_its_question(tmp_path: Path) -> None:
    journal = tmp_path / "web.db"
    one = sessions_of(ScriptedModel([REFUND], [text("Done.")]), journal=journal)
    other = sessions_of(ScriptedModel([text("Hello.")]), journal=journal)
    async with one, other:
        here, there = Browser(app_of(one)), Browser(app_of(other))
        id = await begun(here)
        async with here.stream("POST", f"/sessions/{id}/turns", {"prompt": "Refund order 17."}) as stream:
            question = await asked(stream)
            busy = await there.ask("POST", f"/sessions/{id}/turns", {"prompt": "Hello?"})
            events = await told(there, f"/sessions/{id}/questions/{question['id']}", {"allow": True})
            end = await stream.until("done")
        after = await told(there, f"/sessions/{id}/turns", {"prompt": "Hello?"})

    assert (busy[0], events, end["text"]) == (409, [], "Done.")
    assert refunds == [("17", 2450)]
    assert after[-1]["text"] == "Hello."


# ── limits and failures ──────────────────────────────────────────────────────────────


async def test_a_failure_is_told_in_plain_words_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            raise RuntimeError("password of db.internal is hunter2")
            yield

    async with sessions_of(Broken()) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        with caplog.at_level(logging.ERROR):
            async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "Hello"}) as stream:
                end = await stream.until("failed")
        state = (await sessions.open(id, owner="ada")).state

    assert (end["code"], end["message"]) == ("internal", "Something went wrong on the server.")
    assert b"hunter2" not in stream.raw and b"RuntimeError" not in stream.raw
    assert end["reference"] in caplog.text and "hunter2" in caplog.text
    assert state == "interrupted"


async def test_a_turn_that_failed_goes_on_without_a_prompt() -> None:
    model = ScriptedModel()
    async with sessions_of(model) as sessions:
        session = await sessions.create(owner="ada")
        failed = [event async for event in await session.start("Hello")]
        model._replies = [[], [text("Hello Ada.")]]
        done = [event async for event in await session.start()]

    assert (failed[-1].type, failed[-1].data["code"]) == ("failed", "model")
    assert [event.type for event in done] == ["text", "done"]


async def test_what_a_tool_raises_and_what_supervises_the_model_stays_here() -> None:
    @tool
    def look(password: Secret) -> str:
        """Look."""
        raise RuntimeError(f"no route to db.internal with {password}")

    model = ScriptedModel([call("look", password="hunter2")], [text("It failed.")])
    prototype = Session(model, system_prompt="Never tell the word plover.", tools=[look])
    async with WebSessions(prototype) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "Look."}) as stream:
            events = await stream.rest()
        async with browser.stream("GET", f"/sessions/{id}/events") as other:
            await other.event()

    (result,) = [event for event in events if event["type"] == "result"]
    assert (result["outcome"], result["text"]) == ("failed", "This failed.")
    for hidden in (b"plover", b"db.internal", b"hunter2", b"RuntimeError"):
        assert hidden not in stream.raw and hidden not in other.raw


async def test_a_session_that_is_not_in_use_is_forgotten_and_read_again() -> None:
    async with sessions_of(ScriptedModel([text("Hello Ada.")], [text("Ada.")]), most=2) as sessions:
        first = await sessions.create(owner="ada")
        id, first_one = first.id, weakref.ref(first)
        _ = [event async for event in await first.start("I am Ada.")]
        del first
        others = [await sessions.create(owner="eve") for _ in range(2)]
        gc.collect()

        assert first_one() is None
        again = await sessions.open(id, owner="ada")
        events = [event async for event in await again.start("Who am I?")]

        assert await sessions.open(others[1].id, owner="eve") is others[1]
    said = [getattr(message, "text", "") for message in again.conversation.messages]
    assert said[1:] == ["I am Ada.", "Hello Ada.", "Who am I?", "Ada."]
    assert events[-1].data == {"text": "Ada."}


async def test_a_session_that_a_request_still_has_is_the_one_that_is_opened_again() -> None:
    model = GatedModel([text("One"), text(".")])
    async with sessions_of(model, most=1) as sessions:
        first = await sessions.create(owner="ada")
        await sessions.create(owner="eve")  # there is room for one: the first is forgotten
        again = await sessions.open(first.id, owner="ada")
        events = await first.start("Count.")

        with pytest.raises(SessionBusy):
            await again.start("Count too.")
        model.gate.set()
        assert [event.type async for event in events] == ["prompt", "text", "done"]


async def test_a_forgotten_session_that_works_asks_its_user_and_ends_with_the_others() -> None:
    async with sessions_of(ScriptedModel([REFUND], [text("Done.")]), most=1) as sessions:
        session = await sessions.create(owner="ada")
        await sessions.create(owner="eve")
        events = aiter(await session.start("Refund it."))
        asked = await until_type(events, "question")
        await sessions.aclose()

        assert (await until_type(events, "waiting")).data["questions"][0]["id"] == asked.data["id"]


async def test_no_more_sessions_are_in_use_than_may_be() -> None:
    model = GatedModel([text("One"), text(".")])
    async with sessions_of(model, most=1) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "Hello"}) as stream:
            await stream.until("text")
            refused = await browser.ask("POST", "/sessions")
            with pytest.raises(TooManySessions):
                await sessions.create(owner="eve")
            model.gate.set()
            await stream.until("done")
        await begun(browser)

    assert (refused[0], refused[1]["error"]) == (503, "too_many_sessions")


async def test_a_turn_is_cancelled_when_its_user_says_so() -> None:
    model = GatedModel([text("One"), text(".")])
    async with sessions_of(model) as sessions:
        browser = Browser(app_of(sessions))
        id = await begun(browser)
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "Hello"}) as stream:
            await stream.until("text")
            stopped = await browser.ask("DELETE", f"/sessions/{id}/turns")
            rest = await stream.rest()

    assert (stopped[0], [event["type"] for event in rest]) == (200, ["stopped"])


async def test_closing_ends_turns_and_streams() -> None:
    model = GatedModel([text("One"), text(".")])
    sessions = sessions_of(model)
    browser = Browser(app_of(sessions))
    id = await begun(browser)
    async with browser.stream("GET", f"/sessions/{id}/events") as watching:
        async with browser.stream("POST", f"/sessions/{id}/turns", {"prompt": "Hello"}) as stream:
            await stream.until("text")
            await sessions.aclose()
            assert (await stream.rest())[-1]["type"] == "stopped"
        assert (await watching.rest())[-1]["type"] == "stopped"
    with pytest.raises(UsageError):
        await sessions.create(owner="ada")


async def test_sessions_in_a_journal_that_is_given_are_provable(tmp_path: Path) -> None:
    from handrail.journal import audit

    async with (
        await SqliteJournal.open(tmp_path / "web.db") as journal,
        sessions_of(ScriptedModel([text("Hello.")]), journal=journal) as sessions,
    ):
        session = await sessions.create(owner="ada")
        _ = [event async for event in await session.start("Hello")]

    assert audit(tmp_path / "web.db").ok


@pytest.mark.parametrize("id", ["", "a" * 201, "a\nb"])
async def test_an_id_that_cannot_be_one_is_refused(id: str) -> None:
    from handrail.web import InvalidSessionId

    async with sessions_of(ScriptedModel()) as sessions:
        with pytest.raises(InvalidSessionId):
            await sessions.open(id, owner="ada")


@pytest.mark.parametrize("after", ["", "x", "-1", "9" * 30, "٣"])
async def test_a_last_event_that_is_none_counts_as_none(after: str) -> None:
    async with sessions_of(ScriptedModel()) as sessions:
        session = await sessions.create(owner="ada")
        first = await anext(aiter(session.events(after)))

    assert first.type == "snapshot"


class CountingJournal(SqliteJournal):
    """Counts how often a whole run is read."""

    read = 0

    async def history(self, run: str) -> list[Recorded]:
        self.read += 1
        return await super().history(run)


async def test_a_turn_reads_the_record_only_if_others_have_changed_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    model = ScriptedModel(*([text(f"Answer {number}.")] for number in range(6)))

    async def turn(sessions: WebSessions) -> str:
        session = await sessions.open("ada-1", owner="ada")
        return [event async for event in await session.start("And?")][-1].type

    async with await CountingJournal.open(path) as journal, sessions_of(model, journal=journal) as sessions:
        assert isinstance(journal, CountingJournal)
        await sessions.open("ada-1", owner="ada", create=True)
        assert await turn(sessions) == "done"
        before = journal.read
        assert [await turn(sessions), await turn(sessions)] == ["done", "done"]
        assert journal.read == before

        async with await SqliteJournal.open(path) as other, sessions_of(model, journal=other) as elsewhere:
            assert await turn(elsewhere) == "done"
        assert (await turn(sessions), journal.read > before) == ("done", True)
        said = [message.text for message in model.requests[-1].messages if isinstance(message, AssistantMessage)]
        assert said == [f"Answer {number}." for number in range(4)]

        erase(path, before=2**60)
        with pytest.raises(SessionNotFound):
            await turn(sessions)
