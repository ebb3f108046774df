"""A timeout or a cancellation is answered on time, and the answer is the truth about what may have happened."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from handrail import Context, Executor, Invocation, Policy, Tool, ToolCall, tool
from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.core.events import CallAmended, CallProgress, CallSettled, Event, ignore_event
from handrail.execute.spill import MemorySpill
from handrail.testing.journal import MemoryJournal
from tests import holding
from tests.execute.approvers import allow_all


def one() -> int:
    return 1


class Heard:
    """A listener that can be waited for until a kind of event has come."""

    def __init__(self, kind: type[Event]) -> None:
        self._kind = kind
        self._come = asyncio.Event()

    async def __call__(self, event: Event) -> None:
        if isinstance(event, self._kind):
            self._come.set()

    async def wait(self) -> None:
        async with asyncio.timeout(10):
            await self._come.wait()


@pytest.mark.requirement("abstractllm.timeout")
@pytest.mark.requirement("nrv.timeout-code")
async def test_an_async_tool_past_its_timeout_is_stopped() -> None:
    stopped = asyncio.Event()

    @tool(timeout=0.01)
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with Executor([hang]) as executor:
        result = await executor.invoke(ToolCall("1", "hang"))

    assert (result.outcome, result.still_running, stopped.is_set()) == ("timeout", False, True)


@pytest.mark.requirement("abstractllm.timeout")
async def test_an_async_tool_that_ignores_being_stopped_is_answered_for_and_its_late_end_is_noted() -> None:
    go = asyncio.Event()

    @tool(timeout=0.01, side_effects=True)
    async def stubborn() -> str:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return "paid after all"

    journal, amended = MemoryJournal(), Heard(CallAmended)
    async with Executor([stubborn], journal=journal, policy=Policy(confirm_side_effects=False)) as executor:
        result = await executor.invoke(ToolCall("1", "stubborn"), emit=amended)
        assert (result.outcome, result.still_running) == ("timeout", True)
        assert "may yet take effect" in result.text
        go.set()
        await amended.wait()

    answers = [event for event in journal.events if isinstance(event, CallSettled)]
    (late,) = [event for event in journal.events if isinstance(event, CallAmended)]
    assert len(answers) == 1
    assert late.result is not None
    assert (late.why, late.outcome, late.result.content) == ("late", "ok", "paid after all")


@pytest.mark.requirement("abstractllm.timeout")
async def test_a_plain_function_past_its_timeout_is_answered_for_and_said_to_go_on() -> None:
    go, started = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def slow() -> str:
        started.set()
        go.wait(30)
        return "late"

    async with Executor([slow]) as executor:
        result = await executor.invoke(ToolCall("1", "slow"))
        go.set()

    assert started.is_set()
    assert (result.outcome, result.still_running) == ("timeout", True)


@pytest.mark.requirement("abstractllm.timeout")
@pytest.mark.parametrize("work", [holding.count, holding.match, holding.multiply, holding.match_in_the_loop])
async def test_work_that_never_lets_go_of_its_interpreter_is_answered_for_and_ended(work: Callable[[], Any]) -> None:
    """It would never end by itself: that there is an answer shows that nobody waited for it."""
    hold = Tool.from_function(work, timeout=1, isolation="process")

    async with Executor([hold, Tool.from_function(one, isolation="process")]) as executor:
        assert (await executor.invoke(ToolCall("0", "one"))).content == 1, "a worker is there and knows this module"
        result = await executor.invoke(ToolCall("1", hold.name))
        after = await executor.invoke(ToolCall("2", "one"))

    assert (result.outcome, result.still_running, after.content) == ("timeout", False, 1)
    assert "longer than 1 s and was stopped" in result.text


async def test_calls_that_cannot_be_stopped_are_capped_with_a_clear_error_and_work_again_when_they_end() -> None:
    go, started = threading.Event(), threading.Semaphore(0)

    @tool(timeout=0.01)
    def slow(n: int) -> int:
        started.release()
        go.wait(30)
        return n

    async with Executor([slow], policy=Policy(max_left_running=3)) as executor:
        for n in range(3):
            assert (await executor.invoke(ToolCall(f"{n}", "slow", {"n": n}))).outcome == "timeout"
        refused = await executor.invoke(ToolCall("4", "slow", {"n": 4}))
        assert refused.outcome == "limit"
        assert "isolation='process'" in refused.text
        go.set()
        result, n = refused, 5
        async with asyncio.timeout(10):
            while result.outcome == "limit":
                await asyncio.sleep(0)
                result, n = await executor.invoke(ToolCall(f"{n}", "slow", {"n": n})), n + 1

    assert result.outcome == "ok"


async def test_an_equal_call_of_an_effect_that_still_runs_is_answered_with_that_and_not_started() -> None:
    go, sent, asked = threading.Event(), list[str](), allow_all()

    @tool(timeout=0.01, side_effects=True)
    def send_mail(to: str) -> str:
        sent.append(to)
        go.wait(30)
        return f"sent to {to}"

    amended = Heard(CallAmended)
    async with Executor([send_mail], approver=asked) as executor:
        ada, bob = {"to": "ada"}, {"to": "bob"}
        first = await executor.invoke(ToolCall("1", "send_mail", ada), emit=amended)
        again = await executor.invoke(ToolCall("2", "send_mail", '{ "to": "ada" }'))
        other = await executor.invoke(ToolCall("3", "send_mail", bob))
        elsewhere = await executor.invoke(ToolCall("4", "send_mail", ada), Context(run="another"))
        go.set()
        await amended.wait()
        later = await executor.invoke(ToolCall("5", "send_mail", ada))

    assert (first.outcome, first.still_running) == ("timeout", True)
    assert (again.outcome, again.still_running) == ("limit", False)
    assert "was not started: an equal call (1)" in again.text and "do not repeat it" in again.text
    assert {other.outcome, elsewhere.outcome, later.outcome} <= {"timeout", "ok"}
    assert sorted(sent) == ["ada", "ada", "ada", "bob"]
    assert [question.call_id for question in asked.questions] == ["1", "3", "4", "5"]


async def test_a_call_that_writes_a_default_out_is_equal_to_one_that_leaves_it_out() -> None:
    go, sent = threading.Event(), list[str]()

    @tool(timeout=0.01, side_effects=True)
    def send_mail(to: str, copies: int = 1) -> None:
        sent.append(to)
        go.wait(30)

    async with Executor([send_mail], approver=allow_all()) as executor:
        await executor.invoke(ToolCall("1", "send_mail", {"to": "ada"}))
        again = await executor.invoke(ToolCall("2", "send_mail", {"to": "ada", "copies": 1}))
        go.set()

    assert (again.outcome, sent) == ("limit", ["ada"])


async def test_an_equal_call_that_was_allowed_before_the_first_timed_out_is_not_started_either() -> None:
    go, sent, waiting = threading.Event(), list[str](), asyncio.Event()

    class AllowsTheSecondLate:
        async def decide(self, question: Confirmation) -> Decision:
            if question.call_id == "2":
                await waiting.wait()
            return Allow("a person")

    @tool(timeout=0.01, side_effects=True)
    def send_mail(to: str) -> None:
        sent.append(to)
        go.wait(30)

    async with Executor([send_mail], approver=AllowsTheSecondLate()) as executor:
        second = asyncio.create_task(executor.invoke(ToolCall("2", "send_mail", {"to": "ada"})))
        await executor.invoke(ToolCall("1", "send_mail", {"to": "ada"}))
        waiting.set()
        result = await second
        go.set()

    assert (result.outcome, sent) == ("limit", ["ada"])


async def test_an_idempotent_call_or_a_read_may_begin_again_while_the_first_still_runs() -> None:
    go, ran = threading.Event(), list[str]()

    def work(name: str) -> Callable[[], None]:
        def handler() -> None:
            ran.append(name)
            go.wait(30)

        return handler

    look = tool(work("look"), name="look", timeout=0.01)
    put = tool(work("put"), name="put", timeout=0.01, side_effects=True, idempotent=True)
    async with Executor([look, put], policy=Policy(confirm_side_effects=False)) as executor:
        for number, name in enumerate(("look", "put") * 2):
            assert (await executor.invoke(ToolCall(f"{number}", name))).outcome == "timeout"
        go.set()

    assert sorted(ran) == ["look", "look", "put", "put"]


async def test_a_tool_that_had_timed_out_is_not_said_to_have_failed_by_its_own_timeout_error() -> None:
    @tool
    async def fetch() -> None:
        raise TimeoutError("the socket took too long")

    async with Executor([fetch]) as executor:
        result = await executor.invoke(ToolCall("1", "fetch"))

    assert (result.outcome, result.error and result.error.code) == ("failed", "network")


async def test_cancelling_the_caller_stops_the_tool_and_records_it() -> None:
    started = asyncio.Event()

    @tool
    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    journal = MemoryJournal()
    async with Executor([hang], journal=journal) as executor:
        task = asyncio.create_task(executor.invoke(ToolCall("1", "hang")))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        again = await executor.invoke(ToolCall("1", "hang"))

    (settled,) = [event for event in journal.events if isinstance(event, CallSettled)]
    assert (settled.outcome, settled.ran, again.outcome) == ("cancelled", True, "cancelled")


async def test_a_call_that_finished_while_it_was_cancelled_keeps_its_real_result() -> None:
    started = asyncio.Event()

    @tool(side_effects=True)
    async def pay() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "paid"
        raise NotImplementedError

    journal = MemoryJournal()
    async with Executor([pay], journal=journal, policy=Policy(confirm_side_effects=False)) as executor:
        task = asyncio.create_task(executor.invoke(ToolCall("1", "pay")))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        known = await executor.invoke(ToolCall("1", "pay"))

    assert (known.outcome, known.content) == ("ok", "paid")


async def _paid_and_cancelled(pay: Tool, held: asyncio.Event, **options: Any) -> tuple[CallSettled, ...]:
    """Cancel a payment that is done, while its answer waits for somebody."""
    journal, emit = MemoryJournal(), options.pop("emit", ignore_event)
    policy = Policy(confirm_side_effects=False)
    async with Executor([pay], journal=journal, policy=policy, **options) as executor:
        task = asyncio.create_task(executor.invoke(ToolCall("1", "pay"), emit=emit))
        await held.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    return tuple(event for event in journal.events if isinstance(event, CallSettled))


async def test_a_call_cancelled_while_somebody_hears_of_its_progress_keeps_its_real_result() -> None:
    hearing, paid = asyncio.Event(), asyncio.Event()

    async def listen(event: Event) -> None:
        if isinstance(event, CallProgress):
            await paid.wait()
            hearing.set()
            await asyncio.Event().wait()

    @tool(side_effects=True)
    async def pay(invocation: Invocation) -> str:
        invocation.progress(1, 1, "paying")
        paid.set()
        return "paid"

    (settled,) = await _paid_and_cancelled(pay, hearing, emit=listen)

    assert settled.result is not None
    assert (settled.outcome, settled.ran, settled.result.content) == ("ok", True, "paid")


async def test_a_call_cancelled_while_its_output_is_being_kept_has_its_beginning() -> None:
    class Slow(MemorySpill):
        async def put(self, text: str) -> str:
            keeping.set()
            await asyncio.Event().wait()
            raise NotImplementedError

    @tool(side_effects=True)
    async def pay() -> str:
        return "paid " * 10_000

    keeping = asyncio.Event()
    (settled,) = await _paid_and_cancelled(pay, keeping, spill=Slow())

    assert settled.result is not None
    assert (settled.outcome, settled.ran, settled.result.text[:10]) == ("ok", True, "paid paid ")


async def test_of_two_parallel_calls_that_are_cancelled_the_finished_one_keeps_its_result() -> None:
    running = asyncio.Event()

    @tool
    async def quick() -> str:
        return "done"

    @tool
    async def slow() -> None:
        running.set()
        await asyncio.Event().wait()

    journal, settled = MemoryJournal(), Heard(CallSettled)
    async with Executor([quick, slow], journal=journal) as executor:
        calls = [ToolCall("a", "quick"), ToolCall("b", "slow")]
        task = asyncio.create_task(executor.invoke_all(calls, emit=settled))
        await running.wait()
        await settled.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    outcomes = {event.call_id: event.outcome for event in journal.events if isinstance(event, CallSettled)}
    assert outcomes == {"a": "ok", "b": "cancelled"}


async def test_a_call_cancelled_while_it_waits_for_a_place_did_nothing() -> None:
    started, go = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @tool
    async def hold(name: str) -> None:
        ran.append(name)
        started.set()
        await go.wait()

    async with Executor([hold], policy=Policy(concurrency=1)) as executor:
        first = asyncio.create_task(executor.invoke(ToolCall("1", "hold", {"name": "first"})))
        await started.wait()
        second = asyncio.create_task(executor.invoke(ToolCall("2", "hold", {"name": "second"})))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        go.set()
        await first
        known = await executor.invoke(ToolCall("2", "hold", {"name": "second"}))

    assert ran == ["first"]
    assert "did nothing" in known.text
