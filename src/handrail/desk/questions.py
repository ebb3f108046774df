"""Questions to the person at the desk: what waits for a decision, and the decision.

It is the approver of an app, made before the app is. It answers only for runs that
the desk has open, a turn of a conversation or a tool that is tried; every other run
is left to whoever answers later. Where an MCP server does not say for which of
several runs it asks, it is asked in each of them, and each is told of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from msgspec import Struct

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.confirmation import Allow, Confirmation, Decision as Word, Defer, Deny, Edit
from handrail.core.display import browser_safe, exact_json, read_edited_object
from handrail.core.errors import UsageError
from handrail.core.ids import run_and_above
from handrail.core.ports import Approver
from handrail.core.secret_pointers import restore_masked
from handrail.desk.feed import DeskNews
from handrail.desk.rule_offers import describe_rule_offers, suggest_rules
from handrail.desk.values import DeskQuestion
from handrail.tools.registry import RegisteredTools
from handrail.tools.schema.validator import Validator

Decision = Literal["allow", "always", "deny", "edit", "later"]
Listen = Callable[[str, Any], None]
"""Told ("question", Question), and ("answered", {"request", "decision", "by"})."""
_NAME = 60
"""Letters of what a run is called in a question."""
_REMEMBERED = 10_000
"""Questions of the desk's own that are told from those of other programs."""


class _AttendedRun(Struct, frozen=True):
    conversation: str
    listen: Listen
    name: str
    """What a person calls it."""


class _PendingQuestion(Struct, frozen=True):
    shown: dict[str, DeskQuestion]
    """The question as it is shown in each run that it may belong to."""
    rules: tuple[str, ...]
    asked: Confirmation
    validator: Validator | None
    word: asyncio.Future[tuple[Word, str]]
    """The name of the decision."""


class PendingQuestions:
    def __init__(self, by: str = "local") -> None:
        self.by = by
        """Whose word it is."""
        self._attended: dict[str, _AttendedRun] = {}
        """By run."""
        self._open: dict[str, _PendingQuestion] = {}
        self._claimed: set[str] = set()
        """Questions that somebody is about to answer."""
        self._asked_here: BoundedMemory[str, None] = BoundedMemory(_REMEMBERED)
        """Requests that the desk asked itself; some were put off, and still wait in the journal."""

    def knowing(self, tools: RegisteredTools) -> Approver:
        """The approver of runs that have these tools."""
        return _DeskApprover(self, tools)

    @contextmanager
    def attend(self, run: str, conversation: str, listen: Listen, name: str = "") -> Iterator[None]:
        """Ask about the calls of this run for as long as the block lasts, and what MCP servers ask in the middle of
        them. `name` is what a person calls it."""
        self._attended[run] = _AttendedRun(conversation, listen, name or conversation)
        try:
            yield
        finally:
            self._withdraw(run, self._attended.pop(run))

    @property
    def questions(self) -> tuple[DeskQuestion, ...]:
        """All questions, each once, as it is shown in one of the runs that it may belong to."""
        return tuple(next(iter(each.shown.values())) for each in self._open.values())

    def of(self, conversation: str) -> tuple[DeskQuestion, ...]:
        shown = (each for waiting in self._open.values() for each in waiting.shown.values())
        return tuple(each for each in shown if each.conversation == conversation)

    def is_own(self, run: str, request: str) -> bool:
        """Whether the desk asks this itself, or did."""
        return request in self._asked_here or any(each in self._attended for each in run_and_above(run))

    def waits(self, request: str) -> bool:
        """Whether nobody has answered it, and it is still asked."""
        waiting = self._open.get(request)
        return waiting is not None and not waiting.word.done()

    def tell(self, news: DeskNews, heard: Any) -> None:
        """What a run was told, to all who watch the desk. What is over in it may still wait in another."""
        request = heard.request if isinstance(heard, DeskQuestion) else heard["request"]
        waits = next((each for each in self.questions if each.request == request), None)
        if waits is None:
            news.tell("answered", request, request)
        else:
            news.tell("question", request, waits)

    async def ask(self, asked: Confirmation, tools: RegisteredTools) -> Word:
        runs = run_and_above(asked.run) if asked.meant is None else asked.meant
        attended = {run: self._attended[run] for run in runs if run in self._attended}
        if not attended:
            return Defer()
        waiting = _opened(asked, tools, attended)
        self._open[asked.request] = waiting
        self._asked_here[asked.request] = None
        decision = "stopped"
        try:
            for run, each in attended.items():
                each.listen("question", waiting.shown[run])
            word, decision = await waiting.word
            return word
        finally:
            del self._open[asked.request]
            for run in waiting.shown:
                attended[run].listen("answered", self._answered(asked.request, decision))

    def _withdraw(self, run: str, attended: _AttendedRun) -> None:
        """A run is over: what may still be about others is asked there only, and the rest of nobody."""
        for request, waiting in [*self._open.items()]:
            if run not in waiting.shown:
                continue
            if len(waiting.shown) > 1:
                del waiting.shown[run]
                attended.listen("answered", self._answered(request, "stopped"))
            elif not waiting.word.done():
                waiting.word.set_result((Defer(), "stopped"))

    def _answered(self, request: str, decision: str) -> dict[str, str]:
        return {"request": request, "decision": decision, "by": self.by}

    def word(
        self,
        request: str,
        decision: Decision,
        *,
        arguments: dict[str, Any] | str | None = None,
        reason: str = "",
        rule: str | None = None,
    ) -> Word:
        """What a decision means for a question.

        Raises:
            UsageError: No such question waits, or it cannot be answered so.
        """
        waiting = self._waiting(request)
        if arguments is not None and decision != "edit":
            raise UsageError(f"only an edit changes the arguments, and this is {decision!r}")
        match decision:
            case "deny":
                return Deny(self.by, reason)
            case "later":
                return Defer()
            case "edit":
                return Edit(self.by, _edited(waiting, arguments))
            case "always" if rule not in waiting.rules:
                offered = "; ".join(waiting.rules) or "none can be set for this call"
                raise UsageError(f"{rule!r} is not a rule that was offered; there are: {offered}")
        return Allow(self.by)

    @contextmanager
    def claimed(self, request: str) -> Iterator[None]:
        """Reserves a question until the block ends, so that nobody else answers it meanwhile.

        Raises:
            UsageError: Somebody was quicker.
        """
        self._waiting(request)
        self._claimed.add(request)
        try:
            yield
        finally:
            self._claimed.discard(request)

    def answer(self, request: str, word: Word, decision: Decision) -> None:
        """Let the call go on with a person's decision.

        Raises:
            UsageError: Somebody was quicker.
        """
        self._waiting(request).word.set_result((word, decision))

    def _waiting(self, request: str) -> _PendingQuestion:
        if not self.waits(request) or request in self._claimed:
            raise UsageError(f"question {request!r} does not wait for an answer; somebody may have answered it already")
        return self._open[request]


