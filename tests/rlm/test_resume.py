"""A run that was cut off goes on in another process: the same variables, the same answers, nothing done twice.

A process that dies is here a journal that fails from one append on: whatever the run did before is on record, and what
it would have done after that it could not begin.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.core.calls import ToolResult
from handrail.core.errors import JournalError, UsageError
from handrail.core.events import CallIntended, CallSettled, ConversationChanged
from handrail.execute.policy import Policy
from handrail.rlm import RLM
from handrail.rlm.iterations import OnIteration
from handrail.rlm.progress import ReplRebuilt
from handrail.rlm.values import RLMChatCompletion
from handrail.sandbox.port import Sandbox, create_sandbox
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.tool import Tool, tool
from tests.processes import children
from tests.rlm.root_models import Echo, Root, ready, repl

ALLOW = Policy(confirm_side_effects=False)
REPLIES = (
    repl("found = [llm_query('a')]\nfound.append(send('one'))"),
    repl("found.append(llm_query_batched(['b', 'c']))", "found.append(send('two'))\nprint(len(found))"),
    repl("found.append(rlm_query('d'))"),
    ready("found"),
)
ANSWER = '["A", "sent one", ["B", "C"], "sent two", "D"]'


@contextlib.asynccontextmanager
async def sandbox_of(kind: str) -> AsyncIterator[Sandbox]:
    async with create_sandbox(kind) as made:
        yield made


class World:
    """What the code of a run does to it."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def tool(self) -> Tool:
        @tool(side_effects=True)
        def send(words: str) -> str:
            """Send something."""
            self.sent.append(words)
            return f"sent {words}"

        return send


def dumps_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.dump"))


async def run(
    sandbox: Sandbox,
    journal: MemoryJournal | Path,
    world: World,
    *,
    replies: tuple[str, ...] = REPLIES,
    context: Any = "the context",
    resume: bool = False,
    sub: Echo | None = None,
    on_iteration: OnIteration | None = None,
    **options: Any,
) -> RLMChatCompletion:
    async with RLM(
        Root(*replies),
        environment=sandbox,
        other_backends=[sub or Echo()],
        custom_tools={"send": world.tool()},
        journal=journal,
        policy=ALLOW,
        run="run_1",
        **options,
    ) as rlm:
        if resume:
            return await rlm.aresume("run_1", context, "the question", on_iteration)
        return await rlm.acompletion(context, "the question", on_iteration)


@pytest.mark.parametrize(("kind", "step"), [("monty", 1), ("process", 13)])
async def test_wherever_a_run_is_cut_off_it_goes_on_and_nothing_is_done_twice(
    kind: str, step: int, tmp_path: Path
) -> None:
    async with sandbox_of(kind) as sandbox:
        whole = MemoryJournal()
        assert (await run(sandbox, whole, World())).response == ANSWER
        ends: Counter[str] = Counter()
        for at in range(1, len(whole.events), step):
            journal, world = MemoryJournal(fail_at=at), World()
            state = tmp_path / str(at) if at % 2 else None
            with pytest.raises(JournalError):
                await run(sandbox, journal, world, state=state)
            journal.fail_at = None

            found = await run(sandbox, journal, world, resume=True, state=state)

            assert found.partial is False
            # Of a message that was on its way nobody knows whether it was sent; it is not sent again.
            assert len(world.sent) == len(set(world.sent)), f"cut off at {at}: {world.sent}"
            ends["whole" if found.response == ANSWER else "in doubt"] += 1
            if found.response != ANSWER:
                assert "whether it took effect is not known" in str(journal.events)
        assert ends["whole"] > 2 * ends["in doubt"]


