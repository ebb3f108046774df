"""What a session runs on: an executor and a runner over a journal, made in the event loop that first uses them.

A session that was given no journal keeps its record in memory, so that what it did can
be verified while it is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.context import Context
from handrail.core.events import Emit, Event
from handrail.core.ids import NewId
from handrail.core.messages import Conversation
from handrail.core.model_request import ModelRequest, ToolChoice
from handrail.core.ports import Authoriser, Clock, Embedder, Journal, Model, Spill, Tracer
from handrail.execute.approvers import AnyApprover
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.journal.in_memory import InMemoryJournal
from handrail.run.agents import Agent
from handrail.run.code.code_mode import CodeMode, CodeSettings
from handrail.run.limits import Limits
from handrail.run.offering import NO_PROGRAMS, Offering, Programs
from handrail.run.planning import Plans
from handrail.run.runner import Runner
from handrail.run.single_run import OnError, OnWait
from handrail.run.transcript import Follow
from handrail.sessions.prompt_turns import PromptTurns
from handrail.tools.answer_type import AnswerType
from handrail.tools.registry import RegisteredTools, prepared_tools


class ExecutorParts(TypedDict, total=False):
    """What an executor may be given besides tools, policy, journal and approver."""

    authoriser: Authoriser
    spill: Spill
    embedder: Embedder
    clock: Clock
    new_id: NewId
    tracer: Tracer


_PARTS = ("policy", *ExecutorParts.__annotations__)


class SessionOptions(ExecutorParts, total=False):
    """How a session treats calls and runs, and the parts of its executor."""

    policy: Policy
    """How calls are treated."""
    limits: Limits
    """How far a run may go."""
    offering: Offering
    """Which tools a turn offers."""
    on_error: OnError
    """What becomes of a call that fails."""
    context: Context
    """The caller's context."""
    plan: Plans
    """True: the model states a plan before it reads anything, and what follows it needs no question for where its
    values come from. "ask": a person allows the plan at once, and is asked about everything else."""


class SessionSetup(Struct, frozen=True, kw_only=True):
    """Everything about a session but what was said in it. A fork has the same."""

    model: Model
    tools: tuple[Any, ...]
    """The tools as they were given: what an ensemble has is known when it is prepared."""
    defaults: ModelRequest
    journal: Journal | Path | None
    """An open journal, the file of one, or none: then the record is kept in memory as long as the session is open."""
    approver: AnyApprover | None
    deps: Any
    """What the tools get besides their arguments."""
    deps_type: Any
    """The type of what each prompt gives them, where the session gives nothing."""
    options: SessionOptions
    code: CodeSettings | Literal["service"] | None
    """The place where code of the model runs that calls the tools: here, or at the service. None: the model calls them
    itself."""
    on_wait: OnWait = "tell"
    """Whether the model is told that a call waits for a person, or the run pauses at the call."""
    agent: Agent | None = None
    """The agent that speaks first, if the session was given an agent."""


_LIMITS, _OFFERING = Limits(), Offering()


class SessionEngine:
    """One executor and one runner for one run."""

    def __init__(
        self,
        setup: SessionSetup,
        run: str,
        tools: RegisteredTools,
        journal: Journal,
    ) -> None:
        self.run_id = run
        self.prompts: PromptTurns = PromptTurns()
        self._journal = journal
        self._lives = AsyncExitStack()
        """What is closed after the executor: where code runs, the journal and the ensembles, which others may use."""
        options = setup.options
        parts: dict[str, Any] = {key: value for key, value in options.items() if key in _PARTS}
        self.executor: Executor = Executor(
            tools, approver=setup.approver, journal=journal, deps=setup.deps, deps_type=setup.deps_type, **parts
        )
        self._code = (
            CodeMode(self.executor, setup.code, pauses=setup.on_wait == "pause")
            if isinstance(setup.code, CodeSettings)
            else None
        )
        self._runner = Runner(
            setup.model,
            self.executor,
            options.get("limits", _LIMITS),
            on_error=options.get("on_error", "surface"),
            on_wait=setup.on_wait,
            defaults=setup.defaults,
            offering=options.get("offering", _OFFERING),
            programs=self._programs(setup),
            team=None if setup.agent is None else setup.agent.as_team(),
            plans=options.get("plan", False),
        )
        self.context: Context = replace(options.get("context", Context()), run=run)

    def _programs(self, setup: SessionSetup) -> Programs:
        if self._code is not None:
            return Programs(self._code.hidden)
        if setup.code is None:
            return NO_PROGRAMS
        return Programs(frozenset(tool.name for tool in self.executor.tools), by_service=True)

    def briefed(self, conversation: Conversation) -> Conversation:
        """What the model is told of the functions that its code may call is in the conversation, if code is wanted."""
        return conversation if self._code is None else self._code.briefed(conversation)

    @property
    def tools(self) -> RegisteredTools:
        """What its calls may name."""
        return self.executor.runs.tools_of(self.run_id)

    @classmethod
    async def open(cls, setup: SessionSetup, run: str) -> SessionEngine:
        async with AsyncExitStack() as lives:
            journal = await _journal(setup.journal, lives)
            match setup.tools:
                case (RegisteredTools() as tools,):
                    pass
                case items:
                    tools = await lives.enter_async_context(prepared_tools(items))
            engine = cls(setup, run, tools, journal)
            if engine._code is not None:
                lives.push_async_callback(engine._code.aclose)
            engine._lives = lives.pop_all()
        return engine

    @property
    def journal(self) -> Journal:
        return self._journal

    @property
    def provable(self) -> Path | InMemoryJournal | None:
        """The file of the journal, or the journal that is kept in memory; None for one of another kind."""
        if isinstance(self._journal, InMemoryJournal):
            return self._journal
        path: Path | None = getattr(self._journal, "path", None)
        return path

    async def run(
        self,
        conversation: Conversation,
        emit: Emit,
        tool_choice: ToolChoice,
        follow: Follow,
        returns: AnswerType[Any] | None = None,
        deps: Any = None,
        grown_from: Conversation | None = None,
        context: Context | None = None,
    ) -> Conversation:
        """Run the loop; with `returns`, until the model has given an answer of that type.

        A `context` names another run than that of this session, which is worked on with the same model and tools.
        """
        context = context or self.context
        return await self._runner.run(
            conversation,
            context if deps is None else replace(context, deps=deps),
            emit,
            tool_choice=tool_choice,
            follow=follow,
            returns=returns,
            grown_from=grown_from,
        )

    def recorded(self, run: str) -> Conversation | None:
        """The conversation of a run as the record had it when it was last worked on here; None if that is forgotten."""
        return self._runner.recorded(run)

    async def aclose(self) -> None:
        """End the prompts that are being answered and the run in the record, and let go of everything."""
        await self.prompts.aclose()
        async with self._lives, self.executor:
            await self.executor.finish(self.run_id)


async def _journal(given: Journal | Path | None, lives: AsyncExitStack) -> Journal:
    if given is None:
        return InMemoryJournal()
    if not isinstance(given, Path):
        return given
    from handrail.journal.shared_journals import shared_journal  # SQLite and cryptography load when they are used

    return await lives.enter_async_context(shared_journal(given))


async def stream_emitted(work: Callable[[Emit], Coroutine[Any, Any, Any]]) -> AsyncGenerator[Event, None]:
    """Everything that the work emits, then what it raises. Closing the stream cancels the work and waits for it."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    task = asyncio.create_task(work(events.put))
    task.add_done_callback(lambda done: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # nobody waits for it any more
