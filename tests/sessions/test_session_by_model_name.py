"""A session may be given the name of a model; the model is then its own, and is closed with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from handrail import Session, tool
from handrail.errors import UsageError
from tests.docs.model_service import local_model_service, point_service_at


@tool
def find_order(number: int) -> str:
    return f"Order {number} is on its way."


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with local_model_service() as url:
        point_service_at("openai", url, monkeypatch)
        yield


def test_a_session_asks_the_model_that_is_named() -> None:
    with Session("openai:gpt-4.1", tools=[find_order]) as session:
        assert session.ask("Find order 17.").text == "Order 17 is on its way."
        with session.fork() as other:
            assert other.ask("Find order 18.").text == "Order 18 is on its way."
        assert session.ask("Find order 19.").text == "Order 19 is on its way."


async def test_so_does_a_session_of_async_code() -> None:
    async with Session("openai:gpt-4.1", tools=[find_order]) as session:
        assert (await session.ask_async("Find order 17.")).text == "Order 17 is on its way."


def test_a_name_that_is_no_model_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="opneai"):
        Session("opneai:gpt-4.1")
