"""What every `Spill` does, and what the one on disk does besides."""

from __future__ import annotations

import os
import stat
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from handrail.core.errors import UsageError
from handrail.core.ports import Spill
from handrail.execute.spill import MemorySpill
from handrail.sessions.store.shared_spill import SharedSpill
from handrail.sessions.store.spill import DirectorySpill
from handrail.state.database import StateDatabase
from handrail.testing.ids import CountedIds
from tests.examples import examples

KINDS: dict[str, Callable[[Path], Spill]] = {
    "memory": lambda folder: MemorySpill(),
    "directory": lambda folder: DirectorySpill(folder / "outputs"),
}
SMALL: dict[str, Callable[[Path], Spill]] = {
    "memory": lambda folder: MemorySpill(most=10),
    "directory": lambda folder: DirectorySpill(folder / "outputs", most_bytes=10),
}
shared_fixture = settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
any_text = st.text(st.characters()) | st.text(st.sampled_from("a\r\n\ud800\udc00\u2028é🙂\0"))


@pytest.fixture(params=[*KINDS, "postgres"])
def spill(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Spill]:
    if request.param != "postgres":
        yield KINDS[request.param](tmp_path)
        return
    with closing(StateDatabase.open(request.getfixturevalue("postgres_url"))) as database:
        yield SharedSpill(database)


@pytest.fixture(params=[*SMALL, "postgres"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Spill]:
    if request.param != "postgres":
        yield SMALL[request.param](tmp_path)
        return
    with closing(StateDatabase.open(request.getfixturevalue("postgres_url"))) as database:
        yield SharedSpill(database, most_bytes=10)


@shared_fixture
@given(text=any_text, start=st.integers(0, 30), length=st.integers(0, 30))
async def test_a_piece_is_what_stands_there_and_the_length_is_in_characters(
    spill: Spill, text: str, start: int, length: int
) -> None:
    id = await spill.put(text)

    assert await spill.read(id, start, length) == (text[start : start + length], len(text))


async def test_a_piece_of_a_long_text_is_right_wherever_it_lies(spill: Spill) -> None:
    text = "".join(f"{number} é🙂\ud800\r\n" for number in range(40_000))
    id = await spill.put(text)

    for start in (0, 65_530, 65_536, 131_071, 200_000, len(text) - 3, len(text), len(text) + 5):
        assert await spill.read(id, start, 70_000) == (text[start : start + 70_000], len(text))


async def test_every_text_has_an_id_of_its_own(spill: Spill) -> None:
    ids = [await spill.put("same") for _ in range(20)]

    assert len(set(ids)) == 20


@pytest.mark.parametrize("id", ["", "out_0", ".", "..", "../x", "/etc/passwd", "a/b", "a\0b", "out_1.txt", "x" * 5000])
async def test_what_is_not_kept_is_a_key_error(spill: Spill, id: str) -> None:
    await spill.put("text")

    with pytest.raises(KeyError):
        await spill.read(id, 0, 10)


async def test_the_oldest_go_first_and_the_newest_stays(small: Spill) -> None:
    ids = [await small.put(text) for text in ("aaaa", "bbbb", "cccc")]

    with pytest.raises(KeyError):
        await small.read(ids[0], 0, 10)
    assert await small.read(ids[1], 0, 10) == ("bbbb", 4)
    large = await small.put("d" * 100)
    assert (await small.read(large, 0, 1))[1] == 100
    for id in ids:
        with pytest.raises(KeyError):
            await small.read(id, 0, 10)


# ── on disk ───────────────────────────────────────────────────────────────────────────


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_an_output_is_one_utf_8_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "outputs"
    spill = DirectorySpill(folder, new_id=CountedIds())
    old = os.umask(0)
    try:
        await spill.put("naïve\r\n")
    finally:
        os.umask(old)

    assert files(folder) == ["out_1.txt"]
    assert (folder / "out_1.txt").read_bytes() == "naïve\r\n".encode()
    assert stat.S_IMODE((folder / "out_1.txt").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_nothing_is_touched_before_there_is_something_to_keep(tmp_path: Path) -> None:
    spill = DirectorySpill(tmp_path / "outputs")

    with pytest.raises(KeyError):
        await spill.read("out_1", 0, 1)
    assert files(tmp_path) == []


async def test_outputs_outlive_the_process_that_kept_them(tmp_path: Path) -> None:
    id = await DirectorySpill(tmp_path).put("kept")

    assert await DirectorySpill(tmp_path).read(id, 0, 10) == ("kept", 4)


async def test_what_lay_there_before_counts_and_is_the_first_to_go(tmp_path: Path) -> None:
    for age, name in enumerate(["out_c.txt", "out_a.txt", "out_b.part"]):
        (tmp_path / name).write_text("12345678")
        os.utime(tmp_path / name, ns=(age, age))
    (tmp_path / "notes.md").write_text("not ours")
    spill = DirectorySpill(tmp_path, most_bytes=20, new_id=CountedIds())

    await spill.put("1234")
    assert files(tmp_path) == ["notes.md", "out_1.txt", "out_a.txt", "out_b.part"]
    await spill.put("1234")
    assert files(tmp_path) == ["notes.md", "out_1.txt", "out_2.txt", "out_b.part"]
    await spill.put("1234567890")
    assert files(tmp_path) == ["notes.md", "out_1.txt", "out_2.txt", "out_3.txt"]


async def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    spill = DirectorySpill(tmp_path, new_id=CountedIds())
    monkeypatch.setattr(Path, "replace", fail)

    with pytest.raises(OSError, match="No space"):
        await spill.put("text")

    assert files(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
async def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "outputs"
    folder.mkdir()
    (folder / "out_1.part").symlink_to(victim)

    with pytest.raises(FileExistsError):
        await DirectorySpill(folder, new_id=CountedIds()).put("text")

    assert victim.read_text() == "precious"


@pytest.mark.parametrize("id", ["../x", "", "a/b", "a.b", ".hidden", "-x"])
async def test_an_id_that_cannot_name_a_file_is_refused(tmp_path: Path, id: str) -> None:
    with pytest.raises(UsageError):
        await DirectorySpill(tmp_path, new_id=lambda kind: id).put("text")

    assert files(tmp_path) == []


async def test_a_piece_is_read_without_the_whole_in_memory(tmp_path: Path) -> None:
    spill = DirectorySpill(tmp_path)
    id = await spill.put("x" * 20_000_000)

    tracemalloc.start()
    try:
        assert await spill.read(id, 19_999_990, 5) == ("xxxxx", 20_000_000)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 2_000_000
