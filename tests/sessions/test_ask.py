"""`ask` and `ask_async`, `stream` and `stream_async`: the two verbs of a session, each in two forms."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from handrail import LLM, Limits, Session, tool
from handrail.compat import abstractllm
from handrail.errors import UsageError
from handrail.events import Event, ModelEvent, ReplyFinished, TextDelta
from handrail.messages import Media, Usage
from handrail.testing import ScriptedModel, answer, call, text
from tests.polling import until

PICTURE = Media(media_type="image/png", data=b"png")


def get_weather(location: str) -> str:
    """Get the current weather."""
    return f"sunny in {location}"


def weather_model() -> ScriptedModel:
    return ScriptedModel([call("get_weather", location="Paris")], [text("Sun"), text("ny.")])


def test_ask_runs_the_tools_and_returns_the_answer() -> None:
    with Session(weather_model(), tools=[get_weather]) as session:
        reply = session.ask("What is the weather in Paris?")

    assert (str(reply), [result.content for result in reply.results]) == ("Sunny.", ["sunny in Paris"])


async def test_ask_async_does_the_same_where_it_is_awaited() -> None:
    async with Session(weather_model(), tools=[get_weather]) as session:
        reply = await session.ask_async("What is the weather in Paris?")

    assert (str(reply), [result.content for result in reply.results]) == ("Sunny.", ["sunny in Paris"])


def test_stream_gives_the_answer_piece_by_piece() -> None:
    with Session(weather_model(), tools=[get_weather]) as session:
        pieces = [event.text for event in session.stream("Weather?") if isinstance(event, TextDelta)]

    assert pieces == ["Sun", "ny."]


async def test_stream_async_gives_the_same_pieces() -> None:
    async with Session(weather_model(), tools=[get_weather]) as session:
        pieces = [event.text async for event in session.stream_async("Weather?") if isinstance(event, TextDelta)]

    assert pieces == ["Sun", "ny."]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_on_event_is_a_plain_or_an_async_function_in_both_forms(kind: str) -> None:
    seen: list[Event] = []

    async def note(event: Event) -> None:
        seen.append(event)

    on_event = note if kind == "async" else seen.append
    async with Session(weather_model(), tools=[get_weather]) as session:
        await session.ask_async("Weather?", on_event=on_event)
    with Session(weather_model(), tools=[get_weather]) as session:
        session.ask("Weather?", on_event=on_event)

    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["Sun", "ny."] * 2


async def test_an_llm_has_the_same_pairs() -> None:
    with LLM(ScriptedModel([text("Hello.")])) as llm:
        assert llm.generate("?") == "Hello."
    async with LLM(ScriptedModel([text("Hello.")], [text("Again.")])) as llm:
        assert await llm.generate_async("?") == "Hello."
        pieces = [event.text async for event in llm.stream_async("?") if isinstance(event, TextDelta)]
    assert pieces == ["Again."]


def test_abstractllms_name_for_ask_is_only_in_its_module() -> None:
    with abstractllm.Session(weather_model(), tools=[get_weather]) as session:
        assert session.generate_with_tools("Weather?").text == "Sunny."

    assert not hasattr(Session, "generate_with_tools")


@pytest.mark.parametrize(
    "prompt", [5, b"bytes", {"a": 1}, [], ["words", 5], PICTURE], ids=lambda each: type(each).__name__
)
def test_what_is_no_prompt_is_refused_before_anything_is_asked(prompt: Any) -> None:
    model = ScriptedModel([text("Yes.")])
    with Session(model) as session:
        with pytest.raises(UsageError, match="a prompt is text"):
            session.ask(prompt)
        assert (model.requests, len(session.conversation)) == ([], 0)


def test_half_of_an_emoji_in_a_prompt_is_refused_and_the_session_goes_on() -> None:
    with Session(ScriptedModel([text("Hello.")])) as session:
        for prompt in ("Hello \ud83d", ["Hello", "\ude00"]):
            with pytest.raises(UsageError, match="half of a surrogate pair"):
                session.ask(prompt)

        assert (len(session.conversation), session.ask("Hello \U0001f600").text) == (0, "Hello.")


async def test_the_threads_of_a_session_that_nobody_closed_end_with_it() -> None:
    @tool
    def find_thread() -> int:
        threads.append(threading.current_thread())
        return 1

    async def ask() -> None:
        session = Session(ScriptedModel([call("find_thread")], [text("Done.")]), tools=[find_thread])
        await session.ask_async("Go.")

    threads: list[threading.Thread] = []

    def has_ended() -> bool:
        gc.collect()  # again and again: while it puts its last work down, the thread still knows the session
        return not threads[0].is_alive()

    await ask()
    await until(has_ended)


def test_a_plain_on_event_runs_in_the_callers_thread_and_holds_up_nobody_else() -> None:
    heard, seen = threading.Event(), list[int]()
    slow = Session(ScriptedModel([text("slow")]))
    quick = Session(ScriptedModel([text("quick")]))

    def listen(event: object) -> None:
        seen.append(threading.get_ident())
        assert heard.wait(60)

    replies: list[str] = []
    asking = threading.Thread(target=lambda: replies.append(slow.ask("Hi", on_event=listen).text))
    asking.start()
    assert quick.ask("Hi", on_event=lambda event: None).text == "quick"
    assert not replies
    heard.set()
    asking.join(60)
    assert replies == ["slow"] and set(seen) == {asking.ident}
    slow.close()
    quick.close()


def test_what_on_event_raises_ends_the_prompt() -> None:
    def listen(event: object) -> None:
        raise ZeroDivisionError("no")

    with Session(ScriptedModel([text("hello"), text("again")])) as session:
        with pytest.raises(ZeroDivisionError):
            session.ask("Hi", on_event=listen)
        assert session.ask("Hi").text.endswith("again")


def spent(tokens: int, stop: Any = "end") -> ModelEvent:
    return ReplyFinished(stop=stop, usage=Usage(input_tokens=tokens, output_tokens=1))


def test_a_reply_has_the_usage_of_its_prompt_alone() -> None:
    asked = [call("get_weather", location="Paris"), spent(10, "tool_calls")]
    model = ScriptedModel([text("Hi."), spent(7)], asked, [text("Sunny."), spent(20)])
    with Session(model, tools=[get_weather]) as session:
        session.ask("Hello.")
        reply = session.ask("What is the weather in Paris?")

    assert reply.usage == Usage(input_tokens=30, output_tokens=2)
    assert reply.conversation.usage == Usage(input_tokens=37, output_tokens=3)
    assert [type(message).__name__ for message in reply.messages] == [
        "UserMessage",
        "AssistantMessage",
        "InvocationMessage",
        "ResultMessage",
        "AssistantMessage",
    ]


@pytest.mark.parametrize("returns", [None, int])
def test_a_reply_says_that_the_model_came_to_an_answer(returns: Any) -> None:
    with Session(ScriptedModel([call("get_weather", location="Paris")], [answer(21)]), tools=[get_weather]) as session:
        assert session.ask("How warm is it in Paris?", returns=returns).finished


def test_a_reply_says_that_a_limit_ended_the_turn_and_has_no_words_of_an_earlier_one() -> None:
    model = ScriptedModel([text("Hi.")], [call("get_weather", location="Paris")])
    with Session(model, tools=[get_weather], limits=Limits(iterations=1, on_limit="stop")) as session:
        session.ask("Hello.")
        reply = session.ask("What is the weather in Paris?")

    assert (reply.finished, reply.text) == (False, "")
    assert [result.content for result in reply.results] == ["sunny in Paris"]
