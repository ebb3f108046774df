"""What becomes of each kind of context: bound as it is, or held outside and described."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import UsageError
from handrail.rlm.contexts import Files, load
from handrail.rlm.contexts.text_library import TextLibrary
from handrail.rlm.contexts.text_storage import encode_utf8, spill
from handrail.sandbox.port import HostError
from tests.node.services.pdf_documents import pdf


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ("one\ntwo", "`context` is a text, as a str of 7 characters in 2 lines."),
        (b"\xef\xbb\xbfone", "`context` is a text, as a str of 3 characters in 1 lines."),
        (io.BytesIO(b"one"), "`context` is a text that was piped in, as a str of 3 characters in 1 lines."),
        ("one".encode("utf-16"), "`context` is a text, as a str of 3 characters in 1 lines."),
        (
            io.BytesIO("one".encode("utf-32")),
            "`context` is a text that was piped in, as a str of 3 characters in 1 lines.",
        ),
        (["a", {"b": 1}], "`context` is a list of 2 items (1 str, 1 dict), 13 bytes as JSON."),
        ({"k\n": [1]}, '`context` is a dict of 1 keys: "k\\n"; 11 bytes as JSON.'),
    ],
)
async def test_a_small_value_is_bound_as_it_is(context: Any, said: str) -> None:
    async with await load(context) as held:
        assert held.description == said
        assert held.prelude == ""
        assert held.bind == {"context": context if isinstance(context, str | list | dict) else "one"}


async def test_bytes_that_are_not_utf_8_are_replaced_and_that_is_said() -> None:
    async with await load(b"gr\xfcn") as held:
        assert held.bind == {"context": "gr\ufffdn"}
        assert held.description.endswith("Some bytes of it are not UTF-8; they are shown as U+FFFD.")


@pytest.mark.parametrize(
    "context",
    [
        *(7, None, {1, 2}, [object()], [Path("a"), "b"], ["\ud800"]),
        *([float("nan")], {1: "a"}, [b"a"], b"a\0b", io.StringIO("a")),
        *(Path("x" * 300), Path("a\0b")),
    ],
)
async def test_what_cannot_be_held_is_refused(context: Any) -> None:
    with pytest.raises(UsageError):
        await load(context)


async def test_a_large_text_is_held_outside_and_read_piece_by_piece() -> None:
    text = "".join(f"line {number} ä\n" for number in range(1000))
    async with await load(text, most=100) as held:
        assert held.bind == {}
        assert text[:20] not in held.description + held.prelude
        assert await held.serve("context.read", {"name": "", "start": 5000, "length": 30}) == text[5000:5030]
        assert await held.serve("context.lines", {"name": "", "first": 998, "count": 9}) == [
            "line 998 ä",
            "line 999 ä",
            "",
        ]
        assert await held.serve("context.count", {"name": "", "text": "9 ä"}) == 100
        asked = {"name": "", "pattern": r"^line 77\d", "limit": 2, "around": 3, "start": text.index("line 772")}
        at = text.index("line 772")
        assert await held.serve("context.search", asked) == [
            {"at": at, "line": 772, "text": " ä\nline 772 ä\n"},
            {"at": at + 11, "line": 773, "text": " ä\nline 773 ä\n"},
        ]


async def test_a_large_list_of_texts_is_held_as_texts_with_numbers() -> None:
    async with await load(["\ufefffirst " * 50, "second " * 50], most=100) as held:
        assert held.bind == {"_context_files": [{"name": "0", "size": 350}, {"name": "1", "size": 350}]}
        assert await held.serve("context.read", {"name": "0", "start": 0, "length": 6}) == "\ufefffirst"
        assert await held.serve("context.read", {"name": "1", "start": 343, "length": 99}) == "second "
        asked = {"name": None, "pattern": "second$|second \\Z", "limit": 5, "around": 0, "start": 0}
        assert await held.serve("context.search", asked) == [{"name": "1", "at": 343, "line": 0, "text": "second "}]


async def test_a_large_dict_of_other_values_is_held_as_its_json() -> None:
    async with await load({"a": list(range(100))}, most=10) as held:
        assert await held.serve("context.lines", {"name": "", "first": 0, "count": 3}) == ["{", ' "a": [', "  0,"]


def _tree(root: Path) -> Path:
    (root / "b").mkdir(parents=True)
    (root / "a.txt").write_text("alpha\nneedle")
    (root / "b" / "c.md").write_text("needle in c")
    (root / "b" / "utf16.txt").write_bytes("näedle".encode("utf-16"))
    (root / ".hidden").write_text("needle")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("needle")
    (root / "picture.bin").write_bytes(b"needle\0")
    (root / "b" / "out").symlink_to("/etc")
    (root / "b" / "loop").symlink_to(root)
    os.mkfifo(root / "pipe")
    return root


async def test_a_directory_is_listed_in_a_stable_order_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    async with await load(_tree(tmp_path / "docs")) as held:
        assert held.bind["_context_files"] == [
            {"name": "a.txt", "size": 12},
            {"name": "b/c.md", "size": 11},
            {"name": "b/utf16.txt", "size": 14},
        ]
        assert 'the directory "docs": 3 texts of 37 bytes' in held.description
        assert held.description.endswith("Left out: 1 not text, 2 hidden, 2 links, 1 neither files nor directories.")


async def test_a_search_over_a_directory_names_the_files(tmp_path: Path) -> None:
    async with await load(_tree(tmp_path / "docs")) as held:
        asked = {"name": None, "pattern": "n.+dle", "limit": 9, "around": 0, "start": 0, "names": "*"}
        assert await held.serve("context.search", asked) == [
            {"name": "a.txt", "at": 6, "line": 1, "text": "needle"},
            {"name": "b/c.md", "at": 0, "line": 0, "text": "needle"},
            {"name": "b/utf16.txt", "at": 0, "line": 0, "text": "näedle"},
        ]
        with pytest.raises(HostError, match="names= of at most"):
            await held.serve("context.search", {**asked, "names": "?" * 2_000})
        found = await held.serve("context.search", {**asked, "names": "b/*.md"})
        assert [each["name"] for each in found] == ["b/c.md"]


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", ".hidden", "b/out/passwd", "b", ""])
async def test_only_listed_files_are_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("x")
    async with await load(Files.of(_tree(tmp_path / "docs"))) as held:
        with pytest.raises(HostError, match="there is no file") as raised:
            await held.serve("context.open", {"name": name})
        assert raised.value.kind == "FileNotFoundError"


async def test_several_files_keep_the_paths_that_they_were_named_by(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.txt").write_text(name)
    async with await load([tmp_path / "x" / "same.txt", tmp_path / "y"]) as held:
        names = [each["name"] for each in held.bind["_context_files"]]
        assert names == [f"{tmp_path}/x/same.txt", f"{tmp_path}/y/same.txt"]
        assert await held.serve("context.open", {"name": names[1]}) == {"size": 1, "lines": 1}


async def test_one_small_file_is_a_str(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("one\ntwo\n")
    async with await load(tmp_path / "n.txt") as held:
        assert held.bind == {"context": "one\ntwo\n"}
        assert held.description == '`context` is the text of the file "n.txt", as a str of 8 characters in 3 lines.'


REFUSED = {
    "missing": "missing",
    "binary": "binary",
    "device": "neither a file",
    "pipe": "neither a file",  # and never waited for
    "made up by the system": "pipe it in",
    "an empty directory": "no text in .* Left out: 1 hidden",
}


@pytest.mark.parametrize("make", REFUSED)
async def test_a_named_path_that_is_no_text_is_refused(tmp_path: Path, make: str) -> None:
    path = tmp_path / make
    match make:
        case "binary":
            path.write_bytes(b"\0\1")
        case "device":
            path = Path("/dev/null")
        case "pipe":
            os.mkfifo(path)
        case "made up by the system":
            path = Path("/proc/self/status")
            if not path.exists():
                pytest.skip("this system makes up no files")
        case "an empty directory":
            path.mkdir()
            (path / ".hidden").write_text("x")
    with pytest.raises(UsageError, match=REFUSED[make]):
        await load(path)


async def test_whoever_waits_no_more_for_a_pipe_leaves_no_thread_waiting() -> None:
    source, sink = os.pipe()
    with os.fdopen(source, "rb") as stream, os.fdopen(sink, "wb", buffering=0) as writer:
        writer.write(b"it begins, and never ends")
        loading = asyncio.create_task(load(stream))
        await asyncio.sleep(0)
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        async with asyncio.timeout(20):
            await asyncio.get_running_loop().shutdown_default_executor()


def _written_by_bytes(folder: Path, name: bytes) -> Path:
    path = folder / os.fsdecode(name)
    try:
        path.write_text("some text")
    except OSError:
        pytest.skip("this system has no such names")
    return path


async def test_a_name_that_is_no_text_is_written_with_escapes(tmp_path: Path) -> None:
    async with await load(_written_by_bytes(tmp_path, b"\xff.txt"), most=3) as held:
        assert await held.serve("context.read", {"name": "\\udcff.txt", "start": 0, "length": 4}) == "some"


async def test_however_many_files_are_made_plain_they_take_one_descriptor(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").write_bytes(f"needle {number}".encode("utf-16"))
    asked = {"name": None, "pattern": "needle 1?9", "limit": 9, "around": 0, "start": 0}
    async with await load(tmp_path) as held:
        before = len(os.listdir("/dev/fd"))
        found = await held.serve("context.search", asked)
        assert [each["name"] for each in found] == ["19.txt", "9.txt"]
        assert len(os.listdir("/dev/fd")) == before + 1
        assert await held.serve("context.read", {"name": "7.txt", "start": 0, "length": 9}) == "needle 7"


@pytest.mark.parametrize("change", ["written", "replaced", "removed", "link"])
async def test_a_file_that_changes_meanwhile_is_said_and_not_read(tmp_path: Path, change: str) -> None:
    path = tmp_path / "n.txt"
    path.write_text("secret-free text")
    async with await load(path, most=3) as held:
        match change:
            case "written":
                path.write_text("something longer than before")
            case "replaced":
                (tmp_path / "m.txt").write_text("secret-full text")
                os.replace(tmp_path / "m.txt", path)
            case "removed":
                path.unlink()
            case "link":
                path.rename(tmp_path / "moved")
                path.symlink_to(tmp_path / "moved")
        for what, asked in (
            ("read", {"start": 0, "length": 5}),
            ("count", {"text": "s"}),
            ("search", {"pattern": "s", "limit": 1, "around": 1, "start": 0}),
        ):
            with pytest.raises(HostError, match=r"'n.txt' changed since it was listed") as raised:
                await held.serve(f"context.{what}", {"name": "n.txt", **asked})
            assert raised.value.kind == "OSError"


async def test_the_digest_follows_the_content_of_values_and_the_time_of_files(tmp_path: Path) -> None:
    async def digest(context: Any, most: int = 4) -> str:
        async with await load(context, most=most) as held:
            return held.digest

    assert await digest("abcdef") == await digest("abcdef") != await digest("abcdeg")
    assert await digest(["abcdef"]) != await digest(["abcdeg"])
    path = tmp_path / "n.txt"
    path.write_text("abcdef")
    first = await digest(path)
    assert first == await digest(path)
    os.utime(path, ns=(1, 1))
    assert first != await digest(path)


async def test_a_pattern_without_end_is_ended_and_the_next_one_is_answered() -> None:
    library = TextLibrary({"t": spill(encode_utf8("a" * 60 + "b\n"))}, seconds=0.5)
    asked = {"name": "t", "pattern": "(a|a)+$", "limit": 1, "around": 0, "start": 0}
    with pytest.raises(HostError, match="simpler pattern") as raised:
        await library.answer("search", asked)
    assert raised.value.kind == "TimeoutError"
    assert await library.answer("search", {**asked, "pattern": "b"}) == [{"at": 60, "line": 0, "text": "b"}]
    library.close()


@pytest.mark.parametrize(
    ("what", "asked", "kind"),
    [
        ("search", {"pattern": "(", "limit": 1, "around": 0, "start": 0}, "ValueError"),
        ("search", {"pattern": "a" * 200_000, "limit": 1, "around": 0, "start": 0}, "ValueError"),
        ("search", {"pattern": "(?:(?:a{1,9999}){1,9999}){1,9999}" * 200, "limit": 1, "around": 0, "start": 0}, None),
        ("search", {"pattern": "a", "limit": 10**9, "around": 0, "start": 0}, "ValueError"),
        ("search", {"pattern": "a", "limit": 1, "around": 10**9, "start": 0}, "ValueError"),
        ("search", {"pattern": "a", "limit": "1", "around": 0, "start": 0}, "TypeError"),
        ("read", {"start": 0, "length": 5.5}, "TypeError"),
        ("read", {"start": 0, "length": 5, "path": "/etc/passwd"}, "TypeError"),
        ("count", {"text": ""}, "ValueError"),
        ("erase", {}, "NameError"),
        ("read", None, "TypeError"),
    ],
)
async def test_nonsense_from_a_cell_is_answered_with_an_error(what: str, asked: Any, kind: str | None) -> None:
    async with await load("text of a", most=2) as held:
        try:
            await held.serve(f"context.{what}", asked if asked is None else {"name": "", **asked})
        except HostError as error:
            assert kind is None or error.kind == kind
        else:
            assert kind is None


async def test_more_than_can_cross_at_once_is_refused_with_the_number() -> None:
    async with await load("x" * 4_000_100) as held:
        with pytest.raises(HostError, match="read at most 4,000,000"):
            await held.serve("context.read", {"name": "", "start": 0, "length": 10**12})
        with pytest.raises(HostError, match="read at most 4,000,000"):
            await held.serve("context.lines", {"name": "", "first": 0, "count": 1})


async def test_a_pdf_is_read_as_its_text(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf([["a needle on a page"]]))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    async with await load(tmp_path) as held:
        asked = {"name": None, "pattern": "needle", "limit": 9, "around": 2, "start": 0}
        assert [each["text"] for each in await held.serve("context.search", asked)] == ["a needle o"]
        with pytest.raises(HostError, match=r"'broken\.pdf'"):
            await held.serve("context.open", {"name": "broken.pdf"})
