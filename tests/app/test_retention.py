"""What `[retention]` removes and what it never does, on a state in files and on one in PostgreSQL."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from handrail import Context, Executor, Policy, ToolCall, tool
from handrail.app.erasure import all_leased, opened_leases
from handrail.app.network_node import open_node
from handrail.app.node_state import NodeState, state_at
from handrail.app.retention import RetentionBusy, RetentionReport, retain
from handrail.config.retention import RetentionSettings
from handrail.config.state import StateSettings
from handrail.config.values import Config
from handrail.core.context import RepeatingCaller
from handrail.core.errors import InDoubt, JournalError, LeaseLost
from handrail.core.events import CallIntended
from handrail.core.messages import Conversation, Text, UserMessage
from handrail.journal.auditing import audit
from handrail.journal.lease import RunLease
from handrail.journal.places import JournalPlace, open_journal, parse_place
from handrail.journal.reader import JournalReader, erase_entries
from handrail.journal.standing import RunStanding
from handrail.node.services.blobs import BlobStore, cid_of
from handrail.node.services.event_log import EventDraft, EventLog
from handrail.sessions.store.metadata import ConversationChoices
from handrail.testing.clock import FixedClock
from tests.polling import until

DAY = 86_400
START = 1_700_000_000_000
NOW = FixedClock(START + 100 * DAY * 1000)
PEARS, FIGS = b"pears", b"figs"
paid: list[str] = []


@tool(side_effects=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    paid.append(to)
    if to == "nobody":
        raise InDoubt("nobody knows")
    return f"paid {to}, see out_{to}"


@tool(side_effects=True)
async def ask_first(what: str) -> str:
    """Do something."""
    return what


@dataclass(frozen=True)
class OldState:
    """A state in which most is old, and some of that is still open."""

    journal: JournalPlace
    node: NodeState

    async def retain(
        self, *, dry_run: bool = False, settings: RetentionSettings | None = None, **days: int
    ) -> RetentionReport:
        return await retain(self.journal, self.node, settings or RetentionSettings(**days), clock=NOW, dry_run=dry_run)

    def with_bodies(self) -> set[str]:
        """The runs whose bodies are all there; a run has all of them or none."""
        with JournalReader(self.journal) as reader:
            rows = [row for row in reader.entries() if row.salt is not None or row.type == "call.settled"]
        there = {row.run for row in rows if row.data is not None}
        assert not there & {row.run for row in rows if row.data is None}
        return there

    async def outputs(self) -> set[str]:
        return {each.id for each in await self.node.outputs().known()}


ALL = {"run_old", "run_new", "run_waits", "run_waits.sub", "run_doubt", "run_cut", "run_held"}


@pytest.fixture(params=["files", "postgres"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldState]:
    paid.clear()
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    place = parse_place(url or str(tmp_path / "journal.db"))
    with state_at(place) as node:
        asyncio.run(_fill(place, node))
        yield OldState(place, node)


async def _fill(place: JournalPlace, node: NodeState) -> None:
    clock = FixedClock(START)
    await _record(place, clock)
    names = iter(("out_ada", "out_waits", "out_bob"))
    outputs = node.outputs(new_id=lambda kind: next(names))
    for _ in range(3):
        await outputs.put("x" * 1000)
    _make_older(node, "out_ada", "out_waits")
    for id, at in (("run_old", 0), ("run_waits", 0), ("talk", 0), ("working", 0), ("run_new", 95)):
        store = node.conversations(clock=FixedClock(START + at * DAY * 1000))
        store.save(
            id,
            Conversation((UserMessage((Text("hello"),)),)),
            chosen=ConversationChoices(working=id == "working"),
        )
    for at, data in ((0, PEARS), (0, FIGS), (95, b"new")):
        blobs = BlobStore(node.file("blobs"), clock=FixedClock(START + at * DAY * 1000))
        await blobs.put(data, "text/plain", "token:ada")
        blobs.close()
    for at, state, lives in ((0, "direct", None), (0, "queued", None), (0, "", 99 * DAY * 1000), (95, "direct", None)):
        log = EventLog(node.file("events.db"), clock=FixedClock(START + at * DAY * 1000))
        await log.add(EventDraft("chat", "token:ada", f"{at}{state}{lives}", {}, state=state, lives_ms=lives))
        log.close()


async def _record(place: JournalPlace, clock: FixedClock) -> None:
    async with (
        await open_journal(place) as journal,
        Executor([pay], journal=journal, clock=clock, policy=Policy(confirm_side_effects=False)) as executor,
        Executor([ask_first], journal=journal, clock=clock) as asking,
    ):
        for run, to in (("run_old", "ada"), ("run_held", "eve"), ("run_waits.sub", "sub"), ("run_doubt", "nobody")):
            caller = RepeatingCaller(owner="me", since=START, key="once") if run == "run_old" else None
            await executor.invoke(ToolCall("call_1", "pay", {"to": to}), Context(run=run, repeating=caller))
            await executor.finish(run)
        named = f"out_waits {cid_of(FIGS)}"
        await asking.invoke(ToolCall("call_1", "ask_first", {"what": named}), Context(run="run_waits"))
        begun = CallIntended(
            run="run_cut", at=START, call_id="c", tool="pay", side_effects=False, idempotent=True, key="k", arguments={}
        )
        await journal.append(begun, durable=True)
        clock.advance(95 * DAY)
        await executor.invoke(ToolCall("call_1", "pay", {"to": "bob"}), Context(run="run_new"))
        await executor.finish("run_new")


def _make_older(node: NodeState, *ids: str) -> None:
    if node.database is None:
        for id in ids:
            os.utime(node.folder / "outputs" / f"{id}.txt", (START / 1000, START / 1000))
        return
    statement = "UPDATE long_output SET at = to_timestamp(%s) WHERE id = ANY(%s)"
    node.database.execute_now(statement, (START / 1000, list(ids)))


async def test_bodies_go_by_age_and_everything_that_is_open_stays(state: OldState) -> None:
    assert state.with_bodies() == ALL
    with all_leased(state.journal, state.node, ["run_held"]):
        report = await state.retain(conversations_days=30, bodies_days=30)

    assert state.with_bodies() == ALL - {"run_old"}
    assert (report.runs, report.bodies > 0) == (1, True)
    assert report.kept == {"at_work": 1, "in_doubt": 1, "under_way": 1, "waits": 2}
    found = audit(state.journal)
    assert (found.ok, found.erased) == (True, report.bodies)

    assert (await state.retain(conversations_days=30, bodies_days=30)).runs == 1
    assert state.with_bodies() == ALL - {"run_old", "run_held"}


async def test_the_words_of_a_conversation_stay_as_long_as_it_does(state: OldState) -> None:
    report = await state.retain(bodies_days=30)

    assert report.kept == {"conversation": 1, "in_doubt": 1, "under_way": 1, "waits": 2}
    assert state.with_bodies() == ALL - {"run_held"}


async def test_a_dry_run_says_what_would_go_and_removes_nothing(state: OldState) -> None:
    settings = RetentionSettings(bodies_days=30, outputs_days=30, blobs_days=30, events_days=30, conversations_days=30)
    told = await state.retain(dry_run=True, settings=settings)

    assert state.with_bodies() == ALL
    assert len(await state.outputs()) == 3
    assert (await state.retain(settings=settings)) == told
    assert told.conversations == 2
    assert (told.outputs, told.blobs, told.events, told.runs) == (1, 1, 1, 2)
    assert (await state.retain(settings=settings)).bodies == 0


async def test_what_an_open_run_names_stays_and_so_does_its_conversation(state: OldState) -> None:
    await state.retain(outputs_days=30, blobs_days=30, conversations_days=30)

    assert await state.outputs() == {"out_waits", "out_bob"}
    assert {each.id for each in state.node.conversations().list()} == {"run_waits", "working", "run_new"}
    blobs = BlobStore(state.node.file("blobs"))
    assert {each.cid for each in await blobs.held()} == {cid_of(FIGS), cid_of(b"new")}
    blobs.close()


async def test_sizes_have_the_oldest_go_first(state: OldState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.app.retention._MB", 1000)
    report = await state.retain(outputs_mb=2)

    assert (report.outputs, report.output_bytes) == (1, 1000)
    assert await state.outputs() == {"out_waits", "out_bob"}


async def test_messages_that_are_queued_or_that_have_their_own_end_stay(state: OldState) -> None:
    assert (await state.retain(events_days=1)).events == 1

    log = EventLog(state.node.file("events.db"), clock=FixedClock(START))
    kept, _ = await log.find("kind = ?", ("chat",), newest=False, limit=10)
    log.close()
    assert [(each.state, each.expires is not None) for each in kept] == [
        ("queued", False),
        ("", True),
        ("direct", False),
    ]


async def test_an_effect_whose_words_are_gone_is_not_made_again(state: OldState) -> None:
    await state.retain(conversations_days=30, bodies_days=30)
    before = list(paid)
    async with (
        await open_journal(state.journal) as journal,
        Executor([pay], journal=journal, clock=NOW, policy=Policy(confirm_side_effects=False)) as executor,
    ):
        again = Context(run="another", repeating=RepeatingCaller(owner="me", since=NOW.now(), key="once"))
        answered = await executor.invoke(ToolCall("call_9", "pay", {"to": "ada"}), again)
        same_run = await executor.invoke(ToolCall("call_1", "pay", {"to": "ada"}), Context(run="run_old"))

    assert paid == before
    assert (answered.outcome, same_run.outcome) == ("needs_confirmation", "ok")
    assert "erased" in same_run.text


async def test_one_process_at_a_time_removes(state: OldState) -> None:
    from handrail.app.retention import _pass_lock

    with _pass_lock(state.journal, state.node), pytest.raises(RetentionBusy, match="another process"):
        await state.retain(conversations_days=30, bodies_days=30)
    assert (await state.retain(conversations_days=30, bodies_days=30)).runs == 2


async def test_what_a_pass_did_not_come_to_the_next_one_does(state: OldState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.app.retention._AT_ONCE", 1)
    left = iter(range(3))

    def cut_off(*given: object, **more: object) -> int:
        if next(left, None) is None:
            raise JournalError("the disk is full")
        return erase_entries(*given, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(JournalError, match="disk"):
        patch.setattr("handrail.app.retention.erase_entries", cut_off)
        await state.retain(conversations_days=30, bodies_days=30)

    await state.retain(conversations_days=30, bodies_days=30)
    assert state.with_bodies() == ALL - {"run_old", "run_held"}
    with all_leased(state.journal, state.node, ["run_old", "run_held"]):
        assert audit(state.journal).ok


async def test_a_process_that_lost_its_lease_meanwhile_removes_nothing(state: OldState) -> None:
    if isinstance(state.journal, Path):
        return  # the kernel holds the lock of a process that is stopped
    with JournalReader(state.journal) as reader:
        seqs = [row.seq for row in reader.entries("run_old")]
    with opened_leases(state.journal, state.node) as take:
        lease = take("run_old")
        assert not isinstance(lease, RunLease)
        with pytest.raises(LeaseLost):
            erase_entries(state.journal, seqs, fences={"run_old": lease.fence - 1})
        assert "run_old" in state.with_bodies()
        assert erase_entries(state.journal, seqs, fences={"run_old": lease.fence}) > 0


async def test_a_node_removes_by_itself_while_it_runs(state: OldState, tmp_path: Path) -> None:
    url = None if isinstance(state.journal, Path) else state.journal
    config = Config(state=StateSettings(url=url), retention=RetentionSettings(bodies_days=1, conversations_days=1))
    async with open_node(config, tmp_path / "journal.db"):
        await until(lambda: "run_old" not in state.with_bodies())


async def test_a_long_run_is_removed_in_pieces(state: OldState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.app.retention._PIECE", 2)
    monkeypatch.setattr("handrail.app.retention._AT_ONCE", 1)
    monkeypatch.setattr("handrail.app.retention._TOGETHER", 1)

    assert (await state.retain(conversations_days=30, bodies_days=30)).runs == 2
    assert state.with_bodies() == ALL - {"run_old", "run_held"}
    assert audit(state.journal).ok


@pytest.mark.parametrize(
    ("entries", "standing"),
    [
        ([], "settled"),
        ([("confirmation.requested", {}), ("confirmation.answered", {})], "waits"),
        ([("confirmation.requested", {}), ("call.settled", {"outcome": "denied"})], "settled"),
        ([("call.intended", {"side_effects": True})], "in_doubt"),
        ([("call.intended", {"side_effects": False})], "under_way"),
        ([("call.intended", {"side_effects": True}), ("call.amended", {"why": "late", "outcome": "ok"})], "in_doubt"),
        ([("call.intended", {"side_effects": True}), ("call.amended", {"why": "person", "outcome": "ok"})], "settled"),
        ([("call.settled", {"outcome": "in_doubt"})], "in_doubt"),
        ([("call.settled", {"outcome": "in_doubt"}), ("call.amended", {"why": "late", "outcome": "ok"})], "in_doubt"),
        ([("call.settled", {"outcome": "in_doubt"}), ("call.amended", {"why": "person", "outcome": "ok"})], "settled"),
    ],
)
def test_what_is_open_in_a_run(entries: list[tuple[str, dict[str, object]]], standing: str) -> None:
    import json

    looked = RunStanding()
    for kind, leaf in entries:
        looked.feed(kind, "call_1", json.dumps(leaf).encode())
    assert looked.value == standing
