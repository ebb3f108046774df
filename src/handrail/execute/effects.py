"""Side effects that were begun before: by a process that died, by a client that restarted, in another session.

What an effect does is its identity: who asks for it, which tool, and its arguments, or those of them that the tool
names in `effect_key`. The journal finds an effect by it in every run. What becomes of a call whose effect was begun by
an earlier one:

    the earlier call …                       a caller that remembers its calls   a `RepeatingCaller`
    was cut off                              `reconcile` is asked; else in doubt; never run a second time
    is in doubt                              in doubt, until a person settles it
    still runs                               runs                                waits for that result, or in doubt
    timed out or was cancelled while it ran  runs                                in doubt, within the window
    has its result, also one that cannot be  runs, unless the run of the         that result, if it was begun before the
    used                                     earlier call was cut off: then      conversation, or was told to be in
                                             that result, within the window      doubt, and within the window; else runs
    was allowed and has not run              asks again                          runs by that decision, once
    waits for a person's decision            asks again                          waits for the same decision
    was denied after it was answered as      asks again                          is denied, once: nobody was told of
    one that waits                                                               that decision yet
    failed, or was denied                    runs                                runs

A caller that remembers its calls by ids, as a framework that is guarded, makes two equal calls of one run on purpose,
also at once. One that may send a call again while it runs (`may_resend`) waits for that result.

Where that result was erased, a person is asked whether the effect is wanted again.
Who got an earlier result instead of an effect is asked, at the next equal call of the run, whether they want it again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.canonical import canonical_json
from handrail.core.context import Context
from handrail.core.errors import INVALID_OUTPUT, InDoubt, InvalidArguments, LeaseHeld, Outcome, ToolError
from handrail.core.events import (
    CallAmended,
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    Recorded,
    RunFinished,
    RunResumed,
)
from handrail.core.ports import EffectMark
from handrail.core.redact import redact
from handrail.execute.arguments import read_arguments
from handrail.execute.attempt import CallAttempt
from handrail.execute.policy import Policy
from handrail.execute.run_records import RunRecords
from handrail.tools.tool import Tool

_QUESTION = b"?"
"""Behind the identity of an effect: that of the question about it."""
WHY_AGAIN = "an equal call was made a short time ago and its result was given; is it wanted again, on purpose?"
WHY_ERASED = "an equal call was made a short time ago and took effect; its result was erased. Is it wanted again?"
_DOUBTFUL = frozenset(("timeout", "cancelled"))


class EffectOverlap(Exception):
    """Somebody began an equal effect since it was last looked for. It never leaves the executor."""


class EarlierCall(Struct, frozen=True):
    """A call as the record has it."""

    run: str
    id: str
    asked: ConfirmationRequested | None
    answer: ConfirmationAnswered | None
    intended: CallIntended | None
    settled: CallSettled | CallAmended | None
    cut_off: bool
    """Whether its run was taken up by another process after it was begun."""
    finished: bool
    """Whether its run was ended in order."""

    @classmethod
    def read(cls, mark: EffectMark, history: list[Recorded]) -> EarlierCall:
        asked = answer = intended = settled = None
        cut_off = finished = False
        for event in history:
            match event:
                case RunFinished():
                    finished = True
                case RunResumed():
                    finished, cut_off = False, intended is not None
            if getattr(event, "call_id", None) != mark.call_id:
                continue
            match event:
                case ConfirmationRequested():
                    asked, answer = event, None
                case ConfirmationAnswered() if asked is not None and event.request == asked.request and answer is None:
                    answer = event
                case CallIntended():
                    intended, settled, cut_off = event, None, False
                case CallSettled() | CallAmended(why="person"):
                    settled = event
        return cls(mark.run, mark.call_id, asked, answer, intended, settled, cut_off, finished)

    @property
    def is_open(self) -> bool:
        """Whether it was begun, and its end is not on record."""
        return self.intended is not None and self.settled is None

    @property
    def waits(self) -> bool:
        """Whether it has not run because no person has decided, or because nobody has been told of the decision."""
        return self.asked is not None and self.intended is None and self.settled is None

    def is_before(self, moment: int) -> bool:
        """Whether it was begun, or asked about, before a moment in milliseconds since 1970."""
        began = self.intended or self.asked
        return began is not None and began.at < moment

    @property
    def where(self) -> str:
        return f"run {self.run}, call {self.id}"


def effect_identity(context: Context, tool: Tool, arguments: dict[str, Any]) -> bytes:
    """The same for every call that means the same side effect, and for no other."""
    caller = context.repeating
    owner = context.principal.id if caller is None else caller.owner
    if caller is not None and caller.key:
        return canonical_json([owner, tool.scoped_name, "key", caller.key])
    return canonical_json([owner, tool.scoped_name, _telling(tool, arguments)])


def _telling(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that say which effect it is: all of them, if it has none of those that the tool names."""
    found = {name: arguments.get(name) for name in tool.effect_key or ()}
    return arguments if all(value is None for value in found.values()) else found


