"""A call of code that waits for a person: the run ends there, and goes on at that very call."""

from __future__ import annotations

from pathlib import Path

from handrail import Context, Conversation, Executor, Runner, Tool, ToolCall, tool
from handrail.core.calls import ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer
from handrail.core.messages import ResultMessage
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import JournalReader
from handrail.run.code.code_mode import OPEN, CodeMode, CodeSettings
from handrail.run.history import conversation_of
from handrail.run.offering import Programs
from handrail.testing.model import ScriptedModel, call, text

RUN = "run-1"
CODE = "first = read(1)\nprint(first, pay(read(2)))"


def tools(done: list[str]) -> list[Tool]:
    @tool
    def read(number: int) -> int:
        """Read."""
        done.append(f"read {number}")
        return number * 100

    @tool(side_effects=True)
    def pay(cents: int) -> str:
        """Pay."""
        done.append(f"pay {cents}")
        return f"paid {cents}"

    return [read, pay]


async def go(folder: Path, model: ScriptedModel, done: list[str]) -> Conversation:
    async with (
        await SqliteJournal.open(folder / "journal.db") as journal,
        Executor(tools(done), journal=journal) as executor,
        CodeMode(executor, pauses=True) as mode,
    ):
        so_far = conversation_of(await journal.history(RUN)) or Conversation()
        if not so_far.messages:
            so_far = mode.briefed(Conversation()).say("Pay.")
        runner = Runner(model, executor, on_wait="pause", programs=Programs(mode.hidden))
        return await runner.run(so_far, Context(run=RUN))


async def approve(folder: Path) -> None:
    with JournalReader(folder / "journal.db") as reader:
        (asked,) = reader.pending()
    async with await SqliteJournal.open(folder / "journal.db") as journal, Executor([], journal=journal) as executor:
        await executor.answer(asked.run, asked.request, allow=True, by="ada")


async def test_a_run_that_pauses_in_code_goes_on_at_the_call_once_it_is_approved(tmp_path: Path) -> None:
    done: list[str] = []

    paused = await go(tmp_path, ScriptedModel([call("run_code", "c1", code=CODE)]), done)
    assert not any(isinstance(each, ResultMessage) for each in paused.messages)
    assert done == ["read 1", "read 2"]

    await approve(tmp_path)

    ended = await go(tmp_path, ScriptedModel([text("Paid.")]), done)

    (result,) = [each.result for each in ended.messages if isinstance(each, ResultMessage)]
    assert (result.content, ended.text) == ("100 paid 200\n", "Paid.")
    assert done == ["read 1", "read 2", "pay 200"]


async def test_a_failure_among_calls_at_once_does_not_hide_that_another_waits_for_a_person(tmp_path: Path) -> None:
    done: list[str] = []
    both = "call_all([('read', {'number': 'none'}), ('pay', {'cents': 5})])"
    code = f"try:\n    {both}\nexcept RuntimeError as error:\n    print('failed')"

    paused = await go(tmp_path, ScriptedModel([call("run_code", "c1", code=code)]), done)
    assert not any(isinstance(each, ResultMessage) for each in paused.messages)

    await approve(tmp_path)
    ended = await go(tmp_path, ScriptedModel([text("Paid.")]), done)
    (result,) = [each.result for each in ended.messages if isinstance(each, ResultMessage)]
    assert (result.content, done) == ("failed\n", ["pay 5"])


RETRIES = """
import os
for _ in range(3):
    try:
        print(pay(int.from_bytes(os.urandom(6), "big")))
        break
    except RuntimeError as error:
        print(error)
sign()
"""


class Till:
    """Allows payments; a signature needs a person."""

    async def decide(self, question: Confirmation) -> Decision:
        return Allow("till") if question.tool == "pay" else Defer()


async def test_code_that_goes_another_way_after_a_pause_calls_nothing_more(tmp_path: Path) -> None:
    """It tries again after an error, with a number that chance gives: its second try would be a new effect."""
    done: list[str] = []

    @tool(side_effects=True)
    def sign() -> str:
        """Sign."""
        return "signed"

    async def run() -> ToolResult:
        async with (
            await SqliteJournal.open(tmp_path / "journal.db") as journal,
            Executor([*tools(done), sign], journal=journal, approver=Till()) as executor,
            CodeMode(executor, CodeSettings(sandbox="process"), pauses=True),
        ):
            return await executor.invoke(ToolCall("c1", "run_code", {"code": RETRIES}), Context(run=RUN))

    assert (await run()).outcome == "needs_confirmation"
    again = await run()

    assert len(done) == 1
    assert "asked for something else at this point" in again.text


async def test_variables_that_are_made_again_start_no_effect_that_was_approved_meanwhile(tmp_path: Path) -> None:
    done: list[str] = []
    waits = "try:\n    paid = pay(5)\nexcept RuntimeError as error:\n    paid = 'not yet'"
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Executor(tools(done), journal=journal) as executor,
        CodeMode(executor) as mode,
    ):

        async def run(code: str, name: str = RUN) -> ToolResult:
            return await executor.invoke(ToolCall(f"{name} {code}", "run_code", {"code": code}), Context(run=name))

        await run(waits)
        with JournalReader(tmp_path / "journal.db") as reader:
            (asked,) = reader.pending()
        await executor.answer(asked.run, asked.request, allow=True, by="ada")
        for number in range(OPEN):  # so many that the interpreter of the first is closed
            await run("1", f"another {number}")
        assert mode.interpreters == OPEN
        result = await run("print(paid)")

    assert done == []
    assert "not all of them" in result.text
