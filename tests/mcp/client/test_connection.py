"""A connection that mends itself: what it says of itself, when it waits, when it sends again, and when it does not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import McpError, ServerLost, ServerRefused, UsageError
from handrail.mcp.client.connection import FIRST_DELAY, LONGEST_DELAY, STEADY, McpConnection, ReconnectBackoff
from handrail.mcp.client.inbox import NoticeThrottle
from handrail.mcp.values import HttpEndpoint, McpBounds, McpLinkTerms, ServerFacts, StdioEndpoint
from handrail.testing.clock import FixedClock
from tests.mcp.client.connections import ERAS, PATIENCE, QUICK, ConnectionNotices, call, connected, gone, raw
from tests.mcp.servers.raw_http_server import served
from tests.polling import until

NOWHERE = StdioEndpoint(command="/nonexistent/server")


# ── what it says of itself ───────────────────────────────────────────────────────────


async def test_it_says_what_the_server_says_of_itself() -> None:
    async with connected(raw("legacy")) as connection:
        states = [connection.state]
        assert connection.facts == ServerFacts(
            name="raw",
            version="1",
            protocol="2025-11-25",
            capabilities=frozenset({"tools", "resources"}),
            declared={"tools": {"listChanged": True}, "resources": {"subscribe": True}},
        )
    states.append(connection.state)
    assert states == ["ready", "closed"]


async def test_the_era_that_was_asked_for_is_spoken() -> None:
    async with connected(raw("modern"), era="modern") as modern, connected(raw("legacy"), era="legacy") as legacy:
        assert (modern.facts.protocol, legacy.facts.protocol) == ("2026-07-28", "2025-11-25")
    with pytest.raises(McpError, match="it speaks 2025-11-25"):
        async with connected(raw("legacy"), era="modern"):
            raise NotImplementedError


async def test_before_it_is_open_nothing_can_be_done_and_afterwards_neither() -> None:
    connection = McpConnection("srv", raw("modern"), McpLinkTerms(bounds=QUICK))
    with pytest.raises(UsageError):
        await call(connection, "echo")
    with pytest.raises(McpError, match="never reached"):
        _ = connection.facts
    await connection.open()
    with pytest.raises(UsageError):
        await connection.open()
    await connection.aclose()
    await connection.aclose()
    with pytest.raises(ServerLost, match="closed"):
        await call(connection, "echo")


async def test_closing_answers_those_who_wait() -> None:
    async with served() as web, connected(raw("modern")) as pipes, connected(HttpEndpoint(url=web.url)) as http:
        waiting = [asyncio.create_task(call(each, "silent")) for each in (pipes, http)]
        await call(pipes, "echo")
        await until(lambda: "silent" in web.calls)
        await pipes.aclose()
        await http.aclose()
        for task in waiting:
            with pytest.raises(ServerLost) as lost:
                await task
            assert lost.value.sent


async def test_an_address_where_nobody_is_is_told_at_once_and_tried_again() -> None:
    async with served() as web:
        await web.kill()
        heard = ConnectionNotices()
        connection = McpConnection(
            "srv", HttpEndpoint(url=web.url), McpLinkTerms(bounds=QUICK), chance=lambda: 0.05, on_change=heard
        )
        try:
            with pytest.raises(McpError, match="cannot be reached"):
                await connection.open()
            await web.start()
            assert await call(connection, "echo") == "{}"
            assert heard.told == ["ready"]
        finally:
            await connection.aclose()


# ── what is sent again ───────────────────────────────────────────────────────────────


async def test_a_call_that_may_be_repeated_is_sent_once_more(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(raw("modern", "--log", str(log))) as connection:
        assert await call(connection, "die_once", resend=True, mark=str(tmp_path / "mark")) == "alive"
        with pytest.raises(ServerLost) as lost:
            await call(connection, "die", resend=True)
        assert lost.value.sent
    assert log.read_text().split() == ["die_once", "die_once", "die", "die"]


@pytest.mark.parametrize("modern", [True, False], ids=ERAS)
async def test_over_http_too(modern: bool) -> None:
    async with served(modern) as web, connected(HttpEndpoint(url=web.url)) as connection:
        assert await call(connection, "abort_once", resend=True) == "alive"
        assert web.calls == ["abort_once", "abort_once"]


async def test_a_side_effect_is_never_sent_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with served() as web, connected(raw("modern", "--log", str(log))) as pipes:
        with pytest.raises(ServerLost) as lost:
            await call(pipes, "die")
        assert lost.value.sent
        async with connected(HttpEndpoint(url=web.url)) as http:
            with pytest.raises(ServerLost) as lost:
                await call(http, "abort")
            assert lost.value.sent
    assert log.read_text().split() == ["die"]
    assert web.calls == ["abort"]


async def test_a_gateway_that_has_lost_its_server_leaves_it_open_whether_the_call_was_heard() -> None:
    async with served() as web, connected(HttpEndpoint(url=web.url)) as connection:
        with pytest.raises(ServerLost, match="HTTP 503") as lost:
            await call(connection, "status", status=503)
        assert lost.value.sent


async def test_a_forgotten_session_is_opened_again_and_the_call_made_once() -> None:
    heard = ConnectionNotices()
    async with served(modern=False) as web, connected(HttpEndpoint(url=web.url), on_change=heard) as connection:
        await call(connection, "echo")
        web.sessions.clear()
        assert await call(connection, "echo", n=2) == '{"n": 2}'
        assert web.calls == ["echo", "echo"]
        assert web.heard.count("initialize") == 2
        assert heard.told == ["lost", "ready"]


async def test_a_call_refused_over_its_session_is_sent_again_only_if_it_may_be_repeated() -> None:
    for resend in (False, True):
        async with served(modern=False) as web, connected(HttpEndpoint(url=web.url)) as connection:
            if resend:
                assert await call(connection, "forget", resend=True) == "alive"
            else:
                with pytest.raises(ServerRefused, match="No valid session ID"):
                    await call(connection, "forget")
                assert web.calls == ["forget"]
                assert await call(connection, "echo") == "{}"
            assert web.heard.count("initialize") == 2


@pytest.mark.parametrize("over", ["pipes", "http"])
async def test_a_server_may_speak_of_sessions_that_are_none_of_ours(over: str) -> None:
    said = '{"jsonrpc":"2.0","id":ID,"error":{"code":5,"message":"Session not found"}}'
    async with served(modern=False) as web:
        endpoint, tool = (raw("legacy"), "refuse") if over == "pipes" else (HttpEndpoint(url=web.url), "say")
        async with connected(endpoint) as connection:
            with pytest.raises(ServerRefused, match="Session not found"):
                await call(connection, tool, body=said, code=5, message="Session not found")
            assert connection.state == "ready"


# ── waiting, and no longer waiting ───────────────────────────────────────────────────


async def test_a_call_while_it_is_down_waits_for_the_next_connection() -> None:
    bounds = McpBounds(start=20, failures=1_000)
    async with served() as web, connected(HttpEndpoint(url=web.url), bounds=bounds, chance=lambda: 0.01) as connection:
        await web.kill()
        with pytest.raises(ServerLost) as lost:
            await connection.use(lambda client: client.call_tool("echo", {}), resend=False, wait=0.05)
        assert not lost.value.sent
        waiting = asyncio.create_task(call(connection, "echo", late=True))
        await asyncio.sleep(0)
        await web.start()
        assert await waiting == '{"late": true}'


async def test_after_many_failures_nobody_waits_any_more_and_the_next_try_is_told() -> None:
    clock = FixedClock()
    connection = McpConnection(
        "srv",
        NOWHERE,
        McpLinkTerms(bounds=McpBounds(start=20, failures=3)),
        clock=_Patient(clock, 3),
        chance=lambda: 1.0,
    )
    try:
        with pytest.raises(McpError, match="could not be started"):
            await connection.open()
        with pytest.raises(ServerLost, match=r"3 connections in a row failed; the next try is in 2 s") as lost:
            await call(connection, "echo")
        assert not lost.value.sent
        assert clock.slept == [0.5, 1.0]
    finally:
        await connection.aclose()


class _Patient:
    """A clock on which only the first few sleeps end."""

    def __init__(self, clock: FixedClock, until: int) -> None:
        self._clock = clock
        self._until = until
        self.now, self.monotonic = clock.now, clock.monotonic

    async def sleep(self, seconds: float) -> None:
        self._until -= 1
        if not self._until:
            await asyncio.get_running_loop().create_future()
        await self._clock.sleep(seconds)


@given(st.lists(st.booleans(), max_size=200), st.floats(0, 1))
def test_a_wait_is_never_longer_than_the_longest_and_a_success_forgives(fates: list[bool], chance: float) -> None:
    clock = FixedClock()
    backoff = ReconnectBackoff(5, clock, lambda: chance)
    for good in fates:
        if good:
            backoff.began()
            assert not backoff.exhausted
            backoff.broke()
        else:
            backoff.failed()
        assert 0 <= backoff.delay() <= LONGEST_DELAY


def test_failures_in_a_row_make_waits_that_double() -> None:
    clock = FixedClock()
    backoff = ReconnectBackoff(3, clock, lambda: 1.0)
    waits = []
    for _ in range(4):
        backoff.failed()
        waits.append(backoff.delay())
    assert waits == [FIRST_DELAY * 2**n for n in range(4)]
    assert backoff.exhausted
    backoff.began()
    clock.advance(STEADY)
    backoff.broke()
    assert (backoff.exhausted, backoff.delay()) == (False, FIRST_DELAY)


# ── changes ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("era", ERAS)
async def test_a_changed_list_is_told_of(era: str) -> None:
    heard = ConnectionNotices()
    async with connected(raw(era), on_change=heard) as connection:
        await call(connection, "storm", count=1)
        await heard.until("tools")


async def test_a_stream_of_notices_that_ends_is_opened_again_and_what_was_missed_is_told() -> None:
    heard = ConnectionNotices()
    async with connected(raw("modern"), on_change=heard, clock=_Hasty()) as connection:
        await call(connection, "stop_listening")
        await heard.until("tools")


class _Hasty(FixedClock):
    """Sleeps end at once, and let others do something."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        await asyncio.sleep(0)


