"""Long calls as tasks: begun at once, asked after, answered, cancelled, and nobody else's."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context, Principal
from handrail.core.errors import ToolError, UsageError
from handrail.core.events import CallSettled, Emit, ignore_event
from handrail.core.invocation import Invocation
from handrail.mcp.server.calls_in_progress import CallInProgress
from handrail.mcp.server.client_questions import ClientAsk
from handrail.mcp.server.tasks.store import LONG, ONLY, TaskEnding, TaskLimits, TaskStore, protocol_time
from handrail.testing.clock import FixedClock
from handrail.tools.tool import tool
from tests.mcp.server.http_clients import (
    ALL,
    TASKS,
    HandshakeHttpClient,
    ModernHttpClient,
    messages,
    read,
    serving,
    words,
)
from tests.mcp.server.server_setup import ServerSetup, scene
from tests.mcp.server.test_stdio import pipes

WITHOUT = {name: value for name, value in ALL.items() if name != "extensions"}
FAST = TaskLimits(poll=0.01)
SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}


class Gate:
    """Holds a tool until the test lets it go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()

    def tool(self, **options: Any) -> Any:
        @tool(**{"share": False, "tags": (LONG,), **options})
        async def work(name: str = "it") -> str:
            """Take its time."""
            self.begun.set()
            await self.open.wait()
            return f"{name} is done"

        return work


@asynccontextmanager
async def wired(
    *tools: Any, tasks: TaskStore | None = None, **options: Any
) -> AsyncIterator[tuple[ModernHttpClient, ServerSetup]]:
    stage = scene(*tools, **options)
    async with serving(stage.served, tasks=tasks or TaskStore(FAST)) as url, ModernHttpClient(url) as wire:
        yield wire, stage


async def got(wire: ModernHttpClient, id: str, *, until: str = "") -> dict[str, Any]:
    """What `tasks/get` says, once it says it is over, or has come to `until`."""
    over = {until} if until else {"completed", "failed", "cancelled"}
    async with asyncio.timeout(20):
        while True:
            said = await wire.ask("tasks/get", {"taskId": id})
            assert "result" in said, said
            if said["result"]["status"] in over:
                task: dict[str, Any] = said["result"]
                return task


# ── one task ───────────────────────────────────────────────────────────────────────────


async def test_a_long_call_is_answered_with_a_task_and_its_result_is_kept() -> None:
    gate = Gate()
    async with wired(gate.tool()) as (wire, stage):
        made = await wire.call("work", {"name": "all"})
        assert {key: made[key] for key in ("resultType", "status", "pollIntervalMs")} == {
            "resultType": "task",
            "status": "working",
            "pollIntervalMs": 10,
        }
        assert len(made["taskId"]) >= 32
        assert (await got(wire, made["taskId"], until="working"))["resultType"] == "complete"
        gate.open.set()
        for _ in range(2):
            done = await got(wire, made["taskId"])
            assert (done["status"], words(done["result"])) == ("completed", "all is done")
        assert [event.outcome for event in stage.recorded(CallSettled)] == ["ok"]


async def test_the_server_says_that_it_has_tasks() -> None:
    async with wired(Gate().tool()) as (wire, _):
        found = (await wire.ask("server/discover"))["result"]
        assert found["capabilities"]["extensions"] == {TASKS: {}}


async def test_a_client_without_tasks_waits_for_the_answer() -> None:
    gate = Gate()
    gate.open.set()
    async with wired(gate.tool()) as (wire, _):
        said = await wire.call("work", able=WITHOUT)
        assert (said["resultType"], words(said)) == ("complete", "it is done")


async def test_a_client_of_the_handshake_era_waits_for_the_answer_and_has_no_tasks() -> None:
    gate = Gate()
    gate.open.set()
    async with serving(scene(gate.tool()).served) as url, HandshakeHttpClient(url) as legacy:
        said = read(await legacy.send("tools/call", {"name": "work", "arguments": {}}))
        assert words(said["result"]) == "it is done"
        assert read(await legacy.send("tasks/get", {"taskId": "x"}))["error"]["code"] == -32601