class _DeskApprover:
    def __init__(self, asking: PendingQuestions, tools: RegisteredTools) -> None:
        self._asking = asking
        self._tools = tools

    async def decide(self, question: Confirmation) -> Word:
        return await self._asking.ask(question, self._tools)


def _opened(asked: Confirmation, tools: RegisteredTools, attended: dict[str, _AttendedRun]) -> _PendingQuestion:
    tool = tools.find(asked.tool) if asked.tool in tools else None
    schema: dict[str, Any] = {}
    validator: Validator | None = None
    rules: tuple[str, ...] = ()
    if asked.form is not None:
        validator = Validator(asked.form, "the form", root="(answer)")
    elif tool is not None:
        schema, validator = tool.definition.input_schema, tool.validator
        rules = suggest_rules(asked)
    shown = {
        run: DeskQuestion(
            request=asked.request,
            conversation=each.conversation,
            run=asked.run,
            call_id=asked.call_id,
            tool=asked.tool,
            description=asked.description + _for(asked),
            arguments=browser_safe(asked.shown),
            written=exact_json(asked.shown),
            input_schema=schema,
            why=asked.why + _others(asked, attended, run),
            rules=rules,
            offers=describe_rule_offers(rules, asked),
            form=asked.form,
        )
        for run, each in attended.items()
    }
    return _PendingQuestion(shown, rules, asked, validator, asyncio.get_running_loop().create_future())


def _for(asked: Confirmation) -> str:
    """The agents for which the question is asked, if some led to the call."""
    return f" (for {' → '.join(asked.agents)})" if asked.agents else ""


def _others(asked: Confirmation, attended: dict[str, _AttendedRun], run: str) -> str:
    """The other runs for which the question may be asked."""
    others = [f"{each.name[:_NAME]!r}" for other, each in attended.items() if other != run]
    elsewhere = len(asked.meant or (run,)) - len(attended)
    others += [f"{elsewhere} that {'is' if elsewhere == 1 else 'are'} not at this desk"] if elsewhere else []
    return f": this one, or {', or '.join(others)}" if others else ""


def _edited(waiting: _PendingQuestion, arguments: dict[str, Any] | str | None) -> dict[str, Any]:
    if arguments is None:
        raise UsageError("an edit needs the arguments that are to be used")
    if waiting.validator is None:
        raise UsageError("this question can only be answered with yes or no")
    shown, edited = waiting.asked.shown, arguments
    if isinstance(edited, str):
        edited = read_edited_object(edited)
    else:
        shown = browser_safe(shown)
    meant: dict[str, Any] = restore_masked(edited, shown, waiting.asked.arguments)
    if problems := waiting.validator.problems(meant):
        raise UsageError(f"these arguments do not fit: {'; '.join(problems)}")
    return meant