async def test_a_resumed_run_asks_and_tells_only_what_was_not_asked_and_told() -> None:
    told: list[int] = []
    journal, world, sub = MemoryJournal(), World(), Echo()

    def fails(iteration: object, index: int) -> None:
        told.append(index)
        if index == 2:
            raise LookupError("the listener is gone")

    async with sandbox_of("process") as sandbox:
        with pytest.raises(LookupError):
            await run(sandbox, journal, world, sub=sub, on_iteration=fails)
        found = await run(
            sandbox, journal, world, sub=sub, resume=True, on_iteration=lambda iteration, index: told.append(index)
        )

    assert found.response == ANSWER
    assert told == [1, 2, 3, 4]
    assert sub.asked == ["a", "b", "c", "d"]
    assert world.sent == ["one", "two"]
    assert found.usage_summary.model_usage_summaries["echo"].total_calls == 4
    assert found.usage_summary.model_usage_summaries["root"].total_calls == 4


@pytest.mark.parametrize(("kind", "rebuilt"), [("monty", [0]), ("process", [2])])
async def test_with_a_dump_no_code_runs_again(kind: str, rebuilt: list[int], tmp_path: Path) -> None:
    journal, world = MemoryJournal(), World()
    seen: list[Any] = []

    def fails(iteration: object, index: int) -> None:
        if index == 2:
            raise LookupError

    async with sandbox_of(kind) as sandbox:
        with pytest.raises(LookupError):
            await run(sandbox, journal, world, on_iteration=fails, state=tmp_path)
        kept = dumps_in(tmp_path)
        found = await run(sandbox, journal, world, resume=True, state=tmp_path, on_event=seen.append)

    assert found.response == ANSWER
    assert len(kept) == (2 if kind == "monty" else 0)
    assert [event.calls for event in seen if isinstance(event, ReplRebuilt)] == rebuilt
    assert dumps_in(tmp_path) == []


async def test_a_dump_that_was_changed_is_passed_over(tmp_path: Path) -> None:
    journal, world = MemoryJournal(), World()
    seen: list[Any] = []

    def fails(iteration: object, index: int) -> None:
        if index == 2:
            raise LookupError

    async with sandbox_of("monty") as sandbox:
        with pytest.raises(LookupError):
            await run(sandbox, journal, world, on_iteration=fails, state=tmp_path)
        for path in dumps_in(tmp_path):
            path.write_bytes(path.read_bytes()[:-40])
        found = await run(sandbox, journal, world, resume=True, state=tmp_path, on_event=seen.append)

    assert found.response == ANSWER
    assert [event.calls for event in seen if isinstance(event, ReplRebuilt)] == [2]
    assert world.sent == ["one", "two"]


@pytest.mark.parametrize(
    "code",
    ["x = send('other' if again else 'first')", "x = send('first')\nif again:\n    send('more')"],
    ids=["another call", "one more call"],
)
async def test_code_that_does_something_else_the_second_time_is_stopped_and_the_model_is_told(
    code: str, tmp_path: Path
) -> None:
    flag = str(tmp_path / "flag")
    fickle = f"import os\nagain = os.path.exists({flag!r})\nopen({flag!r}, 'w').close()\n{code}"
    replies = (repl(fickle), repl("y = 2"), repl("print(SHOW_VARS())\nprint(send('third'))"), ready("'done'"))
    journal, world = MemoryJournal(), World()

    def fails(iteration: object, index: int) -> None:
        if index == 2:
            raise LookupError

    async with sandbox_of("process") as sandbox:
        with pytest.raises(LookupError):
            await run(sandbox, journal, world, replies=replies, on_iteration=fails)
        found = await run(sandbox, journal, world, replies=replies, resume=True)

    assert found.response == "done"
    assert world.sent == ["first", "third"]
    told = [event.result.text for event in journal.events if isinstance(event, CallSettled) and event.result]
    assert any("did something else when it was run again" in each for each in told)