async def test_tasks_are_there_over_pipes_as_well(tmp_path: Path) -> None:
    async with ModernHttpClient("") as wire, pipes(tmp_path) as program:
        body, _ = wire.request("tools/call", {"name": "slow", "arguments": {"text": "later"}}, ALL)
        await program.send(body)
        made = (await program.answer())["result"]
        assert made["resultType"] == "task"
        task: dict[str, Any] = {}
        while task.get("status") != "completed":
            body, _ = wire.request("tasks/get", {"taskId": made["taskId"]}, ALL)
            await program.send(body)
            task = (await program.answer())["result"]
        assert words(task["result"]) == "later"


async def test_sigterm_waits_for_the_end_of_tasks_and_of_their_run(tmp_path: Path) -> None:
    async with ModernHttpClient("") as wire, pipes(tmp_path) as program:
        await program.send(wire.request("tools/call", {"name": "wait", "arguments": {}}, ALL)[0])
        assert (await program.answer())["result"]["resultType"] == "task"
        await program.send(wire.request("tools/call", {"name": "begun", "arguments": {}}, ALL)[0])
        assert words((await program.answer())["result"]) == "begun"
        program.process.send_signal(signal.SIGTERM)
        assert await program.code() == 0
    assert (tmp_path / "ended").exists()
    assert (tmp_path / "finished").read_text() == "1"


async def test_a_task_whose_answer_cannot_be_made_has_ended_all_the_same() -> None:
    class Broken:
        async def invoke(self, call: ToolCall, context: Context = Context(), emit: Emit = ignore_event) -> ToolResult:
            raise ValueError("the password is hunter2")

    stage = scene(Gate().tool())
    served = replace(stage.served, invoker=Broken())
    async with serving(served, tasks=TaskStore(FAST)) as url, ModernHttpClient(url) as wire:
        task = await got(wire, (await wire.call("work"))["taskId"])
    assert task["status"] == "failed"
    assert "hunter2" not in str(task)


async def test_a_tool_that_may_take_very_long_is_long_without_saying_so() -> None:
    async with wired(Gate().tool(tags=(), timeout=500.0)) as (wire, _):
        made = await wire.call("work")
        assert made["resultType"] == "task"
        assert made["ttlMs"] == (FAST.keep + 500) * 1000


async def test_other_tools_answer_at_once_also_when_an_old_client_asks_for_a_task() -> None:
    gate = Gate()
    gate.open.set()
    async with wired(gate.tool(tags=())) as (wire, _):
        assert (await wire.call("work", more={"task": {"ttl": 1}}))["resultType"] == "complete"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel", "tools/call"])
