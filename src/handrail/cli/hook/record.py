"""The entries of a coding agent's calls, in the one journal: those that the executor would write.

Each hook is a process of its own, and several may run at once. What one of them looks for is found by the index of
effects, so that a long journal makes it no slower.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from handrail.cli.hook.hooked_call import OWNER, HookedCall
from handrail.cli.hook.hosts import NAMES
from handrail.core.calls import Problem, ToolResult
from handrail.core.canonical import canonical_json
from handrail.core.confirmation import ConfirmationSubject, grant_binding
from handrail.core.errors import JournalError
from handrail.core.events import (
    CallAmended,
    CallAsked,
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    Recorded,
    RunFinished,
    RunResumed,
    RunStarted,
)
from handrail.core.ids import new_id
from handrail.journal.database import JournalBusy
from handrail.journal.entry import SALT_SIZE, EffectNote, EntryDraft, column_for_id, draft
from handrail.journal.writer import JournalWriter

PATIENCE = 5.0
"""Seconds to wait for another process that is writing."""
_PAUSE = 0.005
_MOST_UNSIGNED = 32
"""Entries that may stand without a signature although no call has ended."""
_MOST = 64
"""Equal effects that are looked through for one call."""
_LONGEST = 64 * 1024
"""Characters of a result in the record."""
_T = TypeVar("_T")


class KnownCall(Struct, frozen=True):
    """An equal call as the record has it."""

    seq: int
    began: CallIntended | ConfirmationRequested
    answer: ConfirmationAnswered | None
    intended: CallIntended | None
    settled: CallSettled | CallAmended | None

    @property
    def is_open(self) -> bool:
        return self.intended is not None and self.settled is None

    @property
    def waits(self) -> bool:
        """Whether it was asked about and has not run: its answer, if there is one, is not used."""
        return self.intended is None and self.settled is None


class HookRecord:
    """A journal, for the moment of one hook. Use it in a `with` block."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._writer = JournalWriter.open(path, patience=PATIENCE)
        self._sealing = self._writer.signer.sealing
        self._signs = False
        """Whether a call has ended: an intent is signed with its end, and so costs less while the agent waits."""

    def __enter__(self) -> HookRecord:
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            if self._writer.failure is None and (self._signs or self._writer.unsigned > _MOST_UNSIGNED):
                self._patiently(self._writer.checkpoint)
        finally:
            self._writer.close()

    def effects(self, call: HookedCall) -> Iterator[KnownCall]:
        """The calls that began this effect, the last one first."""
        return self._known_calls(call.identity)

    def seen(self, call: HookedCall) -> int | None:
        """The place in the journal where this effect was last begun."""
        return self._last(call.identity)

    def question(self, call: HookedCall) -> KnownCall | None:
        """The last question about this effect."""
        return next(self._known_calls(call.question), None)

    def unused_word(self, call: HookedCall) -> tuple[ConfirmationRequested, ConfirmationAnswered] | None:
        """A person's decision on this effect that no call has used up, and what they were asked."""
        found = self.question(call)
        if found is None or not found.waits or found.answer is None or found.answer.edited:
            return None
        if not isinstance(found.began, ConfirmationRequested):
            return None
        used = any(each.intended and each.intended.grant == found.began.request for each in self.effects(call))
        return None if used else (found.began, found.answer)

    def _known_calls(self, identity: bytes) -> Iterator[KnownCall]:
        for seq, began in self._writer.effects(self._sealing.blind(identity), _MOST):
            if isinstance(began, CallIntended | ConfirmationRequested):
                yield self._read(seq, began)

    def _read(self, seq: int, began: CallIntended | ConfirmationRequested) -> KnownCall:
        answer: ConfirmationAnswered | None = None
        settled: CallSettled | CallAmended | None = None
        intended = began if isinstance(began, CallIntended) else None
        for event in self._writer.events_of_call(seq, column_for_id(began.run), column_for_id(began.call_id)):
            match event:
                case ConfirmationAnswered() if answer is None:
                    answer = event
                case CallIntended() if intended is None:
                    intended = event
                case CallSettled() | CallAmended(why="person"):
                    settled = event
                    break
        return KnownCall(seq, began, answer, intended, settled)

    def ask(self, call: HookedCall, why: str) -> ConfirmationRequested:
        """Write a question down."""
        asked = self._question(call, why)
        self._write(call, [self._noted(asked, call.question)])
        return asked

    def begin(self, call: HookedCall, rule: str, grant: ConfirmationRequested | None, seen: int | None) -> bool:
        """Write down that a call is about to run, by a rule, on a person's decision or by the host's own permissions;
        False if an equal one was begun meanwhile."""
        entries: list[EntryDraft] = []
        if rule:
            grant = self._question(call, "")
            said = grant.answered("allow", at=_now(), by=rule)
            entries = [self._noted(grant, call.question), self._draft(said)]
        request = None if grant is None else grant.request
        note = EffectNote(self._sealing.blind(call.identity), seen)
        entries.append(replace(self._draft(_intent(call, request)), effect=note))
        self._write(call, entries)
        return note.written

    def refuse(self, call: HookedCall, reason: str, rule: str = "") -> None:
        """Write down that a call was denied: by a rule, or by a person whose answer is on record."""
        self._signs = True
        entries: list[EntryDraft] = []
        if rule:
            asked = self._question(call, "")
            entries = [self._noted(asked, call.question)]
            entries.append(self._draft(asked.answered("deny", at=_now(), by=rule)))
        asked_for = CallAsked(
            run=call.run, at=_now(), call_id=call.call_id, tool=call.tool, principal=OWNER, arguments=call.arguments
        )
        result = ToolResult(call.call_id, call.event.tool, reason, "denied", Problem("denied", reason))
        self._write(call, [*entries, self._draft(asked_for), self._draft(_settled(call, result, 0, ran=False))])

    def settle(self, call: HookedCall) -> None:
        """Write down what became of a call."""
        self._signs = True
        known = next((each for each in self.effects(call) if self._is_it(each, call)), None)
        if known is not None and known.intended is not None:
            if known.settled is None:
                call = replace(call, call_id=known.intended.call_id)
                self._write(call, [self._draft(_result(call, known.intended.at))])
            return
        if call.event.reads:
            self._write(call, [self._draft(_intent(call, None)), self._draft(_result(call, 0))], durable=False)
            return
        question, entries = self.question(call), list[EntryDraft]()
        request = None
        if question is not None and question.waits and self._is_it(question, call):
            assert isinstance(question.began, ConfirmationRequested)
            call, request = replace(call, call_id=question.began.call_id), question.began.request
            if question.answer is None:
                by = f"the person whom {NAMES[call.event.host]} asked"
                said = question.began.answered("allow", at=_now(), by=by)
                entries.append(replace(self._draft(said), request=request))
        note = EffectNote(self._sealing.blind(call.identity), self._last(call.identity))
        entries.append(replace(self._draft(_intent(call, request)), effect=note))
        self._write(call, [*entries, self._draft(_result(call, 0))])

    def _is_it(self, known: KnownCall, call: HookedCall) -> bool:
        """Whether it is this very call; where the host gives no id, the one of the session that is still open."""
        if known.began.run != call.run:
            return False
        return known.began.call_id == call.call_id if call.event.call_id else known.settled is None

    def finish(self, run: str, reason: str) -> None:
        """Write down that a session has ended, if it did anything."""
        self._signs = True
        if not self._patiently(lambda: self._writer.is_new(column_for_id(run))) and not self._is_finished(run):
            self._commit([self._run_note(RunFinished(run=run, at=_now(), reason=reason))], durable=False)

    def take_up(self, call: HookedCall) -> None:
        """Write down that a session goes on, if it had not ended: its agent was killed, and may not have kept what
        became of its last calls."""
        run = call.run
        if not self._patiently(lambda: self._writer.is_new(column_for_id(run))) and not self._is_finished(run):
            resumed = RunResumed(run=run, at=_now(), tools=call.definition, principal=OWNER)
            self._commit([self._noted(resumed, _cuts(run))], durable=True)

    def was_cut_off_since(self, known: KnownCall) -> bool:
        """Whether the session of a call was killed and taken up after it."""
        last = self._last(_cuts(known.began.run))
        return last is not None and last > known.seq

    def _is_finished(self, run: str) -> bool:
        found = self._writer.effects(self._sealing.blind(_ends(run)), 1)
        return bool(found) and isinstance(found[0][1], RunFinished)

    def _write(self, call: HookedCall, entries: list[EntryDraft], *, durable: bool = True) -> None:
        run, tools = call.run, call.definition
        if self._patiently(lambda: self._writer.is_new(column_for_id(run))):
            entries = [self._draft(RunStarted(run=run, at=_now(), tools=tools, principal=OWNER)), *entries]
        elif self._is_finished(run):
            resumed = RunResumed(run=run, at=_now(), tools=tools, principal=OWNER)
            entries = [self._run_note(resumed), *entries]
        self._commit(entries, durable=durable)

    def _run_note(self, event: RunFinished | RunResumed) -> EntryDraft:
        return self._noted(event, _ends(event.run))

    def _commit(self, entries: list[EntryDraft], *, durable: bool) -> None:
        self._patiently(lambda: self._writer.commit(entries, durable))

    def _question(self, call: HookedCall, why: str) -> ConfirmationRequested:
        nonce = new_id("nonce")
        binds = grant_binding(nonce, call.run, call.call_id, call.tool, call.arguments, call.definition)
        return ConfirmationRequested(
            run=call.run,
            at=_now(),
            request=new_id("confirm"),
            call_id=call.call_id,
            tool=call.tool,
            binds=binds,
            asked=ConfirmationSubject(call.arguments, nonce, call.definition, why=why),
        )

    def _noted(self, event: Recorded, identity: bytes) -> EntryDraft:
        return replace(self._draft(event), effect=EffectNote(self._sealing.blind(identity), self._last(identity)))

    def _last(self, identity: bytes) -> int | None:
        found = self._writer.last_effect(self._sealing.blind(identity))
        return None if found is None else found[0]

    def _draft(self, event: Recorded) -> EntryDraft:
        return draft(event, os.urandom(SALT_SIZE) if event.body is not None else b"", self._sealing)

    def _patiently(self, attempt: Callable[[], _T]) -> _T:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return attempt()
            except JournalBusy:
                if time.monotonic() > until:
                    raise JournalError(
                        f"another process has kept the journal {str(self._writer.path)!r} locked for {PATIENCE:g}"
                        " seconds; end it, then try again"
                    ) from None
                time.sleep(_PAUSE)


