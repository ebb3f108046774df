"""Calls of a framework's tools, settled by our executor: checked, confirmed, recorded, and with an effect once.

The framework keeps its loop, its model and its conversation. Its id of the conversation names our run, so that a call
which the framework makes again after a crash, by the same id or by a new one, is found in the record. A run is held
only while a call of it is under way: the next request of the conversation may come to another process.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import shlex
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required, TypedDict, TypeVar, Unpack
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.calls import Output, ToolCall, ToolResult
from handrail.core.confirmation import Confirmation, Decision, Defer
from handrail.core.context import LOCAL, Context, Principal, RepeatingCaller
from handrail.core.errors import InDoubt, LeaseHeld, ToolError, UsageError
from handrail.core.events import CallIntended, CallSettled, ConfirmationAnswered, ConfirmationRequested, Event
from handrail.core.ids import new_id
from handrail.core.invocation import Invocation
from handrail.core.ports import Approver, Journal, SystemClock
from handrail.core.usage_checks import check_keyword_names
from handrail.execute.approvers import AnyApprover, as_approver
from handrail.execute.arguments import locate_arguments
from handrail.execute.attempt import handler_failure, refusal_result
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.execute.rules import Rules
from handrail.sync import Portal
from handrail.tools.definition import ToolDefinition
from handrail.tools.tool import Tool, ToolOptions

if TYPE_CHECKING:
    from handrail.journal.journal import SqliteJournal

T = TypeVar("T")

_SUSPENDED = "suspended"
"""The code of a call whose tool stopped itself and is called again, as to ask a person something."""
_MOST_RUNS = 100_000
_LEASE_LOOKS = 0.05


@dataclass(slots=True)
class FrameworkCall:
    """One call of a framework's tool, and what came of it."""

    id: str
    arguments: dict[str, Any] | str
    run: str
    """The conversation, by the id that the framework has for it."""
    perform: Callable[[dict[str, Any]], Any]
    """Runs the tool, a plain or an async function; in a thread if it is plain."""
    written: Callable[[Any], Any]
    """What the tool gave, as JSON for the record."""
    word: Decision | None = None
    """What a person said of this call through the framework."""
    owner: str = ""
    suspends: tuple[type[Exception], ...] = ()
    """What a tool raises to be called again later, as a framework's interrupt."""
    failure: Callable[[Any], str | None] = lambda value: None
    """Why what the tool gave says that it failed, where a framework tells that by a value."""
    question: Confirmation | None = None
    """What a person has to decide before it runs."""
    asked_now: bool = False
    """Whether the question was put on record just now, so that nobody can have answered it yet."""
    raised: Exception | None = None
    """What the tool raised in this process."""
    value: Any = None
    """What the tool gave in this process."""
    content: Any = None
    """The same, as it was written."""
    performed: bool = False

    async def note(self, event: Event) -> None:
        """Learn what happens to it."""
        if isinstance(event, ConfirmationRequested):
            self.asked_now = True

    def answer(self, result: ToolResult) -> Any:
        """What the framework gets: the tool's own value, unless it was cut, or is from the record, or needs a word."""
        if self.performed and not result.warnings and result.content == self.content:
            return self.value
        return text_with_warnings(result) if result.warnings else result.content


def text_with_warnings(result: ToolResult) -> str:
    """A result as a model reads it."""
    return "\n".join((result.text, *(f"Warning: {each}" for each in result.warnings)))


_current: contextvars.ContextVar[FrameworkCall | None] = contextvars.ContextVar("handrail_framework_call", default=None)


class FrameworkApprover:
    """Takes the word that the framework brings for the call; else asks another approver, or leaves the question to the
    framework."""

    def __init__(self, otherwise: Approver | None) -> None:
        self._otherwise = otherwise

    async def decide(self, question: Confirmation) -> Decision:
        call = _current.get()
        if call is not None and call.word is not None:
            return call.word
        if self._otherwise is not None and not isinstance(decision := await self._otherwise.decide(question), Defer):
            return decision
        if call is not None:
            call.question = question
        return Defer()


@dataclass(frozen=True, slots=True)
class AskedCalls:
    """What the record of a conversation says of its calls, by their ids."""

    waiting: frozenset[str] = frozenset()
    """Those that were asked about and have no answer yet."""
    known: frozenset[str] = frozenset()
    """Those, and all that were answered."""
    suspended: frozenset[str] = frozenset()
    """Those whose tool stopped itself."""


class GuardOptions(TypedDict, total=False):
    """What `guard` takes beside the tools."""

    journal: Required[Journal | str | Path]
    rules: Iterable[str]
    approver: AnyApprover | None
    policy: Policy
    reads: Sequence[str]
    options: Mapping[str, ToolOptions] | None
    owner: str | Callable[[Any], str] | None
    run: str | Callable[[Any], str] | None