async def test_without_the_extension_the_client_is_told_what_is_missing(method: str) -> None:
    params: Mapping[str, Any] = {"taskId": "x"} if method != "tools/call" else {"name": "work", "arguments": {}}
    async with wired(Gate().tool(tags=(ONLY,))) as (wire, _):
        said = await wire.send(method, params, able=WITHOUT)
        assert said.status_code == 400
        assert said.json()["error"]["code"] == -32021
        assert said.json()["error"]["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
async def test_what_older_tasks_had_is_not_there(method: str) -> None:
    async with wired(Gate().tool()) as (wire, _):
        assert (await wire.ask(method, {"taskId": "x"}))["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_task_that_nobody_began_is_not_there(method: str) -> None:
    async with wired(Gate().tool()) as (wire, _):
        assert (await wire.ask(method, {"taskId": "x"}))["error"]["code"] == -32602


async def test_a_header_that_names_another_task_is_refused() -> None:
    async with wired(Gate().tool()) as (wire, _):
        made = await wire.call("work")
        said = await wire.send("tasks/get", {"taskId": made["taskId"]}, headers={"mcp-name": "another"})
        assert (said.status_code, said.json()["error"]["code"]) == (400, -32020)


# ── how it ends ────────────────────────────────────────────────────────────────────────


async def test_what_a_tool_does_wrong_is_a_result_and_what_it_refuses_an_error() -> None:
    @tool(share=False, tags=(LONG,))
    async def wrong() -> str:
        """Fail."""
        raise ToolError("no_luck", "it did not work")

    @tool(share=False, tags=(LONG,))
    async def refusing(invocation: Invocation) -> str:
        """Refuse."""
        raise ClientAsk.of(invocation).refuse(-32050, "not so", {"x": 1})

    async with wired(wrong, refusing) as (wire, _):
        failed = await got(wire, (await wire.call("wrong"))["taskId"])
        assert (failed["status"], failed["result"]["isError"]) == ("completed", True)
        refused = await got(wire, (await wire.call("refusing"))["taskId"])
        assert (refused["status"], refused["error"]) == (
            "failed",
            {"code": -32050, "message": "not so", "data": {"x": 1}},
        )
        assert "result" not in refused
        assert refused["statusMessage"] == "not so"


async def test_a_cancelled_task_stops_its_work_and_stays_cancelled() -> None:
    gate = Gate()
    async with wired(gate.tool()) as (wire, stage):
        id = (await wire.call("work"))["taskId"]
        await gate.begun.wait()
        for _ in range(2):
            assert (await wire.ask("tasks/cancel", {"taskId": id}))["result"]["resultType"] == "complete"
            assert (await got(wire, id))["status"] == "cancelled"
        assert [event.outcome for event in stage.recorded(CallSettled)] == ["cancelled"]


async def test_a_task_that_is_done_is_not_undone_by_a_cancel() -> None:
    gate = Gate()
    gate.open.set()
    async with wired(gate.tool()) as (wire, _):
        id = (await wire.call("work"))["taskId"]
        await got(wire, id)
        await wire.ask("tasks/cancel", {"taskId": id})
        assert (await got(wire, id))["status"] == "completed"


async def test_the_work_of_a_task_goes_on_when_the_connection_is_gone() -> None:
    gate = Gate()
    stage = scene(gate.tool())
    async with serving(stage.served) as url:
        async with ModernHttpClient(url) as first:
            id = (await first.call("work"))["taskId"]
        gate.open.set()
        async with ModernHttpClient(url) as second:
            assert words((await got(second, id))["result"]) == "it is done"


async def test_progress_is_the_message_of_the_task() -> None:
    gate = Gate()

    @tool(share=False, tags=(LONG,))
    async def stepwise(invocation: Invocation) -> str:
        """Say how far it is."""
        invocation.progress(1, 3, "one of three")
        await gate.open.wait()
        return "done"

    async with wired(stepwise) as (wire, _):
        id = (await wire.call("stepwise"))["taskId"]
        async with asyncio.timeout(20):
            while (await got(wire, id, until="working")).get("statusMessage") != "one of three":
                pass
        gate.open.set()
        await got(wire, id)


# ── input ──────────────────────────────────────────────────────────────────────────────


@tool(share=False, tags=(LONG,))
async def asking(invocation: Invocation) -> str:
    """Ask while it works."""
    said = await ClientAsk.of(invocation).elicit("Are you sure?", SURE)
    return f"sure: {said.values.get('sure')}"


async def test_a_question_stands_in_the_task_until_it_is_answered() -> None:
    async with wired(asking) as (wire, _):
        id = (await wire.call("asking"))["taskId"]
        waiting = await got(wire, id, until="input_required")
        ((key, question),) = waiting["inputRequests"].items()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Are you sure?"
        for wrong in ({"other": {"action": "accept"}}, {key: {"action": "accept", "content": {"sure": "?"}}}, {key: 7}):
            await wire.ask("tasks/update", {"taskId": id, "inputResponses": wrong})
            assert (await got(wire, id, until="input_required"))["inputRequests"].keys() == {key}
        answer = {"action": "accept", "content": {"sure": True}}
        said = await wire.ask("tasks/update", {"taskId": id, "inputResponses": {key: answer}})
        assert said["result"].keys() - {"_meta"} == {"resultType"}
        assert words((await got(wire, id))["result"]) == "sure: True"


@pytest.mark.parametrize(("answer", "ran"), [("accept", True), ("decline", False), ("cancel", False)])
async def test_a_side_effect_in_a_task_waits_there_for_approval(answer: str, ran: bool) -> None:
    done: list[str] = []

    @tool(side_effects=True, tags=(LONG,))
    async def delete(path: str) -> str:
        """Delete a file."""
        done.append(path)
        return "deleted"

    async with wired(delete) as (wire, _):
        id = (await wire.call("delete", {"path": "a.txt"}))["taskId"]
        waiting = await got(wire, id, until="input_required")
        ((key, question),) = waiting["inputRequests"].items()
        assert "a.txt" in question["params"]["message"]
        assert done == []
        await wire.ask("tasks/update", {"taskId": id, "inputResponses": {key: {"action": answer}}})
        ended = await got(wire, id)
        assert ended["status"] == "completed"
        assert (done, ended["result"].get("isError", False)) == (["a.txt"] if ran else [], not ran)


async def test_a_tool_may_ask_first_and_then_go_on_as_a_task() -> None:
    gate = Gate()

    @tool(share=False)
    async def later(invocation: Invocation) -> str:
        """Ask, then take its time."""
        client = ClientAsk.of(invocation)
        said = await client.elicit("Sure?", SURE, key="sure")
        if client.detach():
            await gate.open.wait()
        return f"sure: {said.values.get('sure')}"

    async with wired(later) as (wire, _):
        asked = await wire.call("later")
        responses = {"sure": {"action": "accept", "content": {"sure": True}}}
        back = {"requestState": asked["requestState"], "inputResponses": responses}
        made = await wire.call("later", more=back)
        assert (asked["resultType"], made["resultType"]) == ("input_required", "task")
        assert "requestState" not in made
        gate.open.set()
        assert words((await got(wire, made["taskId"]))["result"]) == "sure: True"
        # And one that has no tasks is answered when it is done.
        asked = await wire.call("later", able=WITHOUT)
        back = {"requestState": asked["requestState"], "inputResponses": responses}
        assert words(await wire.call("later", more=back, able=WITHOUT)) == "sure: True"


# ── news ───────────────────────────────────────────────────────────────────────────────


async def test_who_listens_hears_of_every_state_of_its_tasks_and_of_no_others() -> None:
    stage = scene(asking)
    async with serving(stage.served, tasks=TaskStore(FAST)) as url, ModernHttpClient(url) as wire:
        id, other = [(await wire.call("asking"))["taskId"] for _ in range(2)]
        waiting = await got(wire, id, until="input_required")
        await got(wire, other, until="input_required")
        params = {"notifications": {"taskIds": [id, "nobody's"], "toolsListChanged": True}}
        body, headers = wire.request("subscriptions/listen", params, ALL)
        heard: list[dict[str, Any]] = []
        async with asyncio.timeout(20), wire.http.stream("POST", url, json=body, headers=headers) as stream:
            async for line in stream.aiter_lines():
                heard += messages(line)
                if len(heard) == 1 and line.startswith("data:"):
                    stage.notices.changed("tools")
                    answer = {key: {"action": "decline"} for key in waiting["inputRequests"]}
                    await wire.ask("tasks/update", {"taskId": id, "inputResponses": answer})
                if heard and heard[-1]["params"].get("status") == "completed":
                    break
    acknowledged = heard[0]
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["notifications"] == {"taskIds": [id], "toolsListChanged": True}
    told = [each["params"] for each in heard if each["method"] == "notifications/tasks"]
    assert {each["taskId"] for each in told} == {id}
    assert words(told[-1]["result"]) == "sure: None"
    assert all(each["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == body["id"] for each in heard)
    assert any(each["method"] == "notifications/tools/list_changed" for each in heard)


async def test_who_has_no_tasks_cannot_listen_to_them() -> None:
    async with wired(asking) as (wire, _):
        said = await wire.ask("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}, able=WITHOUT)
        assert said["error"]["code"] == -32021


# ── whose it is, and how many ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_task_is_not_there_for_anybody_else(method: str) -> None:
    gate = Gate()
    stage = scene(gate.tool(), principal=lambda caller: Principal(caller.subject or "nobody"))
    tokens = {"ann": "one", "bob": "two"}
    async with (
        serving(stage.served, token=tokens) as url,
        ModernHttpClient(url, token="one") as ann,
        ModernHttpClient(url, token="two") as bob,
    ):
        id = (await ann.call("work"))["taskId"]
        foreign = await bob.ask(method, {"taskId": id})
        unknown = await bob.ask(method, {"taskId": "x" * len(id)})
        assert foreign["error"] == unknown["error"]
        assert (await got(ann, id, until="working"))["taskId"] == id


async def test_beyond_so_many_tasks_calls_are_answered_when_they_are_done() -> None:
    gate = Gate()
    async with wired(gate.tool(), tasks=TaskStore(TaskLimits(most=1))) as (wire, _):
        assert (await wire.call("work"))["resultType"] == "task"
        gate.open.set()
        assert words(await wire.call("work")) == "it is done"


async def test_a_tool_that_is_only_for_tasks_is_refused_when_there_are_too_many() -> None:
    async with wired(Gate().tool(tags=(ONLY,)), tasks=TaskStore(TaskLimits(each=1))) as (wire, _):
        assert (await wire.call("work"))["resultType"] == "task"
        assert "too many tasks" in (await wire.ask("tools/call", {"name": "work", "arguments": {}}))["error"]["message"]


def _going(owner: str = "ann") -> CallInProgress:
    going = CallInProgress(ToolCall("c", "t", {}), Context(), owner, None)
    going.start(_forever())
    return going


async def _forever() -> ToolResult:
    await asyncio.Event().wait()
    raise NotImplementedError


async def _ended() -> TaskEnding:
    return TaskEnding(cancelled=True)


async def test_a_task_is_known_until_its_time_is_over_and_its_work_ends_with_it() -> None:
    clock = FixedClock()
    tasks = TaskStore(TaskLimits(keep=100), clock=clock)
    going = _going()
    task = tasks.adopt(going, 20, _ended)
    clock.advance(119.9)
    assert tasks.find(task.id, "ann") is task
    clock.advance(0.2)
    assert tasks.find(task.id, "ann") is None
    await going.wait()


async def test_tasks_are_bounded_for_all_and_for_each() -> None:
    tasks = TaskStore(TaskLimits(most=3, each=2))
    made = [_going(), _going(), _going("bob")]
    for going in made:
        tasks.adopt(going, 1, _ended)
    for owner in ("ann", "bob"):
        with pytest.raises(UsageError, match="too many tasks"):
            tasks.adopt(_started(made, owner), 1, _ended)
    for going in made:
        going.cancel()
        await going.wait()


async def _long() -> TaskEnding:
    return TaskEnding(result={"text": "x" * 100})


async def test_of_results_with_too_many_bytes_those_that_ended_first_are_forgotten() -> None:
    clock = FixedClock()
    tasks = TaskStore(TaskLimits(size=250), clock=clock)
    made = [(going, tasks.adopt(going, 1, _long)) for going in (_going(), _going(), _going())]
    for going, task in reversed(made):
        over = asyncio.Event()
        task.watch(over.set)
        clock.advance(1)
        going.cancel()
        await asyncio.wait_for(over.wait(), 10)
    assert [tasks.find(task.id, "ann") for _, task in made] == [made[0][1], made[1][1], None]


def _started(made: list[CallInProgress], owner: str) -> CallInProgress:
    going = _going(owner)
    made.append(going)
    return going


def test_times_are_written_as_the_protocol_wants_them() -> None:
    assert protocol_time(1_784_000_000_123) == "2026-07-14T03:33:20.123Z"
