"""Tools that are HTTP requests, to a real server on this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, strategies as st

from handrail.core.errors import InDoubt, InvalidArguments, InvalidOutput, ToolError
from handrail.tools.files.build import build_tool
from handrail.tools.files.http_exchange import send_http_request
from handrail.tools.files.http_handler import HttpHandler, HttpToolRequest
from handrail.tools.files.request_templates import origin_of
from handrail.tools.tool import Tool
from tests.models.raw_reply_server import own_certificate
from tests.tools.files.tool_file_calls import call, texts

ANY = {"type": "object", "properties": {"q": {}, "tags": {"type": "array"}, "n": {"type": "integer"}}}


def http(url: str, schema: dict[str, Any] | None = None, **more: Any) -> Tool:
    return build_tool({"name": "t", "arguments": schema or texts("x"), "http": {"url": url, **more}})


def request(tool: Tool, key: str = "", /, **arguments: Any) -> HttpToolRequest:
    assert isinstance(tool.handler, HttpHandler)
    return tool.handler.request(arguments, key)


async def echo(asked: web.Request) -> web.Response:
    return web.json_response(
        {
            "method": asked.method,
            "path": asked.raw_path,
            "headers": dict(asked.headers),
            "body": (await asked.read()).decode(),
        }
    )


async def fixed(asked: web.Request) -> web.Response:
    match asked.match_info["what"]:
        case "text":
            return web.Response(text="grüß", charset="latin-1")
        case "broken":
            return web.Response(text="{", content_type="application/json")
        case "nothing":
            return web.Response(status=204)
        case "large":
            return web.Response(text="x" * 5000)
        case "teapot":
            return web.Response(status=418, text="I am " + "a" * 9000)
        case "repeats":
            return web.Response(status=401, text=f"bad header {asked.headers['Authorization']}")
        case "there":
            raise web.HTTPFound("/echo/here")
        case "elsewhere":
            raise web.HTTPFound("http://elsewhere.invalid/")
        case _:
            raise web.HTTPFound("/fixed/round")


@pytest.fixture
async def server() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/echo/{tail:.*}", echo)
    app.router.add_get("/fixed/{what}", fixed)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


@asynccontextmanager
async def speaking(answer: Any, tls: Any = None) -> AsyncIterator[str]:
    """A server of bytes, for what a good one never does."""
    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


def saying(answer: bytes) -> Any:
    """Says this to whoever asks, and hangs up."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    return say


async def test_path_query_and_headers_are_filled_and_the_json_answer_is_the_result(server: str) -> None:
    tool = http(
        f"{server}/echo/{{q}}",
        {**ANY, "required": ["q"]},
        query={"n": "{n?}", "tag": "{tags...}", "limit": 3, "full": True},
        headers={"X-Query": "is {q}"},
    )
    answer = await call(tool, q="a/b ü?", tags=["x", "y&z"])
    assert answer["path"] == "/echo/a%2Fb%20%C3%BC%3F?tag=x&tag=y%26z&limit=3&full=true"
    assert answer["headers"]["X-Query"] == "is a/b ü?"
    assert "Idempotency-Key" not in answer["headers"]


async def test_json_and_text_bodies_are_sent_with_the_idempotency_key(server: str) -> None:
    schema = {**ANY, "required": ["q"]}
    post = http(f"{server}/echo/", schema, method="POST", json={"q": "{q}", "n": "{n?}", "all": ["{tags...}"]})
    answer = await call(post, q={"deep": 1}, tags=["a"])
    assert (answer["method"], answer["body"]) == ("POST", '{"q":{"deep":1},"all":["a"]}')
    assert answer["headers"]["Content-Type"] == "application/json"
    assert answer["headers"]["Idempotency-Key"] == "key-1"
    put = http(f"{server}/echo/", schema, method="PUT", body="q={q}", headers={"Content-Type": "text/x"})
    answer = await call(put, q="ü")
    assert (answer["body"], answer["headers"]["Content-Type"]) == ("q=ü", "text/x")


async def test_the_answer_is_read_by_its_type_or_as_the_file_expects(server: str) -> None:
    def fixed(what: str, **more: Any) -> Tool:
        return http(f"{server}/fixed/{what}", **more)

    assert await call(fixed("text")) == "grüß"
    assert await call(fixed("nothing")) == ""
    assert await call(fixed("broken", expect="text")) == "{"
    for tool in (fixed("broken"), fixed("text", expect="json")):
        with pytest.raises(InvalidOutput):
            await call(tool)


async def test_a_head_is_answered_by_its_status_alone(server: str) -> None:
    async with asyncio.timeout(10):
        assert await call(http(f"{server}/echo/", method="HEAD", expect="text")) == ""