class Settle(Protocol):
    async def __call__(self, call: ToolCall, context: Context, *, only_find_out: bool) -> ToolResult:
        """Settle a call that was begun; with `only_find_out` it does not run again."""
        ...


class EarlierEffects:
    """Looks for the effect of a call among those that were begun before, and answers the call by it."""

    def __init__(self, runs: RunRecords, policy: Policy, invoke: Settle) -> None:
        self._runs = runs
        self._policy = policy
        self._invoke = invoke

    async def answer(self, attempt: CallAttempt, tool: Tool) -> ToolResult | None:
        """The answer to a call whose effect was begun by an earlier one; None if it may run.

        Raises:
            InDoubt: Whether the effect took place is not known.
        """
        journal = self._runs.effects
        if journal is None or tool.reusable or tool.replays:
            return None
        attempt.effect = effect_identity(attempt.context, tool, attempt.arguments)
        mark = await journal.last_effect(attempt.effect)
        attempt.effect_seen = None if mark is None else mark.seq
        for found in (mark, await journal.last_effect(attempt.effect + _QUESTION)):
            if found is not None and (found.run, found.call_id) != (attempt.recorder.run, attempt.call.id):
                earlier = await self._read(found)
                _check_key(earlier, attempt, tool)
                if (result := await self._answer_by(earlier, attempt, tool)) is not None:
                    return result
        return None

    async def _read(self, mark: EffectMark) -> EarlierCall:
        return EarlierCall.read(mark, await self._runs.history(mark.run))

    async def _answer_by(self, earlier: EarlierCall, attempt: CallAttempt, tool: Tool) -> ToolResult | None:
        if earlier.settled is not None and earlier.intended is not None:
            return await self._result_of(earlier, earlier.settled, attempt, tool)
        caller = attempt.context.repeating
        if earlier.run == attempt.recorder.run:
            if earlier.is_open and earlier.id in attempt.recorder.ledger.before:
                raise InDoubt(_in_doubt(tool, earlier))
            sent_again = caller is not None and caller.may_resend and earlier.is_open
            if caller is None or not (sent_again or earlier.is_before(caller.since)):
                return None  # it runs or waits at this moment: whoever asked for it asked twice
        may_wait = earlier.waits and caller is not None and _has_arguments(earlier, attempt, tool)
        return await self._take_up(earlier, attempt, tool) if earlier.is_open or may_wait else None

    async def _take_up(self, earlier: EarlierCall, attempt: CallAttempt, tool: Tool) -> ToolResult | None:
        """Settle the earlier call, in its own run, and answer by that."""
        repeating = attempt.context.repeating
        if repeating is None and not earlier.cut_off and self._runs.is_under_way(earlier.run):
            return None  # it is under way in another session of this process
        arguments, others = attempt.arguments, False
        if tool.effect_key is not None:
            began = earlier.intended or earlier.asked
            if began is None or not isinstance(began.arguments, dict):
                raise InDoubt(_in_doubt(tool, earlier))
            others = not _is_recorded(attempt.arguments, began.arguments, tool)
            arguments = began.arguments
        call = ToolCall(earlier.id, attempt.call.name, arguments)
        context = replace(attempt.context, run=earlier.run)
        try:
            with self._runs.taking_up(earlier.run):
                result = await self._invoke(call, context, only_find_out=others)
        except LeaseHeld as error:
            now = await self._read(EffectMark(0, earlier.run, earlier.id))  # its holder may have settled it meanwhile
            if now.settled is not None and now.intended is not None:
                return await self._result_of(now, now.settled, attempt, tool)
            if not now.is_open or (repeating is None and not now.cut_off):
                return None
            raise InDoubt(f"{_in_doubt(tool, earlier)}; it is being worked on by {error.holder}") from error
        if result.outcome == "in_doubt":
            raise InDoubt(f"{_in_doubt(tool, earlier)} ({result.text})")
        if others and result.outcome == "failed":
            return None  # it never took effect, and nobody asks any more for what it would do
        if earlier.waits:
            return _received(result, attempt, f"this is the result of the equal call that waited ({earlier.where})")
        if result.outcome in _DOUBTFUL and repeating is not None:
            raise InDoubt(_in_doubt(tool, earlier))
        note = f"not run again: this is the result of an equal call that was running ({earlier.where});"
        return _received(result, attempt, f"{note} if it is wanted again, call it again")

    async def _result_of(
        self, earlier: EarlierCall, settled: CallSettled | CallAmended, attempt: CallAttempt, tool: Tool
    ) -> ToolResult | None:
        if settled.outcome == "in_doubt":
            raise InDoubt(_in_doubt(tool, earlier))
        caller, is_same_run = attempt.context.repeating, earlier.run == attempt.recorder.run
        window = self._policy.repeat_window if tool.repeat_window is None else tool.repeat_window
        if self._runs.now() - settled.at > window * 1000 and not (caller and caller.key):
            return None
        if isinstance(settled, CallSettled) and settled.outcome in _DOUBTFUL and caller is not None:
            raise InDoubt(_in_doubt(tool, earlier))
        if isinstance(settled, CallAmended):
            may_be_same = True  # a person found it out, and whoever asked for it was only told that nobody knew
        elif caller is not None:
            may_be_same = earlier.is_before(caller.since) or bool(caller.key)
        else:
            may_be_same = not (earlier.finished or is_same_run or await self._runs.is_live(earlier.run))
        may_be_same = may_be_same or (not is_same_run and _was_told(attempt, tool, "in_doubt"))
        if not may_be_same or not _took_effect(settled):
            return None
        if settled.result is None:
            attempt.why_again = WHY_ERASED
            return None
        if not (caller and caller.key) and _was_told(attempt, tool, "ok"):
            attempt.why_again = WHY_AGAIN
            return None
        at = datetime.fromtimestamp(settled.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        note = f"not run again: this is the result of an equal call at {at} ({earlier.where}); if it is wanted again,"
        return _received(settled.result, attempt, f"{note} call it again and a person is asked")


def question_identity(attempt: CallAttempt) -> bytes | None:
    """The identity of the question about a call, where the journal finds effects."""
    return None if attempt.effect is None else attempt.effect + _QUESTION


def _has_arguments(earlier: EarlierCall, attempt: CallAttempt, tool: Tool) -> bool:
    """Whether a call that waits has the arguments of this one, and not only its effect key: it would run with its own,
    and a person's approval covers those alone."""
    asked = None if earlier.asked is None else earlier.asked.arguments
    wanted = redact(tool.masked(attempt.arguments))
    return asked is None or canonical_json(redact(asked)) == canonical_json(wanted)


def _took_effect(settled: CallSettled | CallAmended) -> bool:
    """Whether a call did what it was asked, also if its result could not be used."""
    result = settled.result
    is_unusable = result is not None and result.error is not None and result.error.code == INVALID_OUTPUT
    return settled.outcome == "ok" or is_unusable


def _check_key(earlier: EarlierCall, attempt: CallAttempt, tool: Tool) -> None:
    """Hold a call to what its client's key meant before.

    Raises:
        ToolError: The key was for other arguments. Those that were erased, or that a person changed, cannot be
            compared.
    """
    caller, began = attempt.context.repeating, earlier.intended or earlier.asked
    if caller is None or not caller.key or began is None or not isinstance(began.arguments, dict):
        return
    if earlier.answer is not None and earlier.answer.edited:
        return
    if not _is_recorded(attempt.arguments, began.arguments, tool):
        raise ToolError(
            "duplicate_id",
            f"the idempotency key of this call was used before for {tool.name!r} with other arguments"
            f" ({earlier.where}); it did nothing: another effect needs another key",
        )


def _is_recorded(arguments: dict[str, Any], recorded: dict[str, Any], tool: Tool) -> bool:
    """Whether the record has these arguments, as far as that can be told where it masks some."""
    wanted = canonical_json(redact(recorded))
    return any(canonical_json(redact(masked(arguments))) == wanted for masked in (tool.exact, tool.masked))


def _was_told(attempt: CallAttempt, tool: Tool, outcome: Outcome) -> bool:
    """Whether a call of this run was answered so in place of this effect before, as far as its record tells: by an
    earlier result, or that nobody knows."""
    wanted = _recorded_identity(tool, attempt.arguments)
    for written in attempt.recorder.ledger.answered_unrun.get((tool.scoped_name, outcome), ()):
        try:
            arguments, _ = read_arguments(ToolCall("", tool.name, written), tool, lenient=True)
        except InvalidArguments:  # it was erased, or a mask stands where something else must
            return True
        if _recorded_identity(tool, arguments) == wanted:
            return True
    return False


def _recorded_identity(tool: Tool, arguments: dict[str, Any]) -> bytes:
    return canonical_json(redact(tool.masked(_telling(tool, arguments))))


def _received(result: ToolResult, attempt: CallAttempt, note: str) -> ToolResult:
    return replace(result, tool_call_id=attempt.call.id, name=attempt.call.name, warnings=(*result.warnings, note))


def _in_doubt(tool: Tool, earlier: EarlierCall) -> str:
    return (
        f"{tool.name!r} was begun before by an equal call ({earlier.where}), and whether it took effect is not known;"
        f" do not repeat it: ask a person to check, and to say so: handrail confirm settle {earlier.run} {earlier.id}"
    )
