"""A side effect runs only after a person allowed exactly this call; an approval is good for one call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from handrail.core.calls import ToolCall
from handrail.core.canonical import canonical_json
from handrail.core.confirmation import (
    Allow,
    Confirmation,
    ConfirmationSubject,
    Decision,
    Defer,
    Deny,
    Edit,
    Locations,
    grant_binding,
)
from handrail.core.errors import Denied, InvalidArguments, NeedsConfirmation, UsageError
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, Notice
from handrail.core.first_answer import first_decision
from handrail.core.ports import Approver
from handrail.execute.arguments import check_secrets
from handrail.execute.ledger import CallLedger
from handrail.execute.recorder import RunRecorder
from handrail.execute.rules import Rules
from handrail.tools.tool import Tool

_SHOWN = 2_000
"""Characters of changed arguments in a warning; the record has all of them."""


class DeferAll:
    """The approver of a program that has none: every side effect waits for a later word."""

    async def decide(self, question: Confirmation) -> Decision:
        return Defer()


class _GivenWord:
    """The approver of what somebody has decided on already."""

    def __init__(self, word: Decision) -> None:
        self._word = word

    async def decide(self, question: Confirmation) -> Decision:
        return self._word


def _by_word(approver: Approver, word: Decision) -> Approver:
    given = _GivenWord(word)
    return approver.with_otherwise(given) if isinstance(approver, Rules) else given


class GrantedConfirmation(msgspec.Struct, frozen=True):
    """The word that was given, and the arguments it was given for."""

    request: str
    arguments: dict[str, Any]
    warnings: tuple[str, ...] = ()


class CallConfirmer:
    """Finds the confirmation of a call in the record, or asks the approver for it."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    async def confirm(
        self,
        tool: Tool,
        call: ToolCall,
        arguments: dict[str, Any],
        recorder: RunRecorder,
        why: str = "",
        locations: Locations | None = None,
        agents: tuple[str, ...] = (),
        identity: bytes | None = None,
        word: Decision | None = None,
    ) -> GrantedConfirmation:
        """Return when the call may run; `why` is a reason for which no standing word will do. Rules on paths go by
        `locations`; the question is found again by its `identity`. A `word` was given for a plan that has the call:
        nobody else is asked then, but standing rules may still refuse it.

        Raises:
            Denied: Somebody said no.
            NeedsConfirmation: Nobody has said anything yet; the question is in the record.
            UsageError: The approver's answer is none.
        """
        ledger, definition = recorder.ledger, tool.digest
        request = ledger.request_for(call.id, tool.scoped_name, arguments, definition)
        if request is not None:
            await recorder.refresh(
                request.request
            )  # it was asked before: the answer may have come from another process
        if request is not None and request.request in ledger.answers:
            if (given := ledger.unused_answer(request)) is not None:
                return _granted(tool, given, arguments)
            request = None  # its answer is used up, or was for other arguments: this is a new question
        known = None if request is None else request.asked
        nonce = recorder.new_id("nonce") if known is None else known.nonce
        why = "; ".join(filter(None, (_changed(tool, call, definition, ledger), why)))
        question = _question(tool, call, arguments, request, nonce, recorder, definition, why)
        question = msgspec.structs.replace(question, locations=locations or {}, agents=agents)
        if request is None:
            request = await self._record_question(question, tool, nonce, recorder, identity)
        approver = self._approver if word is None else _by_word(self._approver, word)
        decision = await first_decision(approver, question, partial(recorder.wait_anywhere, question.request))
        match decision:
            case Allow(by=by):
                answer = request.answered("allow", at=recorder.now(), by=by)
            case Edit(by=by, arguments=edited):
                arguments = _edited(tool, by, edited)
                binds = grant_binding(nonce, request.run, request.call_id, request.tool, arguments, tool.digest)
                answer = request.answered("allow", at=recorder.now(), by=by)
                answer = msgspec.structs.replace(answer, binds=binds, edited=True)
            case Deny(by=by, reason=reason):
                answer = request.answered("deny", at=recorder.now(), by=by, reason=reason)
            case Defer():
                raise NeedsConfirmation(tool.name, question.request)
            case ConfirmationAnswered():
                await recorder.take_answer(decision)
                await recorder.emit(Notice(text=_elsewhere(tool.name, decision)))
                return _granted(tool, decision, question.arguments)
            case other:
                raise UsageError(f"an approver answers with Allow, Deny, Edit or Defer, not with {other!r}")
        first = await recorder.record_answer(answer)
        if first != answer:
            late = f"; the answer of {answer.by} came later and does not count"
            await recorder.emit(Notice(text=_elsewhere(tool.name, first) + late))
            return _granted(tool, first, question.arguments)
        return _granted(tool, answer, arguments)

    async def _record_question(
        self, question: Confirmation, tool: Tool, nonce: str, recorder: RunRecorder, identity: bytes | None
    ) -> ConfirmationRequested:
        known = recorder.ledger.words_of(question.definition) is not None
        request = ConfirmationRequested(
            run=question.run,
            at=recorder.now(),
            request=question.request,
            call_id=question.call_id,
            tool=question.tool,
            binds=question.binds,
            asked=ConfirmationSubject(
                question.shown,
                nonce,
                question.definition,
                None if known else tool.described(),
                question.why,
                question.secrets,
                question.agents,
            ),
        )
        await recorder.record_question(request, identity)
        return request


