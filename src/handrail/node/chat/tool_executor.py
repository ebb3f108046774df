"""HearthNet's `ToolExecutor`: the calls of a model, run on a bus, and the chat around them.

It is thin: our executor settles each call, our runner loops, and the model is whoever
serves `llm.chat` on the bus. Everything it asks of the bus it asks for its caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

import msgspec

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.calls import Problem, ToolCall, ToolResult
from handrail.core.closing import ClosedOnExit
from handrail.core.context import Context
from handrail.core.errors import BusError, JournalError, ModelError, ToolError, UnknownTool
from handrail.core.ids import NewId, new_id
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.ports import Journal
from handrail.core.redact import Secret
from handrail.core.usage_checks import check_keyword_names, keyword_names
from handrail.execute.approvers import AnyApprover, as_approver
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.request import Caller, CallTerms
from handrail.node.chat.bound_tools import bound_tool
from handrail.node.chat.builtin_tools import builtin_tools
from handrail.node.chat.confirmations import (
    BY,
    MOST,
    ChatConfirmation,
    Confirmations,
    allow_confirmation,
    decline_confirmation,
)
from handrail.node.chat.tool_chat import BusChat, ChatFrameSender, StreamTo, native_tool_dicts
from handrail.tools.definition import ToolDefinition
from handrail.tools.registry import RegisteredTools, registered

REQUIRES_CONFIRMATION = "requires_confirmation"


class ToolSettings(Protocol):
    """The six settings of HearthNet's `config.llm`."""

    @property
    def tools_enabled(self) -> bool: ...
    @property
    def tools_max_iterations(self) -> int: ...
    @property
    def tools_per_tool_timeout_seconds(self) -> float: ...
    @property
    def tools_max_parallel(self) -> int: ...
    @property
    def tools_default_set(self) -> Sequence[str]: ...
    @property
    def tools_require_confirmation_for_side_effects(self) -> bool: ...


