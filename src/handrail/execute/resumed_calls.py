"""Calls that an earlier process began: whether this is the same one, and what became of it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import Output, ToolCall, ToolResult
from handrail.core.canonical import canonical_json
from handrail.core.confirmation import grant_binding
from handrail.core.errors import InDoubt, ToolError, describe_exception
from handrail.core.events import CallIntended
from handrail.core.invocation import Invocation
from handrail.core.redact import MASK, mask_fields, redact
from handrail.execute.arguments import read_arguments
from handrail.execute.attempt import CallAttempt
from handrail.execute.handles.quoted_words import put_in_words
from handrail.execute.ledger import CallLedger
from handrail.execute.output import normalise_output
from handrail.execute.policy import Policy
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool


def check_same_call(call: ToolCall, begun: CallIntended, ledger: CallLedger, tools: RegisteredTools) -> None:
    """Hold a call of a resumed run to what its id meant before.

    Raises:
        ToolError: It is another tool, or has other arguments. Those that were erased, or that a person
            changed before the call ran, cannot be compared.
    """
    tool = tools.find(call.name)
    same = tool.scoped_name == begun.tool
    if same and begun.arguments is not None and not ledger.was_edited(begun):
        arguments, _ = read_arguments(call, tool, lenient=True)
        if ledger.withheld:
            arguments = put_in_words(arguments, tool, ledger.withheld)
        # Earlier versions masked fields by name wherever they stood, and fewer forms of secrets.
        masked = (tool.exact(arguments), mask_fields(arguments, tool.secrets))
        recorded = canonical_json(redact(begun.arguments))
        same = any(canonical_json(redact(each)) == recorded for each in masked)
    if not same:
        raise ToolError("duplicate_id", f"call id {call.id!r} already names another call; give each its own id")


async def reconcile_call(attempt: CallAttempt, policy: Policy) -> Output | None:
    """What a call gave that was begun before, or None if it may run now.

    A read, or an idempotent effect, simply runs again with the key it had. Any
    other effect is put to its tool's `reconcile`.

    Raises:
        InDoubt: Nobody knows whether it took effect. It is not run again.
    """
    tool, begun = attempt.tool, attempt.recorder.ledger.open.get(attempt.call.id)
    if tool is None or begun is None:
        return None
    attempt.key = begun.key
    _take_edited(begun, attempt)
    if tool.reusable:
        attempt.grant = _still_good(begun, attempt, tool)
        return None
    if tool.reconcile is None:
        raise InDoubt(_words(attempt, "whether it took effect is not known"))
    invocation = Invocation(attempt.call, attempt.arguments, attempt.context, begun.key)
    try:
        found = await asyncio.wait_for(_asked(tool.reconcile, invocation), tool.definition.timeout or policy.timeout)
        if found is None:
            attempt.grant = _still_good(begun, attempt, tool)
            attempt.recorder.ledger.known(attempt.call.id)
            return None
        return normalise_output(found, "arguments")
    except ToolError as error:
        raise InDoubt(_words(attempt, error.message)) from error
    except Exception as error:
        raise InDoubt(_words(attempt, f"finding out failed ({describe_exception(error)})")) from error


def _take_edited(begun: CallIntended, attempt: CallAttempt) -> None:
    """A person changed the arguments before the call ran: it is about those, and not about what the model wrote.

    Raises:
        InDoubt: They are not on record any more, or not whole.
    """
    if not attempt.recorder.ledger.was_edited(begun):
        return
    if begun.arguments is None or MASK.encode() in canonical_json(begun.arguments):
        raise InDoubt(_words(attempt, "the arguments that a person gave it are not on record"))
    attempt.take(begun.arguments)


def _still_good(begun: CallIntended, attempt: CallAttempt, tool: Tool) -> str | None:
    """The decision on a call, if it is for exactly what would run now. It is the same call, so it is used once."""
    ledger = attempt.recorder.ledger
    asked, answer = ledger.requests.get(begun.grant or ""), ledger.answers.get(begun.grant or "")
    if asked is None or asked.asked is None or answer is None:
        return None
    call, name = attempt.call.id, tool.scoped_name
    binds = grant_binding(asked.asked.nonce, ledger.run, call, name, attempt.arguments, tool.digest)
    return begun.grant if binds == answer.binds else None


def honest_result(attempt: CallAttempt, result: ToolResult) -> ToolResult:
    """The same result, unless it would say of a call that it did nothing, and it may have run before; what is in doubt
    says how it is settled."""
    ledger = attempt.recorder.ledger
    if attempt.ran and result.outcome == "in_doubt" and attempt.recorder.is_recorded:
        return replace(result, content=f"{result.text}; {_way_to_settle(attempt)}")
    unknown = attempt.call.id in ledger.unknown and not attempt.ran
    if result.is_error and not attempt.ran and attempt.call.id in ledger.open and _begins_runs(attempt):
        return replace(result, content=_CUT_OFF if result.outcome == "cancelled" else f"{result.text}; but it {_BEGUN}")
    if not unknown or result.outcome in ("ok", "in_doubt", "needs_confirmation"):
        return result
    return attempt.refused(InDoubt(_words(attempt, f"whether it took effect is not known ({result.text})")))


_BEGUN = "had been begun before, and what was done then stays done"
_CUT_OFF = f"cancelled; it {_BEGUN}"


def _begins_runs(attempt: CallAttempt) -> bool:
    tools, name = attempt.recorder.ledger.tools, attempt.call.name
    return name in tools and tools.find(name).begins_runs


async def _asked(reconcile: Any, invocation: Invocation) -> Any:
    if inspect.iscoroutinefunction(reconcile):
        return await reconcile(invocation)
    found = await asyncio.to_thread(reconcile, invocation)
    return await found if inspect.isawaitable(found) else found


def _words(attempt: CallAttempt, why: str) -> str:
    return (
        f"{attempt.call.name!r} was begun, its outcome is not on record, and {why}; do not repeat it:"
        f" {_way_to_settle(attempt)}"
    )


def _way_to_settle(attempt: CallAttempt) -> str:
    return f"ask a person to check, and to say so: handrail confirm settle {attempt.recorder.run} {attempt.call.id}"