@pytest.mark.parametrize("era", ERAS)
async def test_a_watched_resource_is_told_of_also_after_the_connection_was_lost(era: str) -> None:
    heard = ConnectionNotices()
    async with connected(raw(era), on_change=heard) as connection:
        await connection.watch("file:///a")
        await heard.until("resource:file:///a")
        heard.told.clear()
        with pytest.raises(ServerLost):
            await call(connection, "die")
        await heard.until("resource:file:///a")


async def test_who_listens_and_fails_does_not_harm_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    def fail(what: str) -> None:
        raise RuntimeError("a listener that fails")

    async with connected(raw("modern"), on_change=fail) as connection:
        with pytest.raises(ServerLost):
            await call(connection, "die")
        assert await call(connection, "echo") == "{}"
    assert "a listener that fails" in caplog.text


async def test_notices_without_end_are_told_of_ever_less_often() -> None:
    clock, told = FixedClock(), list[str]()
    notices = NoticeThrottle(0.5, told.append, clock)

    def more(what: str) -> None:
        told.append(what)
        if len(told) < 8:
            notices.add("tools")
            notices.add("tools")

    notices = NoticeThrottle(0.5, more, clock)
    notices.add("tools")
    await until(lambda: len(told) == 8)
    await notices.aclose()
    assert clock.slept[:8] == [0.5, 1, 2, 4, 8, 16, 30, 30]


