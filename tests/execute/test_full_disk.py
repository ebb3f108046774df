"""A disk without room: a call that did not begin was not done, and one that ended keeps its answer."""

from __future__ import annotations

import pytest

from handrail.core.calls import ToolCall
from handrail.core.errors import BusError, JournalError, OutcomeUnrecorded
from handrail.core.events import CallIntended, CallSettled, Recorded
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.node.capability_bus import CapabilityBus
from handrail.testing.journal import MemoryJournal
from handrail.tools.tool import Tool, tool

ALLOWED = Policy(confirm_side_effects=False)


class Payments:
    """A tool with a side effect, how often it ran, and a journal that runs out of room."""

    def __init__(self, *, room: int) -> None:
        self.paid: list[str] = []
        self.journal = MemoryJournal(fail_at=room)

    @property
    def tool(self) -> Tool:
        @tool(side_effects=True)
        def pay(to: str) -> str:
            """Pay somebody."""
            self.paid.append(to)
            return f"paid {to}"

        return pay

    def kinds(self) -> list[type[Recorded]]:
        return [type(event) for event in self.journal.events if isinstance(event, CallIntended | CallSettled)]


CALL = ToolCall("call_1", "pay", {"to": "ada"})


async def test_a_disk_that_is_full_before_the_intent_means_that_nothing_was_done() -> None:
    payments = Payments(room=1)  # for the beginning of the run
    executor = Executor([payments.tool], journal=payments.journal, policy=ALLOWED)

    with pytest.raises(JournalError) as refused:
        await executor.invoke(CALL)

    assert not isinstance(refused.value, OutcomeUnrecorded)
    payments.journal.fail_at = None
    again = await executor.invoke(CALL)
    assert (again.outcome, payments.paid) == ("ok", ["ada"])


async def test_an_outcome_that_is_known_and_could_not_be_written_is_told_as_such_and_never_repeated() -> None:
    payments = Payments(room=2)
    executor = Executor([payments.tool], journal=payments.journal, policy=ALLOWED)

    for _ in range(2):
        with pytest.raises(OutcomeUnrecorded, match=r"'pay' ran and ended with 'ok', but its outcome could not be rec"):
            await executor.invoke(CALL)

    assert payments.paid == ["ada"]


async def test_once_there_is_room_again_the_known_outcome_is_recorded_and_is_the_answer() -> None:
    payments = Payments(room=2)
    executor = Executor([payments.tool], journal=payments.journal, policy=ALLOWED)
    with pytest.raises(OutcomeUnrecorded):
        await executor.invoke(CALL)

    payments.journal.fail_at = None
    answers = [await executor.invoke(CALL), await executor.invoke(CALL)]

    assert [(answer.outcome, answer.text) for answer in answers] == [("ok", "paid ada")] * 2
    assert payments.paid == ["ada"]
    assert payments.kinds() == [CallIntended, CallSettled]


async def test_after_a_restart_a_call_without_an_outcome_is_in_doubt_and_nothing_is_said_of_the_process() -> None:
    payments = Payments(room=2)
    executor = Executor([payments.tool], journal=payments.journal, policy=ALLOWED)
    with pytest.raises(OutcomeUnrecorded):
        await executor.invoke(CALL)
    run = executor.run
    executor.runs.let_go(run)

    payments.journal.fail_at = None
    later = Executor([payments.tool], journal=payments.journal, policy=ALLOWED, new_id=lambda kind: run)
    result = await later.invoke(CALL)

    assert result.outcome == "in_doubt"
    assert "its outcome is not on record" in result.text
    assert "process" not in result.text


@pytest.mark.parametrize(
    ("room", "outcome", "words", "paid"),
    [(1, "failed", "the call was not run", []), (2, "in_doubt", "ran and ended with 'ok'", ["ada"])],
)
async def test_a_caller_on_the_bus_is_told_whether_the_call_was_done(
    room: int, outcome: str, words: str, paid: list[str]
) -> None:
    payments = Payments(room=room)
    bus = CapabilityBus(journal=payments.journal)
    offered = bus.register_tool(payments.tool)

    with pytest.raises(BusError, match=words) as refused:
        await bus.call(offered.name, offered.version, {"input": {"to": "ada"}})

    assert (refused.value.outcome, payments.paid) == (outcome, paid)