class GuardedCalls:
    """What guarded tools share: the journal, the rules, and how each tool is treated. It may be used from any number of
    event loops and threads."""

    def __init__(self, **given: Unpack[GuardOptions]) -> None:
        check_keyword_names("guard", given, GuardOptions.__annotations__)
        if (journal := given.get("journal")) is None:
            raise UsageError("guard() needs a journal, as journal='agent.db': what happens once, happens once in it")
        self._journal = Path(journal) if isinstance(journal, str) else journal
        self._rules, approver = tuple(given.get("rules", ())), as_approver(given.get("approver"))
        self._approver = Rules(self._rules, otherwise=FrameworkApprover(approver))
        self._is_asked_here = approver is not None
        self._policy = given.get("policy", Policy())
        reads = given.get("reads", ())
        self._reads = (reads,) if isinstance(reads, str) else tuple(reads)
        self._options = dict(given.get("options") or {})
        self._owner = given.get("owner")
        self._run = given.get("run")
        for name, treated in self._options.items():
            check_keyword_names(f"options[{name!r}]", treated, ToolOptions.__annotations__)
        self._tools: BoundedMemory[tuple[str, bool], Tool] = BoundedMemory(1000, lru=True)
        self._open: tuple[int, SqliteJournal] | None = None
        self._executors: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Journal, Executor]] = WeakKeyDictionary()
        self._under_way: Counter[tuple[int, str]] = Counter()
        self._begun: BoundedMemory[str, int] = BoundedMemory(_MOST_RUNS)
        """When a run was first worked on here: what was done in it before that was done by another process."""
        self._own_run = new_id("run")
        self._lock = threading.Lock()
        self._portal: Portal | None = None
        self._clock = SystemClock()

    def tool(
        self,
        name: str,
        description: str,
        schema: Mapping[str, Any],
        *,
        reads: bool | None = None,
        timeout: float | None = None,
    ) -> Callable[[bool], Tool]:
        """The tool as our executor sees it: with an async handler, or with a plain one. One about which nothing is said
        has side effects.

        Raises:
            UsageError: An option is none of a tool, or its schema is none.
        """
        facts: dict[str, Any] = {"timeout": timeout, **self._options.get(name, {})}
        if any(fnmatchcase(name, pattern) for pattern in self._reads):
            reads = True
        facts.setdefault("side_effects", not reads)
        names = ToolDefinition.__struct_fields__
        treatment = {key: facts.pop(key) for key in list(facts) if key not in names}
        facts = {"name": name, "description": description, "input_schema": {**schema}, **facts}
        facts["input_schema"].setdefault("type", "object")

        def make(plain: bool) -> Tool:
            handler = _perform_plain if plain else _perform
            return Tool(ToolDefinition(**facts), handler, style="invocation", **treatment)

        key = msgspec.json.encode(facts, enc_hook=repr).decode()

        def found(plain: bool) -> Tool:
            with self._lock:
                if (known := self._tools.get((key, plain))) is None:
                    known = self._tools[key, plain] = make(plain)
                return known

        return found

    def owner_of(self, context: Any) -> str:
        """Whose effect it is, from what the framework knows of the call; empty: its conversation's."""
        return self._owner(context) if callable(self._owner) else self._owner or ""

    def run_of(self, context: Any, known: str | None) -> str:
        """The run of a call: the one that the program names; else the conversation that the framework knows."""
        return (self._run(context) if callable(self._run) else self._run) or known or self._own_run

    async def waits_for_word(self, tool: Tool, arguments: dict[str, Any]) -> bool:
        """Whether a call will wait for a person, for a framework that asks before it calls a tool."""
        if tool.reads or self._is_asked_here or not self._policy.confirm_side_effects:
            return False
        if tool.validator.problems(arguments):
            return False  # it will be refused
        arguments = tool.complete(arguments)
        question = Confirmation(
            request="",
            run="",
            call_id="",
            tool=tool.scoped_name,
            description=tool.definition.description,
            arguments=arguments,
            binds="",
            definition=tool.digest,
            locations=await locate_arguments(tool, arguments),
        )
        return isinstance(await Rules(self._rules).decide(question), Defer)

    def how_to_allow(self, call: FrameworkCall) -> str:
        """The command by which a person allows a call that waits, where their framework cannot ask them."""
        if call.question is None or not isinstance(self._journal, Path):
            return ""
        where = shlex.quote(str(self._journal.absolute()))
        return f"; to allow it: handrail confirm allow {call.question.request} --journal {where}"

    async def settle(self, of_kind: Callable[[bool], Tool], call: FrameworkCall) -> ToolResult:
        """Settle a call in the event loop of its framework. `call` tells afterwards what the tool gave or raised.

        Raises:
            JournalError: The record cannot be kept, so the tool did not run, or nobody can say how it ended.
        """
        tool = of_kind(not inspect.iscoroutinefunction(call.perform))
        executor = await self._executor()
        _take_in(executor, tool)
        run = call.run
        with self._lock:
            if run not in self._begun:
                self._begun[run] = self._clock.now()
            since = self._begun[run]
        owner = call.owner or run
        context = Context(
            run=run,
            principal=Principal(call.owner) if call.owner else LOCAL,
            repeating=RepeatingCaller(owner, since),
            deps=call,
            raised={},
        )
        token = _current.set(call)
        try:
            return await self._invoke(executor, tool, call, context)
        finally:
            _current.reset(token)

    async def _invoke(self, executor: Executor, tool: Tool, call: FrameworkCall, context: Context) -> ToolResult:
        id = call.id
        while True:
            result = await self._with_lease(executor, ToolCall(id, tool.name, call.arguments), context, call)
            if call.raised is not None or result.error is None or result.error.code != _SUSPENDED:
                return result
            id = f"{id}~"  # it stopped itself before, and this is its next turn

    async def _with_lease(
        self, executor: Executor, call: ToolCall, context: Context, told: FrameworkCall
    ) -> ToolResult:
        """Settle a call, and let its run go with the last that is under way here."""
        place, waited = (id(executor), context.run), 0.0
        self._under_way[place] += 1
        try:
            while True:
                try:
                    return await executor.invoke(call, context, told.note)
                except LeaseHeld as error:
                    if waited >= self._policy.timeout:
                        why = f"it was not run here, but {error.holder} works on this conversation and may have run it"
                        return refusal_result(call, InDoubt(f"{call.name!r}: {why}; do not repeat it"))
                await self._clock.sleep(_LEASE_LOOKS)
                waited += _LEASE_LOOKS
                with self._lock:  # what the other does meanwhile was done before this call, and may be what it asks for
                    since = self._begun[context.run] = self._clock.now()
                assert context.repeating is not None
                context = replace(context, repeating=replace(context.repeating, since=since))
        finally:
            self._under_way[place] -= 1
            if not self._under_way[place]:
                del self._under_way[place]
                executor.runs.let_go(context.run)

    def settle_blocking(self, of_kind: Callable[[bool], Tool], call: FrameworkCall) -> ToolResult:
        """Settle a call for a framework that waits in a thread."""
        context = contextvars.copy_context()
        perform = call.perform
        call.perform = lambda arguments: context.run(perform, arguments)
        return self.wait(self.settle(of_kind, call))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in a thread that has no event loop."""
        with self._lock:
            if self._portal is None or self._portal.closed:
                self._portal = Portal()
            portal = self._portal
        return portal.call(work)

    async def questions(self, run: str) -> AskedCalls:
        """What the record of a conversation says of its calls."""
        open_by_request, known, suspended = dict[str, str](), set[str](), set[str]()
        for event in await (await self._opened()).history(run):
            match event:
                case ConfirmationRequested():
                    open_by_request[event.request] = event.call_id
                    known.add(event.call_id)
                case ConfirmationAnswered():
                    open_by_request.pop(event.request, None)
                case CallIntended() | CallSettled():
                    known.add(event.call_id)
                    error = event.result.error if isinstance(event, CallSettled) and event.result else None
                    if error is not None and error.code == _SUSPENDED:
                        suspended.add(event.call_id)
        return AskedCalls(frozenset(open_by_request.values()), frozenset(known), frozenset(suspended))

    async def _executor(self) -> Executor:
        loop, journal = asyncio.get_running_loop(), await self._opened()
        with self._lock:
            known = self._executors.get(loop)
            if known is None or known[0] is not journal:
                executor = Executor((), journal=journal, approver=self._approver, policy=self._policy)
                known = self._executors[loop] = journal, executor
        return known[1]

    async def _opened(self) -> Journal:
        """The journal. A file is opened at the first call, and again where it failed, or in a child of this process."""
        if not isinstance(self._journal, Path):
            return self._journal
        if self._open is None or self._open[0] != os.getpid() or self._open[1].has_failed:
            from handrail.journal.shared_journals import keep_journal_open  # SQLite and cryptography load when used

            journal, leave = await keep_journal_open(self._journal)
            self._open = os.getpid(), journal
            weakref.finalize(self, _close, os.getpid(), leave)
        return self._open[1]


def _take_in(executor: Executor, tool: Tool) -> None:
    if tool.name not in executor.tools:
        executor.include(tool)
    elif executor.tools.find(tool.name) is not tool:
        executor.replace(tool)


async def _perform(invocation: Invocation[FrameworkCall]) -> Output:
    call = invocation.deps
    try:
        value = call.perform(invocation.arguments)
        call.value = await value if inspect.isawaitable(value) else value
    except Exception as error:
        raise _noted(call, error) from error
    return _taken(call)


def _perform_plain(invocation: Invocation[FrameworkCall]) -> Output:
    call = invocation.deps
    try:
        call.value = call.perform(invocation.arguments)
    except Exception as error:
        raise _noted(call, error) from error
    return _taken(call)


def _taken(call: FrameworkCall) -> Output:
    call.performed, call.content = True, call.written(call.value)
    if (why := call.failure(call.value)) is not None:
        raise ToolError("failed", why)
    return Output(call.content)


def _noted(call: FrameworkCall, error: Exception) -> ToolError:
    """The framework gets the exception itself, so nothing is logged of it; the record has its words."""
    call.raised = error
    if isinstance(error, call.suspends):
        return ToolError(_SUSPENDED, "the tool stopped itself, to be called again")
    return error if isinstance(error, ToolError) else handler_failure(error)


def _close(process: int, leave: Callable[[], None]) -> None:
    """Sign the journal's end when nobody has the tools any more, or at the end of the process."""
    if process == os.getpid():
        leave()
