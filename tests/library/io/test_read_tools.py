"""The tools that read files, through the executor, on a real disk."""

from __future__ import annotations

import asyncio
import codecs
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail import Executor, ToolCall
from handrail.library.io import IoLimits, IoSettings, io_ensemble
from handrail.library.io.read_file import encoding_of
from tests.library.io.io_calls import Scene, files, tree

pytestmark = pytest.mark.requirement("converser.standard-ensembles")


# What there is.


def test_only_what_the_settings_allow_has_a_tool(tmp_path: Path) -> None:
    reads = {"read_file", "list_folder", "find_text"}
    writes = {"write_file", "edit_file", "move", "delete", "make_folder"}

    def names(**settings: Any) -> set[str]:
        return set(io_ensemble(IoSettings(**settings)).all_tools)

    assert names() == set()
    assert names(roots={"r": tmp_path}) == reads
    assert names(roots={"r": tmp_path}, write=("r",)) == reads | writes
    assert names(hosts=("*",)) == {"http_fetch"}
    assert names(databases={"d": tmp_path / "d"}) == {"sqlite_query", "sqlite_schema"}
    assert "sqlite_execute" in names(databases={"d": tmp_path / "d"}, write_databases=("d",))


def test_every_tool_says_what_it_does_to_the_world(tmp_path: Path) -> None:
    ensemble = io_ensemble(
        IoSettings(roots={"r": tmp_path}, write=("r",), hosts=("*",), databases={"d": tmp_path}, write_databases=("d",))
    )
    tools = ensemble.all_tools.values()

    assert {tool.name for tool in tools if tool.definition.side_effects} == {
        *("write_file", "edit_file", "move", "delete", "make_folder", "sqlite_execute")
    }
    assert {tool.name for tool in tools if tool.definition.untrusted} == {"http_fetch"}
    assert {tool.name for tool in tools if tool.definition.idempotent} == {"make_folder"}
    assert all(
        parameter.get("description") for tool in tools for parameter in _parameters(tool.definition.input_schema)
    )


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return list(schema["properties"].values())


async def test_tools_that_change_files_wait_for_approval(tmp_path: Path) -> None:
    async with Executor([io_ensemble(IoSettings(roots={"w": tmp_path}, write=("w",)))]) as executor:
        result = await executor.invoke(ToolCall("", "write_file", {"path": "a", "text": "x"}))

    assert result.outcome == "needs_confirmation"
    assert os.listdir(tmp_path) == []


# Reading.


async def test_a_file_is_read_whole_in_parts_and_with_numbers(tmp_path: Path) -> None:
    tree(tmp_path, **{"a.txt": "".join(f"line {n}\n" for n in range(1, 6))})
    async with files(tmp_path) as io:
        assert await io.text("read_file", path="a.txt") == "line 1\nline 2\nline 3\nline 4\nline 5"
        part = await io.text("read_file", path="a.txt", offset=1, limit=2)
        assert part == "line 2\nline 3\n[lines 2 to 3 of 5; go on with offset=3]"
        assert (
            await io.text("read_file", path="a.txt", offset=4, numbered=True) == "     5\tline 5\n[lines 5 to 5 of 5]"
        )
        assert await io.text("read_file", path="a.txt", offset=9) == "[nothing there: the file has 5 lines]"
        in_bytes = await io.text("read_file", path="a.txt", offset=5, limit=4, unit="bytes")
        assert in_bytes == "1\nli\n[bytes 6 to 9 of 35; go on with offset=9]"