async def test_a_cell_that_was_cut_off_and_then_asks_for_something_else_does_nothing_of_it(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    fickle = (
        f"import os\nbefore = os.path.exists({str(flag)!r})\nopen({str(flag)!r}, 'w')\n"
        "print(send('other' if before else 'first'))\nllm_query('x')"
    )
    replies = (repl(fickle), ready("'done'"))
    journal, world = MemoryJournal(), World()
    async with sandbox_of("process") as sandbox:
        whole = MemoryJournal()
        await run(sandbox, whole, World(), replies=replies)
        sent = next(at for at, each in enumerate(whole.events) if isinstance(each, CallSettled) and each.tool == "send")
        flag.unlink()
        journal.fail_at = sent + 2
        with pytest.raises(JournalError):
            await run(sandbox, journal, world, replies=replies)
        journal.fail_at = None
        found = await run(sandbox, journal, world, replies=replies, resume=True)

    assert found.response == "done"
    assert world.sent == ["first"]
    told = [event.result.text for event in journal.events if isinstance(event, CallSettled) and event.result]
    assert any("what it did then is not done again" in each for each in told)


async def test_an_interpreter_that_is_killed_in_mid_cell_runs_it_again_and_does_nothing_twice(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    dies = (
        f"import os\nx = send('once')\nif not os.path.exists({str(flag)!r}):\n"
        f"    open({str(flag)!r}, 'w').close()\n    os.kill(os.getpid(), 9)\nprint(x, llm_query('a'))"
    )
    world = World()
    seen: list[Any] = []
    async with sandbox_of("process") as sandbox:
        found = await run(
            sandbox, MemoryJournal(), world, replies=(repl("y = 1"), repl(dies), ready("[x, y]")), on_event=seen.append
        )

    assert found.response == '["sent once", 1]'
    assert world.sent == ["once"]
    assert [event.calls for event in seen if isinstance(event, ReplRebuilt)] == [1]


async def test_what_handlers_changed_is_said_to_be_missing() -> None:
    tools = [{"type": "function", "function": {"name": "note", "parameters": {"type": "object"}}}]
    code = (
        "seen = []\ndef handler(name, arguments):\n    seen.append(name)\n    return 'noted'\n"
        f"llm_query('a', tools={tools!r}, tool_handler=handler)\nprint(seen)"
    )
    root = Root(repl(code), repl("import os\nos._exit(1)"), repl("print('after', seen)"), ready("1"))
    sub = ScriptedModel([call("note")], [text("done")])
    async with RLM(root, environment="process", other_backends=[sub]) as rlm:
        await rlm.acompletion("x", "the question")

    assert "['note']" in root.read(1)
    assert "after []" in root.read(3)
    assert "Your tool handlers were not called again" in root.read(2)


async def test_a_journal_on_disk_has_all_that_is_needed(tmp_path: Path) -> None:
    told: list[int] = []
    world, path = World(), tmp_path / "journal.db"

    def fails(iteration: object, index: int) -> None:
        if index == 2:
            raise LookupError

    async with sandbox_of("monty") as sandbox:
        with pytest.raises(LookupError):
            await run(sandbox, path, world, on_iteration=fails)
        found = await run(sandbox, path, world, resume=True, on_iteration=lambda iteration, index: told.append(index))

    assert (found.response, world.sent, told) == (ANSWER, ["one", "two"], [3, 4])


@pytest.mark.parametrize("early", ('answer["ready"] = True', 'FINAL_VAR("later")', 'answer["ready"] = True\n1 / 0'))
async def test_an_answer_that_was_not_taken_is_not_taken_when_its_code_runs_again(early: str) -> None:
    replies = (repl(early), repl("y = 1"), repl('answer["content"] = later = "a draft"'), ready("'right'"))
    journal, world = MemoryJournal(), World()

    def fails(iteration: object, index: int) -> None:
        if index == 2:
            raise LookupError

    async with sandbox_of("process") as sandbox:
        with pytest.raises(LookupError):
            await run(sandbox, journal, world, replies=replies, on_iteration=fails)
        found = await run(sandbox, journal, world, replies=replies, resume=True)

    assert found.response == "right"


async def test_another_context_is_refused_in_words() -> None:
    journal, world = MemoryJournal(), World()
    async with sandbox_of("process") as sandbox:
        await run(sandbox, journal, world)
        with pytest.raises(UsageError, match="was begun with another context"):
            await run(sandbox, journal, world, context="another", resume=True)
        with pytest.raises(UsageError, match="is not on record, only its digest"):
            await run(sandbox, journal, world, context=None, resume=True)
        assert (await run(sandbox, journal, world, resume=True)).response == ANSWER

    assert world.sent == ["one", "two"]


async def test_another_question_is_not_answered_with_the_answer_of_the_first() -> None:
    journal, root = MemoryJournal(), Root(ready("'first'"))
    async with RLM(root, environment="process", journal=journal, run="run_1") as rlm:
        assert (await rlm.acompletion("x", "Who was it? sk-abcdefghijklmnopqrstuvwx")).response == "first"
        with pytest.raises(UsageError, match="begun with another question"):
            await rlm.acompletion("x", "When was it?")
        assert (await rlm.acompletion("x", "Who was it? sk-abcdefghijklmnopqrstuvwx")).response == "first"
        assert (await rlm.aresume("run_1", "x")).response == "first"


async def test_a_repl_of_several_questions_is_not_taken_up() -> None:
    journal, root = MemoryJournal(), Root(ready("'first'"))
    async with RLM(root, environment="process", journal=journal, run="run_1", persistent=True) as rlm:
        await rlm.acompletion("x", "one")
        root._replies = (ready("'second'"),)
        await rlm.acompletion("y", "two")
    async with RLM(root, environment="process", journal=journal) as rlm:
        with pytest.raises(UsageError, match="had several questions"):
            await rlm.aresume("run_1", "x", "one")


async def test_a_task_is_taken_up_without_giving_it_again() -> None:
    journal = MemoryJournal()

    def fails(iteration: object, index: int) -> None:
        raise LookupError

    async with RLM(Root(repl("x = 1"), ready("context")), environment="process", journal=journal) as rlm:
        with pytest.raises(LookupError):
            await rlm.acompletion("Count to three.", on_iteration=fails)
        found = await rlm.aresume(journal.events[0].run)

    assert found.response == "Count to three."


async def test_what_is_not_on_record_cannot_be_taken_up() -> None:
    async with RLM(Root(), environment="process", journal=MemoryJournal()) as rlm:
        with pytest.raises(UsageError, match="nothing on record of run 'none'"):
            await rlm.aresume("none")
    async with RLM(Root(), environment="process") as rlm:
        with pytest.raises(UsageError, match="journal="):
            await rlm.aresume("none")


async def test_a_run_that_a_limit_ended_goes_on_with_more() -> None:
    journal, world = MemoryJournal(), World()
    async with sandbox_of("process") as sandbox:
        first = await run(sandbox, journal, world, max_errors=1, replies=(*REPLIES[:2], "hm", *REPLIES[2:]))
        second = await run(sandbox, journal, world, resume=True, replies=(*REPLIES[:2], "hm", *REPLIES[2:]))

    assert first.partial and first.error == "the run reached its limit of 1 turns in a row that failed"
    assert (second.response, second.partial) == (ANSWER, False)
    assert world.sent == ["one", "two"]


async def test_what_is_on_record_is_what_happened() -> None:
    journal = MemoryJournal()
    async with sandbox_of("process") as sandbox:
        await run(sandbox, journal, World())

    intended = [event.tool for event in journal.events if isinstance(event, CallIntended) and event.run == "run_1"]
    assert intended == [
        *("repl", "repl", "llm_query", "send", "repl", "llm_query_batched", "send", "repl", "rlm_query", "repl")
    ]
    settled = [event for event in journal.events if isinstance(event, CallSettled) and event.run == "run_1"]
    assert all(isinstance(event.result, ToolResult) and event.outcome == "ok" for event in settled)
    assert any(isinstance(event, ConversationChanged) for event in journal.events)
    assert len({event.run for event in journal.events}) == 1 + 4


async def test_a_run_that_was_cancelled_while_it_was_made_ready_can_be_taken_up() -> None:
    """The call that makes the REPL ready has its one answer then, and it is no answer that one can go on from."""
    journal = MemoryJournal()

    def leaves(event: object) -> None:
        if isinstance(event, CallIntended) and event.tool == "repl" and not told:
            told.append(event.call_id)
            asking.cancel()

    told: list[str] = []
    async with RLM(Root(ready("context")), environment="process", journal=journal, run="r", on_event=leaves) as rlm:
        asking = asyncio.create_task(rlm.acompletion("text", "question"))
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await rlm.aresume("r", "text", "question")).response == "text"

    assert next(event.outcome for event in journal.events if isinstance(event, CallSettled)) == "cancelled"


async def test_setup_code_that_was_cancelled_when_it_had_called_something_is_not_run_again() -> None:
    journal, world = MemoryJournal(), World()

    def leaves(event: object) -> None:
        if isinstance(event, CallSettled) and event.tool == "send":
            asking.cancel()

    async with RLM(
        Root(ready("1")),
        environment="process",
        setup_code="send('once')\nwhile True:\n    pass",
        custom_tools={"send": world.tool()},
        journal=journal,
        policy=ALLOW,
        run="r",
        on_event=leaves,
    ) as rlm:
        asking = asyncio.create_task(rlm.acompletion("text", "question"))
        with pytest.raises(asyncio.CancelledError):
            await asking
        with pytest.raises(UsageError, match="could not be made ready"):
            await rlm.aresume("r", "text", "question")

    assert world.sent == ["once"]


async def test_code_that_was_cancelled_is_told_to_have_called_what_it_called() -> None:
    journal, world = MemoryJournal(), World()
    root = Root(repl("before = 1"), repl("send('once')\nbefore = 2\nwhile True:\n    pass"), ready("before"))

    def leaves(event: object) -> None:
        if isinstance(event, CallSettled) and event.tool == "send":
            asking.cancel()

    async with RLM(
        root,
        environment="process",
        custom_tools={"send": world.tool()},
        journal=journal,
        policy=ALLOW,
        run="r",
        on_event=leaves,
    ) as rlm:
        asking = asyncio.create_task(rlm.acompletion("text", "question"))
        with pytest.raises(asyncio.CancelledError):
            await asking
        found = await rlm.aresume("r", "text", "question")

    assert (found.response, world.sent) == ("1", ["once"])
    assert "What its code had called by then was called all the same" in root.read()


@pytest.mark.parametrize("kind", ("monty", "process"))
async def test_a_block_that_ran_before_its_interpreter_died_has_run_once(kind: str) -> None:
    """The reply is run again from its first block, on the variables from before it."""
    world = World()
    before, deaths = children(), iter([True])

    def dies(event: object) -> None:
        if isinstance(event, CallSettled) and event.tool == "send" and next(deaths, False):
            for pid in children() - before:
                os.kill(pid, signal.SIGKILL)

    replies = (repl("found = []"), repl("found.append(1)", "found.append(send('once'))"), ready("found"))
    async with RLM(
        Root(*replies), environment=kind, custom_tools={"send": world.tool()}, policy=ALLOW, on_event=dies
    ) as rlm:
        found = await rlm.acompletion("text", "question")

    assert (found.response, world.sent) == ('[1, "sent once"]', ["once"])


async def test_a_query_whose_handler_was_lost_with_its_interpreter_goes_on_in_the_next() -> None:
    tools = [{"type": "function", "function": {"name": "note", "parameters": {"type": "object"}}}]
    code = (
        "def handler(name, arguments):\n    return send('once')\n"
        f"x = llm_query('a', tools={tools!r}, tool_handler=handler)"
    )
    world, sub = World(), ScriptedModel([call("note")], [text("done")])
    before, deaths = children(), iter([True])

    def dies(event: object) -> None:
        if isinstance(event, CallSettled) and event.tool == "send" and next(deaths, False):
            for pid in children() - before:
                os.kill(pid, signal.SIGKILL)

    async with RLM(
        Root(repl(code), ready("x")),
        environment="process",
        other_backends=[sub],
        custom_tools={"send": world.tool()},
        policy=ALLOW,
        on_event=dies,
    ) as rlm:
        found = await rlm.acompletion("text", "question")

    assert (found.response, world.sent, len(sub.requests)) == ("done", ["once"], 2)
