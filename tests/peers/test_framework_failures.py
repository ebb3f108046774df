"""The thirteen experiments in which frameworks fail, as handrail does them: rows E1 to E13 of the comparison."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from handrail import Context, Conversation, Executor, Invocation, Policy, Session, Tool, ToolDefinition, tool
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer
from handrail.core.events import (
    CallAmended,
    CallIntended,
    CallRequested,
    CallSettled,
    ConfirmationRequested,
    Event,
    ModelEvent,
    ReplyGiven,
)
from handrail.core.messages import InvocationMessage, ResultMessage
from handrail.core.model_request import ModelRequest
from handrail.run.limits import Limits
from handrail.run.runner import Runner
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60
FREE = Policy(confirm_side_effects=False)
RUN = Context(run="run-1")


async def asked(replies: list[list[ModelEvent]], *tools: Tool, **more: Any) -> tuple[ToolResult, ...]:
    """What a model that says this gets for its calls. It goes on to an answer, so the run was not aborted."""
    model = ScriptedModel(*replies, [text("done")])
    async with asyncio.timeout(PATIENCE), Session(model, tools=tools, **{"policy": FREE, **more}) as session:
        reply = await session.ask_async("go")
    assert reply.text == "done"
    return reply.results


async def test_e1a_a_typed_function_is_not_called_with_a_word_for_a_number() -> None:
    @tool(side_effects=False)
    async def typed(n: int) -> int:
        raise NotImplementedError

    (result,) = await asked([[call("typed", n="abc")]], typed)

    assert result.outcome == "invalid_arguments"
    assert "n: expected integer" in result.text
    assert "abc" in result.text


@pytest.mark.parametrize(
    ("arguments", "where"),
    [({"order": {"count": 0}}, "order.count"), ({"order": {"count": "two"}}, "order.count"), ({"order": {}}, "count")],
)
async def test_e1b_a_tool_given_as_json_schema_is_not_called_with_what_breaks_it(
    arguments: dict[str, Any], where: str
) -> None:
    async def handler(invocation: Invocation) -> str:
        raise NotImplementedError

    count = {"type": "integer", "minimum": 1}
    order = {"type": "object", "properties": {"count": count}, "required": ["count"]}
    schema = {"type": "object", "properties": {"order": order}, "required": ["order"]}
    definition = ToolDefinition(name="buy", description="Buy.", input_schema=schema, side_effects=True)

    (result,) = await asked([[call("buy", **arguments)]], Tool(definition, handler))

    assert (result.outcome, where in result.text) == ("invalid_arguments", True)


class Mail:
    """A plain function that takes longer than it may, until a test lets it go on."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.release = threading.Event()

        @tool(side_effects=True, timeout=0.05)
        def send_mail(to: str) -> str:
            self.release.wait(PATIENCE)
            self.sent.append(to)
            return "sent"

        self.tool = send_mail


async def test_e2_a_plain_function_past_its_timeout_is_answered_on_time_and_the_answer_tells_the_truth() -> None:
    mail, journal, amended = Mail(), MemoryJournal(), asyncio.Event()

    async def emit(event: Event) -> None:
        if isinstance(event, CallAmended):
            amended.set()

    executor = Executor([mail.tool], journal=journal, policy=FREE)
    async with asyncio.timeout(PATIENCE), executor:
        runner = Runner(ScriptedModel([call("send_mail", to="ada")], [text("I see.")]), executor)
        said = await runner.run(Conversation().say("go"), RUN, emit)
        (result,) = [each.result for each in said.messages if isinstance(each, ResultMessage)]
        before = list(mail.sent)
        mail.release.set()
        await amended.wait()

    assert (result.outcome, result.still_running, before) == ("timeout", True, [])
    assert "may yet take effect" in result.text
    late = [event.outcome for event in journal.events if isinstance(event, CallAmended)]
    assert (late, mail.sent) == (["ok"], ["ada"])


async def test_e2b_a_model_that_asks_again_for_a_mail_that_timed_out_has_been_told_not_to() -> None:
    """Nobody can keep a model from asking. What it reads does not say "retry", and while the first mail is under way
    an equal one is refused before anybody is asked."""
    mail, asked_for = Mail(), list[Confirmation]()

    class OnceOnly:
        async def decide(self, question: Confirmation) -> Decision:
            asked_for.append(question)
            return Allow("ada") if len(asked_for) == 1 else Defer()

    replies = [[call("send_mail", to="ada")], [call("send_mail", to="ada")]]
    first, second = await asked(replies, mail.tool, policy=Policy(), approver=OnceOnly())
    mail.release.set()

    assert (first.outcome, second.outcome, len(asked_for)) == ("timeout", "limit", 1)
    assert "still running" in second.text
    assert "again" not in first.text
    assert "retry" not in first.text.lower()
    assert len(mail.sent) <= 1


