"""The nine faults of the SDK that a connection absorbs, numbered as in the reference, and one more."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import McpError, ServerLost, ServerRefused
from handrail.mcp.values import HttpEndpoint, McpBounds
from tests.mcp.client.connections import ERAS, PATIENCE, call, connected, gone, raw, sdk, web_of_sdk
from tests.mcp.servers.raw_http_server import served
from tests.polling import until


async def test_1_a_killed_http_server_never_cancels_who_waits_for_it(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    async with web_of_sdk() as (endpoint, process), connected(endpoint) as connection:
        waiting = asyncio.create_task(call(connection, "wait", begun=str(begun)))
        await until(begun.exists)
        process.kill()
        with pytest.raises(ServerLost) as lost:
            await waiting
        assert lost.value.sent
        assert waiting.cancelling() == 0


@pytest.mark.parametrize("modern", [True, False], ids=ERAS)
async def test_1_a_broken_answer_costs_only_the_request_it_belongs_to(modern: bool) -> None:
    async with served(modern) as web, connected(HttpEndpoint(url=web.url)) as connection:
        slow = asyncio.create_task(call(connection, "silent"))
        await until(lambda: "silent" in web.calls)
        for tool in ("abort", "half_a_body", "half_a_stream"):
            with pytest.raises(ServerLost) as lost:
                await call(connection, tool)
            assert lost.value.sent
        assert await call(connection, "echo", a=1) == '{"a": 1}'
        assert not slow.done()
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow


@pytest.mark.parametrize("era", ERAS)
async def test_2_a_program_that_died_is_started_again(era: str) -> None:
    async with connected(raw(era)) as connection:
        first = await call(connection, "pid")
        with pytest.raises(ServerLost):
            await call(connection, "die")
        second = await call(connection, "pid")
        assert first != second


@pytest.mark.parametrize("modern", [True, False], ids=ERAS)
async def test_2_an_http_server_that_was_started_again_is_used_again(modern: bool) -> None:
    async with served(modern) as web, connected(HttpEndpoint(url=web.url)) as connection:
        assert await call(connection, "echo") == "{}"
        await web.kill()
        await web.start()
        # Nothing of it was done before the connection was found broken, so it is done now, side effects or not.
        assert await call(connection, "echo", again=True) == '{"again": true}'
        assert web.calls == ["echo", "echo"]


async def test_3_thirty_megabytes_are_read_where_that_much_is_allowed() -> None:
    bounds = McpBounds(message=40 * 2**20)
    async with connected(raw("modern"), bounds=bounds) as connection:
        assert len(await call(connection, "big", size=30 * 2**20)) == 30 * 2**20


@pytest.mark.parametrize("modern", [True, False], ids=ERAS)
async def test_4_an_event_of_three_megabytes_is_read(modern: bool) -> None:
    async with served(modern) as web, connected(HttpEndpoint(url=web.url)) as connection:
        assert len(await call(connection, "events", size=3_000_000)) == 3_000_000


@pytest.mark.parametrize("era", ERAS)
async def test_5_half_of_a_surrogate_pair_is_read_with_a_replacement(era: str) -> None:
    async with served(era == "modern") as web, connected(HttpEndpoint(url=web.url)) as over_http:
        assert await call(over_http, "half") == "a\ufffdb"
    async with connected(raw(era)) as over_pipes:
        assert await call(over_pipes, "half") == "a\ufffdb"
        assert await call(over_pipes, "echo", text="a\ud83db") == '{"text": "a\\ud83db"}'


async def test_5_and_6_a_server_that_its_tool_brings_down_is_lost_at_once_and_used_again() -> None:
    async def broken_by(tool: str) -> None:
        async with connected(sdk()) as connection:
            with pytest.raises((ServerLost, ServerRefused)):
                await call(connection, tool)
            assert await call(connection, "echo", text="again") == "again"

    await asyncio.gather(broken_by("half"), broken_by("leave"))


async def test_7_who_waits_for_a_plain_function_has_an_answer_on_time_and_the_server_is_told(tmp_path: Path) -> None:
    begun, mark = tmp_path / "begun", tmp_path / "mark"
    async with connected(sdk()) as connection:

        async def work(client: Any) -> Any:
            return await client.call_tool("dawdle", {"begun": str(begun), "mark": str(mark)}, read_timeout_seconds=0.2)

        with pytest.raises(TimeoutError, match="srv"):
            await connection.use(work, resend=False)
        await until(begun.exists)
        assert await call(connection, "echo", text="still here") == "still here"
        mark.touch()


@pytest.mark.parametrize("era", ERAS)
async def test_7_a_call_that_was_given_up_is_cancelled_at_the_server(era: str) -> None:
    async with connected(raw(era)) as connection:
        for seconds in (0.05, 0.5, 5):  # until it has left before that: a busy machine may take longer
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(seconds):
                    await connection.use(lambda client: client.call_tool("silent", {}), resend=False)
            if (given_up := await call(connection, "given_up")) != "[]":
                break
        assert given_up != "[]"


@pytest.mark.parametrize("era", ERAS)
async def test_8_a_hostile_pattern_and_a_remote_schema_are_not_run_by_the_sdk(era: str) -> None:
    async with connected(raw(era)) as connection:
        await connection.use(lambda client: client.list_tools(), resend=True)
        assert await call(connection, "pattern") == {"a": "a" * 60 + "!"}
        assert await call(connection, "elsewhere") == {"a": 1}


@pytest.mark.parametrize("era", ERAS)
async def test_9_what_is_no_result_of_a_call_is_an_error_of_ours(era: str) -> None:
    async with connected(raw(era)) as connection:
        with pytest.raises(McpError, match=r"not a valid result: .*content"):
            await call(connection, "odd")
        with pytest.raises(ServerRefused) as refused:
            await call(connection, "refuse", code=-32000, message="Connection closed")
        assert (refused.value.code, refused.value.message) == (-32000, "Connection closed")
        assert connection.state == "ready"


async def test_9_errors_and_groups_of_errors_in_what_is_done_come_out_as_ours() -> None:
    async with connected(raw("modern")) as connection:

        async def grouped(client: Any) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(client.call_tool("refuse", {"code": 7, "message": "no"}))

        async def plain(client: Any) -> None:
            raise RuntimeError("what the SDK calls a mistake")

        with pytest.raises(ServerRefused, match="no"):
            await connection.use(grouped, resend=False)
        with pytest.raises(McpError, match="what the SDK calls a mistake"):
            await connection.use(plain, resend=False)


@pytest.mark.parametrize("over", ["pipes", "http"])
async def test_a_result_that_does_not_say_its_type_is_one(over: str) -> None:
    async with served() as web:
        endpoint = raw("modern") if over == "pipes" else HttpEndpoint(url=web.url)
        async with connected(endpoint) as connection:
            assert await call(connection, "plain") == "plain"


async def test_kill_minus_9_in_mid_call_is_a_lost_call_and_the_next_is_answered() -> None:
    async with connected(raw("modern")) as connection:
        pid = int(await call(connection, "pid"))
        waiting = asyncio.create_task(call(connection, "silent"))
        await call(connection, "echo")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ServerLost) as lost:
            async with asyncio.timeout(PATIENCE):
                await waiting
        assert lost.value.sent
        assert int(await call(connection, "pid")) != pid
        assert gone(pid)
