"""A run goes on from its record: what was settled stays, what was open is dealt with honestly."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handrail import (
    Attachment,
    Context,
    Executor,
    Invocation,
    Output,
    Policy,
    ToolCall,
    ToolError,
    ToolResult,
    tool,
)
from handrail.core.errors import LeaseHeld
from handrail.core.events import (
    CallAmended,
    CallIntended,
    CallProgress,
    CallSettled,
    Event,
    ProgressListener,
    Recorded,
    RunStarted,
)
from handrail.journal.journal import SqliteJournal
from handrail.testing.journal import MemoryJournal
from handrail.tools.tool import Tool

FREE = Policy(confirm_side_effects=False)
CALL = ToolCall("1", "pay", {"amount": 5})


def begun(journal: MemoryJournal, *, side_effects: bool = True, idempotent: bool = False) -> None:
    """What a process that died in the middle of the call left behind."""
    journal.events.append(
        CallIntended(
            run="r",
            at=1,
            call_id="1",
            tool="pay",
            side_effects=side_effects,
            idempotent=idempotent,
            key="key_of_the_first_try",
            arguments={"amount": 5},
        )
    )


def payer(**options: Any) -> tuple[Tool, list[str]]:
    keys: list[str] = []

    async def pay(amount: int, invocation: Invocation) -> str:
        keys.append(invocation.idempotency_key)
        return "paid now"

    return Tool.from_function(pay, **options), keys


async def resumed(journal: MemoryJournal, pay: Tool) -> ToolResult:
    async with Executor([pay], journal=journal, policy=FREE) as executor:
        return await executor.invoke(CALL, Context(run="r"))


async def test_a_settled_call_keeps_its_result_and_does_not_run_again() -> None:
    journal = MemoryJournal()
    pay, keys = payer(side_effects=True)

    first = await resumed(journal, pay)
    second = await resumed(journal, pay)

    assert (len(keys), second) == (1, first)


async def test_a_side_effect_that_was_begun_is_in_doubt_and_never_rerun() -> None:
    journal = MemoryJournal()
    begun(journal)
    pay, keys = payer(side_effects=True)

    result = await resumed(journal, pay)
    again = await resumed(journal, pay)

    assert (result.outcome, keys, again) == ("in_doubt", [], result)
    assert "ask a person" in result.text


async def test_an_idempotent_effect_runs_again_with_the_key_it_had() -> None:
    journal = MemoryJournal()
    begun(journal, idempotent=True)
    pay, keys = payer(side_effects=True, idempotent=True)

    result = await resumed(journal, pay)

    assert (result.outcome, keys) == ("ok", ["key_of_the_first_try"])


async def test_a_read_that_was_begun_simply_runs_again() -> None:
    journal = MemoryJournal()
    begun(journal, side_effects=False)
    pay, keys = payer()

    result = await resumed(journal, pay)

    assert (result.outcome, len(keys)) == ("ok", 1)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_reconcile_finds_out_that_it_took_effect(kind: str) -> None:
    journal = MemoryJournal()
    begun(journal)

    async def look_up(invocation: Invocation) -> str:
        return f"paid before, by {invocation.idempotency_key}"

    def look_up_plainly(invocation: Invocation) -> str:
        return f"paid before, by {invocation.idempotency_key}"

    pay, keys = payer(side_effects=True, reconcile=look_up if kind == "async" else look_up_plainly)

    result = await resumed(journal, pay)

    assert (result.outcome, result.content, keys) == ("ok", "paid before, by key_of_the_first_try", [])


async def test_what_reconcile_finds_comes_with_its_warnings_and_attachments() -> None:
    journal, receipt = MemoryJournal(), Attachment("receipt.pdf", "application/pdf", b"%PDF")
    begun(journal)

    def look_up(invocation: Invocation) -> Output:
        return Output("paid before", ("late",), (receipt,))

    pay, _ = payer(side_effects=True, reconcile=look_up)

    result = await resumed(journal, pay)

    assert (result.content, result.warnings, result.attachments) == ("paid before", ("late",), (receipt,))


async def test_what_reconcile_finds_is_cut_for_the_model_as_any_result() -> None:
    journal = MemoryJournal()
    begun(journal)
    pay, _ = payer(side_effects=True, reconcile=lambda invocation: "paid " * 10_000)

    result = await resumed(journal, pay)

    assert (result.outcome, len(result.text) <= FREE.max_output) == ("ok", True)


async def test_reconcile_finds_out_that_it_never_ran_and_then_it_runs_with_the_same_key() -> None:
    journal = MemoryJournal()
    begun(journal)
    pay, keys = payer(side_effects=True, reconcile=lambda invocation: None)

    result = await resumed(journal, pay)

    assert (result.content, keys) == ("paid now", ["key_of_the_first_try"])


async def test_a_reconcile_that_fails_leaves_the_call_in_doubt() -> None:
    journal = MemoryJournal()
    begun(journal)

    def broken(invocation: Invocation) -> None:
        raise ToolError("the bank does not answer")

    pay, keys = payer(side_effects=True, reconcile=broken)

    result = await resumed(journal, pay)

    assert (result.outcome, keys) == ("in_doubt", [])
    assert "the bank does not answer" in result.text


async def test_a_person_settles_what_was_in_doubt() -> None:
    journal = MemoryJournal()
    begun(journal)
    pay, keys = payer(side_effects=True)
    async with Executor([pay], journal=journal, policy=FREE) as executor:
        await executor.invoke(CALL, Context(run="r"))
        await executor.amend("r", ToolResult("1", "pay", "it was paid; I looked"))
        known = await executor.invoke(CALL, Context(run="r"))

    assert (known.content, keys) == ("it was paid; I looked", [])
    assert [event.why for event in journal.events if isinstance(event, CallAmended)] == ["person"]


async def test_a_run_in_use_is_not_open_to_a_second_executor() -> None:
    journal = MemoryJournal()
    pay, _ = payer()
    async with Executor([pay], journal=journal) as first, Executor([pay], journal=journal) as second:
        await first.invoke(CALL, Context(run="r"))
        with pytest.raises(LeaseHeld):
            await second.invoke(CALL, Context(run="r"))
        await first.finish("r")
        result = await second.invoke(CALL, Context(run="r"))

    assert result.outcome == "ok"


@pytest.mark.requirement("hearthnet.progress")
async def test_progress_arrives_in_order_and_before_the_answer() -> None:
    events: list[Event] = []

    async def listen(event: Event) -> None:
        events.append(event)

    @tool
    async def long(invocation: Invocation) -> str:
        for n in range(3):
            invocation.progress(n, 3, f"step {n}")
            await asyncio.sleep(0)
        return "done"

    @tool
    def long_in_a_thread(invocation: Invocation) -> str:
        for n in range(3):
            invocation.progress(n, 3, f"step {n}")
        return "done"

    async with Executor([long, long_in_a_thread]) as executor:
        for name in ("long", "long_in_a_thread"):
            events.clear()
            await executor.invoke(ToolCall(name, name), emit=listen)

            assert [event.stage for event in events if isinstance(event, CallProgress)] == [
                "step 0",
                "step 1",
                "step 2",
            ]
            assert isinstance(events[-1], CallSettled)


async def test_who_listens_to_progress_alone_hears_nothing_else_and_the_record_is_whole(tmp_path: Path) -> None:
    heard: list[str] = []

    async def hear(event: CallProgress) -> None:
        heard.append(event.stage)

    @tool
    async def look(invocation: Invocation) -> str:
        invocation.progress(stage="looking")
        return "seen"

    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        async with Executor([look], journal=journal) as executor:
            await executor.invoke(ToolCall("1", "look"), Context(run="run-1"), ProgressListener(hear))
        kinds = [type(event) for event in await journal.history("run-1")]

    assert heard == ["looking"]
    assert kinds[:3] == [RunStarted, CallIntended, CallSettled]


@pytest.mark.parametrize("waits", [False, True])
async def test_a_listener_that_fails_on_progress_takes_no_answer_away(
    waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def listen(event: Event) -> None:
        if isinstance(event, CallProgress):
            for _ in range(20 if waits else 0):
                await asyncio.sleep(0)
            raise LookupError("nobody there")

    @tool(side_effects=True)
    async def pay(invocation: Invocation) -> str:
        invocation.progress(1, 1, "paying")
        for _ in range(10):
            await asyncio.sleep(0)
        return "paid"

    journal = MemoryJournal()
    async with Executor([pay], journal=journal, policy=FREE) as executor:
        result = await executor.invoke(ToolCall("1", "pay"), emit=listen)

    assert result.content == "paid"
    assert [event.outcome for event in journal.events if isinstance(event, CallSettled)] == ["ok"]
    assert "a listener failed on the progress of 'pay'" in caplog.text


async def test_an_id_of_the_run_before_does_not_answer_for_another_call() -> None:
    journal = MemoryJournal()
    pay, keys = payer(side_effects=True)
    await resumed(journal, pay)

    async with Executor([pay], journal=journal, policy=FREE) as executor:
        result = await executor.invoke(ToolCall("1", "pay", {"amount": 500}), Context(run="r"))

    assert (result.outcome, result.error and result.error.code, len(keys)) == ("failed", "duplicate_id", 1)


class Slow(MemoryJournal):
    """Takes long to read one run."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = asyncio.Event()
        self.go_on = asyncio.Event()

    async def history(self, run: str) -> list[Recorded]:
        if run == "long":
            self.reading.set()
            await self.go_on.wait()
        return await super().history(run)


async def test_a_run_whose_record_takes_long_to_read_keeps_no_other_waiting_and_is_read_once() -> None:
    journal, (pay, keys) = Slow(), payer()
    async with Executor([pay], policy=FREE, journal=journal) as executor, asyncio.timeout(20):
        long = [asyncio.create_task(executor.invoke(CALL, Context(run="long"))) for _ in range(2)]
        await journal.reading.wait()
        assert (await executor.invoke(CALL, Context(run="short"))).outcome == "ok"
        journal.go_on.set()
        assert [(await each).outcome for each in long] == ["ok", "ok"]
    assert len(keys) == 2
    assert sum(isinstance(each, RunStarted) and each.run == "long" for each in journal.events) == 1
