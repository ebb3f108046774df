"""HearthNet's `ToolExecutor` over a bus: what it sends there, for whom, and what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import CapabilityBus, ToolCall, ToolDefinition, ToolError, ToolExecutor, tool
from handrail.config.values import LlmSettings
from handrail.core.calls import ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer
from handrail.core.context import Principal
from handrail.core.errors import BrokenChoice, BusError, JournalError, RateLimited, RequestRefused, UsageError
from handrail.core.events import CallSettled, ModelEvent, ReasoningDelta, ReplyFinished, RunFinished
from handrail.core.messages import Text, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import Caller, RouteRequest
from handrail.node.chat.builtin_tools import BUILTIN, READ_ONLY, builtin_tools
from handrail.node.chat.model import BusModel
from handrail.node.services.llm import LlmService
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.definition import Binding
from tests.node.bus.scripted_models import DecidingModel, results

ANNA = Caller(principal=Principal("ed25519:anna"), trust="member")
ANY = {"type": "object"}


def bound(name: str, capability: str, schema: dict[str, Any] = ANY, **more: Any) -> ToolDefinition:
    binding = Binding(capability, **more.pop("binding", {}))
    return ToolDefinition(name, f"Does {name}.", schema, binding=binding, **more)


def ask(question: str = "?", **input: Any) -> dict[str, Any]:
    return {"params": {"model": "m"}, "input": {"messages": [{"role": "user", "content": question}], **input}}


class Board:
    """A node with a capability that notes what it is asked, and one that changes something."""

    def __init__(self) -> None:
        self.bus = CapabilityBus()
        self.asked: list[RouteRequest] = []
        self.wrote: list[Any] = []
        self.bus.register(CapabilityDescriptor(name="test.read"), self.read)
        self.bus.register(CapabilityDescriptor(name="test.write", side_effects=True), self.write)

    async def read(self, request: RouteRequest) -> dict[str, Any]:
        self.asked.append(request)
        return {"output": {"body": request.body}}

    async def write(self, request: RouteRequest) -> dict[str, Any]:
        self.wrote.append(request.input)
        return {"output": {"written": len(self.wrote)}}

    def serve(self, model: Any) -> None:
        self.bus.register_service(LlmService({"m": model}))


@pytest.fixture
async def board() -> AsyncIterator[Board]:
    board = Board()
    async with board.bus:
        yield board


class Frames:
    """A `stream_to` that keeps what it gets."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    async def __call__(self, frame: dict[str, Any]) -> None:
        self.all.append(frame)

    def of(self, event: str) -> list[dict[str, Any]]:
        return [frame["data"] for frame in self.all if frame["event"] == event]

    @property
    def events(self) -> list[str]:
        return [frame["event"] for frame in self.all]


# ── definitions ──────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.executor.construct")
def test_it_is_made_as_the_document_shows_and_tells_its_tools_as_llm_chat_takes_them() -> None:
    given = {
        "name": "search",
        "description": "Search a corpus.",
        "parameters_schema": {"type": "object", "properties": {"query": {"type": "string"}}},
        "bound_capability": "rag.query",
        "bound_version": [1, 0],
        "side_effects": False,
    }

    executor = ToolExecutor(
        CapabilityBus(), [ToolDefinition.from_dict(given)], max_iterations=6, per_tool_timeout_seconds=30
    )

    assert executor.native_definitions == snapshot(
        [
            {
                "name": "search",
                "description": "Search a corpus.",
                "parameters_schema": {"type": "object", "properties": {"query": {"type": "string"}}},
            }
        ]
    )


@pytest.mark.requirement("hearthnet.builtin-tools")
def test_the_built_in_tools_are_added_by_name() -> None:
    assert {name: BUILTIN[name].binding.scope for name in READ_ONLY} == snapshot(  # type: ignore[union-attr]  # all are bound
        {
            "search_corpus": "rag.query@1.0",
            "list_corpora": "rag.list_corpora@1.0",
            "translate": "trans.text@1.0",
            "find_neighbour": "peers.list@1.0",
            "list_marketplace": "market.list@1.0",
            "describe_image": "img.describe@1.0",
            "transcribe_audio": "stt.transcribe@1.0",
        }
    )
    names = [tool["name"] for tool in ToolExecutor(CapabilityBus(), ["translate", "list_corpora"]).native_definitions]
    assert names == ["translate", "list_corpora"]
    assert len(ToolExecutor.with_builtin(CapabilityBus()).native_definitions) == len(READ_ONLY) == 7
    assert all(tool.side_effects for tool in builtin_tools("post_to_marketplace", "send_message"))
    with pytest.raises(UsageError, match="did you mean 'translate'"):
        builtin_tools("translat")


