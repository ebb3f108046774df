"""Faults of security by number, 36 and 38: paths that lead out of their root, and URLs that lead inside.

Every call goes through the executor, as a model makes it, with the ensemble that a user gets.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from handrail import Ensemble
from handrail.library.io import IoSettings, io_ensemble
from handrail.library.io.http_fetch import fetch_tool
from tests.library.io.io_calls import Scene, contents, tree

SECRET = "the secret outside"

# 36: path traversal, symlink race, prefix trick, ..%2f, NUL, case-fold.

OUT = {
    "up": "../secret",
    "up from below": "sub/../../secret",
    "absolute": "{base}/secret",
    "absolute, elsewhere": "/etc/passwd",
    "absolute, up": "{base}/data/../secret",
    "prefix": "{base}/data-evil/secret",
    "prefix by name": "../data-evil/secret",
    "another case": "{base}/DATA/secret",
    "a link to a file": "link",
    "a link to a folder": "links/secret",
    "a link by an absolute path": "absolute",
    "the root's name and up": "data:../secret",
    "the root's name and absolute": "data:{base}/secret",
    "percent": "..%2fsecret",
    "percent, twice": "..%252fsecret",
    "backslash": "..\\secret",
    "NUL": "../secret\0.txt",
    "NUL inside": "sub\0/../../secret",
    "dots of another script": "․․/secret",
    "home": "~/secret",
    "magic": "/proc/self/cwd/../secret",
    "half a character": "../\ud800/secret",
}


LINKS = {"data/link", "data/absolute", "data/stolen"}
"""Links that lead out. They can be moved and deleted, and are not followed."""


def base(tmp_path: Path) -> Path:
    tree(tmp_path, data__sub__a="inside", secret=SECRET, **{"data-evil__secret": SECRET, "DATA__secret": SECRET})
    (tmp_path / "data/link").symlink_to("../secret")
    (tmp_path / "data/links").symlink_to("..")
    (tmp_path / "data/absolute").symlink_to(tmp_path / "secret")
    return tmp_path


def on(tmp_path: Path) -> Scene:
    return Scene(io_ensemble(IoSettings(roots={"data": tmp_path / "data"}, write=("data",))))


@pytest.mark.parametrize("way", OUT)
async def test_case_36_no_path_leads_out_of_a_root(tmp_path: Path, way: str) -> None:
    before = contents(base(tmp_path))
    path = OUT[way].format(base=tmp_path)
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": path}),
        ("list_folder", {"path": path.removesuffix("/secret") if "/" in path else path}),
        ("find_text", {"path": path, "text": "secret"}),
        ("write_file", {"path": path, "text": "x", "mode": "overwrite"}),
        ("write_file", {"path": f"{path}/new", "text": "x", "parents": True}),
        ("edit_file", {"path": path, "edits": [{"old": "secret", "new": "x"}]}),
        ("make_folder", {"path": f"{path}-folder"}),
        ("move", {"source": path, "target": "stolen"}),
        ("move", {"source": "sub/a", "target": path, "overwrite": True}),
        ("delete", {"path": path, "recursive": True}),
    ]
    async with on(tmp_path) as io:
        said = [(await io.call(tool, **arguments)).text for tool, arguments in attempts]

    after = contents(tmp_path)
    assert SECRET not in "".join(said)
    assert {path: text for path, text in after.items() if not path.startswith("data/")} == {
        path: text for path, text in before.items() if not path.startswith("data/")
    }
    assert not any(SECRET in text for path, text in after.items() if path.startswith("data/") and path not in LINKS)


async def test_case_36_a_link_that_is_swapped_while_a_model_reads_and_writes_never_leads_out(tmp_path: Path) -> None:
    base(tmp_path)
    tree(tmp_path, data__real__f="inside", outside__f=SECRET)
    data, stop = tmp_path / "data", threading.Event()
    (data / "spare").symlink_to("../outside")

    def swap() -> None:
        while not stop.is_set():
            os.rename(data / "real", data / "way")
            os.rename(data / "way", data / "real")
            os.rename(data / "spare", data / "way")
            os.rename(data / "way", data / "spare")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        async with on(tmp_path) as io:
            said: set[str] = set()
            for _ in range(150):
                said.add((await io.call("read_file", path="way/f")).text)
                said.add((await io.call("find_text", path="way", text="s")).text)
                await io.call("write_file", path="way/f", text="inside", mode="overwrite")
    finally:
        stop.set()
        swapping.join()

    assert not any(SECRET in text for text in said)
    assert contents(tmp_path / "outside") == {"f": SECRET}


@pytest.mark.parametrize("special", ["pipe", "device"])
async def test_case_36_what_would_never_end_is_refused_at_once(tmp_path: Path, special: str) -> None:
    if special == "pipe":
        os.mkfifo(tmp_path / "special")
        root, path = tmp_path, "special"
    else:
        root, path = Path("/dev"), "zero"
    async with asyncio.timeout(30), Scene(io_ensemble(IoSettings(roots={"r": root}))) as io:
        assert await io.code("read_file", path=path) == "not_a_file"
        assert await io.code("find_text", path=path, text="x") == "not_a_file"


# 38: SSRF by a URL that a model was told to fetch.

INSIDE = {
    "this machine": "http://127.0.0.1:{port}/",
    "this machine by name": "http://localhost:{port}/",
    "any address": "http://0.0.0.0:{port}/",
    "a short form": "http://127.1:{port}/",
    "one number": "http://2130706433:{port}/",
    "hexadecimal": "http://0x7f000001:{port}/",
    "octal": "http://0177.0.0.1:{port}/",
    "a dot behind": "http://127.0.0.1.:{port}/",
    "IPv6": "http://[::1]:{port}/",
    "IPv4 in IPv6": "http://[::ffff:127.0.0.1]:{port}/",
    "IPv4 in IPv6, in hexadecimal": "http://[::ffff:7f00:1]:{port}/",
    "translated": "http://[64:ff9b::7f00:1]:{port}/",
    "tunnelled": "http://[2002:7f00:1::]:{port}/",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "metadata over IPv6": "http://[fd00:ec2::254]/latest/meta-data/",
    "a user that looks like a host": "http://example.org@127.0.0.1:{port}/",
    "a backslash": "http://example.org\\@127.0.0.1:{port}/",
    "digits of another script": "http://①②⑦.⓪.⓪.①:{port}/",
    "a name that leads here": "http://inside.test:{port}/",
    "a name that leads here too": "http://mixed.test:{port}/",
    "a file": "file:///etc/passwd",
    "another protocol": "gopher://127.0.0.1:{port}/",
}
NAMES = {
    "inside.test": ["127.0.0.1"],
    "mixed.test": ["93.184.216.34", "127.0.0.1"],
    "localhost": ["127.0.0.1", "::1"],
}


class Inside:
    """A service on this machine that nobody outside should be able to ask."""

    def __init__(self, said: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret") -> None:
        self.connections = 0
        self._said = said

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._said)
        writer.close()


async def named(host: str, port: int) -> list[str]:
    return NAMES[host]


@pytest.mark.parametrize("how", INSIDE)
async def test_case_38_no_url_reaches_this_machine_or_its_neighbours(how: str) -> None:
    inside = Inside()
    server = await asyncio.start_server(inside.serve, "127.0.0.1", 0)
    async with server, Scene(Ensemble("io", [fetch_tool(IoSettings(hosts=("*",)), named)])) as io:
        url = INSIDE[how].format(port=server.sockets[0].getsockname()[1])
        code = await io.code("http_fetch", url=url)

    assert (inside.connections, code in ("private_address", "bad_url")) == (0, True), code


@pytest.mark.parametrize("how", INSIDE)
async def test_case_38_no_redirect_does_either(how: str) -> None:
    inside = Inside()
    hidden = await asyncio.start_server(inside.serve, "127.0.0.1", 0)
    where = INSIDE[how].format(port=hidden.sockets[0].getsockname()[1])
    told = Inside(f"HTTP/1.1 302 Found\r\nlocation: {where}\r\ncontent-length: 0\r\n\r\n".encode())
    outside = await asyncio.start_server(told.serve, "127.0.0.3", 0)  # stands for a host on the net
    settings = IoSettings(hosts=("*",), private=("127.0.0.3/32",))
    async with hidden, outside, Scene(Ensemble("io", [fetch_tool(settings, named)])) as io:
        code = await io.code("http_fetch", url=f"http://127.0.0.3:{outside.sockets[0].getsockname()[1]}/")

    assert (told.connections, inside.connections) == (1, 0)
    assert code in ("private_address", "bad_url", "redirected", "network")


async def test_case_38_a_name_that_is_rebound_after_the_check_is_asked_where_it_was_checked() -> None:
    inside, outside = Inside(), Inside(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npublic")
    answers = iter([["127.0.0.3"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers, ["127.0.0.1"])

    public = await asyncio.start_server(outside.serve, "127.0.0.3", 0)
    port = public.sockets[0].getsockname()[1]
    hidden = await asyncio.start_server(inside.serve, "127.0.0.1", port)
    settings = IoSettings(hosts=("*",), private=("127.0.0.3/32",))
    async with public, hidden, Scene(Ensemble("io", [fetch_tool(settings, rebinding)])) as io:
        assert "public" in await io.text("http_fetch", url=f"http://rebind.test:{port}/")
        assert await io.code("http_fetch", url=f"http://rebind.test:{port}/") == "private_address"

    assert (outside.connections, inside.connections) == (1, 0)
