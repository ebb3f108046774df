"""A side effect runs on a person's word for exactly this call, given once."""

from __future__ import annotations

from typing import Any

import msgspec

from handrail.core.calls import ToolCall
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit, binding
from handrail.core.errors import Denied, InvalidArguments, NeedsConfirmation
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested
from handrail.core.ports import Approver
from handrail.core.redact import mask_fields
from handrail.execute.recorder import Recorder
from handrail.tools.tool import Tool


class DeferAll:
    """The approver of a program that has none: every side effect waits for a later word."""

    async def decide(self, question: Confirmation) -> Decision:
        return Defer()


class Granted(msgspec.Struct, frozen=True):
    """The word that was given, and the arguments it was given for."""

    request: str
    arguments: dict[str, Any]
    warnings: tuple[str, ...] = ()


class Confirmer:
    """Finds the word in the record, or asks for it."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    async def confirm(self, tool: Tool, call: ToolCall, arguments: dict[str, Any], recorder: Recorder) -> Granted:
        """Return when the call may run.

        Raises:
            Denied: Somebody said no.
            NeedsConfirmation: Nobody has said anything yet; the question is in the record.
        """
        binds = binding(recorder.run, call.id, tool.scoped_name, arguments)
        if binds in recorder.ledger.requests and binds not in recorder.ledger.answers:
            await recorder.refresh()  # it was asked before: the answer may have come from another process
        if (given := recorder.ledger.unused_answer(binds)) is not None:
            if given.decision == "deny":
                raise _denied(tool.name, given.by, given.reason)
            return Granted(given.request, arguments)
        question = await self._ask(tool, call, arguments, binds, recorder)
        match await self._approver.decide(question):
            case Allow(by=by):
                await self._answer(question, "allow", by, "", recorder)
                return Granted(question.request, arguments)
            case Edit(by=by, arguments=edited):
                return await self._edited(tool, question, by, edited, recorder)
            case Deny(by=by, reason=reason):
                await self._answer(question, "deny", by, reason, recorder)
                raise _denied(tool.name, by, reason)
            case Defer():
                raise NeedsConfirmation(tool.name, question.request)

    async def _ask(
        self, tool: Tool, call: ToolCall, arguments: dict[str, Any], binds: str, recorder: Recorder
    ) -> Confirmation:
        asked = recorder.ledger.requests.get(binds)
        request = asked.request if asked is not None else recorder.new_id("confirm")
        if asked is None:
            await recorder.record(
                ConfirmationRequested(
                    run=recorder.run,
                    at=recorder.now(),
                    request=request,
                    call_id=call.id,
                    tool=tool.scoped_name,
                    binds=binds,
                    arguments=mask_fields(arguments, tool.secrets),
                )
            )
        return Confirmation(
            request=request,
            run=recorder.run,
            call_id=call.id,
            tool=tool.scoped_name,
            description=tool.definition.description,
            arguments=arguments,
            binds=binds,
        )

    async def _edited(
        self, tool: Tool, question: Confirmation, by: str, edited: dict[str, Any], recorder: Recorder
    ) -> Granted:
        if problems := tool.validator.problems(edited):
            raise InvalidArguments(f"{problem} (as edited by {by})" for problem in problems)
        arguments = tool.complete(edited)
        binds = binding(question.run, question.call_id, question.tool, arguments)
        await self._answer(msgspec.structs.replace(question, binds=binds), "allow", by, "edited", recorder)
        return Granted(question.request, arguments, (f"{by} changed the arguments before the call ran",))

    async def _answer(
        self, question: Confirmation, decision: str, by: str, reason: str, recorder: Recorder
    ) -> None:
        await recorder.record(
            ConfirmationAnswered(
                run=question.run,
                at=recorder.now(),
                request=question.request,
                call_id=question.call_id,
                binds=question.binds,
                decision="allow" if decision == "allow" else "deny",
                by=by,
                reason=reason,
            )
        )


def _denied(tool: str, by: str, reason: str) -> Denied:
    return Denied(f"{by} denied the call to {tool!r}{f': {reason}' if reason else ''}; do not repeat it")
