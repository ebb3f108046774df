"""`http_fetch` against real servers on this machine."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from handrail import Ensemble
from handrail.http import HttpAddress, HttpClient, request_head
from handrail.library.io import IoLimits, IoSettings
from handrail.library.io.addresses import Resolve
from handrail.library.io.html_text import html_to_text
from handrail.library.io.http_fetch import fetch_tool
from tests.library.io.io_calls import Scene
from tests.models.raw_reply_server import own_certificate, serving

pytestmark = pytest.mark.requirement("converser.standard-ensembles")

HERE = ("127.0.0.0/8",)
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes | str = b"", status: int = 200, kind: str = "text/plain", **headers: str) -> list[bytes]:
    data = body.encode() if isinstance(body, str) else body
    lines = {"content-length": str(len(data)), **({"content-type": kind} if kind else {})}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = f"HTTP/1.1 {status} Said\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return [head.encode() + b"\r\n" + data]


def fetching(
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | bool = True,
    *,
    private: tuple[str, ...] = HERE,
    limits: IoLimits = IoLimits(),
) -> Scene:
    return Scene(Ensemble("io", [fetch_tool(IoSettings(hosts=("*",), private=private, limits=limits), resolve, tls)]))


def always(*addresses: str) -> Resolve:
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


async def test_a_text_is_fetched_and_its_words_are_marked_as_from_outside() -> None:
    async with serving(answer("hello")) as server, fetching() as io:
        result = await io.call("http_fetch", url=f"{server.url}/a?b=c#d")

    assert result.text == f"hello\n[from {server.url}/a?b=c#d]"
    assert result.untrusted
    (asked,) = server.asked
    assert asked.path == "/a?b=c"
    assert set(asked.headers) == {"host", "user-agent", "accept", "accept-encoding", "connection"}


async def test_a_name_is_asked_at_the_address_that_was_checked_and_by_its_name() -> None:
    async with serving(answer("hello")) as server, fetching(always("127.0.0.1")) as io:
        port = server.url.rpartition(":")[2]
        await io.text("http_fetch", url=f"http://Example.Test.:{port}/")

    assert server.asked[0].headers["host"] == f"example.test:{port}"


async def test_the_next_address_is_tried_when_one_cannot_be_reached() -> None:
    async with serving(answer("hello")) as server, fetching(always("127.0.0.9", "127.0.0.1")) as io:
        port = server.url.rpartition(":")[2]
        assert "hello" in await io.text("http_fetch", url=f"http://example.test:{port}/")


async def test_the_certificate_is_held_to_the_name_and_not_to_the_address() -> None:
    certificate = own_certificate("good.test")
    async with (
        serving(answer("hello"), tls=certificate.server) as server,
        fetching(always("127.0.0.1"), certificate.client) as io,
    ):
        port = server.url.rpartition(":")[2]
        assert "hello" in await io.text("http_fetch", url=f"https://good.test:{port}/")
        assert await io.code("http_fetch", url=f"https://other.test:{port}/") == "network"


async def test_headers_alone_can_be_asked_for() -> None:
    async with serving(answer(b"", kind="image/png", etag='"x"', set_cookie="secret")) as server, fetching() as io:
        text = await io.text("http_fetch", url=server.url, method="HEAD")

    assert 'etag: "x"' in text
    assert "secret" not in text


async def test_an_error_is_told_with_what_was_said() -> None:
    page = "<html><body><h1>Gone</h1><p>It is not here.</p></body></html>"
    async with serving(answer(page, 404, "text/html"), answer("", 500)) as server, fetching() as io:
        missing = await io.call("http_fetch", url=server.url)
        assert await io.code("http_fetch", url=server.url) == "http_500"

    assert missing.error is not None
    assert missing.error.code == "http_404"
    assert missing.error.message == f"{server.url} answered 404 Said: # Gone\n\nIt is not here."


async def test_nobody_there_is_said_so() -> None:
    async with serving() as server:
        url = server.url
    async with fetching() as io:
        assert await io.code("http_fetch", url=url) == "network"


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/pdf", "video/mp4"])
async def test_what_is_no_text_is_refused_by_its_type(kind: str) -> None:
    async with serving(answer(b"\0" * 100, kind=kind)) as server, fetching() as io:
        result = await io.call("http_fetch", url=server.url)

    assert result.error is not None
    assert (result.error.code, f"{kind} of 100 bytes" in result.error.message) == ("not_text", True)


@pytest.mark.parametrize(
    "kind", ["application/json", "application/ld+json", "text/csv; charset=utf-8", "image/svg+xml", ""]
)
async def test_what_is_text_is_read_as_it_is(kind: str) -> None:
    async with serving(answer('{"grün": 1}', kind=kind)) as server, fetching() as io:
        assert (await io.text("http_fetch", url=server.url)).startswith('{"grün": 1}')


@pytest.mark.parametrize(
    ("charset", "data"),
    [
        ("latin-1", "grün".encode("latin-1")),
        ("no-such", "grün".encode()),
        ("PunyCode", "grün".encode()),  # it would take the square of the length
        ("unicode_escape", "grün".encode()),
    ],
)
async def test_the_charset_is_as_the_answer_says_if_there_is_one(charset: str, data: bytes) -> None:
    async with serving(answer(data, kind=f"text/plain; charset={charset}")) as server, fetching() as io:
        assert (await io.text("http_fetch", url=server.url)).startswith("grün")


async def test_a_long_answer_is_cut_and_a_packed_one_is_unpacked_only_so_far() -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    async with (
        serving(answer("y" * 5_000), answer(bomb, content_encoding="gzip")) as server,
        fetching(limits=IoLimits(fetch=1_000)) as io,
    ):
        assert (
            await io.text("http_fetch", url=server.url) == "y" * 1_000 + f"\n[from {server.url}; cut after 1,000 bytes]"
        )
        assert (
            await io.text("http_fetch", url=server.url) == "x" * 1_000 + f"\n[from {server.url}; cut after 1,000 bytes]"
        )


async def test_a_packing_that_was_not_asked_for_is_refused() -> None:
    async with serving(answer(b"\x1b", content_encoding="br")) as server, fetching() as io:
        assert await io.code("http_fetch", url=server.url) == "not_text"


# Redirects.


async def test_redirects_are_followed_a_few_times() -> None:
    hops = [answer("", 302, location=f"/{n}") for n in range(5)]
    async with serving(*hops, answer("there"), *hops, answer("", 302, location="/again")) as server, fetching() as io:
        assert await io.text("http_fetch", url=server.url) == f"there\n[from {server.url}/4]"
        assert await io.code("http_fetch", url=server.url) == "redirected"


async def test_a_redirect_to_letters_that_somebody_wrote_plainly_is_followed() -> None:
    async with serving(answer("", 302, location="/grün und%20gut"), answer("there")) as server, fetching() as io:
        assert await io.text("http_fetch", url=server.url) == f"there\n[from {server.url}/gr%C3%BCn%20und%20gut]"


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://127.0.0.2/", "private_address"),
        ("//127.0.0.2/", "private_address"),
        ("http://[::ffff:127.0.0.1]/", "private_address"),
        ("http://169.254.169.254/latest/meta-data/", "private_address"),
        ("http://2130706433/", "bad_url"),
        ("http://user:pw@127.0.0.1/", "bad_url"),
        ("file:///etc/passwd", "bad_url"),
        ("gopher://127.0.0.1/", "bad_url"),
        ("http://[", "redirected"),
    ],
)
async def test_where_an_answer_leads_is_checked_like_the_first(location: str, code: str) -> None:
    async with serving(answer("", 302, location=location)) as server, fetching(private=("127.0.0.1/32",)) as io:
        assert await io.code("http_fetch", url=server.url) == code


async def test_no_redirect_leads_from_https_to_http() -> None:
    certificate = own_certificate("good.test")
    async with (
        serving(answer("", 301, location="http://good.test/"), tls=certificate.server) as server,
        fetching(always("127.0.0.1"), certificate.client) as io,
    ):
        port = server.url.rpartition(":")[2]
        assert await io.code("http_fetch", url=f"https://good.test:{port}/") == "redirected"


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(answer("hello")) as server, fetching() as io:
        assert "hello" in await io.text("http_fetch", url=server.url)


# DNS rebinding: a name whose address changes between the check and the connection.


@asynccontextmanager
async def two_servers(public: list[bytes], secret: list[bytes]) -> AsyncIterator[tuple[int, list[str]]]:
    """The same port at 127.0.0.2, which stands for outside, and at 127.0.0.1; and who was asked."""
    asked: list[str] = []

    def saying(name: str, said: list[bytes]) -> Serve:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            asked.append(name)
            writer.writelines(said)
            writer.close()

        return serve

    outside = await asyncio.start_server(saying("outside", public), "127.0.0.2", 0)
    port = outside.sockets[0].getsockname()[1]
    inside = await asyncio.start_server(saying("inside", secret), "127.0.0.1", port)
    async with outside, inside:
        yield port, asked


def changing(*answers: str) -> tuple[Resolve, list[str]]:
    """Gives its answers in turn, and then the last for ever."""
    left, given = list(answers), []

    async def resolve(host: str, port: int) -> list[str]:
        given.append(left.pop(0) if len(left) > 1 else left[0])
        return [given[-1]]

    return resolve, given


async def test_a_name_that_changes_its_address_is_asked_where_it_was_checked() -> None:
    resolve, given = changing("127.0.0.2", "127.0.0.1")
    async with (
        two_servers(answer("public"), answer("secret")) as (port, asked),
        fetching(resolve, private=("127.0.0.2/32",)) as io,
    ):
        assert (await io.text("http_fetch", url=f"http://rebind.test:{port}/")).startswith("public")
        assert await io.code("http_fetch", url=f"http://rebind.test:{port}/") == "private_address"

    assert (given, asked) == (["127.0.0.2", "127.0.0.1"], ["outside"])


async def test_a_name_that_changes_its_address_between_redirects_is_refused() -> None:
    resolve, given = changing("127.0.0.2", "127.0.0.1")
    async with (
        two_servers(answer("", 302, location="/next"), answer("secret")) as (port, asked),
        fetching(resolve, private=("127.0.0.2/32",)) as io,
    ):
        assert await io.code("http_fetch", url=f"http://rebind.test:{port}/") == "private_address"

    assert (len(given), asked) == (2, ["outside"])


async def test_the_client_connects_where_it_is_told_and_keeps_such_connections_apart() -> None:
    async with serving(answer("one"), answer("two")) as server:
        address = HttpAddress.of(f"http://no-such-host.test:{server.url.rpartition(':')[2]}/")
        client = HttpClient()
        for at in ("127.0.0.1", "127.0.0.1"):
            said = await client.ask(address, request_head("GET", address, {}), at=at)
            while await said.read():
                pass
            said.close()
        with pytest.raises(OSError):
            await client.ask(address, request_head("GET", address, {}), at="127.0.0.77")
        with pytest.raises(ValueError, match="only one"):  # a proxy would look the host up again
            await client.ask(address, request_head("GET", address, {}), at="127.0.0.1", proxy=server.url)
        await client.aclose()

    assert (server.connections, [asked.headers["host"] for asked in server.asked]) == (1, [address.authority] * 2)


# Pages.


async def test_a_page_comes_as_text_and_its_html_when_asked() -> None:
    page = "<title>T</title><script>alert(1)</script><p>a <a href='/x'>link</a></p>"
    async with serving(answer(page, kind="text/html"), answer(page, kind="text/html")) as server, fetching() as io:
        text = await io.text("http_fetch", url=server.url)
        raw = await io.text("http_fetch", url=server.url, raw=True)

    assert text == f"T\n\na link ({server.url}/x)\n[from {server.url}]"
    assert raw.startswith(page)


def test_a_page_is_read_as_people_see_it() -> None:
    page = """<!DOCTYPE html><html><head><title>A &amp; B</title><style>p { x: "</p>" }</style></head>
    <body><nav><a href="#top">skip</a></nav><h1>A &amp; B</h1>
    <p>One   <b>bold</b> word,<br>then <a href="https://example.org/?a=1&amp;b=2">a link</a>.</p>
    <ul><li>first</li><li>second</li></ul><!-- <p>not this</p> -->
    <pre>  kept
    as is</pre><table><tr><th>n</th><td>1 &lt; 2</td></tr></table>
    <script>if (a < b) { document.write("<p>no</p>") }</script><noscript>no</noscript></body></html>"""

    assert html_to_text(page) == (
        "A & B\n\nskip\n\n# A & B\n\nOne bold word,\nthen a link (https://example.org/?a=1&b=2).\n\n"
        "- first\n- second\n\n  kept\n    as is\n\n | n | 1 < 2"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<a title=\"a > b\" href='/x?a>b'>in</a>", "in (http://h/x?a>b)"),
        ("<p class=a>b>c", "b>c"),
        ('<p class="forgotten>one</p><p>two', "one\n\ntwo"),
        ("<title lang='>'>T</title><titles>x", "T\n\nx"),
        (f"&#{'1' * 5000}; &#x{'0' * 99}41 &#65;", "\ufffd \ufffd A"),
        ("<head><title>T</title><body><header>top</header>rest", "T\n\ntop\nrest"),
        ("one<svg/>two<svg><text>no</text></svg>three", "onetwothree"),
    ],
)
def test_a_page_that_is_hard_to_read_is_read_all_the_same(page: str, text: str) -> None:
    assert html_to_text(page, "http://h/") == text


@given(st.text(alphabet="<>/!-='\"& apscriptdh\n#;", max_size=200))
def test_any_page_is_read(page: str) -> None:
    assert isinstance(html_to_text(page, "http://example.org/"), str)


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a",
        "<a href='",
        "<!--",
        "<noscript>",
        "<script",
        "</",
        "<title",
        "<a href=x>y",
        "&",
        '<a b="',
        "<a b='\" c=\"'",
        "=",
    ],
)
async def test_a_page_made_to_take_long_does_not(piece: str) -> None:
    async with asyncio.timeout(60):
        await asyncio.to_thread(html_to_text, piece * (400_000 // len(piece)), "http://example.org/")


def test_nothing_of_the_page_is_a_path(tmp_path: Path) -> None:
    assert html_to_text(f"<a href='file://{tmp_path}'>x</a>", "http://example.org/") == f"x (file://{tmp_path})"
