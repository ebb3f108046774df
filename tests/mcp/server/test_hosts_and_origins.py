"""A web page that points a name of its own at this machine gets no answer, and neither does one of a foreign origin."""

from __future__ import annotations

import httpx2
import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import UsageError
from handrail.http.request_guard import AccessKeys, AccessRequirements, is_loopback
from handrail.mcp.server.http import serve_http
from handrail.tools.tool import tool
from tests.mcp.server.http_clients import ModernHttpClient, serving
from tests.mcp.server.server_setup import scene

LOCAL = AccessRequirements.of("127.0.0.1")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def status(url: str, **headers: str) -> int:
    async with ModernHttpClient(url) as wire:
        return (await wire.send("server/discover", headers=headers)).status_code


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil:1", ""])
async def test_a_forged_host_is_misdirected(host: str) -> None:
    async with serving(scene(add).served) as url:
        assert await status(url, host=host) == 421


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1.evil.example", "file://", "chrome-extension://localhost"],
)
async def test_a_page_of_a_foreign_origin_is_forbidden(origin: str) -> None:
    async with serving(scene(add).served) as url:
        assert await status(url, origin=origin) == 403


async def test_this_machine_may_use_it_under_each_of_its_names() -> None:
    async with serving(scene(add).served) as url:
        port = httpx2.URL(url).port
        for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
            assert await status(url, host=f"{name}:{port}", origin=f"http://{name}:{port}") == 200


async def test_names_and_origins_that_were_given_are_let_in_beside() -> None:
    async with serving(scene(add).served, hosts=["box.example"], origins=["https://app.example"]) as url:
        assert await status(url, host="box.example", origin="https://app.example") == 200
        assert await status(url, host="box.example", origin="https://other.example") == 403
        assert await status(url, host="other.example") == 421


async def test_pages_are_told_that_they_may_only_where_origins_were_given() -> None:
    ask = {"origin": "https://app.example", "access-control-request-method": "POST"}
    async with serving(scene(add).served, origins=["https://app.example"]) as url, httpx2.AsyncClient() as http:
        said = await http.options(url, headers=ask)
        assert (said.status_code, said.headers["access-control-allow-origin"]) == (200, "https://app.example")
    async with serving(scene(add).served) as url, httpx2.AsyncClient() as http:
        said = await http.options(url, headers={**ask, "origin": "http://localhost:1"})
        assert "access-control-allow-origin" not in said.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "box.example"])
async def test_it_is_not_opened_to_other_machines_without_a_token(host: str) -> None:
    with pytest.raises(UsageError, match="other machines"):
        await serve_http(scene(add).served, host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_loopback_is_known_in_all_its_spellings(host: str) -> None:
    assert is_loopback(host)


names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


@given(names)
def test_no_other_name_is_taken_for_one_of_ours(name: str) -> None:
    bare = name.lower().rpartition(":")[0] if name.rpartition(":")[2].isdecimal() and ":" in name else name.lower()
    assert LOCAL.knows_host(name) == (bare in {"localhost", "127.0.0.1", "[::1]"})


@given(names)
def test_a_name_with_something_before_or_after_it_is_another_name(extra: str) -> None:
    for name in ("localhost", "127.0.0.1"):
        assert not LOCAL.knows_origin(f"http://{extra}.{name}x")
        assert not LOCAL.knows_host(f"{name}.{extra}") or extra == ""


def test_an_address_is_given_as_it_is_and_comes_in_brackets() -> None:
    doors = AccessRequirements.of("::1", hosts=["fd00::7", "10.0.0.7", "box.example"])
    for host in ("[fd00::7]", "[FD00::7]:80", "10.0.0.7:80", "box.example", "[::1]:80"):
        assert doors.knows_host(host)


def test_a_port_that_was_named_is_the_only_one() -> None:
    doors = AccessRequirements.of("127.0.0.1", hosts=["box.example:8080"])
    assert doors.knows_host("box.example:8080")
    assert not doors.knows_host("box.example:8081")
    assert not doors.knows_host("box.example")


@pytest.mark.parametrize("token", ["", "  ", {"ann": "one", "bob": ""}])
def test_a_token_that_is_empty_is_refused(token: str | dict[str, str]) -> None:
    with pytest.raises(UsageError, match="everybody"):
        AccessKeys(token)


@given(st.text(), st.text(min_size=1).filter(str.strip))
def test_only_the_token_itself_opens(said: str, token: str) -> None:
    keys = AccessKeys({"ann": token})
    assert (keys.holder(f"Bearer {said}") == "ann") == (said.strip() == token.strip())
    assert keys.holder(said) is None or said.lower().startswith("bearer ")
    assert keys.holder(None) is None
