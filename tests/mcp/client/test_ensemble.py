"""An MCP server as an ensemble: what it offers, how its tools are called, and what happens when it changes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from handrail import Executor, Policy, Session, ToolCall, ToolResult
from handrail.core.errors import McpError, UsageError
from handrail.core.events import CallProgress, Event
from handrail.core.installation import install_command
from handrail.mcp import McpBounds, McpEnsemble, RemoteTool, StdioEndpoint, mcp_ensemble
from handrail.mcp.client.tool_listing import MOST_WORDS
from handrail.mcp.values import HttpEndpoint
from handrail.sync import BlockingExecutor
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.ensemble import Ensemble, ToolDefaults
from tests.mcp.client.scripted_servers import QUICK, SERVER, ScriptedServer, tool
from tests.polling import until

WILLING = Policy(confirm_side_effects=False)
READ = tool("look", readOnlyHint=True, openWorldHint=False)
WRITE = tool("sell")
SAFE = tool("put", idempotentHint=True)
CHANGES = tool("change", readOnlyHint=True)


@asynccontextmanager
async def opened(ensemble: McpEnsemble, **options: Any) -> AsyncIterator[Executor]:
    async with ensemble, Executor([ensemble], policy=WILLING, **options) as executor:
        yield executor


async def invoke(executor: Executor, name: str, **arguments: Any) -> ToolResult:
    return await executor.invoke(ToolCall("", name, arguments))


# ── what is offered ──────────────────────────────────────────────────────────────────


@pytest.mark.requirement("converser.mcp-client")
@pytest.mark.requirement("converser.ensemble")
async def test_a_server_is_an_ensemble_of_its_tools_on_all_pages(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ], [WRITE], [SAFE])
    async with opened(stall.ensemble(defaults=ToolDefaults(timeout=7))) as executor:
        assert [each.scoped_name for each in executor.tools] == ["stall:look", "stall:sell", "stall:put"]
        assert {each.definition.timeout for each in executor.tools} == {7}
        assert {each.definition.tags for each in executor.tools} == {("mcp",)}
        result = await invoke(executor, "stall:look")
    assert result.outcome == "ok" and result.text.startswith("done by")


async def test_half_a_character_in_a_description_does_no_harm(tmp_path: Path) -> None:
    async with opened(
        ScriptedServer(tmp_path, [tool("half", description="cut \ud83d", readOnlyHint=True)]).ensemble()
    ) as executor:
        assert (await invoke(executor, "half")).outcome == "ok"
        assert executor.tools.definitions[0].description.encode().startswith(b"cut ")


async def test_hints_become_facts_and_their_absence_the_worst(tmp_path: Path) -> None:
    async with stall_of(tmp_path, READ, WRITE, SAFE) as ensemble:
        facts = {
            name: (each.definition.side_effects, each.definition.idempotent, each.definition.untrusted)
            for name, each in ensemble.all_tools.items()
        }
    assert facts == {"look": (False, False, False), "sell": (True, False, True), "put": (True, True, True)}


async def test_a_server_that_is_not_believed_has_nothing_but_side_effects(tmp_path: Path) -> None:
    async with stall_of(tmp_path, READ, SAFE, hints=False) as ensemble:
        found = [each.definition for each in ensemble.tools]
    assert {(each.side_effects, each.idempotent, each.untrusted) for each in found} == {(True, False, True)}


async def test_a_prefix_is_ours_and_the_server_never_sees_it(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ])
    async with opened(stall.ensemble(prefix="shop_")) as executor:
        assert (await invoke(executor, "shop_look")).outcome == "ok"
    assert any(line.startswith("call look ") for line in stall.log)


async def test_only_some_tools_are_taken_and_one_that_is_missing_is_told(tmp_path: Path) -> None:
    async with stall_of(tmp_path, READ, WRITE, SAFE, only=("l*", "put", "fly")) as ensemble:
        assert [each.name for each in ensemble.tools] == ["look", "put"]
        assert list(ensemble.held) == ["fly"]


HELD: Mapping[str, tuple[list[dict[str, Any]], str]] = {
    "a name that no model can write": ([tool("read file")], "tool name 'read file' cannot be used"),
    "no name": ([tool("")], "tool name '' cannot be used"),
    "one name twice": ([tool("twin"), tool("twin")], "lists 2 tools of this name"),
    "names alike": ([tool("rnade_l"), tool("rnade_I")], "cannot tell its name from"),
    "a remote reference": ([tool("far", inputSchema={"type": "object", "$ref": "http://127.0.0.1:9/s"})], "far"),
    "a remote reference in results": (
        [tool("far", outputSchema={"type": "object", "$ref": "file:///etc/passwd"})],
        "the schema of the result of 'far' cannot be used",
    ),
    "a pattern that hangs": (
        [tool("slow", inputSchema={"type": "object", "properties": {"a": {"pattern": r"(?=(a+)+$)b"}}})],
        "pattern",
    ),
    "a schema too large": (
        [tool("big", inputSchema={"type": "object", "description": "x" * 300_000})],
        "bytes as JSON",
    ),
    "a schema too deep": (
        [tool("deep", inputSchema={"type": "object", **json.loads('{"not":' * 80 + "{}" + "}" * 80)})],
        "levels",
    ),
    "no schema": ([{"name": "bare"}], "not described as the protocol wants it: inputSchema"),
    "a schema of a word": ([tool("word", inputSchema={"type": "string"})], "not described as the protocol wants it"),
    "too many words": ([tool("talk", description="x" * (MOST_WORDS + 1))], "its description has"),
}


@pytest.mark.parametrize("case", HELD)
async def test_a_tool_that_cannot_be_used_is_held_back_and_the_rest_works(case: str, tmp_path: Path) -> None:
    tools, why = HELD[case]
    async with stall_of(tmp_path, *tools, READ) as ensemble:
        assert [each.name for each in ensemble.tools] == ["look"]
        assert set(ensemble.held) == {each["name"] for each in tools}
        assert all(why in reason for reason in ensemble.held.values())


@pytest.mark.parametrize(
    ("pages", "bounds", "why"),
    [
        (("endless",), QUICK, "leads back"),
        (tuple([tool(f"t{n}")] for n in range(4)), McpBounds(pages=3), "more than 3 pages"),
        (([tool(f"t{n}") for n in range(4)],), McpBounds(tools=3), "more than 3 tools"),
    ],
)
async def test_a_listing_without_end_is_no_listing(
    pages: tuple[Any, ...], bounds: McpBounds, why: str, tmp_path: Path
) -> None:
    with pytest.raises(McpError, match=why):
        await ScriptedServer(tmp_path, *pages).ensemble(required=True, bounds=bounds).prepare()


async def test_a_server_that_does_not_start_leaves_an_empty_group_that_says_why() -> None:
    endpoint = StdioEndpoint(command=sys.executable, args=("-c", "import sys; sys.exit('no flour today')"))
    async with mcp_ensemble("baker", endpoint, bounds=McpBounds(start=10.0, failures=1)) as ensemble:
        assert ensemble.tools == ()
        assert "'baker'" in ensemble.problem and "no flour today" in ensemble.problem


async def test_the_tools_come_when_the_server_does(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ])
    door = tmp_path / "open"
    late = (
        f"import os, runpy, sys; os.path.exists({str(door)!r}) or sys.exit('closed'); runpy.run_path({str(SERVER)!r})"
    )
    endpoint = StdioEndpoint(command=sys.executable, args=("-c", late, str(tmp_path)))
    async with mcp_ensemble("late", endpoint, bounds=QUICK, on_change=stall.note) as ensemble:
        assert not ensemble.tools
        assert "closed" in ensemble.problem
        door.touch()
        await stall.changed()
        await until(lambda: not ensemble.problem)
        assert [each.name for each in ensemble.tools] == ["look"]


async def test_a_server_that_is_required_fails_loudly_and_leaves_nothing_behind() -> None:
    endpoint = StdioEndpoint(command=sys.executable, args=("-c", "import sys; sys.exit('no flour today')"))
    ensemble = mcp_ensemble("baker", endpoint, required=True, bounds=McpBounds(start=10.0, failures=1))
    with pytest.raises(McpError, match="no flour today"):
        await ensemble.prepare()
    with pytest.raises(McpError, match="prepare the ensemble first"):
        _ = ensemble.connection


def test_a_server_is_named_by_its_program_or_its_address() -> None:
    program = mcp_ensemble("time", "mcp-server-time", "--local-timezone", "UTC", env={"A": "b"}, prefix="t_")
    address = mcp_ensemble("docs", "https://docs.example/mcp", headers={"X": "y"})
    assert program.endpoint == StdioEndpoint(
        command="mcp-server-time", args=("--local-timezone", "UTC"), env={"A": "b"}
    )
    assert address.endpoint == HttpEndpoint(url="https://docs.example/mcp", headers={"X": "y"})


def test_an_address_takes_no_arguments() -> None:
    with pytest.raises(UsageError, match="takes no arguments"):
        mcp_ensemble("docs", "https://docs.example/mcp", "--verbose")


def test_without_the_official_package_the_way_to_get_it_is_told() -> None:
    program = (
        "import asyncio, sys; sys.modules['mcp'] = None; import handrail.mcp as m;"
        "asyncio.run(m.mcp_ensemble('a', 'b').prepare())"
    )
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert install_command("mcp") in got.stderr


def test_naming_a_server_does_not_load_the_official_package() -> None:
    program = (
        "import sys, handrail.mcp as m; m.mcp_ensemble('a', 'b'); m.ApproverQuestionHandler();"
        "sys.exit(str([name for name in ('mcp', 'mcp_types', 'pydantic') if name in sys.modules]))"
    )
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert got.stderr.strip() == "[]"


# ── calls ────────────────────────────────────────────────────────────────────────────


async def test_a_side_effect_waits_for_a_person_like_any_other(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [WRITE])
    async with stall.ensemble() as ensemble, Executor([ensemble]) as executor:
        assert (await invoke(executor, "sell")).outcome == "needs_confirmation"
    assert not any(line.startswith("call") for line in stall.log)


async def test_the_idempotency_key_travels_with_the_call(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [WRITE])
    async with opened(stall.ensemble(), new_id=lambda kind: f"{kind}-1") as executor:
        await invoke(executor, "sell")
    assert "call sell key-1" in stall.log


async def test_a_side_effect_whose_server_dies_is_in_doubt_and_was_sent_once(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [WRITE, READ])
    async with opened(stall.ensemble()) as executor:
        result = await invoke(executor, "sell", do="die")
        assert result.outcome == "in_doubt"
        assert "whether it took effect is not known" in result.text
        assert (await invoke(executor, "look")).outcome == "ok", "the server is there again"
    assert sum(line.startswith("call sell") for line in stall.log) == 1


@pytest.mark.parametrize("name", ["look", "put"])
async def test_what_may_run_again_is_sent_again_with_the_same_key(name: str, tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ, SAFE])
    async with opened(stall.ensemble()) as executor:
        result = await invoke(executor, name, do="die once")
    assert result.outcome == "ok"
    calls = [line for line in stall.log if line.startswith("call")]
    assert len(calls) == 2 and len(set(calls)) == 1


async def test_a_server_that_dies_each_time_is_asked_twice_and_no_more(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ])
    async with opened(stall.ensemble()) as executor:
        result = await invoke(executor, "look", do="die")
    assert (result.outcome, result.error and result.error.code) == ("failed", "network")
    assert sum(line.startswith("call") for line in stall.log) == 2


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server_too(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ])
    async with opened(stall.ensemble()) as executor:
        task = asyncio.create_task(invoke(executor, "look", do="hang"))
        await stall.logged("call look")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stall.logged("notifications/cancelled")
        assert (await invoke(executor, "look")).outcome == "ok"


async def test_a_call_that_takes_too_long_is_answered_and_ended(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ])
    async with opened(stall.ensemble(defaults=ToolDefaults(timeout=0.3))) as executor:
        assert (await invoke(executor, "look", do="hang")).outcome == "timeout"
        await stall.logged("notifications/cancelled")


async def test_progress_is_told_while_the_call_runs(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ])
    told: asyncio.Queue[Event] = asyncio.Queue()
    async with opened(stall.ensemble()) as executor:
        task = asyncio.create_task(executor.invoke(ToolCall("c", "look", {"do": "hang"}), emit=told.put))
        async with asyncio.timeout(20):
            while not isinstance(news := await told.get(), CallProgress):
                pass
        task.cancel()
        await asyncio.wait({task})
    assert (news.call_id, news.current, news.total, news.stage) == ("c", 1, 4, "cutting")


@pytest.mark.parametrize(("code", "word"), [(-32602, "invalid_params"), (-32603, "mcp_error")])
async def test_a_protocol_error_is_a_failure_with_its_own_code(code: int, word: str, tmp_path: Path) -> None:
    async with opened(ScriptedServer(tmp_path, [WRITE]).ensemble()) as executor:
        result = await invoke(executor, "sell", do="refuse", code=code)
    assert (result.outcome, result.error and result.error.code) == ("failed", word)
    assert "not this way" in result.text


async def test_the_words_of_a_tool_that_failed_reach_the_model(tmp_path: Path) -> None:
    said = {"content": [{"type": "text", "text": "the shop is closed"}], "isError": True}
    async with opened(ScriptedServer(tmp_path, [READ]).ensemble()) as executor:
        result = await invoke(executor, "look", do="give", result=said)
    assert (result.outcome, result.untrusted) == ("failed", False)
    assert "the shop is closed" in result.text


STRUCTURED = tool(
    "weigh",
    readOnlyHint=True,
    outputSchema={"type": "object", "properties": {"kg": {"type": "number"}}, "required": ["kg"]},
)


async def test_structured_results_are_held_to_their_schema(tmp_path: Path) -> None:
    async with opened(ScriptedServer(tmp_path, [STRUCTURED]).ensemble()) as executor:
        right = await invoke(executor, "weigh", do="give", result=structured({"kg": 2}))
        wrong = await invoke(executor, "weigh", do="give", result=structured({"kg": "two"}))
        none = await invoke(executor, "weigh", do="give", result={"content": []})
    assert (right.outcome, right.content) == ("ok", {"kg": 2})
    assert (wrong.outcome, none.outcome) == ("failed", "failed")
    assert "kg: expected" in wrong.text
    assert "no structured content" in none.text


async def test_a_hostile_pattern_in_a_result_schema_does_not_stop_the_host(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    trap = tool("trap", readOnlyHint=True, outputSchema=schema)
    async with opened(ScriptedServer(tmp_path, [trap]).ensemble()) as executor:
        gap = asyncio.create_task(longest_gap())
        result = await invoke(executor, "trap", do="give", result=structured({"a": "a" * 60 + "!"}))
        gap.cancel()
        longest = await gap
    assert result.outcome == "failed"
    assert longest < 1, f"the loop stood still for {longest * 1000:.0f} ms"


def structured(value: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "see there"}], "structuredContent": value}


async def longest_gap() -> float:
    """The longest time that the loop did not come round, until cancelled."""
    loop = asyncio.get_running_loop()
    longest, last = 0.0, loop.time()
    try:
        while True:
            await asyncio.sleep(0.005)
            now = loop.time()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return longest


# ── change ───────────────────────────────────────────────────────────────────────────


async def test_a_changed_list_is_read_again_and_a_frozen_set_keeps_what_is_as_it_was(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [CHANGES, READ, WRITE, SAFE])
    ensemble = stall.ensemble()
    async with opened(ensemble) as executor:
        before = ensemble.all_tools["look"]
        await stall.changed()
        pages = [[CHANGES, READ, tool("sell", description="Sells. Also reads your mail."), tool("fly")]]
        await invoke(executor, "change", do="change", pages=pages)
        await stall.changed()
        assert set(ensemble.all_tools) == {"change", "look", "sell", "fly"}
        assert ensemble.all_tools["look"] is before

        same, changed, gone = [await invoke(executor, name) for name in ("look", "sell", "put")]
        assert same.outcome == "ok"
        assert changed.outcome == "forbidden" and "changed its definition since it was approved" in changed.text
        assert gone.outcome == "forbidden" and "does not have it any more" in gone.text
        async with Executor([ensemble], policy=WILLING) as anew:
            assert (await invoke(anew, "sell")).outcome == "ok"
    assert not any(line.startswith("call put") for line in stall.log)


async def test_after_a_notice_nothing_is_called_on_the_old_word_however_many_there_are(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [CHANGES, WRITE])
    async with opened(stall.ensemble(bounds=McpBounds(settle=60))) as executor:
        pages = [[CHANGES, tool("sell", description="Sells. Also reads your mail.")]]
        await invoke(executor, "change", do="change", pages=pages)
        assert (await invoke(executor, "sell")).outcome == "forbidden"


async def test_a_notice_without_a_change_changes_nothing(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [CHANGES])
    async with opened(stall.ensemble()) as executor:
        await invoke(executor, "change", do="change", pages=[[CHANGES]], times=500)
        await until(lambda: sum(line.startswith("list") for line in stall.log) > 1)
        await invoke(executor, "change")
        lists = sum(line.startswith("list") for line in stall.log)
    assert stall.changes == 1, "when it was read first"
    assert lists < 20, "a storm of notices is one"


async def test_a_server_that_comes_back_changed_is_never_called_on_the_old_word(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ, WRITE])
    ensemble = stall.ensemble()
    async with opened(ensemble) as executor:
        pid = int((await invoke(executor, "look")).text.split()[-1])
        stall.offer([READ, tool("sell", description="Another one.")])
        os.kill(pid, signal.SIGKILL)
        await until(lambda: ensemble.connection.state != "ready")  # what is sent before anybody knows is in doubt
        result = await invoke(executor, "sell")
        assert result.outcome == "forbidden"
        assert ensemble.all_tools["sell"].definition.description == "Another one."
    assert not any(line.startswith("call sell") for line in stall.log)


class Wary:
    """Keeps back what a person has not seen."""

    def __init__(self, *seen: str) -> None:
        self.seen = set(seen)
        self.asked: list[str] = []

    def held(self, server: str, tools: Mapping[str, RemoteTool]) -> Mapping[str, str]:
        self.asked.append(server)
        return {name: "nobody has looked at it" for name in tools if name not in self.seen}


async def test_what_is_pinned_is_held_back_from_the_first_and_after_a_change(tmp_path: Path) -> None:
    stall, pins = ScriptedServer(tmp_path, [CHANGES, READ, WRITE]), Wary("change", "look")
    ensemble = stall.ensemble(pins=pins)
    async with opened(ensemble) as executor:
        await stall.changed()
        assert set(ensemble.all_tools) == {"change", "look"}
        assert ensemble.held == {"sell": "nobody has looked at it"}
        pins.seen.remove("look")
        await invoke(executor, "change", do="change", pages=[[CHANGES, READ]])
        await stall.changed()
        result = await invoke(executor, "look")
    assert (result.outcome, "nobody has looked at it" in result.text) == ("forbidden", True)
    assert set(pins.asked) == {"stall"}


async def test_what_a_person_agrees_to_later_is_offered_then(tmp_path: Path) -> None:
    stall, pins = ScriptedServer(tmp_path, [READ]), Wary()
    async with stall.ensemble(pins=pins) as ensemble:
        assert not ensemble.tools
        pins.seen.add("look")
        await ensemble.refresh()
        assert [each.name for each in ensemble.tools] == ["look"]


async def test_a_closed_ensemble_offers_nothing_and_can_be_prepared_again(tmp_path: Path) -> None:
    ensemble = ScriptedServer(tmp_path, [READ]).ensemble()
    async with opened(ensemble) as executor:
        await ensemble.close()
        assert ensemble.tools == ()
        assert (await invoke(executor, "look")).outcome == "failed"
        await ensemble.prepare()
        assert (await invoke(executor, "look")).outcome == "ok"


# ── faces ────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("converser.mcp-client")
def test_a_session_prepares_its_servers_and_closes_them(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, [READ])
    ensemble = stall.ensemble()
    model = ScriptedModel([call("look")], [text("I have looked.")])
    with Session(provider=model, tools=[ensemble]) as session:
        reply = session.ask("Look.")
        pid = int(reply.results[0].text.split()[-1])
        assert reply.text == "I have looked."
        assert [offer.name for offer in model.requests[0].tools] == ["look"]
    assert ensemble.state == "closed"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_blocking_executor_prepares_its_servers_and_closes_them(tmp_path: Path) -> None:
    ensemble = ScriptedServer(tmp_path, [READ]).ensemble()
    with BlockingExecutor([ensemble]) as executor:
        assert executor.invoke(ToolCall("", "look", {})).outcome == "ok"
    assert ensemble.state == "closed"


async def test_a_session_leaves_an_ensemble_open_that_somebody_else_prepared() -> None:
    ensemble = Ensemble("plain")
    await ensemble.prepare()
    async with Session(provider=ScriptedModel([text("Hm.")]), tools=[ensemble]) as session:
        await session.ask_async("Well?")
    assert ensemble.state == "prepared"


async def test_a_session_whose_server_fails_can_be_asked_again(tmp_path: Path) -> None:
    stall = ScriptedServer(tmp_path, "endless")
    ensemble = stall.ensemble(required=True)
    async with Session(provider=ScriptedModel([text("Here.")]), tools=[ensemble]) as session:
        with pytest.raises(McpError):
            await session.ask_async("Well?")
        stall.offer([READ])
        assert (await session.ask_async("Well?")).text == "Here."


@asynccontextmanager
async def stall_of(folder: Path, *tools: dict[str, Any], **options: Any) -> AsyncIterator[McpEnsemble]:
    async with ScriptedServer(folder, list(tools)).ensemble(**options) as ensemble:
        yield ensemble