async def test_an_empty_file_is_said_to_be_one(tmp_path: Path) -> None:
    tree(tmp_path, **{"a.txt": ""})
    async with files(tmp_path) as io:
        assert await io.text("read_file", path="a.txt") == "[the file is empty]"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("grün".encode(), "grün"),
        (codecs.BOM_UTF8 + "grün".encode(), "grün"),
        ("grün".encode("utf-16"), "grün\n[encoding utf-16-le]"),
        (codecs.BOM_UTF16_BE + "grün".encode("utf-16-be"), "grün\n[encoding utf-16-be]"),
        ("a plain text".encode("utf-16-le"), "a plain text\n[encoding utf-16-le]"),
        (
            "grün".encode("latin-1"),
            "grün\n[it is not UTF-8 and was read as latin-1, so letters with accents may be wrong]",
        ),
        (b"a\r\nb\r\n", "a\r\nb\r"),
    ],
)
async def test_text_is_read_in_the_encoding_that_it_has(tmp_path: Path, data: bytes, shown: str) -> None:
    (tmp_path / "a").write_bytes(data)
    async with files(tmp_path) as io:
        assert await io.text("read_file", path="a") == shown


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image of 16 bytes"),
        (b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n", "a PDF document of 14 bytes"),
        (b"\0\1\2\3\xff", "binary data of 5 bytes"),
        (b"\xff\x01\xfe\x02", "binary data of 4 bytes"),
    ],
)
@pytest.mark.parametrize("unit", ["lines", "bytes"])
async def test_what_is_no_text_is_refused_with_what_it_is(tmp_path: Path, data: bytes, kind: str, unit: str) -> None:
    (tmp_path / "a").write_bytes(data)
    async with files(tmp_path) as io:
        result = await io.call("read_file", path="a", unit=unit)

    assert result.error is not None
    assert (result.error.code, result.error.message) == ("binary", f"'a' is not text but {kind}")


@given(st.text())
def test_any_text_in_utf_8_is_read_as_it_is(text: str) -> None:
    data = text.encode()
    encoding = encoding_of(data)

    assert encoding is None or encoding.decode(data) in (text, text.removeprefix("\ufeff")) or "\0" in text
    assert encoding is not None or "\0" in text


@given(st.binary())
def test_any_bytes_are_text_that_can_be_written_back_or_none(data: bytes) -> None:
    encoding = encoding_of(data)
    if encoding is not None and "�" not in encoding.decode(data):
        assert encoding.encode(encoding.decode(data)) == data


async def test_a_file_that_is_too_large_for_lines_can_be_read_by_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 5_000)
    async with files(tmp_path, limits=IoLimits(file=1_000, read=100)) as io:
        assert await io.code("read_file", path="a") == "too_large"
        part = await io.text("read_file", path="a", unit="bytes")
        assert part == "x" * 100 + "\n[bytes 1 to 100 of 5,000; go on with offset=100]"


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc")
async def test_a_file_that_does_not_know_its_size_is_read(tmp_path: Path) -> None:
    async with Scene(io_ensemble(IoSettings(roots={"p": Path("/proc")}))) as io:
        assert "Linux" in await io.text("read_file", path="version")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("src/mian.py", "'src/mian.py' is not there; did you mean 'src/main.py'?"),
        ("src/MAIN.py", "'src/MAIN.py' is not there; did you mean 'src/main.py'?"),
        ("scr/main.py", "'scr/main.py' is not there; did you mean 'src'?"),
        ("zzz", "'zzz' is not there; there is no 'zzz' in '.'"),
        ("dangling", "'dangling' is not there; 'dangling' is a link that leads nowhere"),
    ],
)
async def test_a_file_that_is_not_there_is_told_with_what_is(tmp_path: Path, path: str, hint: str) -> None:
    tree(tmp_path, **{"src__main.py": ""})
    (tmp_path / "dangling").symlink_to("gone")
    async with files(tmp_path) as io:
        result = await io.call("read_file", path=path)

    assert result.error is not None
    assert (result.error.code, result.error.message) == ("not_found", hint)


# Listing and searching.


async def listed(io: Scene, **arguments: Any) -> list[str]:
    return (await io.text("list_folder", **arguments)).splitlines()


async def test_a_folder_is_listed_by_name_with_what_everything_is(tmp_path: Path) -> None:
    tree(tmp_path, **{"b.txt": "", "a__x.py": "", "a__deep__y.py": "", ".hidden": ""})
    (tmp_path / "link").symlink_to("/etc")
    async with files(tmp_path) as io:
        assert await listed(io) == ["a/", "b.txt", "link@"]
        assert await listed(io, hidden=True) == [".hidden", "a/", "b.txt", "link@"]
        assert await listed(io, recurse=True) == ["a/", "a/deep/", "a/deep/y.py", "a/x.py", "b.txt", "link@"]
        assert await listed(io, recurse=True, pattern="*.py") == ["a/deep/y.py", "a/x.py"]
        assert await listed(io, recurse=True, pattern="a/*.py") == ["a/x.py"]
        assert await listed(io, recurse=True, pattern="a/**/*.py") == ["a/deep/y.py", "a/x.py"]
        assert await listed(io, path="a/deep") == ["y.py"]
        assert await listed(io, pattern="*.c") == ["[nothing in '.' fits]"]
        assert (await listed(io, details=True, pattern="b*"))[0].split()[0] == "0"
        assert await io.code("list_folder", path="b.txt") == "not_a_folder"