def _ends(run: str) -> bytes:
    return canonical_json(["hook", "end of run", run])


def _cuts(run: str) -> bytes:
    return canonical_json(["hook", "cut off", run])


def _intent(call: HookedCall, grant: str | None) -> CallIntended:
    return CallIntended(
        run=call.run,
        at=_now(),
        call_id=call.call_id,
        tool=call.tool,
        side_effects=not call.event.reads,
        idempotent=call.event.idempotent,
        key=new_id("key"),
        principal=OWNER,
        grant=grant,
        arguments=call.arguments,
    )


def _result(call: HookedCall, began: int) -> CallSettled:
    event = call.event
    warnings: tuple[str, ...] = ()
    content: Any = event.response
    text = content if isinstance(content, str) else canonical_json(content).decode()
    if len(text) > _LONGEST:
        content = text[:_LONGEST]
        warnings = (f"the record has the first {_LONGEST:,} of {len(text):,} characters",)
    problem = None if event.outcome == "ok" else Problem(event.outcome, text[:_LONGEST])
    result = ToolResult(call.call_id, event.tool, content, event.outcome, problem, warnings, untrusted=True)
    return _settled(call, result, began, ran=event.outcome != "denied")


def _settled(call: HookedCall, result: ToolResult, began: int, *, ran: bool) -> CallSettled:
    at = _now()
    return CallSettled(
        run=call.run,
        at=at,
        call_id=call.call_id,
        tool=call.tool,
        outcome=result.outcome,
        duration_us=max(0, at - began) * 1000 if began else 0,
        ran=ran,
        result=result,
    )


def _now() -> int:
    return int(time.time() * 1000)
