"""Servers that send too much, too often, nonsense or nothing: each is refused, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from handrail.core.errors import McpError, ServerLost, ServerRefused
from handrail.mcp.client.connection import McpConnection
from handrail.mcp.values import HttpEndpoint, McpBounds, McpLinkTerms
from tests.mcp.client.connections import ERAS, PATIENCE, QUICK, ConnectionNotices, call, connected, pulse, raw
from tests.mcp.servers.raw_http_server import served

SMALL = McpBounds(settle=0.01, start=20, message=64 * 1024)


@pytest.mark.parametrize("tool", ["big", "big_backwards"])
@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_of_thirty_megabytes_is_refused_and_the_connection_lives(era: str, tool: str) -> None:
    async with connected(raw(era)) as connection:
        pid = await call(connection, "pid")
        with pytest.raises(McpError, match=r"more than 4194304 bytes.*max_message"):
            await call(connection, tool, size=30 * 2**20)
        assert await call(connection, "pid") == pid


async def test_a_large_answer_that_names_no_request_ends_the_connection() -> None:
    async with connected(raw("modern"), bounds=SMALL) as connection:
        with pytest.raises(ServerLost):
            await call(connection, "big_nameless", size=100_000)
        assert await call(connection, "echo") == "{}"


async def test_a_tool_list_of_thirty_megabytes_is_refused() -> None:
    async with connected(raw("modern", "long_list")) as connection:
        with pytest.raises(McpError, match="max_message"):
            await connection.use(lambda client: client.list_tools(), resend=True)


async def test_twenty_thousand_tools_at_once_are_refused() -> None:
    async with connected(raw("modern", "many")) as connection:
        with pytest.raises(McpError, match="more than 30000 values"):
            await connection.use(lambda client: client.list_tools(), resend=True)


async def test_two_tools_of_one_name_are_both_shown() -> None:
    async with connected(raw("modern", "twins")) as connection:
        listed = await connection.use(lambda client: client.list_tools(), resend=True)
        assert [tool.name for tool in listed.tools] == ["echo", "echo"]


async def test_an_answer_with_too_many_values_is_refused_before_it_is_read() -> None:
    async with connected(raw("modern")) as connection:
        with pytest.raises(McpError, match="more than 30000 values"):
            await call(connection, "dense", count=150_000)
        with pytest.raises(McpError, match="6000 content at once"):
            await call(connection, "crowded", count=6_000)


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_no_message_is_passed_over_and_kept_for_diagnosis(era: str) -> None:
    async with connected(raw(era)) as connection:
        assert await call(connection, "chatty") == "done"
        assert "where only messages belong" in connection.diagnosis
        assert await call(connection, "latin") == "gr\ufffd\ufffde"
        with pytest.raises(McpError, match="cannot be read"):
            await call(connection, "broken")
        assert connection.state == "ready"


async def test_an_endless_line_ends_the_connection() -> None:
    async with connected(raw("modern"), bounds=SMALL) as connection:
        with pytest.raises(ServerLost):
            await call(connection, "endless")
        assert await call(connection, "echo") == "{}"


@pytest.mark.parametrize("era", ERAS)
async def test_a_program_that_closes_its_output_and_lives_on_is_ended(era: str) -> None:
    async with connected(raw(era)) as connection:
        pid = await call(connection, "pid")
        with pytest.raises(ServerLost):
            await call(connection, "hush")
        assert await call(connection, "pid") != pid


async def test_a_program_that_dies_at_its_start_is_quoted() -> None:
    connection = McpConnection("srv", raw("modern", "dies"), McpLinkTerms(bounds=QUICK))
    try:
        with pytest.raises(McpError, match="no database at the given address"):
            await connection.open()
        assert connection.state in ("lost", "connecting")
    finally:
        await connection.aclose()


async def test_a_program_that_never_answers_is_given_up_in_time() -> None:
    connection = McpConnection("srv", raw("legacy", "mute"), McpLinkTerms(bounds=McpBounds(start=0.3)))
    try:
        with pytest.raises(McpError, match=r"not ready within 0\.3 s"):
            async with asyncio.timeout(PATIENCE):
                await connection.open()
    finally:
        await connection.aclose()


@pytest.mark.parametrize("era", ERAS)
async def test_a_storm_of_notices_is_one_change(era: str) -> None:
    heard = ConnectionNotices()
    bounds = McpBounds(start=20, settle=1.0)
    async with connected(raw(era), bounds=bounds, on_change=heard) as connection:
        assert await call(connection, "storm", count=5_000) == "calm"
        await heard.until("tools")
        assert heard.told == ["tools"]


HTTP: dict[str, tuple[str, dict[str, Any], str]] = {
    "a page": ("html", {}, "answered with text/html.*guest network"),
    "no end": ("endless", {"kind": "application/json", "first": "{"}, "more than 65536 bytes"),
    "no end of an event": ("endless", {"kind": "text/event-stream", "first": "data: "}, "more than 65536 bytes"),
    "no end of a page": ("endless", {"kind": "text/html", "first": "<html>"}, "text/html"),
    "a bomb": ("bomb", {}, "compressed answer"),
    "too much": ("big", {"size": 100_000}, "more than 65536 bytes.*max_message"),
    "too much in an event": ("events", {"size": 100_000}, "more than 65536 bytes.*max_message"),
    "an error of its own": ("status", {"status": 500}, "HTTP 500: the words of a gateway"),
    "nobody signed in": ("status", {"status": 401}, "HTTP 401"),
    "no result": ("say", {"body": '{"jsonrpc":"2.0","id":ID,"result":"text"}'}, "neither a result nor an error"),
    "no result in an event": (
        "say",
        {"body": '{"jsonrpc":"2.0","id":ID,"result":"text"}', "kind": "text/event-stream"},
        "neither a result nor an error",
    ),
    "no version": ("say", {"body": '{"id":ID,"result":{"content":[]}}'}, "not a message"),
    "the answer of another": ("say", {"body": '{"jsonrpc":"2.0","id":99,"result":{}}'}, "not an answer to what"),
    "no answer": ("say", {"body": '{"jsonrpc":"2.0","method":"notifications/x"}'}, "not an answer to what"),
    "accepted, and no more": ("say", {"body": "", "status": 202}, "not with a message"),
    "accepted, as text": ("say", {"body": "", "status": 204, "kind": "text/plain"}, "not with a message"),
}


@pytest.mark.parametrize("case", HTTP)
@pytest.mark.parametrize("modern", [True, False], ids=ERAS)
async def test_over_http_a_bad_answer_is_an_error_of_its_request_alone(case: str, modern: bool) -> None:
    tool, arguments, why = HTTP[case]
    heard = ConnectionNotices()
    async with served(modern) as web, connected(HttpEndpoint(url=web.url), bounds=SMALL, on_change=heard) as connection:
        with pytest.raises(McpError, match=why) as refused:
            await call(connection, tool, **arguments)
        assert not isinstance(refused.value, ServerLost | ServerRefused), "nobody knows what came of the call"
        assert await call(connection, "echo") == "{}"
        assert heard.told == []


async def test_an_error_without_an_id_over_http_answers_its_request() -> None:
    async with served() as web, connected(HttpEndpoint(url=web.url)) as connection:
        with pytest.raises(ServerRefused, match="not like this"):
            await call(
                connection, "say", body='{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not like this"}}'
            )


async def test_no_request_follows_a_redirect_to_another_place() -> None:
    async with served() as other, served() as web, connected(HttpEndpoint(url=web.url)) as connection:
        with pytest.raises(ServerRefused, match="not followed"):
            await call(connection, "elsewhere", to=other.url)
        assert other.heard == []


@pytest.mark.requirement("converser.mcp-client")
async def test_others_are_answered_while_a_server_misbehaves() -> None:
    """The loop is not blocked: its longest pause is printed, and held to a bound with room for a busy machine."""
    async with served() as web, connected(raw("modern")) as good, connected(raw("modern")) as bad:
        async with connected(HttpEndpoint(url=web.url)) as bad_web, pulse() as beat:
            misdeeds = [
                call(bad, "big", size=30 * 2**20),
                call(bad, "dense", count=150_000),
                call(bad, "storm", count=20_000),
                call(bad, "half"),
                call(bad, "pattern"),
                call(bad, "silent"),
                call(bad_web, "endless", kind="application/json", first="{"),
                call(bad_web, "big", size=4_000_000),
                call(bad_web, "silent"),
            ]
            doing = [asyncio.create_task(each) for each in misdeeds]
            for number in range(200):
                assert await call(good, "echo", number=number) == f'{{"number": {number}}}'
            for task in (doing[5], doing[8]):
                task.cancel()
            await asyncio.gather(*doing, return_exceptions=True)
        message = f"the loop did nothing else for {beat.longest * 1000:.0f} ms\n"
        sys.stdout.write(message)
        assert beat.longest < 1.0, message
