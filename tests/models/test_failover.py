"""Several models in the place of one."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from handrail import Conversation, Executor, Runner, ToolCall, tool
from handrail.core.context import Context
from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused, UsageError
from handrail.core.events import AttemptFailed, ModelEvent, Notice
from handrail.core.model_request import ModelRequest
from handrail.models.failover import FailoverModel, WithSettings
from handrail.testing.clock import FixedClock
from handrail.testing.model import ScriptedModel, text

ASKED = ModelRequest(messages=Conversation().say("hi").messages)


class Failing:
    """Fails as it was told, each time, after it said what it was told."""

    def __init__(self, error: ModelError, *before: ModelEvent, name: str = "failing") -> None:
        self.name = name
        self.asked = 0
        self.closed = False
        self._error = error
        self._before = before

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.asked += 1
        for event in self._before:
            yield event
        raise self._error

    async def aclose(self) -> None:
        self.closed = True


async def events(model: FailoverModel) -> list[ModelEvent]:
    return [event async for event in model.stream(ASKED)]


@pytest.mark.parametrize("error", [ModelUnavailable("down"), RateLimited("busy"), ProtocolError("broken")])
async def test_the_next_is_asked_with_an_event_and_a_notice(error: ModelError) -> None:
    model = FailoverModel([Failing(error, Notice(text="a: lost")), ScriptedModel([text("Hello")])])
    said = await events(model)
    assert said[:3] == [
        Notice(text="a: lost"),
        AttemptFailed(model="failing", error=error.code, text=str(error)),
        Notice(text=f"'failing' gave no reply: {error}; going on with 'scripted'"),
    ]
    assert text("Hello") in said


@pytest.mark.parametrize("error", [RequestRefused("wrong key", status=401), ModelError("not trusted")])
async def test_what_is_wrong_with_the_request_is_told_and_not_hidden(error: ModelError) -> None:
    spare = ScriptedModel([text("Hello")])
    with pytest.raises(type(error)):
        await events(FailoverModel([Failing(error), spare]))
    assert spare.requests == []


async def test_a_model_that_asked_for_a_long_pause_gets_it() -> None:
    clock, first = FixedClock(), Failing(RateLimited("busy", retry_after=600))
    model = FailoverModel([first, ScriptedModel(*[[text("Hello")]] * 3)], clock=clock)
    for seconds in (0, 599, 2):
        clock.advance(seconds)
        await events(model)
    assert first.asked == 2


async def test_when_all_rest_all_are_asked() -> None:
    first, second = Failing(ModelUnavailable("a")), Failing(ModelUnavailable("b"))
    model = FailoverModel([first, second], clock=FixedClock())
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            await events(model)
    assert (first.asked, second.asked) == (2, 2)


async def test_a_tool_that_is_reserved_for_one_model_is_not_for_a_group_with_another() -> None:
    @tool(side_effects=False, models=("first",))
    async def secret() -> str:
        """Only the first may see it."""
        return "42"

    async with Executor([secret]) as executor:
        for names, may in ((("first", "second"), False), (("first", "first"), True)):
            spare = ScriptedModel([text("Hello")], name=names[1])
            model = FailoverModel([Failing(ModelUnavailable("down"), name=names[0]), spare])
            await Runner(model, executor).run(Conversation().say("hi"))
            assert bool(spare.requests[0].tools) is may
            result = await executor.invoke(ToolCall("", "secret", {}), Context(model=model.name, run=names[1]))
            assert result.outcome == ("ok" if may else "forbidden")


async def test_closing_it_closes_all() -> None:
    one, other = Failing(ModelUnavailable("a")), Failing(ModelUnavailable("b"))
    await FailoverModel([one, WithSettings(other, {}), ScriptedModel()]).aclose()
    assert (one.closed, other.closed) == (True, True)


def test_a_failover_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one model"):
        FailoverModel([])
