"""The bench measures the same work: the same requests reach the mock service, and the same answer comes of them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from hypothesis import given, strategies as st

from bench import bench_code, bench_page, bench_rlm
from bench.turns.contestants import (
    by_hand,
    by_hand_msgspec,
    handrail,
    handrail_journal,
    handrail_search,
    handrail_session,
    handrail_session_journal,
)
from bench.turns.replies import Script
from bench.turns.report import Row, Weight, table, weight_table
from bench.turns.server import Connection, Service
from bench.turns.work import ANSWER, JOBS, Once, Work
from bench.turns.worker import measured
from tests.cases import case

Opened = Callable[[Work, str], AbstractAsyncContextManager[Once]]

SMALL = [name for name in JOBS if name not in ("turns100", "turns1000", "stream100k")]
OTHERS: dict[str, Opened] = {
    "by_hand_msgspec": by_hand_msgspec.opened,
    "handrail": handrail.opened,
    "handrail_journal": handrail_journal.opened,
    "handrail_session": handrail_session.opened,
    "handrail_session_journal": handrail_session_journal.opened,
}


async def bodies(opened: Opened, job: str) -> list[dict[str, Any]]:
    """What reaches the service when a job is done once."""
    service = Service(keep=True)
    server, port = await service.start()
    async with server:
        work = Work(JOBS[job])
        async with opened(work, f"http://127.0.0.1:{port}/{job}/v1") as once:
            await measured(once, work, count=1, at_once=1)
    assert service.bodies is not None
    return [json.loads(body) for body in service.bodies]


def said(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The messages of a request, whatever spelling of nothing they have."""
    return [
        (
            message["role"],
            message.get("content") or "",
            message.get("tool_call_id"),
            [(call["id"], call["function"]) for call in message.get("tool_calls") or ()],
        )
        for message in body["messages"]
    ]


