"""`llm.chat` and `llm.tools.call` on a bus: schemas, frames, errors, and a conversation in one stream."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from handrail import CapabilityBus, create_llm
from handrail.core.calls import ToolCall
from handrail.core.errors import (
    BrokenChoice,
    BusError,
    ModelError,
    ModelUnavailable,
    ProtocolError,
    RateLimited,
    RequestRefused,
    UsageError,
)
from handrail.core.events import (
    CallDelta,
    CallIntended,
    CallRequested,
    CallSettled,
    ModelEvent,
    ReasoningDelta,
    ReplyFinished,
)
from handrail.core.messages import Artefact, InvocationMessage, Media, SupervisorMessage, Text, Usage, UserMessage
from handrail.core.model_request import ModelRequest, NamedTool
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.services.blobs import BlobService, BlobStore
from handrail.node.services.llm import LlmService
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from tests.node.bus.scripted_models import DecidingModel, results
from tests.node.services.service_calls import ANNA, BEN
from tests.sessions.wire_replies import TEXTS, OneReply

ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "parameters_schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}


def body(*messages: dict[str, Any] | str, model: str | None = "m", **input: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
    return {"params": {"model": model} if model else {}, "input": {"messages": said, **input}}


@asynccontextmanager
async def serving(model: Any, **options: Any) -> AsyncIterator[CapabilityBus]:
    async with CapabilityBus() as bus:
        bus.register_service(LlmService({"m": model}, **options))
        yield bus


async def frames_of(bus: CapabilityBus, said: dict[str, Any], **how: Any) -> list[StreamFrame]:
    async with bus.stream("llm.chat", (2, 0), said, **how) as stream:
        return [frame async for frame in stream]


# ── one reply ────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.frames")
async def test_a_reply_is_frames_of_the_documented_shapes_and_one_done() -> None:
    model = ScriptedModel(
        [
            ReasoningDelta(text="rag.query is the one"),
            text("I'll search "),
            CallDelta(call_id="tc_1", name="rag.query", arguments='{"query":"'),
            CallDelta(call_id="tc_1", name="rag.query", arguments='Regenwasser"}'),
            CallRequested(call=ToolCall("tc_1", "rag.query", {"query": "Regenwasser"})),
            ReplyFinished(stop="tool_calls", model="big", usage=Usage(input_tokens=7, output_tokens=3)),
        ]
    )
    async with serving(model) as bus:
        frames = await frames_of(bus, body("Rain?", tools=[{**ADD, "name": "rag.query"}]))

    done = frames.pop()
    assert [(frame.event, frame.data) for frame in frames] == snapshot(
        [
            ("token", {"text": "I'll search "}),
            ("tool_call_delta", {"id": "tc_1", "name": "rag.query", "arguments_delta": '{"query":"'}),
            ("tool_call_delta", {"id": "tc_1", "arguments_delta": 'Regenwasser"}'}),
            ("tool_call", {"id": "tc_1", "name": "rag.query", "arguments": {"query": "Regenwasser"}}),
        ]
    )
    assert done.event == "done" and isinstance(done.data.pop("ms"), float | int)
    assert done.data.pop("labels") == {"untrusted": True}
    assert done.data == {"model": "big", "tokens_in": 7, "tokens_out": 3, "stop_reason": "tool_calls"}


@pytest.mark.requirement("hearthnet.frames")
@given(
    st.lists(
        st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.integers(-9, 9) | st.none(), max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_the_deltas_of_a_call_join_to_its_arguments_however_it_came(
    arguments: list[dict[str, Any]], data: st.DataObject
) -> None:
    events: list[ModelEvent] = []
    for number, each in enumerate(arguments):
        written = json.dumps(each)
        id = data.draw(st.sampled_from(["", "same", f"tc_{number}"]))
        if id and data.draw(st.booleans()):
            cut = data.draw(st.integers(0, len(written)))
            events += [CallDelta(call_id=id, name="add", arguments=piece) for piece in (written[:cut], written[cut:])]
        events.append(CallRequested(call=ToolCall(id, "add", each if data.draw(st.booleans()) else written)))

    async def frames() -> list[StreamFrame]:
        async with serving(ScriptedModel(events)) as bus:
            return await frames_of(bus, body("?", tools=[ADD]))

    found = asyncio.run(frames())
    deltas: dict[str, str] = {}
    for frame in found:
        if frame.event == "tool_call_delta":
            assert ("name" in frame.data) == (frame.data["id"] not in deltas)
            deltas[frame.data["id"]] = deltas.get(frame.data["id"], "") + frame.data["arguments_delta"]
    calls = {frame.data["id"]: frame.data["arguments"] for frame in found if frame.event == "tool_call"}
    assert list(calls.values()) == arguments
    assert {id: json.loads(written) for id, written in deltas.items()} == calls
    assert [frame.event in ("done", "error") for frame in found] == [False] * (len(found) - 1) + [True]
    assert [frame.seq for frame in found] == list(range(1, len(found) + 1))


async def test_without_a_stream_the_response_has_the_message_and_the_calls() -> None:
    model = ScriptedModel([text("Let me. "), call("add", "tc_1", a=1)])
    async with serving(model) as bus:
        response = await bus.call("llm.chat", "2.0", body("1?", tools=[ADD], stream=False))

    assert response["output"] == {
        "message": {"role": "assistant", "content": "Let me. "},
        "tool_calls": [{"id": "tc_1", "name": "add", "arguments": {"a": 1}}],
    }
    assert response["meta"]["stop_reason"] == "tool_calls"


async def test_a_request_that_says_little_gets_the_defaults_and_one_that_says_more_gets_that() -> None:
    model = ScriptedModel([text("a")], [call("add", a=1)])
    async with serving(model) as bus:
        await bus.call("llm.chat", (2, 0), body("?", model=None))
        asked: dict[str, Any] = {
            "max_tokens": 5,
            "temperature": 0,
            "top_p": 1,
            "stop": ["x"],
            "seed": 3,
            "tools": [ADD],
        }
        await bus.call("llm.chat", (1, 0), body("?", **asked, tool_choice={"name": "add"}))

    first, second = model.requests
    assert (first.max_tokens, first.temperature, first.top_p, first.tools) == (1024, 0.7, 0.95, ())
    assert (second.max_tokens, second.temperature, second.top_p, second.stop, second.seed) == (5, 0, 1, ("x",), 3)
    assert second.tool_choice == NamedTool("add") and second.tools[0].input_schema == ADD["parameters_schema"]


async def test_a_history_is_read_as_it_was_written() -> None:
    model = ScriptedModel([text("ok")])
    kept = [{"provider": "gemini", "data": {"signature": "xyz"}}]
    called = {"id": "tc_1", "name": "add", "arguments": {"a": 1}, "artefacts": kept}
    async with serving(model) as bus:
        await bus.call(
            "llm.chat",
            (2, 0),
            body(
                {"role": "system", "content": "Be brief."},
                "1?",
                {"role": "assistant", "content": None, "tool_calls": [called]},
                {"role": "tool", "tool_call_id": "tc_1", "content": "boom", "is_error": True},
                {"role": "tool", "tool_call_id": "tc_1", "content": "iteration limit reached"},
                tools=[ADD],
                tool_choice="none",
            ),
        )

    system, _, _, invocation, result, word = model.requests[0].messages
    assert system == SupervisorMessage("Be brief.")
    assert isinstance(invocation, InvocationMessage)
    assert invocation.artefacts == (Artefact("gemini", {"signature": "xyz"}),)
    assert getattr(result, "result", None) is not None and result.result.is_error  # type: ignore[union-attr]  # just asserted
    assert word == SupervisorMessage("iteration limit reached")


@pytest.mark.parametrize(
    ("wrong", "code", "words"),
    [
        (body(), "bad_request", "messages"),
        ({"input": {}}, "bad_request", "messages"),
        (body(""), "bad_request", "content"),
        (body({"role": "robot", "content": "x"}), "bad_request", "role"),
        (body({"role": "tool", "tool_call_id": "x", "content": "y"}), "bad_request", "names no call"),
        (body("?", max_token=3), "bad_request", "max_token"),
        (body("?", tools=[ADD, ADD]), "bad_request", "another tool"),
        (body("?", tools=[{"description": "x"}]), "bad_request", "name"),
        (body("?", tools=[{**ADD, "name": f"t{n}"} for n in range(17)]), "bad_request", "tools"),
        (body("?", tool_choice="required"), "bad_request", "no tools"),
        (body("?", tool_choice={"name": "x"}), "bad_request", "not among"),
        (body("?", model="other"), "not_found", "nobody offers"),
        ({**body("?"), "params": {"model": "m", "ctx": 10_000}}, "bad_request", "4096"),
        ({**body("?"), "params": {"model": "m", "modalities": ["vision"]}}, "not_implemented", "vision"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else str(value),
)
async def test_what_cannot_be_asked_is_refused_with_its_code(wrong: dict[str, Any], code: str, words: str) -> None:
    async with serving(ScriptedModel(), ctx=4096) as bus:
        with pytest.raises(BusError, match=words) as refused:
            await bus.call("llm.chat", (2, 0), wrong)

    assert refused.value.code == code


async def test_version_one_names_its_model_and_knows_no_pictures() -> None:
    async with serving(ScriptedModel(), modalities=("text", "vision")) as bus:
        for wrong in (body("?", model=None), body({"role": "user", "content": [{"type": "text", "text": "x"}]})):
            with pytest.raises(BusError) as refused:
                await bus.call("llm.chat", (1, 0), wrong)
            assert refused.value.code == "bad_request"


async def test_sixteen_tools_are_taken_and_what_it_can_do_is_in_its_descriptor() -> None:
    model = ScriptedModel([text("ok")])
    async with serving(model, modalities=("text", "vision")) as bus:
        await bus.call("llm.chat", (2, 0), body("?", tools=[{**ADD, "name": f"t{n}"} for n in range(16)]))
        offers = await bus.discover("llm.chat")

    assert len(model.requests[0].tools) == 16
    assert {offer.descriptor.version for offer in offers} == {(1, 0), (2, 0)}
    assert offers[0].descriptor.params == snapshot(
        {
            "model": "m",
            "modalities": ["text", "vision"],
            "tools_supported": True,
            "max_tools_per_call": 16,
            "requires_internet": False,
        }
    )


def failing(error: ModelError) -> DecidingModel:
    def decide(request: ModelRequest) -> Any:
        yield text("Well, ")
        raise error

    return DecidingModel(decide)


def took_too_long() -> ModelError:
    error = ModelUnavailable("took too long")
    error.__cause__ = TimeoutError()
    return error


@pytest.mark.requirement("hearthnet.errors")
@pytest.mark.parametrize(
    ("error", "code", "delay"),
    [
        (RateLimited("slow", retry_after=2.0), "rate_limited", 2000),
        (RateLimited("slow"), "rate_limited", None),
        (RequestRefused("the context is too long", status=400), "bad_request", None),
        (RequestRefused("no such model", status=404), "not_found", None),
        (RequestRefused("the key sk-abc is wrong", status=401), "internal_error", None),
        (ModelUnavailable("overloaded", status=503), "internal_error", None),
        (took_too_long(), "timeout", None),
        (ProtocolError("gibberish"), "internal_error", None),
    ],
    ids=repr,
)
async def test_a_model_that_fails_does_so_with_the_code_of_its_failure(
    error: ModelError, code: str, delay: int | None
) -> None:
    async with serving(failing(error)) as bus:
        frames = await frames_of(bus, body("?"))

    assert [frame.event for frame in frames] == ["token", "error"]
    assert (frames[-1].data["error"], frames[-1].data.get("retry_after_ms")) == (code, delay)
    assert "sk-abc" not in str(frames)


@pytest.mark.requirement("hearthnet.tool-choice")
@pytest.mark.parametrize(
    ("choice", "reply", "shown"),
    [
        ("none", [text("Words. "), call("add", a=1)], ["token", "notice", "done"]),
        ("none", [call("add", a=1)], ["error"]),
        ("required", [text("No.")], ["token", "error"]),
        ({"name": "add"}, [call("other")], ["error"]),
    ],
)
async def test_a_reply_that_breaks_the_choice_is_caught(choice: Any, reply: list[ModelEvent], shown: list[str]) -> None:
    async with serving(ScriptedModel(reply)) as bus:
        frames = await frames_of(bus, body("?", tools=[ADD, {**ADD, "name": "other"}], tool_choice=choice))

    assert [frame.event for frame in frames] == shown
    assert not any(frame.event == "tool_call" for frame in frames)


@pytest.mark.requirement("hearthnet.backends.others")
@pytest.mark.parametrize("choice", ["required", {"name": "add"}])
@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini", "ollama"])
async def test_a_model_that_takes_no_tools_ignores_them_and_a_forced_choice_gives_a_notice_frame(
    wire: str, choice: Any
) -> None:
    transport = OneReply(TEXTS["chat" if wire == "openai" else wire])
    llm = create_llm(wire, model="m", key="k", tools="none", transport=transport, stream=False)
    async with serving(llm.model) as bus:
        frames = await frames_of(bus, body("?", tools=[ADD], tool_choice=choice))

    assert [frame.event for frame in frames] == ["notice", "token", "done"]
    assert "takes no tools" in frames[0].data["text"] and "no effect" in frames[0].data["text"]
    assert "add" not in json.dumps(transport.requests[0].body)


async def test_cancelling_closes_the_model_at_once() -> None:
    closed = asyncio.Event()

    class Endless:
        name = "endless"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            try:
                yield text("on ")
                await asyncio.Event().wait()
            finally:
                closed.set()

    async with serving(Endless()) as bus, bus.stream("llm.chat", (2, 0), body("?")) as stream:
        assert (await anext(stream)).event == "token"
        await asyncio.wait_for(stream.cancel(), 10)
        last = await anext(stream)
        assert (last.event, last.data["error"], closed.is_set()) == ("error", "cancelled", True)


async def test_pictures_are_read_for_the_caller_by_their_cids(tmp_path: Any) -> None:
    model = ScriptedModel([text("A cat.")], [text("never")])
    store = BlobStore(tmp_path / "blobs")
    cid = await store.put(b"\x89PNG cat", "image/png", ANNA.id)
    shown = {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image", "image_cid": cid}]}
    async with serving(model, modalities=("text", "vision")) as bus:
        bus.register_service(BlobService(store))
        await bus.call("llm.chat", (2, 0), body(shown), caller=ANNA)
        with pytest.raises(BusError) as hidden:
            await bus.call("llm.chat", (2, 0), body(shown), caller=BEN)
    store.close()

    (said,) = model.requests[0].messages
    picture = Media(media_type="image/png", data=b"\x89PNG cat", name=cid)
    assert said == UserMessage((Text("What?"), picture))
    assert hidden.value.code == "not_found"


def test_a_default_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="not among"):
        LlmService({"a": ScriptedModel()}, default="b")


async def test_of_several_models_one_is_named() -> None:
    a, b = ScriptedModel([text("from a")], name="a"), ScriptedModel([text("from b")], name="b")
    async with CapabilityBus() as bus:
        bus.register_service(LlmService({"a": a, "b": b}.__getitem__, default="b"))
        answers = [
            (await bus.call("llm.chat", (2, 0), body("?", model=name)))["output"]["message"]["content"]
            for name in ("a", None)
        ]

    assert answers == ["from a", "from b"]


# ── one stream ───────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.frames")
async def test_an_interactive_stream_waits_for_results_and_goes_on_to_one_done() -> None:
    def decide(request: ModelRequest) -> Any:
        match results(request):
            case []:
                yield call("add", "same", a=1)
                yield call("add", "same", a=2)
            case [first, second]:
                yield call("add", "same", a=int(first) + int(second))
            case [*_, last]:
                yield text(f"It is {last}.")

    model = DecidingModel(decide)
    seen: list[StreamFrame] = []
    async with (
        serving(model) as bus,
        bus.stream("llm.chat", (2, 0), body("?", tools=[ADD]), interactive=True) as stream,
    ):
        async for frame in stream:
            seen.append(frame)
            if frame.event == "tool_call":
                await stream.tool_result(frame.data["id"], frame.data["arguments"]["a"] * 10)

    assert [frame.event for frame in seen] == ["tool_call_delta", "tool_call"] * 3 + ["token", "done"]
    assert [frame.data["arguments"]["a"] for frame in seen if frame.event == "tool_call"] == [1, 2, 30]
    assert len({frame.data["id"] for frame in seen if frame.event == "tool_call"}) == 3
    assert seen[-1].data["message"] == {"role": "assistant", "content": "It is 300."}
    assert model.requests[0].tools[0].input_schema == ADD["parameters_schema"]


async def test_an_interactive_caller_may_say_that_a_call_failed() -> None:
    model = DecidingModel(lambda r: [text(results(r)[0])] if results(r) else [call("add", "tc_1", a=1)])
    said = []
    for body_of_error, is_error in (("out of order", True), ({"error": "timeout", "message": "too slow"}, False)):
        async with serving(model) as bus:
            stream = bus.stream("llm.chat", (2, 0), body("?", tools=[ADD]), interactive=True)
            async with stream:
                async for frame in stream:
                    if frame.event == "tool_call":
                        await stream.tool_result("tc_1", body_of_error, is_error=is_error)
                    if frame.event == "done":
                        said.append(frame.data["message"]["content"])

    assert said == ["Error executing add: out of order", "too slow"]


async def test_a_call_of_no_tool_is_shown_to_the_caller_and_answered_here() -> None:
    model = DecidingModel(lambda r: [text(results(r)[0])] if results(r) else [call("sub", "tc_1", a=1)])
    async with serving(model) as bus:
        frames = await frames_of(bus, body("?", tools=[ADD]), interactive=True)

    assert [frame.event for frame in frames] == ["tool_call_delta", "tool_call", "token", "done"]
    assert "not found" in frames[2].data["text"]


@pytest.mark.requirement("hearthnet.iteration-limit")
async def test_an_interactive_stream_ends_at_the_limit_of_whoever_has_the_lower() -> None:
    model = DecidingModel(lambda r: [text("So be it.")] if r.tool_choice == "none" else [call("add", a=1)])
    async with serving(model, max_iterations=3) as bus:
        for asked, turns in ((2, 2), (9, 3)):
            model.requests.clear()
            stream = bus.stream("llm.chat", (2, 0), body("?", tools=[ADD], max_iterations=asked), interactive=True)
            async with stream:
                async for frame in stream:
                    if frame.event == "tool_call":
                        await stream.tool_result(frame.data["id"], "1")
            assert [request.tool_choice for request in model.requests] == ["auto"] * turns + ["none"]


async def test_a_call_may_begin_before_a_slow_reader_has_its_frame() -> None:
    def decide(request: ModelRequest) -> Any:
        if found := results(request):
            yield text(found[0])
        else:
            yield from (text(".") for _ in range(64))
            yield call("add", "tc_1", a=1)
            yield text("!")

    async with (
        serving(DecidingModel(decide)) as bus,
        bus.stream("llm.chat", (2, 0), body("?", tools=[ADD]), interactive=True) as stream,
    ):
        for _ in range(200):
            await asyncio.sleep(0)
        async for frame in stream:
            if frame.event == "tool_call":
                await stream.tool_result("tc_1", "the answer")

    assert frame.data["message"]["content"] == "the answer"


async def test_pieces_of_calls_have_the_id_of_their_call_also_where_a_model_uses_one_again() -> None:
    def decide(request: ModelRequest) -> Any:
        if len(results(request)) == 2:
            yield text("ok")
        else:
            yield CallDelta(call_id="same", name="add", arguments='{"a":')
            yield CallDelta(call_id="same", name="add", arguments="1}")
            yield call("add", "same", a=1)

    seen: list[StreamFrame] = []
    async with (
        serving(DecidingModel(decide)) as bus,
        bus.stream("llm.chat", (2, 0), body("?", tools=[ADD]), interactive=True) as stream,
    ):
        async for frame in stream:
            seen.append(frame)
            if frame.event == "tool_call":
                await stream.tool_result(frame.data["id"], "1")

    ids = [frame.data["id"] for frame in seen if frame.event == "tool_call"]
    assert len(set(ids)) == 2
    assert [frame.data["id"] for frame in seen if frame.event == "tool_call_delta"] == [ids[0]] * 2 + [ids[1]] * 2


async def test_leaving_an_interactive_stream_that_waits_leaves_nothing_behind() -> None:
    model = DecidingModel(lambda r: [call("add", a=1)])
    async with serving(model) as bus:
        async with bus.stream("llm.chat", (2, 0), body("?", tools=[ADD]), interactive=True) as stream:
            while (await anext(stream)).event != "tool_call":
                pass
        assert bus.under_way == 0
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


# ── llm.tools.call ───────────────────────────────────────────────────────────────────────

NUMBER = {
    "type": "object",
    "properties": {
        "params": {"type": "object"},
        "input": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
    "required": ["input"],
}


@pytest.mark.requirement("hearthnet.tools-call")
async def test_a_capability_is_called_as_a_tool_for_the_same_caller_and_leaves_one_record_of_it() -> None:
    asked: list[RouteRequest] = []

    async def double(request: RouteRequest) -> dict[str, Any]:
        asked.append(request)
        return {"output": {"n": request.input["n"] * 2}, "meta": {"by": "double"}}

    journal, ids = MemoryJournal(), itertools.count()
    async with CapabilityBus(journal=journal) as bus:
        bus.register_service(LlmService({"m": ScriptedModel()}))
        bus.register(CapabilityDescriptor(name="math.double", request_schema=NUMBER), double)

        async def use(target: str, given: dict[str, Any]) -> dict[str, Any]:
            said = {"tool_call_id": "tc_1", "target_capability": target, "target_body": given}
            return await bus.call("llm.tools.call", (1, 0), {"input": said}, caller=ANNA, call_id=f"id-{next(ids)}")

        bare = await use("math.double@1.0", {"n": 1})
        whole = await use("math.double", {"params": {"unit": "m"}, "input": {"n": 2}})
        with pytest.raises(BusError) as wrong:
            await use("math.double@1.0", {"n": "three"})
        with pytest.raises(BusError) as gone:
            await use("math.triple@1.0", {"n": 1})

    assert [bare["output"], whole["output"]] == [{"n": 2}, {"n": 4}]
    assert bare["meta"]["by"] == "double"
    assert [(each.caller, each.context.depth, each.params) for each in asked] == [
        (ANNA, 1, {}),
        (ANNA, 1, {"unit": "m"}),
    ]
    assert (wrong.value.code, gone.value.code) == ("bad_request", "not_found")
    assert "input.n" in wrong.value.message
    # Of what the target did there is one record for each call; it bears the id of the call that asked for it.
    intents = [event for event in journal.events if isinstance(event, CallIntended) and event.tool == "math.double-1.0"]
    settled = [event for event in journal.events if isinstance(event, CallSettled) and event.tool == "math.double-1.0"]
    assert [event.call_id for event in intents] == ["id-0.target", "id-1.target"]
    assert [event.principal for event in intents] == [ANNA.id] * 2
    assert [event.outcome for event in settled] == ["ok", "ok", "invalid_arguments"]


@pytest.mark.requirement("hearthnet.tools-call", "hearthnet.composition")
async def test_calls_of_calls_are_counted_and_end() -> None:
    async with CapabilityBus(max_depth=3) as bus:
        bus.register_service(LlmService({"m": ScriptedModel()}))
        said: dict[str, Any] = {"target_capability": "math.gone", "target_body": {}}
        for _ in range(8):
            said = {"target_capability": "llm.tools.call@1.0", "target_body": {"input": said}}
        with pytest.raises(BusError, match="deep") as refused:
            await bus.call("llm.tools.call", (1, 0), {"input": said})

    assert refused.value.code == "bad_request"


def test_broken_choice_is_told_apart_from_other_failures() -> None:
    from handrail.node.chat.frames import bus_error, model_error

    assert isinstance(model_error(bus_error(BrokenChoice("no call"))), BrokenChoice)
    assert not isinstance(model_error(bus_error(ProtocolError("no call"))), BrokenChoice)


@pytest.mark.requirement("hearthnet.tools-call")
@pytest.mark.parametrize("version", ["2.0", [2, 0]])
async def test_the_target_version_may_stand_apart_from_the_name(version: Any) -> None:
    async def which(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"version": request.version}}

    async with CapabilityBus() as bus:
        bus.register_service(LlmService({"m": ScriptedModel()}))
        for each in ((1, 0), (2, 0)):
            bus.register(CapabilityDescriptor(name="test.which", version=each), which)

        async def use(**said: Any) -> Any:
            given = {"tool_call_id": "tc_1", "target_body": {}, **said}
            return await bus.call("llm.tools.call", (1, 0), {"input": given})

        answer = await use(target_capability="test.which", target_version=version)
        with pytest.raises(BusError) as two:
            await use(target_capability="test.which@1.0", target_version=version)

    assert tuple(answer["output"]["version"]) == (2, 0)
    assert two.value.code == "bad_request"
