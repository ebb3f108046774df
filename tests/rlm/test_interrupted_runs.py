"""Wherever a run is cut off, taking it up asks nothing again, does nothing twice, and counts what was used once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any

import pytest

from handrail.core.calls import Problem, ToolResult
from handrail.core.events import CallIntended, CallSettled, ModelEvent, Recorded, ReplyFinished, RunFinished, TextDelta
from handrail.core.messages import AssistantMessage, ResultMessage, Usage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.execute.policy import Policy
from handrail.rlm import RLM
from handrail.rlm.values import RLMChatCompletion
from handrail.sandbox.port import Cell
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import call, text
from tests.rlm.cell_fixtures import scene
from tests.rlm.root_models import Echo, Root, ready, repl
from tests.rlm.test_bridge_reruns import noting
from tests.rlm.test_queries import COUNT


class CallsTwice:
    """Calls `count` twice in its first reply, under ids that it never uses again, then says what that gave."""

    name = "calls-twice"

    def __init__(self) -> None:
        self.asked = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.asked += 1
        asked = next(each.text for each in request.messages if isinstance(each, UserMessage))
        found = [each.result.text for each in request.messages if isinstance(each, ResultMessage)]
        if found:
            yield text(", ".join(found))
        else:
            yield call("count", f"id{next(IDS)}", of=f"{asked}1")
            yield call("count", f"id{next(IDS)}", of=f"{asked}2")
        yield ReplyFinished(stop="end")


IDS = count()
CODE = {
    "batch": (
        f"TOOLS = [{COUNT!r}]\n"
        "def handler(name, arguments):\n"
        "    return write_note(arguments['of'])\n"
        "said = llm_query_batched(['a', 'b'], tools=TOOLS, tool_handler=handler)\n"
        "out = [said, write_note('last')]"
    ),
    "nested": (
        f"TOOLS = [{COUNT!r}]\n"
        "def inner(name, arguments):\n"
        "    return write_note('inner ' + arguments['of'])\n"
        "def outer(name, arguments):\n"
        "    return write_note(arguments['of']) + llm_query(arguments['of'], tools=TOOLS, tool_handler=inner)\n"
        "out = [llm_query('a', tools=TOOLS, tool_handler=outer), write_note('last')]"
    ),
}


async def ran(code: str, journal: MemoryJournal) -> tuple[Cell, list[str], int]:
    done: list[str] = []
    model = CallsTwice()
    async with scene("monty", model, [noting(done)], journal) as made:
        return await made.run(code, peek=("out",)), done, model.asked


def notes(events: list[Recorded]) -> tuple[set[str], set[str]]:
    """Those that were begun, and those of them that have an end on record."""
    ended = {(each.run, each.call_id) for each in events if isinstance(each, CallSettled)}
    begun = {
        (each.arguments or {})["note"]: (each.run, each.call_id) in ended
        for each in events
        if isinstance(each, CallIntended) and each.tool == "write_note"
    }
    return set(begun), {note for note, is_ended in begun.items() if is_ended}


@pytest.mark.parametrize("shape", CODE)
async def test_what_handlers_in_the_repl_do_is_done_once_wherever_their_query_was_cut_off(shape: str) -> None:
    whole = MemoryJournal()
    first, done, asked = await ran(CODE[shape], whole)
    assert first.ending == "ok" and len(done) == len(set(done))

    for at in range(1, len(whole.events)):  # without the end of the cell
        journal = MemoryJournal()
        journal.events = whole.events[:at]
        begun, ended = notes(journal.events)

        again, more, asked_again = await ran(CODE[shape], journal)

        assert not begun & set(more) and len(more) == len(set(more)), at
        assert asked_again <= asked
        if begun == ended:  # nothing was under way, so everything comes out as if nothing had happened
            assert (again.values, begun | set(more)) == (first.values, set(done)), at
        else:
            assert "do not repeat it" in f"{again.values} {again.error}", at


class Roots:
    """The run and its children: told apart by their questions, and where they are by what was said."""

    name = "root"
    child = (repl("a = llm_query('one')\nb = llm_query_batched(['two', 'three'])"), ready("a + str(b)"))
    top = (
        repl("mine = llm_query('mine')\nkids = rlm_query_batched(['CHILD 1', 'CHILD 2'])"),
        ready("mine + str(kids) + rlm_query('CHILD 3')"),
    )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        question = next(each.text for each in request.messages if isinstance(each, UserMessage))
        turn = sum(isinstance(each, AssistantMessage) for each in request.messages)
        yield TextDelta(text=(self.child if "CHILD" in question else self.top)[turn])
        yield ReplyFinished(stop="end", model=self.name, usage=Usage(input_tokens=100, cost=1.0))


async def answered(journal: MemoryJournal) -> RLMChatCompletion:
    sub = Echo("sub", Usage(input_tokens=1, cost=0.25))
    async with RLM(Roots(), other_backends=[sub], journal=journal, max_depth=2, run="r") as rlm:
        return await rlm.acompletion("x", "the question")


async def test_what_was_used_is_counted_once_wherever_a_run_was_cut_off_and_of_a_child_only_its_own() -> None:
    whole = MemoryJournal()
    first = await answered(whole)
    usage = first.usage_summary
    assert (usage.total_calls, usage.total_input_tokens, usage.total_cost) == (18, 810, 10.5)

    for at in range(1, len(whole.events), 9):
        journal = MemoryJournal()
        journal.events = whole.events[:at]
        again = await answered(journal)
        assert (again.response, again.usage_summary) == (first.response, usage), at
        for each in journal.events:
            if isinstance(each, CallSettled) and each.tool == "rlm_query" and each.result is not None:
                own = RLMChatCompletion.from_dict({**each.result.content, "prompt": ""}).usage_summary
                assert (own.total_calls, own.total_input_tokens) == (5, 203), at


class Stops(Echo):
    """Answers so many questions, and then none any more."""

    def __init__(self, most: int) -> None:
        super().__init__("sub", Usage(input_tokens=1))
        self.stopped = asyncio.Event()
        self._most = most

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if len(self.asked) == self._most:
            self.stopped.set()
            await asyncio.Event().wait()
        async for event in super().stream(request):
            yield event


async def cut_off(code: str, answered: int, kind: str = "monty") -> tuple[MemoryJournal, type[Roots]]:
    """The record of a run whose caller went away when the models had answered so much, and were asked more."""

    class Asking(Roots):
        top = (repl(f"said = {code}"), ready("str(said)"))

    journal, sub = MemoryJournal(), Stops(answered)
    hasty = Policy(cancel_grace=0.001)  # it does not say how long a cell has to end its queries
    rlm = RLM(Asking(), environment=kind, other_backends=[sub], journal=journal, max_depth=2, policy=hasty, run="r")
    async with asyncio.timeout(30), rlm:
        asking = asyncio.create_task(rlm.acompletion("x", "the question"))
        await sub.stopped.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    return journal, Asking


@pytest.mark.parametrize(
    ("kind", "code", "answered", "again", "used"),
    [
        ("monty", "llm_query_batched(list('abcdef'))", 4, ["e", "f"], 206),
        ("process", "llm_query_batched(list('abcdef'))", 4, ["e", "f"], 206),
        ("monty", "[llm_query('a'), llm_query('b')]", 1, ["b"], 202),
        ("monty", "rlm_query('CHILD')", 2, ["three"], 403),
        ("process", "rlm_query_batched(['CHILD'])", 0, ["one", "two", "three"], 403),
    ],
)
async def test_what_models_had_answered_when_the_caller_went_away_is_not_asked_again(
    kind: str, code: str, answered: int, again: list[str], used: int
) -> None:
    """As after a crash: the code that asked is run again, and nobody has to write it anew."""
    journal, asking = await cut_off(code, answered, kind)
    sub = Echo("sub", Usage(input_tokens=1))

    async with RLM(asking(), environment=kind, other_backends=[sub], journal=journal, max_depth=2, run="r") as rlm:
        found = await rlm.acompletion("x", "the question")

    assert found.error is None and found.usage_summary.total_input_tokens == used
    assert sorted(sub.asked) == sorted(again)


@pytest.mark.parametrize(
    ("kind", "code", "answered", "again", "used"),
    [
        ("monty", "llm_query_batched(list('abcdef'))", 4, ["e", "f"], 206),
        ("process", "[llm_query('a'), llm_query('b')]", 1, ["b"], 202),
        ("monty", "rlm_query('CHILD')", 2, ["three"], 403),
    ],
)
async def test_what_models_had_answered_when_time_was_up_is_not_asked_again(
    kind: str, code: str, answered: int, again: list[str], used: int
) -> None:
    class Asking(Roots):
        top = (repl(f"said = {code}"), ready("str(said)"))

    for seconds in (0.5, 2.0, 8.0):  # each if those before did not suffice on this machine
        journal, sub = MemoryJournal(), Stops(answered)
        timed: dict[str, Any] = {"environment": kind, "max_depth": 2, "max_timeout": seconds, "run": "r"}
        async with RLM(Asking(), other_backends=[sub], journal=journal, **timed) as rlm:
            first = await rlm.acompletion("x", "the question")
        over = [each.reason for each in journal.events if isinstance(each, RunFinished) and each.run == "r"]
        if sub.stopped.is_set() and all(each.outcome == "ok" for each in journal.events if type(each) is CallSettled):
            break
    echo = Echo("sub", Usage(input_tokens=1))
    async with RLM(Asking(), environment=kind, other_backends=[echo], journal=journal, max_depth=2, run="r") as rlm:
        found = await rlm.acompletion("x", "the question")

    assert (first.partial, first.error) == (True, f"the run reached its limit of {seconds:g} seconds")
    assert over == ["stopped"], "it waits for nobody"
    assert found.error is None and found.usage_summary.total_input_tokens == used
    assert sorted(echo.asked) == sorted(again)


TOOLS = f"TOOLS = [{COUNT!r}]\n"


class CallsAndStops(Echo):
    """Calls `count` twice; asked for more, it says nothing until it may."""

    def __init__(self, *, goes_on: bool) -> None:
        super().__init__("sub")
        self.stopped = asyncio.Event()
        self._goes_on = goes_on

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        found = [each.result.text for each in request.messages if isinstance(each, ResultMessage)]
        self.asked.append(str(found))
        if not found:
            yield call("count", "c1", of="x")
            yield call("count", "c2", of="y")
        elif self._goes_on:
            yield text(", ".join(found))
        else:
            self.stopped.set()
            await asyncio.Event().wait()
        yield ReplyFinished(stop="end")


@pytest.mark.parametrize("handler", ["return of['of']", "return llm_query(of['of'], model='slow')"])
async def test_a_query_whose_handlers_are_in_the_repl_goes_on_where_its_caller_went_away(handler: str) -> None:
    """Be it that the model is asked, or that a handler waits for another model: then its call is put to it again."""
    code = f"{TOOLS}def h(name, of):\n    {handler}\nsaid = llm_query('q', tools=TOOLS, tool_handler=h)"
    root = Root(repl(code), ready("said"))
    journal, first, slow = MemoryJournal(), CallsAndStops(goes_on=False), Stops(1)
    slow.name = "slow"
    async with asyncio.timeout(30), RLM(root, other_backends=[first, slow], journal=journal, run="r") as rlm:
        asking = asyncio.create_task(rlm.acompletion("x", "the question"))
        await asyncio.wait(
            [asyncio.create_task(each.stopped.wait()) for each in (first, slow)], return_when=asyncio.FIRST_COMPLETED
        )
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    second, quick = CallsAndStops(goes_on=True), Echo("slow")
    async with RLM(root, other_backends=[second, quick], journal=journal, run="r") as rlm:
        found = await rlm.acompletion("x", "the question")

    assert found.response.lower() == "x, y"
    assert len(second.asked) == 1, "the first reply was on record"
    assert len(root.requests) == 2, "nobody had to write the code again"


@pytest.mark.parametrize(("code", "used"), [("llm_query_batched(list('abcdef'))", 204), ("rlm_query('CHILD')", 302)])
async def test_what_queries_used_that_nobody_takes_up_is_counted_when_the_run_is_taken_up(code: str, used: int) -> None:
    """Their cell has an end on record, as it has when its time was up."""
    journal, asking = await cut_off(code, 4 if used == 204 else 2)
    ended = {each.call_id for each in journal.events if isinstance(each, CallSettled)}
    for each in list(journal.events):
        if isinstance(each, CallIntended) and each.run == "r" and each.call_id not in ended:
            late = ToolResult(each.call_id, each.tool, "late", "timeout", error=Problem("timeout", "late"))
            facts: dict[str, Any] = {"call_id": each.call_id, "tool": each.tool, "outcome": "timeout", "result": late}
            journal.events.append(CallSettled(run="r", at=0, duration_us=1, ran=True, **facts))

    class Gives(asking):  # type: ignore[misc, valid-type]
        top = (asking.top[0], ready("'done'"))

    async with RLM(Gives(), other_backends=[Echo()], journal=journal, max_depth=2, run="r") as rlm:
        found = await rlm.acompletion("x", "the question")

    assert found.response == "done" and found.usage_summary.total_input_tokens == used