def _edited(tool: Tool, by: str, edited: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a person wrote, with the schema's defaults.

    Raises:
        InvalidArguments: They do not fit the tool, or the mask of a secret stands in them.
    """
    if problems := tool.validator.problems(edited):
        raise InvalidArguments(f"{problem} (as edited by {by})" for problem in problems)
    arguments = tool.complete(edited)
    check_secrets(arguments, tool)
    return arguments


def _granted(tool: Tool, answer: ConfirmationAnswered, arguments: dict[str, Any]) -> GrantedConfirmation:
    """The grant that an answer gives.

    Raises:
        Denied: The answer is no.
    """
    if answer.decision == "deny":
        because = f": {answer.reason}" if answer.reason else ""
        raise Denied(f"{answer.by} denied the call to {tool.name!r}{because}; do not repeat it")
    warnings = (_changed_by(answer.by, tool.exact(arguments)),) if answer.edited else ()
    return GrantedConfirmation(answer.request, arguments, warnings)


def _elsewhere(tool: str, answer: ConfirmationAnswered) -> str:
    word = "allowed" if answer.decision == "allow" else "denied"
    return f"the call to {tool!r} was {word} elsewhere, by {answer.by}{f': {answer.reason}' if answer.reason else ''}"


def _changed_by(by: str, arguments: dict[str, Any]) -> str:
    """The warning that says who edited the arguments, and what the call ran with."""
    written = canonical_json(arguments).decode()
    cut = written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"
    return f"{by} changed the arguments before the call ran; it ran with {cut}"


def _question(
    tool: Tool,
    call: ToolCall,
    arguments: dict[str, Any],
    before: ConfirmationRequested | None,
    nonce: str,
    recorder: RunRecorder,
    definition: str,
    why: str,
) -> Confirmation:
    """A new question, or the one that was asked before and has no answer yet."""
    binds = (
        before.binds if before else grant_binding(nonce, recorder.run, call.id, tool.scoped_name, arguments, definition)
    )
    return Confirmation(
        request=recorder.new_id("confirm") if before is None else before.request,
        run=recorder.run,
        call_id=call.id,
        tool=tool.scoped_name,
        description=tool.definition.description,
        arguments=arguments,
        binds=binds,
        definition=definition,
        why=why,
        secrets=tool.secret_places(arguments),
    )


def _changed(tool: Tool, call: ToolCall, definition: str, ledger: CallLedger) -> str:
    """What is different about a tool since somebody last approved it; nothing if nothing is."""
    earlier = ledger.earlier_definition(call.id, tool.scoped_name, definition)
    if earlier is None:
        return ""
    words = ledger.words_of(earlier)
    told = (
        "; ".join(describe_definition_changes(words, tool.described()))
        if words
        else "how is not known, its old words were erased"
    )
    return f"the definition of {tool.scoped_name!r} has changed since it was last asked about ({told})"


_MOST = 8
_LONGEST = 160
_CONTEXT = 20
_ABSENT: Any = object()


def describe_definition_changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    """Every changed fact of a definition, as `description: 'Pay.' is now 'Pay twice.'`; a handful at most."""
    found = tuple(_differences(before, after, ""))
    return found if len(found) <= _MOST else (*found[:_MOST], f"and {len(found) - _MOST} more")


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if before == after:
        return
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield f"{path}: {_told(before, after)}"
        return
    for key in (*before, *(key for key in after if key not in before)):
        yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}.{key}" if path else key)


def _told(before: Any, after: Any) -> str:
    if before is _ABSENT:
        return f"new, {_shown(after)}"
    if after is _ABSENT:
        return f"gone, was {_shown(before)}"
    if isinstance(before, str) and isinstance(after, str):
        before, after = _trimmed(before, after)
    return f"{_shown(before)} is now {_shown(after)}"


def _trimmed(before: str, after: str) -> tuple[str, str]:
    """Two texts from shortly before the place where they begin to differ."""
    same = next((at for at, (one, two) in enumerate(zip(before, after, strict=False)) if one != two), None)
    begin = max((min(len(before), len(after)) if same is None else same) - _CONTEXT, 0)
    if not begin:
        return before, after
    return "…" + before[begin:], "…" + after[begin:]


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
