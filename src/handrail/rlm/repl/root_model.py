"""The root model as a model that calls one tool: `repl`, with the code that it wrote.

`ReplModel` stands between the runner and the model. It reads the code out of what the model writes, and gives back
results as messages; so the runner loops, the executor runs, and both are recorded, as with any tool. When the REPL has
the final answer, it is the reply, and the model is not asked any more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from handrail.core.calls import ToolCall
from handrail.core.errors import LimitExceeded
from handrail.core.events import (
    AttemptFailed,
    CallRequested,
    ModelEvent,
    Notice,
    ReasoningDelta,
    ReplyFinished,
    TextDelta,
)
from handrail.core.messages import Message, Usage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.rlm.repl.reply_parser import read_reply
from handrail.rlm.repl.root_transcript import RootTranscript
from handrail.rlm.repl.turns import REPL, ReplArguments, final_of, turns_of

Before = Callable[[tuple[Message, ...], tuple[Message, ...] | None], Awaitable[None]]
"""Told before each turn what was said so far, and what the model is about to read; None: it is not asked again."""


@dataclass(slots=True)
class ReplModel:
    """A `Model` around the root model."""

    inner: Model
    before: Before
    spend: Callable[[str, Usage], None]
    check: Callable[[], None]
    """Raises `LimitExceeded` when nothing more may be asked."""
    max_errors: int | None = None
    shown: RootTranscript = field(default_factory=RootTranscript)

    @property
    def name(self) -> str:
        return self.inner.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        final = final_of(request.messages)
        if final is not None:
            await self.before(request.messages, None)
            yield TextDelta(text=final)
            yield ReplyFinished(stop="end", model=self.name)
            return
        self.check()
        self._check_errors(request.messages)
        shown = self.shown.messages(request.messages)
        await self.before(request.messages, shown)
        text: list[str] = []
        # It is told of no tools: it writes code. Then no service may be told to choose one either.
        asked = msgspec.structs.replace(request, messages=shown, tools=(), tool_choice="auto")
        async with aclosing(self.inner.stream(asked)) as events:
            async for event in events:
                match event:
                    case TextDelta(text=piece):
                        text.append(piece)
                        yield event
                    case ReplyFinished():
                        self.spend(event.model or self.name, event.usage)
                        for each in self._finished(event, "".join(text), wants_code=request.tool_choice != "none"):
                            yield each
                    case ReasoningDelta() | Notice() | AttemptFailed():
                        yield event

    def _finished(self, end: ReplyFinished, text: str, *, wants_code: bool) -> list[ModelEvent]:
        if not wants_code:
            return [end]
        asked = ReplArguments.of(read_reply(text))
        call = CallRequested(call=ToolCall("", REPL, asked.to_dict()))
        return [call, msgspec.structs.replace(end, stop="tool_calls")]

    def _check_errors(self, messages: tuple[Message, ...]) -> None:
        if self.max_errors is None:
            return
        turns = turns_of(messages)[-self.max_errors :]
        if len(turns) == self.max_errors and all(turn.ran.failed for turn in turns):
            raise LimitExceeded("turns in a row that failed", self.max_errors)
