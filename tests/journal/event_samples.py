"""Events for the tests of the journal: fixed ones, and strategies that make any."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from handrail.core.calls import Attachment, Problem, ToolResult
from handrail.core.confirmation import ConfirmationSubject
from handrail.core.errors import OUTCOMES
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
    ToolsOffered,
)

AT = 1_700_000_000_000


def started(run: str = "run-1") -> RunStarted:
    return RunStarted(run=run, at=AT, tools="sha256:00")


def finished(run: str = "run-1", reason: str = "answered") -> RunFinished:
    return RunFinished(run=run, at=AT + 9, reason=reason)


def intended(number: int = 0, run: str = "run-1", arguments: Any = None) -> CallIntended:
    return CallIntended(
        run=run,
        at=AT + 1,
        call_id=f"call-{number}",
        tool="io:write",
        side_effects=True,
        idempotent=False,
        key=f"key-{number}",
        arguments={"path": f"notes/{number}.txt", "text": "héllo"} if arguments is None else arguments,
    )


def settled(number: int = 0, run: str = "run-1", content: Any = "written") -> CallSettled:
    return CallSettled(
        run=run,
        at=AT + 2,
        call_id=f"call-{number}",
        tool="io:write",
        outcome="ok",
        duration_us=1500,
        ran=True,
        result=ToolResult(f"call-{number}", "io:write", content, duration_us=1500),
    )


def asked(number: int = 0, run: str = "run-1") -> ConfirmationRequested:
    return ConfirmationRequested(
        run=run,
        at=AT + 1,
        request=f"ask-{number}",
        call_id=f"call-{number}",
        tool="io:write",
        binds="sha256:11",
        asked=ConfirmationSubject({"path": "a"}, "nonce_1"),
    )


def granted(number: int = 0, run: str = "run-1") -> ConfirmationAnswered:
    return ConfirmationAnswered(
        run=run,
        at=AT + 2,
        request=f"ask-{number}",
        call_id=f"call-{number}",
        binds="sha256:11",
        decision="allow",
        by="ada",
    )


def whole_run(run: str = "run-1", calls: int = 3) -> list[Recorded]:
    """A run with its calls, as the runtime would record it."""
    events: list[Recorded] = [started(run), ToolsOffered(run=run, at=AT, tools=("io:write", "io:read"))]
    for number in range(calls):
        events += [intended(number, run), settled(number, run)]
    return [*events, finished(run)]


any_text = st.text(st.characters(), max_size=12)
"""Any Python text, lone surrogates included."""
texts = st.text(max_size=12)
numbers = st.integers(-(2**53) + 1, 2**53 - 1)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text | st.just("$text"), inner, max_size=3),
    max_leaves=6,
)
results = st.builds(
    ToolResult,
    tool_call_id=any_text,
    name=any_text,
    content=values,
    outcome=st.sampled_from(OUTCOMES),
    error=st.none() | st.builds(Problem, any_text, any_text),
    warnings=st.lists(any_text, max_size=2).map(tuple),
    attachments=st.lists(st.builds(Attachment, texts, texts, st.binary(max_size=8)), max_size=1).map(tuple),
)


questions = st.builds(ConfirmationSubject, arguments=st.dictionaries(any_text, values, max_size=2), nonce=any_text)


def events(text: st.SearchStrategy[str] = any_text) -> st.SearchStrategy[Recorded]:
    place = {"run": text, "at": numbers}
    call = {**place, "call_id": text, "tool": text}
    return st.one_of(
        st.builds(RunStarted, **place, tools=text, principal=text),
        st.builds(RunResumed, **place, tools=text, principal=text),
        st.builds(RunFinished, **place, reason=text),
        st.builds(ToolsOffered, **place, tools=st.lists(text, max_size=3).map(tuple)),
        st.builds(CallAsked, **call, principal=text, arguments=values),
        st.builds(
            CallIntended,
            **call,
            side_effects=st.booleans(),
            idempotent=st.booleans(),
            key=text,
            grant=st.none() | text,
            arguments=values,
        ),
        st.builds(
            CallSettled,
            **call,
            outcome=st.sampled_from(OUTCOMES),
            duration_us=numbers,
            ran=st.booleans(),
            result=st.none() | results,
        ),
        st.builds(
            CallAmended,
            **call,
            outcome=st.sampled_from(OUTCOMES),
            why=st.sampled_from(["late", "person"]),
            result=st.none() | results,
        ),
        st.builds(ConfirmationRequested, **call, request=text, binds=text, asked=st.none() | questions),
        st.builds(
            ConfirmationAnswered,
            **place,
            call_id=text,
            request=text,
            binds=text,
            decision=st.sampled_from(["allow", "deny"]),
            by=text,
            reason=text,
            edited=st.booleans(),
        ),
    )
