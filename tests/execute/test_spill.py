"""The outputs in memory, and the tool that reads them in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import ToolError
from handrail.execute.output import bound_output
from handrail.execute.spill import LONGEST_PIECE, MemorySpill, read_output_tool
from handrail.testing.ids import CountedIds


async def test_the_oldest_outputs_make_room_for_newer_ones() -> None:
    spill = MemorySpill(most=10, new_id=CountedIds())

    for text in ("aaaa", "bbbb", "cccc"):
        await spill.put(text)

    with pytest.raises(KeyError):
        await spill.read("out_1", 0, 10)
    assert await spill.read("out_2", 0, 10) == ("bbbb", 4)
    assert await spill.read("out_3", 0, 10) == ("cccc", 4)


async def test_the_newest_output_is_kept_even_if_it_is_too_large() -> None:
    spill = MemorySpill(most=10, new_id=CountedIds())
    await spill.put("aaaa")

    await spill.put("b" * 100)

    assert await spill.read("out_2", 98, 10) == ("bb", 100)
    with pytest.raises(KeyError):
        await spill.read("out_1", 0, 10)


@pytest.mark.requirement("abstractllm.output-limit")
@given(st.text(min_size=1, max_size=50), st.integers(1, 9))
async def test_a_model_reads_the_whole_output_piece_by_piece(text: str, length: int) -> None:
    spill = MemorySpill(new_id=CountedIds())
    id = await spill.put(text)
    tool = read_output_tool(spill)

    read = ""
    while len(read) < len(text):
        answer = await tool(id, start=len(read), length=length)
        piece, _, line = answer.rpartition("\n")
        assert line == f"[characters {len(read)} to {len(read) + len(piece)} of {len(text)}]"
        read += piece

    assert read == text


@pytest.mark.parametrize(
    ("start", "length", "answer"),
    [
        (-5, 2, "ab\n[characters 0 to 2 of 6]"),
        (4, 100, "ef\n[characters 4 to 6 of 6]"),
        (6, 1, "\n[characters 6 to 6 of 6]"),
        (99, 1, "\n[characters 99 to 99 of 6]"),
        (0, 0, "a\n[characters 0 to 1 of 6]"),
        (0, -3, "a\n[characters 0 to 1 of 6]"),
    ],
)
async def test_an_odd_piece_is_answered_with_what_there_is(start: int, length: int, answer: str) -> None:
    spill = MemorySpill(new_id=CountedIds())
    await spill.put("abcdef")

    assert await read_output_tool(spill)("out_1", start, length) == answer


async def test_the_longest_piece_is_never_cut_again() -> None:
    spill = MemorySpill(most=10**10, new_id=CountedIds())
    await spill.put("x" * 1_000_000)
    tool = read_output_tool(spill)

    answer = await tool("out_1", start=900_000, length=10**9)

    assert answer.startswith("x" * LONGEST_PIECE + "\n")
    assert tool.max_output is not None
    assert await bound_output(answer, tool.max_output, None) == (answer, None, ())


async def test_an_output_that_is_gone_is_told_to_the_model() -> None:
    with pytest.raises(ToolError) as caught:
        await read_output_tool(MemorySpill())("out_9")

    assert caught.value.code == "not_found"


def test_the_tool_only_reads_and_asks_for_an_id() -> None:
    tool = read_output_tool(MemorySpill())

    assert (tool.name, tool.reads, tool.isolation) == ("read_output", True, "loop")
    assert tool.definition.input_schema["required"] == ["id"]
    assert not tool.validator.problems({"id": "out_1", "start": 5, "length": 10})
    assert tool.validator.problems({"id": "out_1", "start": "5"})
