"""The file tools through the executor, on a real disk."""

from __future__ import annotations

import asyncio
import codecs
import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Executor, ToolCall
from handrail.execute.dedupe.create import create
from handrail.standard.io import IoLimits, IoSettings, io_ensemble
from handrail.standard.io.edit import Edit
from handrail.standard.io.text import encoding_of
from handrail.standard.io.write import move_new
from tests.execute.approvers import yes
from tests.standard.io.scene import Scene, contents, files, tree

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


async def test_what_changes_files_waits_for_a_word(tmp_path: Path) -> None:
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
    assert (result.error.code, result.error.message) == ("binary", f"'a' is no text but {kind}")


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


async def test_a_search_stops_when_it_has_enough(tmp_path: Path) -> None:
    tree(tmp_path, **{f"{n}": "x\nx\n" for n in range(5)})
    async with files(tmp_path, limits=IoLimits(matches=3)) as io:
        found = (await io.text("find_text", text="x")).splitlines()

    assert found == ["0:1: x", "0:2: x", "1:1: x", "[stopped after 3 lines; there may be more: narrow the search]"]


# Writing.


async def test_a_file_is_created_overwritten_and_added_to(tmp_path: Path) -> None:
    async with files(tmp_path) as io:
        assert await io.text("write_file", path="a/b.txt", text="one\n", parents=True) == "4 bytes written to 'a/b.txt'"
        assert await io.code("write_file", path="a/b.txt", text="two") == "exists"
        assert (tmp_path / "a/b.txt").read_text() == "one\n"
        await io.text("write_file", path="a/b.txt", text="two\n", mode="append")
        assert (tmp_path / "a/b.txt").read_text() == "one\ntwo\n"
        said = await io.text("write_file", path="a/b.txt", text="grün", mode="overwrite")
        assert said == "5 bytes written to 'a/b.txt'; it had 8 before"
        assert (tmp_path / "a/b.txt").read_text() == "grün"
        assert await io.code("write_file", path="no/such/b.txt", text="") == "not_found"
        assert os.listdir(tmp_path / "a") == ["b.txt"]


async def test_an_overwritten_file_keeps_its_rights_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0o640)
    usual = os.umask(0)
    os.umask(usual)
    async with files(tmp_path) as io:
        await io.text("write_file", path="a", text="y", mode="overwrite")
        await io.text("write_file", path="b", text="y")
        await io.text("edit_file", path="a", edits=[{"old": "y", "new": "z"}])

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o666 & ~usual


async def test_whoever_reads_while_it_is_overwritten_sees_the_old_or_the_new(tmp_path: Path) -> None:
    old, new = "o" * 200_000, "n" * 200_000
    (tmp_path / "a").write_text(old)
    seen: set[str] = set()

    async def read(stop: asyncio.Event) -> None:
        while not stop.is_set():
            seen.add(await asyncio.to_thread((tmp_path / "a").read_text))

    async with files(tmp_path) as io:
        stop = asyncio.Event()
        reading = asyncio.ensure_future(read(stop))
        for text in (new, old) * 10:
            await io.text("write_file", path="a", text=text, mode="overwrite")
        stop.set()
        await reading

    assert seen <= {old, new}


async def test_only_a_root_that_may_be_written_is(tmp_path: Path) -> None:
    tree(tmp_path, read__a="a", write__b="b")
    settings = IoSettings(roots={"read": tmp_path / "read", "write": tmp_path / "write"}, write=("write",))
    async with Scene(io_ensemble(settings)) as io:
        attempts: dict[str, dict[str, Any]] = {
            "write_file": {"path": "new", "text": ""},
            "edit_file": {"path": "a", "edits": [{"old": "a", "new": "b"}]},
            "delete": {"path": f"{tmp_path}/read/a"},
            "make_folder": {"path": "read:x"},
        }
        for tool, arguments in attempts.items():
            assert await io.code(tool, **arguments) == "read_only"
        assert await io.code("move", source="a", target="write:a") == "read_only"
        assert await io.code("move", source="write:b", target="b") == "read_only"
        await io.text("write_file", path="write:new", text="x")

    assert contents(tmp_path) == {"read/a": "a", "write/b": "b", "write/new": "x"}