class ToolExecutor(ClosedOnExit):
    """Tools that a model may call, and the bus on which they run."""

    def __init__(
        self,
        bus: Bus,
        tools: Iterable[Any],
        *,
        max_iterations: int = 6,
        per_tool_timeout_seconds: float = 30,
        max_concurrent: int = 4,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        caller: Caller | None = None,
        token: str | None = None,
        how: Mapping[str, Any] | None = None,
        approver: AnyApprover | None = None,
        require_confirmation: bool = True,
        confirmation_seconds: float | None = 300.0,
        interactive: bool = False,
        journal: Journal | None = None,
        deps: Any = None,
        new_id: NewId = new_id,
    ) -> None:
        """`tools` are definitions, dicts of them, names of built-in ones, or tools and functions that run themselves.

        A definition runs by the handler of its name, or else by the capability that it is bound to. `caller` and
        `token` go with every call; inside a capability, give `how=request.passed_on()` instead. A chat waits so
        many `confirmation_seconds` for a decision on a side effect; then the model is told that there was none.

        Raises:
            UsageError: Something is not a tool, or two have one name.
        """
        self._bus = bus
        terms = CallTerms.of(how or {})
        # An id, or what is meant by a schema, is for one call: here many are made.
        self._terms = msgspec.structs.replace(
            terms,
            caller=caller or terms.caller,
            token=Secret(token) if token else terms.token,
            call_id=None,
            schema_hash=None,
        )
        self._max_iterations = max_iterations
        self._interactive = interactive
        self._new_id = new_id
        self._confirmations = Confirmations(as_approver(approver), confirmation_seconds)
        self._calls = BoundedMemory[tuple[str, str], ToolCall](MOST)
        """As they were first written, by run and id: a word is for exactly these."""
        self._confirmed: Counter[str] = Counter()
        """By run, how many calls are under way on a person's decision."""
        policy = Policy(
            timeout=per_tool_timeout_seconds,
            concurrency=max_concurrent,
            max_depth=max_iterations,
            confirm_side_effects=require_confirmation,
        )
        self._executor = Executor(
            self._registered(tools, handlers or {}),
            policy=policy,
            approver=self._confirmations,
            journal=journal,
            deps=deps,
            new_id=new_id,
        )

    @classmethod
    def with_builtin(cls, bus: Bus, *names: str, **options: Any) -> Self:
        """An executor with the built-in tools of these names; without names, with the seven that only read."""
        check_keyword_names("ToolExecutor", options, keyword_names(ToolExecutor))
        return cls(bus, builtin_tools(*names), **options)

    @classmethod
    def from_config(cls, bus: Bus, llm: ToolSettings, tools: Iterable[Any] = (), **options: Any) -> Self:
        """An executor as `config.llm` describes it, with its default set of built-in tools, and `tools` besides."""
        check_keyword_names("ToolExecutor", options, keyword_names(ToolExecutor))
        chosen = [*builtin_tools(*llm.tools_default_set), *tools] if llm.tools_default_set else list(tools)
        return cls(
            bus,
            chosen if llm.tools_enabled else (),
            max_iterations=llm.tools_max_iterations,
            per_tool_timeout_seconds=llm.tools_per_tool_timeout_seconds,
            max_concurrent=llm.tools_max_parallel,
            require_confirmation=llm.tools_require_confirmation_for_side_effects,
            **options,
        )

    def _registered(self, tools: Iterable[Any], handlers: Mapping[str, Callable[..., Any]]) -> RegisteredTools:
        found: list[Any] = []
        for item in tools:
            if isinstance(item, str):
                (item,) = builtin_tools(item)
            elif isinstance(item, Mapping):
                item = ToolDefinition.from_dict(item)
            runs = isinstance(item, ToolDefinition)
            found.append(bound_tool(item, self._bus, self._terms, handlers) if runs else item)
        return registered(*found)

    @property
    def native_definitions(self) -> list[dict[str, Any]]:
        """The tools as `input.tools` of `llm.chat@2.0` has them."""
        return native_tool_dicts(self._executor.tools.definitions)

    async def dispatch(self, call: ToolCall) -> ToolResult:
        """Run one call. What goes wrong is in the result. An id is settled once: asked again, it has the same answer.

        Raises:
            ToolError: It changes something, and nobody has confirmed it (`requires_confirmation`).
        """
        result = await self._invoke(call, self._executor.run)
        if result.outcome == "needs_confirmation":
            raise ToolError(REQUIRES_CONFIRMATION)
        return result

    async def dispatch_confirmed(self, call: ToolCall) -> ToolResult:
        """Run a call that a person has confirmed: this id with these arguments, once.

        Of a chat that waits for the word, the call goes on there, and this is its result too. A call that was asked
        about with other arguments is refused, and so is a second use.
        """
        if not self._asks(call):
            return await self.dispatch(call)
        call = self._with_id(call)
        if not self._confirmations.of(call.id):
            result = await self._invoke(call, self._executor.run)
            if result.outcome != "needs_confirmation":
                return result
        question = self._question(call)
        if isinstance(question, str):
            return _refused(call, question)
        run = question.asked.run
        self._confirmed[run] += 1
        try:
            return await self._confirmed_now(question, self._calls.get((run, call.id), call), run)
        finally:
            self._confirmed[run] -= 1
            if not self._confirmed[run]:
                del self._confirmed[run]
                await self._finish(run)

    async def _confirmed_now(self, question: ChatConfirmation, call: ToolCall, run: str) -> ToolResult:
        if allow_confirmation(question):
            return await self._invoke(call, run)
        await self._executor.answer(run, question.asked.request, allow=True, by=BY)
        result = await self._invoke(call, run)
        # A chat may just have stopped waiting for the word: then that was its answer, and this one is ours.
        return await self._invoke(call, run) if result.outcome == "needs_confirmation" else result

    def decline(self, call: ToolCall, reason: str = "") -> bool:
        """Say no to a call of a chat that waits for a decision; whether one did."""
        question = self._question(call)
        return not isinstance(question, str) and decline_confirmation(question, reason)

    async def run_chat_with_tools(
        self, chat_request_body: Mapping[str, Any], *, stream_to: StreamTo | None = None
    ) -> dict[str, Any]:
        """Ask `llm.chat@2.0` until no tool is called, or the limit is reached: the final message of the assistant.

        `stream_to` gets every frame as it arrives, with one `done` or `error` at the end.

        Raises:
            BusError: The chat was not available, with a code of the closed set.
            JournalError: The record cannot be kept, so nothing more may run.
        """
        reader = ChatFrameSender(stream_to)
        try:
            text, end = await self._chat(chat_request_body, reader)
        except (BusError, ModelError) as error:
            told = _bus_error(error)
            await reader.send("error", told.to_dict())
            raise told from error
        except JournalError:
            await reader.send("error", BusError("internal_error", "the record of the chat cannot be kept").to_dict())
            raise
        await reader.send("done", end)
        return {"role": "assistant", "content": text}

    async def _chat(self, body: Mapping[str, Any], reader: ChatFrameSender) -> tuple[str, dict[str, Any]]:
        run = self._new_id("run")
        ask = reader.ask if reader.has_listener else None
        context = self._context(run)
        chat = BusChat(
            self._bus,
            self._executor,
            body,
            reader,
            terms=self._terms,
            context=context,
            max_iterations=self._max_iterations,
            note=lambda call: self._note(call, run),
        )
        try:
            with self._confirmations.chat(run, ask):
                return await (chat.in_one_stream() if self._interactive else chat.run())
        finally:
            await self._finish(run)

    async def _finish(self, run: str) -> None:
        """End the run of a chat that is over, unless a call of it runs, or somebody may yet decide on one."""
        goes_on = run == self._executor.run or self._confirmations.is_chat(run) or run in self._confirmed
        if not goes_on and not self._confirmations.are_open(run):
            await self._executor.finish(run)

    async def aclose(self) -> None:
        """End what still runs where that is possible. Bus and journal are their owners' to close."""
        await self._executor.aclose()

    def _context(self, run: str) -> Context:
        terms = self._terms
        return Context(
            run=run,
            principal=terms.caller.principal,
            deadline=terms.deadline,
            depth=terms.depth,
            within=terms.within,
            trace=terms.trace,
        )

    async def _invoke(self, call: ToolCall, run: str) -> ToolResult:
        call = self._with_id(call)
        self._note(call, run)
        return await self._executor.invoke(call, self._context(run))

    def _with_id(self, call: ToolCall) -> ToolCall:
        return call if call.id else msgspec.structs.replace(call, id=self._new_id("call"))

    def _note(self, call: ToolCall, run: str) -> None:
        if self._asks(call):
            self._calls.setdefault((run, call.id), call)

    def _asks(self, call: ToolCall) -> bool:
        """Whether a person's decision is needed for it."""
        try:
            tool = self._executor.tools.find(call.name)
        except UnknownTool:
            return False
        return not tool.reads and self._executor.policy.confirm_side_effects

    def _question(self, call: ToolCall) -> ChatConfirmation | str:
        """What was asked about exactly this call and has no word yet; or why there is no such thing."""
        try:
            tool = self._executor.tools.find(call.name)
            given = call.arguments if isinstance(call.arguments, dict) else parse_object(call.arguments)
        except JSONTextError as error:
            return f"the arguments are not a JSON object: {error}"
        except UnknownTool as error:
            return str(error)
        asked = [each for each in self._confirmations.of(call.id) if each.asked.tool == tool.scoped_name]
        same = [each for each in asked if each.is_about(tool.complete(given))]
        if not same:
            return "it was asked about with other arguments; ask again, for these"
        unused = [each for each in same if not each.used]
        return unused[-1] if unused else "its approval was already used; an approval is valid once"


def _refused(call: ToolCall, why: str) -> ToolResult:
    words = f"{REQUIRES_CONFIRMATION}: {why}"
    return ToolResult(call.id, call.name, words, "denied", error=Problem(REQUIRES_CONFIRMATION, words))


def _bus_error(error: BusError | ModelError) -> BusError:
    if isinstance(error, BusError):
        return error
    cause = error.__cause__
    return cause if isinstance(cause, BusError) else BusError("internal_error", str(error))
