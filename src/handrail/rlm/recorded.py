"""What the journal has of a run, as much as is needed to take it up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from handrail.core.calls import ToolResult
from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.events import CallIntended, CallSettled, Recorded
from handrail.core.messages import AssistantMessage, Conversation, InvocationMessage, UserMessage
from handrail.execute.executor import Executor
from handrail.rlm import prompts
from handrail.rlm.repl.notebook import Done
from handrail.rlm.repl.tools import QUERIES, completions_of
from handrail.rlm.repl.turns import REPL, Asked, Ran
from handrail.rlm.values import RLMChatCompletion
from handrail.run.history import conversation_of


@dataclass(frozen=True, slots=True)
class Record:
    conversation: Conversation = field(default_factory=Conversation)
    done: tuple[Done, ...] = ()
    """The calls of the tool `repl` that have their results, in order."""
    completions: tuple[RLMChatCompletion, ...] = ()
    """Of the queries of its code."""

    @property
    def replies(self) -> Iterator[AssistantMessage]:
        """What the root model itself said: each is followed by the call that was made of it."""
        messages = self.conversation.messages
        for said, call in pairwise(messages):
            if isinstance(said, AssistantMessage) and isinstance(call, InvocationMessage):
                yield said

    def task(self, run: str) -> str:
        """The context of a run that had none but its task.

        Raises:
            UsageError: It had another, or there is nothing on record.
        """
        if not self.conversation.messages:
            raise UsageError(f"there is nothing on record of run {run!r} to take up; give its context, and it is begun")
        first = next((each for each in self.conversation.messages if isinstance(each, UserMessage)), None)
        task = None if first is None else prompts.task_of(first.text)
        if task is None:
            raise UsageError(f"the context of run {run!r} is not on record, only its digest; give it again to go on")
        return task


async def history_of(executor: Executor, run: str) -> Record:
    """Read it. From here on nobody else works on the run.

    Raises:
        LeaseHeld: Somebody does.
        UsageError: Its words were erased.
    """
    await executor.calls(Context(run=run))
    events = await executor.history(run)
    return Record(conversation_of(events), tuple(_done(events)), tuple(_completions(events)))


def _done(events: Iterable[Recorded]) -> Iterator[Done]:
    asked: dict[str, Asked] = {}
    for event in events:
        match event:
            case CallIntended(tool=tool, call_id=id, arguments=dict() as arguments) if tool == REPL:
                asked[id] = Asked.read(arguments)
            case CallSettled(tool=tool, call_id=id, outcome="ok", result=ToolResult(content=dict() as content)) if (
                tool == REPL and id in asked
            ):
                yield Done(id, asked[id], msgspec.convert(content, Ran))


def _completions(events: Iterable[Recorded]) -> Iterator[RLMChatCompletion]:
    for event in events:
        match event:
            case CallSettled(tool=tool, outcome="ok", result=ToolResult(content=dict() as content)) if tool in QUERIES:
                prompts = [None] * len(content.get("completions", ()))
                yield from completions_of({"prompts": prompts}, content)
