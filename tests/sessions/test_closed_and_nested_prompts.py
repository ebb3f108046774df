"""A prompt never waits for itself, and none waits for a session that was closed meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable

import pytest

from handrail import Session, tool
from handrail.confirm import Confirmation
from handrail.errors import UsageError
from handrail.events import Event, TextDelta
from handrail.messages import ResultMessage
from handrail.testing import ScriptedModel, call, text

SECONDS = 20.0


class Waiting:
    """A tool that says when it was called, and waits until it is cancelled."""

    def __init__(self) -> None:
        self.called = threading.Event()

        @tool
        async def wait_for_ever() -> str:
            self.called.set()
            await asyncio.Event().wait()
            return "never"

        self.tool = wait_for_ever

    def session(self) -> Session:
        return Session(ScriptedModel([text("Wait. "), call("wait_for_ever")], [text("Done.")]), tools=[self.tool])


def in_thread(work: Callable[[], object]) -> Callable[[], object]:
    """Begin it in a thread; the function that is returned waits for what it returns or raises."""
    outcomes: list[object] = []

    def run() -> None:
        try:
            outcomes.append(work())
        except BaseException as error:
            outcomes.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def outcome() -> object:
        thread.join(SECONDS)
        assert outcomes, "it still waits"
        return outcomes[0]

    return outcome


def results_of(session: Session) -> list[str]:
    return [each.result.outcome for each in session.conversation.messages if isinstance(each, ResultMessage)]


def test_a_tool_that_asks_its_own_session_is_told_that_it_would_wait_for_itself() -> None:
    @tool
    def ask_back() -> str:
        return session.ask("And?").text

    session = Session(ScriptedModel([call("ask_back")], [text("Done.")]), tools=[ask_back])
    reply = in_thread(lambda: session.ask("Go."))()

    assert [result.outcome for result in reply.results] == ["failed"]  # type: ignore[attr-defined]
    assert "fork()" in reply.results[0].text  # type: ignore[attr-defined]
    session.close()


async def test_so_is_an_async_tool() -> None:
    @tool
    async def ask_back() -> str:
        return (await session.ask_async("And?")).text

    async with Session(ScriptedModel([call("ask_back")], [text("Done.")]), tools=[ask_back]) as session:
        reply = await asyncio.wait_for(session.ask_async("Go."), SECONDS)

    assert "fork()" in reply.results[0].text


def test_a_tool_may_ask_a_fork_of_its_session() -> None:
    @tool
    def ask_back() -> str:
        with session.fork() as other:
            return other.ask("And?").text

    session = Session(ScriptedModel([call("ask_back")], [text("Because.")], [text("Done.")]), tools=[ask_back])
    reply = in_thread(lambda: session.ask("Go."))()

    assert reply.results[0].text == "Because."  # type: ignore[attr-defined]
    session.close()


def test_an_approver_that_asks_its_own_session_is_told_so_too() -> None:
    @tool(side_effects=True)
    def pay() -> str:
        return "paid"

    def think(question: Confirmation) -> bool:
        return session.ask("May it pay?").text == "Yes."

    session = Session(ScriptedModel([call("pay")], [text("Yes.")]), tools=[pay], approver=think)
    error = in_thread(lambda: session.ask("Pay."))()

    assert isinstance(error, UsageError) and "fork()" in str(error)
    session.close()


async def test_a_function_for_events_that_asks_the_session_is_told_so_too() -> None:
    async def ask_back(event: Event) -> None:
        if isinstance(event, TextDelta):
            await session.ask_async("And?")

    async with Session(ScriptedModel([text("One.")], [text("Two.")])) as session:
        with pytest.raises(UsageError, match=r"fork\(\)"):
            await asyncio.wait_for(session.ask_async("Go.", on_event=ask_back), SECONDS)
        assert (await session.ask_async("Go on.")).text == "Two."


async def test_work_that_a_tool_left_behind_may_ask_when_the_prompt_is_answered() -> None:
    answered = asyncio.Event()
    left: list[asyncio.Task[str]] = []

    async def later() -> str:
        await answered.wait()
        return (await session.ask_async("And now?")).text

    @tool
    async def leave_work() -> str:
        left.append(asyncio.create_task(later()))
        return "left"

    model = ScriptedModel([call("leave_work")], [text("Done.")], [text("Now.")])
    async with Session(model, tools=[leave_work]) as session:
        await session.ask_async("Go.")
        answered.set()
        assert await asyncio.wait_for(left[0], SECONDS) == "Now."


async def test_closing_a_session_ends_the_prompt_that_it_answers_and_settles_its_calls() -> None:
    waiting = Waiting()
    session = waiting.session()
    asked = asyncio.create_task(session.ask_async("Go."))
    next_one = asyncio.create_task(session.ask_async("And then?"))
    await asyncio.to_thread(waiting.called.wait, SECONDS)

    await asyncio.wait_for(session.aclose(), SECONDS)

    for each in (asked, next_one):
        with pytest.raises(UsageError, match="was closed"):
            await each
    assert results_of(session) == ["cancelled"]


async def test_a_task_that_is_cancelled_while_its_session_is_closed_is_cancelled() -> None:
    waiting = Waiting()
    session = waiting.session()
    asked = asyncio.create_task(session.ask_async("Go."))
    await asyncio.to_thread(waiting.called.wait, SECONDS)

    asked.cancel()
    await session.aclose()

    with pytest.raises(asyncio.CancelledError):
        await asked


def test_closing_it_from_another_thread_does_so_too() -> None:
    waiting = Waiting()
    session = waiting.session()
    asked = in_thread(lambda: session.ask("Go."))
    waiting.called.wait(SECONDS)

    session.close()

    error = asked()
    assert isinstance(error, UsageError) and "was closed" in str(error)
    assert results_of(session) == ["cancelled"]


def test_a_stream_whose_session_is_closed_says_so() -> None:
    waiting = Waiting()
    session = waiting.session()
    stream = session.stream("Go.")
    assert next(stream.text_stream) == "Wait. "
    waiting.called.wait(SECONDS)

    session.close()

    error = in_thread(lambda: list(stream))()
    assert isinstance(error, UsageError) and "was closed" in str(error)


def test_a_tool_that_closes_its_own_session_is_refused() -> None:
    @tool
    def close_it() -> str:
        session.close()
        return "closed"

    session = Session(ScriptedModel([call("close_it")], [text("Done.")]), tools=[close_it])
    reply = in_thread(lambda: session.ask("Go."))()

    assert [result.outcome for result in reply.results] == ["failed"]  # type: ignore[attr-defined]
    session.close()


async def test_a_stream_that_was_left_before_its_session_was_closed_leaves_no_error_behind() -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, problem: problems.append(problem))

    async def leave_early() -> None:
        session = Session(ScriptedModel([text("One. "), text("Two. "), text("Three.")]))
        async for event in session.stream_async("Go."):
            if isinstance(event, TextDelta):
                break
        await session.aclose()

    await leave_early()
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)

    assert problems == []


def test_a_session_of_another_event_loop_says_what_to_do() -> None:
    session = Session(ScriptedModel([text("One.")], [text("Two.")]))
    assert asyncio.run(session.ask_async("Go.")).text == "One."

    with pytest.raises(UsageError, match=r"asyncio\.run"):
        asyncio.run(session.ask_async("Go on."))

    asyncio.run(session.aclose())
    assert asyncio.run(session.ask_async("Go on.")).text == "Two."
    asyncio.run(session.aclose())