async def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    tree(tmp_path, **{f"{n:02}": "" for n in range(20)})
    async with files(tmp_path, limits=IoLimits(entries=3)) as io:
        shown = await listed(io)
    async with files(tmp_path, limits=IoLimits(visited=5)) as io:
        given_up = await listed(io)

    assert shown == ["00", "01", "02", "[3 of 20 are shown; give a pattern, or list a folder further down]"]
    assert given_up[-1] == "[it was given up after 5 names; list a folder further down]"


async def test_what_git_ignores_is_left_out_when_asked(tmp_path: Path) -> None:
    tree(
        tmp_path,
        **{
            ".gitignore": "# no\n*.log\n!keep.log\n/build/\nout\n\\#odd\n",
            "a.log": "",
            "keep.log": "",
            "build__x": "",
            "src__build__y": "",
            "src__out": "",
            "src__.gitignore": "!out\n*.tmp",
            "src__z.tmp": "",
            "z.tmp": "",
            "#odd": "",
            ".git__config": "",
        },
    )
    async with files(tmp_path) as io:
        shown = await listed(io, recurse=True, gitignore=True)

    assert shown == ["keep.log", "src/", "src/build/", "src/build/y", "src/out", "z.tmp"]


async def test_text_is_found_with_where_it_stands(tmp_path: Path) -> None:
    tree(tmp_path, **{"a.py": "x = 1\ny = X(2)\n", "sub__b.txt": "x(\n", ".git__c": "x(", "big": "y" * 5_000 + "x("})
    (tmp_path / "image").write_bytes(b"\x89PNG\r\n\x1a\n\0x(")
    (tmp_path / "out").symlink_to("/etc")
    async with files(tmp_path, limits=IoLimits(file=1_000)) as io:
        assert await io.text("find_text", text="x(") == "sub/b.txt:1: x(\n[too large to search: big]"
        both = await io.text("find_text", text="x(", ignore_case=True, pattern="*.*")
        assert both == "a.py:2: y = X(2)\nsub/b.txt:1: x("
        assert await io.text("find_text", text=r"^\w = [0-9]", regex=True, path="a.py") == "a.py:1: x = 1"
        assert await io.text("find_text", text="nowhere", path="sub") == "[not found in 1 text file]"
        assert await io.code("find_text", text="(a)\\1", regex=True) == "bad_pattern"
        assert await io.code("find_text", text="(?=a)", regex=True) == "bad_pattern"


async def test_a_hostile_pattern_takes_no_longer_than_any_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 100_000 + "b\n")
    tree(tmp_path, **{".gitignore": "*" + "a*" * 50 + "z\n"})
    async with asyncio.timeout(60), files(tmp_path) as io:
        assert (await io.text("find_text", text="^(a+)+$", regex=True)).startswith("[not found")
        assert await io.text("list_folder", pattern="*a" * 50 + "z") == "[nothing in '.' fits]"


async def test_what_could_not_be_searched_or_listed_is_named(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 65)
    (tmp_path / deep).mkdir(parents=True)
    async with files(tmp_path) as io:
        assert f"not opened: {deep[:-2]}" in await io.text("find_text", text="x")
        assert f"not opened: {deep[:-2]}" in await io.text("list_folder", recurse=True)


async def test_a_search_stops_when_it_has_enough(tmp_path: Path) -> None:
    tree(tmp_path, **{f"{n}": "x\nx\n" for n in range(5)})
    async with files(tmp_path, limits=IoLimits(matches=3)) as io:
        found = (await io.text("find_text", text="x")).splitlines()

    assert found == ["0:1: x", "0:2: x", "1:1: x", "[stopped after 3 lines; there may be more: narrow the search]"]
