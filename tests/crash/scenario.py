"""What a model and a person do in one simulated run: all of it decided by a seed, and not by what happened before.

The model is a function of the conversation, so that it says the same again when it is
asked again. A fickle one says something else in every life, with the ids it had used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import msgspec

from handrail import Limits, Policy
from handrail.core.calls import ToolCall
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage, Usage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.run.single_run import OnError, OnWait
from tests.crash.mortal_world import MortalProcess

SIMPLE = ("look", "flaky", "pay", "put", "settle")
ODD = ("slow", "drag", "stubborn", "wrap", "outer", "sly", "again", "broken", "missing", "unfit")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    seed: int
    turns: tuple[tuple[PlannedCall, ...], ...]
    ids: Literal["none", "own", "same"]
    fickle: bool
    limits: Limits
    policy: Policy
    on_wait: OnWait
    cancel_at: float | None
    """Seconds into a life after which its run is cancelled."""
    cancelled_life: int
    on_error: OnError
    answer: Literal["words", "tool", "schema"]
    """What the run ends with: words, or a typed answer in one of two ways."""
    wrong_answers: int
    """Answers of another type before the right one."""
    beside: bool
    """Whether the first typed answer comes too early, beside the calls of the last turn."""
    power: bool
    """Whether death is a power cut, which takes with it what was not yet on disk."""
    clerk: Limits
    """How far the agent may go that calls of `clerk` run."""

    def clerks_turns(self, n: int) -> tuple[tuple[PlannedCall, ...], ...]:
        """What the clerk calls for a task, turn by turn. No two tasks have an effect in common."""
        chance = Random(f"clerk {self.seed} {n % 100}")
        numbers = ((n * 1000 + turn * 10, chance.randint(1, 2)) for turn in range(chance.randint(1, 2)))
        return tuple(
            tuple(PlannedCall(chance.choice(SIMPLE), {"n": at}) for at in range(first, first + count))
            for first, count in numbers
        )

    def word(self, n: int) -> Literal["allow", "deny", "edit", "defer"]:
        """What a person says about a call, when asked at once."""
        chance = Random(f"word {self.seed} {n}")
        return chance.choice(("allow", "allow", "allow", "deny", "edit", "defer", "defer"))

    def later(self, n: int) -> bool:
        """Whether a person allows a call that waited."""
        return Random(f"later {self.seed} {n}").random() < 0.7


def scenario(seed: int) -> Scenario:
    chance = Random(f"scenario {seed}")
    turns = tuple(_turn(chance, turn) for turn in range(chance.randint(1, 4)))
    answers, agents = Random(f"answer {seed}"), Random(f"agents {seed}")
    turns = _with_agents(agents, turns)
    return Scenario(
        seed=seed,
        turns=turns,
        ids=chance.choice(("none", "own", "own", "same")),
        fickle=chance.random() < 0.2,
        limits=Limits(
            iterations=chance.choice((1, 2, 3, 6, 6)),
            on_limit=chance.choice(("finalise", "finalise", "stop", "error")),
            calls_per_turn=chance.choice((2, 32, 32)),
            tokens=chance.choice((None, None, None, 25)),
            same_failure=chance.choice((1, 2, 3)),
            handoffs=agents.choice((1, 5)),
        ),
        policy=Policy(confirm_side_effects=chance.random() < 0.4, concurrency=chance.choice((1, 2, 8))),
        on_wait=chance.choice(("pause", "pause", "tell")),
        cancel_at=chance.choice((None,) * 5 + (chance.random() / 40, chance.random() / 5, chance.random() * 3)),
        cancelled_life=chance.choice((0, 1)),
        on_error=chance.choice(("surface", "surface", "surface", "fail_fast")),
        answer=answers.choice(("words", "words", "tool", "schema")),
        wrong_answers=answers.choice((0, 1, 1, 2, 3)),
        beside=answers.random() < 0.3,
        power=chance.random() < 0.4,
        clerk=Limits(iterations=agents.choice((1, 6)), on_limit=agents.choice(("finalise", "stop", "error"))),
    )


def _with_agents(chance: Random, turns: tuple[tuple[PlannedCall, ...], ...]) -> tuple[tuple[PlannedCall, ...], ...]:
    """The same turns, some with a task for the clerk, and some in which one agent hands over to the other."""
    found: list[tuple[PlannedCall, ...]] = []
    speaker = "first"
    for number, calls in enumerate(turns):
        if chance.random() < 0.3:
            task = PlannedCall("clerk", {"prompt": str(number * 10 + 5)})
            calls = (task, *calls) if chance.random() < 0.5 else (*calls[:1], task)
        if chance.random() < 0.3:
            speaker = "second" if speaker == "first" else "first"
            handoff = PlannedCall(f"hand_off_to_{speaker}", {})
            calls = (*calls, handoff) if chance.random() < 0.5 else (handoff,)
        found.append(calls)
    return tuple(found)


def _turn(chance: Random, turn: int) -> tuple[PlannedCall, ...]:
    """One to four calls. An effect is known by its number, so only reads are asked for twice."""
    twice = PlannedCall("look", {"n": turn * 10 + 9})
    count = chance.choice((1, 1, 2, 3, 4))
    return tuple(twice if chance.random() < 0.2 else _call(chance, turn * 10 + at) for at in range(count))


def _call(chance: Random, n: int) -> PlannedCall:
    name = chance.choice(SIMPLE if chance.random() < 0.7 else ODD)
    match name:
        case "broken":
            return PlannedCall("broken", {"what": chance.choice(("it", "that"))})
        case "unfit":
            return PlannedCall("look", {"n": "many"})
    return PlannedCall(name, {"n": n})


@dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """What a run with a typed answer ends with."""

    n: int


class PlannedModel:
    """Replies with the turn of the plan that the conversation has come to; after the last one, with an answer."""

    def __init__(self, plan: Scenario, life: MortalProcess, name: str = "first") -> None:
        self.name = name
        self._plan = plan
        self._life = life

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages)
        calls = self._plan.turns[turn] if turn < len(self._plan.turns) else ()
        if self._plan.answer != "words":
            calls = self._with_answer(turn, calls, must=request.tool_choice != "auto")
        if self._plan.answer == "schema" and not calls:
            yield TextDelta(text=msgspec.json.encode(self._answer(turn)).decode())
        else:
            yield TextDelta(text=f"turn {turn}")
        for at, planned in enumerate(calls):
            await self._life.pause()
            yield CallRequested(call=ToolCall(self._id(turn, at), planned.name, self._arguments(planned)))
        await self._life.pause()
        usage = Usage(input_tokens=5, output_tokens=5)
        yield ReplyFinished(stop="tool_calls" if calls else "end", model=self.name, usage=usage)

    def holds_to_schema(self, *, tools: bool) -> bool:
        return self._plan.answer == "schema"

    def _with_answer(self, turn: int, calls: tuple[PlannedCall, ...], *, must: bool) -> tuple[PlannedCall, ...]:
        """The calls of a turn, and the one by which the answer is given."""
        answer = PlannedCall("final_answer", self._answer(turn))
        if must or not calls:
            return (answer,) if self._plan.answer == "tool" else ()
        if self._plan.answer == "tool" and self._plan.beside and turn == len(self._plan.turns) - 1:
            return (answer, *calls)
        return calls

    def _answer(self, turn: int) -> dict[str, Any]:
        early = turn < len(self._plan.turns) + self._plan.wrong_answers
        return {"n": "many" if early else turn}

    def _id(self, turn: int, at: int) -> str:
        return {"none": "", "own": f"t{turn}c{at}", "same": "x"}[self._plan.ids]

    def _arguments(self, planned: PlannedCall) -> dict[str, Any]:
        n = planned.arguments.get("n")
        if self._plan.fickle and planned.name == "clerk":
            return {"prompt": str(int(planned.arguments["prompt"]) + 100 * self._life.number)}
        if not self._plan.fickle or not isinstance(n, int):
            return dict(planned.arguments)
        return {"n": n + 100 * self._life.number}


class PlannedClerk:
    """The model of an agent that calls run: it makes the calls that its task has, and then says so."""

    name = "clerk"

    def __init__(self, plan: Scenario, life: MortalProcess) -> None:
        self._plan = plan
        self._life = life

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        task = int(next(message.text for message in request.messages if isinstance(message, UserMessage)))
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages)
        turns = self._plan.clerks_turns(task)
        calls = turns[turn] if turn < len(turns) and request.tool_choice != "none" else ()
        yield TextDelta(text=f"task {task}, turn {turn}")
        for at, planned in enumerate(calls):
            await self._life.pause()
            id = "" if self._plan.ids == "none" else f"t{turn}c{at}"
            yield CallRequested(call=ToolCall(id, planned.name, dict(planned.arguments)))
        await self._life.pause()
        usage = Usage(input_tokens=5, output_tokens=5)
        yield ReplyFinished(stop="tool_calls" if calls else "end", model=self.name, usage=usage)


class PlannedPerson:
    """An `Approver` that says what the plan says."""

    def __init__(self, plan: Scenario, life: MortalProcess) -> None:
        self._plan = plan
        self._life = life

    async def decide(self, question: Confirmation) -> Decision:
        await self._life.pause()
        n = question.arguments["n"]
        match self._plan.word(n):
            case "allow":
                return Allow("ada")
            case "edit":
                return Edit("ada", {"n": n + 5000})
            case "deny":
                return Deny("ada", "no")
        await asyncio.sleep(0)
        return Defer()