@pytest.mark.parametrize("charset", ["no-such", "idna", "hex", "undefined"])
async def test_a_charset_that_nobody_knows_is_read_as_utf_8(charset: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset={charset}\r\ncontent-length: 2\r\n\r\nü"
    async with speaking(saying(answer.encode())) as address:
        assert await call(http(address, method="POST")) == "ü"


async def test_an_error_status_is_a_tool_error_with_a_bounded_text(server: str) -> None:
    with pytest.raises(ToolError) as caught:
        await call(http(f"{server}/fixed/teapot"))
    assert caught.value.code == "http_418"
    assert 1000 < len(caught.value.message) < 2100


async def test_an_error_status_counts_although_its_words_break_off() -> None:
    async with speaking(saying(b"HTTP/1.1 422 No\r\ncontent-length: 99\r\n\r\nno such city")) as address:
        with pytest.raises(ToolError) as caught:
            await call(http(address, method="POST"))
    assert (caught.value.code, caught.value.message) == ("http_422", "422 No: no such city")


async def test_an_answer_beyond_the_bound_is_refused(server: str) -> None:
    with pytest.raises(ToolError) as caught:
        await call(http(f"{server}/fixed/large", max_bytes=4999))
    assert caught.value.code == "response_too_large"
    assert len(await call(http(f"{server}/fixed/large", max_bytes=5000))) == 5000


async def test_redirects_are_followed_only_when_asked_and_only_to_the_same_host(server: str) -> None:
    with pytest.raises(ToolError) as caught:
        await call(http(f"{server}/fixed/there"))
    assert caught.value.code == "http_302"
    assert (await call(http(f"{server}/fixed/there", redirects=True)))["path"] == "/echo/here"
    with pytest.raises(ToolError) as caught:
        await call(http(f"{server}/fixed/elsewhere", redirects=True))
    assert caught.value.code == "redirected"
    with pytest.raises(ToolError) as caught:
        await call(http(f"{server}/fixed/round", redirects=True))
    assert caught.value.code == "http_302"


async def test_a_secret_is_read_at_call_time_sent_and_never_shown(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = http(f"{server}/echo/", headers={"Authorization": "Bearer env:T_TOKEN"})
    monkeypatch.delenv("T_TOKEN", raising=False)
    with pytest.raises(ToolError) as caught:
        await call(tool)
    assert caught.value.code == "not_configured"
    monkeypatch.setenv("T_TOKEN", "s3cr3t-value")
    assert request(tool).headers["Authorization"] == "Bearer s3cr3t-value"
    assert (await call(tool))["headers"]["Authorization"] == "Bearer [redacted]"
    with pytest.raises(ToolError) as caught:
        await call(http(f"{server}/fixed/repeats", headers={"Authorization": "env:T_TOKEN"}))
    assert caught.value.code == "http_401"
    assert "s3cr3t" not in f"{caught.value.message} {tool!r} {request(tool)!r}"


@pytest.mark.parametrize("said", ["302 Found\r\nlocation: /?key=s3cr3t-value", "400 No s3cr3t-value"])
async def test_a_secret_in_the_head_of_an_answer_is_not_shown(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T_TOKEN", "s3cr3t-value")
    async with speaking(saying(f"HTTP/1.1 {said}\r\ncontent-length: 0\r\n\r\n".encode())) as address:
        with pytest.raises(ToolError) as caught:
            await call(http(address, headers={"Authorization": "env:T_TOKEN"}))
    assert "[redacted]" in caught.value.message
    assert "s3cr3t" not in caught.value.message


async def test_a_secret_with_a_line_break_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T_TOKEN", "s3cr3t\n")
    with pytest.raises(ToolError) as caught:
        request(http("http://h/", headers={"A": "env:T_TOKEN"}))
    assert (caught.value.code, "s3cr3t" in caught.value.message) == ("not_configured", False)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x7fb", "a\0b"])
def test_a_line_break_never_reaches_a_header(value: str) -> None:
    with pytest.raises(InvalidArguments):
        request(http("http://h/", headers={"X": "v {x}"}), x=value)


@pytest.mark.parametrize("value", ["..", ".", ""])
def test_a_value_cannot_climb_out_of_its_path(value: str) -> None:
    with pytest.raises(InvalidArguments):
        request(http("http://h/files/{x}"), x=value)


@pytest.mark.parametrize(
    "value", ["@evil.example", "//evil.example/", "http://evil.example", ":81", "\\\\evil", "?a#b", "../x"]
)
def test_a_value_cannot_change_the_host(value: str) -> None:
    asked = request(http("http://h:80/{x}?y={x}"), x=value)
    assert asked.url.startswith("http://h:80/")
    assert asked.url.count("/") == 3


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(lambda x: x not in (".", ".."))
)
def test_whatever_the_value_the_url_keeps_its_origin_and_its_parts(value: str) -> None:
    url = request(http("https://h/a/{x}/b?c={x}&d", query={"e": "{x}"}), x=value).url
    assert origin_of(url) == "https://h"
    assert (url.count("/"), url.count("?"), url.count("&"), url.count("#")) == (5, 1, 2, 0)


async def test_nobody_there_is_a_failure_and_nothing_was_done() -> None:
    async with speaking(None) as address:
        pass
    with pytest.raises(ToolError) as caught:
        await call(http(address, method="POST"))
    assert (caught.value.code, caught.value.outcome) == ("network", "failed")


async def test_a_connection_that_breaks_leaves_a_side_effect_in_doubt() -> None:
    async with speaking(saying(b"")) as address:
        with pytest.raises(InDoubt):
            await call(http(address, method="POST"))
        with pytest.raises(ToolError) as caught:
            await call(http(address))
    assert caught.value.code == "network"


async def test_encryption_that_breaks_after_the_request_leaves_a_side_effect_in_doubt() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        os.write(writer.get_extra_info("socket").fileno(), b"this is not encrypted")
        await reader.read()
        writer.close()

    certificate = own_certificate()
    async with speaking(babble, certificate.server) as address:
        with pytest.raises(InDoubt):
            await send_http_request(
                HttpToolRequest("POST", address.replace("http:", "https:"), {}, b""),
                expect=None,
                redirects=False,
                max_bytes=99,
                side_effects=True,
                tls=certificate.client,
            )


async def test_a_cancelled_request_closes_its_connection() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        left.set()
        writer.close()
        await writer.wait_closed()

    async with asyncio.timeout(10), speaking(wait) as address:
        task = asyncio.create_task(call(http(address)))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left.wait()
