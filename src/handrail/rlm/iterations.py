"""The turns of a run as they are told: to the caller's `on_iteration`, to the trajectory, and to whoever watches."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from handrail.core.messages import AssistantMessage, Message, ResultMessage, SupervisorMessage, UserMessage
from handrail.core.ports import Clock
from handrail.rlm.progress import IterationStarted, Progress
from handrail.rlm.record.trajectory import RLMLogger
from handrail.rlm.repl.turns import ReplBlock, ReplTurn, turns_of
from handrail.rlm.values import CodeBlock, REPLResult, RLMIteration

OnIteration = Callable[[RLMIteration, int], Awaitable[object] | object]
"""Called after each turn with the turn and its number, from 1; plain or async. What it raises ends the run."""


Trajectory = dict[str, Any]
"""The trajectories of runs below this one, by run, until the turn that asked for them is reported."""


@dataclass(slots=True, kw_only=True)
class IterationReporter:
    """Tells each turn once. Those that were told before a run was taken up again are not told again."""

    run: str
    told: int
    """Turns that were told."""
    of: int
    depth: int
    clock: Clock
    tell: Callable[[Progress], Awaitable[None]]
    on_iteration: OnIteration | None
    logger: RLMLogger | None
    below: dict[str, Trajectory]
    _read: int = 0
    """Messages whose turns were told."""
    _skip: int = 0
    """Turns after them that were, too."""
    _prompt: tuple[Message, ...] = ()
    _started: float = 0.0

    def __post_init__(self) -> None:
        self._skip = self.told
        self._started = self.clock.monotonic()

    async def before(self, messages: tuple[Message, ...], shown: tuple[Message, ...] | None) -> None:
        """The model is about to be asked with `shown`; None says that it is not asked any more."""
        await self.after(messages)
        if shown is not None:
            self._prompt = shown
            self._started = self.clock.monotonic()
            await self.tell(IterationStarted(run=self.run, index=self.told + 1, of=self.of, depth=self.depth))

    async def after(self, messages: tuple[Message, ...]) -> None:
        """Tell the turns that have ended since."""
        turns = turns_of(messages[self._read :])[self._skip :]
        self._skip += len(turns)
        if isinstance(messages[-1], ResultMessage):
            self._read, self._skip = len(messages), 0
        for turn in turns:
            self.told += 1
            if self.logger is None and self.on_iteration is None:
                continue
            iteration = iteration_of(turn, self._prompt, self.clock.monotonic() - self._started, self.below)
            if self.logger is not None:
                self.logger.log(iteration)
            if self.on_iteration is not None:
                awaited = self.on_iteration(iteration, self.told)
                if inspect.isawaitable(awaited):
                    await awaited


def iteration_of(
    turn: ReplTurn, prompt: tuple[Message, ...], seconds: float | None, below: dict[str, Trajectory]
) -> RLMIteration:
    """One turn in the form that `rlms` and its tools read. What is `below` its queries is taken from there."""
    asked, ran = turn.asked, turn.ran
    final = None if ran.final is None else ran.final.text
    blocks = [
        CodeBlock(code=code, result=_result(block, final if number == len(ran.blocks) else None, below))
        for number, (code, block) in enumerate(zip(asked.blocks, ran.blocks, strict=False), 1)
    ]
    return RLMIteration(
        prompt=[said for message in prompt if (said := _message_as_json(message)) is not None],
        response=turn.said.text,
        code_blocks=blocks,
        final_answer=final,
        iteration_time=seconds,
    )


def _result(block: ReplBlock, final: str | None, below: dict[str, Trajectory]) -> REPLResult:
    calls = [query.completion() for query in block.queries]
    for call in calls:
        call.metadata = below.pop(call.run, None)
    return REPLResult(
        stdout=block.stdout,
        stderr="\n".join(part for part in (block.stderr, block.error) if part),
        locals=dict(block.names),
        execution_time=block.seconds,
        rlm_calls=calls,
        final_answer=final,
    )


def _message_as_json(message: Message) -> dict[str, Any] | None:
    match message:
        case SupervisorMessage(text=text):
            return {"role": "system", "content": text}
        case UserMessage():
            return {"role": "user", "content": message.text}
        case AssistantMessage(text=text):
            return {"role": "assistant", "content": text}
    return None