async def test_e3_three_hundred_calls_in_one_turn_run_eight_at_a_time() -> None:
    now, most = 0, 0

    @tool(side_effects=False)
    async def count(n: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(5):
            await asyncio.sleep(0)  # gives the others every chance to join
        now -= 1
        return n

    calls = [call("count", n=n) for n in range(300)]
    results = await asked([calls], count, limits=Limits(calls_per_turn=300))

    assert (most, [result.content for result in results]) == (8, list(range(300)))


async def test_e4_after_a_cancel_the_finished_call_keeps_its_result_and_the_other_has_one_too() -> None:
    paid, waiting = asyncio.Event(), asyncio.Event()

    @tool(side_effects=True)
    async def pay() -> str:
        paid.set()
        return "paid"

    @tool(side_effects=True)
    async def wait() -> str:
        waiting.set()
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel([call("pay", "call-a"), call("wait", "call-b")], [text("A is done, B is not.")])
    async with asyncio.timeout(PATIENCE), Session(model, tools=[pay, wait], policy=FREE) as session:
        going = asyncio.create_task(session.ask_async("go"))
        await paid.wait()
        await waiting.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        reply = await session.ask_async("and now?")

    read = {each.invocation_id: each.result for each in model.requests[1].messages if isinstance(each, ResultMessage)}
    assert {id: result.outcome for id, result in read.items()} == {"call-a": "ok", "call-b": "cancelled"}
    assert (read["call-a"].content, reply.text) == ("paid", "A is done, B is not.")


async def test_e5_two_calls_of_one_id_both_run_and_each_has_its_own_result() -> None:
    @tool(side_effects=True)
    async def pay(to: str) -> str:
        return f"paid {to}"

    results = await asked([[call("pay", "call-1", to="ada"), call("pay", "call-1", to="bob")]], pay)

    assert [result.content for result in results] == ["paid ada", "paid bob"]
    assert len({result.tool_call_id for result in results}) == 2


async def test_e6_three_identical_reads_run_once_where_a_tool_says_so_and_effects_never_share() -> None:
    ran: Counter[str] = Counter()

    @tool(side_effects=False, deduplicator="exact")
    async def look(at: str) -> str:
        ran["look"] += 1
        return f"saw {at}"

    @tool(side_effects=True, deduplicator="exact")
    async def pay(to: str) -> str:
        ran["pay"] += 1
        return f"paid {to}"

    looks, pays = [call("look", at="it")] * 3, [call("pay", to="ada")] * 3
    results = await asked([[*looks, *pays]], look, pay)

    assert [result.content for result in results] == ["saw it"] * 3 + ["paid ada"] * 3
    assert ran == {"look": 1, "pay": 3}


async def test_e7_an_unknown_tool_is_answered_with_near_names_and_the_run_goes_on() -> None:
    @tool(side_effects=False)
    async def get_weather() -> str:
        raise NotImplementedError

    (result,) = await asked([[call("get_wether")]], get_weather)

    assert (result.outcome, "'get_weather'" in result.text) == ("unknown_tool", True)


@pytest.mark.parametrize("written", ['{"i": 1,}', '{"i":1}{"i":2}', '{"i": 1'])
async def test_e8_broken_json_runs_nothing_and_the_model_reads_where_it_breaks(written: str) -> None:
    @tool(side_effects=True)
    async def optional(i: int = 0) -> str:
        raise NotImplementedError

    (result,) = await asked([[CallRequested(call=ToolCall("call-1", "optional", written))]], optional)

    assert result.outcome == "invalid_arguments"
    assert any(character.isdigit() for character in result.text), "it says where"


class Counting:
    """A model that calls a tool so many times, and counts the messages it is given that it was given before."""

    name = "counting"

    def __init__(self, turns: int) -> None:
        self._inner = ScriptedModel(*([call("tick")] for _ in range(turns)), [text("done")])
        self.shared: list[int] = []
        self._before: tuple[Any, ...] = ()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.shared.append(sum(one is two for one, two in zip(self._before, request.messages, strict=False)))
        self._before = request.messages
        async for event in self._inner.stream(request):
            yield event


async def test_e9_a_turn_costs_the_same_work_at_its_thousandth_time() -> None:
    """What keeps it flat, counted: a turn writes as many entries and bytes late as early, and hands the model the
    very messages it had before. How long it takes is measured by `make bench`, and not by a test."""

    @tool(side_effects=False)
    async def tick() -> str:
        return "tock"

    turns = 1_000
    model, journal = Counting(turns), MemoryJournal()
    async with Executor([tick], journal=journal) as executor:
        limits = Limits(iterations=turns + 1, same_answer=turns + 1)
        said = await Runner(model, executor, limits).run(Conversation().say("go"), RUN)

    replies = [n for n, event in enumerate(journal.events) if isinstance(event, ReplyGiven)]
    sizes = [later - sooner for sooner, later in pairwise(replies)]
    weights = [len(repr(journal.events[n])) for n in replies[1:-1]]
    assert (said.text, len(replies)) == ("done", turns + 1)
    assert len(set(sizes)) == 1, "every turn writes the same number of entries"
    assert max(weights) - min(weights) <= 16, "no entry grows with the history"
    # Three messages are new in each turn (words, call, result); all others are the same objects.
    assert model.shared[1:] == [1 + 3 * n for n in range(turns)]


async def test_e10_a_tool_that_raises_is_a_result_in_its_own_words_and_the_run_goes_on() -> None:
    @tool(side_effects=False)
    async def broken() -> str:
        raise RuntimeError("kaput")

    (result,) = await asked([[call("broken")]], broken)

    assert (result.outcome, "RuntimeError: kaput" in result.text) == ("failed", True)


async def test_e11_two_plain_functions_run_side_by_side_and_the_loop_goes_on_turning() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)
    done = asyncio.Event()
    at_work, turned = threading.Event(), threading.Event()

    @tool(side_effects=False)
    def meet(n: int) -> int:
        both.wait()  # neither returns before the other has come
        at_work.set()
        assert turned.wait(PATIENCE), "the event loop stood still"
        return n

    async def turn() -> None:
        while not done.is_set():
            if at_work.is_set():
                turned.set()
            await asyncio.sleep(0)  # a turn of the loop while both functions are at work

    async def meeting() -> tuple[ToolResult, ...]:
        try:
            return await asked([[call("meet", n=1), call("meet", n=2)]], meet)
        finally:
            done.set()

    turning = asyncio.create_task(turn())
    results = await meeting()
    await turning

    assert [result.content for result in results] == [1, 2]


