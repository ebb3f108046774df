"""How the tools were used, from events alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.errors import Outcome
from handrail.core.events import CallIntended, CallSettled, Event, Recorded, TextDelta, ToolsOffered
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import JournalReader
from handrail.journal.telemetry import RING, EventRing, Telemetry, ToolTelemetry
from tests.examples import examples
from tests.journal.event_samples import events, finished, started


def offered(*tools: str) -> ToolsOffered:
    return ToolsOffered(run="run-1", at=0, tools=tools)


def call(number: int, tool: str, outcome: Outcome = "ok", took: int = 0, ran: bool = True) -> list[Recorded]:
    """What the executor records of a call: an intent only if it came so far as to run."""
    identity = f"call-{number}"
    answer = CallSettled(run="run-1", at=0, call_id=identity, tool=tool, outcome=outcome, duration_us=took, ran=ran)
    if not ran:
        return [answer]
    intent = CallIntended(run="run-1", at=0, call_id=identity, tool=tool, side_effects=False, idempotent=True, key="k")
    return [intent, answer]


SCENE: list[Event] = [
    started(),
    offered("read", "write"),
    *call(0, "read", took=100),
    *call(1, "read", took=300),
    *call(2, "read", "timeout", took=900),
    *call(3, "read", ran=False),
    TextDelta(text="hm"),
    offered("read"),
    *call(4, "write", "denied", ran=False),
    *call(5, "wirte", "unknown_tool", ran=False),
    finished(),
]


@pytest.mark.requirement("hearthnet.telemetry")
def test_each_tool_has_one_line_about_its_use() -> None:
    assert Telemetry.of(SCENE).tools() == [
        ToolTelemetry(
            tool="read", offered=2, picked=4, failed={"timeout": 1}, reused=1, p50_us=300, p95_us=900, total_us=1300
        ),
        ToolTelemetry(
            tool="wirte", offered=0, picked=1, failed={"unknown_tool": 1}, reused=0, p50_us=0, p95_us=0, total_us=0
        ),
        ToolTelemetry(
            tool="write", offered=1, picked=1, failed={"denied": 1}, reused=0, p50_us=0, p95_us=0, total_us=0
        ),
    ]


def test_a_tool_that_never_appeared_has_only_zeros() -> None:
    line = Telemetry.of(SCENE).tool("sleep")
    assert (line.offered, line.picked, line.failed, line.p95_us) == (0, 0, {}, 0)


def test_a_call_at_work_is_picked_already() -> None:
    telemetry = Telemetry.of(call(0, "read")[:1])
    assert telemetry.tool("read").picked == 1
    telemetry.feed(call(0, "read")[1])
    assert telemetry.tool("read").picked == 1


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
@settings(max_examples=examples(50))
def test_half_of_the_calls_took_no_longer_than_the_median_and_19_of_20_no_longer_than_p95(took: list[int]) -> None:
    events = [event for number, each in enumerate(took) for event in call(number, "read", took=each)]
    line = Telemetry.of(events).tool("read")
    assert line.total_us == sum(took)
    for percent, found in ((50, line.p50_us), (95, line.p95_us)):
        assert found in took
        assert sum(each <= found for each in took) * 100 >= percent * len(took)
        assert sum(each < found for each in took) * 100 < percent * len(took)


@given(st.lists(events(), max_size=8))
@settings(max_examples=examples(50))
def test_any_events_can_be_counted(found: list[Recorded]) -> None:
    answers = [event for event in found if isinstance(event, CallSettled)]
    lines = Telemetry.of(found).tools()
    assert sum(line.picked for line in lines) >= len(answers) - sum(isinstance(event, CallIntended) for event in found)
    assert sum(sum(line.failed.values()) for line in lines) == sum(event.outcome != "ok" for event in answers)


@pytest.mark.requirement("hearthnet.telemetry")
async def test_a_ring_keeps_the_last_ten_thousand_and_no_deltas() -> None:
    ring = EventRing()
    await ring(TextDelta(text="not kept"))
    for number in range(RING // 2 + 1):
        for event in call(number, "read"):
            await ring(event)
    assert len(ring) == RING == 10_000
    assert ring.recent(2) == call(RING // 2, "read")
    assert ring.recent(0) == []
    assert ring.recent()[0] == call(1, "read")[0]
    assert ring.telemetry().tool("read").picked == RING // 2


@pytest.mark.requirement("hearthnet.telemetry")
async def test_the_ring_of_a_journal_is_its_last_entries(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    recorded = [event for event in SCENE if isinstance(event, Recorded)]
    async with await SqliteJournal.open(path) as journal:
        for event in recorded:
            await journal.append(event)
    with JournalReader(path) as reader:
        assert reader.recent() == recorded
        assert Telemetry.of(reader.recent()).tools() == Telemetry.of(SCENE).tools()