async def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    tree(tmp_path, work__a="a", outside="o")
    (tmp_path / "work/in").symlink_to("a")
    (tmp_path / "work/out").symlink_to("../outside")
    async with files(tmp_path / "work") as io:
        for mode in ("create", "overwrite", "append"):
            for name in ("in", "out"):
                assert await io.code("write_file", path=name, text="x", mode=mode) == "link"
        assert await io.code("edit_file", path="in", edits=[{"old": "a", "new": "b"}]) == "link"
        await io.text("delete", path="out")

    assert ((tmp_path / "outside").read_text(), (tmp_path / "work/a").read_text()) == ("o", "a")


async def test_folders_on_the_way_are_made_inside_only(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "out").symlink_to("..")
    async with files(work) as io:
        for path in ("out/new/x", "../new/x", "in/../../new/x"):
            assert await io.code("write_file", path=path, text="x", parents=True) == "outside_root"
            assert await io.code("make_folder", path=path) == "outside_root"
        assert await io.text("make_folder", path="a/b/c") == "'a/b/c' is made"
        assert await io.text("make_folder", path="a/b/c") == "'a/b/c' was there before"

    assert sorted(os.listdir(tmp_path)) == ["work"]


async def test_what_is_no_file_is_not_overwritten(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    async with asyncio.timeout(30), files(tmp_path) as io:
        for name in ("pipe", "folder"):
            for mode in ("create", "overwrite", "append"):
                assert await io.code("write_file", path=name, text="x", mode=mode) == "not_a_file"
        for path in (".", "", "folder/..", "/"):
            assert await io.code("delete", path=path, recursive=True) in ("bad_path", "outside_root")


async def test_half_a_character_and_too_much_text_change_nothing(tmp_path: Path) -> None:
    async with files(tmp_path, limits=IoLimits(file=10)) as io:
        assert await io.code("write_file", path="a", text="x" * 11) == "too_large"

    assert os.listdir(tmp_path) == []


async def test_files_and_folders_are_moved_but_over_nothing(tmp_path: Path) -> None:
    tree(tmp_path, a="a", b="b", dir__c="c")
    async with files(tmp_path) as io:
        assert await io.text("move", source="a", target="new/a", parents=True) == "'a' is now 'new/a'"
        assert await io.code("move", source="b", target="new/a") == "exists"
        assert await io.code("move", source="dir", target="new") == "exists"
        assert await io.code("move", source="nothing", target="x") == "not_found"
        assert await io.code("move", source="b", target="../b") == "outside_root"
        assert await io.code("move", source="dir", target="dir/sub") == "bad_path"
        await io.text("move", source="b", target="new/a", overwrite=True)
        await io.text("move", source="dir", target="new/dir")

    assert contents(tmp_path) == {"new/a": "b", "new/dir/c": "c"}


def test_moving_over_nothing_also_works_where_the_system_cannot_do_it_in_one_step(tmp_path: Path) -> None:
    def missing(*names: str, **folders: int) -> None:
        raise OSError(errno.ENOSYS, "there is no such call")

    tree(tmp_path, a="a", b="b", dir__c="c", other__d="d")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        move_new("a", "new", folder, folder, missing)
        move_new("dir", "moved", folder, folder, missing)
        for source, target in (("b", "new"), ("b", "moved"), ("moved", "other"), ("moved", "b")):
            with pytest.raises(FileExistsError):
                move_new(source, target, folder, folder, missing)
    finally:
        os.close(folder)

    assert contents(tmp_path) == {"new": "a", "b": "b", "moved/c": "c", "other/d": "d"}


async def test_a_folder_is_deleted_with_its_content_only_if_that_is_said(tmp_path: Path) -> None:
    tree(tmp_path, work__dir__a="", work__b="", outside__x="")
    (tmp_path / "work/dir/link").symlink_to("../../outside")
    async with files(tmp_path / "work") as io:
        assert await io.code("delete", path="dir") == "not_empty"
        await io.text("delete", path="dir", recursive=True)
        await io.text("delete", path="b")
        assert await io.code("delete", path="b") == "not_found"

    assert os.listdir(tmp_path / "work") == []
    assert os.listdir(tmp_path / "outside") == ["x"]


# Editing.


async def test_an_edit_gives_a_diff(tmp_path: Path) -> None:
    tree(tmp_path, **{"a.py": "".join(f"line {n}\n" for n in range(1, 21))})
    async with files(tmp_path) as io:
        diff = await io.text(
            "edit_file", path="a.py", edits=[{"old": "line 10\n", "new": "ten\n"}, {"old": "ten", "new": "TEN"}]
        )

    assert diff.splitlines() == [
        "--- a.py",
        "+++ a.py",
        "@@ -7,7 +7,7 @@",
        " line 7",
        " line 8",
        " line 9",
        "-line 10",
        "+TEN",
        " line 11",
        " line 12",
        " line 13",
    ]
    assert (tmp_path / "a.py").read_text().splitlines()[9] == "TEN"


@pytest.mark.parametrize(
    ("edits", "code", "words"),
    [
        ([{"old": "x", "new": "y"}, {"old": "nothing", "new": ""}], "no_match", "edit 2 of 2 was not found"),
        ([{"old": "same", "new": "y"}], "many_matches", "found 2 times in 'a' (lines 2, 3)"),
        ([{"old": "x  =  1", "new": ""}], "no_match", "with other spaces or line ends"),
        ([{"old": "x = 2", "new": ""}], "no_match", "the nearest line is 'x = 1'"),
        ([{"old": "x", "new": "x"}], "no_change", "leave 'a' as it is"),
    ],
)
async def test_an_edit_that_does_not_fit_changes_nothing(
    tmp_path: Path, edits: list[dict[str, str]], code: str, words: str
) -> None:
    before = "x = 1\nsame\nsame\n"
    tree(tmp_path, a=before)
    async with files(tmp_path) as io:
        result = await io.call("edit_file", path="a", edits=edits)

    assert result.error is not None
    assert (result.error.code, words in result.error.message) == (code, True), result.error.message
    assert (tmp_path / "a").read_text() == before


async def test_an_edit_may_be_made_everywhere(tmp_path: Path) -> None:
    tree(tmp_path, a="x\nx\n")
    async with files(tmp_path) as io:
        await io.text("edit_file", path="a", edits=[{"old": "x", "new": "y", "all": True}])

    assert (tmp_path / "a").read_text() == "y\ny\n"


async def test_an_edit_keeps_line_ends_marks_and_encoding(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("grün\r\nblau\r\n".encode("utf-16"))
    (tmp_path / "b").write_bytes("grün\n".encode("latin-1"))
    async with files(tmp_path) as io:
        await io.text("edit_file", path="a", edits=[{"old": "grün\nblau", "new": "rot\nweiß"}])
        assert await io.code("edit_file", path="b", edits=[{"old": "gr", "new": "→"}]) == "bad_text"

    assert (tmp_path / "a").read_bytes() == "rot\r\nweiß\r\n".encode("utf-16")
    assert (tmp_path / "b").read_bytes() == "grün\n".encode("latin-1")


# Together with the executor.


async def test_edits_of_one_file_at_the_same_time_are_all_made(tmp_path: Path) -> None:
    tree(tmp_path, a="".join(f"<{n}>\n" for n in range(20)))
    (tmp_path / "link").symlink_to(".")
    async with files(tmp_path) as io:
        paths = ["a", "./a", "work:a", f"{tmp_path}/a", "link/a"]
        await asyncio.gather(
            *(io.text("edit_file", path=paths[n % 5], edits=[{"old": f"<{n}>", "new": "done"}]) for n in range(20))
        )

    assert (tmp_path / "a").read_text() == "done\n" * 20


def test_edits_from_two_executors_at_the_same_time_are_all_made(tmp_path: Path) -> None:
    """The executor of one knows nothing of the other's calls; the ensemble knows of both."""
    tree(tmp_path, a="".join(f"<{n}>\n" for n in range(40)))
    edit = io_ensemble(IoSettings(roots={"w": tmp_path}, write=("w",))).all_tools["edit_file"]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: edit(path="a", edits=[Edit(old=f"<{n}>", new="done")]), range(40)))

    assert (tmp_path / "a").read_text() == "done\n" * 40


async def test_a_write_forgets_what_was_read_under_any_name(tmp_path: Path) -> None:
    tree(tmp_path, a="old")
    (tmp_path / "link").symlink_to("a")
    memory = create("exact")
    ensemble = io_ensemble(IoSettings(roots={"w": tmp_path}, write=("w",)))
    tools = [tool.changed(deduplicator=memory) for tool in ensemble.all_tools.values()]
    async with Executor(tools, approver=yes()) as executor:

        async def call(name: str, **arguments: Any) -> str:
            return (await executor.invoke(ToolCall("", name, arguments))).text

        assert await call("read_file", path="link") == "old"
        (tmp_path / "a").write_text("by another hand")
        assert await call("read_file", path="link") == "old"  # it is remembered
        await call("write_file", path="./a", text="new", mode="overwrite")
        assert await call("read_file", path="link") == "new"