# ── dispatch ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.executor.binding")
async def test_arguments_go_where_the_binding_says_and_constants_are_not_the_models(board: Board) -> None:
    binding = {"params": ("corpus", "backend"), "renames": {"top": "k"}, "constants": {"backend": "fts", "lang": "de"}}
    executor = ToolExecutor(board.bus, [bound("search", "test.read", binding=binding)])

    arguments = {"query": "rain", "corpus": "village", "top": 3, "lang": "fr"}
    result = await executor.dispatch(ToolCall("tc_1", "search", arguments))

    assert result.content == {
        "body": {"params": {"corpus": "village", "backend": "fts"}, "input": {"query": "rain", "k": 3, "lang": "de"}}
    }


@pytest.mark.requirement("hearthnet.executor.binding")
async def test_a_streaming_capability_is_drained_to_one_result(board: Board) -> None:
    async def transcribe(request: RouteRequest) -> dict[str, Any]:
        for word in ("hello", "there"):
            await request.send("segment", {"text": word})
        return {"output": {"text": "hello there", "segments": 2}}

    board.bus.register(CapabilityDescriptor(name="test.stream", stream_schema={"segment": ANY}), transcribe)

    result = await ToolExecutor(board.bus, [bound("listen", "test.stream")]).dispatch(ToolCall("a", "listen"))

    assert result == replace_duration(ToolResult("a", "listen", {"text": "hello there", "segments": 2}), result)


def replace_duration(result: ToolResult, like: ToolResult) -> ToolResult:
    return ToolResult(result.tool_call_id, result.name, result.content, duration_us=like.duration_us)


