"""A model that is a service, over real connections: retries, choices, costs, and what is never given out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from handrail.core.calls import ToolCall
from handrail.core.errors import (
    ModelError,
    ModelUnavailable,
    ProtocolError,
    RateLimited,
    RequestRefused,
    UsageError,
)
from handrail.core.events import CallDelta, CallRequested, ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.messages import Artefact, Conversation, Usage
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.core.ports import Model
from handrail.core.redact import Secret
from handrail.models.codec import WireRequest
from handrail.models.codec_model import CodecModel
from handrail.models.profiles import Prices, Profile
from handrail.models.retry_policy import RetryPolicy
from handrail.models.transport import Endpoint, HttpTransport
from handrail.testing.clock import FixedClock
from tests.models.raw_reply_server import CUT, HOLD, RawReplyServer, Reply, serving, sse, streamed, until_closed, whole

CANARY = "canary-5f1e9b8c7d6a"


class PlainCodec(Struct, frozen=True):
    """A wire made for these tests: `{"say": …}`, `{"call": …}`, `{"end": …}`."""

    provider: str = "plain"
    notices: tuple[str, ...] = ()

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        body = {"model": model, "stream": stream, "messages": len(request.messages)}
        return WireRequest(path="/chat", body=body, framing="sse" if stream else "json", notices=self.notices)

    def decoder(self, request: ModelRequest) -> PlainDecoder:
        return PlainDecoder()


class PlainDecoder:
    def __init__(self) -> None:
        self._end: ReplyFinished | None = None

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        for kind, value in data.items():
            match kind:
                case "say":
                    yield TextDelta(text=value)
                case "call":
                    yield CallDelta(call_id="c", name=value, arguments="{}")
                    yield CallRequested(call=ToolCall("c", value, "{}"))
                case "end":
                    usage = Usage(input_tokens=1_000_000, output_tokens=500_000)
                    self._end = ReplyFinished(stop=value, model="m", usage=usage, artefacts=(Artefact("plain", 1),))

    def finish(self) -> Iterator[ModelEvent]:
        if self._end is not None:
            yield self._end


END = {"end": "end"}
HELLO = streamed(sse({"say": "Hel"}, {"say": "lo"}, END, b"[DONE]"))
ASKED = ModelRequest(messages=Conversation().say("hi").messages)


class Scene:
    """A model, its clock, and what it said."""

    def __init__(self, server: RawReplyServer, transport: HttpTransport, codec: PlainCodec, **more: Any) -> None:
        self.clock = FixedClock()
        self.model = CodecModel(
            codec,
            transport,
            Endpoint(server.url, Secret(CANARY)),
            "m",
            clock=self.clock,
            chance=lambda: 0.5,
            **more,
        )
        self.events: list[ModelEvent] = []

    async def ask(self, request: ModelRequest = ASKED) -> list[ModelEvent]:
        model: Model = self.model
        async with asyncio.timeout(20), aclosing(model.stream(request)) as events:
            async for event in events:
                self.events.append(event)
        return self.events

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]


@pytest.fixture
async def transport() -> AsyncIterator[HttpTransport]:
    made = HttpTransport()
    yield made
    await made.aclose()


OFFERS = tuple(ToolOffer(name, "", {"type": "object"}) for name in ("add", "remove"))


async def asked(
    transport: HttpTransport, *replies: Reply, choice: ToolChoice = "auto", **more: Any
) -> tuple[Scene, RawReplyServer, ModelError | None]:
    """Ask once: what was said, what the service saw, and how it failed if it did."""
    async with serving(*replies) as server:
        scene = Scene(server, transport, PlainCodec(), **more)
        try:
            await scene.ask(ModelRequest(messages=ASKED.messages, tools=OFFERS, tool_choice=choice))
        except ModelError as error:
            return scene, server, error
        return scene, server, None


async def test_a_reply_comes_as_events_with_its_end_last(transport: HttpTransport) -> None:
    scene, server, _ = await asked(transport, HELLO)
    assert [type(event) for event in scene.events] == [TextDelta, TextDelta, ReplyFinished]
    assert scene.text == "Hello"
    assert server.asked[0].json == {"model": "m", "stream": True, "messages": 1}
    assert server.asked[0].headers["authorization"] == f"Bearer {CANARY}"


async def test_a_reply_in_one_piece_gives_the_same_events(transport: HttpTransport) -> None:
    scene, server, _ = await asked(transport, whole({"say": "Hello", **END}), stream=False)
    assert [type(event) for event in scene.events] == [TextDelta, ReplyFinished]
    assert server.asked[0].json["stream"] is False


async def test_what_the_wire_could_not_say_is_said_first(transport: HttpTransport) -> None:
    async with serving(HELLO) as server:
        scene = Scene(server, transport, PlainCodec(notices=("a: pattern was lost",)))
        assert (await scene.ask())[0] == Notice(text="a: pattern was lost")


async def test_a_reply_costs_what_its_profile_says(transport: HttpTransport) -> None:
    profile = Profile(prices=Prices(input=2.0, output=8.0))
    for known, cost in ((profile, 6.0), (Profile(), None), (None, None)):
        scene, _, _ = await asked(transport, HELLO, profile=known)
        end = scene.events[-1]
        assert isinstance(end, ReplyFinished)
        assert end.usage.cost == cost


async def test_the_repr_of_a_model_shows_no_key(transport: HttpTransport) -> None:
    scene, _, _ = await asked(transport, HELLO)
    assert repr(scene.model).startswith("CodecModel('plain', 'm', Endpoint(")
    assert "canary" not in repr(scene.model)


# Again.


@pytest.mark.parametrize(
    "bad",
    [
        whole({}, status=500),
        whole({}, status=529),
        [CUT],
        whole(b"<html>", kind="text/html"),
        streamed(sse({}), CUT),
        streamed(sse(b"{broken")),
        streamed(sse({})),
    ],
)
async def test_a_call_that_failed_before_its_reply_began_is_tried_again(transport: HttpTransport, bad: Reply) -> None:
    scene, server, _ = await asked(transport, bad, bad, HELLO)
    assert scene.text == "Hello"
    assert len(server.asked) == 3
    assert scene.clock.slept == [0.25, 0.5]
    assert [notice.rpartition("; ")[2] for notice in scene.notices] == [
        "trying again in 0.2 s (2 of 3)",
        "trying again in 0.5 s (3 of 3)",
    ]
    assert "canary" not in "".join(scene.notices)


async def test_the_pause_that_a_service_asks_for_is_kept(transport: HttpTransport) -> None:
    scene, _, _ = await asked(transport, whole({}, status=429, retry_after="7"), HELLO)
    assert scene.text == "Hello"
    assert scene.clock.slept == [7.25]


async def test_a_pause_that_is_too_long_is_not_waited_for(transport: HttpTransport) -> None:
    scene, server, error = await asked(transport, whole({}, status=429, retry_after="3600"), HELLO)
    assert isinstance(error, RateLimited)
    assert error.retry_after == 3600
    assert (len(server.asked), scene.clock.slept) == (1, [])


async def test_a_call_that_groq_refuses_is_the_models_mistake_and_asked_for_again(transport: HttpTransport) -> None:
    error = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<function"}
    scene, server, failed = await asked(transport, whole({"error": error}, status=400), HELLO)
    assert failed is None
    assert (scene.text, len(server.asked)) == ("Hello", 2)


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_a_refusal_is_not_tried_again(transport: HttpTransport, status: int) -> None:
    _, server, error = await asked(transport, whole({}, status=status), HELLO)
    assert isinstance(error, RequestRefused)
    assert len(server.asked) == 1


async def test_the_last_error_is_raised_when_all_attempts_failed(transport: HttpTransport) -> None:
    _, server, error = await asked(transport, *[whole({}, status=503)] * 5)
    assert isinstance(error, ModelUnavailable)
    assert len(server.asked) == 3


async def test_without_retries_there_is_one_attempt(transport: HttpTransport) -> None:
    _, server, error = await asked(transport, whole({}, status=503), HELLO, retry=RetryPolicy(attempts=1))
    assert isinstance(error, ModelUnavailable)
    assert len(server.asked) == 1


@pytest.mark.parametrize("rest", [(CUT,), (b"data: {broken\n\n", HOLD), (), (sse({"end": "end"}) + b"data: {", CUT)])
@pytest.mark.parametrize("first", [{"say": "Hel"}, {"call": "add"}])
async def test_a_reply_that_breaks_off_after_it_began_is_an_error_and_is_not_retried(
    transport: HttpTransport, first: dict[str, str], rest: tuple[Any, ...]
) -> None:
    scene, server, error = await asked(transport, streamed(sse(first), *rest), HELLO)
    assert isinstance(error, ProtocolError)
    assert len(server.asked) == 1
    assert not any(isinstance(event, ReplyFinished) for event in scene.events)


async def test_a_reply_that_ends_without_an_end_is_an_error(transport: HttpTransport) -> None:
    _, _, error = await asked(transport, until_closed(sse({"say": "Hel"})))
    assert isinstance(error, ProtocolError)
    assert "cut off" in str(error)


@given(st.integers(1, 2000), st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1000)))
def test_a_delay_is_within_its_bounds_and_never_shorter_than_asked(
    attempt: int, chance: float, retry_after: float | None
) -> None:
    policy = RetryPolicy(attempts=3000)
    delay = policy.delay(attempt, RateLimited("", retry_after=retry_after), chance)
    match retry_after:
        case None:
            assert delay is not None
            assert 0 <= delay <= policy.longest_delay
        case seconds if seconds > policy.longest_wait:
            assert delay is None
        case seconds:
            assert delay is not None
            assert seconds <= delay <= seconds + policy.first_delay


def test_a_retry_policy_without_an_attempt_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 attempt"):
        RetryPolicy(attempts=0)


# The choice of tools.


def called(*names: str, say: str = "", stop: str = "tool_calls") -> Reply:
    return streamed(sse(*([{"say": say}] if say else []), *({"call": name} for name in names), {"end": stop}))


def calls(scene: Scene) -> list[str]:
    return [event.call.name for event in scene.events if isinstance(event, CallRequested)]


@pytest.mark.requirement("hearthnet.tool-choice")
@pytest.mark.parametrize(
    "choice, reply",
    [
        ("none", called("add")),
        ("required", called(say="I would rather not", stop="end")),
        (NamedTool("add"), called("remove")),
        (NamedTool("add"), called(say="I would rather not", stop="end")),
    ],
)
async def test_a_reply_that_breaks_the_choice_of_tools_is_an_error_and_gives_no_call(
    transport: HttpTransport, choice: ToolChoice, reply: Reply
) -> None:
    scene, _, error = await asked(transport, reply, choice=choice, retry=RetryPolicy(attempts=1))
    assert isinstance(error, ProtocolError)
    assert "the model was told to call" in str(error)
    assert calls(scene) == []
    assert not any(isinstance(event, ReplyFinished) for event in scene.events)


@pytest.mark.requirement("hearthnet.tool-choice")
@pytest.mark.parametrize(
    "choice, reply, given_out",
    [
        ("auto", called(say="3", stop="end"), []),
        ("auto", called("add", "remove"), ["add", "remove"]),
        ("none", called(say="3", stop="end"), []),
        ("required", called("add"), ["add"]),
        (NamedTool("add"), called("add", "add"), ["add", "add"]),
        ("required", called(say="I must not", stop="refusal"), []),
        (NamedTool("add"), called(say="Let me th", stop="max_tokens"), []),
    ],
)
async def test_a_reply_that_keeps_to_the_choice_of_tools_is_given_out(
    transport: HttpTransport, choice: ToolChoice, reply: Reply, given_out: list[str]
) -> None:
    scene, _, error = await asked(transport, reply, choice=choice)
    assert error is None
    assert calls(scene) == given_out


@pytest.mark.requirement("hearthnet.tool-choice")
async def test_words_beside_a_call_that_was_not_allowed_stand_and_the_call_is_dropped(transport: HttpTransport) -> None:
    scene, _, _ = await asked(transport, called("add", say="It is 3."), choice="none")
    assert scene.text == "It is 3."
    assert not any(isinstance(event, CallRequested | CallDelta) for event in scene.events)
    assert scene.notices == ["the model was told to call no tool and called 'add'; that was dropped and not run"]
    end = scene.events[-1]
    assert isinstance(end, ReplyFinished)
    assert (end.stop, end.artefacts) == ("end", ())


@pytest.mark.parametrize("say", ["", "Let me look."])
async def test_a_reply_that_stops_for_calls_and_has_none_is_an_error_and_never_an_answer(
    transport: HttpTransport, say: str
) -> None:
    scene, _, error = await asked(transport, called(say=say), retry=RetryPolicy(attempts=1))
    assert isinstance(error, ProtocolError)
    assert "stopped for tool calls" in str(error)
    assert not any(isinstance(event, ReplyFinished) for event in scene.events)


async def test_a_reply_that_lost_its_calls_is_asked_for_again(transport: HttpTransport) -> None:
    scene, server, error = await asked(transport, called(), called("add"))
    assert error is None
    assert calls(scene) == ["add"]
    assert len(server.asked) == 2


async def test_a_model_that_broke_the_choice_may_do_better_when_asked_again(transport: HttpTransport) -> None:
    scene, server, _ = await asked(transport, called("add"), HELLO, choice="none")
    assert scene.text == "Hello"
    assert len(server.asked) == 2


# Leaving.


async def test_a_reader_that_leaves_closes_the_connection(transport: HttpTransport) -> None:
    async with asyncio.timeout(20), serving(streamed(sse({"say": "Hel"}), HOLD)) as server:
        stream = Scene(server, transport, PlainCodec()).model.stream(ASKED)
        await anext(stream)
        await stream.aclose()
        await server.hung_up.wait()


async def test_a_cancelled_reader_closes_the_connection_and_is_not_tried_again(transport: HttpTransport) -> None:
    async with asyncio.timeout(20), serving(streamed(sse({}), HOLD), HELLO) as server:
        task = asyncio.create_task(Scene(server, transport, PlainCodec()).ask())
        await server.holding.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.hung_up.wait()
    assert len(server.asked) == 1


async def test_many_replies_at_once_do_not_mix(transport: HttpTransport) -> None:
    replies = [streamed(sse({"say": str(n)}, {"say": str(n)}, END)) for n in range(40)]
    async with asyncio.timeout(20), serving(*replies) as server:
        scenes = [Scene(server, transport, PlainCodec()) for _ in replies]
        await asyncio.gather(*(scene.ask() for scene in scenes))
    assert sorted(scene.text for scene in scenes) == sorted(str(n) * 2 for n in range(40))
