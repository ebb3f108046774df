"""A call of code that waits for a person: the run ends there, and goes on at that very call."""

from __future__ import annotations

from pathlib import Path

from handrail import Context, Conversation, Executor, Runner, Tool, tool
from handrail.code.mode import CodeMode
from handrail.core.messages import ResultMessage
from handrail.proof.journal import SqliteJournal
from handrail.proof.read import Reader
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
        CodeMode(executor, pauses=True) as code,
    ):
        so_far = conversation_of(await journal.history(RUN)) or Conversation()
        if not so_far.messages:
            so_far = code.briefed(Conversation()).say("Pay.")
        runner = Runner(model, executor, on_wait="pause", programs=Programs(code.hidden))
        return await runner.run(so_far, Context(run=RUN))


async def test_a_run_that_pauses_in_code_goes_on_at_the_call_once_it_is_approved(tmp_path: Path) -> None:
    done: list[str] = []

    paused = await go(tmp_path, ScriptedModel([call("run_code", "c1", code=CODE)]), done)
    assert not any(isinstance(each, ResultMessage) for each in paused.messages)
    assert done == ["read 1", "read 2"]

    with Reader(tmp_path / "journal.db") as reader:
        (asked,) = reader.pending()
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal, Executor([], journal=journal) as executor:
        await executor.answer(asked.run, asked.request, allow=True, by="ada")

    ended = await go(tmp_path, ScriptedModel([text("Paid.")]), done)

    (result,) = [each.result for each in ended.messages if isinstance(each, ResultMessage)]
    assert (result.content, ended.text) == ("100 paid 200\n", "Paid.")
    assert done == ["read 1", "read 2", "pay 200"]
