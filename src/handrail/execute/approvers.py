"""What may stand for an approver: one itself, a function, or the word "terminal".

    Session(llm, tools=tools, approver=lambda question: question.arguments["cents"] <= 5000)
    Session(llm, tools=tools, approver="terminal")

A plain function runs in a thread of its own, so it may block, as `input()` does. It is asked one question at a time.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast, overload

import msgspec

from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny, Edit
from handrail.core.errors import UsageError
from handrail.core.ports import Approver
from handrail.core.usage_checks import nearest_name_hint
from handrail.execute.isolation.handler_work import HandlerThreads
from handrail.tools.registry import RegisteredTools

ApproverAnswer = bool | Mapping[str, Any] | Decision
"""What a function may return: True or False, other arguments for the call, or a decision."""
ApproverFunction = Callable[[Confirmation], ApproverAnswer | Awaitable[ApproverAnswer]]
"""A plain or an async function of the question."""


class PlainApprover(Protocol):
    """An object that decides as a plain function does."""

    def decide(self, question: Confirmation) -> ApproverAnswer: ...


AnyApprover = Approver | PlainApprover | ApproverFunction | Literal["terminal"]
"""What every `approver=` takes."""


@overload
def as_approver(given: AnyApprover, tools: RegisteredTools | None = None) -> Approver: ...
@overload
def as_approver(given: AnyApprover | None, tools: RegisteredTools | None = None) -> Approver | None: ...
def as_approver(given: AnyApprover | None, tools: RegisteredTools | None = None) -> Approver | None:
    """Turn an approver, a function or `"terminal"` into an approver.

    A person at the terminal is asked about calls of `tools`.

    Raises:
        UsageError: It is not an approver; the message says what to give instead.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return _named(given, tools)
    if isinstance(given, type):
        raise UsageError(f"{given.__name__} is a class of approvers; give one of them, as {given.__name__}()")
    if callable(decide := getattr(given, "decide", None)):
        return cast(Approver, given) if _is_async(decide) else FunctionApprover(decide, type(given).__name__)
    if callable(given):
        return FunctionApprover(given)
    raise UsageError(f"approver= takes a function, an object with decide(question), or 'terminal'; not {given!r}")


def _named(name: str, tools: RegisteredTools | None) -> Approver:
    if name != "terminal":
        raise UsageError(f"there is no approver {name!r}{nearest_name_hint(name, ['terminal'])}")
    from handrail.execute.terminal.approver import TerminalApprover  # it needs termios, which not every system has

    return TerminalApprover(tools=tools)


@dataclass(frozen=True, slots=True)
class FunctionApprover:
    """An `Approver` by a function."""

    function: ApproverFunction
    of: str = ""
    """The class whose method it is, if it is one."""
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    async def decide(self, question: Confirmation) -> Decision:
        """
        Raises:
            UsageError: The function returned something else than an answer, or changed what it was shown.
        """
        shown = msgspec.structs.replace(question, arguments=deepcopy(question.arguments))
        decision = self._decision(await self._call(shown))
        if isinstance(decision, Allow) and shown.arguments != question.arguments:
            raise UsageError(
                f"{self._name} changed question.arguments and returned {decision!r}, which is about the arguments as"
                " they were; return the changed arguments instead"
            )
        return decision

    def _decision(self, answer: Any) -> Decision:
        match answer:
            case True:
                return Allow(self._name)
            case False:
                return Deny(self._name)
            case Allow() | Deny() | Edit() | Defer():
                return answer
            case Mapping():
                return Edit(self._name, dict(answer))
        raise UsageError(
            f"{self._name} returned {answer!r}; return True or False, other arguments as a dict,"
            " or Allow, Deny, Edit or Defer of handrail.confirm"
        )

    async def _call(self, question: Confirmation) -> Any:
        if _is_async(self.function):
            answer: Any = self.function(question)
        else:
            answer = await self._in_thread(question)
        return await answer if inspect.isawaitable(answer) else answer

    async def _in_thread(self, question: Confirmation) -> Any:
        """What the function returns in a thread that ends with it; nobody waits for it once this is cancelled."""
        is_withdrawn = threading.Event()

        def ask() -> Any:
            with self._one_at_a_time:
                return None if is_withdrawn.is_set() else self.function(question)

        threads = HandlerThreads()
        work = threads.start(ask)
        threads.close()
        try:
            return await asyncio.shield(work.future)
        finally:
            is_withdrawn.set()

    @property
    def _name(self) -> str:
        """The name that goes on record for a decision."""
        name = self.of or getattr(self.function, "__name__", type(self.function).__name__)
        return f"approver {name!r}" if name.isidentifier() else "the approver function"


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