async def _fail(request: RouteRequest) -> dict[str, Any]:
    match request.input["how"]:
        case "error":
            raise BusError("rate_limited", "slow down", retry_after_ms=100)
        case "crash":
            raise ValueError("boom")
        case "dict":
            return {"output": {"error": "not_found", "message": "no such thing"}}
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.requirement("hearthnet.executor.dispatch")
@pytest.mark.parametrize(
    ("call", "outcome", "code", "words"),
    [
        (ToolCall("c", "fail", {"how": "error"}), "failed", "rate_limited", "slow down"),
        (ToolCall("c", "fail", {"how": "crash"}), "failed", "internal_error", "failed"),
        (ToolCall("c", "fail", {"how": "dict"}), "failed", "not_found", "no such thing"),
        (ToolCall("c", "fail", {"how": "hang"}), "timeout", "timeout", "timed out"),
        (ToolCall("c", "fail", {"how": 1}), "invalid_arguments", "invalid_arguments", "how"),
        (ToolCall("c", "fail", "{not json"), "invalid_arguments", "invalid_arguments", "JSON"),
        (ToolCall("c", "fial", {}), "unknown_tool", "unknown_tool", "did you mean 'fail'"),
        (ToolCall("c", "nobody", {}), "failed", "not_found", "nobody offers"),
        (ToolCall("c", "unbound", {}), "failed", "not_implemented", "no handler"),
    ],
    ids=lambda value: value.name + str(value.arguments)[:16] if isinstance(value, ToolCall) else "",
)
async def test_every_failure_is_a_result(board: Board, call: ToolCall, outcome: str, code: str, words: str) -> None:
    schema = {"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]}
    board.bus.register(CapabilityDescriptor(name="test.fail"), _fail)
    tools = [bound("fail", "test.fail", schema), bound("nobody", "test.gone"), ToolDefinition("unbound")]

    result = await ToolExecutor(board.bus, tools, per_tool_timeout_seconds=0.5).dispatch(call)

    assert result.is_error and result.error is not None
    assert (result.outcome, result.error.code) == (outcome, code)
    assert words in result.text


@pytest.mark.requirement("hearthnet.executor.dispatch")
async def test_a_handler_of_the_program_comes_before_the_binding(board: Board) -> None:
    async def peers(community: str) -> list[str]:
        return [community, "anna"]

    schema = {"type": "object", "properties": {"community": {"type": "string"}}}
    tools = [bound("find_neighbour", "test.read", schema), tool(len_of)]
    executor = ToolExecutor(board.bus, tools, handlers={"find_neighbour": peers})

    assert (await executor.dispatch(ToolCall("a", "find_neighbour", {"community": "here"}))).content == ["here", "anna"]
    assert (await executor.dispatch(ToolCall("b", "len_of", {"text": "four"}))).content == 4
    assert board.asked == []


def len_of(text: str) -> int:
    return len(text)


@pytest.mark.requirement("hearthnet.authority")
async def test_caller_token_depth_and_scopes_go_with_every_call(board: Board) -> None:
    model = ScriptedModel([call("read", "tc_1")], [text("ok")])
    seen: list[RouteRequest] = []
    service = LlmService({"m": model})

    async def chat(request: RouteRequest) -> dict[str, Any]:
        seen.append(request)
        return await service.chat(request)

    descriptor = next(found[0] for found in service.capabilities() if found[0].version == (2, 0))
    board.bus.register(descriptor, chat)
    how = {"depth": 2, "within": (("test.*", "llm.*", "read"),), "session_id": "s1"}

    await ToolExecutor(
        board.bus, [bound("read", "test.read")], caller=ANNA, token="t0ken", how=how
    ).run_chat_with_tools(ask())

    for request in (*seen, *board.asked):
        assert (request.caller.id, request.caller.trust) == ("ed25519:anna", "member")
        assert (request.context.token, request.context.depth, request.session_id) == ("t0ken", 2, "s1")
        assert request.context.within == how["within"]
    assert len(seen) == 2 and len(board.asked) == 1


@pytest.mark.requirement("hearthnet.authority")
async def test_a_call_gains_nothing_that_the_caller_may_not(board: Board) -> None:
    nobody = Caller(principal=Principal("ed25519:ben", ("llm.*", "other")), trust="member")
    model = DecidingModel(lambda request: [text(results(request)[0])] if results(request) else [call("read", "tc_1")])
    board.serve(model)

    answer = await ToolExecutor(board.bus, [bound("read", "test.read")], caller=nobody).run_chat_with_tools(ask())

    assert board.asked == []
    assert "outside what 'ed25519:ben' may call" in answer["content"]


async def test_a_token_that_does_not_cover_the_capability_is_told_by_its_code(board: Board) -> None:
    class NoTokens:
        async def admit(self, caller: Caller, token: Any, descriptor: CapabilityDescriptor, body: Any) -> Caller:
            raise BusError("token_scope_insufficient", "the token does not cover it", outcome="forbidden")

    bus = CapabilityBus(admission=NoTokens())
    bus.register(CapabilityDescriptor(name="test.read"), board.read)

    result = await ToolExecutor(bus, [bound("read", "test.read")], caller=ANNA).dispatch(ToolCall("a", "read"))

    assert result.error is not None
    assert (result.outcome, result.error.code) == ("forbidden", "token_scope_insufficient")


# ── confirmation ─────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.confirmation")
async def test_an_approval_is_for_exactly_that_call_and_is_used_once(board: Board) -> None:
    executor = ToolExecutor(board.bus, [bound("write", "test.write", side_effects=True)])
    wanted = ToolCall("tc_1", "write", {"text": "yes"})

    with pytest.raises(ToolError, match=r"^requires_confirmation$"):
        await executor.dispatch(wanted)
    refused = [
        await executor.dispatch_confirmed(ToolCall("tc_1", "write", {"text": "other"})),
        await executor.dispatch_confirmed(ToolCall("tc_1", "write", {"text": "yes", "more": 1})),
        await executor.dispatch_confirmed(ToolCall("tc_1", "write", "[]")),
    ]
    first, second = await asyncio.gather(executor.dispatch_confirmed(wanted), executor.dispatch_confirmed(wanted))
    third = await executor.dispatch_confirmed(wanted)

    assert [(each.outcome, each.error and each.error.code) for each in (*refused, second, third)] == [
        ("denied", "requires_confirmation")
    ] * 5
    assert first.content == {"written": 1}
    assert board.wrote == [{"text": "yes"}]


@pytest.mark.requirement("hearthnet.confirmation")
async def test_what_was_never_asked_about_may_be_confirmed_at_once(board: Board) -> None:
    executor = ToolExecutor(board.bus, [bound("write", "test.write", side_effects=True), bound("read", "test.read")])

    assert not (await executor.dispatch_confirmed(ToolCall("a", "write", {"n": 1}))).is_error
    assert (await executor.dispatch_confirmed(ToolCall("a", "write", {"n": 1}))).is_error
    assert not (await executor.dispatch_confirmed(ToolCall("b", "read"))).is_error
    assert (await executor.dispatch_confirmed(ToolCall("c", "gone"))).outcome == "unknown_tool"
    assert board.wrote == [{"n": 1}]


class Says:
    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.asked: list[Confirmation] = []

    async def decide(self, question: Confirmation) -> Decision:
        self.asked.append(question)
        return self.decision


@pytest.mark.requirement("hearthnet.confirmation")
@pytest.mark.parametrize("interactive", [False, True])
async def test_in_a_run_the_approver_is_waited_for_after_the_frame_went_out(board: Board, interactive: bool) -> None:
    board.serve(ScriptedModel([call("write", "tc_1", text="x")], [text("Done.")]))
    frames, approver = Frames(), Says(Allow("anna"))
    executor = ToolExecutor(
        board.bus,
        [bound("write", "test.write", side_effects=True)],
        approver=approver,
        interactive=interactive,
    )

    answer = await executor.run_chat_with_tools(ask(), stream_to=frames)

    assert answer["content"] == "Done."
    assert frames.of("confirmation_required") == [
        {
            "id": "tc_1",
            "name": "write",
            "arguments": {"text": "x"},
            "description": "Does write.",
            "side_effects": True,
        }
    ]
    assert board.wrote == [{"text": "x"}] and len(approver.asked) == 1
    assert (await executor.dispatch_confirmed(ToolCall("tc_1", "write", {"text": "x"}))).is_error


@pytest.mark.requirement("hearthnet.confirmation")
async def test_whoever_reads_the_frame_may_confirm_it_there_and_then(board: Board) -> None:
    board.serve(ScriptedModel([call("write", "tc_1", text="x")], [text("Done.")]))
    executor = ToolExecutor(board.bus, [bound("write", "test.write", side_effects=True)], approver=Says(Defer()))
    got: list[ToolResult] = []

    async def page(frame: dict[str, Any]) -> None:
        if frame["event"] == "confirmation_required":
            shown = frame["data"]
            got.append(await executor.dispatch_confirmed(ToolCall(shown["id"], shown["name"], shown["arguments"])))

    async with asyncio.timeout(20):
        answer = await executor.run_chat_with_tools(ask(), stream_to=page)

    assert answer["content"] == "Done."
    assert [each.content for each in got] == [{"written": 1}]


@pytest.mark.requirement("hearthnet.confirmation")
async def test_with_nobody_to_ask_the_model_is_told_and_the_call_can_be_confirmed_later(board: Board) -> None:
    board.serve(DecidingModel(lambda r: [text(results(r)[0])] if results(r) else [call("write", "tc_1", text="x")]))
    executor = ToolExecutor(board.bus, [bound("write", "test.write", side_effects=True)])

    answer = await executor.run_chat_with_tools(ask())

    assert "waits for a person to confirm it" in answer["content"] and board.wrote == []
    assert (await executor.dispatch_confirmed(ToolCall("tc_1", "write", {"text": "x"}))).content == {"written": 1}
    assert board.wrote == [{"text": "x"}]


@pytest.mark.requirement("hearthnet.confirmation")
async def test_the_run_of_a_chat_ends_with_the_last_call_that_is_confirmed_afterwards(board: Board) -> None:
    board.serve(ScriptedModel([call("write", "tc_1", n=1), call("write", "tc_2", n=2)], [text("Later.")]))
    journal = MemoryJournal()
    executor = ToolExecutor(board.bus, [bound("write", "test.write", side_effects=True)], journal=journal)
    await executor.run_chat_with_tools(ask())

    def ended() -> int:
        return sum(isinstance(event, RunFinished) for event in journal.events)

    before = ended()
    words = (ToolCall(f"tc_{n}", "write", {"n": n}) for n in (1, 2))
    found = await asyncio.gather(*(executor.dispatch_confirmed(word) for word in words))

    assert (before, ended()) == (0, 1)
    assert [each.outcome for each in found] == ["ok", "ok"]
    assert sorted(each["n"] for each in board.wrote) == [1, 2]
    assert (await executor.dispatch_confirmed(ToolCall("tc_1", "write", {"n": 1}))).outcome == "denied"


@pytest.mark.requirement("hearthnet.confirmation")
async def test_a_chat_that_was_cancelled_while_it_waited_for_approval_leaves_no_run_and_no_approval(
    board: Board,
) -> None:
    board.serve(ScriptedModel([call("write", "tc_1", n=1)], [text("Done.")]))
    journal, shown = MemoryJournal(), asyncio.Event()
    executor = ToolExecutor(board.bus, [bound("write", "test.write", side_effects=True)], journal=journal)

    async def page(frame: dict[str, Any]) -> None:
        if frame["event"] == "confirmation_required":
            shown.set()

    async with asyncio.timeout(20):
        chat = asyncio.create_task(executor.run_chat_with_tools(ask(), stream_to=page))
        await shown.wait()
        chat.cancel()
        await asyncio.wait({chat})

    assert sum(isinstance(event, RunFinished) for event in journal.events) == 1
    assert (await executor.dispatch_confirmed(ToolCall("tc_1", "write", {"n": 1}))).outcome == "denied"
    assert board.wrote == []


async def test_a_call_without_an_id_may_be_confirmed_and_a_tool_that_is_not_there_declined(board: Board) -> None:
    executor = ToolExecutor(board.bus, [bound("write", "test.write", side_effects=True)])

    assert (await executor.dispatch_confirmed(ToolCall("", "write", {"n": 1}))).outcome == "ok"
    assert not executor.decline(ToolCall("tc_1", "gone"))
    assert board.wrote == [{"n": 1}]


@pytest.mark.parametrize(
    ("tools", "choice"), [([], "required"), (["read"], {"name": "write"})], ids=["no tools", "another tool"]
)
@pytest.mark.parametrize("interactive", [False, True])
async def test_a_choice_among_the_tools_that_the_body_leaves_out_is_refused(
    board: Board, tools: list[str], choice: Any, interactive: bool
) -> None:
    board.serve(ScriptedModel())
    offered = [bound("write", "test.write"), bound("read", "test.read")]
    executor = ToolExecutor(board.bus, offered, interactive=interactive)
    shown = [each for each in executor.native_definitions if each["name"] in tools]

    with pytest.raises(BusError, match=r"input\.tool_choice") as failed:
        await executor.run_chat_with_tools(ask(tools=shown, tool_choice=choice))

    assert failed.value.code == "bad_request"


# ── runs ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.executor.run", "hearthnet.sse")
@pytest.mark.parametrize("interactive", [False, True])
async def test_a_chat_gives_every_frame_as_it_comes_and_ends_with_one_done(board: Board, interactive: bool) -> None:
    model = ScriptedModel(
        [text("Let me "), text("see. "), call("read", "tc_1", n=1), call("read", "tc_2", n=2)],
        [ReasoningDelta(text="hm"), text("All "), text("good.")],
    )
    board.serve(model)
    frames = Frames()

    answer = await ToolExecutor(board.bus, [bound("read", "test.read")], interactive=interactive).run_chat_with_tools(
        ask(), stream_to=frames
    )

    assert answer == {"role": "assistant", "content": "All good."}
    assert frames.events == ["token"] * 2 + ["tool_call_delta", "tool_call"] * 2 + ["token"] * 2 + ["done"]
    assert frames.of("token") == [{"text": each} for each in ("Let me ", "see. ", "All ", "good.")]
    assert frames.of("tool_call")[1] == {"id": "tc_2", "name": "read", "arguments": {"n": 2}}
    assert frames.all[-1]["data"]["stop_reason"] == "end"
    assert [json.loads(each) for each in results(model.requests[1])] == [
        {"body": {"input": {"n": 1}}},
        {"body": {"input": {"n": 2}}},
    ]


@pytest.mark.requirement("hearthnet.sse")
async def test_a_chat_calls_again_with_the_assistants_and_the_tools_messages(board: Board) -> None:
    bodies: list[dict[str, Any]] = []
    service = LlmService({"m": ScriptedModel([text("Hm. "), call("read", "tc_1", q="Ü")], [text("ok")])})

    async def chat(request: RouteRequest) -> dict[str, Any]:
        bodies.append(request.body)
        return await service.chat(request)

    descriptor = next(found[0] for found in service.capabilities() if found[0].version == (2, 0))
    board.bus.register(descriptor, chat)

    await ToolExecutor(board.bus, [bound("read", "test.read")]).run_chat_with_tools(ask("Go.", max_tokens=9, seed=1))

    assert bodies[1]["input"] == snapshot(
        {
            "messages": [
                {"role": "user", "content": "Go."},
                {
                    "role": "assistant",
                    "content": "Hm. ",
                    "tool_calls": [{"id": "tc_1", "name": "read", "arguments": {"q": "Ü"}}],
                },
                {"role": "tool", "tool_call_id": "tc_1", "content": '{"body":{"input":{"q":"Ü"}}}'},
            ],
            "max_tokens": 9,
            "seed": 1,
            "tools": [{"name": "read", "description": "Does read.", "parameters_schema": {"type": "object"}}],
        }
    )


@pytest.mark.requirement("hearthnet.iteration-limit")
async def test_at_the_limit_the_last_call_has_a_tool_message_that_says_so_and_no_choice(board: Board) -> None:
    bodies: list[dict[str, Any]] = []
    model = DecidingModel(lambda r: [text("So be it.")] if r.tool_choice == "none" else [call("read")])
    service = LlmService({"m": model})

    async def chat(request: RouteRequest) -> dict[str, Any]:
        bodies.append(request.input)
        return await service.chat(request)

    descriptor = next(found[0] for found in service.capabilities() if found[0].version == (2, 0))
    board.bus.register(descriptor, chat)

    answer = await ToolExecutor(board.bus, [bound("read", "test.read")]).run_chat_with_tools(ask())

    assert answer["content"] == "So be it."
    assert [body.get("tool_choice", "auto") for body in bodies] == ["auto"] * 6 + ["none"]
    last = bodies[-1]["messages"][-1]
    assert last["role"] == "tool" and "limit" in last["content"] and last["tool_call_id"]


@pytest.mark.requirement("hearthnet.validation-feedback")
@pytest.mark.parametrize("interactive", [False, True])
async def test_a_model_that_reads_what_was_wrong_corrects_itself(board: Board, interactive: bool) -> None:
    def decide(request: ModelRequest) -> Iterator[ModelEvent]:
        match results(request):
            case []:
                yield call("read", n="three")
            case [wrong] if "invalid_arguments: n: " in wrong and "integer" in wrong:
                yield call("read", n=3)
            case [_, right]:
                yield text(right)

    board.serve(DecidingModel(decide))
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    executor = ToolExecutor(board.bus, [bound("read", "test.read", schema)], interactive=interactive)

    assert json.loads((await executor.run_chat_with_tools(ask()))["content"]) == {"body": {"input": {"n": 3}}}


@pytest.mark.requirement("hearthnet.parallel")
async def test_results_go_back_in_the_order_of_the_calls_whichever_ends_first(board: Board) -> None:
    second = asyncio.Event()

    async def wait(request: RouteRequest) -> dict[str, Any]:
        if request.input["n"] == 1:
            await asyncio.wait_for(second.wait(), 10)
        else:
            second.set()
        return {"output": request.input}

    board.bus.register(CapabilityDescriptor(name="test.wait"), wait)
    model = ScriptedModel([call("wait", n=1), call("wait", n=2)], [text("ok")])
    board.serve(model)

    await ToolExecutor(board.bus, [bound("wait", "test.wait")]).run_chat_with_tools(ask())

    assert [json.loads(each) for each in results(model.requests[1])] == [{"n": 1}, {"n": 2}]


@pytest.mark.requirement("hearthnet.progress")
@pytest.mark.parametrize("interactive", [False, True])
async def test_progress_of_a_tool_reaches_the_reader_while_the_model_waits(board: Board, interactive: bool) -> None:
    model = ScriptedModel([call("work", "tc_1")], [text("ok")])
    heard = asyncio.Event()
    asked_when_heard: list[int] = []

    async def work(request: RouteRequest) -> dict[str, Any]:
        await request.send("progress", {"current": 1, "total": 2, "stage": "half"})
        await asyncio.wait_for(heard.wait(), 10)
        return {"output": {}}

    async def page(frame: dict[str, Any]) -> None:
        if frame["event"] == "progress":
            asked_when_heard.append(len(model.requests))
            assert frame["data"] == {"current": 1, "total": 2, "stage": "half", "tool_call_id": "tc_1"}
            heard.set()

    board.bus.register(CapabilityDescriptor(name="test.work"), work)
    board.serve(model)

    await ToolExecutor(board.bus, [bound("work", "test.work")], interactive=interactive).run_chat_with_tools(
        ask(), stream_to=page
    )

    assert asked_when_heard == [1]


@pytest.mark.requirement("hearthnet.tool-choice")
async def test_the_body_chooses_the_tools_and_the_first_call(board: Board) -> None:
    model = ScriptedModel([call("read", "tc_1")], [text("ok")])
    board.serve(model)
    executor = ToolExecutor(board.bus, [bound("read", "test.read"), bound("other", "test.read")])
    named = executor.native_definitions[:1]

    await executor.run_chat_with_tools(ask(tools=named, tool_choice={"name": "read"}))

    assert [[tool.name for tool in request.tools] for request in model.requests] == [["read"], ["read"]]
    assert [getattr(request.tool_choice, "name", request.tool_choice) for request in model.requests] == ["read", "auto"]
    for wrong in ({"tools": [{"name": "gone"}]}, {"tool_choice": {"name": "gone"}}, {"tool_choice": "sometimes"}):
        with pytest.raises(BusError) as refused:
            await executor.run_chat_with_tools(ask(**wrong))
        assert refused.value.code == "bad_request"


async def test_the_node_of_an_interactive_model_gets_no_more_than_it_was_offered(board: Board) -> None:
    """It loops itself, so its calls are held to the tools and the limits of this side."""

    async def chat(request: RouteRequest) -> dict[str, Any]:
        said = []
        for number, name in enumerate(["other", *["read"] * 33]):
            await request.send("tool_call", {"id": f"tc_{number}", "name": name, "arguments": {}})
            said.append((await request.answer(f"tc_{number}"))["is_error"])
        return {"output": {}, "meta": {"stop_reason": "end", "message": {"content": str(said.count(True))}}}

    board.bus.register(CapabilityDescriptor(name="llm.chat", version=(2, 0), stream_schema={"tool_call": ANY}), chat)
    tools = [bound("read", "test.read"), bound("other", "test.read")]
    executor = ToolExecutor(board.bus, tools, interactive=True, max_iterations=1)

    answer = await executor.run_chat_with_tools(ask(tools=executor.native_definitions[:1]))

    assert answer["content"] == "3"
    assert len(board.asked) == 31


@pytest.mark.requirement("hearthnet.composition")
async def test_a_tool_may_be_bound_to_the_capability_that_calls_capabilities(board: Board) -> None:
    journal = MemoryJournal()
    bus = CapabilityBus(journal=journal)
    bus.register(CapabilityDescriptor(name="test.read"), board.read)
    bus.register_service(LlmService({"m": ScriptedModel()}))
    schema = {"type": "object", "properties": {"target_capability": {"type": "string"}, "target_body": ANY}}
    executor = ToolExecutor(bus, [bound("use", "llm.tools.call", schema)], caller=ANNA)

    async with bus:
        given = {"target_capability": "test.read@1.0", "target_body": {"n": 1}}
        result = await executor.dispatch(ToolCall("tc_1", "use", given))

    assert result.content == {"body": {"input": {"n": 1}}}
    assert [(each.caller.id, each.context.depth) for each in board.asked] == [("ed25519:anna", 1)]
    assert [event.tool for event in journal.events if isinstance(event, CallSettled)] == [
        "test.read-1.0",
        "llm.tools.call-1.0",
    ]


@pytest.mark.requirement("hearthnet.executor.run")
@pytest.mark.parametrize("interactive", [False, True])
async def test_an_unavailable_chat_ends_with_one_error_frame_and_the_code(board: Board, interactive: bool) -> None:
    class Busy:
        name = "busy"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            yield text("I ")
            raise RateLimited("too many", retry_after=1.5)

    board.serve(Busy())
    frames = Frames()
    executor = ToolExecutor(board.bus, [bound("read", "test.read")], interactive=interactive)

    with pytest.raises(BusError) as failed:
        await executor.run_chat_with_tools(ask(), stream_to=frames)
    with pytest.raises(BusError) as unknown:
        await executor.run_chat_with_tools({**ask(), "params": {"model": "other"}})

    assert (failed.value.code, failed.value.retry_after_ms) == ("rate_limited", 1500)
    assert frames.events == ["token", "error"]
    assert frames.all[-1]["data"]["error"] == "rate_limited"
    assert unknown.value.code == "not_found"


@pytest.mark.parametrize("interactive", [False, True])
async def test_cancelling_a_chat_ends_the_model_and_the_tools(board: Board, interactive: bool) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang(request: RouteRequest) -> dict[str, Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    board.bus.register(CapabilityDescriptor(name="test.hang"), hang)
    board.serve(ScriptedModel([call("hang")], [text("never")]))
    executor = ToolExecutor(board.bus, [bound("hang", "test.hang")], interactive=interactive)

    chat = asyncio.create_task(executor.run_chat_with_tools(ask()))
    await asyncio.wait_for(begun.wait(), 10)
    chat.cancel()
    await asyncio.wait({chat}, timeout=10)

    assert chat.cancelled() and ended.is_set() and board.bus.under_way == 0


async def test_a_node_that_ends_an_interactive_chat_oddly_is_read_as_far_as_it_makes_sense(board: Board) -> None:
    async def odd(request: RouteRequest) -> dict[str, Any]:
        await request.send("token", {"text": "All of it."})
        return {"output": {}, "meta": {"stop_reason": "end", "message": ["no", "message"]}}

    stream: Any = {"token": {"type": "object"}}
    board.bus.register(CapabilityDescriptor(name="llm.chat", version=(2, 0), stream_schema=stream), odd)
    executor = ToolExecutor(board.bus, [bound("read", "test.read")], interactive=True)

    assert (await executor.run_chat_with_tools(ask()))["content"] == "All of it."


async def test_a_chat_whose_record_cannot_be_kept_ends_with_one_error_frame(board: Board) -> None:
    class Broken(MemoryJournal):
        async def append(self, event: Any, *, durable: bool = False) -> None:
            raise JournalError("the disk of /secret/place is full")

    board.serve(ScriptedModel([text("Done.")]))
    frames = Frames()
    executor = ToolExecutor(board.bus, [bound("read", "test.read")], journal=Broken())

    with pytest.raises(JournalError):
        await executor.run_chat_with_tools(ask(), stream_to=frames)

    assert frames.events[-1:] == ["error"] and frames.events.count("error") == 1
    assert "secret" not in str(frames.all)


@pytest.mark.parametrize("interactive", [False, True])
async def test_a_reader_that_is_gone_ends_the_chat(board: Board, interactive: bool) -> None:
    closed = asyncio.Event()

    class Endless:
        name = "endless"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            try:
                while True:
                    yield text("on ")
                    await asyncio.sleep(0)
            finally:
                closed.set()

    async def gone(frame: dict[str, Any]) -> None:
        raise ConnectionResetError("the page was closed")

    board.serve(Endless())

    with pytest.raises(ConnectionResetError):
        await ToolExecutor(board.bus, [bound("read", "test.read")], interactive=interactive).run_chat_with_tools(
            ask(), stream_to=gone
        )
    await asyncio.wait_for(closed.wait(), 10)
    assert board.bus.under_way == 0


# ── settings ─────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def configured(board: Board, **changes: Any) -> AsyncIterator[ToolExecutor]:
    llm = replace(LlmSettings(), **{f"tools_{name}": value for name, value in changes.items()})
    tools = [bound("read", "test.read"), bound("write", "test.write", side_effects=True)]
    async with ToolExecutor.from_config(board.bus, llm, tools) as executor:
        yield executor


@pytest.mark.requirement("hearthnet.config")
async def test_each_of_the_six_settings_steers_it(board: Board) -> None:
    standard = ["search_corpus", "list_corpora", "translate", "list_marketplace"]

    async def names(**changes: Any) -> list[str]:
        async with configured(board, **changes) as executor:
            return [tool["name"] for tool in executor.native_definitions]

    assert await names() == [*standard, "read", "write"]
    assert await names(default_set=("translate",)) == ["translate", "read", "write"]
    assert await names(enabled=False) == []

    async with configured(board, require_confirmation_for_side_effects=False) as executor:
        assert (await executor.dispatch(ToolCall("a", "write", {}))).content == {"written": 1}
    async with configured(board) as executor:
        with pytest.raises(ToolError):
            await executor.dispatch(ToolCall("a", "write", {}))

    model = DecidingModel(
        lambda r: [text("ok")] if r.tool_choice == "none" else [call("read"), call("read"), call("read")]
    )
    board.serve(model)
    async with configured(board, max_iterations=2) as executor:
        await executor.run_chat_with_tools(ask())
    assert len(model.requests) == 3

    for most in (1, 2):
        assert await _most_at_once(board, most) == most
    hang = bound("hang", "test.hang")
    board.bus.register(CapabilityDescriptor(name="test.hang"), _forever)
    llm = replace(LlmSettings(), tools_per_tool_timeout_seconds=0.05)
    result = await ToolExecutor.from_config(board.bus, llm, [hang]).dispatch(ToolCall("h", "hang"))
    assert result.outcome == "timeout"


async def _forever(request: RouteRequest) -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def _most_at_once(board: Board, parallel: int) -> int:
    now = most = 0

    async def count(request: RouteRequest) -> dict[str, Any]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(20):
            await asyncio.sleep(0)
        now -= 1
        return {"output": {}}

    board.bus.register(CapabilityDescriptor(name=f"test.count{parallel}", max_concurrent=16), count)
    llm = replace(LlmSettings(), tools_max_parallel=parallel)
    executor = ToolExecutor.from_config(board.bus, llm, [bound("count", f"test.count{parallel}")])
    await asyncio.gather(*(executor.dispatch(ToolCall(f"c{n}", "count", {"n": n})) for n in range(6)))
    return most


# ── the model behind it ──────────────────────────────────────────────────────────────────


async def heard(bus: CapabilityBus, **asked: Any) -> list[ModelEvent]:
    request = ModelRequest(messages=(UserMessage((Text("?"),)),), **asked)
    return [event async for event in BusModel(bus, {"model": "m"}).stream(request)]


async def test_a_model_over_the_bus_fails_as_any_model_does(board: Board) -> None:
    class Refusing:
        name = "refusing"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            if request.tool_choice == "none":
                yield call("read")
                yield ReplyFinished(stop="tool_calls")
            raise RequestRefused("the context is too long", status=400)

    board.serve(Refusing())

    with pytest.raises(RequestRefused, match="too long"):
        await heard(board.bus)
    with pytest.raises(BrokenChoice):
        await heard(board.bus, tool_choice="none")
