"""What the tool `repl` is asked and what it answers, and the turns of a run read out of its conversation.

These values are on record, as the arguments and the result of a call, so a run can be taken up and told again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from handrail.core.messages import AssistantMessage, InvocationMessage, Message, ResultMessage, Usage, UserMessage
from handrail.rlm.repl.reply_parser import ParsedReply
from handrail.rlm.values import RLMChatCompletion, UsageSummary
from handrail.sandbox.port import Cell, Ending

REPL = "repl"
"""The name of the tool."""
_SHORT = 2_000
"""Characters of a prompt and of an answer that are kept beside the code that asked."""

_CUT_OFF = (
    "Your variables are as they were before that reply. What its code had called by then was called all the same, "
    "and is not undone: look before you call it again."
)


class ReplArguments(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The arguments of one call: what the model wrote in one reply."""

    blocks: tuple[str, ...] = ()
    final: str | None = None
    final_var: str | None = None
    cut: bool = False
    unclosed: bool = False
    contexts: tuple[str, ...] = ()
    """The digests of the contexts, only in the call that makes the REPL ready."""

    @classmethod
    def of(cls, written: ParsedReply) -> ReplArguments:
        final, final_var = (None, None) if written.cut else (written.final, written.final_var)
        return cls(blocks=written.blocks, final=final, final_var=final_var, cut=written.cut, unclosed=written.unclosed)

    @classmethod
    def read(cls, arguments: Any) -> ReplArguments:
        return msgspec.convert(arguments, cls)

    def to_dict(self) -> dict[str, Any]:
        return {"blocks": [], **_as_json_value(self)}


class ReplQuery(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One question that code asked of a model, in short: the whole is in the record of its own run."""

    model: str
    prompt: str
    response: str
    seconds: float = 0.0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    error: str | None = None
    run: str = ""

    @classmethod
    def of(cls, completion: RLMChatCompletion) -> ReplQuery:
        used = completion.usage_summary
        asked = completion.prompt if isinstance(completion.prompt, str) else str(completion.prompt)
        return cls(
            model=completion.root_model,
            prompt=asked[:_SHORT],
            response=completion.response[:_SHORT],
            seconds=round(completion.execution_time, 6),
            calls=used.total_calls,
            input_tokens=used.total_input_tokens,
            output_tokens=used.total_output_tokens,
            cost=used.total_cost,
            error=completion.error,
            run=completion.run,
        )

    def completion(self) -> RLMChatCompletion:
        """The completion as it stands in a trajectory."""
        usage = Usage(input_tokens=self.input_tokens, output_tokens=self.output_tokens, cost=self.cost)
        return RLMChatCompletion(
            root_model=self.model,
            prompt=self.prompt,
            response=self.response,
            usage_summary=UsageSummary.of(self.model, usage, self.calls),
            execution_time=self.seconds,
            error=self.error,
            run=self.run,
        )


class ReplBlock(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one piece of code did."""

    ending: Ending
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    dropped: int = 0
    seconds: float = 0.0
    names: dict[str, str] = msgspec.field(default_factory=dict)
    state: Literal["kept", "gone"] = "kept"
    queries: tuple[ReplQuery, ...] = ()

    @classmethod
    def of(cls, cell: Cell, names: dict[str, str], queries: tuple[ReplQuery, ...] = ()) -> ReplBlock:
        return cls(
            ending=cell.ending,
            stdout=cell.stdout,
            stderr=cell.stderr,
            error=cell.error,
            dropped=cell.dropped,
            seconds=round(cell.seconds, 6),
            names=names,
            state=cell.state,
            queries=queries,
        )


class ReplFinal(Struct, frozen=True):
    text: str


class ReplResult(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The result of one call."""

    blocks: tuple[ReplBlock, ...] = ()
    skipped: int = 0
    """Blocks that were not run, because one before them failed or gave the final answer."""
    final: ReplFinal | None = None
    draft: str = ""
    """What `answer["content"]` holds that is not final."""
    notices: tuple[str, ...] = ()
    """What the program has to say to the model about it."""

    @property
    def failed(self) -> bool:
        return any(block.ending != "ok" for block in self.blocks) or (not self.blocks and self.final is None)

    @property
    def lost(self) -> bool:
        """Whether the interpreter ended under the code."""
        return any(block.ending == "lost" for block in self.blocks)

    def to_dict(self) -> dict[str, Any]:
        return {"blocks": [], "final": None, **_as_json_value(self)}


def _as_json_value(value: Struct) -> dict[str, Any]:
    """The value as JSON has it, so that what is said now is equal to what is on record."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return plain


class ReplTurn(Struct, frozen=True):
    """One reply of the root model and what became of its code."""

    said: AssistantMessage
    call: InvocationMessage
    result: ResultMessage

    @property
    def asked(self) -> ReplArguments:
        return ReplArguments.read(self.call.call.arguments)

    @property
    def ran(self) -> ReplResult:
        return ran_of(self.result)


def ran_of(message: ResultMessage) -> ReplResult:
    """A call that gave no result of its own, because it was cancelled or ran out of time, left no variables; but what
    its code had called by then was called, and who writes the next code must not be left to think otherwise."""
    result = message.result
    if result.is_error or not isinstance(result.content, dict):
        return ReplResult(notices=(result.text, _CUT_OFF))
    return msgspec.convert(result.content, ReplResult)


def turns_of(messages: Iterable[Message]) -> list[ReplTurn]:
    """The turns since the user last spoke, those without a result left out."""
    turns: list[ReplTurn] = []
    said: AssistantMessage | None = None
    call: InvocationMessage | None = None
    for message in messages:
        match message:
            case UserMessage():
                turns.clear()
            case AssistantMessage():
                said, call = message, None
            case InvocationMessage() if message.call.name == REPL:
                call = message
            case ResultMessage() if said is not None and call is not None and message.invocation_id == call.id:
                turns.append(ReplTurn(said, call, message))
    return turns


def final_of(messages: tuple[Message, ...]) -> str | None:
    """The final answer, if the last thing that happened is that there is one."""
    match messages[-1:]:
        case (ResultMessage() as last,) if last.result.name == REPL:
            final = ran_of(last).final
            return None if final is None else final.text
    return None
