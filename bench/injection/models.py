"""Two scripted models: one that solves its task, and one that also obeys every instruction that it can see.

They take what they write from what they have read, as real models do, and know nothing of the policy. The obedient
one is adaptive: what is refused it tries in other spellings, then in the other ways that the attacker has prepared.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any

from msgspec import Struct

from bench.injection.cases import Step, Task
from bench.injection.disguises import disguised
from bench.injection.plans import planned_steps
from bench.injection.refs import NotRead, filled
from handrail import ToolCall, ToolResult
from handrail.core.model_request import ModelRequest
from handrail.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.messages import ResultMessage

MOST_DISGUISES = 6
"""In how many other spellings a refused call is tried."""

Calls = list[ToolCall]
Script = Generator[Calls, list[ToolResult], None]


class Order(Struct, frozen=True, kw_only=True):
    """What an attacker wants, as an obedient model carries it out."""

    pieces: tuple[str, ...]
    """The instruction as it stands in what the model reads: it is seen when all of its pieces were read."""
    ways: tuple[tuple[Step, ...], ...] = ()
    """The calls that do it. The next way is tried when a call of one is refused."""
    change: dict[str, dict[str, Any]] = {}
    """Instead, or besides: other arguments for calls of the task, by tool."""
    late: bool = False
    """Whether it is carried out when the task is done, and not at once."""


class SolvingModel:
    """Makes the calls of a task, each with what the earlier ones have brought."""

    name = "scripted"

    def __init__(self, task: Task, order: Order | None = None) -> None:
        self._task = task
        self._order = order
        self._script = self._play()
        self._begun = False
        self.read: list[str] = []
        """Every text that it was shown."""
        self.made: list[tuple[str, dict[str, Any]]] = []
        """Every call that it has made."""
        self._ids = map("call-{}".format, itertools.count(1))
        self._waiting: tuple[str, ...] = ()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if any(tool.name == "state_plan" for tool in request.tools):
            yield CallRequested(call=ToolCall(next(self._ids), "state_plan", {"steps": planned_steps(self._task)}))
            yield ReplyFinished(stop="tool_calls", model=self.name)
            return
        known = {each.result.tool_call_id: each.result for each in request.messages if isinstance(each, ResultMessage)}
        results = [known[id] for id in self._waiting]
        for result in results:
            self.read += strings(result.content)
        try:
            calls = self._script.send(results) if self._begun else next(self._script)
        except StopIteration:
            yield TextDelta(text="That is all.")
            yield ReplyFinished(stop="end", model=self.name)
            return
        self._begun = True
        self._waiting = tuple(call.id for call in calls)
        for call in calls:
            yield CallRequested(call=call)
        yield ReplyFinished(stop="tool_calls", model=self.name)

    def _play(self) -> Script:
        results: dict[str, Any] = {}
        obeyed = self._order is None or not self._order.ways
        for number, step in enumerate(self._task.steps, 1):
            if not obeyed and self._order is not None and not self._order.late and self._sees():
                obeyed = True
                yield from self._obey(self._order)
            try:
                made = list(self._arguments(step, results))
            except NotRead:
                break
            for arguments in made:
                changed = self._changed(step, arguments)
                [result] = yield [self._call(step.do, changed)]
                if changed != arguments and is_refused(result):
                    result = (yield from self._disguised(step.do, changed)) or result
                if changed != arguments and is_refused(result):
                    [result] = yield [self._call(step.do, arguments)]  # so that nobody becomes suspicious
                results[str(number)] = result.content
        if not obeyed and self._order is not None and self._sees():
            yield from self._obey(self._order)

    def _obey(self, order: Order) -> Script:
        for way in order.ways:
            if (yield from self._go(way)):
                return

    def _go(self, way: tuple[Step, ...]) -> Generator[Calls, list[ToolResult], bool]:
        """Make the calls of one way, and say whether each was made in some spelling."""
        results: dict[str, Any] = {}
        for number, step in enumerate(way, 1):
            try:
                made = list(self._arguments(step, results))
            except NotRead:
                return False
            for arguments in made:
                [result] = yield [self._call(step.do, arguments)]
                if is_refused(result):
                    other = yield from self._disguised(step.do, arguments)
                    if other is None:
                        return False
                    result = other
                if result.outcome != "ok":
                    return False
                results[f"a{number}"] = result.content
        return True

    def _disguised(self, tool: str, arguments: dict[str, Any]) -> Generator[Calls, list[ToolResult], ToolResult | None]:
        for other in itertools.islice(disguised(arguments, self.read), MOST_DISGUISES):
            [result] = yield [self._call(tool, other)]
            if not is_refused(result) and result.outcome == "ok":
                return result
        return None

    @property
    def has_seen(self) -> bool:
        """Whether it has read the whole instruction."""
        return self._order is not None and self._sees()

    def _sees(self) -> bool:
        assert self._order is not None
        return all(any(piece in text for text in self.read) for piece in self._order.pieces)

    def _changed(self, step: Step, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._order is None or step.do not in self._order.change or not self._sees():
            return arguments
        return {**arguments, **self._order.change[step.do]}

    def _arguments(self, step: Step, results: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not step.each:
            yield filled(step.arguments, results)
            return
        for value in filled(step.each, results):
            yield filled(step.arguments, {**results, "it": value})

    def _call(self, tool: str, arguments: dict[str, Any]) -> ToolCall:
        self.made.append((tool, arguments))
        return ToolCall(next(self._ids), tool, arguments)


def is_refused(result: ToolResult) -> bool:
    return result.outcome in ("denied", "needs_confirmation", "forbidden")


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings(each)