def offered(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The tools of a request, but for how strict they are."""
    functions = [tool["function"] for tool in body["tools"]]
    return [(each["name"], each["description"], sorted(each["parameters"]["properties"])) for each in functions]


@pytest.mark.parametrize("job", SMALL)
async def test_every_contestant_sends_what_the_loop_by_hand_sends(
    job: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the journal lies where the bench runs
    expected = await bodies(by_hand.opened, job)
    for name, opened in OTHERS.items():
        with case(name):
            found = await bodies(opened, job)
            assert len(found) == JOBS[job].turns + 1
            assert list(map(said, found)) == list(map(said, expected))
            assert list(map(offered, found)) == list(map(offered, expected))
            assert [body.get("stream", False) for body in found] == [JOBS[job].stream] * len(found)


async def test_with_tool_search_few_tools_are_offered_and_the_work_is_the_same() -> None:
    expected, found = await bodies(by_hand.opened, "tools200"), await bodies(handrail_search.opened, "tools200")
    assert list(map(said, found)) == list(map(said, expected))
    assert all(len(offered(body)) < 64 for body in found)


async def test_the_bench_of_code_needs_two_turns_and_the_fewest_tokens(capfd: pytest.CaptureFixture[str]) -> None:
    assert not await bench_code.main(reads=30, tools=2)

    found = json.loads(capfd.readouterr().out)
    assert [row["turns"] for row in found["reads"].values()] == [31, 3, 2]
    assert found["tools"]["signatures"] > 0


async def test_the_bench_of_rlms_measures_every_aim_in_one_run(capfd: pytest.CaptureFixture[str]) -> None:
    missed = await bench_rlm.main(rounds=1, queries=16, turns=2, megabytes=5)  # each way checks its own answers
    out, table = capfd.readouterr()
    found = json.loads(out)
    assert list(found) == ["needle", "queries", "monty", "os"]
    assert table.count(": met") + table.count(": MISSED") == 5
    assert missed == ("MISSED" in table)


async def test_an_answer_that_is_not_the_right_one_ends_the_measurement() -> None:
    async def wrong() -> str:
        return "I did nothing."

    with pytest.raises(AssertionError, match="the answer should be"):
        await measured(wrong, Work(JOBS["one_tool"]), count=1, at_once=1)


async def test_an_answer_without_the_tool_having_run_ends_the_measurement() -> None:
    async def idle() -> str:
        return ANSWER

    with pytest.raises(AssertionError, match="the tool should have run 3 times, and ran 0 times"):
        await measured(idle, Work(JOBS["one_tool"]), count=3, at_once=2)


async def test_the_service_stamps_the_last_argument_byte_of_every_paced_call_before_its_tool_begins() -> None:
    service = Service()
    server, port = await service.start()
    async with server:
        work = Work(JOBS["paced"])
        async with by_hand.opened(work, f"http://127.0.0.1:{port}/paced/v1") as once:
            found = await measured(once, work, count=2, at_once=1)
    row = Row("by_hand")
    row.add(found, service.stamps)
    assert [len(lags) for lags in row.lag_ms.values()] == [2, 2]
    assert all(lag > 0 for lags in row.lag_ms.values() for lag in lags)


async def test_a_run_of_many_turns_says_what_its_turns_cost() -> None:
    service = Service()
    server, port = await service.start()
    async with server:
        work = Work(JOBS["turns100"])
        async with by_hand.opened(work, f"http://127.0.0.1:{port}/turns100/v1") as once:
            found = await measured(once, work, count=1, at_once=1)
    row = Row("by_hand")
    row.add(found, [])
    assert list(row.turn_us) == [10, 100]


def test_a_streamed_piece_is_marked_where_the_arguments_of_a_call_are_whole_and_nowhere_else() -> None:
    calls, answer = Script(JOBS["paced"]).pieces
    texts, ended = ["", ""], []
    for piece in calls:
        for index, text in argument_pieces(piece.data):
            texts[index] += text
            whole = texts[index].endswith("}")
            assert piece.ends_call == whole
            ended += [json.loads(texts[index])["number"]] if whole else []
    assert ended == [0, 1]
    assert not any(piece.ends_call for piece in answer)


def argument_pieces(data: bytes) -> list[tuple[int, str]]:
    events = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    return [(call["index"], call["function"]["arguments"]) for delta in deltas for call in delta.get("tool_calls", ())]


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))


@given(cuts=st.lists(st.integers(1, 200), max_size=8), results=st.integers(0, 10))
def test_the_service_reads_a_request_in_whatever_pieces_it_comes(cuts: list[int], results: int) -> None:
    body = json.dumps({"messages": [{"role": "tool", "tool_call_id": f"c{n}"} for n in range(results)]}).encode()
    head = f"POST /seq10/v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    service, wire = Service(), Wire()
    connection = Connection(service)
    connection.connection_made(wire)
    places = sorted({0, len(request), *(cut for cut in cuts if cut < len(request))})
    for first, last in itertools.pairwise(places):
        connection.data_received(request[first:last])
    assert wire.written == [service.script(b"seq10").whole[results]]


def round_of(cpu: float, *, count: int = 10) -> dict[str, Any]:
    return {"count": count, "cpu": cpu, "wall": 2 * cpu, "took": [cpu / count] * count, "peak_mb": 40.0}


def test_a_ratio_is_between_two_of_the_same_round_and_comes_with_its_spread() -> None:
    hand, ours = Row("by_hand"), Row("handrail")
    for cpu, times in ((0.1, 2), (0.2, 3), (0.4, 7)):
        hand.add(round_of(cpu), [])
        ours.add(round_of(cpu * times), [])
    lines = table("one_tool", 1, [ours, hand, Row("peer", missing="peer cannot be installed")]).splitlines()
    assert lines[-4:] == [
        "| by_hand | 20 | 1 | 1–1 | 20 | 40 | 25 | 40 |",
        "| handrail | 60 | 3 | 2–7 | 60 | 280 | 8.33 | 40 |",
        "",
        "peer: peer cannot be installed",
    ]


def test_a_lag_is_between_the_stamp_and_the_start_of_the_same_call_whichever_tool_began_first() -> None:
    row = Row("handrail")
    row.add(round_of(0.1) | {"starts": [[1, 5_000_000], [0, 6_000_000]]}, [1_000_000, 4_500_000])
    assert row.lag_ms == {"first": [5.0], "last": [0.5]}


def test_the_weight_of_one_that_never_ran_is_left_open() -> None:
    weight, lost = Weight("by_hand", installed_mb=12.0), Weight("peer")
    weight.see(Row("by_hand", import_ms=100.0, first_ms=150.0), "one_tool")
    weight.see(Row("by_hand", import_ms=120.0, first_ms=900.0), "seq10")
    lost.see(Row("peer", missing="no"), "one_tool")
    assert weight_table([weight, lost]).splitlines()[-2:] == [
        "| by_hand | 110 | 100–120 | 150 | 12 |",
        "| peer |  |  |  |  |",
    ]


def test_a_task_of_the_page_is_measured_by_what_it_used_and_those_of_other_threads_are_not() -> None:
    ours, theirs = {"pid": 1, "tid": 1}, {"pid": 1, "tid": 2}
    tasks = bench_page.judged(
        [
            {"name": "thread_name", **ours, "args": {"name": "CrRendererMain"}},
            {"name": "RunTask", **ours, "ts": 0, "dur": 90_000, "tdur": 40_000},
            {"name": "Layout", **ours, "ts": 10, "dur": 80_000, "tdur": 30_000},
            {"name": "RunTask", **ours, "ts": 100_000, "dur": 60_000, "tdur": 10_000},
            {"name": "RunTask", **theirs, "ts": 0, "dur": 900_000, "tdur": 900_000},
        ]
    )
    assert (tasks.longest, tasks.by_the_clock, tasks.over, tasks.parts) == (40.0, 90.0, 0, {"Layout": 30.0})