CRASH = """
import asyncio, os, sys
from handrail import Context, Conversation, Executor, Policy, tool
from handrail.journal.journal import SqliteJournal
from handrail.run.history import conversation_of
from handrail.run.runner import Runner
from handrail.testing.script import ReplyLine, Script, ScriptedCall, ScriptFile

folder, first = sys.argv[1], sys.argv[2] == "first"
settled = asyncio.Event()

def note(what):
    with open(folder + "/effects", "a") as file:
        file.write(what + "\\n")

@tool(side_effects=True)
async def a() -> str:
    note("a")
    return "A is done"

@tool(side_effects=True)
async def b() -> str:
    if first:
        await settled.wait()
        os._exit(9)
    note("b")
    return "B is done"

async def emit(event):
    if type(event).__name__ == "CallSettled":
        settled.set()

async def main():
    async with await SqliteJournal.open(folder + "/journal.db") as journal:
        async with Executor([a, b], journal=journal, policy=Policy(confirm_side_effects=False)) as executor:
            said = conversation_of(await journal.history("run-1")) or Conversation().say("go")
            script = Script((ReplyLine(calls=(ScriptedCall("a"), ScriptedCall("b"))), ReplyLine(text="done")))
            said = await Runner(ScriptFile(script), executor).run(said, Context(run="run-1"), emit)
            results = [each.result for each in said.messages if hasattr(each, "result")]
            print([[each.outcome, each.content] for each in results], said.text)
asyncio.run(main())
"""


def test_e12_what_was_done_before_a_sibling_crashed_is_not_done_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CRASH, str(tmp_path)]
    crashed = subprocess.run([*command, "first"], cwd=ROOT, check=False, timeout=PATIENCE)
    resumed = subprocess.run(
        [*command, "second"], cwd=ROOT, check=True, timeout=PATIENCE, text=True, stdout=subprocess.PIPE
    )

    assert (crashed.returncode, (tmp_path / "effects").read_text().split()) == (9, ["a"])
    assert "['ok', 'A is done'], ['in_doubt'" in resumed.stdout
    assert resumed.stdout.endswith("done\n")


async def test_e13_a_tool_that_waits_for_approval_has_not_begun_so_nothing_of_it_runs_twice() -> None:
    ran: list[str] = []

    @tool(side_effects=True)
    async def pay(amount: int) -> str:
        ran.append("before")
        ran.append("paid")
        return "paid"

    journal = MemoryJournal()
    executor = Executor([pay], journal=journal)
    model = ScriptedModel([call("pay", "call-1", amount=5)], [text("done")])
    async with executor:
        runner = Runner(model, executor, on_wait="pause")
        paused = await runner.run(Conversation().say("go"), RUN)
        waiting = list(ran)
        (request,) = [event.request for event in journal.events if isinstance(event, ConfirmationRequested)]
        await executor.answer("run-1", request, allow=True, by="ada")
        said = await runner.run(paused, RUN)

    assert isinstance(paused.messages[-1], InvocationMessage)
    assert (waiting, ran, said.text) == ([], ["before", "paid"], "done")
    assert [type(each) for each in journal.events if isinstance(each, CallIntended | CallSettled)] == [
        CallIntended,
        CallSettled,
    ]
