"""What the record is told of a call: that it is asked for, that it begins, how it ended, what became of it later."""

from __future__ import annotations

from typing import Literal

from handrail.core.calls import ToolResult
from handrail.core.events import CallAmended, CallAsked, CallIntended, CallSettled
from handrail.execute.attempt import CallAttempt
from handrail.execute.recorder import RunRecorder
from handrail.tools.tool import Tool


def call_asked_entry(attempt: CallAttempt) -> CallAsked:
    call, tool = attempt.call, attempt.tool
    return CallAsked(
        run=attempt.recorder.run,
        at=attempt.recorder.now(),
        call_id=call.id,
        tool=attempt.name,
        principal=attempt.context.principal.id,
        arguments=call.arguments if tool is None else tool.masked(call.arguments),
    )


def call_intended_entry(attempt: CallAttempt, tool: Tool) -> CallIntended:
    return CallIntended(
        run=attempt.recorder.run,
        at=attempt.recorder.now(),
        call_id=attempt.call.id,
        tool=tool.scoped_name,
        side_effects=not tool.reads,
        idempotent=tool.definition.idempotent,
        key=attempt.key,
        principal=attempt.context.principal.id,
        depth=attempt.context.depth,
        grant=attempt.grant,
        arguments=tool.exact(attempt.arguments),
    )


def call_settled_entry(attempt: CallAttempt, result: ToolResult) -> CallSettled:
    return CallSettled(
        run=attempt.recorder.run,
        at=attempt.recorder.now(),
        call_id=attempt.call.id,
        tool=attempt.name,
        outcome=result.outcome,
        duration_us=result.duration_us,
        ran=attempt.ran,
        result=result,
    )


def call_amended_entry(
    recorder: RunRecorder, tool: str, result: ToolResult, why: Literal["late", "person"]
) -> CallAmended:
    return CallAmended(
        run=recorder.run,
        at=recorder.now(),
        call_id=result.tool_call_id,
        tool=tool,
        outcome=result.outcome,
        why=why,
        result=result,
    )
