"""A tool asks the client of its call, in either era; its handler runs once, however often the client comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import FileUrl

from handrail.core.calls import ToolCall
from handrail.core.context import Context, Principal
from handrail.core.errors import ToolError, UsageError
from handrail.core.events import CallIntended
from handrail.core.invocation import Invocation
from handrail.execute.policy import Policy
from handrail.mcp.server.calls_in_progress import CallInProgress, CallsInProgress
from handrail.mcp.server.client_questions import (
    ClientAsk,
    DeferredQuestionLine,
    ElicitAnswer,
    ElicitQuestion,
    RootsQuestion,
    SampleQuestion,
    read_answer,
)
from handrail.mcp.server.definition import McpCaller, PromptMessage, ServedPrompt, local_principal
from handrail.tools.tool import tool
from tests.mcp.server.http_clients import ModernHttpClient, messages, serving, words
from tests.mcp.server.server_setup import ERAS, LEGACY, MODERN, scene, text

era = pytest.mark.parametrize("era", ERAS)
CARELESS = Policy(confirm_side_effects=False)
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool(share=False)
async def greet(invocation: Invocation) -> str:
    """Ask for a name, and use it."""
    said = await ClientAsk.of(invocation).elicit("What is your name?", NAME, key="name")
    return f"Hello, {said.values.get('name')}!" if said.action == "accept" else f"{said.action}d"


async def named(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ann"})


@era
async def test_a_tool_asks_a_person_in_mid_call(era: str) -> None:
    async with scene(greet).client(era, elicitation_callback=named) as client:
        assert text(await client.call_tool("greet", {})) == "Hello, Ann!"


@era
async def test_a_person_may_say_no(era: str) -> None:
    async def declined(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async with scene(greet).client(era, elicitation_callback=declined) as client:
        assert text(await client.call_tool("greet", {})) == "declined"


@era
async def test_what_was_done_before_the_question_is_not_done_again(era: str) -> None:
    done: list[str] = []

    @tool(side_effects=True)
    async def pay(invocation: Invocation) -> str:
        """Pay first, ask later, and ask again."""
        done.append(invocation.idempotency_key)
        client = ClientAsk.of(invocation)
        await client.elicit("First?", NAME)
        await client.elicit("Second?", NAME)
        return "paid"

    stage = scene(pay, policy=CARELESS)
    async with stage.client(era, elicitation_callback=named) as client:
        assert text(await client.call_tool("pay", {})) == "paid"
    assert len(done) == 1
    assert len(stage.recorded(CallIntended)) == 1


@era
async def test_a_person_a_model_and_the_roots_are_asked_at_once(era: str) -> None:
    @tool(share=False)
    async def everything(invocation: Invocation) -> list[str]:
        """Ask all there is to ask."""
        answers = await ClientAsk.of(invocation).ask(
            {
                "who": ElicitQuestion(message="Who?", form=NAME),
                "what": SampleQuestion(prompt="What?", system="Be brief"),
                "where": RootsQuestion(),
            }
        )
        return [str(answers[key]) for key in ("who", "what", "where")]

    async def sampled(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        assert params.system_prompt == "Be brief"
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="this"), model="m")

    async def rooted(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///work"))])

    options = {"elicitation_callback": named, "sampling_callback": sampled, "list_roots_callback": rooted}
    async with scene(everything).client(era, **options) as client:
        said = text(await client.call_tool("everything", {}))
        assert "Ann" in said
        assert "this" in said
        assert "file:///work" in said


async def test_a_question_beside_one_that_is_refused_is_taken_back() -> None:
    withdrawn, seen = asyncio.Event(), asyncio.Event()

    @tool(share=False)
    async def both(invocation: Invocation) -> str:
        """Ask a person and a model."""
        await ClientAsk.of(invocation).ask(
            {"who": ElicitQuestion(message="Who?", form=NAME), "what": SampleQuestion(prompt="What?")}
        )
        return "never"

    async def thinking(context: Any, params: Any) -> types.ElicitResult:
        seen.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        raise NotImplementedError

    async def refused(context: Any, params: Any) -> types.ErrorData:
        await seen.wait()
        return types.ErrorData(code=-1, message="no model here")

    options = {"elicitation_callback": thinking, "sampling_callback": refused}
    async with asyncio.timeout(20), scene(both).client(LEGACY, **options) as client:
        assert "no model here" in text(await client.call_tool("both", {}))
        await withdrawn.wait()


@era
async def test_a_client_that_cannot_be_asked_is_told_what_is_missing(era: str) -> None:
    async with scene(greet).client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("greet", {})
    assert caught.value.error.code == -32021
    assert caught.value.error.data == {"requiredCapabilities": {"elicitation": {}}}


@era
async def test_a_tool_may_do_without_a_client_that_cannot_be_asked(era: str) -> None:
    @tool(share=False)
    async def careful(invocation: Invocation) -> str:
        """Ask, or do without."""
        try:
            return (await ClientAsk.of(invocation).sample("Who?")).text
        except ToolError:
            return "nobody there"

    async with scene(careful).client(era) as client:
        assert text(await client.call_tool("careful", {})) == "nobody there"


@era
async def test_a_refusal_of_the_tool_is_an_error_of_the_protocol(era: str) -> None:
    @tool(share=False)
    async def broken(invocation: Invocation) -> str:
        """Refuse the request."""
        raise ClientAsk.of(invocation).refuse(-32099, "not like this", {"why": "no"})

    async with scene(broken).client(era) as client:
        with pytest.raises(MCPError, match="not like this") as caught:
            await client.call_tool("broken", {})
    assert (caught.value.error.code, caught.value.error.data) == (-32099, {"why": "no"})


@era
async def test_a_handler_in_a_thread_asks_as_well(era: str) -> None:
    threaded = greet.changed(isolation="thread")
    async with scene(threaded).client(era, elicitation_callback=named) as client:
        assert text(await client.call_tool("greet", {})) == "Hello, Ann!"


@tool(isolation="process")
def far_away(name: str, invocation: Invocation) -> str:
    """Run in another process, where no client can be reached."""
    return f"{name}: {sorted(invocation.auxdata)}"


@era
async def test_a_tool_in_another_process_works_and_has_no_client(era: str) -> None:
    stage = scene(far_away)
    async with stage.executor, stage.client(era) as client:
        assert text(await client.call_tool("far_away", {"name": "Ann"})) == "Ann: ['mcp']"


async def test_an_answer_that_does_not_fit_the_form_is_asked_for_again() -> None:
    async with serving(scene(greet).served) as url, ModernHttpClient(url) as wire:
        asked = await wire.call("greet")
        mistakes: tuple[dict[str, Any], ...] = (
            {"action": "accept", "content": {"name": 7}},
            {"action": "accept"},
            {"roots": []},
        )
        for wrong in mistakes:
            again = await wire.call("greet", more=_back(asked, wrong))
            assert (again["resultType"], list(again["inputRequests"])) == ("input_required", ["name"])
            asked = again
        done = await wire.call("greet", more=_back(asked, {"action": "accept", "content": {"name": "Ann"}}))
        assert words(done) == "Hello, Ann!"


@pytest.mark.parametrize("principal", [lambda caller: Principal(caller.subject), local_principal])
async def test_only_who_began_a_call_can_go_on_with_it(principal: Callable[[McpCaller], Principal]) -> None:
    stage = scene(greet, principal=principal)
    tokens = {"ann": "one", "bob": "two"}
    async with (
        serving(stage.served, token=tokens) as url,
        ModernHttpClient(url, token="one") as ann,
        ModernHttpClient(url, token="two") as bob,
    ):
        back = _back(await ann.call("greet"), {"action": "accept", "content": {"name": "Ann"}})
        refused = await bob.ask("tools/call", {"name": "greet", "arguments": {}, **back})
        assert refused["error"]["code"] == -32602
        assert words(await ann.call("greet", more=back)) == "Hello, Ann!"


@era
async def test_the_time_of_a_tool_does_not_run_while_a_person_thinks(era: str) -> None:
    async def slowly(context: Any, params: Any) -> types.ElicitResult:
        over.set()
        await held.wait()
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    over, held = asyncio.Event(), asyncio.Event()
    hasty = greet.changed(timeout=0.05)
    async with scene(hasty).client(era, elicitation_callback=slowly) as client:
        call = asyncio.create_task(client.call_tool("greet", {}))
        await over.wait()
        asyncio.get_running_loop().call_later(0.2, held.set)
        assert text(await call) == "Hello, Ann!"


async def test_a_call_that_nobody_comes_back_to_waits_no_longer_than_that() -> None:
    client = ClientAsk(DeferredQuestionLine(), capabilities=frozenset({"elicitation"}), patience=lambda: 0.05)
    with pytest.raises(ToolError, match=r"did not answer within 0\.05 seconds"):
        await client.elicit("What is your name?", NAME)


async def test_who_comes_back_too_late_is_told_how_the_call_ended() -> None:
    @tool(share=False, isolation="thread", timeout=0.2)
    async def lonely(invocation: Invocation) -> str:
        """Wait for an answer where its time cannot be held."""
        await ClientAsk.of(invocation).elicit("What is your name?", NAME, key="name")
        return "answered"

    async with serving(scene(lonely).served) as url, ModernHttpClient(url) as wire:
        asked = await wire.call("lonely")
        settled = await wire.call("lonely", more=_back(asked, {"action": "accept", "content": {"name": 7}}))
        while settled["resultType"] == "input_required":
            settled = await wire.call("lonely", more=_back(asked, {"action": "accept", "content": {"name": 7}}))
        late = await wire.call("lonely", more=_back(asked, {"action": "accept", "content": {"name": "Ann"}}))
        assert late["isError"]
        assert "timed out" in words(late)


async def test_answers_that_come_with_the_first_request_are_taken_and_others_passed_over() -> None:
    responses = {"name": {"action": "accept", "content": {"name": "Ann"}}, "other": {"action": "cancel"}}
    async with serving(scene(greet).served) as url, ModernHttpClient(url) as wire:
        assert words(await wire.call("greet", more={"inputResponses": responses})) == "Hello, Ann!"


def _back(asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    assert asked["resultType"] == "input_required", asked
    return {"inputResponses": {"name": answer}, "requestState": asked["requestState"]}


async def test_while_no_request_waits_nobody_is_told_how_far_it_is() -> None:
    go, gone = asyncio.Event(), asyncio.Event()
    heard: list[str | None] = []

    @tool(share=False)
    async def busy(invocation: Invocation) -> str:
        """Ask, and work meanwhile."""

        async def meanwhile() -> None:
            await go.wait()
            invocation.progress(1, 10, "between")
            gone.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(meanwhile())
            await ClientAsk.of(invocation).elicit("What is your name?", NAME)
        invocation.progress(2, 10, "after")
        return "done"

    async def slowly(context: Any, params: Any) -> types.ElicitResult:
        go.set()
        await gone.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with scene(busy).client(MODERN, elicitation_callback=slowly) as client:
        assert text(await client.call_tool("busy", {}, progress_callback=hear)) == "done"
    assert heard == ["after"]


# ── messages ───────────────────────────────────────────────────────────────────────────


@tool(share=False)
async def chatty(invocation: Invocation) -> str:
    """Say what it does."""
    client = ClientAsk.of(invocation)
    await client.log("small", "debug")
    await client.log({"a": 1}, "warning", logger="chatty")
    return "done"


async def test_messages_reach_a_client_of_the_handshake_era_from_its_level_on() -> None:
    heard: list[tuple[str, Any]] = []

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        heard.append((params.level, params.data))

    async with scene(chatty).client(LEGACY, logging_callback=hear) as client:
        await client.call_tool("chatty", {})
        assert heard == [("debug", "small"), ("warning", {"a": 1})]
        heard.clear()
        with pytest.warns(MCPDeprecationWarning):
            await client.set_logging_level("info")
        await client.call_tool("chatty", {})
        assert heard == [("warning", {"a": 1})]


@pytest.mark.parametrize(("level", "expected"), [(None, []), ("info", ["warning"]), ("debug", ["debug", "warning"])])
async def test_a_modern_client_hears_what_its_request_asks_for(level: str | None, expected: list[str]) -> None:
    meta = {"io.modelcontextprotocol/logLevel": level} if level else {}
    async with serving(scene(chatty).served) as url, ModernHttpClient(url) as wire:
        said = await wire.send("tools/call", {"name": "chatty", "arguments": {}, "_meta": meta})
        got = [each["params"]["level"] for each in messages(said.text) if each.get("method") == "notifications/message"]
        assert got == expected


# ── prompts ────────────────────────────────────────────────────────────────────────────


async def _never(arguments: Any) -> list[PromptMessage]:
    raise NotImplementedError


async def _interview(arguments: Any, client: ClientAsk) -> list[PromptMessage]:
    first = await client.elicit("Who?", NAME, key="first")
    second = await client.elicit("And who else?", NAME, key="second")
    return [PromptMessage(f"{first.values['name']} and {second.values['name']}")]


@era
async def test_a_prompt_asks_before_it_answers(era: str) -> None:
    prompt = ServedPrompt(name="both", render=_never, interview=_interview)
    async with scene(greet, prompts=(prompt,)).client(era, elicitation_callback=named) as client:
        said = await client.get_prompt("both", {})
        assert isinstance(said, types.GetPromptResult)
        assert getattr(said.messages[0].content, "text", "") == "Ann and Ann"


# ── by themselves ──────────────────────────────────────────────────────────────────────


async def test_a_call_from_elsewhere_has_no_client() -> None:
    stage = scene(greet)
    result = await stage.executor.invoke(ToolCall("c", "greet", {}))
    assert "did not come from one" in result.text


async def test_a_question_has_a_key_of_its_own() -> None:
    line = DeferredQuestionLine({"a": {"action": "cancel"}})
    assert await line.put({"a": ElicitQuestion(message="?")}) == {"a": ElicitAnswer("cancel")}
    with pytest.raises(UsageError, match="asked before"):
        await line.put({"a": ElicitQuestion(message="?")})


async def test_questions_are_answered_one_at_a_time() -> None:
    line = DeferredQuestionLine()
    both = asyncio.create_task(_put(line))
    await asyncio.sleep(0)
    assert set(line.open) == {"a", "b"}
    line.give({"a": {"action": "cancel"}, "nobody": {"action": "cancel"}})
    await asyncio.sleep(0)
    assert set(line.open) == {"b"}
    line.give({"b": {"action": "decline"}})
    assert await both == {"a": ElicitAnswer("cancel"), "b": ElicitAnswer("decline")}


async def _put(line: DeferredQuestionLine) -> Any:
    return await line.put({"a": ElicitQuestion(message="?"), "b": ElicitQuestion(message="?")})


@pytest.mark.parametrize("said", [None, 7, "yes", [], {}, {"action": "yes"}, {"action": "accept", "content": [1]}])
def test_what_is_no_answer_is_none(said: Any) -> None:
    assert read_answer(ElicitQuestion(message="?", form=NAME), said) is None
    assert read_answer(RootsQuestion(), said) is None


async def test_no_more_calls_wait_than_may() -> None:
    under_way = CallsInProgress(waiting=1)
    for expected in (None, UsageError):
        going = CallInProgress(ToolCall(f"c{expected}", "t", {}), Context(), "ann", DeferredQuestionLine())
        under_way.begin(going, _forever())
        if expected is None:
            under_way.leave_waiting(going)
        else:
            with pytest.raises(expected, match="wait for input"):
                under_way.leave_waiting(going)
            async with asyncio.timeout(10):
                await going.wait()
    assert under_way.take_up("cNone", "bob") is None
    assert under_way.take_up("cNone", "ann") is not None
    await under_way.end(5)
    with pytest.raises(UsageError, match="stopping"):
        under_way.begin(going, _forever())


async def test_no_more_calls_are_under_way_than_may() -> None:
    under_way = CallsInProgress(calls=1)
    one, two = (CallInProgress(ToolCall(id, "t", {}), Context(), "ann", None) for id in "ab")
    under_way.begin(one, _forever())
    with pytest.raises(UsageError, match="it did not start"):
        under_way.begin(two, _forever())
    await under_way.end(5)


async def test_a_call_that_ends_takes_no_other_of_its_id_with_it() -> None:
    under_way = CallsInProgress()
    first, again = (CallInProgress(ToolCall("c", "t", {}), Context(), "ann", DeferredQuestionLine()) for _ in range(2))
    for going in (first, again):
        under_way.begin(going, _forever())
    under_way.leave_waiting(first)
    again.cancel()
    await again.wait()
    assert under_way.take_up("c", "ann") is first
    await under_way.end(5)


async def _forever() -> Any:
    await asyncio.Event().wait()
