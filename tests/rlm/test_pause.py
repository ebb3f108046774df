"""A call of code that waits for a person: the code is told, or the run pauses and is taken up at that very call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from handrail import RLM, Executor, Tool, tool
from handrail.core.events import ModelEvent
from handrail.core.messages import UserMessage
from handrail.core.model_request import ModelRequest
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import JournalReader
from handrail.rlm.values import RLMChatCompletion
from tests.rlm.root_models import Echo, Root, repl

RUN = "run-1"
PAYS = (repl('said = "nobody"\nsaid = pay(to="ada")'), repl("FINAL(said)"))


def pay(paid: list[str]) -> Tool:
    @tool(name="pay", side_effects=True)
    async def pays(to: str) -> str:
        """Pay someone."""
        paid.append(to)
        return f"paid {to}"

    return pays


async def ask(folder: Path, root: Any, paid: list[str], **options: Any) -> RLMChatCompletion:
    tools = {"pay": pay(paid)}
    async with RLM(root, custom_tools=tools, journal=folder / "journal.db", run=RUN, **options) as rlm:
        return await rlm.acompletion("a text", "Well?")


class Each:
    """A root that has two children: one pays, the other only answers."""

    name = "each"
    scripts: Mapping[str, tuple[str, ...]] = {
        "PAY": PAYS,
        "SAY": (repl('FINAL("said")'),),
        "Well?": (repl('replies = rlm_query_batched(["PAY", "SAY"])'), repl('FINAL(", ".join(replies))')),
    }

    def __init__(self) -> None:
        self.asked: list[str] = []

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        first = next(message.text for message in request.messages if isinstance(message, UserMessage))
        task = next(task for task in self.scripts if task in first)
        self.asked.append(task)
        return Root(*self.scripts[task]).stream(request)


async def allow(folder: Path) -> None:
    """Say yes to what waits, as another program would."""
    with JournalReader(folder / "journal.db") as reader:
        (asked,) = reader.pending()
    async with await SqliteJournal.open(folder / "journal.db") as journal, Executor([], journal=journal) as executor:
        await executor.answer(asked.run, asked.request, allow=True, by="ada")


async def test_by_default_the_code_is_told_that_a_call_waits(tmp_path: Path) -> None:
    paid: list[str] = []
    told = repl('try:\n    pay(to="ada")\nexcept RuntimeError as error:\n    FINAL(str(error))')

    completion = await ask(tmp_path, Root(told), paid)

    assert "waits for a person to confirm it" in completion.response
    assert (completion.partial, paid) == (False, [])


@pytest.mark.parametrize("environment", ["monty", "process"])
async def test_a_run_that_pauses_is_taken_up_at_the_call_once_it_is_allowed(tmp_path: Path, environment: str) -> None:
    paid: list[str] = []
    options = {"environment": environment, "on_wait": "pause"}

    paused = await ask(tmp_path, Root(*PAYS), paid, **options)
    before = list(paid)
    await allow(tmp_path)
    completion = await ask(tmp_path, Root(*PAYS), paid, **options)

    assert (paused.partial, paused.error_type, paused.response, before) == (True, "needs_confirmation", "", [])
    assert (completion.partial, completion.response, paid) == (False, "paid ada", ["ada"])


async def test_what_code_did_before_it_paused_is_not_done_again(tmp_path: Path) -> None:
    paid: list[str] = []
    echo = Echo()
    lines = ('said = llm_query("hi")', 'said = said + " " + pay(to="ada")', 'said = said + " " + pay(to="eve")')
    turns = (repl("\n".join(lines)), PAYS[1])

    for _ in range(2):
        await ask(tmp_path, Root(*turns), paid, on_wait="pause", other_backends=[echo])
        await allow(tmp_path)
    completion = await ask(tmp_path, Root(*turns), paid, on_wait="pause", other_backends=[echo])

    assert (completion.response, paid, echo.asked) == ("HI paid ada paid eve", ["ada", "eve"], ["hi"])


async def test_children_that_do_not_wait_come_to_their_end_and_are_not_asked_again(tmp_path: Path) -> None:
    paid: list[str] = []

    model = Each()
    await ask(tmp_path, model, paid, on_wait="pause", max_depth=2)
    await allow(tmp_path)
    completion = await ask(tmp_path, model, paid, on_wait="pause", max_depth=2)

    assert (completion.response, paid) == ("paid ada, said", ["ada"])
    assert model.asked.count("SAY") == 1
