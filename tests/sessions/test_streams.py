"""A stream gives events, or only text, as they come, and at its end the whole reply, of the type asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import assert_type

import pytest

from handrail import Session, tool
from handrail.core.events import ModelEvent
from handrail.core.model_request import ModelRequest
from handrail.errors import ModelError, UsageError
from handrail.events import CallSettled, Event, TextDelta
from handrail.messages import UserMessage
from handrail.testing import ScriptedModel, call, text


@dataclass(frozen=True)
class Order:
    id: str
    item: str


@tool
def find_order(id: str) -> str:
    return "boots"


def looks_up() -> Session:
    script = ([text("Let me "), text("look. "), call("find_order", id="18")], [text("It is "), text("boots.")])
    return Session(ScriptedModel(*script), tools=[find_order])


def answers_with_an_order() -> Session:
    script = ([call("find_order", id="18")], [call("final_answer", id="18", item="boots")])
    return Session(ScriptedModel(*script), tools=[find_order])


def test_the_reply_at_the_end_of_a_stream_is_what_ask_would_have_returned() -> None:
    with looks_up() as session, looks_up() as asked:
        stream = session.stream("?")
        events = list(stream)
        whole = asked.ask("?")

        assert [event.outcome for event in events if isinstance(event, CallSettled)] == ["ok"]
        assert assert_type(stream.reply.value, str) == "It is boots."
        assert (stream.reply.text, [each.content for each in stream.reply.results]) == (whole.text, ["boots"])
        assert stream.reply.conversation == session.conversation


async def test_so_it_is_for_async_code() -> None:
    async with looks_up() as session, session.stream_async("?") as stream:
        events = [event async for event in stream]

        assert any(isinstance(event, CallSettled) for event in events)
        assert assert_type(stream.reply.value, str) == "It is boots."


def test_a_typed_stream_has_a_value_at_its_end() -> None:
    with answers_with_an_order() as session:
        stream = session.stream("?", returns=Order)
        for event in stream:
            assert_type(event, Event)

        assert assert_type(stream.reply.value, Order) == Order("18", "boots")


async def test_so_has_a_typed_stream_of_async_code() -> None:
    async with answers_with_an_order() as session, session.stream_async("?", returns=Order) as stream:
        async for event in stream:
            assert_type(event, Event)

        assert assert_type(stream.reply.value, Order) == Order("18", "boots")


def test_the_text_stream_has_only_text_of_all_turns() -> None:
    with looks_up() as session:
        stream = session.stream("?")

        assert list(stream.text_stream) == ["Let me ", "look. ", "It is ", "boots."]
        assert stream.reply.text == "It is boots."


async def test_so_has_the_text_stream_of_async_code() -> None:
    async with looks_up() as session, session.stream_async("?") as stream:
        assert [piece async for piece in stream.text_stream] == ["Let me ", "look. ", "It is ", "boots."]
        assert stream.reply.text == "It is boots."


def test_there_is_no_reply_before_the_end() -> None:
    with looks_up() as session, session.stream("?") as stream:
        next(stream)

        with pytest.raises(UsageError, match="iterate over the stream to its end"):
            _ = stream.reply


def test_a_stream_that_ends_in_an_error_raises_it_and_has_no_reply() -> None:
    with Session(ScriptedModel([call("find_order", id="18")]), tools=[find_order]) as session:
        stream = session.stream("?")

        with pytest.raises(ModelError):
            list(stream.text_stream)
        with pytest.raises(UsageError):
            _ = stream.reply


class Endless:
    """Says one word and then nothing, for ever."""

    name = "endless"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(text="hm")
        await asyncio.Event().wait()


def test_leaving_the_loop_cancels_the_run_so_that_the_session_can_be_asked_again() -> None:
    with Session(Endless()) as session:
        for _ in range(2):
            for piece in session.stream("?").text_stream:
                assert piece == "hm"
                break

        assert [type(message) for message in session.conversation.messages] == [UserMessage, UserMessage]


async def test_leaving_the_block_cancels_the_run_of_async_code() -> None:
    async with Session(Endless()) as session:
        async with session.stream_async("?") as stream:
            async for piece in stream.text_stream:
                assert piece == "hm"
                break

        assert [type(message) for message in session.conversation.messages] == [UserMessage]


def test_nothing_is_asked_before_the_first_event_is_taken() -> None:
    with looks_up() as session:
        session.stream("?").close()

        assert session.conversation.messages == ()
        assert session.ask("?").text == "It is boots."
