"""The tools that change files, through the executor, on a real disk."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handrail import Executor, ToolCall
from handrail.execute.dedupe.create import create_deduplicator
from handrail.library.io import IoLimits, IoSettings, io_ensemble
from handrail.library.io.disk_changes import move_without_overwrite
from handrail.library.io.edit_file import FileEdit
from tests.execute.approvers import allow_all
from tests.library.io.io_calls import Scene, contents, files, tree

pytestmark = pytest.mark.requirement("converser.standard-ensembles")


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
    (tmp_path / "a").chmod(0o6640)  # it even runs with the rights of its owner, which nothing new does
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


async def test_what_is_named_as_a_folder_and_is_none_is_left_alone(tmp_path: Path) -> None:
    tree(tmp_path, a="x", folder__b="y")
    (tmp_path / "link").symlink_to("folder")
    async with files(tmp_path) as io:
        assert await io.code("write_file", path="new/", text="x") == "not_a_file"
        assert await io.code("edit_file", path="a/", edits=[{"old": "x", "new": "z"}]) == "not_a_file"
        assert await io.code("delete", path="a/") == "not_a_folder"
        assert await io.code("delete", path="link/", recursive=True) == "not_a_folder"
        assert await io.code("move", source="a/", target="c") == "not_a_folder"
        await io.text("move", source="folder/", target="other/")

    assert contents(tmp_path) == {"a": "x", "other/b": "y"}


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
        move_without_overwrite("a", "new", folder, folder, missing)
        move_without_overwrite("dir", "moved", folder, folder, missing)
        for source, target in (("b", "new"), ("b", "moved"), ("moved", "other"), ("moved", "b")):
            with pytest.raises(FileExistsError):
                move_without_overwrite(source, target, folder, folder, missing)
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
        list(threads.map(lambda n: edit(path="a", edits=[FileEdit(old=f"<{n}>", new="done")]), range(40)))

    assert (tmp_path / "a").read_text() == "done\n" * 40


async def test_what_the_disk_did_not_take_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was changed is said to be changed, and what was not is as it was."""
    tree(tmp_path, a="old", b="old", c="old")
    sync = os.fsync

    def fails(descriptor: int, *, on: Callable[[int], bool]) -> None:
        if on(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    async with files(tmp_path) as io:
        monkeypatch.setattr(os, "fsync", partial(fails, on=stat.S_ISDIR))
        assert await io.code("write_file", path="a", text="new", mode="overwrite") == "not_on_disk"
        assert await io.code("move", source="b", target="moved") == "not_on_disk"
        assert await io.code("make_folder", path="made") == "not_on_disk"
        monkeypatch.setattr(os, "fsync", partial(fails, on=stat.S_ISREG))
        assert await io.code("write_file", path="c", text="new", mode="append") == "failed"
        assert await io.code("write_file", path="c", text="new", mode="overwrite") == "failed"

    assert contents(tmp_path) == {"a": "new", "moved": "old", "c": "old"}
    assert (tmp_path / "made").is_dir()


async def test_a_folder_that_is_deleted_in_part_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, folder__a="", folder__b="", folder__c="")
    unlink = os.unlink

    def fails(name: str, *, dir_fd: int | None = None) -> None:
        if len(os.listdir(tmp_path / "folder")) < 3:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", fails)
    async with files(tmp_path) as io:
        result = await io.call("delete", path="folder", recursive=True)

    assert result.error is not None
    assert (result.error.code, "may be gone" in result.error.message) == ("in_part", True)


async def test_nothing_is_added_beyond_the_largest_file(tmp_path: Path) -> None:
    tree(tmp_path, a="12345678")
    async with files(tmp_path, limits=IoLimits(file=10)) as io:
        assert await io.code("write_file", path="a", text="abc", mode="append") == "too_large"
        await io.text("write_file", path="a", text="ab", mode="append")

    assert contents(tmp_path) == {"a": "12345678ab"}


async def test_a_write_forgets_what_was_read_under_any_name(tmp_path: Path) -> None:
    tree(tmp_path, a="old")
    (tmp_path / "link").symlink_to("a")
    memory = create_deduplicator("exact")
    ensemble = io_ensemble(IoSettings(roots={"w": tmp_path}, write=("w",)))
    tools = [tool.changed(deduplicator=memory) for tool in ensemble.all_tools.values()]
    async with Executor(tools, approver=allow_all()) as executor:

        async def call(name: str, **arguments: Any) -> str:
            return (await executor.invoke(ToolCall("", name, arguments))).text

        assert await call("read_file", path="link") == "old"
        (tmp_path / "a").write_text("by another hand")
        assert await call("read_file", path="link") == "old"  # it is remembered
        await call("write_file", path="./a", text="new", mode="overwrite")
        assert await call("read_file", path="link") == "new"
