"""A tool that does everything by calls under keys may run again: each of those calls has its one answer."""

from __future__ import annotations

from handrail import Context, Executor, Invocation, Policy, Tool, ToolCall, tool
from handrail.core.events import CallSettled
from handrail.execute.dedupe.create import ExactDeduplicator
from handrail.testing.journal import MemoryJournal


class Till:
    """Money that was paid, and a script that pays it."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.script: list[tuple[str, int]] = [("1", 5), ("2", 7)]
        self.answers: list[str] = []
        self.journal = MemoryJournal()

    async def run(self, *, replays: bool = True, id: str = "cell") -> str:
        @tool(side_effects=True)
        async def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        async def program(invocation: Invocation) -> str:
            for key, amount in self.script:
                self.answers.append((await invocation.invoke("pay", {"amount": amount}, key=key)).text)
            return "done"

        schema = {"type": "object"}
        script = Tool.from_function(
            program, name="program", description="Pay.", schema=schema, style="invocation", side_effects=False
        ).changed(replays=replays)
        executor = Executor([pay, script], journal=self.journal, policy=Policy(confirm_side_effects=False))
        result = await executor.invoke(ToolCall(id, "program"), Context(run="run"))
        await executor.aclose()
        return result.text


async def test_a_program_that_is_run_again_gets_the_answers_that_its_calls_had_and_pays_nothing_twice() -> None:
    till = Till()
    await till.run()
    before = [event.call_id for event in await till.journal.history("run") if isinstance(event, CallSettled)]
    till.answers.clear()

    await till.run(id="cell")

    assert (till.paid, till.answers) == ([5, 7], [])  # the cell itself is settled, and is not run again
    assert before == ["cell.1", "cell.2", "cell"]


async def test_a_program_that_was_cut_off_goes_on_where_it_was() -> None:
    till = await _killed_after_the_first()

    assert await till.run() == "done"

    assert till.paid == [5, 7]
    assert till.answers == ["paid 5", "paid 7"]


async def test_a_program_that_asks_for_something_else_under_a_key_is_refused_and_nothing_happens() -> None:
    till = await _killed_after_the_first()
    till.script[0] = ("1", 500)

    await till.run()

    assert till.paid == [5, 7]
    assert "call id 'cell.1' already names another call" in till.answers[0]


async def test_without_a_key_a_tool_that_may_run_again_pays_nothing() -> None:
    till = Till()
    till.script = [("", 5)]

    await till.run()

    assert till.paid == []
    assert "may run again, so it cannot call 'pay'" in till.answers[0]


async def test_a_tool_that_does_not_replay_pays_nothing_under_a_key_either() -> None:
    till = Till()

    await till.run(replays=False)

    assert till.paid == []


async def test_the_answer_of_a_program_is_never_given_to_another_call_of_it() -> None:
    runs = 0

    async def program(invocation: Invocation) -> int:
        nonlocal runs
        runs += 1
        return runs

    made = Tool.from_function(program, name="program", schema={"type": "object"}, style="invocation").changed(
        replays=True, share=False, deduplicator=ExactDeduplicator
    )
    async with Executor([made.changed(side_effects=False)]) as executor:
        answers = [(await executor.invoke(ToolCall(str(at), "program"))).content for at in range(3)]

    assert answers == [1, 2, 3]


async def _killed_after_the_first() -> Till:
    """As a process leaves it that was killed between the two payments: only what it had written is there."""
    till, whole = Till(), Till()
    await whole.run()
    for event in await whole.journal.history("run"):
        await till.journal.append(event)
        if isinstance(event, CallSettled) and event.call_id == "cell.1":
            break
    till.paid.append(5)
    return till