async def test_who_is_cancelled_while_closing_leaves_nothing_behind() -> None:
    connection = McpConnection("srv", raw("legacy"), McpLinkTerms(bounds=QUICK))
    await connection.open()
    pid = int(await call(connection, "pid"))
    closing = asyncio.create_task(connection.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await until(lambda: gone(pid))
    await connection.aclose()


# ── who uses it ──────────────────────────────────────────────────────────────────────


async def test_many_calls_at_once_each_have_their_own_answer() -> None:
    async with connected(raw("modern")) as connection:
        found = await asyncio.gather(*(call(connection, "echo", n=n) for n in range(50)))
        assert found == [f'{{"n": {n}}}' for n in range(50)]


async def test_a_cancelled_caller_is_cancelled_and_nobody_else() -> None:
    async with connected(raw("modern")) as connection:
        waiting = asyncio.create_task(call(connection, "silent"))
        await call(connection, "echo")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(PATIENCE):
                await waiting
        assert await call(connection, "echo") == "{}"


@pytest.mark.parametrize("raised", [ServerLost("x", "y", sent=True), TimeoutError("mine")])
async def test_what_the_work_itself_raises_in_our_words_comes_out_unchanged(raised: Exception) -> None:
    async def work(client: Any) -> None:
        raise raised

    async with connected(raw("modern")) as connection:
        with pytest.raises(type(raised)) as found:
            await connection.use(work, resend=False)
        assert found.value is raised


async def test_headers_are_sent_and_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with served() as web, connected(HttpEndpoint(url=web.url, headers={"x-key": "mine"})) as connection:
        assert await call(connection, "echo") == "{}"
        assert {each.get("x-key") for each in web.headers} == {"mine"}
        assert {each["accept-encoding"] for each in web.headers} == {"identity"}


async def test_no_key_and_no_session_of_ours_is_in_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with served(modern=False) as web:
        address = web.url.replace("http://", "http://ada:hunter2@") + "?key=s3cret"
        async with connected(HttpEndpoint(url=address)) as connection:
            await call(connection, "echo")
            assert web.sessions and not any(session in caplog.text for session in web.sessions)
    assert f"http://127.0.0.1:{web.port}/mcp" in caplog.text
    assert "hunter2" not in caplog.text and "s3cret" not in caplog.text


async def test_a_proxy_that_was_asked_for_is_used() -> None:
    connected_to: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected_to.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    async with server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(McpError):
            async with connected(HttpEndpoint(url="http://there.invalid/mcp", proxy=address)):
                raise NotImplementedError
    assert connected_to[0].startswith(b"POST http://there.invalid/mcp")
