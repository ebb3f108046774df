"""The files of the page: each of them as it lies in the package, held to itself by its headers, and nothing else."""

from __future__ import annotations

import asyncio
import gzip
import posixpath
import re
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import handrail.desk
from handrail.node.server.page import HEADERS, INDEX, MEDIA, POLICY, UNDER, PageFile, page_files
from tests.node.server.http_node import NodeFixture, client, serving

WEB = Path(handrail.desk.__file__).parent / "page"
OTHER = "http://app.example"


@pytest.fixture(scope="module")
def files() -> dict[str, PageFile]:
    return page_files()


def path_of(name: str) -> str:
    return "/" if name == INDEX else f"{UNDER}{name}"


def test_every_file_of_the_page_is_known_with_its_kind(files: dict[str, PageFile]) -> None:
    there = {each.relative_to(WEB).as_posix(): each for each in WEB.rglob("*") if each.is_file()}

    assert INDEX in files
    assert {name: file.data for name, file in files.items()} == {
        name: each.read_bytes() for name, each in there.items()
    }
    assert all(file.media_type == MEDIA[Path(name).suffix] for name, file in files.items())


def test_the_page_names_no_file_that_is_not_there(files: dict[str, PageFile]) -> None:
    named = re.findall(r'(?:src|href)="(/[^"]*)"', files[INDEX].data.decode())

    assert named
    assert {each for each in named if each.removeprefix(UNDER) not in files} == set()


def test_no_module_of_the_page_asks_for_one_that_is_not_there(files: dict[str, PageFile]) -> None:
    modules = {name: file.data.decode() for name, file in files.items() if name.endswith(".js")}
    wanted = {
        (name, posixpath.normpath(posixpath.join(posixpath.dirname(name), each)))
        for name, text in modules.items()
        for each in re.findall(r"""(?:^import |^export |\bfrom |\bimport\()\s*["'](\.[^"']+)["']""", text, re.MULTILINE)
    }

    assert wanted
    assert {each for each in wanted if each[1] not in modules} == set()


async def test_each_file_is_served_with_the_headers_that_hold_the_page_to_itself(files: dict[str, PageFile]) -> None:
    async with serving(NodeFixture(page=True)) as url, client(url) as http:
        for name, file in files.items():
            found = await http.get(path_of(name))

            assert (found.status_code, found.content) == (200, file.data), name
            assert found.headers["content-type"] == file.media_type
            assert {key: found.headers[key] for key in HEADERS} == HEADERS
            assert not [key for key in found.headers if key.startswith("access-control-") or key == "set-cookie"]


def test_the_policy_lets_no_script_style_frame_or_address_of_others_in() -> None:
    stated = {name: rest for name, _, rest in (each.strip().partition(" ") for each in POLICY.split(";"))}

    assert stated["default-src"] == "'none'"
    assert stated["script-src"] == stated["style-src"] == stated["connect-src"] == "'self'"
    assert stated["base-uri"] == stated["form-action"] == stated["frame-ancestors"] == "'none'"
    assert stated["require-trusted-types-for"] == "'script'" and stated["trusted-types"] == "'none'"
    assert "unsafe" not in POLICY and "http" not in POLICY and "*" not in POLICY


async def test_a_browser_that_has_a_file_is_told_so_and_gets_it_packed_otherwise(files: dict[str, PageFile]) -> None:
    async with serving(NodeFixture(page=True)) as url, client(url) as http:
        first = await http.get("/", headers={"accept-encoding": "br, gzip;q=0.5"})
        same = await http.get("/", headers={"if-none-match": f'"other", {first.headers["etag"]}'})
        other = await http.get("/", headers={"if-none-match": '"other"', "accept-encoding": "gzip;q=0"})

        assert first.headers["content-encoding"] == "gzip"
        assert int(first.headers["content-length"]) == len(files[INDEX].packed) < len(files[INDEX].data)
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", first.headers["etag"])
        assert same.headers["content-security-policy"] == POLICY
        assert (other.status_code, "content-encoding" in other.headers) == (200, False)


def test_what_is_packed_is_what_is_served(files: dict[str, PageFile]) -> None:
    assert all(gzip.decompress(file.packed) == file.data for file in files.values())


async def test_only_looking_is_possible(files: dict[str, PageFile]) -> None:
    async with serving(NodeFixture(page=True)) as url, client(url) as http:
        head = await http.head("/")
        put = await http.put("/", content=b"x")
        asked = await http.options(f"{UNDER}{next(iter(files))}")

        assert (head.status_code, head.content) == (200, b"")
        assert int(head.headers["content-length"]) > 0
        assert (put.status_code, put.json()["error"], put.headers["allow"]) == (
            405,
            "bad_request",
            "GET, HEAD, OPTIONS",
        )
        assert (asked.status_code, asked.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page",
        "/page/page.py",
        "/page/../page.py",
        "/page/%2e%2e/page.py",
        "/page/..%2f..%2fcore%2fredact.py",
        "/page//etc/passwd",
        "/page/%00index.html",
        "/page/style",
        "/page/INDEX.HTML",
        "/index.html",
    ],
)
async def test_what_is_no_file_of_the_page_is_not_there(path: str) -> None:
    async with serving(NodeFixture(page=True)) as url:
        assert (await raw(url, path)).startswith(b"HTTP/1.1 404")


@given(names=st.lists(st.text(max_size=40), min_size=1, max_size=20))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_whatever_reaches_another_file(files: dict[str, PageFile], names: list[str]) -> None:
    async def look() -> None:
        async with serving(NodeFixture(page=True)) as url:
            for name in names:
                found = await raw(url, f"{UNDER}{quote(name, safe='/.')}")
                assert name in files or not found.startswith(b"HTTP/1.1 200")

    asyncio.run(look())


async def test_a_page_of_another_origin_gets_no_leave_to_read_it_even_where_it_may_use_the_node() -> None:
    async with serving(NodeFixture(page=True, origins=(OTHER,))) as url, client(url) as http:
        of_page = await http.get("/", headers={"origin": OTHER})
        preflight = {"origin": OTHER, "access-control-request-method": "GET"}
        asked = await http.options("/", headers=preflight)
        of_node = await http.get("/health", headers={"origin": OTHER})
        stranger = await http.get("/", headers={"origin": "http://evil.example"})

        assert of_node.headers["access-control-allow-origin"] == OTHER
        assert "access-control-allow-origin" not in of_page.headers
        assert "access-control-allow-origin" not in asked.headers
        assert stranger.status_code == 403


async def test_a_node_without_a_page_has_none() -> None:
    async with serving(NodeFixture()) as url, client(url) as http:
        answers = [await http.get(path) for path in ("/", "/page/main.js")]

        assert [each.status_code for each in answers] == [404, 404]
        assert answers[0].json()["error"] == "not_found"


async def test_a_name_that_the_node_does_not_go_by_gets_no_page() -> None:
    async with serving(NodeFixture(page=True)) as url, client(url) as http:
        assert (await http.get("/", headers={"host": "evil.example"})).status_code == 421


async def raw(url: str, path: str) -> bytes:
    """What the node answers to a path that no client writes like this."""
    host, _, port = httpx2.URL(url).netloc.decode().partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
