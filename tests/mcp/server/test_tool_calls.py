"""Tools of ours as an MCP client sees them: listed, called, and answered whatever they do."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from handrail.core.calls import Attachment, Output
from handrail.core.context import Principal
from handrail.core.errors import ToolError
from handrail.core.events import CallAsked, CallSettled, RunFinished, RunStarted
from handrail.core.invocation import Invocation
from handrail.execute.policy import Policy
from handrail.mcp.server.client_runs import CALLS, ClientRuns
from handrail.mcp.server.definition import McpCaller, ServedPrompt
from handrail.mcp.server.results import LARGEST, OUTCOME_KEY
from handrail.tools.ensemble import Ensemble
from handrail.tools.tool import Tool, tool
from tests.mcp.server.server_setup import ERAS, LEGACY, MODERN, keyed, scene, text
from tests.polling import until_still

CARELESS = Policy(confirm_side_effects=False)
era = pytest.mark.parametrize("era", ERAS)


@tool
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool
def greet(name: str) -> str:
    """Say hello."""
    return f"Hello {name}"


@tool(side_effects=True, idempotent=True)
def store(value: str) -> None:
    """Keep a value."""


@tool(untrusted=True)
def fetch(url: str) -> Any:
    """Get a page."""
    return "words from outside"


@era
@pytest.mark.requirement("converser.mcp-server")
async def test_a_client_lists_and_calls_the_tools(era: str) -> None:
    async with scene(add, greet).client(era) as client:
        listed = (await client.list_tools()).tools
        result = await client.call_tool("add", {"a": 2, "b": 3})
    assert [(each.name, each.description) for each in listed] == [("add", "Add two numbers."), ("greet", "Say hello.")]
    assert listed[0].input_schema["required"] == ["a", "b"]
    assert (result.is_error, result.structured_content, text(result)) == (False, {"sum": 5}, '{"sum":5}')


@pytest.mark.parametrize("mode", [LEGACY, "auto"])
async def test_a_client_that_looks_around_finds_what_there_is(mode: str) -> None:
    async with scene(add).client(mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == LEGACY else MODERN)
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("handrail-test", "1.2.3")
        assert client.instructions == "Use with care."
        can = client.server_capabilities
        assert can.tools is not None and can.resources is not None and can.prompts is not None
        assert can.tools.list_changed and can.resources.list_changed and can.prompts.list_changed
        assert can.resources.subscribe and can.completions is not None


@era
async def test_a_tool_says_what_its_calls_may_do(era: str) -> None:
    async with scene(add, store, fetch).client(era) as client:
        listed = {each.name: each.annotations for each in (await client.list_tools()).tools}
    read, write, outside = (listed[name] for name in ("add", "store", "fetch"))
    assert read is not None and write is not None and outside is not None
    assert (read.read_only_hint, read.open_world_hint) == (True, None)
    assert (write.read_only_hint, write.idempotent_hint) == (False, True)
    assert outside.open_world_hint is True


async def test_a_structure_that_is_no_object_is_promised_where_the_era_knows_it() -> None:
    served = scene(greet)
    async with served.client(LEGACY) as client:
        assert (await client.list_tools()).tools[0].output_schema is None
        assert (await client.call_tool("greet", {"name": "Ada"})).structured_content is None
    async with served.client(MODERN) as client:
        assert (await client.list_tools()).tools[0].output_schema == {"type": "string"}
        result = await client.call_tool("greet", {"name": "Ada"})
    assert (result.structured_content, text(result)) == ("Hello Ada", "Hello Ada")


@era
async def test_tools_of_an_ensemble_go_by_their_plain_names(era: str) -> None:
    async with scene(Ensemble("math", [add])).client(era) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["add"]
        assert (await client.call_tool("add", {"a": 1, "b": 1})).structured_content == {"sum": 2}


@era
async def test_wrong_arguments_are_told_to_the_model_and_nothing_runs(era: str) -> None:
    served = scene(add)
    async with served.client(era) as client:
        result = await client.call_tool("add", {"a": "two"})
    assert result.is_error and "b" in text(result)
    assert result.meta is not None and result.meta[OUTCOME_KEY] == "invalid_arguments"
    assert [event.ran for event in served.recorded(CallSettled)] == [False]


@era
async def test_an_unknown_tool_is_an_error_of_the_request_and_on_record(era: str) -> None:
    served = scene(add)
    async with served.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ad", {})
    assert caught.value.code == types.INVALID_PARAMS
    assert "'add'" in caught.value.message
    assert [event.tool for event in served.recorded(CallAsked)] == ["ad"]


@era
async def test_a_tool_that_fails_answers_in_words_for_the_model(era: str) -> None:
    @tool
    def find(city: str) -> str:
        """Find a city."""
        raise ToolError("NOT_FOUND", f"no city {city!r}")

    async with scene(find).client(era) as client:
        result = await client.call_tool("find", {"city": "Atlantis"})
    assert result.is_error and "no city 'Atlantis'" in text(result)


@era
@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), RecursionError(), asyncio.CancelledError()])
async def test_whatever_a_tool_raises_the_server_lives(era: str, raised: BaseException) -> None:
    @tool
    async def leave() -> str:
        """Raise."""
        raise raised

    @tool
    def leave_thread() -> str:
        """Raise in a thread."""
        raise raised

    async with scene(leave, leave_thread, add).client(era) as client:
        assert (await client.call_tool("leave", {})).is_error
        assert (await client.call_tool("leave_thread", {})).is_error
        assert (await client.call_tool("add", {"a": 1, "b": 1})).structured_content == {"sum": 2}


@era
async def test_attachments_are_sent_as_what_they_are(era: str) -> None:
    things = (
        Attachment("a.png", "image/png", b"\x89PNG"),
        Attachment("a.wav", "audio/wav", b"RIFF"),
        Attachment("notes.txt", "text/plain", b"some notes"),
        Attachment("test://blob", "application/octet-stream", b"\x00\x01"),
        Attachment("huge.bin", "application/octet-stream", bytes(LARGEST + 1)),
    )

    @tool(output_schema=None)
    def show() -> Any:
        """Show things."""
        return Output("here", ("mind the gap",), things)

    async with scene(show).client(era) as client:
        result = await client.call_tool("show", {})
    words, image, audio, notes, blob, left_out, warning = result.content
    assert isinstance(words, types.TextContent) and words.text == "here"
    assert isinstance(image, types.ImageContent) and (image.mime_type, image.data) == ("image/png", "iVBORw==")
    assert isinstance(audio, types.AudioContent) and audio.mime_type == "audio/wav"
    assert isinstance(notes, types.EmbeddedResource) and isinstance(notes.resource, types.TextResourceContents)
    assert notes.resource.text == "some notes"
    assert isinstance(blob, types.EmbeddedResource) and blob.resource.uri == "test://blob"
    assert isinstance(left_out, types.TextContent) and "huge.bin" in left_out.text
    assert isinstance(warning, types.TextContent) and "mind the gap" in warning.text


@era
async def test_a_long_result_is_cut_as_text_and_whole_as_structure(era: str) -> None:
    @tool
    def numbers() -> dict[str, list[int]]:
        """Many numbers."""
        return {"numbers": list(range(5_000))}

    async with scene(numbers).client(era) as client:
        result = await client.call_tool("numbers", {})
    assert not result.is_error
    assert result.structured_content == {"numbers": list(range(5_000))}
    assert len(text(result)) < 11_000 and "cut:" in text(result)


@era
async def test_a_result_that_is_not_what_its_annotation_says_is_an_answer_that_says_so(era: str) -> None:
    @tool
    def total() -> dict[str, int]:
        """Say one thing and do another."""
        return cast("dict[str, int]", {"sum": "three"})

    @tool(check_output="off")
    def unchecked() -> dict[str, int]:
        """Promise nothing."""
        return cast("dict[str, int]", {"sum": "three"})

    async with scene(total, unchecked).client(era) as client:
        wrong, right = await client.call_tool("total", {}), await client.call_tool("unchecked", {})
        promised = {each.name: each.output_schema for each in (await client.list_tools()).tools}
    assert wrong.is_error and '{"sum":"three"}' in text(wrong)
    assert "The tool ran" in str(wrong.content[-1]) and "Do not repeat the call" in str(wrong.content[-1])
    assert wrong.meta is not None and wrong.meta[OUTCOME_KEY] == "ok"
    assert not right.is_error and right.structured_content == {"sum": "three"}
    assert promised["total"] is not None and promised["unchecked"] is None


@era
async def test_thirty_megabytes_are_an_answer_that_says_so(era: str) -> None:
    @tool
    def flood() -> dict[str, str]:
        """A lot."""
        return {"text": "x" * 30_000_000}

    async with scene(flood, add).client(era) as client:
        result = await client.call_tool("flood", {})
        assert result.is_error and "too long" in text(result) and len(text(result)) < 11_000
        assert not (await client.call_tool("add", {"a": 1, "b": 1})).is_error


@era
async def test_progress_reaches_a_client_that_asked_and_only_grows(era: str) -> None:
    async def count(invocation: Invocation) -> str:
        """Count."""
        invocation.progress(1, 3, "one")
        invocation.progress(1, 3, "still one")
        invocation.progress(1, 3)
        invocation.progress(3, 3, "\ud800")
        invocation.progress(stage="after the end")
        return "done"

    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    counting = Tool.from_function(count, style="invocation", schema={"type": "object"})
    async with scene(counting).client(era) as client:
        await client.call_tool("count", {}, progress_callback=hear)
        await client.call_tool("count", {})
        await client.list_tools()  # the notices of the first call have arrived by now
    assert [message for _, _, message in heard] == ["one", "still one", "\\ud800", "after the end"]
    steps = [step for step, _, _ in heard]
    assert steps == sorted(set(steps))
    assert [(round(step), total) for step, total, _ in heard] == [(1, 3), (1, 3), (3, 3), (4, None)]


@era
async def test_a_client_that_gives_up_cancels_its_call(era: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    served = scene(wait, add)
    async with served.client(era) as client:
        calling = asyncio.create_task(client.call_tool("wait", {}))
        await asyncio.wait_for(began.wait(), 10)
        calling.cancel()
        await asyncio.wait({calling})
        await asyncio.wait_for(ended.wait(), 10)
        assert not (await client.call_tool("add", {"a": 1, "b": 1})).is_error
    assert [event.outcome for event in served.recorded(CallSettled)] == ["cancelled", "ok"]


@era
async def test_a_call_sent_twice_with_one_key_is_settled_once(era: str) -> None:
    seen: list[str] = []

    @tool(side_effects=True)
    def note(line: str) -> str:
        """Note a line."""
        seen.append(line)
        return f"line {len(seen)}"

    async with scene(note, policy=CARELESS).client(era) as client:
        first = await client.call_tool("note", {"line": "a"}, meta=keyed("k1"))
        again = await client.call_tool("note", {"line": "a"}, meta=keyed("k1"))
        other = await client.call_tool("note", {"line": "a"})
        clash = await client.call_tool("note", {"line": "b"}, meta=keyed("k1"))
        with pytest.raises(MCPError):
            await client.call_tool("note", {"line": "b"}, meta=keyed("k" * 300))
    assert [text(each) for each in (first, again, other)] == ["line 1", "line 1", "line 2"]
    assert clash.is_error and seen == ["a", "a"]


@era
async def test_a_payment_sent_again_while_it_runs_is_made_once(era: str) -> None:
    """As by a client that gave up waiting, and did not say so."""
    begun, may_end, paid = asyncio.Event(), asyncio.Event(), []

    @tool(side_effects=True)
    async def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        begun.set()
        await may_end.wait()
        return f"paid {to}"

    async with scene(pay, policy=CARELESS).client(era) as client, asyncio.TaskGroup() as group:
        first = group.create_task(client.call_tool("pay", {"to": "ada"}))
        await begun.wait()
        again = group.create_task(client.call_tool("pay", {"to": "ada"}))
        await until_still(lambda: list(paid))
        may_end.set()
    assert paid == ["ada"]
    assert text(first.result()) == "paid ada"
    assert text(again.result()).startswith("paid ada") and "that was running" in text(again.result())


@era
async def test_the_words_of_a_bug_do_not_reach_the_client(era: str, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(arguments: Any) -> Any:
        raise ValueError("the password is hunter2")

    prompts = (ServedPrompt(name="broken", render=broken),)
    async with scene(add, prompts=prompts).client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("broken")
        assert not (await client.call_tool("add", {"a": 1, "b": 1})).is_error
    assert (caught.value.code, "hunter2" in str(caught.value.error)) == (types.INTERNAL_ERROR, False)
    assert "hunter2" in caplog.text


async def test_a_key_means_nothing_to_another_principal() -> None:
    seen: list[str] = []

    @tool(side_effects=True)
    def note(line: str) -> str:
        """Note a line."""
        seen.append(line)
        return "noted"

    who = ["ada"]
    served = scene(note, policy=CARELESS, principal=lambda caller: Principal(who[-1]))
    async with served.client(LEGACY) as client:
        await client.call_tool("note", {"line": "a"}, meta=keyed("k1"))
        who.append("bob")
        await client.call_tool("note", {"line": "a"}, meta=keyed("k1"))
    assert seen == ["a", "a"]


@era
async def test_a_principal_sees_and_calls_what_its_scopes_cover(era: str) -> None:
    limited = Principal("guest", ("gr*",))
    async with scene(add, greet, principal=lambda caller: limited).client(era) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["greet"]
        assert not (await client.call_tool("greet", {"name": "Ada"})).is_error
        result = await client.call_tool("add", {"a": 1, "b": 1})
    assert result.is_error and result.meta is not None and result.meta[OUTCOME_KEY] == "forbidden"


@era
async def test_the_principal_is_found_from_what_the_client_says_of_itself(era: str) -> None:
    callers: list[McpCaller] = []

    def who(caller: McpCaller) -> Principal:
        callers.append(caller)
        return Principal("ada")

    served = scene(add, principal=who)
    info = types.Implementation(name="an-editor", version="7" * 9_999)
    async with served.client(era, client_info=info) as client:
        await client.call_tool("add", {"a": 1, "b": 1})
    assert {(each.client, each.version, each.local) for each in callers} == {("an-editor", "7" * 200, True)}
    assert [event.principal for event in served.recorded(RunStarted)] == ["ada"]


@era
async def test_the_calls_of_a_connection_are_one_run_that_ends_with_it(era: str) -> None:
    served = scene(add)
    async with served.client(era) as client:
        for _ in range(3):
            await client.call_tool("add", {"a": 1, "b": 1})
        assert not served.recorded(RunFinished)
    assert len(served.recorded(RunStarted)) == 1
    assert len(served.recorded(RunFinished)) == 1


@era
async def test_other_tools_are_called_in_another_run(era: str) -> None:
    served = scene(greet)
    async with served.client(era) as client:
        assert text(await client.call_tool("greet", {"name": "Ada"})) == "Hello Ada"
        served.renew(add)
        assert (await client.call_tool("add", {"a": 1, "b": 1})).structured_content == {"sum": 2}
        with pytest.raises(MCPError):
            await client.call_tool("greet", {"name": "Ada"})
    assert len(served.recorded(RunStarted)) == len(served.recorded(RunFinished)) == 2


@era
async def test_a_record_that_cannot_be_kept_is_an_error_of_the_request(era: str) -> None:
    served = scene(add)
    served.journal.fail_at = 0
    async with served.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("add", {"a": 1, "b": 1})
    assert caught.value.code == types.INTERNAL_ERROR


@era
async def test_more_tools_than_a_page_holds_are_all_listed(era: str) -> None:
    def numbered(number: int) -> Tool:
        return greet.changed(name=f"greet{number:03}")

    async with scene(*map(numbered, range(450))).client(era) as client:
        names: list[str] = []
        cursor: str | None = None
        while True:
            found = await client.list_tools(cursor=cursor)
            names += [each.name for each in found.tools]
            if (cursor := found.next_cursor) is None:
                break
        for bad in ("nonsense", "9" * 5_000, "450", "-1"):
            with pytest.raises(MCPError) as caught:
                await client.list_tools(cursor=bad)
            assert caught.value.code == types.INVALID_PARAMS
    assert names == [f"greet{number:03}" for number in range(450)]


async def test_a_caller_without_a_session_gets_a_new_run_after_so_many_calls() -> None:
    ended: list[str] = []

    async def finish(run: str) -> None:
        ended.append(run)

    count = iter(range(100_000))
    runs = ClientRuns(lambda kind: f"{kind}_{next(count)}", finish)
    stateless = McpCaller(protocol=MODERN)
    first = runs.place(stateless, "ada", "key", "x", "t")
    for _ in range(CALLS - 1):
        place = runs.place(stateless, "ada", None, "x", "t")
        runs.begin(place[0])
        assert place[0] == first[0]
        await runs.end(place[0])
    later = runs.place(stateless, "ada", None, "x", "t")
    assert later[0] != first[0] and not ended
    assert runs.place(stateless, "ada", "key", "x", "t") == first, "a key keeps its place"
    runs.begin(later[0])
    await runs.end(later[0])
    assert ended == [first[0]]
    session = McpCaller(protocol="2025-11-25", session="s1")
    assert len({runs.place(session, "ada", None, "x", "t")[0] for _ in range(CALLS + 1)}) == 1
    await runs.leave("s1")
    assert len(ended) == 2
